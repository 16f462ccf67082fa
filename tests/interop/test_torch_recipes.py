"""What torch.optim.SGD is given beside a learning rate, in real training, against the exact answers."""

import numpy as np
import pytest
import torch

import reshuffle as rs
from tests.interop.training import agree, batch_loader, in_order, loader, problem, torch_runs

LR, EPOCHS = 0.03, 3
"""The step of our convention is twice the learning rate, since MSELoss has no factor 1/2."""


@pytest.mark.parametrize(("n", "p"), [(14, 6), (5, 9)])
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.7, 0.0), (0.6, 0.1)])
def test_nesterov_without_shuffling_to_the_last_digit(n, p, momentum, weight_decay):
    least_squares = problem(n, p)
    ends = torch_runs(
        least_squares, in_order(4),
        epochs=EPOCHS, runs=1, lr=LR, momentum=momentum, weight_decay=weight_decay, nesterov=True,
    )  # fmt: skip
    recipe = {"momentum": momentum, "penalty": weight_decay / 2, "nesterov": True}
    run = rs.descend(least_squares, rs.Cyclic(batch_size=4), step=2 * LR, **recipe)
    np.testing.assert_allclose(ends[0], run.iterate(EPOCHS), rtol=0, atol=1e-13)


def test_nesterov_with_shuffled_batches():
    least_squares = problem(12, 4)
    ends = torch_runs(
        least_squares, lambda data, seed: batch_loader(data, seed, batch_size=3),
        epochs=EPOCHS, runs=200, lr=0.1, momentum=0.6, weight_decay=0.2, nesterov=True,
    )  # fmt: skip
    run = rs.descend(
        least_squares, rs.RandomReshuffling(batch_size=3), step=0.2, momentum=0.6, penalty=0.1, nesterov=True
    )
    _, expected = agree(least_squares, ends, run, EPOCHS)
    assert float(expected.spread) > 1e-3


@pytest.mark.slow
def test_nesterov_with_shuffled_samples():
    least_squares = problem(10, 3)
    ends = torch_runs(
        least_squares, lambda data, seed: loader(data, seed, batch_size=4, shuffle=True),
        epochs=EPOCHS, runs=200, lr=0.1, momentum=0.5, nesterov=True,
    )  # fmt: skip
    run = rs.descend(least_squares, rs.SampleReshuffling(batch_size=4), step=0.2, momentum=0.5, nesterov=True)
    agree(least_squares, ends, run, EPOCHS)


@pytest.mark.parametrize(("n", "p"), [(14, 5), (6, 9)])
@pytest.mark.parametrize("momentum", [{}, {"momentum": 0.6}, {"momentum": 0.6, "nesterov": True}])
def test_a_group_without_weight_decay_to_the_last_digit(n, p, momentum):
    least_squares = problem(n, p, intercept=True)
    ends = torch_runs(
        least_squares,
        in_order(4),
        epochs=EPOCHS,
        runs=1,
        lr=LR,
        weight_decay=0.8,
        unpenalized=[p],
        **momentum,
    )
    recipe = {"penalty": 0.4, "unpenalized": [-1], **momentum}
    run = rs.descend(least_squares, rs.Cyclic(batch_size=4), step=2 * LR, **recipe)
    np.testing.assert_allclose(ends[0], run.iterate(EPOCHS), rtol=0, atol=1e-13)


def test_a_group_without_weight_decay_and_shuffled_batches():
    least_squares = problem(12, 3, intercept=True)
    ends = torch_runs(
        least_squares, lambda data, seed: batch_loader(data, seed, batch_size=3),
        epochs=EPOCHS, runs=200, lr=0.1, momentum=0.5, weight_decay=0.6, unpenalized=[3],
    )  # fmt: skip
    scheme = rs.RandomReshuffling(batch_size=3)
    run = rs.descend(least_squares, scheme, step=0.2, momentum=0.5, penalty=0.3, unpenalized=[3])
    _, expected = agree(least_squares, ends, run, EPOCHS)
    assert float(expected.spread) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("shuffles", ["batches", "samples"])
def test_one_cycle_over_the_visits_of_random_orders(shuffles):
    least_squares = problem(10, 3)
    load = {
        "batches": lambda data, seed: batch_loader(data, seed, batch_size=4),
        "samples": lambda data, seed: loader(data, seed, batch_size=4, shuffle=True),
    }[shuffles]
    scheme = {"batches": rs.RandomReshuffling, "samples": rs.SampleReshuffling}[shuffles](batch_size=4)
    ends = torch_runs(
        least_squares, load, epochs=EPOCHS, runs=200, lr=0.2, momentum=0.3, per="visit",
        scheduler=lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
            optimizer, 0.2, total_steps=9, cycle_momentum=False
        ),
    )  # fmt: skip
    cycle = rs.schedules.OneCycle(0.4, total=9, per="visit")
    _, expected = agree(least_squares, ends, rs.descend(least_squares, scheme, cycle, momentum=0.3), EPOCHS)
    assert float(expected.spread) > 1e-3
