"""The data of an estimator: as they are given, checked; and as they are trained on, centred and scaled."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle.problem import LeastSquares
from reshuffle.problem.standardizer import Standardizer


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
    """Standardized rows and responses of a fit, and the weights of the rows relative to their mean."""

    X: FloatArray
    y: FloatArray
    standardizer: Standardizer
    weights: FloatArray | None
    is_centred: bool

    def problem(self) -> LeastSquares:
        """What is learned, a vector of responses if there is one output."""
        return LeastSquares(self.X, self.y, sample_weight=self.weights)


def centred(X: FloatArray, y: FloatArray, weights: FloatArray | None, centre: bool, scale: bool) -> Centred:
    """Centre X (n, p) and y (n, t) at their weighted means, and divide the columns of X by their deviations.

    Weights are taken relative to their mean, so that the gradient of all rows together is a weighted mean.
    """
    y = y[:, 0] if y.shape[1] == 1 else y
    made = Standardizer.identity(X.shape[1], None if y.ndim == 1 else y.shape[1])
    if centre or scale:
        made = Standardizer.of(X, y, centre=centre, scale=scale, weights=weights)
    relative = None if weights is None else weights / weights.mean()
    return Centred(made.rows(X), made.responses(y), made, relative, centre)
