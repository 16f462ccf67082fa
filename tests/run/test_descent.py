"""Iterates and training loss against epoch-by-epoch enumeration."""

import math

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all
from tests.problems import SCHEMES, case, close


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


@for_all("scheme", SCHEMES)
def test_divergence_is_an_answer(scheme):
    tiny = case(10, 15, 3, step=30.0)
    run = tiny.run(scheme)
    assert not run.stability().converges
    assert run.stability().rate > 1
    limit = run.limit()
    assert not limit.converges
    assert np.isinf(limit.parameters).all()
    assert limit.training_loss == math.inf
    assert limit.risk.total == math.inf
    for epochs in (1, 2, 10, 1000, 10**6):
        assert not np.isnan(run.iterate(epochs)).any()
        assert not np.isnan(run.risk(epochs).total)
    assert run.best_epoch().epoch == 0


def test_features_that_are_all_zero_freeze_everything():
    problem = rs.LeastSquares(np.zeros((4, 3)), np.ones(4), beta_star=[1, 0, 0], noise=1.0)
    run = rs.descend(problem, rs.RandomReshuffling(batches=2), step=0.1, start=[1, 2, 3])
    close(run.iterate(math.inf), [1, 2, 3])
    assert run.frozen.dimension == 3
    assert run.limit().converges
    assert run.risk(5).total == pytest.approx(13.0)
    assert run.best_epoch().epoch == 0
    assert rs.critical_step(problem, rs.RandomReshuffling(batches=2), mean_square=False) == math.inf
