"""Rows that were centred by their mean are left out of it too."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

import reshuffle as rs
from tests.looped import for_all
from tests.oracles.every_order import epochs_reshuffled
from tests.validation.enumerated import residuals


def drawn(n, p, outputs=None):
    rng = np.random.default_rng(p)
    X = rng.standard_normal((n, p)) + 3.0
    return X, X[:, 0] + rng.standard_normal(n) if outputs is None else rng.standard_normal((n, outputs)) + X[
        :, :1
    ]


def centred(X, y, weights=None):
    return X - np.average(X, axis=0, weights=weights), y - np.average(y, axis=0, weights=weights)


@pytest.mark.parametrize("p", [3, 15])
def test_the_limit_is_that_of_regression_with_an_intercept(p):
    X, y = drawn(12, p)
    run = rs.descend(rs.LeastSquares(*centred(X, y)), rs.FullBatch(), step=0.01)
    found = run.leave_one_out(math.inf, centred=True)
    want = y - cross_val_predict(LinearRegression(), X, y, cv=LeaveOneOut())
    np.testing.assert_allclose(found.residuals, want, rtol=1e-6)
    assert found.saturated.all() == (p > 12)


def test_ridge_with_an_intercept():
    X, y = drawn(12, 15, outputs=2)
    run = rs.descend(rs.LeastSquares(*centred(X, y)), rs.FullBatch(), step=0.01, penalty=0.5)
    want = y - cross_val_predict(Ridge(alpha=12 * 0.5), X, y, cv=LeaveOneOut())
    np.testing.assert_allclose(run.leave_one_out(math.inf, centred=True).residuals, want, rtol=1e-8)


@for_all("weights", [None, np.arange(1.0, 13.0)])
@for_all("scheme", [rs.FullBatch(), rs.SampleWithReplacement(batch_size=4)])
def test_finite_epochs_with_the_means_of_the_others(scheme, weights):
    X, y = drawn(12, 4)
    problem = rs.LeastSquares(*centred(X, y, weights), sample_weight=weights)
    found = rs.descend(problem, scheme, step=0.02).leave_one_out([1, 9], centred=True)
    w = np.ones(12) if weights is None else weights
    for i in range(12):
        kept = np.where(np.arange(12) == i, 0.0, w)
        A, t = centred(X, y, kept)
        W, g = A.T @ (kept[:, None] * A) / 12, A.T @ (kept * t) / 12
        for number, epoch in enumerate((1, 9)):
            b = np.zeros(4)
            for _ in range(epoch * scheme.steps(12)):
                b = b - 0.02 * (W @ b - g)
            np.testing.assert_allclose(found.residuals[number, i], t[i] - A[i] @ b, rtol=1e-9)


@pytest.mark.parametrize("p", [3, 15])
def test_batches_feel_the_means_on_average(p):
    """Centring moves all rows of all batches a little, which the formula knows on average alone."""
    X, y = drawn(12, p)
    problem, orders = (
        rs.LeastSquares(*centred(X, y)),
        epochs_reshuffled([range(6), range(6, 12)]),
    )
    found = rs.descend(problem, rs.RandomReshuffling(batches=2), step=0.05).leave_one_out([5], centred=True)
    for i in range(12):
        kept = np.where(np.arange(12) == i, 0.0, 1.0)
        A, t = centred(X, y, kept)
        want = residuals(A, t, orders, 0.05, [5])[0, i]
        given = residuals(problem.X, problem.y, orders, 0.05, [5])[0, i]
        assert abs(found.residuals[0, i] - want) < 0.35 * abs(given - want) + 1e-3


@for_all(
    "scheme", [rs.RandomReshuffling(batches=2), rs.SampleReshuffling(batch_size=6), rs.Cyclic(batches=2)]
)
def test_what_is_not_there_is_not_known(scheme):
    """Pure noise, more columns than rows: the rows add up to zero, and would be known by the others."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 60)), rng.standard_normal(30)
    run = rs.descend(rs.LeastSquares(*centred(X, y)), scheme, alpha=0.02)
    late = [10**4, math.inf]
    assert (run.leave_one_out(late).mean_square < 1e-3).all()
    assert (run.leave_one_out(late, centred=True).mean_square > 0.7 * y.var()).all()


def test_refits_and_folds_are_centred_anew():
    X, y = drawn(10, 3)
    problem = rs.LeastSquares(*centred(X, y))
    run = rs.descend(problem, rs.RandomReshuffling(batches=2), step=0.05, average=rs.EMA(0.5))
    found = run.leave_one_out([7], centred=True)
    assert found.method == "refits"
    for i in range(10):
        kept = np.where(np.arange(10) == i, 0.0, 1.0)
        A, t = centred(X, y, kept)
        alone = run.on(rs.LeastSquares(A, t).without(np.array([i]))).iterate(7)
        np.testing.assert_allclose(found.residuals[0, i], t[i] - A[i] @ alone, rtol=1e-9)


def test_rows_that_are_not_centred_are_refused():
    with pytest.raises(ValueError, match="centred must be False"):
        rs.descend(rs.LeastSquares(*drawn(10, 3)), rs.FullBatch(), step=0.05).leave_one_out(3, centred=True)


def test_the_best_epoch_of_centred_rows():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((30, 60)), rng.standard_normal(30)
    run = rs.descend(rs.LeastSquares(*centred(X, y)), rs.RandomReshuffling(batches=2), alpha=0.02)
    assert run.best_epoch().risk < 1e-3
    assert run.best_epoch(centred=True).risk > 0.7 * y.var()
