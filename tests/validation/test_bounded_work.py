"""Leaving out rows stays within its budget, says so beforehand where it cannot, and wastes no work."""

import warnings

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.errors import AccuracyWarning, BudgetError
from tests.counted import at_most


def test_thirteen_batches_take_no_walk_over_all_of_their_subsets():
    """One subset after the other took three million calls and returns."""
    run = rs.descend(rs.gaussian(390, 30, noise=0.5, seed=0), rs.RandomReshuffling(batches=13), step=0.05)
    with at_most(300_000):
        found = run.leave_one_out(3)
    assert found.method == "cavity"
    assert found.error < 0.1 * found.standard_error


def test_runs_that_leave_out_rows_have_one_budget_and_one_warning():
    """Ten folds may not spend ten budgets: with a tenth each they may miss rtol, and say so once."""
    problem = rs.gaussian(90, 3, noise=0.5, seed=0)
    run = rs.descend(
        problem, rs.RandomReshuffling(batches=45), step=1.1, method="sampling", rtol=1e-3, budget=1.6e10
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = run.leave_one_out(2)
    words = [str(each.message) for each in said if issubclass(each.category, AccuracyWarning)]
    assert found.method == "10 folds"
    assert len(words) == 1
    assert words[0].startswith("of 10 runs that leave out rows, ")


@pytest.mark.parametrize("scheme", [rs.RandomReshuffling(batches=45), rs.SampleReshuffling(batches=45)])
def test_a_run_that_diverges_is_infinite_at_once(scheme):
    """Ten folds, or drawn orders, took minutes and found finite numbers."""
    problem = rs.gaussian(90, 3, noise=0.5, seed=0)
    run = rs.descend(problem, scheme, step=3.0)
    with at_most(300_000), pytest.warns(AccuracyWarning, match="diverges, about") as said:
        found = run.leave_one_out([0, 3, 30, np.inf])
    assert len(said) == 1
    np.testing.assert_array_equal(np.isinf(found.mean_square), [False, True, True, True])
    np.testing.assert_allclose(found.mean_square[0], np.square(problem.y).mean())
    np.testing.assert_array_equal(found.residuals[0], problem.y)
    assert np.isinf(found.residuals[1:]).all()


def test_draws_that_lead_nowhere_are_ended():
    """Beyond the critical step a mean over orders hangs on a few of them: the budget is not spent in vain."""
    problem = rs.gaussian(90, 3, noise=0.5, seed=0)
    run = rs.descend(problem, rs.RandomReshuffling(batches=45), step=3.0, method="sampling", budget=1e12)
    with at_most(3_000_000), pytest.warns(AccuracyWarning):
        assert run.epoch.error > 1
    assert not run.converges


@pytest.mark.slow
def test_the_price_of_many_rows_is_known_beforehand():
    rng = np.random.default_rng(0)
    problem = rs.LeastSquares(rng.standard_normal((20_000, 2)), rng.standard_normal(20_000))
    run = rs.descend(problem, rs.SampleReshuffling(batch_size=500), step=0.01, budget=1e9)
    with pytest.raises(BudgetError, match=r"leave_one_out of 20000 rows .* rows=numpy.arange\(0, 20000, 3\)"):
        run.leave_one_out(10.0 ** np.arange(13))
    assert run.leave_one_out([1, 2], rows=np.arange(0, 20_000, 100)).method == "cavity"


def test_runs_that_cost_too_much_are_refused_with_their_number():
    rng = np.random.default_rng(0)
    problem = rs.LeastSquares(rng.standard_normal((16_000, 2)), rng.standard_normal(16_000))
    run = rs.descend(problem, rs.RandomReshuffling(batch_size=2), step=0.5, method="sampling", budget=1e9)
    with pytest.raises(
        BudgetError, match="leave_one_out takes 10 runs, which have 1 / 10 of the budget each"
    ):
        run.leave_one_out(1)


def test_drawn_orders_of_features_that_are_all_zero_stay_at_the_start():
    problem = rs.LeastSquares(np.zeros((4, 5)), np.arange(4.0), beta_star=np.ones(5), noise=1.0)
    run = rs.descend(problem, rs.RandomReshuffling(batches=3), step=1.5, method="sampling", budget=1e8)
    np.testing.assert_allclose(run.expected_risk([2, 10]).total, 5.0)
