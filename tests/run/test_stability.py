"""Convergence and the critical step: thresholds in closed form, steps that are touched, and advice."""

from math import prod

import numpy as np
import pytest
from numpy.polynomial import Polynomial

import reshuffle as rs
from tests.looped import for_all


@pytest.mark.parametrize("scheme", [rs.FullBatch(), rs.WithReplacement(batches=4)])
def test_full_batch_and_replacement_stop_at_two_over_the_norm(scheme):
    problem = rs.gaussian(40, 30, seed=1)
    norm = np.linalg.norm(problem.X.T @ problem.X / 40, 2)
    assert rs.critical_step(problem, scheme, mean_square=False) == pytest.approx(2 / norm, rel=1e-13)


def test_an_ill_conditioned_problem_has_the_critical_step_of_its_large_part():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3)) * [1.0, 1.0, 1e-9]
    whole = rs.critical_step(
        rs.LeastSquares(X, np.ones(20)), rs.RandomReshuffling(batches=2), mean_square=False
    )
    part = rs.critical_step(
        rs.LeastSquares(X[:, :2], np.ones(20)), rs.RandomReshuffling(batches=2), mean_square=False
    )
    assert whole <= part * (1 + 1e-8)
    assert (
        rs.descend(rs.LeastSquares(X, np.ones(20)), rs.RandomReshuffling(batches=2), 0.5 * whole)
        .stability()
        .converges
    )


def test_a_mode_that_flips_for_ever_does_not_converge():
    run = rs.descend(rs.LeastSquares([[1.0]], [1.0]), rs.FullBatch(), step=2.0)
    assert not run.stability().converges
    assert run.stability().rate == 1.0
    np.testing.assert_array_equal(run.iterate([0, 1, 2, 3]).ravel(), [0, 2, 0, 2])


@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5}], ids=["plain", "momentum"])
def test_convergence_that_nobody_will_see_comes_with_advice(recipe):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3)) * [1.0, 1.0, 1e6]
    run = rs.descend(rs.LeastSquares(X, X[:, 0]), rs.RandomReshuffling(batches=2), 1e-13, **recipe)
    found = run.stability()
    assert found.converges
    assert "epochs; the columns of X differ in size by a factor of 1e+06: scale them" in found.advice
    assert found.advice in repr(found)
    scaled = rs.descend(
        rs.LeastSquares(X / [1.0, 1.0, 1e6], X[:, 0]), rs.RandomReshuffling(batches=2), 0.1, **recipe
    )
    assert scaled.stability().advice == ""
    assert "advice" not in repr(scaled.stability())


def test_how_long_a_factor_takes_is_told_where_the_rate_rounds_to_one():
    run = rs.descend(rs.LeastSquares([[1.0, 0.0], [0.0, 1e9]], [1.0, 1.0]), rs.FullBatch(), 1e-18)
    assert run.stability().rate == 1.0
    # The first column: step w = 1e-18 / 2 an epoch.
    assert "a factor 1/e takes about 2e+18 epochs; the columns of X differ" in run.stability().advice


@for_all("excess", [1e-2, 1e-5, 1e-8, -1e-2, -1e-5, -1e-8])
def test_a_mode_that_all_but_touches_one_is_followed_to_its_first_crossing(excess):
    """In one dimension visits commute: the rate is a product whose crossings are roots of a polynomial."""
    rows = np.array([2.0, 1.0, 2.0 + excess, 0.0])
    found = rs.critical_step(
        rs.LeastSquares(rows[:, np.newaxis], np.ones(4)), rs.RandomReshuffling(batches=4), mean_square=False
    )
    product = prod(Polynomial([1.0, -(row**2)]) for row in rows)
    crossings = np.concatenate([(product - 1).roots(), (product + 1).roots()])
    real = crossings[np.abs(crossings.imag) < 1e-12].real
    assert found == pytest.approx(min(real[real > 1e-6]), rel=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-30])
def test_a_mode_that_stands_still_at_one_step_alone(scale):
    """(1 - 4 step)^2 (1 - step) touches one at 3/4: there, and only there before 1.0888, nothing moves."""
    problem = rs.LeastSquares(scale * np.array([[2.0], [1.0], [2.0], [0.0]]), np.ones(4))
    found = rs.critical_step(problem, rs.RandomReshuffling(batches=4), mean_square=False)
    assert found * scale**2 == pytest.approx(0.75, rel=2e-9)
