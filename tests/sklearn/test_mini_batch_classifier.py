"""Classifiers against scikit-learn's ridge classifiers, training by hand, and searches over held-out rows."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from reshuffle.sklearn import MiniBatchClassifier, MiniBatchClassifierCV, MiniBatchRegressor
from tests.looped import for_all

X, y = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
NAMES = np.array(["barbera", "barolo", "grignolino"])[y]


@for_all("labels", [NAMES, NAMES == "barolo", np.where(y == 1, -7, 3)])
@for_all("class_weight", [None, "balanced"])
def test_one_batch_for_ever_is_a_ridge_classifier(labels, class_weight):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    model = MiniBatchClassifier(
        batch_size=None, epochs=math.inf, weight_decay=0.1, class_weight=class_weight
    ).fit(X, labels, weights)
    # A decay is per row of the mean weight, and weights here are relative to their mean.
    own = weights.copy()
    if class_weight is not None:
        counts = dict(zip(*np.unique(labels, return_counts=True), strict=True))
        own *= [len(X) / (len(counts) * counts[label]) for label in labels]
    ridge = RidgeClassifier(alpha=0.1 * len(X)).fit(X, labels, own / own.mean())
    np.testing.assert_array_equal(model.classes_, ridge.classes_)
    scale = 1.0 if len(model.classes_) == 2 else 0.5
    # Ridge classifiers have -1 in place of 0, which halves nothing but the scores.
    np.testing.assert_allclose(model.coef_, scale * np.atleast_2d(ridge.coef_), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), ridge.predict(X))
    shape = (len(X),) if len(model.classes_) == 2 else (len(X), 3)
    assert model.decision_function(X).shape == ridge.decision_function(X).shape == shape


def test_it_is_the_regressor_of_its_targets():
    settings = {"batch_size": 16, "learning_rate": 0.02, "epochs": 7, "momentum": 0.5, "standardize": True}
    model = MiniBatchClassifier(**settings).fit(X, NAMES)
    targets = np.eye(3)[y]
    same = MiniBatchRegressor(**settings).fit(X, targets)
    np.testing.assert_allclose(model.coef_, same.coef_)
    np.testing.assert_allclose(model.decision_function(X), same.predict(X))
    np.testing.assert_allclose(model.path([3, 7]).coef, same.path([3, 7]).coef)
    told = model.run_.leave_one_out(7, centred=True)
    assert told.confusion.shape == (3, 3)
    assert abs(model.score(X, NAMES) - told.accuracy_of_mean) < 0.05


def test_a_search_takes_the_highest_accuracy_on_left_out_rows():
    """Against refits of every candidate without each row."""
    rows, labels = X[::3], NAMES[::3]
    search = MiniBatchClassifierCV(batch_sizes=[None], learning_rates=[0.01, 0.1], epochs=[1, 5, 50]).fit(
        rows, labels
    )
    table = search.cv_results_
    for params, score in zip(table["params"], table["mean_test_score"], strict=True):
        model, hits = MiniBatchClassifier(**params), []
        for row in range(len(rows)):
            others = np.arange(len(rows)) != row
            hits.append(model.fit(rows[others], labels[others]).predict(rows[[row]])[0] == labels[row])
        # A row that is left out leaves the divisor of its batch as it is: the step of others is n / (n - 1) of it.
        assert score == pytest.approx(np.mean(hits), abs=1.5 / len(rows))
    best = table["mean_test_score"].max()
    assert search.best_score_ == best
    assert (
        search.predict(rows).tolist()
        == MiniBatchClassifier(**search.best_params_).fit(rows, labels).predict(rows).tolist()
    )
    assert (np.asarray(table["rank_test_score"])[table["mean_test_score"] == best] == 1).all()


@pytest.mark.parametrize("two", [True, False])
def test_a_search_over_folds_is_that_of_grid_search(two):
    labels = NAMES == "barolo" if two else NAMES
    folds = StratifiedKFold(4, shuffle=True, random_state=0)
    epochs, rates = [1, 3, 30], [0.01, 0.1]
    search = MiniBatchClassifierCV(batch_sizes=[32], learning_rates=rates, epochs=epochs, cv=folds).fit(
        X, labels
    )
    grid = GridSearchCV(
        MiniBatchClassifier(batch_size=32), {"learning_rate": rates, "epochs": epochs}, cv=folds
    ).fit(X, labels)
    for params, score in zip(grid.cv_results_["params"], grid.cv_results_["mean_test_score"], strict=True):
        place = next(
            number
            for number, other in enumerate(search.cv_results_["params"])
            if all(other[name] == value for name, value in params.items())
        )
        assert search.cv_results_["mean_test_score"][place] == pytest.approx(score)
    assert search.best_score_ == pytest.approx(grid.best_score_)
    # Of equal accuracies the least mean square decides, which GridSearchCV does not know.
    assert MiniBatchClassifierCV(batch_sizes=[32], epochs=10, cv=3).fit(X, labels).score(X, labels) > 0.9


def test_equal_accuracies_are_decided_by_the_mean_square():
    far = np.array([[-3.0], [-2.0], [-1.0], [1.0], [2.0], [3.0]])
    search = MiniBatchClassifierCV(
        batch_sizes=[None], learning_rates=[1e-3, 0.1], epochs=[1, 20], fit_intercept=False
    ).fit(far, ["no"] * 3 + ["yes"] * 3)
    assert (search.cv_results_["mean_test_score"] == 1.0).all()
    assert (search.best_params_["learning_rate"], search.best_epoch_) == (0.1, 20)


def test_the_accuracy_on_new_rows_is_in_its_interval():
    """95% of the time, if problems are drawn: 38 of 40 on average, and below 34 once in a hundred times."""
    inside = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        rows, signal = rng.standard_normal((2040, 3)), rng.standard_normal(3)
        labels = rows @ signal + rng.standard_normal(2040) > 0
        search = MiniBatchClassifierCV(batch_sizes=[None], epochs=[1, 3, 10, 30]).fit(rows[:40], labels[:40])
        low, high = search.interval_
        assert 0 <= low < search.accuracy_ < high <= 1
        inside.append(low <= search.score(rows[40:], labels[40:]) <= high)
    assert sum(inside) >= 34


def test_no_miss_among_few_rows_is_no_certainty():
    far = np.array([[-3.0], [-2.0], [-1.0], [1.0], [2.0], [3.0]])
    search = MiniBatchClassifierCV(batch_sizes=[None], fit_intercept=False).fit(far, ["no"] * 3 + ["yes"] * 3)
    assert search.accuracy_ == 1
    # Six of six are right with a probability of 5% if each is right with 0.61.
    assert 0.5 < search.interval_[0] < 0.65
    assert search.interval_[1] == pytest.approx(1)
