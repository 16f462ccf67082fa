"""A plan and the estimators mean the same by the same numbers."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.sklearn import MiniBatchRegressor


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("outputs", [None, 2])
def test_the_recipe_of_a_plan_is_an_estimator(outputs, weighted):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8)) * np.geomspace(0.1, 10, 8) + 3.0
    y = X @ rng.standard_normal((8,) if outputs is None else (8, outputs))
    y = y + rng.standard_normal(y.shape) * 5
    weights = rng.uniform(0.5, 2.0, 60) if weighted else None
    # A plan takes weights as they are, an estimator relative to their mean.
    weights = None if weights is None else weights / weights.mean()
    plan = rs.plan(X, y, batch_sizes=[20], penalties=[0.1], epochs=50, sample_weight=weights, verify=False)
    best = plan.best
    model = MiniBatchRegressor(
        batch_size=best.batch_size,
        learning_rate=best.step,
        epochs=best.epochs,
        momentum=best.momentum,
        weight_decay=best.penalty,
        standardize=True,
    ).fit(X, y, sample_weight=weights)
    coefficients, intercept = plan.coefficients
    np.testing.assert_allclose(model.coef_, coefficients.T, rtol=1e-9)
    np.testing.assert_allclose(model.intercept_, intercept, rtol=1e-9)
