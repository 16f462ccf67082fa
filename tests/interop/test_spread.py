"""How 200 seeds of torch spread, against the covariance that is computed without training."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import reshuffle as rs
from tests.interop.training import agree, batch_loader, loader, problem, spread_agrees, torch_runs

EPOCHS, RUNS = 3, 200
LOADERS = {
    "batches": lambda data, seed: batch_loader(data, seed, batch_size=4),
    "samples": lambda data, seed: loader(data, seed, batch_size=4, shuffle=True),
    "replacement": lambda data, seed: loader(data, seed, batch_size=4, shuffle=None, replacement=True),
}
SCHEMES = {
    "batches": rs.RandomReshuffling(batch_size=4),
    "samples": rs.SampleReshuffling(batch_size=4),
    "replacement": rs.SampleWithReplacement(batch_size=4),
}


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize(("momentum", "weight_decay"), [(0.0, 0.0), (0.6, 0.2)])
def test_parameters_and_predictions_spread_as_in_torch(kind, momentum, weight_decay):
    least_squares = problem(11, 3)
    ends = torch_runs(
        least_squares,
        LOADERS[kind],
        epochs=EPOCHS,
        runs=RUNS,
        lr=0.08,
        momentum=momentum,
        weight_decay=weight_decay,
    )
    run = rs.descend(least_squares, SCHEMES[kind], step=0.16, momentum=momentum, penalty=weight_decay / 2)
    spread_agrees(least_squares, ends, run, EPOCHS, np.random.default_rng(1).standard_normal((5, 3)))


class Subsets(torch.utils.data.Sampler):
    """Batches of distinct rows, drawn afresh for every step, as a batch sampler of torch."""

    def __init__(self, n, size, seed):
        self.n, self.size, self.generator = n, size, torch.Generator().manual_seed(seed)

    def __iter__(self):
        for _ in range(self.n // self.size):
            yield torch.randperm(self.n, generator=self.generator)[: self.size].tolist()


def test_subsets_in_torch():
    least_squares = problem(12, 3)
    ends = torch_runs(
        least_squares,
        lambda data, seed: DataLoader(data, batch_sampler=Subsets(12, 4, seed)),
        epochs=EPOCHS, runs=RUNS, lr=0.08,
    )  # fmt: skip
    run = rs.descend(least_squares, rs.SampleSubsets(batch_size=4), step=0.16)
    agree(least_squares, ends, run, EPOCHS)
    spread_agrees(least_squares, ends, run, EPOCHS, np.random.default_rng(1).standard_normal((5, 3)))
