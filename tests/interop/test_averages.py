"""torch.optim.swa_utils.AveragedModel against the exact answers for averages of iterates."""

import numpy as np
import pytest
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import TensorDataset

import reshuffle as rs
from tests.interop.training import agree, batch_loader, loader, losses, problem, side_by_side

EPOCHS = 4
AVERAGES = [
    rs.EMA(0.7),
    rs.EMA(0.9, per="visit"),
    rs.TailAverage(start=1),
    rs.TailAverage(start=2, per="visit"),
]


def averaged_runs(least_squares, make_loader, average, *, runs, lr, copies_start=True, **settings):
    """The parameters (runs, p) of torch's averaged models, trained as `tests.interop.training.torch_runs` does."""
    data = TensorDataset(torch.tensor(least_squares.X), torch.tensor(least_squares.y))
    # One row of weights per run, and all runs side by side.
    model = torch.nn.Linear(least_squares.p, runs, bias=False, dtype=torch.float64)
    torch.nn.init.zeros_(model.weight)
    moving = isinstance(average, rs.EMA)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(average.decay) if moving else None)
    if moving and copies_start:
        averaged.update_parameters(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, **settings)
    loaders = [make_loader(data, seed) for seed in range(runs)]
    for epoch in range(EPOCHS):
        counts = moving or epoch >= average.start
        for features, responses, sizes in side_by_side(loaders):
            optimizer.zero_grad()
            losses((features @ model.weight[..., None])[..., 0], responses, sizes).backward()
            optimizer.step()
            if counts and average.per == "visit":
                averaged.update_parameters(model)
        if counts and average.per == "epoch":
            averaged.update_parameters(model)
    return averaged.module.weight.detach().numpy().copy()


def load(**arguments):
    return lambda data, seed: loader(data, seed, **arguments)


@pytest.mark.slow
@pytest.mark.parametrize("average", AVERAGES, ids=repr)
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.6, 0.1)])
def test_without_shuffling_the_average_agrees_to_the_last_digit(average, momentum, weight_decay):
    least_squares = problem(14, 6)
    ends = averaged_runs(
        least_squares, load(batch_size=4, shuffle=False), average,
        runs=1, lr=0.03, momentum=momentum, weight_decay=weight_decay,
    )  # fmt: skip
    run = rs.descend(
        least_squares, rs.Cyclic(batch_size=4), step=0.06,
        momentum=momentum, penalty=weight_decay / 2, average=average,
    )  # fmt: skip
    np.testing.assert_allclose(ends[0], run.iterate(EPOCHS), rtol=0, atol=1e-12)


@pytest.mark.parametrize("average", AVERAGES[:2], ids=repr)
def test_an_average_that_copies_its_first_iterate_differs_by_what_is_left_of_the_first_step(average):
    least_squares = problem(14, 6)
    (end,) = averaged_runs(
        least_squares, load(batch_size=4, shuffle=False), average, runs=1, lr=0.03, copies_start=False
    )
    scheme = rs.Cyclic(batch_size=4)
    run = rs.descend(least_squares, scheme, step=0.06, average=average)
    per_visit = average.per == "visit"
    updates = EPOCHS * (4 if per_visit else 1)
    first = rs.descend(least_squares, scheme, step=0.06).iterate(1)
    if per_visit:
        first = 0.06 * least_squares.X[:4].T @ least_squares.y[:4] / 4
    np.testing.assert_allclose(end - run.iterate(EPOCHS), average.decay**updates * first, rtol=0, atol=1e-12)


@pytest.mark.parametrize("average", AVERAGES, ids=repr)
def test_shuffled_batches(average):
    least_squares = problem(12, 4)
    ends = averaged_runs(
        least_squares, lambda data, seed: batch_loader(data, seed, batch_size=3), average,
        runs=200, lr=0.1, momentum=0.5, weight_decay=0.2,
    )  # fmt: skip
    run = rs.descend(
        least_squares, rs.RandomReshuffling(batch_size=3), step=0.2,
        momentum=0.5, penalty=0.1, average=average,
    )  # fmt: skip
    risks, expected = agree(least_squares, ends, run, EPOCHS)
    # The agreement would mean little if runs did not differ.
    assert float(expected.spread) > 1e-4
    assert risks.std() > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("average", AVERAGES, ids=repr)
def test_shuffled_samples(average):
    least_squares = problem(10, 3)
    ends = averaged_runs(least_squares, load(batch_size=4, shuffle=True), average, runs=200, lr=0.15)
    run = rs.descend(least_squares, rs.SampleReshuffling(batch_size=4), step=0.3, average=average, rtol=1e-3)
    _, expected = agree(least_squares, ends, run, EPOCHS)
    assert float(expected.spread) > 1e-4
