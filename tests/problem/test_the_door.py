"""What features and responses may be, sparse, tensors or frames, and how columns are centred and scaled."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from sklearn.preprocessing import StandardScaler

import reshuffle as rs
from reshuffle.problem import standardizer
from reshuffle.problem.standardizer import Standardizer
from tests.looped import for_all

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.0, 0.0, 4.0], [5.0, 0.0, 0.0]])
y = np.array([1.0, 2.0, 3.0, 4.0])


@for_all("kind", ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"])
def test_sparse_features_of_any_format(kind):
    for made in (scipy.sparse.csr_matrix(X).asformat(kind), scipy.sparse.csr_array(X).asformat(kind)):
        problem = rs.LeastSquares(made, y)
        assert type(problem.X) is np.ndarray
        assert (problem.X == X).all()
        run = rs.descend(problem, rs.FullBatch(), step=0.1)
        assert (run.predict(made, 2) == run.predict(X, 2)).all()


def test_sparse_entries_that_are_no_numbers():
    broken = X.copy()
    broken[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"X must be finite, but X\[3, 1\] is nan; drop or impute"):
        rs.LeastSquares(scipy.sparse.csr_array(broken), y)
    with pytest.raises(
        TypeError, match=r"X must hold real numbers, but its dtype is complex128: X\[1, 1\] is 3j"
    ):
        rs.LeastSquares(scipy.sparse.csr_array(np.where(X == 3, 3j, X)), y)
    flags = scipy.sparse.csr_array(X != 0)
    assert ((X != 0) == rs.LeastSquares(flags, y).X).all()


@for_all("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_tensors(dtype):
    features, responses = (
        torch.tensor(X).to(dtype),
        torch.tensor(np.column_stack([y, y]), dtype=torch.float32),
    )
    if dtype.is_floating_point:
        features.requires_grad_()
    responses.requires_grad_()
    problem = rs.LeastSquares(features, responses, sample_weight=torch.ones(4))
    assert (features.detach().double().numpy() == problem.X).all()
    assert (problem.outputs, problem.y.dtype) == (2, np.float64)
    assert responses.requires_grad


def test_frames():
    table = pd.DataFrame(X, columns=list("abc")).astype({"a": "Int64", "b": "float32"})
    table["c"] = pd.array(X[:, 2] != 0, dtype="boolean")
    problem = rs.LeastSquares(table, pd.DataFrame({"u": y, "v": y}), sample_weight=pd.Series([1, 2, 3, 4]))
    expected = np.column_stack([X[:, :2], X[:, 2] != 0]) * np.sqrt([[1], [2], [3], [4]])
    assert (expected == problem.X).all()
    assert problem.outputs == 2
    assert rs.LeastSquares(table, pd.Series(y)).outputs is None


@for_all(
    "features, error, message",
    [
        ([[1.0, np.nan]], ValueError, r"X must be finite, but X\[0, 1\] is nan; drop or impute such rows first"),
        ([[1.0, None]], ValueError, r"X must have no missing values, but X\[0, 1\] is None; impute them"),
        (pd.DataFrame({"a": pd.array([1, None], dtype="Int64")}), ValueError, r"X\[1, 0\] is nan; drop or impute"),
        (pd.DataFrame({"a": pd.array([True, None], dtype="boolean")}), ValueError, r"X\[1, 0\] is <NA>; impute"),
        ([[1.0, 2.0], [2.0, "blue"]], TypeError, r"dtype is .*: X\[1, 1\] is 'blue'; one-hot encode"),
        ([["1", "2"]], TypeError, r"its dtype is .*: X\[0, 0\] is '1'; .* convert text to numbers"),
        (pd.DataFrame({"a": [1, 2], "b": pd.Categorical(["u", "v"])}), TypeError,
         r"column 'b' does not; drop such columns, .*: X\[0, 1\] is 'u'; one-hot encode"),
        (np.array([[1, 2j], [3, 4]]), TypeError, r"complex128: X\[0, 1\] is 2j; take their real parts"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), TypeError, r"X\[0, 0\] is .*; convert times to numbers"),
        (np.array([[1.0, object()]], dtype=object), TypeError, r"dtype is object: X\[0, 1\] is <object"),
    ],
)  # fmt: skip
def test_entries_that_are_no_numbers_are_named(features, error, message):
    with pytest.raises(error, match=message):
        rs.LeastSquares(features, np.zeros(len(features)))
    with pytest.raises(error, match=message.replace("X\\[", "y\\[").replace("X must", "y must")):
        rs.LeastSquares(np.ones((len(features), 1)), features)


def test_sparse_features_that_do_not_fit():
    huge = scipy.sparse.coo_array(([1.0], ([0], [0])), shape=(10**7, 10**7))
    with pytest.raises(
        rs.BudgetError, match=r"X is stored dense, which takes 8e\+14 bytes for its shape \(1000"
    ):
        rs.LeastSquares(huge, np.zeros(10**7))


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
