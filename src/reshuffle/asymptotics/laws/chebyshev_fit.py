"""Smooth functions on an interval as Chebyshev series, from as few samples as they need."""

from collections.abc import Callable

import numpy as np
import scipy.fft

from reshuffle._core.arrays import FloatArray
from reshuffle.free.checks import ConvergenceError

_FIRST = 16
_LARGEST = 16 * 3**6
_NOISE = 1e-8
"""Coefficients below this that stop falling are the rounding of the values."""


def points(count: int, low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """The points x = middle - half cos(angle) at equal angles, and the sines of the angles, (count,).

    >>> points(2, 0.0, 1.0)[0].round(4)
    array([0.1464, 0.8536])
    """
    angles = (np.arange(count) + 0.5) * np.pi / count
    # Twice the square of a sine: the distance from an end keeps its digits however small it is.
    x = np.where(
        angles < np.pi / 2,
        low + (high - low) * np.sin(angles / 2) ** 2,
        high - (high - low) * np.cos(angles / 2) ** 2,
    )
    return x, np.sin(angles)


def fit(
    function: Callable[[FloatArray, FloatArray], FloatArray], low: float, high: float, tolerance: float
) -> FloatArray:
    """The Chebyshev coefficients (rows, degrees) of several functions on [low, high] at once.

    Three times as many points are taken, the old ones among them, until the last coefficients of each row fall
    below `tolerance` of its largest, or stop falling at the level of the values' own rounding.

    Parameters
    ----------
    function : callable
        Points (n,) and the sines of their angles (n,) -> values (rows, n).

    >>> fit(lambda x, sine: x[np.newaxis] ** 2, 0.0, 1.0, 1e-12).round(6)[0, :3]
    array([0.375, 0.5  , 0.125])
    """
    values, last = function(*points(_FIRST, low, high)), np.inf
    while True:
        count = values.shape[1]
        coefficients = _coefficients(values)
        tails = np.abs(coefficients[:, -count // 4 :]).max(axis=1) / np.abs(coefficients).max(axis=1)
        tail = float(tails.max())
        stalled = tail < _NOISE and tail > 0.3 * last
        if tail <= tolerance or stalled:
            return coefficients
        if not count < _LARGEST:
            raise ConvergenceError(
                f"a density on [{low:.6g}, {high:.6g}] is not resolved by {count} points (the last of its"
                f" coefficients is {tail:.1g} of the first): it is nearly singular there, or the end of an"
                " interval was missed"
            )
        values, last = _refined(function, values, low, high), tail


def _coefficients(values: FloatArray) -> FloatArray:
    # cos(angle) falls from left to right, so that the odd coefficients change sign.
    raw = scipy.fft.dct(values, type=2, axis=1) / values.shape[1]
    raw[:, 0] /= 2
    raw[:, 1::2] *= -1
    return np.asarray(raw)


def _refined(
    function: Callable[[FloatArray, FloatArray], FloatArray], values: FloatArray, low: float, high: float
) -> FloatArray:
    count = values.shape[1]
    x, sines = points(3 * count, low, high)
    fresh = np.arange(3 * count) % 3 != 1
    finer = np.empty((len(values), 3 * count))
    finer[:, 1::3] = values
    finer[:, fresh] = function(x[fresh], sines[fresh])
    return finer


def evaluate(coefficients: FloatArray, x: FloatArray, low: float, high: float) -> FloatArray:
    """The series at x (n,), as (rows, n)."""
    unit = np.clip((2 * x - low - high) / (high - low), -1.0, 1.0)
    return np.asarray(np.polynomial.chebyshev.chebval(unit, coefficients.T))
