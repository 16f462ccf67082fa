"""What a plan promised, tried on rows that it has not seen."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.planning.kept_promise import held_to

rng = np.random.default_rng(3)
X = rng.standard_normal((120, 4)) * [1.0, 5.0, 0.1, 2.0] + 3.0
Y = X @ rng.standard_normal((4, 2)) + 7.0 + rng.standard_normal((120, 2))


@pytest.mark.parametrize("outputs", [None, 2])
def test_the_mean_run_has_the_error_of_its_coefficients(outputs):
    y = Y if outputs else Y[:, 0]
    plan = rs.plan(X[:80], y[:80], batch_sizes=[20], epochs=60)
    promise = held_to(plan, X[80:], y[80:])
    slopes, intercept = plan.coefficients
    squares = np.square(X[80:] @ slopes + intercept - y[80:]).reshape(40, -1)
    assert promise.mean_run == pytest.approx(squares.mean())
    np.testing.assert_allclose(promise.of_outputs, squares.mean(axis=0))
    assert promise.standard_error == pytest.approx(squares.mean(axis=1).std(ddof=1) / np.sqrt(40))
    assert (promise.promised, promise.promised_error) == (plan.test_error, plan.standard_error)
    assert promise.rows == 40


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [None, 2])
def test_a_single_run_adds_the_spread_of_its_predictions(outputs):
    y = Y if outputs else Y[:, 0]
    plan = rs.plan(X[:80], y[:80], batch_sizes=[20], steps=[0.5], epochs=20)
    added = [
        held_to(plan, X[80:], y[80:], seed=seed).single_run - held_to(plan, X[80:], y[80:]).mean_run
        for seed in range(150)
    ]
    rows = (X[80:] - plan.data.mean) / plan.data.scale
    expected = np.square(plan.run.covariance(plan.best.epochs).deviation(rows)).mean()
    assert expected > 0
    assert abs(np.mean(added) - expected) < 4 * np.std(added) / np.sqrt(len(added))


def test_all_rows_at_once_have_no_spread():
    plan = rs.plan(X[:80], Y[:80, 0], batch_sizes=[80], epochs=60)
    promise = held_to(plan, X[80:], Y[80:, 0])
    assert promise.single_run == pytest.approx(promise.mean_run)


def test_other_data_break_the_promise():
    plan = rs.plan(X[:80], Y[:80, 0], batch_sizes=[20], epochs=60)
    assert held_to(plan, X[80:], Y[80:, 0]).is_kept
    broken = held_to(plan, X[80:], Y[80:, 0] + 20.0)
    assert not broken.is_kept
    assert broken.deviations > 2
    assert held_to(plan, X[80:81], Y[80:81, 0]).is_kept
