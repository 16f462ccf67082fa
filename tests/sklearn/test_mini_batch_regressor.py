"""Regressors against trainings done by hand, scikit-learn's solvers and its kernel ridge."""

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics.pairwise import laplacian_kernel, pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reshuffle as rs
from reshuffle.sklearn import MiniBatchKernelRegressor, MiniBatchRegressor
from tests.looped import for_all, pairwise
from tests.training import centred, cut, data, every_training, train

FOREVER = {"batch_size": None, "epochs": math.inf}


@for_all("shuffle, drop_last", pairwise([True, False, "batches", "once", "replacement"], [False, True]))
def test_mean_and_spread_over_all_shuffles(shuffle, drop_last):
    n, epochs = (3, 2) if shuffle == "replacement" else (5, 1 if shuffle is True else 2)
    X, y = data(n, 2, seed=1)
    every = every_training(n, 2, epochs, shuffle, drop_last)
    trained = np.array([train(*centred(X, y), batches, rate=0.2) for batches in every])
    cuts = {"batch_size": 2, "shuffle": shuffle, "drop_last": drop_last}
    model = MiniBatchRegressor(learning_rate=0.2, epochs=epochs, **cuts).fit(X, y)
    np.testing.assert_allclose(model.coef_, trained.mean(axis=0), rtol=1e-10)
    assert model.intercept_ == pytest.approx(y.mean() - X.mean(axis=0) @ trained.mean(axis=0), rel=1e-10)
    X_new = np.array([[1.0, 2.0], [-3.0, 0.5]])
    said = y.mean() + (X_new - X.mean(axis=0)) @ trained.T
    mean, deviation = model.predict(X_new, return_std=True)
    np.testing.assert_allclose(mean, said.mean(axis=1), rtol=1e-10)
    np.testing.assert_allclose(deviation, said.std(axis=1), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(mean, model.predict(X_new))


@for_all(
    "shuffle, parameters, recipe",
    [
        *(
            (
                shuffle,
                {
                    "learning_rate": 0.05,
                    "momentum": 0.3,
                    "weight_decay": 0.1,
                    "average": rs.EMA(0.9, per="visit"),
                },
                {"step": 0.05, "momentum": 0.3, "penalty": 0.1, "average": rs.EMA(0.9, per="visit")},
            )
            for shuffle in (True, False)
        ),
        (False, {"learning_rate": [0.1, 0.05, 0.02] * 3}, {"step": [0.1, 0.05, 0.02] * 3}),
    ],
)
def test_it_says_what_descend_says(shuffle, parameters, recipe):
    X, y = data(60, 6)
    scheme = rs.SampleReshuffling(batch_size=16) if shuffle else rs.Cyclic(batch_size=16)
    run = rs.descend(rs.LeastSquares(*centred(X, y)), scheme, **recipe)
    accuracy = {"rtol": 0.01, "budget": 1e10}
    model = MiniBatchRegressor(batch_size=16, epochs=9, shuffle=shuffle, **parameters, **accuracy).fit(X, y)
    np.testing.assert_allclose(model.coef_, run.iterate(9), rtol=1e-12)
    np.testing.assert_allclose(model.path([1, 4]).coef, run.iterate([1, 4]), rtol=1e-12)
    assert model.run_.method == run.method
    assert model.learning_rate_ == pytest.approx(recipe["step"])
    assert (model.run_.accuracy.rtol, model.run_.accuracy.budget) == (0.01, 1e10)


@for_all(
    "shape, outputs, decay, fit_intercept, weighted",
    [
        *((shape, outputs, 0.0, True, False) for shape in ((40, 5), (8, 20)) for outputs in (None, 1, 3)),
        *(
            ((30, 6), None, 0.3, intercept, weighted)
            for intercept in (False, True)
            for weighted in (False, True)
        ),
    ],
)
def test_full_batch_for_ever_is_least_squares_or_ridge(shape, outputs, decay, fit_intercept, weighted):
    X, y = data(*shape, outputs=outputs)
    weights = np.random.default_rng(3).uniform(0.2, 5.0, len(X)) if weighted else None
    model = MiniBatchRegressor(**FOREVER, weight_decay=decay, fit_intercept=fit_intercept)
    model.fit(X, y, sample_weight=weights)
    total = len(X) if weights is None else weights.sum()
    known = Ridge(decay * total, fit_intercept=fit_intercept) if decay else LinearRegression()
    known.fit(X, y, sample_weight=weights)
    for name in ("coef_", "intercept_"):
        assert np.shape(getattr(model, name)) == np.shape(getattr(known, name))
        np.testing.assert_allclose(
            getattr(model, name), getattr(known, name), rtol=1e-8 if not decay else 1e-9
        )
    assert model.predict(X).shape == y.shape
    assert model.n_iter_ == math.inf


@for_all("standardize", [False, True])
def test_weights_are_repetitions_where_one_batch_holds_all(standardize):
    X, y = data(12, 4)
    weights = np.random.default_rng(5).integers(0, 4, 12)
    model = MiniBatchRegressor(
        batch_size=None, epochs=20, momentum=0.3, weight_decay=0.01, standardize=standardize
    )
    weighted = model.fit(X, y, sample_weight=weights).path([3, 20])
    repeated = model.fit(X.repeat(weights, axis=0), y.repeat(weights)).path([3, 20])
    np.testing.assert_allclose(weighted.coef, repeated.coef, rtol=1e-10)
    np.testing.assert_allclose(weighted.intercept, repeated.intercept, rtol=1e-10)


@for_all("unit", [1.0, 1e6])
def test_weights_in_batches_multiply_gradients(unit):
    X, y = data(13, 3)
    weights = np.random.default_rng(5).uniform(0.5, 3.0, 13)
    weights[4] = 0.0
    model = MiniBatchRegressor(batch_size=4, learning_rate=0.1, epochs=6, shuffle=False)
    rows, responses = centred(X, y, weights)
    kept = np.flatnonzero(weights)
    relative = weights[kept] / weights[kept].mean()
    wanted = train(rows[kept], responses[kept], cut(range(12), 4) * 6, rate=0.1, weights=relative)
    np.testing.assert_allclose(model.fit(X, y, sample_weight=unit * weights).coef_, wanted, rtol=1e-11)


def test_standardize_is_a_scaler_before_it():
    X, y = data(50, 4)
    X = X * [1.0, 1e3, 1e-3, 1.0]
    # The mean of this column is not 7.1: rounding must not be scaled to one.
    X[:, 3] = 7.1
    settings = {"batch_size": 16, "learning_rate": 0.1, "epochs": 8, "weight_decay": 0.1}
    model = MiniBatchRegressor(standardize=True, **settings).fit(X, y)
    scaled = make_pipeline(StandardScaler(), MiniBatchRegressor(**settings)).fit(X, y)
    np.testing.assert_allclose(model.predict(X), scaled.predict(X), rtol=1e-9)
    np.testing.assert_allclose(model.coef_, scaled[-1].coef_ / scaled[0].scale_, rtol=1e-8, atol=1e-12)


@for_all("weighted", [False, True])
def test_large_means_of_columns_that_vary_little(weighted):
    """More columns than rows: the rounding of the means must not look like one more direction."""
    X, y = data(8, 20)
    X = X * np.geomspace(1e-3, 1e2, 20) + 10.0
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 8) if weighted else None
    model, moved = (
        MiniBatchRegressor(batch_size=None, epochs=3).fit(rows, y, sample_weight=weights)
        for rows in (X, X - 10.0)
    )
    assert model.run_.problem.rank == 7
    np.testing.assert_allclose(model.coef_, moved.coef_, rtol=1e-8)


@for_all("outputs", [None, 2])
def test_paths_and_outputs_side_by_side(outputs):
    X, y = data(outputs=outputs)
    model = MiniBatchRegressor(batch_size=16, learning_rate=0.1, epochs=8).fit(X, y)
    coef, intercept = model.path([[0, 1, 8], [2, 3, math.inf]])
    assert coef.shape == (2, 3, *model.coef_.shape)
    assert intercept.shape == (2, 3, *np.shape(model.intercept_))
    np.testing.assert_allclose(coef[0, 2], model.coef_, rtol=1e-13)
    np.testing.assert_allclose(intercept[0, 2], model.intercept_, rtol=1e-13)
    np.testing.assert_array_equal(coef[0, 0], np.zeros_like(model.coef_))
    np.testing.assert_allclose(intercept[0, 0], y.mean(axis=0))
    both = np.array(model.predict(X[:5], return_std=True))
    for output in range(outputs or 0):
        alone = MiniBatchRegressor(batch_size=16, learning_rate=0.1, epochs=8).fit(X, y[:, output])
        np.testing.assert_allclose(model.coef_[output], alone.coef_, rtol=1e-12)
        said = alone.predict(X[:5], return_std=True)
        np.testing.assert_allclose(both[0, :, output], said[0], rtol=1e-12)
        np.testing.assert_allclose(both[1, :, output], said[1], rtol=1e-9)


def test_a_single_run_is_one_of_the_shuffles():
    X, y = data(4, 2, seed=1)
    trained = [train(*centred(X, y), batches, rate=0.2) for batches in every_training(4, 2, 2, True)]
    found, settings = set(), {"batch_size": 2, "learning_rate": 0.2, "epochs": 2, "single_run": True}
    for seed in range(6):
        model = MiniBatchRegressor(random_state=seed, **settings).fit(X, np.c_[y, y])
        np.testing.assert_array_equal(model.coef_[0], model.coef_[1])
        assert min(np.abs(model.coef_[0] - one).max() for one in trained) < 1e-14
        np.testing.assert_array_equal(model.path([1, 2]).coef[1], model.coef_)
        found.add(model.coef_[0, 0])
    assert len(found) > 2


@given(
    n=st.integers(2, 6), p=st.integers(1, 4), size=st.integers(1, 7), decay=st.sampled_from([0.0, 0.1]),
    exponent=st.integers(-8, 8), seed=st.integers(0, 2**16), shuffle=st.sampled_from([True, "batches", False]),
)  # fmt: skip
@example(n=2, p=1, size=1, decay=0.1, exponent=-5, seed=0, shuffle=True)
def test_the_automatic_step_suits_every_batch(n, p, size, decay, exponent, seed, shuffle):
    """A step of 1 / (L + decay) or less is a contraction on every batch there is: at least half of the longest."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * 10.0 ** rng.integers(-2, 2, p) * 10.0**exponent
    model = MiniBatchRegressor(
        batch_size=size, epochs=3, weight_decay=decay, shuffle=shuffle, fit_intercept=False
    )
    step, batches = model.fit(X, rng.standard_normal(n)).learning_rate_, cut(range(n), size)
    lengths = {len(rows) for rows in batches}
    if shuffle is True:
        batches = [rows for length in lengths for rows in combinations(range(n), length)]
    curvature = max(np.linalg.norm(X[list(rows)], 2) ** 2 / len(rows) for rows in batches)
    assert step * (curvature + decay) <= 1 + 1e-9
    if shuffle is not True or len(lengths) == len(batches) == 1:
        assert step * (curvature + decay) == pytest.approx(1.0)


@for_all("shuffle, nesterov", pairwise([True, False, "once"], [False, True]))
def test_the_automatic_step_with_momentum_converges(shuffle, nesterov):
    X, y = data(24, 8)
    model = MiniBatchRegressor(batch_size=3, momentum=0.95, nesterov=nesterov, shuffle=shuffle, epochs=50)
    assert model.fit(X * np.geomspace(1, 300, 8), y).run_.converges


def test_a_learning_rate_that_is_too_large():
    X, y = data(30)
    limit = rs.critical_step(rs.LeastSquares(*centred(X, y)), rs.Cyclic(batch_size=10), mean_square=False)

    def fitted(rate, epochs, **settings):
        return MiniBatchRegressor(batch_size=10, learning_rate=float(rate), epochs=epochs, **settings).fit(
            X, y
        )

    assert np.isfinite(fitted(0.99 * limit, math.inf, shuffle=False).coef_).all()
    with pytest.warns(UserWarning, match=r"learning_rate=.* is beyond the critical step") as caught:
        fitted(1.01 * limit, 5, shuffle=False)
    assert caught[0].category.__name__ == "ConvergenceWarning"
    with pytest.raises(ValueError, match=r"learning_rate=5\.0 diverges.*critical_step"):
        fitted(5.0, 10_000, shuffle=False)
    with pytest.raises(ValueError, match=r"learning_rate=5\.0 diverges"):
        fitted(5.0, 1000, single_run=True, random_state=0)


@for_all("outputs, weighted", pairwise([None, 2], [False, True]))
def test_the_recipe_of_a_plan_is_an_estimator(outputs, weighted):
    X, y = data(60, 8, outputs=outputs, noise=5.0)
    X = X * np.geomspace(0.1, 10, 8) + 3.0
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 60) if weighted else None
    # A plan takes weights as they are, an estimator relative to their mean.
    weights = None if weights is None else weights / weights.mean()
    plan = rs.plan(X, y, batch_sizes=[20], penalties=[0.1], epochs=50, sample_weight=weights, verify=False)
    best, (coefficients, intercept) = plan.best, plan.coefficients
    recipe = {"learning_rate": best.step, "momentum": best.momentum, "weight_decay": best.penalty}
    model = MiniBatchRegressor(batch_size=best.batch_size, epochs=best.epochs, standardize=True, **recipe)
    model.fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, coefficients.T, rtol=1e-9)
    np.testing.assert_allclose(model.intercept_, intercept, rtol=1e-9)


RNG = np.random.default_rng(0)
X, X_NEW = RNG.standard_normal((18, 2)), RNG.standard_normal((4, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_normal(18)
PAIR = np.column_stack([Y, X[:, 1] ** 2])


@for_all("y", [Y, PAIR])
@for_all("kernel", ["rbf", "laplacian", "poly"])
def test_it_ends_in_kernel_ridge(y, kernel):
    model = MiniBatchKernelRegressor(
        kernel, batch_size=None, epochs=math.inf, gamma=0.4, degree=2, coef0=0.5, weight_decay=0.05
    )
    ridge = KernelRidge(alpha=18 * 0.05, kernel=kernel, gamma=0.4, degree=2, coef0=0.5).fit(X, y)
    np.testing.assert_allclose(model.fit(X, y).predict(X_NEW), ridge.predict(X_NEW), rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        model.predict(X_NEW), between(kernel)(X_NEW) @ model.dual_coef_, rtol=0, atol=1e-10
    )


def between(kernel):
    given = {"gamma": 0.4, "degree": 2, "coef0": 0.5}
    return lambda rows: pairwise_kernels(rows, X, metric=kernel, filter_params=True, **given)


def test_it_is_what_training_in_order_does():
    K, dual = rbf_kernel(X, gamma=0.7), np.zeros((18, 2))
    for _ in range(6):
        for start in range(0, 18, 5):
            rows = slice(start, min(start + 5, 18))
            residual = (K[rows] @ dual - PAIR[rows]) / (rows.stop - rows.start)
            dual *= 1 - 0.5 * 0.1
            dual[rows] -= 0.5 * residual
    model = MiniBatchKernelRegressor(
        gamma=0.7, batch_size=5, learning_rate=0.5, epochs=6, weight_decay=0.1, shuffle=False
    ).fit(X, PAIR)
    np.testing.assert_allclose(model.dual_coef_, dual, rtol=0, atol=1e-9)
    assert model.n_iter_ == 6


def test_a_linear_kernel_is_the_linear_estimator():
    settings = {"batch_size": 6, "learning_rate": 0.1, "epochs": 20, "momentum": 0.4}
    weights = np.arange(1.0, 19.0)
    linear = MiniBatchRegressor(fit_intercept=False, **settings).fit(X, Y, weights)
    kernel = MiniBatchKernelRegressor("linear", **settings).fit(X, Y, weights)
    np.testing.assert_allclose(kernel.predict(X_NEW), linear.predict(X_NEW), rtol=0, atol=1e-9)
    loo = [model.run_.leave_one_out(5).mean_square for model in (linear, kernel)]
    assert loo[0] == pytest.approx(loo[1], rel=1e-9)


def test_kernels_that_are_precomputed_or_functions():
    named = MiniBatchKernelRegressor("laplacian", gamma=0.3, epochs=5).fit(X, Y).predict(X_NEW)
    K, K_new = laplacian_kernel(X, gamma=0.3), laplacian_kernel(X_NEW, X, gamma=0.3)
    given = MiniBatchKernelRegressor("precomputed", epochs=5).fit(K, Y)
    np.testing.assert_allclose(given.predict(K_new), named, rtol=0, atol=1e-10)

    def laplacian(row, other, width):
        return math.exp(-width * np.abs(row - other).sum())

    own = MiniBatchKernelRegressor(laplacian, kernel_params={"width": 0.3}, epochs=5).fit(X, Y)
    np.testing.assert_allclose(own.predict(X_NEW), named, rtol=0, atol=1e-10)


def test_grids_cut_precomputed_kernels_on_both_sides():
    grid = {"epochs": [1, 30]}
    named = GridSearchCV(MiniBatchKernelRegressor(gamma=0.5, batch_size=6), grid, cv=3).fit(X, Y)
    K = rbf_kernel(X, gamma=0.5)
    given = GridSearchCV(MiniBatchKernelRegressor("precomputed", batch_size=6), grid, cv=3).fit(K, Y)
    scores = [search.cv_results_["mean_test_score"] for search in (named, given)]
    np.testing.assert_allclose(*scores, rtol=1e-8)
