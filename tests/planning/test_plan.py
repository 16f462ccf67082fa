"""A plan for training, from memory and from disk, against refits without each row, and against training."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.planning.loo_grid import RowSpectrum
from reshuffle.problem import sources
from tests.looped import for_all

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


WIDE = np.hstack([X, np.sin(np.outer(X[:, 0], np.arange(1, 30)))])


@for_all(
    "features, responses, weights, centred",
    [
        (X, Y, None, False),
        (X, BOTH, None, True),
        (WIDE, BOTH, None, False),
        (WIDE, BOTH, None, True),
        (X, Y, np.linspace(0.3, 2.0, 24), True),
        (WIDE, Y, np.linspace(0.3, 2.0, 24), True),
    ],
)
def test_every_cell_is_that_of_refits_without_each_row(features, responses, weights, centred):
    """Of more columns than rows whoever fits all but one would know that one by the means."""
    plan = rs.plan(
        features, responses, batch_sizes=[8, 24], epochs=30, steps=[0.02, 0.3], penalties=[0.0, 0.1],
        intercept=centred, sample_weight=weights, verify=False,
    )  # fmt: skip
    scaled = plan.standardizer.rows(features) if not centred else features / plan.standardizer.scale
    for penalty, size, share in np.ndindex(plan.mean_squares.shape[:3]):
        step = plan.safe_steps[penalty, size] * plan.shares[share]
        for when in (0, 4, -1):
            visits = int(plan.epochs[when]) * 24 // int(plan.batch_sizes[size])
            found = refitted(scaled, responses, step, visits, plan.penalties[penalty], weights, centred)
            expected = np.square(found).mean() / (1.0 if weights is None else weights.mean())
            assert plan.mean_squares[penalty, size, share, when] == pytest.approx(
                expected, rel=1e-7 if centred else 1e-8
            )


@for_all(
    "data, asked",
    [
        ((X, Y), {"batch_sizes": [6, 24], "sample_weight": np.linspace(0.2, 3.0, 24)}),
        ((X, np.column_stack([Y, 10 * np.cos(X[:, 1])])), {"batch_sizes": [6, 24]}),
        ((X, Y), {"batch_sizes": [24], "momenta": [0.0, 0.5], "steps": [0.05, 0.2]}),
    ],
)
def test_the_best_recipes_are_verified_by_their_runs(data, asked):
    plan = rs.plan(*data, epochs=50, intercept=False, **asked)
    assert {one.momentum for one in (plan.best, *plan.runners_up)} == set(asked.get("momenta", [0.0]))
    assert plan.best.is_verified
    for one in filter(lambda one: one.is_verified, (plan.best, *plan.runners_up)):
        run = rs.descend(plan.run.problem, one.scheme, one.step, momentum=one.momentum, penalty=one.penalty)
        answer = run.leave_one_out(one.epochs)
        assert one.mean_square == pytest.approx(float(np.mean(answer.mean_square)), rel=1e-9)
        if one is plan.best and data[1].ndim == 1:
            assert one.standard_error == pytest.approx(float(answer.standard_error), rel=0.02)


@pytest.mark.slow
@given(size=st.integers(1, 23), penalty=st.sampled_from([0.0, 0.7]))
@settings(max_examples=10, deadline=None)
def test_below_the_safe_step_the_mean_square_converges(size, penalty):
    """Proven for equal batches; with a shorter last one, at half of it, where plans end."""
    problem, scheme = rs.LeastSquares(X, Y), rs.SampleWithReplacement(batch_size=size)
    safe = RowSpectrum.of(problem).safe_step(scheme, penalty)
    share = 0.999 if 24 % size == 0 else 0.5
    assert rs.descend(problem, scheme, share * safe, penalty=penalty).mean_square_stability().converges


@for_all("kind", [rs.SampleReshuffling, rs.SampleWithReplacement, rs.Cyclic])
@for_all("penalty", [0.0, 5.0])
def test_the_estimate_of_the_spread_where_its_assumptions_hold(kind, penalty):
    """A column of signs orthogonal to y: a visit adds step times a mean of x_i y_i, and nothing else is random."""
    rng, step, size = np.random.default_rng(0), 0.04, 16
    x, noise = rng.choice([-1.0, 1.0], 400), rng.standard_normal(400)
    y = noise - x * (x @ noise) / 400
    spectrum, epochs = RowSpectrum.of(rs.LeastSquares(x[:, np.newaxis], y)), np.array([1.0, 2.0, 30.0])
    found = spectrum.spreads(kind(batch_size=size), np.array([step]), epochs, penalty)[0]
    left = (1 - step * (1 + penalty)) ** np.arange(25)
    epoch = (
        step**2
        * np.square(y).mean()
        * {
            rs.SampleReshuffling: (25 * np.square(left).sum() - left.sum() ** 2) / 399,
            rs.SampleWithReplacement: np.square(left).sum() / size,
            rs.Cyclic: 0.0,
        }[kind]
    )
    kept = (1 - step * (1 + penalty)) ** 50
    exact = epoch * (1 - kept**epochs) / (1 - kept)
    # The estimate counts the residuals of single runs, too: 2% here without a penalty.
    more = 1 - step / float(spectrum.safe_step(kind(batch_size=size), penalty))
    np.testing.assert_allclose(found, exact / more, rtol=3e-3)


@pytest.fixture(scope="module")
def planned():
    data = rs.gaussian(90, 40, noise=1.5, seed=3)
    return data, rs.plan(
        data.X, data.y, batch_sizes=[10, 30, 90], epochs=120, penalties=[0.0, 0.3], intercept=False
    )


def test_the_best_recipe_is_the_best_of_all_and_its_number_that_of_its_run(planned):
    _, plan = planned
    totals, best = plan.mean_squares + plan.spreads, plan.best
    assert totals.shape == (2, 3, len(plan.shares), len(plan.epochs))
    # Verified to be what it was taken for, and equal to the least up to a thousandth.
    assert best.is_verified
    assert best.test_error <= 1.01 * totals.min()
    assert plan.naive_test_error == best.mean_square + best.spread
    for other in plan.runners_up:
        assert (other.batch_size, other.penalty) != (best.batch_size, best.penalty)
        assert other.test_error >= best.test_error / 1.001
    at = list(plan.penalties).index(best.penalty)
    np.testing.assert_array_equal(plan.at_best_epoch, totals[at].min(-1))
    answer, single = (plan.run.leave_one_out(best.epochs, of_run=of_run) for of_run in (False, True))
    assert best.mean_square == pytest.approx(float(answer.mean_square), rel=1e-10)
    assert (plan.run.step, plan.run.scheme) == (best.step, best.scheme)
    assert plan.single_run_error == pytest.approx(float(single.mean_square), rel=1e-6)
    assert plan.single_run_error - best.mean_square == pytest.approx(best.spread, rel=0.5, abs=1e-4)
    assert plan.critical_step > best.step
    # One batch of all rows: what is safe is what is critical.
    for penalty, safe in zip(plan.penalties, plan.safe_steps[:, -1], strict=True):
        critical = rs.critical_step(plan.problem, rs.FullBatch(), penalty=float(penalty), mean_square=False)
        assert safe == pytest.approx(critical, rel=1e-6)
    for recipe in (best, *plan.runners_up):
        penalty, size, share, when = recipe.place
        assert (plan.penalties[penalty], plan.batch_sizes[size]) == (recipe.penalty, recipe.batch_size)
        assert plan.safe_steps[penalty, size] * plan.shares[share] == recipe.step
        assert when == np.argmin(np.abs(plan.epochs - recipe.epochs))
    # What is shown beside the recommendation: other rates for as long, and the same rate for longer.
    others = {name: (one.step / best.step, one.epochs) for name, one in plan.choices}
    assert others["rate too small"][0] < 1 < others["rate too large"][0]
    assert others["trained too long"] == (1, plan.epochs[np.argmin(np.abs(plan.epochs - 10 * best.epochs))])


def test_what_needs_no_training_stands_beside_it(planned):
    """Against scikit-learn's own leave-one-out of the best penalty."""
    data, plan = planned
    linear_model = pytest.importorskip("sklearn.linear_model")
    for fits, intercept in ((plan, False), (rs.plan(data.X, data.y, batch_sizes=[90], epochs=5), True)):
        rows, responses = fits.problem.X, fits.problem.y
        alphas = [90 * fits.ridge.penalty]
        model = linear_model.RidgeCV(alphas=alphas, fit_intercept=intercept, store_cv_results=True)
        squares = model.fit(rows, responses + 7 * intercept).cv_results_
        assert fits.ridge.mean_square == pytest.approx(float(squares.mean()), rel=1e-6)
        assert fits.ridge.standard_error == pytest.approx(squares.std(ddof=1) / math.sqrt(90), rel=1e-6)
        table = np.hstack([rows, np.ones((90, 1))]) if intercept else rows
        hat = table @ np.linalg.pinv(table)
        residuals = (responses - hat @ responses) / (1 - np.diag(hat))
        assert fits.least_squares.mean_square == pytest.approx(np.square(residuals).mean(), rel=1e-6)


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


def test_more_columns_than_rows_do_not_know_the_rows_by_the_means():
    """Pure noise: nothing predicts it, and a fit that seems to has seen the answer."""
    rng = np.random.default_rng(2)
    features, responses = rng.standard_normal((30, 80)), rng.standard_normal(30)
    plan = rs.plan(features, responses, epochs=200)
    spread = float(responses.var())
    assert plan.test_error > 0.7 * spread
    assert plan.least_squares.mean_square > 0.7 * spread
    assert plan.ridge.mean_square > 0.7 * spread


@for_all(
    "arguments, error, words",
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
        ({"epochs": 0}, ValueError, "epochs must be a whole number between 1 and 1000000000, but it is 0"),
        ({"scheme": "shuffle"}, TypeError, "scheme must be a scheme"),
        ({"verify": 1}, ValueError, "verify must be True or False"),
        ({"X": [["a"], ["b"]]}, TypeError, "X must hold real numbers"),
        ({"X": X * 1e200}, ValueError, "X must have entries of at most 1e"),
        ({"y": Y * 1e200}, ValueError, "y must have entries of at most 1e"),
    ],
)
def test_bad_arguments(arguments, error, words):
    with pytest.raises(error, match=words):
        rs.plan(**{"X": X, "y": Y, **arguments})


@for_all(
    "p, places",
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


def test_numbers_of_any_size_are_written_as_people_write_them():
    """As in `3000 ± 180`, and factors such as x67: never with an exponent where none is needed."""
    for size in (1.0, 30.0, 500.0):
        plan = rs.plan(X, size * Y, batch_sizes=[4, 24], epochs=40, verify=False)
        tables = [str(plan.table(at_chosen_epoch=chosen)) for chosen in (False, True)]
        assert [len(table.splitlines()) for table in tables] == [4, 4]
        text = "\n".join([repr(plan), *tables])
        assert text.startswith("train with batches of ")
        assert "test_error=" in repr(plan.best)
        assert "least squares" in text
        assert not re.search(r"e\+0[0-5]", text), text
        value, error = re.search(r"by leaving out each of 24 rows, (\S+) ± (\S+) ", text).groups()
        unit = 10 ** (math.floor(math.log10(plan.best.standard_error)) - 1)
        assert abs(float(value) - plan.naive_test_error) <= unit
        assert abs(float(error) - plan.best.standard_error) <= unit
        pattern = r"expected test error \(mean square\) (\S+), between (\S+) and (\S+) \(95%\)"
        told = re.search(pattern, text).groups()
        assert list(map(float, told)) == pytest.approx([plan.test_error, *plan.interval], rel=0.005)
        assert len(value.partition(".")[2]) == len(error.partition(".")[2])


def test_batch_sizes_fit_the_data_and_the_mean_of_many_runs_has_no_spread():
    for rows, sizes, expected in ((24, None, [16, 24]), (10, None, [10]), (24, [8, 1024], [8, 24])):
        plan = rs.plan(X[:rows], Y[:rows], batch_sizes=sizes, epochs=5, of_run=False)
        assert plan.batch_sizes.tolist() == expected
        assert not plan.spreads.any()
        assert plan.best.spread == 0


def test_data_are_standardized_as_far_as_wanted():
    plain, scaled = (
        rs.plan(X, BOTH, batch_sizes=[24], epochs=5, standardize=wanted, intercept=wanted)
        for wanted in (False, True)
    )
    np.testing.assert_array_equal(plain.run.problem.X, X)
    np.testing.assert_array_equal(plain.run.problem.y, BOTH)
    np.testing.assert_allclose(scaled.problem.y.mean(axis=0), 0, atol=1e-12)
    assert math.isclose(scaled.standardizer.response_mean[0], Y.mean())
    with pytest.warns(DeprecationWarning, match="plan.standardizer"):
        assert scaled.data.problem is scaled.run.problem
    # A column that hardly varies counts as much as others, and a constant one has no say.
    noise, weights = np.random.default_rng(0).standard_normal((24, 1)), np.linspace(0.2, 3.0, 24)
    for own in (None, weights):
        plan = rs.plan(np.hstack([X, 1 + 5e-13 * noise]), Y, batch_sizes=[24], epochs=5, sample_weight=own)
        shares = np.full(24, 1 / 24) if own is None else weights / weights.sum()
        rows = plan.problem.X / (1.0 if own is None else np.sqrt(weights)[:, np.newaxis])
        np.testing.assert_allclose(shares @ rows, 0, atol=1e-9)
        np.testing.assert_allclose(shares @ rows**2, 1)
    padded, alone = (
        rs.plan(rows, Y, batch_sizes=[8], epochs=10, verify=False)
        for rows in (np.hstack([X, np.full((24, 1), 3.0)]), X)
    )
    assert padded.coefficients[0][-1] == pytest.approx(0.0, abs=1e-12)
    assert padded.best.mean_square == pytest.approx(alone.best.mean_square, rel=1e-9)


def test_a_recipe_that_refining_moves_to_another_epoch_knows_its_place():
    data = rs.gaussian(60, 50, noise=1.0, seed=2)
    grid = {"batch_sizes": [20], "epochs": 3000, "steps": [0.05], "momenta": [0.9]}
    screened, refined = (rs.plan(data.X, data.y, **grid, verify=verify) for verify in (False, True))
    assert refined.best.epochs > screened.best.epochs
    for plan in (screened, refined):
        assert plan.epochs[plan.best.place[3]] == plan.best.epochs
    assert refined.at_chosen_epoch == refined.errors[:, :, refined.epochs == refined.best.epochs][..., 0]
    # Steps at which modes overshoot have a test error, too.
    plan = rs.plan(data.X, data.y, batch_sizes=[20], epochs=120, steps=[0.3, 0.6, 0.9], verify=False)
    assert np.isfinite(plan.errors).all()
    assert (np.diff(plan.spreads[0, 0], axis=0) > 0).all()


LARGE, SHORT = rs.gaussian(300, 40, noise=1.0, seed=0), rs.gaussian(100, 3, seed=0)
COLUMNS = pd.DataFrame(np.column_stack([X, -Y, Y]))
# 1 of 100 rows differs in the second column, 3 in the third, 4 in the last; the first is constant.
RARE = np.column_stack([np.ones(100), *(np.arange(100) < k for k in (1, 3, 4)), SHORT.X])
LEAK = "column 5 of X (counted from 0) alone determines y: check for a leak"
EDGE = {"batch_sizes": [6, 12], "epochs": 2, "steps": [0.01, 0.02], "penalties": [0.0, 0.1], "verify": False}


@for_all(
    "data, asked, words",
    [
        ((X, Y), {"batch_sizes": [6], "epochs": 20}, "guaranteed; single runs converge up to "),
        ((X, Y), {"batch_sizes": [6], "epochs": 20}, "below which convergence is guaranteed"),
        ((X, Y), {"epochs": 20}, "guaranteed and above which training diverges"),
        ((LARGE.X, LARGE.y), {"batch_sizes": [50], "verify": False}, "larger ones may converge, too"),
        ((X, Y), EDGE, "training is the longest that was compared: a wider grid may be better"),
        ((X, Y), EDGE, "step is the largest that was compared"),
        ((np.column_stack([X, 3 * Y + 1]), Y), {}, LEAK),
        ((np.column_stack([X, np.where(np.arange(24) < 1, Y * (1 + 1e-5), Y)]), Y), {}, LEAK),
        ((COLUMNS, Y), {}, "columns 5, 6 of X (counted from 0) alone determine y"),
        (
            (COLUMNS.set_axis([*"abcdef", "twice y"], axis=1), Y),
            {},
            "'f', 'twice y' alone determine y: check for",
        ),
        ((X, X @ np.arange(1.0, 6.0)), {}, "the columns of X determine y almost exactly"),
        (
            (RARE, SHORT.y),
            {"batch_sizes": [100]},
            "columns 1, 2 of X (counted from 0) differ from the usual value in at most 3 rows: new rows",
        ),
        ((X, (np.median(Y) < Y) * 1.0), {}, "y is 0 or 1: for two classes"),
        ((SHORT.X, np.arange(100) % 10), {"batch_sizes": [100]}, "10 values, all whole: if they are classes"),
    ],
)
def test_what_is_noted(data, asked, words):
    plan = rs.plan(*data, **{"batch_sizes": [24], "epochs": 5, **asked})
    assert any(words in note for note in plan.notes)
    assert words in repr(plan)


def test_nothing_else_is_noted():
    small = rs.plan(X, Y, batch_sizes=[6], epochs=20)
    assert small.notes[0].startswith(f"the step is {small.best.share:.3g} times ")
    assert small.critical_step > small.safe_step > small.best.step
    assert not any("class" in note or "determine" in note for note in small.notes)
    plain = rs.plan(RARE, SHORT.y, batch_sizes=[100], epochs=5, standardize=False)
    assert not any("usual value" in note for note in (*small.notes, *plain.notes))
    data = rs.gaussian(200, 100, noise=1.0, seed=0)
    wide = rs.plan(data.X, data.y, epochs=1000, verify=False)
    assert not any("compared" in note for note in wide.notes)


def test_rounding_chooses_no_recipe():
    noisy, determined = rs.gaussian(60, 5, noise=0.5, seed=0), rs.gaussian(60, 5, noise=0.0, seed=0)
    chosen = []
    for factor in (1.0, 3.0, 1 / 7, 11.0):
        # Without noise all long trainings are right but for rounding; so small a penalty changes nothing but that.
        plan = rs.plan(factor * determined.X, determined.y / factor, batch_sizes=[60])
        chosen.append((plan.best.epochs, plan.best.share, plan.best.penalty))
        plan = rs.plan(factor * noisy.X, noisy.y / factor, batch_sizes=[15, 60], penalties=[0.0, 1e-14])
        chosen[-1] += tuple(
            (one.batch_size, one.penalty, one.epochs) for one in (plan.best, *plan.runners_up)
        )
    # A mean that is far larger than what is to be learned makes no rounding of it.
    far = rs.plan(np.column_stack([noisy.X, np.ones(60)]), noisy.y + 1e6, intercept=False, standardize=False)
    assert far.best.test_error < 1.0
    assert len(set(chosen)) == 1
    assert chosen[0][0] < 40
    assert chosen[0][3][1] == 0.0


@pytest.mark.parametrize(
    ("outputs", "weights", "options"),
    [
        (None, None, {"standardize": False}),
        (2, np.random.default_rng(3).uniform(0.5, 2.0, 300), {"standardize": False, "penalties": [0.0, 0.1]}),
        (None, None, {}),
    ],
)
def test_a_plan_is_that_of_the_rows_in_memory(tmp_path, monkeypatch, outputs, weights, options):
    monkeypatch.setattr(sources, "IN_MEMORY", 0.0)
    monkeypatch.setattr(sources, "CHUNK", 200)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 4)) * np.linspace(1, 2, 4) + 1.0
    y = X @ rng.standard_normal((4, outputs or 1)) + rng.standard_normal((300, outputs or 1))
    y = y if outputs else y[:, 0]
    np.save(tmp_path / "X.npy", X)
    options = {"batch_sizes": [20, 300], "epochs": 50, "sample_weight": weights, **options}
    # Nothing is refined where rows are read in chunks.
    found, expected = rs.plan(tmp_path / "X.npy", y, **options), rs.plan(X, y, verify=False, **options)
    assert found.problem.stream.passes <= 6
    for name in ("mean_squares", "spreads", "safe_steps"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-8)
    assert found.best.words() == expected.best.words()
    for name in ("least_squares", "ridge", "best"):
        for number in ("mean_square", "standard_error"):
            here, there = (getattr(getattr(plan, name), number) for plan in (found, expected))
            assert here == pytest.approx(there, rel=1e-8)
    if "standardize" in options:
        np.testing.assert_allclose(found.interval, expected.interval, rtol=1e-8)
    else:
        # In memory rows are left out of the scales, too.
        np.testing.assert_allclose(found.interval, expected.interval, rtol=0.01)
    np.testing.assert_allclose(found.coefficients[0], expected.coefficients[0], rtol=1e-3)
    checked = found.check_on(X[:50], y[:50])
    assert np.isnan(checked.single_run)
    assert checked.found == pytest.approx(expected.check_on(X[:50], y[:50]).found, rel=1e-3)
