"""What the estimators refuse, and how they say it."""

import math
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import reshuffle.sklearn
from reshuffle.sklearn import (
    MiniBatchClassifier,
    MiniBatchClassifierCV,
    MiniBatchKernelRegressor,
    MiniBatchRegressor,
    MiniBatchRegressorCV,
)
from tests.looped import for_all

X, y = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]), np.array([1.0, 2.0, 2.0])
ROWS, ANSWERS = np.random.default_rng(0).standard_normal((10, 2)), np.arange(10.0)
ONE, MANY, KERNEL = MiniBatchRegressor, MiniBatchRegressorCV, MiniBatchKernelRegressor
LIST = "must be a list of what to try, with at least one entry"


@for_all(
    "kind, parameters, message",
    [
        (ONE, {"batch_size": 0}, "batch_size must be a whole number of at least 1, but it is 0"),
        (ONE, {"batch_size": 2.5}, "batch_size must be a whole number"),
        (ONE, {"batch_size": 80, "drop_last": True}, "batch_size must be a whole number between 1 and 10"),
        (ONE, {"learning_rate": -1.0}, "learning_rate must be a finite number >= 0, but it is -1.0"),
        (ONE, {"learning_rate": math.nan}, "learning_rate must be a finite number >= 0"),
        (ONE, {"learning_rate": "constant"}, 'learning_rate must be "auto"'),
        (ONE, {"learning_rate": None}, 'learning_rate must be "auto"'),
        (ONE, {"learning_rate": [0.1, -0.1]}, "learning_rate must hold numbers >= 0"),
        (ONE, {"learning_rate": [0.1]}, "epochs must be at most 1, the length of the step schedule"),
        (ONE, {"epochs": 0}, "epochs must be a whole number of at least 1 or math.inf, but it is 0"),
        *((ONE, {"epochs": value}, "epochs must be a whole number") for value in (1.5, True, "many")),
        (
            ONE,
            {"epochs": math.inf, "single_run": True},
            "epochs must be finite where a single run is trained",
        ),
        (ONE, {"momentum": 1.0}, "momentum must be at least 0 and below 1"),
        (ONE, {"nesterov": True}, "momentum must be above 0 with nesterov=True"),
        (ONE, {"weight_decay": -0.1}, "weight_decay must be a finite number >= 0"),
        *((ONE, {"shuffle": value}, "shuffle must be True, False") for value in ("always", 1)),
        *(
            (ONE, {name: value}, f"{name} must be True or False")
            for name, value in {
                "drop_last": "no",
                "fit_intercept": None,
                "standardize": 2,
                "single_run": "",
            }.items()
        ),
        (ONE, {"rtol": 0.0}, "rtol must be a finite number > 0"),
        (ONE, {"budget": -1.0}, "budget must be a finite number > 0"),
        (ONE, {"random_state": "seed"}, "cannot be used to seed"),
        (ONE, {"average": 0.9}, "average must be EMA"),
        (MANY, {"batch_sizes": 16}, f"batch_sizes {LIST}, but it is 16"),
        (MANY, {"learning_rates": "auto"}, f"learning_rates {LIST}"),
        (MANY, {"momenta": []}, f"momenta {LIST}"),
        (MANY, {"momenta": [1.5]}, "momentum must be at least 0 and below 1"),
        (MANY, {"weight_decays": [-1.0]}, "weight_decay must be a finite number >= 0"),
        (MANY, {"learning_rates": [-1.0]}, "learning_rate must be a finite number >= 0"),
        (MANY, {"epochs": 0}, "epochs must be a whole number of at least 1"),
        *(
            (MANY, {"epochs": value}, "epochs must be a list of numbers of at least 1")
            for value in ([], [0, 1])
        ),
        (MANY, {"cv": 1}, "k-fold cross-validation requires at least one"),
        (MANY, {"cv": "many"}, "Expected `?cv`? as an integer"),
        (MANY, {"learning_rates": [1e6], "epochs": [300]}, "learning_rates must have one that converges"),
        (KERNEL, {"kernel": "euclid"}, r"kernel|metric"),
        (KERNEL, {"batch_size": 0}, "batch_size must be"),
    ],
)
def test_parameters(kind, parameters, message):
    with pytest.raises((TypeError, ValueError), match=message):
        kind(**parameters).fit(ROWS, ANSWERS)


def test_data():
    for rows, answers, weights, message in (
        (X, y, [1.0, 2.0], r"sample_weight must have shape \(3,\)"),
        (X, y, [1.0, -2.0, 1.0], r"sample_weight must be >= 0, but sample_weight\[1\] is -2"),
        (X, y, [1.0, math.nan, 1.0], "sample_weight must be finite"),
        (X, y, [0.0, 0.0, 0.0], "sample_weight must not be zero for all rows"),
        (X, y, [0.0, 1.0, 0.0], "sample_weight must be above zero for at least 2 rows, but it is for 1"),
    ):
        with pytest.raises(ValueError, match=message):
            ONE().fit(rows, answers, sample_weight=weights)
    for model in (ONE(), MANY()):
        with pytest.raises(NotFittedError):
            model.path(3)
    with pytest.raises(ValueError, match="hold out rows with weight in every split"):
        MANY(cv=5).fit(ROWS, ANSWERS, sample_weight=[0, 0, *[1] * 8])
    with pytest.raises(ValueError, match="return_std must be True or False"):
        ONE().fit(X, y).predict(X, return_std="yes")
    with pytest.raises(ValueError, match="epochs must be whole numbers >= 0"):
        ONE().fit(X, y).path(-1)
    for size in (1e-170, 1e155):
        with pytest.raises(ValueError, match="X must have its largest entry between"):
            ONE(fit_intercept=False).fit(size * X, y)
    with pytest.raises(ValueError, match="positive semidefinite"):
        KERNEL("precomputed").fit(-np.eye(3), y)


def test_classes():
    for labels, weights, message in (
        (np.zeros(10), None, "at least two classes"),
        (ROWS[:, 0], None, "Unknown label type"),
        (ANSWERS > 4, -np.ones(10), "sample_weight must be >= 0"),
    ):
        with pytest.raises(ValueError, match=message):
            MiniBatchClassifier().fit(ROWS, labels, weights)
    diverging = MiniBatchClassifierCV(learning_rates=[1e6], epochs=[300], batch_sizes=[None])
    with pytest.raises(ValueError, match="learning_rates must have one that converges"):
        diverging.fit(ROWS, ANSWERS > 4)


def test_nothing_to_learn_from():
    one = ONE(fit_intercept=False, epochs=math.inf).fit([[2.0]], [3.0])
    assert one.coef_ == pytest.approx([1.5])
    flat, answers = np.ones((4, 2)), [1.0, 2.0, 3.0, 4.0]
    for model in (
        ONE(standardize=True),
        *(MANY(batch_sizes=[2], epochs=3, shuffle=way) for way in (True, False)),
    ):
        assert model.fit(flat, answers).coef_.tolist() == [0.0, 0.0]
        assert model.intercept_ == 2.5
    for way in (True, "batches", "replacement", False):
        found = MANY(batch_sizes=[2], epochs=3, shuffle=way).fit(flat, answers).best_score_
        assert found == pytest.approx(-np.mean(np.square([-2.0, -2 / 3, 2 / 3, 2.0])))
    constant = ONE().fit(X, [5.0, 5.0, 5.0])
    assert (constant.coef_.tolist(), constant.intercept_) == ([0.0, 0.0], 5.0)
    known = MANY(batch_sizes=[None], epochs=[math.inf]).fit(np.arange(6.0)[:, np.newaxis], np.zeros(6))
    assert (known.test_error_, known.interval_) == (0.0, (0.0, 0.0))


def test_without_scikit_learn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(vars(reshuffle.sklearn), "MiniBatchRegressor")
    with pytest.raises(ModuleNotFoundError, match=r"needs scikit-learn.*install reshuffle\[sklearn\]"):
        _ = reshuffle.sklearn.MiniBatchRegressor
    with pytest.raises(AttributeError, match="has no attribute 'Regressor'"):
        _ = reshuffle.sklearn.Regressor
    assert "MiniBatchRegressor" in dir(reshuffle.sklearn)


def test_positions_warn_for_one_release():
    with pytest.warns(DeprecationWarning, match=r"write batch_size=2, learning_rate=0\.1"):
        old = ONE(2, 0.1, epochs=3)
    assert old.get_params() == ONE(batch_size=2, learning_rate=0.1, epochs=3).get_params()
    with pytest.warns(DeprecationWarning, match=r"write batch_sizes=\[2\]"):
        assert MANY([2]).batch_sizes == [2]
    with pytest.warns(DeprecationWarning, match="batch_size of MiniBatchKernelRegressor"):
        assert KERNEL("linear", 2).kernel == "linear"
    with pytest.raises(TypeError, match="positional argument"):
        ONE(2, 0.1, 3, 0.9)
    with pytest.raises(TypeError, match="batch_size"), pytest.warns(DeprecationWarning, match="batch_size"):
        ONE(2, batch_size=3)
