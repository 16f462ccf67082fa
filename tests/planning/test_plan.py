"""A plan for training, against refits without each row, and against training itself."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.planning.loo_grid import LeftOutCurve, RowSpectrum, SpreadEstimate, ridge_left_out
from reshuffle.problem.standardizer import Standardizer

RNG = np.random.default_rng(4)
X = RNG.standard_normal((24, 5)) @ np.diag([3.0, 2.0, 1.0, 0.5, 0.2]) + 1.5
Y = X @ np.array([0.3, -0.5, 1.0, 2.0, 0.0]) + RNG.standard_normal(24) + 4.0
BOTH = np.column_stack([Y, Y**2])


def refitted(X, y, step, visits, penalty, weights=None, centred=False):
    """Residuals (n, t) of rows whose gradient is left out of every visit of the mean step, one by one.

    If rows are centred, by the means of those that are left.
    """
    n, p = X.shape
    all_X, all_y = X, y.reshape(n, -1)
    weights = np.ones(n) if weights is None else weights
    found = np.zeros(all_y.shape)
    for row in range(n):
        rest = np.delete(np.arange(n), row)
        share = weights[rest, np.newaxis] / weights[rest].sum() if centred else np.zeros((n - 1, 1))
        roots = np.sqrt(weights)[:, np.newaxis]
        X, y = (roots * (each - (share * each[rest]).sum(axis=0)) for each in (all_X, all_y))
        beta = np.zeros((p, y.shape[1]))
        for _ in range(visits):
            beta = beta - step * (X[rest].T @ (X[rest] @ beta - y[rest]) / n + penalty * beta)
        found[row] = y[row] - X[row] @ beta
    return found


@pytest.mark.parametrize("responses", [Y, BOTH], ids=["one output", "two"])
@pytest.mark.parametrize("wide", [False, True])
def test_one_curve_leaves_out_rows_for_every_step_and_penalty(responses, wide):
    features = np.hstack([X, np.sin(np.outer(X[:, 0], np.arange(1, 30)))]) if wide else X
    problem = rs.LeastSquares(features, responses)
    spectrum = RowSpectrum.of(problem)
    largest = 1 / spectrum.values.max()
    curve = LeftOutCurve.around(spectrum, largest, 60 * largest, 0.5 * spectrum.values.max())
    for step, visits, penalty in (
        (largest, [1, 7, 60], 0.0),
        (0.1 * largest, [3, 400], 0.0),
        (0.6 * largest, [2, 50], 0.5 * spectrum.values.max()),
        (0.02 * largest, [1, 300], 0.01),
    ):
        expected = np.array([refitted(features, responses, step, count, penalty) for count in visits])
        when = np.array(visits, dtype=float)
        np.testing.assert_allclose(curve.residuals(step, when, penalty), expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(
            curve.mean_squares(step, when, penalty), np.square(expected).mean(axis=(1, 2)), rtol=1e-8
        )


@pytest.mark.parametrize(
    "features", [X, np.hstack([X, np.sin(np.outer(X[:, 0], np.arange(1, 30)))])], ids=["tall", "wide"]
)
@pytest.mark.parametrize("weights", [None, np.linspace(0.3, 2.0, 24)], ids=["alike", "weighted"])
def test_rows_are_left_out_of_the_means_too(features, weights):
    """Of more columns than rows whoever fits all but one would know that one by the means."""
    made = Standardizer.of(features, BOTH, weights=weights)
    problem = rs.LeastSquares(made.rows(features), made.responses(BOTH), sample_weight=weights)
    spectrum = RowSpectrum.of(problem, centred=True)
    largest = 1 / spectrum.values.max()
    curve = LeftOutCurve.around(spectrum, largest, 2000 * largest, 0.1)
    scaled = features / made.scale
    for step, visits, penalty in ((largest, [1, 40, 400], 0.0), (0.5 * largest, [10], 0.1)):
        expected = [refitted(scaled, BOTH, step, count, penalty, weights, centred=True) for count in visits]
        found = curve.residuals(step, np.array(visits, dtype=float), penalty)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@given(share=st.floats(1e-3, 1.0), visits=st.integers(1, 10**6), penalty=st.sampled_from([0.0, 0.1, 2.0]))
@settings(max_examples=25, deadline=None)
def test_the_curve_says_what_a_run_says(share, visits, penalty):
    """Full-batch runs know their leave-one-out by a curve of their own."""
    problem = rs.LeastSquares(X, BOTH)
    spectrum = RowSpectrum.of(problem)
    step = share * spectrum.safe_step(rs.FullBatch(), penalty) / 2
    curve = LeftOutCurve.around(spectrum, 1 / spectrum.values.max(), 1e6 / spectrum.values.max(), 2.0)
    alone = (
        rs.descend(problem, rs.FullBatch(), step, penalty=penalty).leave_one_out(visits).mean_square.mean()
    )
    found = curve.mean_squares(step, np.array([float(visits)]), penalty)[0]
    assert found == pytest.approx(alone, rel=1e-9)


@pytest.mark.parametrize("responses", [Y, BOTH], ids=["one output", "two"])
def test_ridge_without_each_row(responses):
    spectrum = RowSpectrum.of(rs.LeastSquares(X, responses))
    penalties = np.array([1e-9, 0.1, 3.0])
    means, errors = ridge_left_out(spectrum, penalties)
    for penalty, mean, error in zip(penalties, means, errors, strict=True):
        residuals = []
        for row in range(24):
            rest = np.delete(np.arange(24), row)
            matrix = X[rest].T @ X[rest] / 24 + penalty * np.eye(5)
            beta = np.linalg.solve(matrix, X[rest].T @ responses[rest] / 24)
            residuals.append(responses[row] - X[row] @ beta)
        assert mean == pytest.approx(np.square(residuals).mean(), rel=1e-8)
        each = np.square(residuals).reshape(24, -1).mean(axis=1)
        assert error == pytest.approx(each.std(ddof=1) / math.sqrt(24), rel=1e-8)


@pytest.mark.slow
@given(size=st.integers(1, 23), penalty=st.sampled_from([0.0, 0.7]))
@settings(max_examples=10, deadline=None)
def test_below_the_safe_step_the_mean_square_converges(size, penalty):
    """Proven for equal batches; with a shorter last one, at half of it, where plans end."""
    problem, scheme = rs.LeastSquares(X, Y), rs.SampleWithReplacement(batch_size=size)
    safe = RowSpectrum.of(problem).safe_step(scheme, penalty)
    share = 0.999 if 24 % size == 0 else 0.5
    assert rs.descend(problem, scheme, share * safe, penalty=penalty).mean_square_stability().converges


def test_the_safe_step_of_the_full_batch_is_the_critical_one():
    problem = rs.LeastSquares(X, Y)
    safe = RowSpectrum.of(problem).safe_step(rs.FullBatch(), 0.3)
    assert safe == pytest.approx(
        rs.critical_step(problem, rs.FullBatch(), penalty=0.3, mean_square=False), rel=1e-6
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "tolerance"),
    [
        (rs.SampleReshuffling(batch_size=8), 0.35),
        (rs.SampleReshuffling(batch_size=53), 0.35),
        (rs.SampleWithReplacement(batch_size=8), 0.35),
    ],
    ids=["shuffled", "a last batch of one row", "drawn"],
)
def test_the_estimate_of_the_spread_is_about_right(scheme, tolerance):
    """Against the covariance of runs: Gaussian rows, where gradients have the covariance that is assumed."""
    data = rs.gaussian(160, 4, noise=2.0, seed=1)
    problem = rs.LeastSquares(data.X, data.y)
    run, when = rs.descend(problem, scheme, 0.1), np.array([1.0, 3.0, 20.0])
    exact = 2 * (run.excess_training_loss(when, of_run=True) - run.excess_training_loss(when))
    found = SpreadEstimate(RowSpectrum.of(problem)).along(scheme, np.array([0.1]), when)[0]
    np.testing.assert_allclose(found, exact, rtol=tolerance)


@pytest.mark.parametrize("kind", [rs.SampleReshuffling, rs.SampleWithReplacement])
def test_the_estimate_of_the_spread_where_its_assumptions_hold(kind):
    """A column of signs orthogonal to y: a visit adds step times a mean of x_i y_i, and nothing else is random."""
    rng, step, size = np.random.default_rng(0), 0.04, 16
    x, noise = rng.choice([-1.0, 1.0], 400), rng.standard_normal(400)
    y = noise - x * (x @ noise) / 400
    found = SpreadEstimate(RowSpectrum.of(rs.LeastSquares(x[:, np.newaxis], y))).along(
        kind(batch_size=size), np.array([step]), np.array([1.0, 2.0, 30.0])
    )[0]
    left = (1 - step) ** np.arange(25)
    if kind is rs.SampleReshuffling:
        epoch = step**2 * np.square(y).mean() / 399 * (25 * np.square(left).sum() - left.sum() ** 2)
    else:
        epoch = step**2 * np.square(y).mean() / size * np.square(left).sum()
    kept = (1 - step) ** 50
    exact = epoch * (1 - kept ** np.array([1, 2, 30])) / (1 - kept)
    # The estimate counts the residuals of single runs, too: 2% here.
    np.testing.assert_allclose(found, exact, rtol=0.03)


def test_steps_are_estimated_as_if_each_were_alone():
    estimate, scheme = (
        SpreadEstimate(RowSpectrum.of(rs.LeastSquares(X, Y))),
        rs.SampleReshuffling(batch_size=5),
    )
    steps, when = np.array([1e-9, 1e-3, 0.02]), np.array([1.0, 4.0, 500.0])
    together = estimate.along(scheme, steps, when, 0.1)
    alone = [estimate.along(scheme, steps[[place]], when, 0.1)[0] for place in range(3)]
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    assert (np.diff(together, axis=0) > 0).all()


def test_no_spread_without_randomness():
    estimate = SpreadEstimate(RowSpectrum.of(rs.LeastSquares(X, Y)))
    for scheme in (rs.FullBatch(), rs.Cyclic(batches=4), rs.SampleReshuffling(batch_size=24)):
        assert not estimate.along(scheme, np.array([0.01]), np.array([1.0, 5.0])).any()


@pytest.fixture(scope="module")
def planned():
    data = rs.gaussian(90, 40, noise=1.5, seed=3)
    return data, rs.plan(
        data.X, data.y, batch_sizes=[10, 30, 90], epochs=120, penalties=[0.0, 0.3], intercept=False
    )


def test_the_best_recipe_is_the_best_of_all_that_were_compared(planned):
    _, plan = planned
    totals = plan.mean_squares + plan.spreads
    assert totals.shape == (2, 3, len(plan.shares), len(plan.epochs))
    # Verified to be what it was taken for, and equal to the least up to a thousandth.
    assert plan.best.is_verified
    assert plan.best.test_error <= 1.01 * totals.min()
    assert plan.naive_test_error == plan.best.mean_square + plan.best.spread
    for other in plan.runners_up:
        kind = (other.batch_size, other.penalty, other.momentum)
        assert kind != (plan.best.batch_size, plan.best.penalty, plan.best.momentum)
        assert other.test_error >= plan.best.test_error / 1.001
    np.testing.assert_array_equal(
        plan.at_best_epoch, totals[list(plan.penalties).index(plan.best.penalty)].min(-1)
    )


def test_the_number_for_the_best_recipe_is_that_of_its_run(planned):
    _, plan = planned
    answer = plan.run.leave_one_out(plan.best.epochs)
    assert plan.best.mean_square == pytest.approx(float(answer.mean_square), rel=1e-10)
    assert plan.best.standard_error == pytest.approx(float(answer.standard_error), rel=0.02)
    assert plan.run.step == plan.best.step
    assert plan.run.scheme == plan.best.scheme
    single = plan.run.leave_one_out(plan.best.epochs, of_run=True)
    assert plan.single_run_error == pytest.approx(float(single.mean_square), rel=1e-6)
    assert plan.single_run_error - plan.best.mean_square == pytest.approx(plan.best.spread, rel=0.5, abs=1e-4)
    assert plan.critical_step > plan.best.step


def test_every_cell_is_the_leave_one_out_of_a_run_that_draws_its_batches(planned):
    _, plan = planned
    rng = np.random.default_rng(0)
    for _ in range(6):
        place = tuple(int(rng.integers(size)) for size in plan.mean_squares.shape)
        penalty, size = float(plan.penalties[place[0]]), int(plan.batch_sizes[place[1]])
        step = float(plan.safe_steps[place[0], place[1]] * plan.shares[place[2]])
        scheme = rs.SampleWithReplacement(batch_size=size)
        run = rs.descend(plan.run.problem, scheme, step, penalty=penalty)
        expected = run.leave_one_out(plan.epochs[place[3]])
        assert plan.mean_squares[place] == pytest.approx(float(expected.mean_square), rel=1e-8)


def test_coefficients_are_in_the_units_of_the_data():
    data = rs.gaussian(60, 3, noise=0.1, seed=5)
    features = data.X * [1.0, 50.0, 0.01] + [5.0, -3.0, 0.0]
    for responses in (data.y + 7, np.column_stack([data.y + 7, 3 * data.y])):
        plan = rs.plan(features, responses, batch_sizes=[20], epochs=400)
        coefficients, intercept = plan.coefficients
        inside = plan.run.predict(plan.run.problem.X, plan.best.epochs) + responses.mean(axis=0)
        np.testing.assert_allclose(features @ coefficients + intercept, inside, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(features @ coefficients + intercept, responses, atol=1.5)
    raw = rs.plan(features, data.y, batch_sizes=[20], epochs=50, standardize=False, intercept=False)
    np.testing.assert_array_equal(raw.run.problem.X, features)
    assert raw.coefficients[1] == 0.0


def test_what_needs_no_training_stands_beside_it(planned):
    """Against scikit-learn's own leave-one-out of the best penalty."""
    data, plan = planned
    linear_model = pytest.importorskip("sklearn.linear_model")
    centred = rs.plan(data.X, data.y, batch_sizes=[90], epochs=5)
    for fits, intercept in ((plan, False), (centred, True)):
        alphas = [90 * fits.ridge.penalty]
        model = linear_model.RidgeCV(alphas=alphas, fit_intercept=intercept, store_cv_results=True)
        model.fit(fits.run.problem.X, fits.run.problem.y + 7 * intercept)
        assert fits.ridge.mean_square == pytest.approx(float(model.cv_results_.mean()), rel=1e-6)
        table = np.hstack([fits.run.problem.X, np.ones((90, 1))]) if intercept else fits.run.problem.X
        hat = table @ np.linalg.pinv(table)
        residuals = (fits.run.problem.y - hat @ fits.run.problem.y) / (1 - np.diag(hat))
        assert fits.least_squares.mean_square == pytest.approx(np.square(residuals).mean(), rel=1e-6)


def test_momentum_is_looked_at_closely():
    data = rs.gaussian(40, 4, noise=1.0, seed=6)
    plan = rs.plan(
        data.X, data.y, batch_sizes=[40], epochs=30, momenta=[0.0, 0.5], steps=[0.05, 0.2], intercept=False
    )
    assert {recipe.momentum for recipe in (plan.best, *plan.runners_up)} == {0.0, 0.5}
    other = next(recipe for recipe in (plan.best, *plan.runners_up) if recipe.momentum == 0.5)
    run = rs.descend(plan.run.problem, other.scheme, other.step, momentum=0.5)
    assert other.mean_square == pytest.approx(float(run.leave_one_out(other.epochs).mean_square), rel=1e-9)


def test_weights_of_rows():
    weights = np.random.default_rng(1).uniform(0.2, 3.0, 24)
    given_means = rs.plan(X, Y, batch_sizes=[6, 24], epochs=50, sample_weight=weights, intercept=False)
    answer = given_means.run.leave_one_out(given_means.best.epochs)
    assert given_means.best.mean_square == pytest.approx(float(answer.mean_square), rel=1e-9)
    assert given_means.best.standard_error == pytest.approx(float(answer.standard_error), rel=0.02)
    plan = rs.plan(X, Y, batch_sizes=[6, 24], epochs=50, sample_weight=weights)
    full = rs.descend(
        given_means.run.problem, rs.FullBatch(), given_means.safe_steps[0, 1] * given_means.shares[3]
    )
    expected = full.leave_one_out(given_means.epochs).mean_square
    np.testing.assert_allclose(given_means.mean_squares[0, 1, 3], expected, rtol=1e-9)
    features = plan.run.problem.X / np.sqrt(weights)[:, np.newaxis]
    np.testing.assert_allclose(weights @ features, 0, atol=1e-9)
    np.testing.assert_allclose(weights @ features**2 / weights.sum(), 1)


def test_equal_weights_only_change_the_unit_of_steps():
    plain, twice = (
        rs.plan(X, Y, batch_sizes=[6, 24], epochs=50, verify=False, sample_weight=weights)
        for weights in (None, np.full(24, 2.0))
    )
    np.testing.assert_allclose(twice.mean_squares, plain.mean_squares, rtol=1e-9)
    np.testing.assert_allclose(twice.spreads, plain.spreads, rtol=1e-9)
    np.testing.assert_allclose(twice.safe_steps, plain.safe_steps / 2, rtol=1e-9)
    assert twice.ridge.mean_square == pytest.approx(plain.ridge.mean_square, rel=1e-6)
    assert twice.ridge.standard_error == pytest.approx(plain.ridge.standard_error, rel=1e-6)
    assert twice.standard_error == pytest.approx(plain.standard_error, rel=1e-9)


def test_many_outputs_count_alike():
    responses = np.column_stack([Y, 10 * np.cos(X[:, 1])])
    plan = rs.plan(X, responses, batch_sizes=[6, 24], epochs=50, intercept=False)
    found = plan.run.leave_one_out(plan.best.epochs).mean_square
    assert found.shape == (2,)
    assert plan.best.mean_square == pytest.approx(found.mean(), rel=1e-9)


def test_the_recommendation_is_readable(planned):
    _, plan = planned
    lines = repr(plan).splitlines()
    assert lines[0].startswith("train with batches of ")
    assert "expected test error" in lines[1]
    assert any("least squares" in line for line in lines)
    for table in (plan.table(), plan.table(at_chosen_epoch=True)):
        assert len(str(table).splitlines()) == 2 + len(plan.batch_sizes)
    assert "test_error=" in repr(plan.best)


def test_a_longer_training_that_is_better_by_less_than_a_thousandth_is_explained():
    """A line says why it is not chosen, and there is none where nothing shown is better than the choice."""
    reason = "  within 0.1% of the least test error, the shortest training is chosen"
    data = rs.gaussian(200, 100, noise=1.0, seed=0)
    seen = set()
    for sizes in ([50, 100], [50, 200], [20, 100]):
        plan = rs.plan(data.X, data.y, batch_sizes=sizes, epochs=200, verify=False)
        least = min(one.test_error for one in (plan.best, *plan.runners_up))
        assert plan.best.test_error <= 1.001 * least
        is_beaten = least < plan.best.test_error
        assert all(
            one.epochs >= plan.best.epochs for one in plan.runners_up if one.test_error <= 1.001 * least
        )
        assert (repr(plan).splitlines()[-1] == reason) == (reason in repr(plan)) == is_beaten
        seen.add(is_beaten)
    assert seen == {True, False}


def test_numbers_of_any_size_are_written_as_people_write_them():
    """As in `3000 ± 180`, and factors such as x67: never with an exponent where none is needed."""
    for size in (1.0, 30.0, 500.0):
        plan = rs.plan(X, size * Y, batch_sizes=[4, 24], epochs=40, verify=False)
        text = f"{plan!r}\n{plan.table()}\n{plan.table(at_chosen_epoch=True)}"
        assert not re.search(r"e\+0[0-5]", text), text
        value, error = re.search(r"by leaving out each of 24 rows, (\S+) ± (\S+) ", text).groups()
        unit = 10 ** (math.floor(math.log10(plan.best.standard_error)) - 1)
        assert abs(float(value) - plan.naive_test_error) <= unit
        assert abs(float(error) - plan.best.standard_error) <= unit
        pattern = r"expected test error \(mean square\) (\S+), between (\S+) and (\S+) \(95%\)"
        told = re.search(pattern, text).groups()
        assert [float(number) for number in told] == pytest.approx(
            [plan.test_error, *plan.interval], rel=0.005
        )
        assert len(value.partition(".")[2]) == len(error.partition(".")[2])


def test_a_plan_for_the_mean_of_many_runs_has_no_spread():
    plan = rs.plan(X, Y, batch_sizes=[4, 8], epochs=40, of_run=False)
    assert not plan.spreads.any()
    assert plan.best.spread == 0


def test_default_batch_sizes_fit_the_data():
    assert rs.plan(X, Y, epochs=5, verify=False).batch_sizes.tolist() == [16, 24]
    few = rs.plan(X[:10], Y[:10], epochs=5, verify=False)
    assert few.batch_sizes.tolist() == [10]


def test_more_columns_than_rows_do_not_know_the_rows_by_the_means():
    """Pure noise: nothing predicts it, and a fit that seems to has seen the answer."""
    rng = np.random.default_rng(2)
    features, responses = rng.standard_normal((30, 80)), rng.standard_normal(30)
    plan = rs.plan(features, responses, epochs=200)
    spread = float(responses.var())
    assert plan.test_error > 0.7 * spread
    assert plan.least_squares.mean_square > 0.7 * spread
    assert plan.ridge.mean_square > 0.7 * spread


def test_constant_columns_have_no_say():
    padded = np.hstack([X, np.full((24, 1), 3.0)])
    plan = rs.plan(padded, Y, batch_sizes=[8], epochs=10, verify=False)
    assert plan.coefficients[0][-1] == pytest.approx(0.0, abs=1e-12)
    assert plan.best.mean_square == pytest.approx(
        rs.plan(X, Y, batch_sizes=[8], epochs=10, verify=False).best.mean_square, rel=1e-9
    )


@pytest.mark.parametrize(
    ("p", "places"),
    [
        # The last bits of these matrices differ with the kernels of BLAS: each of them ended in an error with some.
        (40, [21, 35, 17, 11, 39, 37, 21, 23]),
        (28, [10, 2, 22, 8, 16, 11, 24, 21, 26, 12]),
        (26, [19, 15, 16, 3, 10, 1, 22]),
    ],
)
def test_eigenvalues_that_coincide(p, places):
    """Rows of an identity matrix: most columns are zeros, and most eigenvalues the same."""
    features, responses = np.eye(p)[places], np.arange(float(len(places)))
    plan = rs.plan(features, responses)
    assert plan.best.batch_size == len(places)
    found = refitted(
        features / plan.standardizer.scale, responses, plan.best.step, plan.best.epochs, 0.0, centred=True
    )
    assert plan.best.mean_square == pytest.approx(np.square(found).mean(), rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"X": np.where(X > 4, np.nan, X)}, ValueError, "drop or impute"),
        ({"y": np.where(Y > 5.0, np.nan, Y)}, ValueError, "drop or impute"),
        ({"y": np.full(24, 3.0)}, ValueError, "y must not be the same for all rows, but it is 3 everywhere"),
        ({"y": np.column_stack([Y, np.ones(24)])}, ValueError, r"y\[:, 1\] must not be the same"),
        ({"X": X[:1], "y": Y[:1]}, ValueError, "at least 3 rows"),
        ({"X": np.ones((24, 2))}, ValueError, "column that is not constant"),
        ({"X": np.zeros((24, 2)), "intercept": False}, ValueError, "X must have an entry that is not zero"),
        ({"X": rs.LeastSquares(np.zeros((24, 2)), Y), "y": None}, ValueError, "entry that is not zero"),
        ({"batch_sizes": [0]}, ValueError, "batch_sizes must be a whole number of at least 1"),
        ({"batch_sizes": []}, ValueError, "batch_sizes must be a list"),
        ({"steps": [1.5]}, ValueError, "steps must be a list of numbers above 0 and below 1"),
        ({"steps": []}, ValueError, "steps must be a list"),
        ({"momenta": [1.0]}, ValueError, "momenta must be a list of numbers at least 0 and below 1"),
        ({"momenta": [-0.1]}, ValueError, "momenta must be a list"),
        ({"penalties": [-1.0]}, ValueError, "penalties must be a list of numbers at least 0"),
        ({"epochs": 0}, ValueError, "epochs must be a whole number of at least 1"),
        ({"scheme": "shuffle"}, TypeError, "scheme must be a scheme"),
        ({"verify": 1}, ValueError, "verify must be True or False"),
        ({"X": [["a"], ["b"]]}, TypeError, "X must hold real numbers"),
    ],
)
def test_bad_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        rs.plan(**{"X": X, "y": Y, **arguments})


def test_data_are_standardized_as_far_as_wanted():
    plain, scaled = (
        rs.plan(X, BOTH, batch_sizes=[24], epochs=5, standardize=wanted, intercept=wanted)
        for wanted in (False, True)
    )
    np.testing.assert_array_equal(plain.run.problem.X, X)
    np.testing.assert_array_equal(plain.run.problem.y, BOTH)
    problem = scaled.run.problem
    np.testing.assert_allclose(problem.X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(problem.X.std(axis=0), 1)
    np.testing.assert_allclose(problem.y.mean(axis=0), 0, atol=1e-12)
    assert math.isclose(scaled.standardizer.response_mean[0], Y.mean())
    with pytest.warns(DeprecationWarning, match="plan.standardizer"):
        assert scaled.data.problem is problem


def test_a_column_that_hardly_varies_is_scaled_like_all_others():
    """As by the estimators and the command line: 1 + 5e-13 z counts as much as z."""
    noise = np.random.default_rng(0).standard_normal((24, 1))
    plan = rs.plan(np.hstack([X, 1 + 5e-13 * noise]), Y, batch_sizes=[24], epochs=5)
    np.testing.assert_allclose(plan.run.problem.X.std(axis=0), 1)


def test_recipes_know_their_place(planned):
    _, plan = planned
    for recipe in (plan.best, *plan.runners_up):
        penalty, size, share, when = recipe.place
        assert (plan.penalties[penalty], plan.batch_sizes[size]) == (recipe.penalty, recipe.batch_size)
        assert plan.safe_steps[penalty, size] * plan.shares[share] == recipe.step
        assert when == np.argmin(np.abs(plan.epochs - recipe.epochs))


def test_steps_at_which_modes_overshoot_have_a_test_error():
    data = rs.gaussian(90, 40, noise=1.5, seed=3)
    plan = rs.plan(data.X, data.y, batch_sizes=[30], epochs=120, steps=[0.3, 0.6, 0.9], verify=False)
    assert np.isfinite(plan.errors).all()
    assert (np.diff(plan.spreads[0, 0], axis=0) > 0).all()


def test_a_recipe_that_refining_moves_to_another_epoch_knows_its_place():
    data = rs.gaussian(60, 50, noise=1.0, seed=2)
    grid = {"batch_sizes": [20], "epochs": 3000, "steps": [0.05], "momenta": [0.9]}
    screened, refined = (rs.plan(data.X, data.y, **grid, verify=verify) for verify in (False, True))
    assert refined.best.epochs > screened.best.epochs
    for plan in (screened, refined):
        assert plan.epochs[plan.best.place[3]] == plan.best.epochs
    assert refined.at_chosen_epoch == refined.errors[:, :, refined.epochs == refined.best.epochs][..., 0]


def noted(plan, words):
    return any(words in note for note in plan.notes) and words in repr(plan)


def test_guarantee_and_threshold_are_told_apart():
    small = rs.plan(X, Y, batch_sizes=[6], epochs=20)
    assert small.notes[0].startswith(f"the step is {small.best.share:.3g} times ")
    assert noted(small, "below which convergence is guaranteed; single runs converge up to ")
    assert small.critical_step > small.safe_step > small.best.step
    assert noted(rs.plan(X, Y, batch_sizes=[24], epochs=20), "guaranteed and above which training diverges")
    large = rs.gaussian(300, 40, noise=1.0, seed=0)
    assert noted(
        rs.plan(large.X, large.y, batch_sizes=[50], epochs=20, verify=False), "larger ones may converge, too"
    )


def test_a_recommendation_at_the_edge_of_its_grid_says_so():
    plan = rs.plan(
        X, Y, batch_sizes=[6, 12], epochs=2, steps=[0.01, 0.02], penalties=[0.0, 0.1], verify=False
    )
    assert noted(plan, "training is the longest that was compared: a wider grid may be better")
    assert noted(plan, "step is the largest that was compared")
    data = rs.gaussian(200, 100, noise=1.0, seed=0)
    wide = rs.plan(data.X, data.y, epochs=1000, verify=False)
    assert not any("compared" in note for note in wide.notes)


def test_columns_that_determine_the_target_are_noted():
    for copy in (3 * Y + 1, np.where(np.arange(24) < 1, Y * (1 + 1e-5), Y)):
        plan = rs.plan(np.column_stack([X, copy]), Y, batch_sizes=[24], epochs=5)
        assert noted(plan, "column 5 of X (counted from 0) alone determines y: check for a leak")
    table = pd.DataFrame(np.column_stack([X, -Y, Y]))
    unnamed = rs.plan(table, Y, batch_sizes=[24], epochs=5)
    assert noted(unnamed, "columns 5, 6 of X (counted from 0) alone determine y")
    named = rs.plan(table.set_axis([*"abcdef", "twice y"], axis=1), Y, batch_sizes=[24], epochs=5)
    assert noted(named, "'f', 'twice y' alone determine y: check for a leak")
    sums = rs.plan(X, X @ np.arange(1.0, 6.0), batch_sizes=[24], epochs=5)
    assert noted(sums, "the columns of X determine y almost exactly")
    assert not any("determine" in note for note in rs.plan(X, Y, batch_sizes=[24], epochs=5).notes)


def test_targets_that_look_like_classes_are_noted():
    assert noted(
        rs.plan(X, (np.median(Y) < Y) * 1.0, batch_sizes=[24], epochs=5), "y is 0 or 1: for two classes"
    )
    rows = rs.gaussian(100, 3, seed=0).X
    classes = rs.plan(rows, np.arange(100) % 10, batch_sizes=[100], epochs=5)
    assert noted(classes, "y has 10 values, all whole: if they are classes, plan with classes=True")
    assert not any("class" in note for note in rs.plan(X, Y, batch_sizes=[24], epochs=5).notes)


def test_batches_larger_than_the_data_hold_all_of_them():
    plan = rs.plan(X, Y, batch_sizes=[8, 1024], epochs=10, verify=False)
    assert plan.batch_sizes.tolist() == [8, 24]


@pytest.mark.parametrize(("features", "responses", "name"), [(X * 1e200, Y, "X"), (X, Y * 1e200, "y")])
def test_numbers_without_squares(features, responses, name):
    with pytest.raises(ValueError, match=f"{name} must have entries of at most 1e"):
        rs.plan(features, responses)
