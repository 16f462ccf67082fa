"""The largest full-batch step for which the mean iterate converges, in the proportional limit."""

import math

import numpy as np
import scipy.optimize

from reshuffle.asymptotics import arguments
from reshuffle.asymptotics.laws.batch_law import BatchLaw
from reshuffle.asymptotics.laws.two_batch_law import TwoBatchLaw
from reshuffle.free.checks import ConvergenceError
from reshuffle.free.measure import edges

_STRIDE = 0.06
"""Relative distance of neighbouring steps at which the ends of the spectrum are looked at."""
_VISIBLE = 1e-9
"""Densities above this are not rounding."""
_ROUGH = 1e-7
"""Relative width of the bracket from which the square of the density leads to the crossing."""


def critical_alpha(aspect: float, batches: int) -> float:
    """The alpha at which the spectrum of alpha Z(alpha/B), frozen modes aside, first leaves (0, 2).

    For B = 1 it is 2 / (1 + aspect^(1/2))^2. For B = 2 the ends of the spectrum are those of the closed form.
    For more batches the density at 2, and at 0 if aspect < 1, is followed until it is first positive; beyond, its
    square grows linearly, which gives the crossing to about nine digits.

    Parameters
    ----------
    aspect : float > 0
    batches : int >= 1

    >>> critical_alpha(1.0, 1), round(critical_alpha(1.5, 2), 6)
    (0.5, 0.612366)
    """
    ratio, number = arguments.aspect(aspect), arguments.batches(batches)
    full_batch = 2 / (1 + math.sqrt(ratio)) ** 2
    if number == 1:
        return full_batch
    # With few parameters the spectrum is narrow, and leaves near 2B as fixed dimension has it.
    width = math.sqrt(number * ratio)
    start = max(full_batch, 2 * number * (1 - 8 * width))
    stride = 1 + min(_STRIDE, 0.3 * width)
    if number == 2:
        return _two_batches(ratio, start, stride)
    return _many_batches(ratio, number, start, stride)


def _two_batches(aspect: float, start: float, stride: float) -> float:
    def gaps(alpha: float) -> tuple[float, float]:
        support = TwoBatchLaw(aspect, alpha).support
        return support[0][0], 2 - support[-1][1]

    alpha = start
    while min(gaps(stride * alpha)) >= 0:
        alpha *= stride
    # At aspect 1 the lower end is zero on this side of the crossing: the smaller gap would be flat there.
    end = int(np.argmin(gaps(stride * alpha)))
    return float(scipy.optimize.brentq(lambda a: gaps(a)[end], alpha, stride * alpha, xtol=1e-15, rtol=1e-14))


def _many_batches(aspect: float, batches: int, start: float, stride: float) -> float:
    # With aspect >= 1 frozen modes sit at zero; the others have been found to leave at 2 first, for every B.
    ends = np.array([2.0] if aspect >= 1 else [0.0, 2.0])

    def density(alpha: float) -> float:
        return float(BatchLaw(aspect, alpha, batches).densities(ends)[0].max())

    low = start
    while not density(stride * low) > _VISIBLE:
        low *= stride
        if low > 4 * batches:
            raise ConvergenceError(
                f"the spectrum of {batches} batches was not seen to leave (0, 2) up to alpha = {low:.4g} at aspect"
                f" {aspect:g}, although fixed dimension ends at {2 * batches}"
            )
    width, high = (stride - 1) * low, stride * low
    while high - low > _ROUGH * high:
        middle = (low + high) / 2
        low, high = (low, middle) if density(middle) > _VISIBLE else (middle, high)
    found = edges.square_root_end(lambda points: np.array([density(a) for a in points]), high, width, high)
    if found is None:
        raise ConvergenceError(
            f"the spectrum of {batches} batches leaves (0, 2) between alpha = {low:.8g} and {high:.8g} at aspect"
            f" {aspect:g}, but not like a square root; use stability of learning_curve on both sides"
        )
    return found
