"""Rows as they are trained on, centred and scaled, and the way back to the units of the data."""

from dataclasses import dataclass

import numpy as np

from reshuffle._core import BoolArray, FloatArray
from reshuffle.problem import LeastSquares


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
