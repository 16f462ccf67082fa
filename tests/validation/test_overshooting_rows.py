"""Leave-one-out where visits do much to themselves, beside means over all orders; and its price beforehand."""

import math
import warnings

import numpy as np
import pytest
from benchmarks.cavity_coverage import EPOCHS_LEFT_OUT, left_out

import reshuffle as rs
from reshuffle.errors import AccuracyWarning, BudgetError
from tests.counted import at_most
from tests.looped import for_all
from tests.oracles.every_order import epochs_of_shuffled_samples, epochs_reshuffled
from tests.validation.enumerated import residuals
from tests.validation.known_means import of_batches_of_one_column, of_kinds, of_one_column

SINGLE = rs.SampleReshuffling(batch_size=1)


def asked(x, y, step, epochs, scheme=SINGLE):
    X = x[:, np.newaxis] if x.ndim == 1 else x
    return rs.descend(rs.LeastSquares(X, y), scheme, step).leave_one_out(epochs)


def covers(found, truth):
    return bool((np.abs(found.mean_square - truth) <= found.error + 1e-9 * truth).all())


@pytest.fixture
def fewer_orders(monkeypatch):
    """Errors are wider with fewer draws, and have to cover all the same."""
    monkeypatch.setattr("reshuffle.validation.shuffled_samples._MOST_ORDERS", 1 << 9)


def test_the_oracles_are_the_enumeration_of_all_orders():
    rng = np.random.default_rng(0)
    for n in (3, 5):
        X, y, step = rng.standard_normal((n, 1)), rng.standard_normal(n), 1.5
        want = residuals(X, y, epochs_reshuffled(np.arange(n)[:, np.newaxis]), step, [1, 4])
        np.testing.assert_allclose(of_one_column(X[:, 0], y, step, [1, 4]), want, atol=1e-12)
    X, y, counts = rng.standard_normal((3, 2)), rng.standard_normal(3), (2, 1, 2)
    rows, responses = np.repeat(X, counts, axis=0), np.repeat(y, counts)
    want = residuals(rows, responses, epochs_reshuffled(np.arange(5)[:, np.newaxis]), 0.7, [1, 4])
    np.testing.assert_allclose(of_kinds(X, y, counts, 0.7, [1, 4]), np.square(want).mean(axis=1))


@pytest.mark.parametrize("n", [40, 100])
def test_a_row_that_overshoots(n, fewer_orders):
    x, y = np.sqrt([2.9] + [0.05] * (n - 2) + [0.9]), np.ones(n)
    found, truth = asked(x, y, 1.0, [10]), np.square(of_one_column(x, y, 1.0, [10])).mean()
    assert covers(found, truth)
    assert found.error[0] < 0.5 * truth


def test_left_out_runs_that_diverge():
    n = 13
    x, y = np.sqrt([2.9] + [0.05] * (n - 2) + [0.9]), np.ones(n)
    found = asked(x, y, 1.0, [100, math.inf])
    assert found.method == "exact"
    assert found.mean_square[0] == pytest.approx(np.square(of_one_column(x, y, 1.0, [100])).mean())
    assert found.mean_square[0] > 40_000
    # The run of all rows converges, with 0.108 per epoch.
    assert found.mean_square[1] == math.inf


def test_many_rows_that_diverge_without_one(fewer_orders):
    """With 60 rows there are too many orders, and drawn ones have to see it."""
    x, y = np.sqrt([2.9] + [0.005] * 58 + [0.4]), np.ones(60)
    found, truth = asked(x, y, 1.0, [300, math.inf]), np.square(of_one_column(x, y, 1.0, [300])).mean()
    assert found.method == "drawn orders"
    assert truth > 1e6
    assert abs(found.mean_square[0] - truth) <= found.error[0] < math.inf
    assert found.mean_square[1] == math.inf


@pytest.mark.parametrize(
    "first", [0, 8, *(pytest.param(first, marks=pytest.mark.slow) for first in (4, *range(12, 40, 4)))]
)
def test_a_survey(first, fewer_orders):
    """One column and rows of a few kinds, from tame steps to divergence."""
    for seed in range(first, first + 4):
        problem, step, _, truth = left_out(seed)
        assert covers(rs.descend(problem, SINGLE, step).leave_one_out(EPOCHS_LEFT_OUT), truth), seed


def test_batches_of_several_samples_that_overshoot(fewer_orders):
    rng, sizes, n = np.random.default_rng(6), [2, 2, 2], 6
    for p, response in ((1, 1.2), (2, 2.5), (2, 0.4)):
        X, y = rng.standard_t(2, (n, p)), rng.standard_normal(n)
        step = response * 2 / np.square(X).sum(axis=1).max()
        want = residuals(X, y, epochs_of_shuffled_samples(n, sizes), step, [1, 5])
        found = asked(X, y, step, [1, 5], rs.SampleReshuffling(batch_size=2))
        assert covers(found, np.square(want).mean(axis=1))


def test_what_overshoots_and_is_not_affordable_has_no_error(monkeypatch):
    """Never a small error for a large one."""
    monkeypatch.setattr("reshuffle.validation.shuffled_samples.affordable_orders", lambda training, budget: 0)
    x, y = np.sqrt([2.9] + [0.05] * 38 + [0.9]), np.ones(40)
    found = asked(x, y, 1.0, [10])
    assert (found.method, found.error[0]) == ("cavity", math.inf)


@pytest.mark.parametrize(("n", "size"), [pytest.param(20, 1, marks=pytest.mark.slow), (30, 1), (50, 4)])
def test_a_single_row_that_is_not_zero(n, size):
    """Without it there are no modes at all."""
    X, y = np.zeros((n, 1)), np.arange(n) / n
    X[2] = 1
    scheme = rs.SampleReshuffling(batch_size=size)
    found = asked(X, y, 0.9, [3], scheme)
    np.testing.assert_allclose(found.mean_square, np.square(y).mean())
    nothing = rs.descend(rs.LeastSquares(0 * X, y), scheme, 0.9)
    assert nothing.iterate(3) == 0
    np.testing.assert_allclose(nothing.leave_one_out(3).mean_square, np.square(y).mean())


@for_all("size, response", [(1, 1.5), (3, 0.3), (3, 0.9)])
def test_many_fixed_batches_in_random_order(size, response):
    """Ragged batches too, by one formula in place of ten folds."""
    rng, n = np.random.default_rng(size), 71
    x, y, rows = 1 + 0.2 * rng.standard_normal(n), rng.standard_normal(n), np.arange(0, n, 7)
    x[5] = 2.0
    batches = np.split(np.arange(n), np.arange(size, n, size))
    step = response / max(np.square(x[b]).mean() for b in batches)
    want = of_batches_of_one_column(x, y, batches, step, [1, 4], rows)
    run = rs.descend(rs.LeastSquares(x[:, np.newaxis], y), rs.RandomReshuffling(batch_size=size), step)
    found = run.leave_one_out([1, 4], rows=rows)
    assert found.method == "cavity"
    assert covers(found, np.square(want).mean(axis=1))
    assert (found.error < 0.2 * found.standard_error).all()
    np.testing.assert_allclose(found.residuals, want, atol=2e-3)


def test_momentum_with_a_row_that_overshoots():
    """A few such rows widen the error, in place of ten folds."""
    problem = rs.gaussian(300, 3, noise=0.5, seed=0)
    problem = rs.LeastSquares(np.vstack([problem.X, [[11.0, 0.0, 0.0]]]), np.append(problem.y, 12.0))
    run = rs.descend(problem, rs.SampleReshuffling(batch_size=10), step=0.025, momentum=0.9)
    found = run.leave_one_out(5)
    assert found.method == "cavity"
    assert found.error < found.standard_error


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
