"""When to stop: the epoch with the smallest risk, with proof."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reshuffle.arrays import FloatArray
from reshuffle.risk import QuadraticForm, RiskForms

_Motion = Callable[[FloatArray], tuple[FloatArray, FloatArray]]

_TOLERANCE = 1e-12
"""Relative improvement of the risk that is not worth looking for."""
_BUDGET = 1 << 27
"""Entries of (intervals, modes) arrays after which the search stops and reports what is still open."""
_LAST_EPOCH = 2.0**53


@dataclass(frozen=True)
class BestEpoch:
    """The best stopping time.

    Attributes
    ----------
    epoch : int or math.inf
        Where the risk of the mean iterate is smallest; inf if it is smallest in the limit.
    risk : float
        The total risk there.
    error : float
        How much smaller the risk could at most be at any other epoch: within rounding of 0 when the search
        was exhaustive.
    """

    epoch: float
    risk: float
    error: float

    def __repr__(self) -> str:
        return f"BestEpoch(epoch={self.epoch:g}, risk={self.risk:.6g})"


def best_epoch(motion: _Motion, forms: RiskForms, rates: FloatArray, repeats: int) -> BestEpoch:
    """Minimise the risk over all epochs 0, 1, 2, ... and infinity, by branch and bound.

    Between two epochs every mode stays between its values there (up to sign, when 1 - x is negative), and a
    convex quadratic form on a box lies above its tangent plane: intervals whose bound exceeds the best risk seen
    cannot hold the minimum and are dropped, the others are halved until single epochs are left.
    """
    ends = _grid(rates, repeats)
    risks = _total(motion, forms, ends)
    best = int(np.argmin(risks))
    epoch, risk = float(ends[best]), float(risks[best])
    low, high = ends[:-1], ends[1:]
    spent, error = 0, 0.0
    while len(low):
        bounds = _lower_bounds(motion, forms, rates, repeats, low, high)
        open_ = (bounds < risk * (1 - _TOLERANCE)) & (high - low > 1)
        low, high, bounds = low[open_], high[open_], bounds[open_]
        spent += len(low) * max(1, len(rates))
        if spent > _BUDGET:
            error = risk - float(bounds.min())
            break
        middle = np.where(np.isinf(high), 2 * np.maximum(low, 1), np.floor((low + high) / 2))
        ends_here = middle >= _LAST_EPOCH
        low, high, middle = low[~ends_here], high[~ends_here], middle[~ends_here]
        if not len(middle):
            break
        risks = _total(motion, forms, middle)
        if risks.min() < risk:
            epoch, risk = float(middle[np.argmin(risks)]), float(risks.min())
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return BestEpoch(epoch if math.isinf(epoch) else int(epoch), risk, max(error, 0.0))


def _grid(rates: FloatArray, repeats: int) -> FloatArray:
    """Epochs from 0 to infinity, twice as far each time, until the slowest mode has settled or overflowed."""
    with np.errstate(divide="ignore"):
        slowness = np.abs(np.log1p(-np.minimum(np.abs(rates[rates != 0]), 0.5))).min(initial=1.0)
    last = min(1000 / (repeats * max(float(slowness), 1e-300)), _LAST_EPOCH)
    doublings = 2.0 ** np.arange(0, math.ceil(math.log2(max(last, 2))) + 1)
    return np.concatenate([[0.0], doublings, [np.inf]])


def _total(motion: _Motion, forms: RiskForms, epochs: FloatArray) -> FloatArray:
    frozen, bias, cross, variance = forms.parts(*motion(epochs))
    infinite = np.isinf(bias) | np.isinf(variance)
    return np.asarray(frozen + bias + np.where(infinite, 0.0, cross) + variance)


def _lower_bounds(
    motion: _Motion, forms: RiskForms, rates: FloatArray, repeats: int, low: FloatArray, high: FloatArray
) -> FloatArray:
    """A number below the risk at every epoch from low to high, for each interval."""
    starts, ends = motion(low), motion(high)
    # With 1 - x < 0 an even number of steps keeps the sign; an odd one alternates between the two envelopes.
    alternates = (rates > 1) & (repeats % 2 == 1)
    boxes = []
    for start, end, centre in zip(
        starts, ends, (np.zeros_like(rates), 1 / np.where(rates == 0, 1, rates)), strict=True
    ):
        reach = np.maximum(np.abs(start - centre), np.abs(end - centre))
        lower = np.where(alternates, centre - reach, np.minimum(start, end))
        upper = np.where(alternates, centre + reach, np.maximum(start, end))
        boxes.append((lower, upper))
    bias = _form_bound(forms.bias, *boxes[0])
    variance = _form_bound(forms.variance, *boxes[1])
    with np.errstate(invalid="ignore"):
        ends_of_cross = [np.where(forms.cross == 0, 0.0, side * forms.cross) for side in boxes[0]]
    cross = np.minimum(*ends_of_cross).sum(axis=-1)
    with np.errstate(invalid="ignore"):
        total = forms.frozen + bias + cross + variance
    return np.where(np.isnan(total), -np.inf, np.maximum(total, 0.0))


def _form_bound(form: QuadraticForm, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """The tangent at the point of each box that is nearest to zero, minimised over the box."""
    nearest = np.clip(0.0, lower, upper)
    nearest = np.where(np.isfinite(nearest), nearest, 0.0)
    slope = 2 * form.gradient(nearest)
    with np.errstate(invalid="ignore"):
        change = np.minimum(
            np.where(slope == 0, 0.0, slope * (lower - nearest)),
            np.where(slope == 0, 0.0, slope * (upper - nearest)),
        )
    return np.asarray(form(nearest) + change.sum(axis=-1))
