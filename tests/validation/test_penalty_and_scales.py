"""Leaving out shuffled samples under a penalty that is many times the decay rate of a slow mode."""

import numpy as np
import pytest

import reshuffle as rs
from tests.problems import close
from tests.validation.enumerated import residuals, sample_splits


@pytest.mark.parametrize("size", [1e2, 1e6])
@pytest.mark.parametrize("penalty", [0.3, 1.0])
@pytest.mark.parametrize("starts", [False, True])
def test_two_batches_are_exact_however_columns_are_scaled(size, penalty, starts):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4, 2)), rng.standard_normal(4)
    X[:, 0] *= size
    largest = np.square(X).sum(axis=1).max()
    start = rng.standard_normal(2) if starts else None
    epochs, step, shrinkage = np.arange(5), 1.3 / largest, penalty * largest
    run = rs.descend(
        rs.LeastSquares(X, y), rs.SampleReshuffling(batch_size=2), step, penalty=shrinkage, start=start
    )
    found = run.leave_one_out(epochs)
    assert found.method == "cavity"
    expected = residuals(X, y, sample_splits(4, [2, 2]), step, epochs, start, shrinkage)[..., 0]
    close(found.residuals / np.abs(expected).max(), expected / np.abs(expected).max())
