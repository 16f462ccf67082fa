"""A penalty that leaves parameters out, against the enumeration of orders and against ridge regression."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from tests.oracles import every_order
from tests.oracles.every_scheme import agree, schemes, state_maps
from tests.problems import case, close

MOMENTA = {
    "none": {},
    "heavy ball": {"momentum": 0.6},
    "nesterov": {"momentum": 0.5, "nesterov": True},
}


@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize("columns", [(0,), (1, 2)])
@pytest.mark.parametrize(("n", "p", "batches", "equal"), [(6, 3, 3, True), (4, 6, 2, False), (4, 4, 2, True)])
def test_all_schemes(n, p, batches, equal, columns, momentum):
    tiny = case(n, p, batches, equal=equal, seed=n + p)
    for scheme, epochs, fresh in schemes(tiny):
        count = 2 if len(epochs) < 100 else 1
        recipe = {"penalty": 0.7, "unpenalized": columns, **MOMENTA[momentum]}
        agree(tiny, scheme, epochs, fresh, [0.1] * count, 0.1, **recipe)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 5), st.integers(2, 6), st.integers(0, 10**6), st.sampled_from([0.0, 1e-6, 0.1]),
    st.sampled_from([1e-8, 0.3, 3.0]), st.sampled_from([0.0, 0.7]), st.booleans(),
)  # fmt: skip
def test_any_shape(n, p, seed, step, penalty, momentum, deficient):
    rank = max(1, min(n, p) - 1) if deficient else None
    tiny = case(n, p, min(2, n), seed=seed, equal=False, rank=rank)
    columns = (int(seed % p),)
    for scheme, epochs, fresh in schemes(tiny):
        if len(epochs) <= 24:
            agree(
                tiny, scheme, epochs, fresh, [step] * 2, step,
                penalty=penalty, momentum=momentum, unpenalized=columns,
            )  # fmt: skip


def test_with_steps_per_visit():
    tiny = case(4, 6, 2)
    for scheme, epochs, fresh in schemes(tiny):
        steps = np.array([[0.1, 0.02], [0.05, 0.15]])
        agree(
            tiny, scheme, epochs, fresh, list(steps), rs.PerVisit(steps.ravel()),
            penalty=0.5, unpenalized=(3,), momentum=0.4, nesterov=True,
        )  # fmt: skip


@pytest.mark.parametrize(("n", "p", "columns"), [(30, 4, [-1]), (12, 30, [-1]), (12, 30, [0, 3, -1])])
def test_the_limit_of_the_full_batch_is_ridge_regression_with_an_intercept(n, p, columns):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((n, p - 1)) + 3.0, np.ones(n)])
    y = X @ rng.standard_normal(p) + rng.standard_normal(n)
    penalties = np.full(p, 0.2)
    penalties[columns] = 0.0
    ridge = np.linalg.solve(X.T @ X / n + np.diag(penalties), X.T @ y / n)
    problem = rs.LeastSquares(X, y)
    run = rs.descend(
        problem, rs.FullBatch(), 0.5 / np.linalg.norm(X, 2) ** 2 * n, penalty=0.2, unpenalized=columns,
        start=rng.standard_normal(p),
    )  # fmt: skip
    assert run.stability().converges
    close(run.limit().parameters, ridge, 1e-9)
    assert run.frozen.dimension == 0


@pytest.mark.parametrize("step", [0.05, 1.5])
@pytest.mark.parametrize("p", [3, 7])
def test_stability_of_mean_and_mean_square(p, step):
    tiny = case(6, p, 3)
    training = every_order.Training(
        tiny.problem.X, tiny.problem.y, [step], tiny.start, 0.4, momentum=0.5, unpenalized=(1,)
    )
    scheme, epochs, _ = next(schemes(tiny))
    maps = state_maps(training, epochs)
    run = rs.descend(tiny.problem, scheme, step, penalty=0.4, momentum=0.5, unpenalized=[1])
    rate = np.abs(np.linalg.eigvals(np.mean(maps, axis=0))).max()
    assert run.stability().rate == pytest.approx(rate, rel=1e-8)
    rate = np.abs(np.linalg.eigvals(np.mean([np.kron(A, A) for A in maps], axis=0))).max()
    assert run.mean_square_stability().rate == pytest.approx(rate, rel=1e-6)


@pytest.mark.parametrize("mean_square", [False, True])
def test_the_critical_step(mean_square):
    problem = case(6, 8, 3).problem
    recipe = {"penalty": 2.0, "unpenalized": [0, 4]}
    step = rs.critical_step(problem, rs.RandomReshuffling(batches=3), mean_square=mean_square, **recipe)
    for near, stable in ((0.999, True), (1.001, False)):
        run = rs.descend(problem, rs.RandomReshuffling(batches=3), near * step, **recipe)
        found = run.mean_square_stability() if mean_square else run.stability()
        assert found.converges == stable
    others = [
        rs.critical_step(problem, rs.RandomReshuffling(batches=3), penalty=q, mean_square=False)
        for q in (0.0, 2.0)
    ]
    assert not any(step == pytest.approx(other, rel=1e-3) for other in others)


@pytest.mark.slow
def test_drawn_orders():
    problem = rs.gaussian(6, 9, noise=0.5, seed=1)
    recipe = {"momentum": 0.5, "penalty": 0.5, "unpenalized": [2]}
    exact = rs.descend(problem, rs.RandomReshuffling(batches=6), 0.2, **recipe)
    drawn = rs.descend(problem, rs.RandomReshuffling(batches=6), 0.2, method="sampling", rtol=3e-2, **recipe)
    when = [1, 4, 20]
    error = drawn.iterate_error(when)
    assert (error > 0).all()
    assert (np.linalg.norm(drawn.iterate(when) - exact.iterate(when), axis=1) <= error).all()
    given = drawn.expected_risk(4, given_responses=True)
    assert abs(given.total - exact.expected_risk(4, given_responses=True).total) <= given.error


def test_simulated_runs_of_a_fixed_order_are_exact():
    tiny = case(6, 8, 3)
    recipe = {"momentum": 0.6, "penalty": 0.4, "unpenalized": [-1, 2], "start": tiny.start}
    simulated = rs.simulate(
        tiny.problem, rs.Cyclic(batches=tiny.partition), 0.1, epochs=[1, 4], runs=4, **recipe
    )
    run = rs.descend(tiny.problem, rs.Cyclic(batches=tiny.partition), 0.1, **recipe)
    close(simulated.iterate.mean, run.iterate([1, 4]))


def test_columns_in_units_of_their_own_keep_their_digits():
    """What a column is measured in is no matter of the others, if it is not penalized."""
    tiny = case(6, 4, 3, covariance="identity")
    X, unit = tiny.problem.X.copy(), 2.0**-30
    X[:, 1] *= unit
    problem = rs.LeastSquares(X, tiny.problem.y)
    run = rs.descend(problem, rs.RandomReshuffling(batches=tiny.partition), 0.1, penalty=0.3, unpenalized=[1])
    # Its decay rate is about that of the column by itself, 2^-60; where the full batch ends is ridge regression.
    assert run.stability().converges
    assert 1 - run.stability().rate < 1e-15
    penalties = np.array([0.3, 0.0, 0.3, 0.3])
    small = rs.descend(problem, rs.FullBatch(), 0.01, penalty=0.3, unpenalized=[1])
    Y = tiny.problem.X
    ridge = np.linalg.solve(Y.T @ Y / 6 + np.diag(penalties), Y.T @ tiny.problem.y / 6)
    found = small.limit().parameters
    found[1] *= unit
    close(found, ridge, 1e-11)


def test_none_and_all():
    tiny = case(6, 4, 3)
    plain = rs.descend(tiny.problem, rs.RandomReshuffling(batches=3), 0.1)
    without = rs.descend(tiny.problem, rs.RandomReshuffling(batches=3), 0.1, unpenalized=[0, 1])
    everything = rs.descend(
        tiny.problem, rs.RandomReshuffling(batches=3), 0.1, penalty=0.3, unpenalized=[3, 0, 1, 2]
    )
    assert plain.recipe == without.recipe == everything.recipe
    penalized = rs.descend(tiny.problem, rs.RandomReshuffling(batches=3), 0.1, penalty=0.3)
    assert (
        penalized.recipe
        == rs.descend(tiny.problem, rs.RandomReshuffling(batches=3), 0.1, penalty=0.3, unpenalized=[]).recipe
    )
    some = rs.descend(tiny.problem, rs.RandomReshuffling(batches=3), 0.1, penalty=0.3, unpenalized=[-1, 0])
    assert some.recipe.unpenalized == (0, 3)
    assert "penalty=0.3, unpenalized=[0, 3]" in repr(some)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([4], "unpenalized must be a whole number between -4 and 3, but it is 4"),
        ([-5], "unpenalized must be a whole number between -4 and 3, but it is -5"),
        ([0, 0], r"unpenalized must name a column once, but it is \[0, 0\]"),
        ([0, -4], r"unpenalized must name a column once, but it is \[0, -4\]"),
        ([0.5], r"unpenalized must be a list of column numbers, such as \[0\], but it is \[0.5\]"),
        ([True, False, False, False], "unpenalized must be a list of column numbers"),
        (0, "unpenalized must be a list of column numbers"),
        ("x", "unpenalized must be a list of column numbers"),
    ],
)
def test_what_is_refused(columns, message):
    problem = case(6, 4, 3).problem
    with pytest.raises(ValueError, match=message):
        rs.descend(problem, rs.FullBatch(), 0.1, penalty=0.1, unpenalized=columns)
    with pytest.raises(ValueError, match=message):
        rs.simulate(problem, rs.FullBatch(), 0.1, penalty=0.1, unpenalized=columns, epochs=1, runs=4)
    with pytest.raises(ValueError, match=message):
        rs.critical_step(problem, rs.FullBatch(), penalty=0.1, unpenalized=columns, mean_square=False)


def test_columns_that_no_row_tells_apart():
    X = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [1.0, 2.0, 5.0]])
    problem = rs.LeastSquares(X, np.ones(3))
    run = rs.descend(problem, rs.FullBatch(), 0.01, penalty=0.1, unpenalized=[0, 1])
    with pytest.raises(
        ValueError, match=r"linearly independent .* but \[0, 1\] have rank 1: nothing would act"
    ):
        run.iterate(3)
    # One of them is enough to be told apart from the other.
    one = rs.descend(problem, rs.FullBatch(), 0.01, penalty=0.1, unpenalized=[1])
    ridge = np.linalg.solve(X.T @ X / 3 + np.diag([0.1, 0, 0.1]), X.T @ np.ones(3) / 3)
    close(one.limit().parameters, ridge, 1e-11)
