"""The risk against carrying the linear map of the noise along, for every scheme and covariance."""

import math

import numpy as np
import pytest

import reshuffle as rs
from tests.problems import case, close


def test_ten_thousand_epochs_at_once_equal_one_at_a_time():
    run = case(30, 20, 3).run("reshuffling")
    epochs = np.arange(10_000)
    together = run.risk(epochs)
    for epoch in (0, 1, 4095, 9999):
        alone = run.risk(epoch)
        for part in ("frozen", "bias", "cross", "variance", "total"):
            assert getattr(together, part)[epoch] == pytest.approx(float(getattr(alone, part)), rel=1e-13)


def test_amplitudes_beyond_the_range_of_squares_are_harmless_where_nothing_has_happened_yet():
    problem = rs.gaussian(30, 5, noise=3.0, seed=0)
    run = rs.descend(problem, rs.RandomReshuffling(batches=3), 1e10)
    np.testing.assert_array_equal(run.risk([0, 20]).total, [run.risk(0).total, np.inf])
    assert run.risk(0).total == pytest.approx(1.0)
    assert run.best_epoch().epoch == 0
    far = rs.LeastSquares(np.eye(2), [1e95, 0], beta_star=[1e95, 0], noise=1.0)
    expected = rs.descend(
        rs.LeastSquares(np.eye(2), [0, 0], beta_star=[0, 0], noise=1.0), rs.FullBatch(), 0.5
    )
    assert rs.descend(far, rs.FullBatch(), 0.5).risk(np.inf).total == expected.risk(np.inf).total


def test_answers_carry_the_shape_of_the_question():
    run = case(8, 5, 2).run("reshuffling")
    grid = np.array([[0, 1, 2], [3, 10, math.inf]])
    assert run.iterate(grid).shape == (2, 3, 5)
    assert run.training_loss(grid).shape == (2, 3)
    assert run.risk(grid).total.shape == (2, 3)
    assert run.risk(7).total.shape == ()
    assert run.risk([]).total.shape == (0,)
    assert repr(run.risk([])) == "Risk(shape=(0,))"
    assert repr(run.risk([1, 2])).startswith("Risk(shape=(2,), total from ")
    for row, column in np.ndindex(grid.shape):
        close(run.iterate(grid)[row, column], run.iterate(grid[row, column]))
        assert run.risk(grid).variance[row, column] == pytest.approx(run.risk(grid[row, column]).variance)
