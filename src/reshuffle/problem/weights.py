"""Rows that count more than others: a weight is the square of what a row and its response are multiplied by."""

from typing import Any

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import FloatArray


def checked_weights(value: Any, n: int) -> FloatArray:
    """Return weights (n,), finite and positive.

    >>> checked_weights([1, 0, 2], 3)
    Traceback (most recent call last):
    ...
    ValueError: sample_weight must be positive, but sample_weight[1] is 0.0; drop rows that do not count.
    """
    weights = _arrays.vector("sample_weight", value, n, "one entry per row of X")
    if weights.min() <= 0:
        where = int(np.argmax(weights <= 0))
        what = "drop rows that do not count" if weights[where] == 0 else "weights are precisions"
        raise ValueError(
            f"sample_weight must be positive, but sample_weight[{where}] is {weights[where]}; {what}."
        )
    return weights


def weighted(X: FloatArray, y: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The rows of X (n, p) and y (n,) or (n, t), multiplied by the roots of the weights."""
    roots = np.sqrt(weights)[:, np.newaxis]
    return X * roots, y * roots.reshape(-1, *[1] * (y.ndim - 1))
