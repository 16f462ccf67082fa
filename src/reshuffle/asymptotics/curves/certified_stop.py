"""The best epoch of a curve that is known at every epoch, together with a bound on how much it bends in between."""

import math
from collections.abc import Callable

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.run.stopping import BestEpoch

_TOLERANCE = 1e-11
"""Relative improvement of the risk that is not worth looking for."""
_INTERVALS = 200_000
"""That are looked at before the search ends and reports what is still open."""
_TOGETHER = 256

Curve = Callable[[FloatArray], FloatArray]
"""The risk at epochs (k,)."""
Bend = Callable[[FloatArray, FloatArray], FloatArray]
"""A bound of the second derivative of the risk between pairs of epochs, (k,) and (k,)."""


def best_epoch(risk: Curve, bend: Bend, last: float, after: float) -> BestEpoch:
    """Minimise a smooth curve over the epochs 0, 1, ..., last, by branch and bound.

    Between two epochs a < b the curve lies above the chord less (b - a)^2 / 8 times the bound of its second
    derivative. Intervals that stay above the smallest risk seen are dropped, the others are halved until single
    epochs are left.

    Parameters
    ----------
    risk, bend : callables
    last : float
        A power of two, after which nothing but `after` is left.
    after : float
        The risk in the limit; inf if what comes after the last epoch is no better, nan if it is not known.
    """
    doublings = 2.0 ** np.arange(0, round(math.log2(last)) + 1)
    ends = np.concatenate([[0.0], doublings])
    values = risk(ends)
    best, lowest = float(ends[values.argmin()]), float(values.min())
    low, high, first, second = ends[:-1], ends[1:], values[:-1], values[1:]
    looked_at, missed = 0, 0.0
    while len(low):
        bounds = np.minimum(first, second) - _in_parts(bend, low, high) * (high - low) ** 2 / 8
        bounds = np.where(np.isnan(bounds), -np.inf, bounds)
        open_ = (bounds < lowest * (1 - _TOLERANCE)) & (high - low > 1)
        looked_at += len(low)
        if looked_at > _INTERVALS:
            missed = lowest - max(0.0, float(bounds[open_].min(initial=lowest)))
            break
        low, high, first, second = low[open_], high[open_], first[open_], second[open_]
        middle = np.floor((low + high) / 2)
        if not len(middle):
            break
        between = risk(middle)
        if between.min() < lowest:
            best, lowest = float(middle[between.argmin()]), float(between.min())
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        first, second = np.concatenate([first, between]), np.concatenate([between, second])
    if after <= lowest:
        return BestEpoch(math.inf, after, missed)
    return BestEpoch(int(best), lowest, math.nan if math.isnan(after) else missed)


def _in_parts(bend: Bend, low: FloatArray, high: FloatArray) -> FloatArray:
    starts = range(0, len(low), _TOGETHER)
    parts = [bend(low[start : start + _TOGETHER], high[start : start + _TOGETHER]) for start in starts]
    return np.concatenate(parts)
