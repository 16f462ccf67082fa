"""MiniBatchKernelRegressor against kernel ridge, trainings by hand, and the linear estimator."""

import math

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import laplacian_kernel, pairwise_kernels, rbf_kernel
from sklearn.model_selection import GridSearchCV

from reshuffle.sklearn import MiniBatchKernelRegressor, MiniBatchRegressor
from tests.looped import for_all

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
