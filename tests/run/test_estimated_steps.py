"""Critical steps where the mean over orders is not exact, against exact ones and against real runs."""

import math
import pickle
from itertools import product

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.run import critical_polynomials, critical_steps
from reshuffle.run.critical_steps import STABLE, UNSTABLE, CriticalStep, Rate, first_crossing


@pytest.fixture
def searched(monkeypatch):
    """Every threshold is searched, whatever is known better."""
    monkeypatch.setattr(critical_steps, "_is_drawn", lambda *rest, **options: True)
    monkeypatch.setattr(critical_polynomials, "exact_step", lambda *rest: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "mean_square"),
    [
        *product([{}, {"momentum": 0.5}, {"penalty": 0.2}], [False, True]),
        ({"momentum": 0.4, "nesterov": True, "penalty": 0.1}, False),
    ],
    ids=repr,
)
def test_a_searched_step_covers_the_exact_one(request, recipe, mean_square):
    problem, scheme = rs.gaussian(12, 3, seed=1), rs.RandomReshuffling(batches=4)
    exact = rs.critical_step(problem, scheme, mean_square=mean_square, **recipe)
    assert (exact.error, exact.error_kind) == (0.0, "exact")
    request.getfixturevalue("searched")
    found = rs.critical_step(problem, scheme, mean_square=mean_square, **recipe)
    assert found.error_kind != "exact"
    assert abs(found - exact) <= found.error
    # With no more batches than blocks every draw of the mean is exact: only the search is left to be off.
    assert found.error < (0.25 if mean_square else 2e-3) * exact


@pytest.mark.slow
def test_shuffled_samples_have_thresholds_of_both_kinds():
    problem, scheme = rs.gaussian(30, 2, seed=0), rs.SampleReshuffling(batch_size=5)
    mean = rs.critical_step(problem, scheme, mean_square=False)
    square = rs.critical_step(problem, scheme, mean_square=True)
    assert 0 < square <= mean + mean.error
    assert isinstance(square, float)
    assert float(square) * 2 == 2 * square
    below, above = square - 2 * square.error, square + 2 * square.error
    for step, grows in ((below, False), (above, True)):
        epochs = np.array([0, 60])
        real = rs.simulate(
            rs.LeastSquares(problem.X, np.zeros(30), beta_star=np.zeros(2), noise=0.0), scheme, step=step,
            epochs=epochs, runs=400, start=np.ones(2), seed=1, progress=False,
        )  # fmt: skip
        assert (real.expected_risk.mean[-1] > real.expected_risk.mean[0]) == grows


@pytest.mark.slow
def test_a_mean_that_outlasts_its_runs_advises_the_mean_square():
    """At the critical step of the mean, real runs grow: the advice says so, and survives a pickle."""
    problem, scheme = rs.gaussian(60, 3, seed=2), rs.SampleReshuffling(batches=20)
    mean = rs.critical_step(problem, scheme, mean_square=False)
    assert "mean_square=True" in mean.advice
    assert mean.advice in repr(mean)
    assert pickle.loads(pickle.dumps(mean)).advice == mean.advice
    square = rs.critical_step(problem, scheme, mean_square=True)
    assert square + square.error < mean
    assert not square.advice
    at_rest = rs.LeastSquares(problem.X, np.zeros(60), beta_star=np.zeros(3), noise=0.0)
    real = rs.simulate(at_rest, scheme, step=float(mean), epochs=[0, 9], runs=40, start=np.ones(3), seed=1)
    assert real.expected_risk.mean[1] > 100 * real.expected_risk.mean[0]


@pytest.mark.slow
def test_screening_with_few_orders_changes_no_answer(monkeypatch):
    """One pair of orders in each group has a gain of 0.25 at a step where four have one of 6.7."""
    problem, scheme = rs.gaussian(60, 3, seed=0), rs.SampleReshuffling(batches=20)
    screened = rs.critical_step(problem, scheme, mean_square=True)
    monkeypatch.setattr(critical_steps, "_TINY", 0.0)
    monkeypatch.setattr(critical_steps, "_FAR_BELOW", 0.0)
    whole = rs.critical_step(problem, scheme, mean_square=True)
    assert abs(screened - whole) <= 1e-3 * whole
    assert screened.error == pytest.approx(whole.error, rel=0.05)


@pytest.mark.slow
def test_many_fixed_batches_have_a_threshold():
    """In batches of a row along each of two axes, visits commute: every order has the product of all of them."""
    squares = np.random.default_rng(0).exponential(1, (25, 2))
    X = np.zeros((50, 2))
    X[0::2, 0], X[1::2, 1] = np.sqrt(2 * squares).T
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    problem = rs.LeastSquares(X @ turn, np.zeros(50))
    found = rs.critical_step(problem, rs.RandomReshuffling(batches=25), mean_square=False)
    assert 0 < found.error < 0.01 * found
    before, after = (
        np.abs(np.prod(1 - step * squares, axis=0)).max()
        for step in (found - found.error, found + found.error)
    )
    assert before < 1 < after
    assert all(
        np.abs(np.prod(1 - step * squares, axis=0)).max() < 1 for step in np.linspace(0.01, 0.999, 99) * found
    )
    assert (
        rs.critical_step(problem, rs.RandomReshuffling(batches=25), mean_square=True) <= found + found.error
    )


@pytest.mark.slow
def test_a_mean_that_draws_leave_open_has_an_error_that_says_so():
    """In 240,000 orders the rate at 1.45 is 0.02 +- 0.04, and not until 1.6 might it be one."""
    problem = rs.gaussian(50, 2, seed=0)
    found = rs.critical_step(problem, rs.RandomReshuffling(batches=25), mean_square=False)
    assert found + found.error > 1.6
    square = rs.critical_step(problem, rs.RandomReshuffling(batches=25), mean_square=True)
    assert square <= found + found.error
    assert 0 < square.error < 0.5 * square


def drawn(value, error):
    return Rate(value, value - error, value + error, "estimate")


def searched_crossing(rate, start):
    return first_crossing(rate, start, growth=1.1, precision=1e-3)


def rate_with_a_window(step):
    """Above one from 2 to 2.3, and from 5 on; below 0.6 outside of 1.8 to 2.5."""
    return 1.2 if 2 <= step <= 2.3 or step >= 5 else 0.7 if 1.8 <= step <= 2.5 else 0.3


def test_the_first_window_is_found_with_its_error():
    found = searched_crossing(lambda step: drawn(rate_with_a_window(step), 0.05), 0.1)
    assert abs(found - 2) <= found.error < 0.01


@pytest.mark.parametrize("number", [lambda step: step**8, lambda step: 0.2 * step / (1.2 - step)])
def test_a_rate_that_is_a_number_is_narrowed_in_few_evaluations(number):
    tried = []

    def rate(step):
        tried.append(step)
        value = number(step)
        return Rate(value, value, value)

    found = first_crossing(rate, 0.5, precision=1e-9)
    assert 0 <= 1 - found < 2e-9
    # Those below lie on the grid from the start to the first step beyond one.
    assert len(tried) - math.ceil(math.log(2) / math.log(1.02)) <= 7


def test_a_step_is_a_number_with_an_error():
    step = CriticalStep(0.5, 0.1, "estimate")
    assert repr(step) == "0.50 +- 0.10 (estimate)"
    assert f"{step:.3f}" == "0.500"
    assert math.isclose(step / 2, 0.25)
    again = pickle.loads(pickle.dumps(step))
    assert (again, again.error, again.error_kind) == (0.5, 0.1, "estimate")


def test_a_rate_that_stays_near_one_leaves_everything_open():
    flat, stable = drawn(1.0, 0.1), drawn(0.5, 0.0)
    assert searched_crossing(lambda step: flat if step > 1 else stable, 1.0).error == math.inf


def test_what_may_be_one_earlier_is_in_the_error():
    found = searched_crossing(lambda step: drawn(step, 0.1), 0.5)
    assert found == pytest.approx(1, rel=1e-2)
    assert 0.1 <= found.error < 0.13


def test_a_rate_that_rises_with_its_error_leaves_open_how_far():
    found = searched_crossing(lambda step: drawn(step**4, step**4), 0.5)
    assert found == pytest.approx(1, rel=5e-2)
    assert found.error == pytest.approx(found, rel=5e-2)
    assert found.error_kind == "estimate"


def test_an_exact_rate_is_bisected_from_any_start():
    found = first_crossing(lambda step: STABLE if step < 0.3 else UNSTABLE, 1.0, precision=1e-9)
    assert found == pytest.approx(0.3, rel=2e-9)
    assert (found.error, found.error_kind) == (0.0, "exact")
    assert first_crossing(lambda step: STABLE, 1.0, 7.0, precision=1e-9) == 7.0


def test_no_stable_step_is_an_error():
    with pytest.raises(ArithmeticError, match=r"no step between .* is stable up to rounding; try a smaller"):
        first_crossing(lambda step: UNSTABLE, 1.0, precision=1e-9)


def test_what_has_no_features_never_diverges():
    problem = rs.LeastSquares(np.zeros((40, 2)), np.zeros(40))
    assert rs.critical_step(problem, rs.SampleReshuffling(batches=8), mean_square=False) == math.inf
