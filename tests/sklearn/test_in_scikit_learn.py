"""The estimators at work among others: pipelines, searches, tables, pickles."""

import pickle

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import reshuffle as rs
from reshuffle.sklearn import (
    MiniBatchClassifier,
    MiniBatchClassifierCV,
    MiniBatchRegressor,
    MiniBatchRegressorCV,
)
from tests.looped import for_all


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.standard_normal((60, 3)) * [1.0, 30.0, 0.1], columns=["age", "height", "weight"])
    y = X["age"] - 0.1 * X["height"] + 10 * X["weight"] + 0.3 * rng.standard_normal(60)
    return X, y


def test_a_learning_rate_that_diverges_loses_a_search(table):
    X, y = table
    model = MiniBatchRegressor(batch_size=None, standardize=True, epochs=10_000)
    search = GridSearchCV(model, {"learning_rate": [0.1, 50.0]}, cv=3)
    with pytest.warns(FitFailedWarning, match="diverges"), pytest.warns(UserWarning, match="non-finite"):
        search.fit(X, y)
    assert search.best_params_ == {"learning_rate": 0.1}


def test_fits_that_differ_in_their_epochs_share_one_run():
    """A search over epochs pays for each learning rate and fold once; rows that are changed in place are new."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.standard_normal(40)

    def fitted(rows=X, **parameters):
        return MiniBatchRegressor(learning_rate=0.1, fit_intercept=False, **parameters).fit(rows, y)

    first, before = fitted(epochs=5), X.copy()
    assert fitted(epochs=7).run_ is first.run_
    np.testing.assert_array_equal(fitted(epochs=7).coef_, first.path(7).coef)
    assert fitted(epochs=5, batch_size=8).run_ is not first.run_
    X *= 2.0
    assert fitted(epochs=5).run_ is not first.run_
    np.testing.assert_array_equal(fitted(before, epochs=5).run_.problem.X, before)


def test_a_transformed_target(table):
    X, y = table
    positive = np.exp(y / 10)
    model = TransformedTargetRegressor(MiniBatchRegressor(standardize=True), func=np.log, inverse_func=np.exp)
    alone = MiniBatchRegressor(standardize=True).fit(X, y / 10)
    np.testing.assert_allclose(model.fit(X, positive).predict(X), np.exp(alone.predict(X)), rtol=1e-9)


def model_of(kind, **settings):
    if kind in (MiniBatchRegressorCV, MiniBatchClassifierCV):
        return kind(batch_sizes=[16], cv=3, **settings)
    return kind(batch_size=16, standardize=True, learning_rate=0.01, epochs=30, **settings)


@for_all("kind", [MiniBatchRegressor, MiniBatchRegressorCV, MiniBatchClassifier, MiniBatchClassifierCV])
def test_pickles_keep_paths_and_little_else(kind, table):
    X, y = table
    y = y if kind in (MiniBatchRegressor, MiniBatchRegressorCV) else np.where(y > 0, "high", "low")
    model = model_of(kind)
    assert is_classifier(model) == isinstance(y, np.ndarray)
    if kind is MiniBatchRegressor:
        model.set_params(momentum=0.5, average=rs.TailAverage(start=3))
    kept = pickle.dumps(model.fit(X, y))
    again = pickle.loads(kept)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.path([4, 9]).coef, model.path([4, 9]).coef)
    if not is_classifier(model):
        np.testing.assert_array_equal(
            again.predict(X, return_std=True)[1], model.predict(X, return_std=True)[1]
        )
    if kind is MiniBatchRegressor:
        assert len(kept) < 3 * X.to_numpy().nbytes + 4000
    np.testing.assert_array_equal(model.coef_, clone(model).fit(X.to_numpy(), np.asarray(y)).coef_)


@for_all("kind", [MiniBatchRegressor, MiniBatchClassifier])
def test_grid_search_over_a_pipeline(kind, table):
    X, y = table
    y = y if kind is MiniBatchRegressor else np.where(y > 0, "high", "low")
    model = make_pipeline(StandardScaler(), kind(batch_size=16, shuffle=False))
    name = kind.__name__.lower()
    grid = {"epochs": [1, 20], "learning_rate": [0.001, 0.1], "average": [None, rs.EMA(0.5)]}
    search = GridSearchCV(model, {f"{name}__{key}": values for key, values in grid.items()}, cv=3).fit(X, y)
    if kind is MiniBatchRegressor:
        assert search.best_params_[f"{name}__learning_rate"] == 0.1
        assert search.best_params_[f"{name}__epochs"] == 20
    assert cross_val_score(search.best_estimator_, X, y, cv=3).mean() > 0.9


@for_all("make", [scipy.sparse.csr_matrix, scipy.sparse.csc_array, scipy.sparse.coo_array])
def test_sparse_features_and_tables_of_outputs(make, table):
    X, y = table
    X = X.to_numpy() * (np.abs(X.to_numpy()) > 0.5)
    dense, sparse = (
        MiniBatchRegressor(batch_size=16, standardize=True).fit(rows, y, sample_weight=np.arange(60))
        for rows in (X, make(X))
    )
    np.testing.assert_array_equal(sparse.coef_, dense.coef_)
    np.testing.assert_allclose(sparse.predict(make(X)), dense.predict(X), rtol=1e-12)
    outputs = pandas.DataFrame({"one": y, "two": -y})
    coef = MiniBatchRegressor().fit(X, outputs).coef_
    np.testing.assert_allclose(coef[1], -coef[0])
