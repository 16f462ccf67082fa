"""The data of an estimator: as they are given, checked; and as they are trained on, centred and scaled."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from reshuffle import _arrays
from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle.problem import LeastSquares


@dataclass(frozen=True, eq=False)
class Data:
    """Rows (n, p), responses (n, t), weights (n,) or None; and whether the responses came as a vector."""

    rows: FloatArray
    responses: FloatArray
    weights: FloatArray | None
    is_vector: bool

    def part(self, chosen: IntArray) -> "Data":
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[chosen]
        return Data(self.rows[chosen], self.responses[chosen], weights, self.is_vector)


def checked_data(estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None, least: int) -> Data:
    """Check what was given to `fit`, all rows included, and leave on the estimator what it says of its columns."""
    X, y = validate_data(
        estimator, X, y, accept_sparse="csr", dtype=np.float64, multi_output=True, y_numeric=True,
        ensure_min_samples=least,
    )  # fmt: skip
    responses = np.asarray(y, dtype=np.float64)
    is_vector = responses.ndim == 1
    weights = None if sample_weight is None else checked_weights(sample_weight, X.shape[0])
    return Data(dense(X), responses[:, np.newaxis] if is_vector else responses, weights, is_vector)


def with_weight(data: Data, least: int) -> Data:
    """Only the rows that have weight, if there are enough of them."""
    if data.weights is None:
        return data
    kept = np.flatnonzero(data.weights)
    if len(kept) < least:
        raise ValueError(
            f"sample_weight must be above zero for at least {least} rows, but it is for {len(kept)}: "
            "with fit_intercept=True one row alone is its own mean."
        )
    return data.part(kept)


def checked_rows(estimator: Any, X: Any) -> FloatArray:
    """Check what was given to `predict`."""
    return dense(validate_data(estimator, X, reset=False, accept_sparse="csr", dtype=np.float64))


def dense(X: Any) -> FloatArray:
    """An array, of a sparse matrix too."""
    is_sparse = scipy.sparse.issparse(X)
    return np.asarray(X.toarray() if is_sparse else X)


def checked_weights(sample_weight: Any, n: int) -> FloatArray:
    """Weights (n,), finite, none below zero and not all of them zero.

    >>> checked_weights([1, -1], 2)
    Traceback (most recent call last):
    ...
    ValueError: sample_weight must be >= 0, but sample_weight[1] is -1.0; drop such rows, or give them weight zero.
    """
    weights = _arrays.vector("sample_weight", sample_weight, n, "one weight per row of X")
    if (weights < 0).any():
        where = int(np.flatnonzero(weights < 0)[0])
        raise ValueError(
            f"sample_weight must be >= 0, but sample_weight[{where}] is {weights[where]}; "
            "drop such rows, or give them weight zero."
        )
    if not weights.any():
        raise ValueError("sample_weight must not be zero for all rows: then there is nothing to learn from.")
    return weights


@dataclass(frozen=True, eq=False)
class Centred:
    """The data of a fit in the units of training.

    Attributes
    ----------
    X : (n, p)
        Features less their weighted mean, over their scale.
    y : (n, t)
        Responses less their weighted mean.
    X_mean, X_scale : (p,)
    y_mean : (t,)
    weights : (n,) or None
        Relative to their mean.
    is_centred : bool
    """

    X: FloatArray
    y: FloatArray
    X_mean: FloatArray
    X_scale: FloatArray
    y_mean: FloatArray
    weights: FloatArray | None
    is_centred: bool

    def problem(self) -> LeastSquares:
        """What is learned, a vector of responses if there is one output."""
        y = self.y[:, 0] if self.y.shape[1] == 1 else self.y
        return LeastSquares(self.X, y, sample_weight=self.weights)

    def coefficients(self, parameters: FloatArray) -> FloatArray:
        """Parameters (..., t, p) of training in the units of the data."""
        with np.errstate(over="ignore"):
            return np.asarray(parameters / self.X_scale)

    def intercepts(self, coefficients: FloatArray) -> FloatArray:
        """y_mean - coefficients X_mean, (..., t); inf where coefficients are beyond the range of numbers."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.y_mean - coefficients @ self.X_mean
        return np.where(np.isfinite(coefficients).all(axis=-1), found, np.inf)

    def rows(self, X_new: FloatArray) -> FloatArray:
        """New rows (m, p) as training would see them."""
        return np.asarray((X_new - self.X_mean) / self.X_scale)


def centred(X: FloatArray, y: FloatArray, weights: FloatArray | None, centre: bool, scale: bool) -> Centred:
    """Centre X (n, p) and y (n, t) at their weighted means, and divide the columns of X by their deviations.

    Weights are taken relative to their mean, so that the gradient of all rows together is a weighted mean. A column
    that is constant up to rounding is not scaled, and is exactly zero once it is centred.

    >>> made = centred(np.array([[1.0], [3.0]]), np.array([[0.0], [4.0]]), np.array([1.0, 3.0]), True, False)
    >>> made.X_mean, made.y_mean, made.X.ravel(), made.weights
    (array([2.5]), array([3.]), array([-1.5,  0.5]), array([0.5, 1.5]))
    """
    p, t = X.shape[1], y.shape[1]
    X_mean, X_scale, y_mean = np.zeros(p), np.ones(p), np.zeros(t)
    if centre or scale:
        mean = np.average(X, axis=0, weights=weights)
        deviation = np.sqrt(np.average(np.square(X - mean), axis=0, weights=weights))
        is_constant = is_constant_column(deviation, mean, len(X))
        X_scale = np.where(is_constant | (not scale), 1.0, deviation)
    if centre:
        X_mean, y_mean = mean, np.average(y, axis=0, weights=weights)
        X, y = X - X_mean, y - y_mean
        # The rounding of a large mean is a trace of one more direction, which columns that vary little would show.
        X -= np.average(X, axis=0, weights=weights)
        X[:, is_constant] = 0.0
    relative = None if weights is None else weights / weights.mean()
    return Centred(X / X_scale, y, X_mean, X_scale, y_mean, relative, centre)


def is_constant_column(deviation: FloatArray, mean: FloatArray, n: int) -> BoolArray:
    """Whether the rounding of n sums explains a deviation: scikit-learn's StandardScaler has the same bound."""
    rounding = n * np.finfo(np.float64).eps
    return np.asarray(np.square(deviation) * (1 - rounding) <= np.square(rounding * mean))
