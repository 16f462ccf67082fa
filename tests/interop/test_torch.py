"""torch.optim.SGD and DataLoader against the exact answers."""

import numpy as np
import pytest

import reshuffle as rs
from tests.interop.training import agree, batch_loader, loader, problem, torch_runs

LR, EPOCHS = 0.03, 3
"""The step of our convention is twice the learning rate, since MSELoss has no factor 1/2."""


def load(**arguments):
    return lambda data, seed: loader(data, seed, **arguments)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("n", "batch_size"), [(12, 4), (14, 4), (5, 5)])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.7, 0.0), (0.0, 0.2), (0.6, 0.1)])
def test_without_shuffling_it_is_cyclic_to_the_last_digit(n, batch_size, drop_last, momentum, weight_decay):
    least_squares = problem(n, 6)
    ends = torch_runs(
        least_squares,
        load(batch_size=batch_size, shuffle=False, drop_last=drop_last),
        epochs=EPOCHS, runs=1, lr=LR, momentum=momentum, weight_decay=weight_decay,
    )  # fmt: skip
    scheme = rs.Cyclic(batch_size=batch_size, drop_last=drop_last)
    run = rs.descend(least_squares, scheme, step=2 * LR, momentum=momentum, penalty=weight_decay / 2)
    np.testing.assert_allclose(ends[0], run.iterate(EPOCHS), rtol=0, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("n", "batch_size"), [(9, 3), (10, 4)])
def test_shuffling_samples(n, batch_size, drop_last):
    least_squares = problem(n, 3)
    ends = torch_runs(
        least_squares,
        load(batch_size=batch_size, shuffle=True, drop_last=drop_last),
        epochs=EPOCHS, runs=400, lr=0.15,
    )  # fmt: skip
    scheme = rs.SampleReshuffling(batch_size=batch_size, drop_last=drop_last)
    risks, expected = agree(least_squares, ends, rs.descend(least_squares, scheme, step=0.3), EPOCHS)
    # The agreement would mean little if runs did not differ.
    assert float(expected.spread) > 1e-3
    assert risks.std() > 1e-3


@pytest.mark.slow
def test_shuffling_samples_with_momentum_and_weight_decay():
    least_squares = problem(10, 3)
    ends = torch_runs(
        least_squares,
        load(batch_size=4, shuffle=True),
        epochs=EPOCHS, runs=300, lr=0.1, momentum=0.5, weight_decay=0.2,
    )  # fmt: skip
    scheme = rs.SampleReshuffling(batch_size=4)
    run = rs.descend(least_squares, scheme, step=0.2, momentum=0.5, penalty=0.1)
    agree(least_squares, ends, run, EPOCHS)


@pytest.mark.parametrize(("n", "batch_size"), [(12, 3), (11, 3)])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.7, 0.0), (0.6, 0.2)])
def test_shuffling_batches_of_a_fixed_partition(n, batch_size, momentum, weight_decay):
    least_squares = problem(n, 4)
    ends = torch_runs(
        least_squares,
        lambda data, seed: batch_loader(data, seed, batch_size=batch_size),
        epochs=EPOCHS, runs=300, lr=0.1, momentum=momentum, weight_decay=weight_decay,
    )  # fmt: skip
    run = rs.descend(
        least_squares,
        rs.RandomReshuffling(batch_size=batch_size),
        step=0.2,
        momentum=momentum,
        penalty=weight_decay / 2,
    )
    _, expected = agree(least_squares, ends, run, EPOCHS)
    assert float(expected.spread) > 1e-3


def test_sampling_with_replacement():
    least_squares = problem(10, 3)
    ends = torch_runs(
        least_squares, load(batch_size=4, shuffle=None, replacement=True), epochs=EPOCHS, runs=400, lr=0.05
    )
    run = rs.descend(least_squares, rs.SampleWithReplacement(batch_size=4), step=0.1)
    agree(least_squares, ends, run, EPOCHS)


def test_a_learning_rate_scheduler():
    least_squares = problem(12, 4)
    ends = torch_runs(
        least_squares,
        lambda data, seed: batch_loader(data, seed, batch_size=4),
        epochs=EPOCHS, runs=300, lr=0.15, schedule=lambda epoch: 1 / (1 + epoch),
    )  # fmt: skip
    run = rs.descend(least_squares, rs.RandomReshuffling(batch_size=4), step=lambda epoch: 0.3 / (1 + epoch))
    agree(least_squares, ends, run, EPOCHS)
