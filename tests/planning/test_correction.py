"""The test error that a plan expects, against refits, a bootstrap by hand and fresh rows; its programs."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.errors import UnsupportedError
from reshuffle.planning.correction import Recipes, bootstrapped, left_out_squares, refitted_squares
from reshuffle.planning.loo_grid import LeftOutCurve, RowSpectrum
from reshuffle.problem.standardizer import Standardizer
from tests.looped import for_all

RNG = np.random.default_rng(8)


def standardized(X, y, weights):
    made = Standardizer.of(X, y, weights=weights)
    return rs.LeastSquares(made.rows(X), made.responses(y), sample_weight=weights)


def trained_without(X, y, weights, row, step, visits, penalty):
    """The squared residual of a row that neither the training nor means nor scales have seen; times its weight."""
    rest = np.delete(np.arange(len(X)), row)
    shares = weights[rest] / weights[rest].sum()
    mean, centre = shares @ X[rest], shares @ y[rest]
    scale = np.sqrt(shares @ np.square(X[rest] - mean))
    scale[scale == 0] = 1.0
    rows, beta = (X - mean) / scale, np.zeros((X.shape[1], y.shape[1]))
    for _ in range(visits):
        missing = weights[rest, np.newaxis] * (rows[rest] @ beta - (y[rest] - centre))
        beta = beta - step * (rows[rest].T @ missing / len(X) + penalty * beta)
    return weights[row] * np.square(y[row] - centre - rows[row] @ beta).mean()


@for_all("p", [4, 30])
@for_all("weighted", [False, True])
def test_rows_are_left_out_of_means_and_scales(p, weighted):
    X = RNG.standard_normal((14, p)) * np.geomspace(0.1, 10, p) + 3.0
    # Without the first row this column is constant.
    X[:, -1] = np.arange(14) == 0
    y = np.column_stack([X[:, 0] + RNG.standard_normal(14), RNG.standard_normal(14)])
    weights = RNG.uniform(0.3, 2.0, 14) if weighted else np.ones(14)
    problem = standardized(X, y, weights if weighted else None)
    spectrum = RowSpectrum.of(problem, centred=True)
    step = 0.9 / float(spectrum.values.max())
    recipes = Recipes(np.array([step, 0.3 * step]), np.array([3.0, 40.0]), np.array([0.0, 0.2]), np.zeros(2))
    curve = LeftOutCurve.around(spectrum, step, 40 * step, 0.2)
    rows = np.array([0, 5, 13])
    expected = [
        [trained_without(X, y, weights, row, *recipe) for row in rows]
        for recipe in ((step, 3, 0.0), (0.3 * step, 40, 0.2))
    ]
    np.testing.assert_allclose(refitted_squares(curve, recipes, rows), expected, rtol=1e-9)


def test_squares_of_groups_are_sums_over_their_rows():
    problem = standardized(RNG.standard_normal((11, 3)), RNG.standard_normal(11), None)
    spectrum = RowSpectrum.of(problem, centred=True)
    recipes = Recipes(np.full(2, 0.1), np.array([2.0, 9.0]), np.zeros(2), np.zeros(2))
    curve = LeftOutCurve.around(spectrum, 0.1, 1.0, 0.0)
    squares, weights, residuals = left_out_squares(curve, recipes, np.arange(11), 4)
    each = np.square(curve.residuals(0.1, np.array([2.0, 9.0]))[..., 0])
    np.testing.assert_allclose(squares, [[row[k::4].sum() for k in range(4)] for row in each], rtol=1e-10)
    np.testing.assert_allclose(residuals, curve.residuals(0.1, np.array([2.0]))[0], rtol=1e-10)
    assert weights.tolist() == [3, 3, 3, 2]


def test_the_bootstrap_is_the_one_by_hand():
    squares, weights = RNG.exponential(size=(6, 9)), RNG.uniform(0.5, 2.0, 9)
    spreads = RNG.uniform(0, 0.1, 6)
    found = bootstrapped(squares * weights, weights, spreads, 40, seed=5)
    drawn, expected = np.random.default_rng(5).multinomial(9, np.full(9, 1 / 9), size=40), []
    for times in drawn:
        rows = np.repeat(np.arange(9), times)
        errors = [np.average(each[rows], weights=weights[rows]) for each in squares] + spreads
        best, out = int(np.argmin(errors)), np.setdiff1d(np.arange(9), rows)
        expected.append(np.average(squares[best][out], weights=weights[out]) + spreads[best])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_with_nothing_to_choose_from_the_test_error_is_the_estimate():
    """One recipe, many rows: no optimism, and next to no effect of scales."""
    data = rs.gaussian(1000, 3, noise=1.0, seed=1)
    plan = rs.plan(data.X, data.y, batch_sizes=[1000], steps=[0.5], epochs=1)
    assert plan.test_error == pytest.approx(plan.naive_test_error, rel=0.01)
    low, high = plan.interval
    assert low < plan.test_error < high
    assert plan.standard_error == pytest.approx(plan.best.standard_error, rel=0.5)
    assert plan.naive_test_error == plan.best.test_error


@pytest.mark.slow
def test_the_test_error_holds_for_fresh_rows():
    """The smallest of many estimates is too small by an eighth here."""
    ratios, naive, covered = [], [], 0
    for seed in range(60):
        data = rs.gaussian(3040, 12, noise=1.0, seed=100 + seed)
        X, y = data.X * np.geomspace(0.1, 10, 12), data.y
        plan = rs.plan(X[:40], y[:40], verify=False)
        found = plan.check_on(X[40:], y[40:]).found + plan.best.spread
        ratios.append(np.log(plan.test_error / found))
        naive.append(np.log(plan.naive_test_error / found))
        covered += plan.interval[0] <= found <= plan.interval[1]
    assert np.exp(np.mean(naive)) < 0.95
    assert abs(np.mean(ratios)) < 3 * np.std(ratios) / np.sqrt(60)
    assert covered >= 54


def left_out_in_runs(X, y, recipe, runs):
    """Test errors of trained runs (runs,), each row predicted by a run in which its gradient is left out."""
    rng, n, found = np.random.default_rng(3), len(X), []
    for _ in range(runs):
        beta, speed = np.zeros((n, X.shape[1])), np.zeros((n, X.shape[1]))
        for _ in range(recipe.epochs):
            order = rng.permutation(n)
            for first in range(0, n, recipe.batch_size):
                rows = order[first : first + recipe.batch_size]
                missing = beta @ X[rows].T - y[rows]
                missing[np.arange(n)[:, np.newaxis] == rows] = 0.0
                speed = recipe.momentum * speed + missing @ X[rows] / len(rows)
                beta = beta - recipe.step * speed
        found.append(np.square(y - (X * beta).sum(axis=1)).mean())
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_every_choice_is_what_trained_runs_do(momentum):
    data = rs.gaussian(60, 4, noise=1.0, seed=2)
    X = data.X * [3.0, 1.0, 0.5, 0.3]
    plan = rs.plan(
        X, data.y, batch_sizes=[12], epochs=60, momenta=[momentum], steps=[0.02, 0.1, 0.5], intercept=False,
        standardize=False,
    )  # fmt: skip
    names = [name for name, _ in plan.choices]
    assert names[0] == "recommended"
    assert {"rate too large", "stopped early"} & set(names)
    for _, choice in plan.choices:
        assert choice.is_verified
        runs = left_out_in_runs(X, data.y, choice, 150)
        allowed = 4 * runs.std(ddof=1) / np.sqrt(150) + choice.error + 0.003 * runs.mean()
        assert choice.test_error == pytest.approx(runs.mean(), abs=allowed)


def test_refined_recipes_of_wide_rows_leave_the_means_too():
    """Whoever knows the means of all rows knows the row that is left out: that is not what a new row is like."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24, 60))
    y = X[:, 0] + rng.standard_normal(24)
    plan = rs.plan(X, y, batch_sizes=[12], steps=[0.5], epochs=40)
    best, (Z, t) = plan.best, (plan.problem.X, plan.problem.y)
    assert best.method == "cavity"
    found = np.empty((6, 24))
    for run, row in np.ndindex(found.shape):
        order = np.random.default_rng(run)
        rest = np.arange(24) != row
        rows, answers = Z - Z[rest].mean(axis=0), t - t[rest].mean()
        beta = np.zeros(60)
        for _ in range(best.epochs):
            for batch in np.split(order.permutation(24), 2):
                seen = batch[batch != row]
                beta += best.step / 12 * (answers[seen] - rows[seen] @ beta) @ rows[seen]
        found[run, row] = (answers[row] - rows[row] @ beta) ** 2
    squares = found.mean(axis=1)
    assert best.test_error == pytest.approx(squares.mean(), abs=best.error + 4 * squares.std() / np.sqrt(5))
    assert best.error < 0.01 * best.test_error


def test_more_rows_than_tell_the_quotient_with_momentum():
    """Early in training momentum is far from the mean step, by a factor that differs from row to row."""
    data = rs.gaussian(300, 6, noise=0.3, seed=5)
    X = data.X * np.geomspace(0.2, 3.0, 6)
    plan = rs.plan(X, data.y, batch_sizes=[300], epochs=200, momenta=[0.9])
    assert len(plan.choices) > 2
    for _, choice in plan.choices:
        run = rs.descend(plan.problem, rs.FullBatch(), choice.step, momentum=0.9)
        exact = float(run.leave_one_out(choice.epochs, centred=True).mean_square)
        assert choice.test_error == pytest.approx(exact, rel=1e-3)


@pytest.mark.slow
def test_single_runs_scatter_as_trained_ones_do():
    data = rs.gaussian(60, 4, noise=1.0, seed=2)
    plan = rs.plan(
        data.X, data.y, batch_sizes=[12], epochs=60, steps=[0.5], intercept=False, standardize=False
    )
    runs = left_out_in_runs(data.X, data.y, plan.best, 200)
    assert plan.single_run_deviation == pytest.approx(runs.std(ddof=1), rel=0.35)
    needed = 8 * (plan.single_run_deviation / (0.01 * plan.best.test_error)) ** 2
    assert needed <= plan.runs_to_compare(0.01) < needed + 1
    assert plan.runs_to_compare(10.0) == 1
    assert any("to see that a recipe is 1% better takes" in note for note in plan.notes)
    with pytest.raises(ValueError, match="share must be"):
        plan.runs_to_compare(0.0)


def test_few_rows_and_heavy_tails_are_told():
    data = rs.gaussian(200, 3, noise=1.0, seed=4)
    few = rs.plan(data.X[:12], data.y[:12], epochs=20)
    low, high = few.interval
    assert any(note.startswith("12 rows tell little") for note in few.notes)
    assert high > 1.5 * low
    noise = np.random.default_rng(0).standard_t(2, 200)
    heavy, light = (rs.plan(data.X, data.y + each, epochs=20) for each in (10 * noise, 0.0))
    assert any("heavy tails" in note for note in heavy.notes)
    assert not any("heavy tails" in note or "tell little" in note for note in light.notes)
    left_out = heavy.run.leave_one_out(heavy.best.epochs, centred=True).residuals
    assert heavy.median_absolute_error == pytest.approx(np.median(np.abs(left_out)), rel=0.02)
    assert heavy.median_absolute_error**2 < 0.3 * heavy.test_error


def test_a_target_that_is_fitted_exactly_has_a_test_error():
    X = RNG.standard_normal((30, 2))
    plan = rs.plan(X, X @ [1.0, 2.0], epochs=1000)
    assert 0 <= plan.interval[0] <= plan.test_error <= plan.interval[1] < 1e-6
    found = plan.to_dict()
    assert (found["test_error"], found["naive_test_error"]) == (plan.test_error, plan.best.test_error)
    assert found["interval"] == list(plan.interval)
    # What is less than the error agrees with it.
    new = RNG.standard_normal((20, 2))
    assert plan.check_on(new, new @ [1.0, 2.0]).agrees


@for_all(
    "noise, momentum, verify",
    [
        (noise, momentum, verify)
        for noise in (0.0, 1e-8, 1e-5, 1e-3, 0.1)
        for momentum in (0.0, 0.9)
        for verify in (True, False)
    ],
)
def test_the_interval_holds_where_a_column_determines_y(noise, momentum, verify):
    """What nothing was computed to is no test error: of 1e-28 of the variance of y none was found in training."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((1060, 8))
    y = 2 + 3 * X[:, 0] + X[:, 1] + noise * rng.standard_normal(1060)
    for sizes in ([4], [16], [60], [4, 16, 60]):
        plan = rs.plan(
            X[:60], y[:60], epochs=200, momenta=[momentum], batch_sizes=sizes, steps=[0.1, 0.5], verify=verify
        )
        single = np.mean([plan.check_on(X[60:], y[60:], seed=seed).single_run for seed in range(3)])
        low, high = plan.interval
        assert low <= plan.test_error <= high
        assert low / 1.2 <= single <= 1.2 * high


def test_choices_are_not_listed_with_less_than_their_errors():
    """What the cavity equation does not know is what the mean step has for it; at worst recipes are worse."""
    rng = np.random.default_rng(0)
    group = rng.choice(12, size=90, p=np.arange(12, 0, -1) / 78)
    X = np.hstack([rng.standard_normal((90, 6)) * np.geomspace(1, 0.1, 6), np.eye(12)[group]])
    plan = rs.plan(X, X[:, 0] + 3 * X[:, 4], epochs=1000, batch_sizes=[4, 16, 90])
    unknown = [one for one in (plan.best, *plan.runners_up) if one.error >= one.test_error]
    assert unknown
    assert all(one.known_up_to == one.error for one in unknown)
    assert plan.best.known_up_to <= 1.001 * max(
        plan.search.rounding, min(one.known_up_to for one in plan.runners_up)
    )
    for one in (plan.best, *plan.runners_up):
        assert one.error >= plan.search.rounding
        assert one.is_verified or one.method == "mean step"
    assert "at most" in repr(plan)


rng = np.random.default_rng(3)
X = rng.standard_normal((120, 4)) * [1.0, 5.0, 0.1, 2.0] + 3.0
Y = X @ rng.standard_normal((4, 2)) + 7.0 + rng.standard_normal((120, 2))


@pytest.mark.parametrize("outputs", [None, 2])
def test_the_mean_run_has_the_error_of_its_coefficients(outputs):
    y = Y if outputs else Y[:, 0]
    plan = rs.plan(X[:80], y[:80], batch_sizes=[20], epochs=60)
    check = plan.check_on(X[80:], y[80:])
    slopes, intercept = plan.coefficients
    squares = np.square(X[80:] @ slopes + intercept - y[80:]).reshape(40, -1)
    assert check.found == pytest.approx(squares.mean())
    np.testing.assert_allclose(check.of_outputs, squares.mean(axis=0))
    assert check.found_error == pytest.approx(squares.mean(axis=1).std(ddof=1) / np.sqrt(40))
    assert (check.predicted, check.predicted_error) == (plan.test_error, plan.standard_error)
    assert check.rows == 40


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [None, 2])
def test_a_single_run_adds_the_spread_of_its_predictions(outputs):
    y = Y if outputs else Y[:, 0]
    plan = rs.plan(X[:80], y[:80], batch_sizes=[20], steps=[0.5], epochs=20)
    added = [
        plan.check_on(X[80:], y[80:], seed=seed).single_run - plan.check_on(X[80:], y[80:]).found
        for seed in range(150)
    ]
    rows = plan.standardizer.rows(X[80:])
    expected = np.square(plan.run.covariance(plan.best.epochs).deviation(rows)).mean()
    assert expected > 0
    assert abs(np.mean(added) - expected) < 4 * np.std(added) / np.sqrt(len(added))


def test_other_data_do_not_agree_and_all_rows_at_once_have_no_spread():
    whole = rs.plan(X[:80], Y[:80, 0], batch_sizes=[80], epochs=60).check_on(X[80:], Y[80:, 0])
    assert whole.single_run == pytest.approx(whole.found)
    plan = rs.plan(X[:80], Y[:80, 0], batch_sizes=[20], epochs=60)
    check, broken = (plan.check_on(X[80:], Y[80:, 0] + moved) for moved in (0.0, 20.0))
    assert check.agrees
    assert not broken.agrees
    assert broken.deviations > 2
    assert plan.check_on(X[80:81], Y[80:81, 0]).agrees
    assert repr(check).startswith("HoldoutCheck(predicted ")
    assert repr(check).endswith(" on 40 rows: they agree)")
    assert check.to_dict()["agrees"] is True


def executed(program, **names):
    exec(compile(program, "program", "exec"), names)
    return names


@for_all("outputs", [None, 2])
@for_all("wanted", [{}, {"standardize": False, "intercept": False}])
def test_programs_train_as_planned(outputs, wanted):
    pytest.importorskip("torch")
    features = np.column_stack([X, np.full(120, 3.0)]) if not wanted else X - 3.0
    y = (Y if outputs else Y[:, 0]) - 7.0 * bool(wanted)
    plan = rs.plan(features[:80], y[:80], batch_sizes=[80], epochs=60, penalties=[0.01], **wanted)
    coefficients, intercept = plan.coefficients
    expected = features[80:] @ coefficients + intercept
    model = executed(plan.to_sklearn(), X=features[:80], y=y[:80])["model"]
    np.testing.assert_allclose(model.predict(features[80:]), expected, rtol=1e-4)
    # One batch of all rows is not random: torch, in single precision, ends where the mean does.
    predict = executed(plan.to_torch(), X=features[:80], y=y[:80])["predict"]
    np.testing.assert_allclose(predict(features[80:]).reshape(expected.shape), expected, rtol=1e-3, atol=1e-3)


def test_programs_read_what_they_are_told_to():
    plan = rs.plan(X[:80], Y[:80, 0], batch_sizes=[20], epochs=60)
    for program in (plan.to_torch(reading="X, y = load()"), plan.to_sklearn(reading="X, y = load()")):
        assert "import pandas as pd" in program
        assert "\nX, y = load()\n" in program
    assert all("batch_size=20" in program for program in (plan.to_torch(), plan.to_sklearn()))
    for other in ({"scheme": rs.Cyclic(batch_size=20)}, {"sample_weight": np.linspace(1, 2, 80)}):
        with pytest.raises(UnsupportedError, match="programs are written for rows without weights"):
            rs.plan(X[:80], Y[:80, 0], batch_sizes=[20], epochs=20, verify=False, **other).to_torch()
