"""Data at the door of an estimator: dense, of numbers, and without rows of no weight."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from reshuffle._core import FloatArray, IntArray, checks


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
    weights = checks.vector("sample_weight", sample_weight, n, "one weight per row of X")
    if (weights < 0).any():
        where = int(np.flatnonzero(weights < 0)[0])
        raise ValueError(
            f"sample_weight must be >= 0, but sample_weight[{where}] is {weights[where]}; "
            "drop such rows, or give them weight zero."
        )
    if not weights.any():
        raise ValueError("sample_weight must not be zero for all rows: then there is nothing to learn from.")
    return weights
