"""Real torch with one DataLoader after the other, against the answers for stages."""

import numpy as np
import pytest
import torch

import reshuffle as rs
from tests.interop.training import agree, batch_loader, in_order, loader, problem, torch_runs

LR = 0.03
"""The step of our convention is twice the learning rate, since MSELoss has no factor 1/2."""


class OneAfterTheOther:
    """An iterable that is another DataLoader in later epochs."""

    def __init__(self, *stages):
        self._loaders = [batches for epochs, batches in stages for _ in range(epochs)]
        self._epoch = 0

    def __iter__(self):
        self._epoch += 1
        return iter(self._loaders[self._epoch - 1])


def test_without_shuffling_to_the_last_digit():
    for n, p in ((14, 6), (5, 9)):
        least_squares = problem(n, p)
        ends = torch_runs(
            least_squares,
            lambda data, seed: OneAfterTheOther((3, in_order(2)(data, seed)), (2, in_order(5)(data, seed))),
            epochs=5, runs=1, lr=LR, momentum=0.7, weight_decay=0.1,
        )  # fmt: skip
        scheme = rs.Stages([(3, rs.Cyclic(batch_size=2)), (None, rs.Cyclic(batch_size=5))])
        run = rs.descend(least_squares, scheme, step=2 * LR, momentum=0.7, penalty=0.05)
        np.testing.assert_allclose(ends[0], run.iterate(5), rtol=0, atol=1e-13)
        # The buffer of momentum is handed on: a fresh one would have ended elsewhere.
        handed = rs.descend(least_squares, scheme, step=2 * LR, momentum=0.7, penalty=0.05).iterate(3)
        fresh = rs.descend(
            least_squares, rs.Cyclic(batch_size=5), step=2 * LR, momentum=0.7, penalty=0.05, start=handed
        )
        assert np.abs(fresh.iterate(2) - ends[0]).max() > 1e-3


def test_a_scheduler_that_is_stepped_after_every_batch():
    least_squares = problem(14, 6)
    ends = torch_runs(
        least_squares,
        lambda data, seed: OneAfterTheOther((2, in_order(4)(data, seed)), (2, in_order(7)(data, seed))),
        epochs=4, runs=1, lr=LR, momentum=0.5, per="visit",
        scheduler=lambda optimizer: torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9),
    )  # fmt: skip
    schedule = rs.schedules.ExponentialDecay(2 * LR, 0.9, per="visit")
    scheme = rs.Stages([(2, rs.Cyclic(batch_size=4)), (2, rs.Cyclic(batch_size=7))])
    run = rs.descend(least_squares, scheme, step=schedule, momentum=0.5)
    np.testing.assert_allclose(ends[0], run.iterate(4), rtol=0, atol=1e-13)


def test_shuffled_batches():
    least_squares = problem(12, 4)
    ends = torch_runs(
        least_squares,
        lambda data, seed: OneAfterTheOther(
            (2, batch_loader(data, seed, batch_size=3)), (2, batch_loader(data, seed + 1000, batch_size=6))
        ),
        epochs=4, runs=200, lr=0.1, momentum=0.5, weight_decay=0.2,
    )  # fmt: skip
    scheme = rs.Stages([(2, rs.RandomReshuffling(batch_size=3)), (None, rs.RandomReshuffling(batch_size=6))])
    run = rs.descend(least_squares, scheme, step=0.2, momentum=0.5, penalty=0.1)
    assert run.error_kind == "exact"
    _, expected = agree(least_squares, ends, run, 4)
    assert float(expected.spread) > 1e-3


@pytest.mark.slow
def test_shuffled_samples():
    least_squares = problem(20, 3)
    ends = torch_runs(
        least_squares,
        lambda data, seed: OneAfterTheOther(
            (2, loader(data, seed, batch_size=4, shuffle=True)),
            (1, loader(data, seed + 1000, batch_size=10, shuffle=True)),
        ),
        epochs=3, runs=200, lr=0.1,
    )  # fmt: skip
    sizes = [(2, rs.SampleReshuffling(batch_size=4)), (None, rs.SampleReshuffling(batch_size=10))]
    run = rs.descend(least_squares, rs.Stages(sizes), step=0.2, rtol=0.05)
    agree(least_squares, ends, run, 3)
