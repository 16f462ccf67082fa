"""The risk of the run itself: against simulation, in the limit, without the truth."""

import math
from fractions import Fraction

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.run import expected_risk
from tests.looped import for_all
from tests.problems import close


def test_given_responses_need_no_noise_level():
    X, y = rs.gaussian(12, 4, seed=1).X, np.arange(12.0)
    known = rs.LeastSquares(X, y, beta_star=np.ones(4))
    run = rs.descend(known, rs.RandomReshuffling(batches=3), 0.1)
    assert float(run.expected_risk(3, given_responses=True).spread) > 0
    with pytest.raises(rs.MissingTruthError, match="risk needs noise"):
        run.expected_risk(3)
    nothing = rs.LeastSquares(X, y)
    for scheme in (rs.RandomReshuffling(batches=3), rs.Cyclic(batches=3), rs.SampleReshuffling(batches=3)):
        with pytest.raises(rs.MissingTruthError, match="needs beta_star"):
            rs.descend(nothing, scheme, 0.1).expected_risk(3, given_responses=True)


def test_a_run_that_starts_at_the_truth_without_noise_stays_there():
    X = rs.gaussian(30, 4, seed=0).X
    still = rs.LeastSquares(X, np.zeros(30), beta_star=np.zeros(4), noise=0.0)
    for recipe in ({}, {"momentum": 0.5}):
        run = rs.descend(still, rs.SampleReshuffling(batch_size=4), step=0.02, **recipe)
        assert (run.expected_risk([0, 1, 10, math.inf]).total == 0).all()
        assert (run.covariance([1, 10]).matrix == 0).all()
        assert run.mean_square_stability().converges


@pytest.mark.parametrize("second", [-1.0, -1e-6])
def test_a_negative_expected_risk_is_a_bug_that_is_named(monkeypatch, second):
    def wrong(*args):
        return iter([expected_risk.Snapshot(np.array([[second]]), np.zeros(1))])

    monkeypatch.setattr(expected_risk, "moments_along", wrong)
    problem = rs.LeastSquares([[1.0], [1.0]], [0.0, 0.0], beta_star=[0.0], noise=0.0)
    with pytest.raises(ArithmeticError, match=r"expected risk after 3 epochs .* below zero"):
        rs.descend(problem, rs.RandomReshuffling(batches=2), step=0.1).expected_risk(3)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.1}, {"penalty": 1e-3}], ids=str)
@pytest.mark.parametrize("scheme", [rs.RandomReshuffling(batches=2), rs.WithReplacement(batches=2)], ids=repr)
def test_a_fixed_point_that_runs_leave_is_not_where_they_end(scheme, recipe):
    """Without noise standing still is a fixed point, but from anywhere else the mean square grows."""
    X = np.array([[1.0, 0.0], [math.cos(1), math.sin(1)]])
    problem = rs.LeastSquares(X, X @ [1.0, 1.0], beta_star=[1.0, 1.0], noise=0.0)
    run = rs.descend(problem, scheme, 2.5, **recipe)
    assert run.stability().converges
    assert not run.mean_square_stability().converges
    assert run.expected_risk(math.inf).total == math.inf
    assert run.expected_risk(math.inf, given_responses=True).total == math.inf
    assert run.covariance(math.inf).trace == math.inf
    at_rest = rs.descend(problem, scheme, 2.5, start=[1.0, 1.0], **recipe)
    if not recipe.get("penalty"):
        assert at_rest.expected_risk(math.inf).total == 0
    gentle = rs.descend(problem, scheme, 0.5, **recipe)
    assert gentle.expected_risk(math.inf).total < 1e-4


@for_all("epochs", [100, 1000, 3000])
def test_what_is_left_of_the_start_keeps_its_digits(epochs):
    """One column: all orders agree, and an epoch multiplies the error by the product of 1 - step x_i^2."""
    rows, step = np.array([-0.54, -1.51, -1.63]), 0.0038
    problem = rs.LeastSquares(rows[:, None], 1.1 * rows, beta_star=[1.1], noise=0.0)
    found = rs.descend(problem, rs.RandomReshuffling(batch_size=1), step=step).expected_risk([epochs, 3])
    factor = np.prod([1 - Fraction(step) * Fraction(row) ** 2 for row in rows])
    exact = float(Fraction(1.1) ** 2 * Fraction(float(factor)) ** (2 * epochs))
    assert found.total[0] == pytest.approx(exact, rel=1e-9, abs=0)


def test_a_run_is_never_better_than_its_mean():
    # One direction grows 1e8-fold, and Sigma nearly ignores it: the second moment lost nine digits by itself.
    sigma = np.array([[5.345297407839736, 4.37469346549964], [4.37469346549964, 3.7980825010309194]])
    truth = [0.6421546792750829, 1.4239132707829225]
    problem = rs.LeastSquares([[1, -2], [-3, 6], [-3, 6]], np.zeros(3), truth, covariance=sigma, noise=1e-6)
    start = [0.0009671118515991699, 0.0006909082356846908]
    run = rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=10 / 9, start=start)
    risk = run.expected_risk(5, given_responses=True)
    assert risk.total >= risk.mean
    # By exact rational arithmetic.
    assert risk.total == pytest.approx(1.676929156112247e17, rel=1e-12)


def test_the_parts_and_the_shapes():
    run = rs.descend(rs.gaussian(20, 30, noise=0.5, seed=0), rs.RandomReshuffling(batches=4), alpha=0.3)
    found = run.expected_risk([[0, 3], [3, 50]])
    assert found.total.shape == found.mean.shape == found.spread.shape == found.error.shape == (2, 2)
    close(found.total, found.mean + found.spread, 1e-14)
    close(found.mean, run.risk([[0, 3], [3, 50]]).total, 0)
    assert found.total[0, 1] == found.total[1, 0]
    assert found.spread[0, 0] == pytest.approx(0, abs=1e-14)
    assert (found.spread[1] > 0).all()
    assert run.expected_risk([]).total.shape == (0,)
    assert "spread=" in repr(run.expected_risk(3))
    assert "shape=(2, 2)" in repr(found)


@pytest.mark.parametrize("mean_square", [False, True])
def test_features_that_are_all_zero_are_moved_by_the_penalty_alone(mean_square):
    problem = rs.LeastSquares(np.zeros((3, 2)), np.zeros(3))
    found = rs.critical_step(problem, rs.RandomReshuffling(batches=3), mean_square=mean_square, penalty=0.1)
    assert found == pytest.approx(20.0, rel=1e-8)


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_the_recursion_is_taken_where_it_is_quicker_than_simulation_or_asked_for(momentum):
    problem, scheme = rs.gaussian(400, 200, noise=1.0, seed=0), rs.RandomReshuffling(batches=4)

    def taken(epochs, method="auto"):
        run = rs.descend(problem, scheme, alpha=0.3, momentum=momentum, method=method)
        return run.second_moment_choice(epochs).taken

    assert [taken(2), taken(100), taken(100, "exact")] == ["recursion", "simulation", "recursion"]


@for_all("penalty", [1e-8, 1e-5])
def test_far_epochs_do_not_change_near_ones(penalty):
    """A tiny penalty is not lost in what noise adds, where epochs are taken as powers of a matrix."""
    X = [[3.0, 3.0], [1.0, 2.0], [-1.0, 0.0]]
    problem = rs.LeastSquares(X, np.ones(3), beta_star=[0.1, 0.3], noise=1.0)
    run = rs.descend(problem, rs.RandomReshuffling(batches=2), 0.03, penalty=penalty)
    near = run.expected_risk([1, 5])
    far = run.expected_risk([1, 5, 10**6])
    np.testing.assert_allclose(far.spread[:2], near.spread, rtol=1e-11)
