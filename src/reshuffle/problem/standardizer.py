"""Centring and scaling of the rows before training, and the way back to coefficients of the original columns."""

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray

_ROUNDING = float(np.finfo(np.float64).eps)
"""A column of n entries is constant if its deviation is at most n times this times its mean: the bound of
scikit-learn's StandardScaler, which the rounding of n sums explains."""
_CHUNK = 1 << 18
"""Entries of X that are copied at a time."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Sum of the weights of some rows, weighted means and standard deviations of their columns.

    A mean is `mean + remainder`: a deviation may be smaller than the rounding of a large mean. Squares are taken in
    units of the largest entry, so that they neither overflow nor underflow.
    """

    total: float
    mean: FloatArray
    remainder: FloatArray
    deviation: FloatArray
    response_mean: Any

    @classmethod
    def of(cls, X: FloatArray, y: FloatArray, weights: FloatArray | None = None) -> "Moments":
        """Moments of rows X (n, p) with responses (n,) or (n, t) and positive weights (n,)."""
        weights = np.ones(len(X)) if weights is None else weights
        total = float(weights.sum())
        size = np.ldexp(1.0, np.frexp(np.maximum(X.max(axis=0), -X.min(axis=0)))[1] - 1)
        unit = X / size
        mean = weights @ unit / total
        unit -= mean
        remainder = weights @ unit / total
        unit -= remainder
        deviation = np.sqrt(weights @ np.square(unit, out=unit) / total)
        return cls(total, size * mean, size * remainder, size * deviation, weights @ y / total)

    def merged(self, other: "Moments") -> "Moments":
        """Moments of both sets of rows together."""
        total = self.total + other.total
        share = other.total / total
        apart = (other.mean - self.mean) + (other.remainder - self.remainder)
        within = np.hypot(np.sqrt(1 - share) * self.deviation, np.sqrt(share) * other.deviation)
        deviation = np.hypot(within, np.sqrt(share * (1 - share)) * apart)
        shift = self.remainder + share * apart
        mean = self.mean + shift
        response_mean = self.response_mean + share * (other.response_mean - self.response_mean)
        return Moments(total, mean, shift - (mean - self.mean), deviation, response_mean)


@dataclass(frozen=True, eq=False)
class Standardizer:
    """Affine map of rows and responses: (X - mean) / scale and y - response_mean.

    >>> rows, responses = np.array([[1.0, 5.0], [3.0, 5.0]]), np.array([0.0, 4.0])
    >>> made = Standardizer.of(rows, responses)
    >>> made.rows(rows).tolist(), made.responses(responses).tolist(), made.constant.tolist()
    ([[-1.0, 0.0], [1.0, 0.0]], [-2.0, 2.0], [False, True])
    >>> made.coefficients(np.array([2.0, 0.0]))
    (array([2., 0.]), np.float64(-2.0))
    """

    mean: FloatArray  # (p,): weighted means of the columns; zero if they are not centred
    scale: FloatArray  # (p,): weighted deviations; one for constant columns, or if columns are not scaled
    response_mean: Any  # number or (t,)
    constant: BoolArray  # (p,): columns that are constant up to rounding, exactly zero once they are centred
    remainder: FloatArray | float = 0.0  # (p,): the part of the mean that `mean` is too coarse for

    @classmethod
    def of(
        cls,
        X: FloatArray,
        y: FloatArray | None = None,
        *,
        centre: bool = True,
        scale: bool = True,
        weights: FloatArray | None = None,
    ) -> "Standardizer":
        """Standardizer of rows X (n, p) and responses (n,) or (n, t), with positive weights (n,) if given."""
        y = np.zeros(len(X)) if y is None else y
        height = max(1, _CHUNK // max(1, X.shape[1]))
        parts = [slice(start, start + height) for start in range(0, len(X), height)]
        moments = (Moments.of(X[part], y[part], None if weights is None else weights[part]) for part in parts)
        return cls.of_moments(reduce(Moments.merged, moments), len(X), centre=centre, scale=scale)

    @classmethod
    def of_moments(
        cls, moments: Moments, n: int, *, centre: bool = True, scale: bool = True
    ) -> "Standardizer":
        """Standardizer of n rows with these moments."""
        rounding = n * _ROUNDING
        constant = moments.deviation * np.sqrt(1 - rounding) <= rounding * np.abs(moments.mean)
        scales = np.where(constant | (not scale), 1.0, moments.deviation)
        if centre:
            return cls(moments.mean, scales, moments.response_mean, constant, moments.remainder)
        return cls(np.zeros(len(scales)), scales, 0.0 * moments.response_mean, constant)

    @classmethod
    def identity(cls, p: int, outputs: int | None = None) -> "Standardizer":
        """Standardizer that changes nothing."""
        response_mean = 0.0 if outputs is None else np.zeros(outputs)
        return cls(np.zeros(p), np.ones(p), response_mean, np.zeros(p, dtype=bool))

    def rows(self, X: FloatArray) -> FloatArray:
        """Rows (m, p), centred and scaled; a new array."""
        made = X - self.mean
        made -= self.remainder
        made /= self.scale
        made[:, self.constant & (self.mean != 0)] = 0.0
        return made

    def responses(self, y: FloatArray) -> FloatArray:
        """Responses (m,) or (m, t), centred."""
        return np.asarray(y - self.response_mean)

    def coefficients(self, parameters: FloatArray) -> tuple[FloatArray, Any]:
        """Coefficients and intercepts for the original columns; intercepts are inf where coefficients overflow.

        Parameters (..., p) have intercepts (...); those of t outputs, (..., p, t), have (..., t).
        """
        several = np.ndim(self.response_mean) > 0
        with np.errstate(over="ignore", invalid="ignore"):
            found = parameters / (self.scale[:, np.newaxis] if several else self.scale)
            rows = found.swapaxes(-1, -2) if several else found
            intercept = self.response_mean - rows @ self.mean
        return found, np.where(np.isfinite(rows).all(axis=-1), intercept, np.inf)[()]
