"""Standardizer against scikit-learn's StandardScaler and numpy's averages."""

import tracemalloc

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from reshuffle.problem import standardizer
from reshuffle.problem.standardizer import Standardizer
from tests.looped import for_all, pairwise


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 4)) * [1.0, 1e3, 1e-3, 1.0] + [0.0, 5.0, 1e4, -2.0]
    return X, rng.standard_normal((200, 2)) + 7.0


@for_all("weighted", [False, True])
@for_all("chunk", [4 * 7, 1 << 18])
def test_rows_are_those_of_a_standard_scaler(data, weighted, chunk, monkeypatch):
    monkeypatch.setattr(standardizer, "_CHUNK", chunk)
    X, y = data
    weights = np.random.default_rng(1).uniform(0.1, 3.0, len(X)) if weighted else None
    made, known = Standardizer.of(X, y, weights=weights), StandardScaler().fit(X, sample_weight=weights)
    np.testing.assert_allclose(made.mean, known.mean_, rtol=1e-12)
    np.testing.assert_allclose(made.scale, known.scale_, rtol=1e-9)
    np.testing.assert_allclose(made.rows(X), known.transform(X), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(made.response_mean, np.average(y, axis=0, weights=weights), rtol=1e-14)
    np.testing.assert_array_equal(made.responses(y), y - made.response_mean)
    np.testing.assert_allclose(np.average(made.rows(X), axis=0, weights=weights), 0.0, atol=1e-14)


@for_all("outputs, centre, scale", pairwise([None, 2], [False, True], [False, True]))
def test_coefficients_predict_what_parameters_do(data, outputs, centre, scale):
    X, y = data
    y = y[:, 0] if outputs is None else y
    made = Standardizer.of(X, y, centre=centre, scale=scale)
    parameters = np.random.default_rng(2).standard_normal((3, 4, *y.shape[1:]))
    coefficients, intercepts = made.coefficients(parameters)
    for one, coefficient, intercept in zip(parameters, coefficients, intercepts, strict=True):
        predicted = made.rows(X) @ one + made.response_mean
        np.testing.assert_allclose(X @ coefficient + intercept, predicted, rtol=1e-9, atol=1e-7)
    if not centre:
        assert not made.mean.any()
        assert not np.any(intercepts)


@for_all("value", [0.0, 7.1, -1e150, 1e-200])
@for_all("chunk", [20, 1 << 18])
def test_constant_columns_are_zero_once_centred(value, chunk, monkeypatch):
    monkeypatch.setattr(standardizer, "_CHUNK", chunk)
    X = np.full((777, 2), value)
    X[:, 1] = np.arange(777)
    made = Standardizer.of(X)
    assert made.constant.tolist() == [True, False]
    assert made.scale[0] == 1.0
    assert not made.rows(X)[:, 0].any()
    kept = Standardizer.of(X, centre=False)
    np.testing.assert_array_equal(kept.rows(X)[:, 0], value)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_column_that_varies_little_is_scaled_to_one(weighted):
    """Its mean is a number only to a few thousandths of its deviation: the remainder is subtracted too."""
    z = np.random.default_rng(3).standard_normal((500, 1))
    weights = np.random.default_rng(4).uniform(0.5, 2.0, 500) if weighted else None
    column = 1 + 5e-13 * z
    rows = Standardizer.of(column, weights=weights).rows(column)[:, 0]
    assert np.average(np.square(rows), weights=weights) == pytest.approx(1.0, rel=1e-12)
    assert abs(np.average(rows, weights=weights)) < 1e-14


@for_all("size", [1e150, 1e-200, 1e307])
def test_sizes_whose_squares_are_no_numbers(size):
    z = np.random.default_rng(5).uniform(-1.0, 1.0, (300, 3))
    made, known = Standardizer.of(size * z), Standardizer.of(z)
    np.testing.assert_allclose(made.rows(size * z), known.rows(z), rtol=1e-11, atol=1e-14)


def test_many_rows_are_read_in_chunks():
    X = np.ones((400_000, 10))
    X[::2] = 0.0
    tracemalloc.start()
    Standardizer.of(X, X[:, 0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 5
