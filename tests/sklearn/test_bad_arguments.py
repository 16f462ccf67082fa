"""What the estimators refuse, and how they say it."""

import math
import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import reshuffle.sklearn
from reshuffle.sklearn import MiniBatchKernelRegressor, MiniBatchRegressor, MiniBatchRegressorCV

X, y = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]), np.array([1.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1, but it is 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"batch_size": 8, "drop_last": True}, "batch_size must be a whole number between 1 and 3"),
        ({"learning_rate": -1.0}, "learning_rate must be a finite number >= 0, but it is -1.0"),
        ({"learning_rate": math.nan}, "learning_rate must be a finite number >= 0"),
        ({"learning_rate": "constant"}, 'learning_rate must be "auto"'),
        ({"learning_rate": None}, 'learning_rate must be "auto"'),
        ({"learning_rate": [0.1, -0.1]}, "learning_rate must hold numbers >= 0"),
        ({"learning_rate": [0.1]}, "epochs must be at most 1, the length of the step schedule"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1 or math.inf, but it is 0"),
        ({"epochs": 1.5}, "epochs must be a whole number of at least 1 or math.inf"),
        ({"epochs": True}, "epochs must be a whole number"),
        ({"epochs": "many"}, "epochs must be a whole number"),
        ({"epochs": math.inf, "single_run": True}, "epochs must be finite where a single run is trained"),
        ({"momentum": 1.0}, "momentum must be at least 0 and below 1"),
        ({"nesterov": True}, "momentum must be above 0 with nesterov=True"),
        ({"weight_decay": -0.1}, "weight_decay must be a finite number >= 0"),
        ({"shuffle": "always"}, "shuffle must be True, False"),
        ({"shuffle": 1}, "shuffle must be True, False"),
        ({"drop_last": "no"}, "drop_last must be True or False"),
        ({"fit_intercept": None}, "fit_intercept must be True or False"),
        ({"standardize": 2}, "standardize must be True or False"),
        ({"single_run": "yes"}, "single_run must be True or False"),
        ({"rtol": 0.0}, "rtol must be a finite number > 0"),
        ({"budget": -1.0}, "budget must be a finite number > 0"),
        ({"random_state": "seed"}, "cannot be used to seed"),
    ],
)
def test_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        MiniBatchRegressor(**parameters).fit(X, y)


def test_an_average_of_another_kind():
    with pytest.raises(TypeError, match="average must be EMA"):
        MiniBatchRegressor(average=0.9).fit(X, y)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"sample_weight must have shape \(3,\)"),
        ([1.0, -2.0, 1.0], r"sample_weight must be >= 0, but sample_weight\[1\] is -2"),
        ([1.0, math.nan, 1.0], "sample_weight must be finite"),
        ([0.0, 0.0, 0.0], "sample_weight must not be zero for all rows"),
        ([0.0, 1.0, 0.0], "sample_weight must be above zero for at least 2 rows, but it is for 1"),
    ],
)
def test_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        MiniBatchRegressor().fit(X, y, sample_weight=weights)


def test_data():
    model = MiniBatchRegressor()
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit([[1.0], [math.nan]], [1.0, 2.0])
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit([[1.0], [2.0]], [1.0, math.nan])
    with pytest.raises(ValueError, match="minimum of 2 is required by MiniBatchRegressor"):
        model.fit([[1.0]], [1.0])
    with pytest.raises(ValueError, match="could not convert string to float"):
        model.fit([["red"], ["blue"]], [1.0, 2.0])
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        model.path(3)
    with pytest.raises(ValueError, match="return_std must be True or False"):
        model.fit(X, y).predict(X, return_std="yes")
    with pytest.raises(ValueError, match="epochs must be whole numbers >= 0"):
        model.path(-1)


@pytest.mark.parametrize("size", [1e-170, 1e155])
def test_sizes_whose_squares_are_no_numbers(size):
    with pytest.raises(ValueError, match="X must have its largest entry between"):
        MiniBatchRegressor(fit_intercept=False).fit(size * X, y)


def test_nothing_to_learn_from():
    one = MiniBatchRegressor(fit_intercept=False, epochs=math.inf).fit([[2.0]], [3.0])
    assert one.coef_ == pytest.approx([1.5])
    flat = MiniBatchRegressor(standardize=True).fit(np.ones((4, 2)), [1.0, 2.0, 3.0, 4.0])
    assert flat.coef_.tolist() == [0.0, 0.0]
    assert flat.intercept_ == 2.5
    for shuffle in (True, "batches", "replacement", False):
        flat = MiniBatchRegressorCV(batch_sizes=[2], epochs=3, shuffle=shuffle).fit(
            np.ones((4, 2)), [1.0, 2.0, 3.0, 4.0]
        )
        assert flat.coef_.tolist() == [0.0, 0.0]
        assert flat.best_score_ == pytest.approx(-np.mean(np.square([-2.0, -2 / 3, 2 / 3, 2.0])))
    constant = MiniBatchRegressor().fit(X, [5.0, 5.0, 5.0])
    assert constant.coef_.tolist() == [0.0, 0.0]
    assert constant.intercept_ == 5.0


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
        old = MiniBatchRegressor(2, 0.1, epochs=3)
    assert old.get_params() == MiniBatchRegressor(batch_size=2, learning_rate=0.1, epochs=3).get_params()
    with pytest.warns(DeprecationWarning, match=r"write batch_sizes=\[2\]"):
        assert MiniBatchRegressorCV([2]).batch_sizes == [2]
    with pytest.warns(DeprecationWarning, match="batch_size of MiniBatchKernelRegressor"):
        assert MiniBatchKernelRegressor("linear", 2).kernel == "linear"
    with pytest.raises(TypeError, match="positional argument"):
        MiniBatchRegressor(2, 0.1, 3, 0.9)
    with pytest.raises(TypeError, match="batch_size"), pytest.warns(DeprecationWarning, match="batch_size"):
        MiniBatchRegressor(2, batch_size=3)
