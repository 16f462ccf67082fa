"""Rows of a stream as they are learned from: centred and scaled, with means that one more pass finds."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from reshuffle._core import BoolArray, FloatArray
from reshuffle.problem.weights import weighted

Pair: TypeAlias = tuple[FloatArray, FloatArray]
"""X (m, p) and y (m,) or (m, t)."""


def as_weighted(X: FloatArray, y: FloatArray, weights: FloatArray | None) -> Pair:
    """Rows multiplied by the roots of their weights, if they have any."""
    return (X, y) if weights is None else weighted(X, y, weights)


@dataclass(frozen=True, eq=False)
class Preparation:
    """What is subtracted from features and responses, and what features are divided by.

    Attributes
    ----------
    X_mean, X_scale : (p,)
    y_mean : (t,)
    is_constant : (p,)
        Which columns hold but one number, and are exactly zero once it is subtracted.
    """

    X_mean: FloatArray
    X_scale: FloatArray
    y_mean: FloatArray
    is_constant: BoolArray

    def __call__(self, X: FloatArray, y: FloatArray, weights: FloatArray | None) -> Pair:
        """Prepared rows, weighted."""
        features = (X - self.X_mean) / self.X_scale
        features[:, self.is_constant] = 0.0
        return as_weighted(features, y - (self.y_mean[0] if y.ndim == 1 else self.y_mean), weights)


def with_weights(X: FloatArray, y: FloatArray, weights: FloatArray | None) -> Pair:
    """Rows as they are, with their weights as one more column of the responses."""
    column = np.ones(len(X)) if weights is None else weights
    return X, np.column_stack([y, column])


@dataclass(frozen=True, eq=False)
class Moments:
    """The sum of the weights of rows, the weighted means of their columns, and the squares around these.

    >>> first, second = (Moments.of(np.full((1, 1), x), np.array([[0.0, 1.0]])) for x in (1.0, 3.0))
    >>> both = first.merged(second)
    >>> both.X_mean, both.X_squares
    (array([2.]), array([2.]))
    """

    total: float
    X_mean: FloatArray
    X_squares: FloatArray
    y_mean: FloatArray

    @classmethod
    def of(cls, X: FloatArray, responses: FloatArray) -> "Moments":
        """Those of some rows, whose weights are the last column of the responses."""
        weights = responses[:, -1]
        mean = np.average(X, axis=0, weights=weights)
        squares = weights @ np.square(X - mean)
        return cls(
            float(weights.sum()), mean, squares, np.average(responses[:, :-1], axis=0, weights=weights)
        )

    def merged(self, other: "Moments") -> "Moments":
        """Those of both together."""
        total = self.total + other.total
        share, apart = other.total / total, other.X_mean - self.X_mean
        return Moments(
            total,
            self.X_mean + share * apart,
            self.X_squares + other.X_squares + self.total * share * np.square(apart),
            self.y_mean + share * (other.y_mean - self.y_mean),
        )
