"""When to stop: the epoch with the smallest risk."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._display import Displayed
from reshuffle._uncertainty import ErrorKind, significant, with_error
from reshuffle.recipe import Recipe
from reshuffle.run.stability import Stability

if TYPE_CHECKING:
    from reshuffle.run.trajectory import Risk

DECAYED = 1000.0
"""Logarithm of a decay that leaves nothing."""
_LAST_EPOCH = 2.0**53
_ROUNDING = 1e-12
"""Relative improvement of the risk that means nothing."""
_CONVERGED, _FARTHEST = 36.0, 1e6
"""Logarithm of a decay beyond which nothing moves, and the last epoch of a search by leave-one-out."""
LONGEST_SEARCH = 20_000
"""Epochs that are tried one by one."""
_PER_DECADE = 24
"""Epochs of a first search in every power of ten: errors are smooth in the logarithm of the epochs."""
_AT_ONCE = 48
"""Epochs of a finer search between two of them."""


@dataclass(frozen=True)
class BestEpoch(Displayed):
    """The best stopping time; of t outputs, that of each: arrays (t,) in place of numbers.

    Attributes
    ----------
    epoch : int or math.inf
        The epoch with the smallest risk of the mean iterate; inf if it is smallest in the limit.
    risk : float
        The total risk there.
    error : float
        How much smaller the risk may be at another epoch: 0 where all were tried, or no other valley of the curve
        can be as low, nan where nothing is known. Epochs beyond 2^53, which are not whole numbers in float64
        any more, are not searched.
    risk_error : float
        Error of the risk there because the mean over orders is not exact; the search compares risks as computed.
    error_kind : str
        Kind of the error: "exact", "bound", "confidence 99%" or "estimate".
    criterion : str
        "risk" if the truth is known, otherwise "leave-one-out": then `risk` is its mean square, noise included.
    standard_error : float
        The standard error of leave-one-out as an estimate of the test error.
    """

    _shown = ("epoch", "risk", "risk_error", "error", "error_kind", "criterion", "standard_error")

    epoch: float
    risk: float
    error: float
    risk_error: float = 0.0
    error_kind: ErrorKind = "exact"
    criterion: str = "risk"
    standard_error: float = 0.0

    def with_error_of(self, risk: "Callable[[FloatArray], Risk]") -> "BestEpoch":
        """A copy with the error of the risk at that epoch."""
        there = risk(np.asarray(float(self.epoch)))
        return replace(self, risk_error=float(there.error), error_kind=there.error_kind)

    def __repr__(self) -> str:
        if np.ndim(self.epoch):
            first, last = np.min(self.epoch), np.max(self.epoch)
            return f"BestEpoch(outputs={np.size(self.epoch)}, epoch from {first:g} to {last:g})"
        risk = with_error(self.risk, self.risk_error, self.error_kind)
        error = f", error={significant(self.error, 2)}" if self.error else ""
        if self.criterion == "leave-one-out":
            error = f" (standard error {significant(self.standard_error, 2)})"
        return f"BestEpoch(epoch={self.epoch:g}, {self.criterion}={risk}{error})"


def last_worth_trying(recipe: Recipe, stability: Stability | None) -> float:
    """Epoch by which a run with a constant step has converged, or overflowed; at most 1e6."""
    if stability is None:
        return min(recipe.horizon, float(LONGEST_SEARCH))
    decay_rate = abs(math.log(stability.rate)) if 0 < stability.rate < math.inf else math.inf
    return min(recipe.horizon, max(_CONVERGED / max(decay_rate, 1e-300), recipe.earliest + 1.0), _FARTHEST)


def epochs_to_search(first: int, last: float, has_limit: bool) -> FloatArray:
    """Whole numbers from the first to the last epoch, evenly spread in their logarithm; and infinity."""
    decades = max(1.0, math.log10(max(last, 1.0)))
    later = np.round(np.geomspace(1, max(last, 1.0), math.ceil(decades * _PER_DECADE)))
    when = np.unique(np.concatenate([[float(first)], later[(later >= first) & (later <= last)]]))
    return np.append(when, np.inf) if has_limit else when


def smallest(ask: Callable[[FloatArray], FloatArray], first: FloatArray) -> list[list[float]]:
    """Search for the smallest of some values at the first epochs (k,), then one by one around the best of them.

    `ask` takes epochs (k,) to (parts, k, t): for each of t outputs what is to be small, and what goes with it.
    Returns for each the best epoch, and the parts there.
    """
    when, found = first, ask(first)
    while True:
        places = np.argmin(found[0], axis=0)
        around = [when[max(best - 1, 0) : best + 2] for best in places]
        ends = [sides[np.isfinite(sides)] for sides in around]
        inside = [np.linspace(sides[0], sides[-1], _AT_ONCE) for sides in ends if len(sides)]
        between = np.setdiff1d(np.round(np.concatenate([np.zeros(0), *inside])), when)
        if not len(between):
            chosen = found[:, places, np.arange(len(places))]
            return [list(map(float, each)) for each in np.column_stack([when[places], *chosen])]
        when, found = np.append(when, between), np.concatenate([found, ask(between)], axis=1)
        order = np.argsort(when)
        when, found = when[order], found[:, order]


def by_leave_one_out(epoch: float, mean_square: float, standard_error: float, error: float) -> BestEpoch:
    """The best stopping time where the truth is not known."""
    whole = epoch if math.isinf(epoch) else int(epoch)
    kind: ErrorKind = "estimate" if error else "exact"
    return BestEpoch(whole, mean_square, math.nan, error, kind, "leave-one-out", standard_error)


def search_smooth(risk: Callable[[FloatArray], FloatArray], last: float, apart: int) -> BestEpoch:
    """The epoch with the smallest risk among all and infinity, if that of every `apart`-th is smooth.

    Epochs are tried in even steps of their logarithm up to the `last`, then one by one around the best. The error
    is by how much the risk may be smaller in another valley, as an estimate from second differences.
    """
    best, lowest = BestEpoch(math.inf, math.inf, 0.0), math.inf
    first = epochs_to_search(0, max(min(last, _LAST_EPOCH) / apart, _PER_DECADE), True)
    for offset in range(apart):

        def ask(numbers: FloatArray, offset: int = offset) -> FloatArray:
            return risk(apart * numbers + offset)[np.newaxis, :, np.newaxis]

        ((number, there),) = smallest(ask, first)
        if there < best.risk:
            epoch = apart * number + offset
            best = BestEpoch(epoch if math.isinf(epoch) else int(epoch), there, 0.0)
        values = ask(first[:-1]).ravel()
        inner, bends = values[1:-1], np.diff(values, 2)
        is_valley = (inner <= values[:-2]) & (inner <= values[2:]) & (inner > values.min())
        hides = is_valley & (first[2:-1] - first[:-3] > 2) & np.isfinite(bends)
        # The parabola through three points is lower than the middle one by no more.
        lowest = np.min((inner - bends / 8)[hides], initial=lowest)
    missed = best.risk - float(lowest)
    return replace(best, error=missed if missed > _ROUNDING * best.risk else 0.0)


def search_one_by_one(
    risks_at: Callable[[FloatArray], FloatArray],
    first: int,
    earlier: float,
    end: float,
    last: float,
    longest: float,
) -> BestEpoch:
    """Try epochs one by one until the risk is at its limit `end` (or nan) to twelve digits.

    `risks_at` is the risk at epochs (k,) from the `first` to the `last` there is. It may settle after the `earlier`
    ones; at most `longest` others are tried.
    """
    best, lowest, searched, is_over = first, math.inf, first, False
    while searched <= min(last, earlier + longest) and not is_over:
        stop = min(max(first + 64, 2 * searched), last + 1, earlier + longest + 1)
        risks = risks_at(np.arange(searched, stop))
        if risks.min() < lowest:
            best, lowest = searched + int(np.argmin(risks)), float(risks.min())
        late = risks[-32:]
        has_settled = bool((late == end).all()) or bool(np.allclose(late, end, 1e-12, 0.0))
        is_over, searched = has_settled and stop - len(late) >= earlier, int(stop)
    if end < lowest:
        return BestEpoch(math.inf, end, 0.0 if is_over else end)
    return BestEpoch(best, lowest, 0.0 if is_over or searched > last else lowest)
