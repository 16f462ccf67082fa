"""Nesterov, steps that change with every visit, penalties that leave parameters out: against enumeration."""

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.epoch import timeline
from tests.oracles import every_order
from tests.oracles.every_scheme import agree, schemes, state_maps
from tests.oracles.extended import DIGITS, Extended, rounded
from tests.problems import case, close

NESTEROV = {"momentum": 0.6, "nesterov": True}
RECIPES = {
    "plain": {},
    "penalty": {"penalty": 0.3},
    "momentum": {"momentum": 0.6},
    "nesterov": NESTEROV,
    "nesterov, penalty": {**NESTEROV, "penalty": 0.3},
    "unpenalized": {"penalty": 0.7, "unpenalized": (0,)},
    "unpenalized, momentum": {"penalty": 0.7, "unpenalized": (1, 2), "momentum": 0.6},
    "unpenalized, nesterov": {"penalty": 0.7, "unpenalized": (1, 2), **NESTEROV},
}
DRAWN_OUT = {name: RECIPES[name] for name in ("nesterov, penalty", "unpenalized, momentum")}


def steps_of(visits, epochs, seed=0):
    """Steps (epochs, visits) that are all different, and a pause among them."""
    steps = np.random.default_rng(seed).uniform(0.01, 0.15, (epochs, visits))
    steps[0, -1] = 0.0
    return steps


def follow(tiny, scheme, epochs, fresh, per_visit, **recipe):
    """Compare with the enumeration after one or two epochs, at one step or at one for every visit."""
    count = 2 if len(epochs) < 100 else 1
    if not per_visit:
        return agree(tiny, scheme, epochs, fresh, [tiny.step] * count, tiny.step, **recipe)
    steps = steps_of(scheme.steps(tiny.problem.n), count)
    return agree(tiny, scheme, epochs, fresh, list(steps), rs.PerVisit(steps.ravel()), **recipe)


@pytest.mark.parametrize("per_visit", [False, True])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("n", "p", "batches", "equal"), [(6, 3, 3, True), (4, 6, 2, False), (4, 4, 2, True)])
def test_all_schemes(n, p, batches, equal, recipe, per_visit):
    tiny = case(n, p, batches, equal=equal, step=0.08, seed=n + p)
    for scheme, epochs, fresh in schemes(tiny):
        follow(tiny, scheme, epochs, fresh, per_visit, **RECIPES[recipe])


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 6), st.integers(0, 10**6), st.sampled_from([0.0, 1e-6, 0.1, 0.4]),
    st.sampled_from([0.0, 1e-8, 0.3, 3.0]), st.sampled_from([0.0, 1e-6, 0.7, 0.95]),
    st.booleans(), st.booleans(), st.booleans(), st.booleans(),
)  # fmt: skip
def test_any_shape(n, p, seed, step, penalty, momentum, nesterov, deficient, leaves_out, per_visit):
    rank = max(1, min(n, p) - 1) if deficient else None
    tiny = case(n, p, min(2, n), seed=seed, step=step, equal=False, rank=rank)
    recipe = {"penalty": penalty, "momentum": momentum, "nesterov": nesterov and momentum > 0}
    if leaves_out and penalty and p > 1:
        recipe["unpenalized"] = (seed % p,)
    for scheme, epochs, fresh in schemes(tiny):
        if len(epochs) <= 24:
            follow(tiny, scheme, epochs, fresh, per_visit, **recipe)


@pytest.mark.parametrize("kind", ["by epoch", "by visit", "ready"])
def test_schedules(kind):
    tiny, recipe = case(6, 3, 3), {"momentum": 0.5, "nesterov": True, "penalty": 0.2}
    visits = 0.1 * 0.8 ** np.arange(6).reshape(2, 3)
    steps, step = {
        "by epoch": ([0.1, 0.02], [0.1, 0.02]),
        "by visit": (list(visits), rs.PerVisit(visits.ravel())),
        "ready": (list(visits), rs.schedules.ExponentialDecay(0.1, 0.8, per="visit")),
    }[kind]
    for scheme, epochs, fresh in schemes(tiny):
        agree(tiny, scheme, epochs, fresh, steps, step, **recipe)


def test_alpha_is_divided_by_the_visits_and_equal_steps_are_a_constant_one():
    tiny = case(6, 3, 3)
    decay = rs.schedules.ExponentialDecay
    for scheme, _, _ in schemes(tiny):
        steps = (0.1, rs.PerVisit(lambda visit: 0.1))
        one, other = (rs.descend(tiny.problem, scheme, step, momentum=0.3) for step in steps)
        close(one.iterate([1, 4]), other.iterate([1, 4]))
        close(one.expected_risk([1, 4]).total, other.expected_risk([1, 4]).total)
    scheme = rs.RandomReshuffling(batches=tiny.partition)
    of_alpha = rs.descend(tiny.problem, scheme, alpha=decay(0.3, 0.8, per="visit"))
    of_step = rs.descend(tiny.problem, scheme, step=decay(0.1, 0.8, per="visit"))
    close(of_alpha.iterate([1, 3]), of_step.iterate([1, 3]))


@pytest.mark.parametrize("step", [0.05, 1.5])
@pytest.mark.parametrize("p", [3, 7])
@pytest.mark.parametrize("recipe", ["nesterov", "nesterov, penalty", "unpenalized, momentum"])
def test_stability_of_mean_and_mean_square(p, recipe, step):
    tiny = case(6, p, 3, step=step)
    training = every_order.Training(tiny.problem.X, tiny.problem.y, [step], tiny.start, **RECIPES[recipe])
    scheme, epochs, _ = next(schemes(tiny))
    maps = state_maps(training, epochs)
    run = rs.descend(tiny.problem, scheme, step, **RECIPES[recipe])
    means = np.mean(maps, axis=0), np.mean([np.kron(A, A) for A in maps], axis=0)
    # Without a penalty, what no row sees stays where it is.
    frozen = p > 6 and not RECIPES[recipe].get("penalty")
    for found, mean, digits in zip(
        (run.stability(), run.mean_square_stability()), means, (1e-8, 1e-6), strict=True
    ):
        rate = np.abs(np.linalg.eigvals(mean)).max()
        if not frozen or rate > 1 + 1e-6:
            assert found.rate == pytest.approx(rate, rel=digits)
            assert found.converges == (rate < 1)


@pytest.mark.parametrize("mean_square", [False, True])
def test_critical_steps(mean_square):
    problem, scheme = case(6, 8, 3).problem, rs.RandomReshuffling(batches=3)
    recipe = {"penalty": 2.0, "unpenalized": [0, 4]}
    step = rs.critical_step(problem, scheme, mean_square=mean_square, **recipe)
    for near, stable in ((0.999, True), (1.001, False)):
        run = rs.descend(problem, scheme, near * step, **recipe)
        assert (run.mean_square_stability() if mean_square else run.stability()).converges == stable
    others = [rs.critical_step(problem, scheme, penalty=q, mean_square=False) for q in (0.0, 2.0)]
    assert not any(step == pytest.approx(other, rel=1e-3) for other in others)
    # One row x = 1: a visit multiplies parameter and buffer by [[1 - (1 + m) s, -m^2 s], [1, m]], whose trace is
    # 1 + m - (1 + m) s and whose determinant is m - m s; an eigenvalue is -1 where 1 + both is zero.
    for momentum in (0.3, 0.9):
        recipe = {"momentum": momentum, "nesterov": True, "mean_square": mean_square}
        found = rs.critical_step(rs.LeastSquares([[1.0]], [1.0]), rs.FullBatch(), **recipe)
        assert found == pytest.approx((2 + 2 * momentum) / (1 + 2 * momentum), rel=1e-8)


def test_limits_are_where_many_epochs_end():
    tiny = case(6, 3, 3, step=0.1)
    for scheme, epochs, fresh in schemes(tiny):
        run = rs.descend(tiny.problem, scheme, 0.1, momentum=0.5, nesterov=True, penalty=0.1)
        close(run.limit().parameters, run.iterate(400))
        if len(epochs) > 1 and fresh:
            close(run.expected_risk(np.inf).total, run.expected_risk(400).total, 1e-10)


@pytest.mark.parametrize("recipe", [NESTEROV, {"momentum": 0.7}])
def test_what_is_outside_the_row_space_fades_visit_by_visit(recipe):
    tiny, steps = case(2, 5, 2), steps_of(2, 3)
    recipe = {"penalty": 0.4, **recipe}
    training = every_order.Training(tiny.problem.X, tiny.problem.y, list(steps), tiny.start, **recipe)
    order = [every_order.batches_in([0, 1], tiny.partition, [1, 1])]
    step, scheme = rs.PerVisit(steps.ravel()), rs.Cyclic(batches=tiny.partition)
    run = rs.descend(tiny.problem, scheme, step, start=tiny.start, **recipe)
    ends = every_order.mean_iterate(training, every_order.all_runs(training, order))
    outside = tiny.problem.row_space.outside
    close(outside(run.iterate(3)), outside(ends))
    assert np.abs(outside(ends)).max() > 0.1


@pytest.mark.parametrize("recipe", [{}, *DRAWN_OUT.values()], ids=["plain", *DRAWN_OUT])
@pytest.mark.parametrize(
    ("n", "p", "step", "rtol"), [(24, 4, 0.1, 3e-3), (24, 4, "warm", 3e-3), (6, 9, 0.05, 3e-2)]
)
def test_drawn_orders_are_within_their_error(recipe, n, p, step, rtol):
    problem, scheme = rs.gaussian(n, p, noise=0.5, seed=1), rs.RandomReshuffling(batches=6)
    if step == "warm":
        step = rs.schedules.LinearWarmup(0.2, until=6, start=0.0, per="visit")
    exact = rs.descend(problem, scheme, step, **recipe)
    drawn = rs.descend(problem, scheme, step, method="sampling", rtol=rtol, **recipe)
    when = [1, 4, 20]
    error = drawn.iterate_error(when)
    assert (error > 0).all()
    assert (np.linalg.norm(drawn.iterate(when) - exact.iterate(when), axis=1) <= error).all()
    assert (np.abs(drawn.risk(when).total - exact.risk(when).total) <= drawn.risk(when).error).all()
    given = drawn.expected_risk(4, given_responses=True)
    assert abs(given.total - exact.expected_risk(4, given_responses=True).total) <= given.error
    if recipe:
        # That tells the recipe from its plain momentum or penalty.
        words = {"momentum": 0.6, "penalty": recipe["penalty"]}
        other = rs.descend(problem, scheme, step, **words).iterate(when)
        assert (np.linalg.norm(other - exact.iterate(when), axis=1) > 2 * error).any()


@pytest.mark.slow
def test_the_spread_of_too_many_batches_is_that_of_nesterovs_runs():
    problem, scheme = rs.gaussian(40, 3, noise=0.5, seed=2), rs.RandomReshuffling(batches=10)
    exact = rs.descend(problem, scheme, 0.1, **NESTEROV).expected_risk(2)
    drawn = rs.descend(problem, scheme, 0.1, method="sampling", rtol=1e-2, **NESTEROV).expected_risk(2)
    assert 0 < abs(drawn.total - exact.total) <= drawn.error


def test_drawn_samples():
    problem = rs.gaussian(40, 3, noise=0.5, seed=1)
    recipe = {"step": rs.schedules.OneCycle(0.5, total=50, per="visit"), "momentum": 0.5}
    scheme, when = rs.SampleReshuffling(batch_size=8), [1, 5]
    drawn = rs.descend(problem, scheme, rtol=3e-3, **recipe)
    assert drawn.method == "sampling"
    mean, again = (
        rs.simulate(problem, scheme, epochs=when, runs=4000, seed=seed, **recipe) for seed in (0, 7)
    )
    off = np.abs(drawn.iterate(when) - mean.iterate.mean)
    assert (off <= 4 * mean.iterate.standard_error + drawn.iterate_error(when)[:, np.newaxis]).all()
    expected, again = drawn.expected_risk(when, given_responses=True), again.expected_risk
    assert (np.abs(expected.total - again.mean) <= 4 * again.standard_error + expected.error).all()


@pytest.mark.parametrize("recipe", DRAWN_OUT)
def test_simulated_runs(recipe):
    """Those of a fixed order are exact; in a random one the step is that of the place in the order."""
    tiny, recipe = case(6, 4, 3, step=0.1), DRAWN_OUT[recipe]
    fixed, when, steps = rs.Cyclic(batches=tiny.partition), [1, 4], steps_of(3, 2)
    simulated = rs.simulate(tiny.problem, fixed, 0.1, epochs=when, runs=4, start=tiny.start, **recipe)
    exact = rs.descend(tiny.problem, fixed, 0.1, start=tiny.start, **recipe)
    close(simulated.iterate.mean, exact.iterate(when))
    training = every_order.Training(tiny.problem.X, tiny.problem.y, list(steps), tiny.start, **recipe)
    runs = every_order.all_runs(training, every_order.epochs_reshuffled(tiny.partition, [2, 2, 2]))
    simulated = rs.simulate(
        tiny.problem, rs.RandomReshuffling(batches=tiny.partition), rs.PerVisit(steps.ravel()),
        epochs=2, runs=4000, start=tiny.start, **recipe,
    )  # fmt: skip
    off = np.abs(simulated.iterate.mean - every_order.mean_iterate(training, runs))
    assert (off <= 4 * simulated.iterate.standard_error).all()
    assert (simulated.iterate.standard_error < 0.01).all()


def test_steps_that_are_too_large_diverge_and_the_best_epoch_is_within_the_schedule():
    problem, scheme = rs.gaussian(40, 60, noise=1.0, seed=1), rs.RandomReshuffling(batches=4)
    run = rs.descend(problem, scheme, rs.PerVisit(lambda visit: 1e3 + visit))
    assert np.isinf(run.iterate(200)).all()
    assert np.isinf(run.expected_risk(200).total)
    run = rs.descend(problem, scheme, rs.schedules.OneCycle(0.1, total=80, per="visit"))
    found = run.best_epoch()
    assert 0 < found.epoch <= 20
    assert found.risk == pytest.approx(run.risk(np.arange(21)).total.min(), rel=1e-12)


@pytest.mark.parametrize(
    "recipe", [{}, {"momentum": 0.6}, {"penalty": 1e-7, "momentum": 0.9, "nesterov": True}]
)
@pytest.mark.parametrize("condition", [1.0, 1e6, 1e12])
def test_digits_survive_epochs_that_are_followed_by_themselves(condition, recipe):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(7, 3)) * condition ** -np.linspace(0, 1, 3), rng.normal(size=7)
    batches, steps = [[0, 1], [2, 3], [4, 5, 6]], [0.03, 1e-9, 0.02]
    with flint.ctx.workdps(DIGITS):
        state = flint.arb_mat(6, 1)
        for step in steps:
            epoch = Extended(X, y, batches, step, **recipe)
            state = epoch.A * state + epoch.g
        true = rounded(state, 3)
    run = rs.descend(rs.LeastSquares(X, y), rs.RandomReshuffling(batches=batches), steps, **recipe)
    np.testing.assert_allclose(run.iterate(3), true, rtol=1e-10)


def test_epochs_alike_and_unlike_follow_one_another():
    tiny, recipe = case(6, 4, 3), {"momentum": 0.5, "penalty": 0.1}
    steps, when = [0.1, 0.1, 0.1, 0.02, 0.02, 0.1], np.arange(7)
    apart = [s * (1 + 1e-15 * k) for k, s in enumerate(steps)]
    assert len(set(apart)) > 2
    for scheme, _, _ in schemes(tiny):
        run, one_by_one = (
            rs.descend(tiny.problem, scheme, s, start=tiny.start, **recipe) for s in (steps, apart)
        )
        close(run.iterate(when), one_by_one.iterate(when))
        close(run.risk(when).total, one_by_one.risk(when).total)


def test_more_drawn_epochs_than_fit_into_memory_are_refused(monkeypatch):
    problem, scheme = rs.gaussian(40, 3, noise=0.5, seed=1), rs.SampleReshuffling(batch_size=8)
    run = rs.descend(problem, scheme, rs.schedules.ExponentialDecay(0.2, 0.99, per="visit"), rtol=0.1)
    run.iterate(3)
    monkeypatch.setattr(timeline, "DRAWN_BYTES", 5e4)
    with pytest.raises(rs.BudgetError, match=r"the drawn orders of 3 epochs with different steps take"):
        run.iterate(3)
    # Epochs that are alike share theirs.
    warm = rs.schedules.LinearWarmup(0.2, until=5, per="visit")
    assert np.isfinite(rs.descend(problem, scheme, warm, rtol=0.1).iterate(500)).all()


@pytest.mark.parametrize(("n", "p", "columns"), [(30, 4, [-1]), (12, 30, [-1]), (12, 30, [0, 3, -1])])
def test_the_limit_of_the_full_batch_is_ridge_regression_with_an_intercept(n, p, columns):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((n, p - 1)) + 3.0, np.ones(n)])
    y = X @ rng.standard_normal(p) + rng.standard_normal(n)
    penalties = np.full(p, 0.2)
    penalties[columns] = 0.0
    ridge = np.linalg.solve(X.T @ X / n + np.diag(penalties), X.T @ y / n)
    step, start = 0.5 / np.linalg.norm(X, 2) ** 2 * n, rng.standard_normal(p)
    recipe = {"penalty": 0.2, "unpenalized": columns, "start": start}
    run = rs.descend(rs.LeastSquares(X, y), rs.FullBatch(), step, **recipe)
    assert run.stability().converges
    close(run.limit().parameters, ridge, 1e-9)
    assert run.frozen.dimension == 0


def test_columns_in_units_of_their_own_keep_their_digits():
    """What a column is measured in is no matter of the others, if it is not penalized."""
    tiny = case(6, 4, 3, covariance="identity")
    X, unit = tiny.problem.X.copy(), 2.0**-30
    X[:, 1] *= unit
    problem, recipe = rs.LeastSquares(X, tiny.problem.y), {"penalty": 0.3, "unpenalized": [1]}
    run = rs.descend(problem, rs.RandomReshuffling(batches=tiny.partition), 0.1, **recipe)
    # Its decay rate is about that of the column by itself, 2^-60; where the full batch ends is ridge regression.
    assert run.stability().converges
    assert 1 - run.stability().rate < 1e-15
    Y = tiny.problem.X
    ridge = np.linalg.solve(Y.T @ Y / 6 + np.diag([0.3, 0.0, 0.3, 0.3]), Y.T @ tiny.problem.y / 6)
    found = rs.descend(problem, rs.FullBatch(), 0.01, **recipe).limit().parameters
    found[1] *= unit
    close(found, ridge, 1e-11)


def test_columns_that_no_row_tells_apart():
    X = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [1.0, 2.0, 5.0]])
    problem = rs.LeastSquares(X, np.ones(3))
    run = rs.descend(problem, rs.FullBatch(), 0.01, penalty=0.1, unpenalized=[0, 1])
    message = r"linearly independent .* but \[0, 1\] have rank 1: nothing would act"
    with pytest.raises(ValueError, match=message):
        run.iterate(3)
    # One of them is enough to be told apart from the other.
    one = rs.descend(problem, rs.FullBatch(), 0.01, penalty=0.1, unpenalized=[1])
    ridge = np.linalg.solve(X.T @ X / 3 + np.diag([0.1, 0, 0.1]), X.T @ np.ones(3) / 3)
    close(one.limit().parameters, ridge, 1e-11)


def test_no_column_and_all_columns():
    problem, scheme = case(6, 4, 3).problem, rs.RandomReshuffling(batches=3)

    def recipe(**given):
        return rs.descend(problem, scheme, 0.1, **given).recipe

    assert recipe() == recipe(unpenalized=[0, 1]) == recipe(penalty=0.3, unpenalized=[3, 0, 1, 2])
    assert recipe(penalty=0.3) == recipe(penalty=0.3, unpenalized=[])
    some = recipe(penalty=0.3, unpenalized=[-1, 0])
    assert some.unpenalized == (0, 3)
    assert "penalty=0.3, unpenalized=[0, 3]" in repr(some)
    assert "nesterov=True" in repr(recipe(momentum=0.5, nesterov=True))


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"unpenalized": [4]}, "unpenalized must be a whole number between -4 and 3, but it is 4"),
        ({"unpenalized": [-5]}, "unpenalized must be a whole number between -4 and 3, but it is -5"),
        ({"unpenalized": [0, 0]}, r"unpenalized must name a column once, but it is \[0, 0\]"),
        ({"unpenalized": [0, -4]}, r"unpenalized must name a column once, but it is \[0, -4\]"),
        ({"unpenalized": [0.5]}, r"unpenalized must be a list of column numbers, such as \[0\], but it is \[0.5\]"),
        ({"unpenalized": [True, False, False, False]}, "unpenalized must be a list of column numbers"),
        ({"unpenalized": 0}, "unpenalized must be a list of column numbers"),
        ({"unpenalized": "x"}, "unpenalized must be a list of column numbers"),
        ({"nesterov": True}, r"momentum must be above 0 with nesterov=True, .* but it is 0.0"),
        ({"nesterov": 1, "momentum": 0.5}, "nesterov must be True or False, but it is 1"),
    ],
)  # fmt: skip
def test_what_is_refused(recipe, message):
    problem, recipe = case(6, 4, 3).problem, {"penalty": 0.1, **recipe}
    for ask in (
        lambda: rs.descend(problem, rs.FullBatch(), 0.1, **recipe),
        lambda: rs.simulate(problem, rs.FullBatch(), 0.1, epochs=1, runs=4, **recipe),
        lambda: rs.critical_step(problem, rs.FullBatch(), **recipe),
    ):
        with pytest.raises(ValueError, match=message):
            ask()
