"""MiniBatchRegressorCV against scikit-learn's own search over really fitted models."""

import math
from functools import partial
from itertools import product

import numpy as np
import pandas
import pytest
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneGroupOut

from reshuffle.sklearn import MiniBatchRegressor, MiniBatchRegressorCV
from tests import training
from tests.looped import for_all
from tests.training import centred, cut, train

data = partial(training.data, p=12, signal=1 / 3, noise=1.5)


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [None, 2])
def test_it_is_a_grid_search(outputs):
    X, y = data(outputs=outputs)
    cv = KFold(4, shuffle=True, random_state=1)
    grid = {
        "batch_size": [8, None], "learning_rate": [0.01, 0.03], "momentum": [0.0, 0.5], "weight_decay": [0.1],
    }  # fmt: skip
    ours = dict(
        zip(["batch_sizes", "learning_rates", "momenta", "weight_decays"], grid.values(), strict=True)
    )
    fixed = {"shuffle": False, "standardize": True}
    search = GridSearchCV(
        MiniBatchRegressor(**fixed), grid | {"epochs": [1, 5, 30]}, cv=cv, scoring="neg_mean_squared_error"
    ).fit(X, y)
    model = MiniBatchRegressorCV(**ours, epochs=[30, 1, 5], cv=cv, **fixed).fit(X, y)
    table, known = pandas.DataFrame(model.cv_results_), pandas.DataFrame(search.cv_results_)
    assert len(table) == len(known) == 24
    order = ["param_batch_size", "param_learning_rate", "param_momentum", "param_epochs"]
    for rows in (table, known):
        rows["param_batch_size"] = [8 if size == 8 else 40 for size in rows["param_batch_size"]]
        for name in order:
            rows[name] = rows[name].astype(float)
    table, known = table.sort_values(order), known.sort_values(order)
    for name in [*(f"split{k}_test_score" for k in range(4)), "mean_test_score", "std_test_score"]:
        np.testing.assert_allclose(table[name], known[name], rtol=1e-9, err_msg=name)
    np.testing.assert_array_equal(table["rank_test_score"], known["rank_test_score"])
    assert model.best_params_ == search.best_params_
    assert model.best_score_ == pytest.approx(search.best_score_, rel=1e-9)
    assert model.best_epoch_ == model.n_iter_ == search.best_params_["epochs"]
    np.testing.assert_allclose(model.predict(X), search.predict(X), rtol=1e-9)
    np.testing.assert_array_equal(model.coef_, model.best_estimator_.coef_)


@for_all("size, fit_intercept, weighted", product([None, 4], [False, True], [False, True]))
def test_rows_are_left_out_one_by_one(size, fit_intercept, weighted):
    """Train without each row, centred by the means of the others, which batches feel on average alone."""
    X, y = data(10, p=3, outputs=2)
    weights = np.random.default_rng(2).uniform(0.5, 2.0, 10) if weighted else np.ones(10)
    relative, batches = weights / weights.mean(), cut(range(10), size or 10)
    errors = np.zeros((2, 10, 2))
    for place, epochs in enumerate((2, 7)):
        for row, output in np.ndindex(10, 2):
            without = np.where(np.arange(10) == row, 0.0, relative)
            rows, responses = centred(X, y, without) if fit_intercept else (X, y)
            b = train(rows, responses[:, output], batches * epochs, rate=0.05, weights=without)
            errors[place, row, output] = responses[row, output] - rows[row] @ b
    squares = np.square(errors).mean(axis=2)
    mean = np.average(squares, axis=1, weights=weights)
    model = MiniBatchRegressorCV(
        batch_sizes=[size], learning_rates=[0.05], epochs=[2, 7], shuffle=False, fit_intercept=fit_intercept
    )
    model.fit(X, y, sample_weight=weights if weighted else None)
    tolerance = 1e-8 if size is None or not fit_intercept else 0.02
    np.testing.assert_allclose(model.cv_results_["mean_test_score"], -mean, rtol=tolerance)
    variance = np.average(np.square(squares - mean[:, np.newaxis]), axis=1, weights=weights)
    np.testing.assert_allclose(
        model.cv_results_["std_test_score"], np.sqrt(variance), rtol=max(tolerance, 1e-7)
    )


def test_the_best_parameters_are_those_of_a_model():
    X, y = data()
    model = MiniBatchRegressorCV(batch_sizes=[8, 16], epochs=200, cv=3).fit(X, y)
    alone = MiniBatchRegressor(**model.best_params_).fit(X, y)
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    assert model.intercept_ == alone.intercept_
    assert model.learning_rate_ == model.best_params_["learning_rate"]
    for one, other in zip(model.predict(X, return_std=True), alone.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(model.path([1, 7]).coef, alone.path([1, 7]).coef)
    assert model.run_.scheme == alone.run_.scheme
    assert 1 < model.best_epoch_ < 200


def test_held_out_rows_count_by_their_weights():
    """Weights are repetitions, of what is trained on and of what is held out, where a batch holds all rows."""
    X, y = data(30)
    groups = np.arange(30) % 3
    weights = np.random.default_rng(1).integers(0, 3, 30)
    parts = [LeaveOneGroupOut().split(X, groups=groups)]
    repeated = np.repeat(np.arange(30), weights)
    parts.append(LeaveOneGroupOut().split(X[repeated], groups=groups[repeated]))
    weighted, copied = (
        MiniBatchRegressorCV(batch_sizes=[None], learning_rates=[0.02], epochs=100, cv=list(part))
        for part in parts
    )
    weighted.fit(X, y, sample_weight=weights)
    copied.fit(X[repeated], y[repeated])
    for name in ("mean_test_score", "std_test_score"):
        np.testing.assert_allclose(weighted.cv_results_[name], copied.cv_results_[name], rtol=1e-9)
    assert weighted.best_params_ == copied.best_params_
    np.testing.assert_allclose(weighted.coef_, copied.coef_, rtol=1e-9)


def test_learning_rates_that_diverge():
    X, y = data()
    model = MiniBatchRegressorCV(
        batch_sizes=[10], learning_rates=[5.0, 0.01], epochs=[10, 10_000], shuffle=False, cv=3
    ).fit(X, y)
    assert model.best_params_["learning_rate"] == 0.01
    scores = model.cv_results_["mean_test_score"]
    assert scores[1] == -math.inf
    assert np.isfinite(scores[2:]).all()
    with pytest.raises(ValueError, match="learning_rates must have one that converges"):
        MiniBatchRegressorCV(
            batch_sizes=[10], learning_rates=[5.0], epochs=[10_000], shuffle=False, cv=3
        ).fit(X, y)


@pytest.mark.parametrize("cv", [None, 5])
def test_the_test_error_to_expect_is_corrected_for_the_choice(cv):
    """The best of 64 scores is too good; over some problems, its corrected value is not."""
    told, naive, covered = [], [], []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        rows, signal = rng.standard_normal((40, 12)), rng.standard_normal(12) / 4
        model = MiniBatchRegressorCV(
            batch_sizes=[None], learning_rates=[0.05, 0.2], weight_decays=[0.0, 0.3], epochs=16, cv=cv
        ).fit(rows, rows @ signal + rng.standard_normal(40))
        # The risk on new rows of unit covariance, and their noise.
        risk = np.square(model.coef_ - signal).sum() + model.intercept_**2 + 1
        told.append(np.log(model.test_error_ / risk))
        naive.append(np.log(-model.best_score_ / risk))
        covered.append(model.interval_[0] < risk < model.interval_[1])
        assert model.interval_[0] < model.test_error_ < model.interval_[1]
    assert abs(np.mean(told)) < 2.5 * np.std(told) / 4
    assert np.mean(naive) < np.mean(told) - 0.03
    assert np.mean(covered) >= 14 / 16


def test_the_limit_may_be_the_best_and_noise_is_not_known_by_its_means():
    X, _ = data(60, p=2)
    limit = MiniBatchRegressorCV(batch_sizes=[20], learning_rates=[0.001], epochs=[1, math.inf], cv=3)
    limit.fit(X, X @ [1.0, 2.0])
    assert limit.best_epoch_ == limit.n_iter_ == math.inf
    np.testing.assert_array_equal(limit.cv_results_["param_epochs"], [1, math.inf])
    # Pure noise with more columns than rows: centred rows add up to zero, and would be known by the others.
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((30, 80)), rng.standard_normal(30)
    assert -MiniBatchRegressorCV().fit(X, y).best_score_ > 0.7 * y.var()
