"""Data as they are trained on: centred, scaled, and back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._arrays import FloatArray
from reshuffle.problem.least_squares import LeastSquares

_LARGEST = 1e100
_CHUNK = 1 << 22
"""Entries of X that are copied at a time."""
_CONSTANT = 1e-12
"""Standard deviations, relative to the size of a column, that are mere rounding."""


@dataclass(frozen=True, eq=False)
class PreparedData:
    """Features and responses that were centred and scaled, and what takes parameters back to the original units.

    Attributes
    ----------
    problem : LeastSquares
        (X - mean) / scale and y - response_mean.
    mean, scale : (p,)
    response_mean : float or (t,)
    is_centred : bool
        Whether the means were subtracted.
    """

    problem: LeastSquares
    mean: FloatArray
    scale: FloatArray
    response_mean: Any
    is_centred: bool = True

    def coefficients(self, parameters: FloatArray) -> tuple[FloatArray, Any]:
        """Parameters (p,) or (p, t) of the prepared problem as a coefficient per feature and an intercept."""
        scaled = parameters / (self.scale if parameters.ndim == 1 else self.scale[:, np.newaxis])
        return scaled, self.response_mean - self.mean @ scaled


def prepared(
    X: ArrayLike,
    y: ArrayLike,
    *,
    standardize: bool,
    intercept: bool,
    sample_weight: ArrayLike | None = None,
) -> PreparedData:
    """Return the data as they are trained on: columns of X with standard deviation 1, and all of them with mean 0.

    Both are weighted where rows have weights. A column that is constant is left as it is but for its mean, and so
    has no say.

    >>> rows = [[1.0, 10.0], [3.0, 30.0], [1.0, 10.0], [3.0, 30.0]]
    >>> data = prepared(rows, [1.0, 2.0, 3.0, 4.0], standardize=True, intercept=True)
    >>> data.problem.X[:2].tolist(), data.problem.y.tolist()
    ([[-1.0, -1.0], [1.0, 1.0]], [-1.5, -0.5, 0.5, 1.5])
    """
    given = LeastSquares(X, y)
    features, responses = given.X, given.y
    _require_squares("X", features)
    _require_squares("y", responses)
    _require_something_to_learn(features, responses, intercept)
    weights = LeastSquares(X, y, sample_weight=sample_weight).sample_weight
    mean = np.average(features, axis=0, weights=weights) if intercept else np.zeros(given.p)
    centre = np.average(responses, axis=0, weights=weights) if intercept else np.zeros(responses.shape[1:])
    scale = np.ones(given.p)
    if standardize:
        middle = np.average(features, axis=0, weights=weights)
        spread = np.sqrt(_mean_squares(features, middle, weights))
        largest = np.maximum(features.max(axis=0), -features.min(axis=0))
        scale = np.where(spread > _CONSTANT * largest, spread, 1.0)
    if intercept or standardize:
        features = features - mean
        features /= scale
    problem = LeastSquares(features, responses - centre, sample_weight=weights)
    return PreparedData(problem, mean, scale, centre, intercept)


def _mean_squares(features: FloatArray, middle: FloatArray, weights: FloatArray | None) -> FloatArray:
    """The mean of (x - middle)^2 over rows, weighted if they are, (p,): some rows at a time, which are copied."""
    total = np.zeros(features.shape[1])
    height = max(1, _CHUNK // max(1, features.shape[1]))
    for start in range(0, len(features), height):
        part = slice(start, start + height)
        squares = np.square(features[part] - middle)
        total += squares.sum(axis=0) if weights is None else weights[part] @ squares
    return np.asarray(total / (len(features) if weights is None else weights.sum()))


def as_posed(problem: LeastSquares) -> PreparedData:
    """A problem that is trained on as it stands.

    >>> as_posed(LeastSquares([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0])).scale
    array([1.])
    """
    _require_squares("X", problem.X)
    _require_squares("y", problem.y)
    _require_something_to_learn(problem.X, problem.y, intercept=False)
    nothing = np.zeros(problem.y.shape[1:])
    return PreparedData(problem, np.zeros(problem.p), np.ones(problem.p), nothing, is_centred=False)


def _require_squares(name: str, columns: FloatArray) -> None:
    """Refuse numbers whose squares are none."""
    largest = max(float(columns.max(initial=0.0)), -float(columns.min(initial=0.0)))
    if largest > _LARGEST:
        raise ValueError(
            f"{name} must have entries of at most {_LARGEST:g}, so that sums of their squares are numbers, "
            f"but one is {largest:.3g}; rescale {name}."
        )


def _require_something_to_learn(X: FloatArray, y: FloatArray, intercept: bool) -> None:
    if len(X) < 3:
        raise ValueError(
            f"X must have at least 3 rows to leave one out and learn from the others, but it has {len(X)}."
        )
    constant = np.atleast_1d(np.ptp(y, axis=0) == 0)
    if constant.any():
        which = "y" if y.ndim == 1 else f"y[:, {int(np.argmax(constant))}]"
        value = float(np.atleast_2d(y.T)[int(np.argmax(constant)), 0])
        raise ValueError(
            f"{which} must not be the same for all rows, but it is {value:g} everywhere: nothing is to be learned; "
            "check that it is the right column, or drop it."
        )
    if intercept and not np.ptp(X, axis=0).any():
        raise ValueError(
            "X must have a column that is not constant, but all of them are; check the features."
        )
    if not X.any():
        raise ValueError("X must have an entry that is not zero, but all of them are; check the features.")
