"""When to stop: the epoch with the smallest risk, with proof."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray
from reshuffle._display import Displayed
from reshuffle._uncertainty import ErrorKind, significant, with_error
from reshuffle.recipe import Recipe
from reshuffle.run.stability import Stability

if TYPE_CHECKING:
    from reshuffle.run.modes import QuadraticForm, RiskForms
    from reshuffle.run.trajectory import Risk
    from reshuffle.validation import LeaveOneOut

_Motion = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Decay and drift (epochs, r) of each mode after some epochs."""

_TOLERANCE = 1e-12
"""Relative improvement of the risk that is not searched for."""
_BUDGET = 1 << 27
"""Work, in entries of (intervals, modes) arrays, after which the search stops and reports what is still open."""
_LAST_EPOCH = 2.0**53
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
        A bound on how much smaller the risk is at any other epoch: 0 when the search was exhaustive, nan where
        nothing is proven. Epochs beyond 2^53, which are not whole numbers in float64 any more, are not searched.
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
        if self.standard_error:
            error = f" (standard error {significant(self.standard_error, 2)})"
            return f"BestEpoch(epoch={self.epoch:g}, {self.criterion}={risk}{error})"
        open_ = f", error={significant(self.error, 2)} (bound)" if self.error else ""
        return f"BestEpoch(epoch={self.epoch:g}, risk={risk}{open_})"


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


def smallest(ask: Callable[[FloatArray], "LeaveOneOut"], first: FloatArray) -> list[list[float]]:
    """Search for the smallest mean square at the first epochs (k,), then around the best of them.

    `ask` takes epochs (k,) to leave-one-out. Of each output: the best epoch, and there the mean square, its
    standard error and its error.
    """
    when, found = np.zeros(0), np.zeros((3, 0, 1))
    between = first
    while len(between):
        given = ask(between)
        parts = np.stack([given.mean_square, given.standard_error, given.error]).reshape(3, len(between), -1)
        together = np.concatenate([np.broadcast_to(found, (3, len(when), parts.shape[2])), parts], axis=1)
        when, places = np.unique(np.concatenate([when, given.epochs]), return_index=True)
        found = together[:, places]
        around = [when[max(best - 1, 0) : best + 2] for best in np.argmin(found[0], axis=0)]
        ends = [sides[np.isfinite(sides)] for sides in around]
        inside = [np.linspace(sides[0], sides[-1], _AT_ONCE) for sides in ends if len(sides)]
        between = np.setdiff1d(np.round(np.concatenate([np.zeros(0), *inside])), when)
    places = np.argmin(found[0], axis=0)
    chosen = found[:, places, np.arange(found.shape[2])]
    return [list(map(float, each)) for each in np.column_stack([when[places], *chosen])]


def by_leave_one_out(epoch: float, mean_square: float, standard_error: float, error: float) -> BestEpoch:
    """The best stopping time where the truth is not known."""
    whole = epoch if math.isinf(epoch) else int(epoch)
    kind: ErrorKind = "estimate" if error else "exact"
    return BestEpoch(whole, mean_square, math.nan, error, kind, "leave-one-out", standard_error)


def best_epoch(motion: _Motion, forms: "RiskForms", decay_rates: FloatArray, repeats: int) -> BestEpoch:
    """Minimise the risk over all epochs 0, 1, 2, ... and infinity, by branch and bound.

    Between two epochs every mode stays between its values there (even and odd epochs apart, when some 1 - x are
    negative), and a convex quadratic form on a box lies above its tangent plane: intervals whose bound exceeds
    the best risk seen cannot hold the minimum and are dropped, the others are halved until single epochs are left.
    """
    alternates = (decay_rates > 1) & (repeats % 2 == 1)
    signs = (1.0, -1.0) if alternates.any() else (1.0,)
    epoch, risk, error, spent = 0.0, math.inf, 0.0, 0

    def moved(epochs: FloatArray) -> FloatArray:
        """Decay and drift (2, epochs, r); the best of these epochs is remembered."""
        nonlocal epoch, risk
        there = np.array(motion(epochs))
        risks = forms.risk(epochs, *there).total
        best = int(np.argmin(risks))
        if risks[best] < risk:
            epoch, risk = float(epochs[best]), float(risks[best])
        return there

    # Epochs twice as far each time, until the slowest mode has converged or overflowed. The modes at each end
    # are stored: an interval is bounded many times, its ends move once.
    slowest = np.abs(np.log1p(-np.minimum(np.abs(decay_rates[decay_rates != 0]), 0.5))).min(initial=1.0)
    last = min(1000 / (repeats * max(float(slowest), 1e-300)), _LAST_EPOCH)
    ends = np.r_[0.0, 2.0 ** np.arange(math.ceil(math.log2(max(last, 2))) + 1), np.inf]
    moves = moved(ends)
    low, high, start, end = ends[:-1], ends[1:], moves[:, :-1], moves[:, 1:]
    while len(low):
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            boxes = [_boxes(start, end, decay_rates, alternates, sign) for sign in signs]
            bounds = np.min([_lower_bounds(forms, *box) for box in boxes], axis=0)
        is_open = (bounds < risk * (1 - _TOLERANCE)) & (high - low > 1)
        # Every interval has a cost, on top of that of its modes.
        spent += int(is_open.sum()) * (64 + len(decay_rates))
        given_up = is_open & ((spent > _BUDGET) | (low >= _LAST_EPOCH))
        error = max(error, risk - float(bounds[given_up].min(initial=risk)))
        left = is_open & ~given_up
        low, high, start, end = low[left], high[left], start[:, left], end[:, left]
        if not len(low):
            break
        middle = np.where(np.isinf(high), 2 * np.maximum(low, 1), np.floor((low + high) / 2))
        moves = moved(middle)
        low, high = np.r_[low, middle], np.r_[middle, high]
        start, end = np.concatenate([start, moves], axis=1), np.concatenate([moves, end], axis=1)
    return BestEpoch(epoch if math.isinf(epoch) else int(epoch), risk, error)


def _boxes(
    start: FloatArray, end: FloatArray, decay_rates: FloatArray, alternates: BoolArray, sign: float
) -> tuple[FloatArray, FloatArray]:
    """Least and largest decay and drift of each mode between two epochs, (2, intervals, r) each.

    `sign` is that of an odd or even power of a negative 1 - x, so both ends are taken as if of one parity.
    """
    ends = []
    for decay, drift in (start, end):
        decay = np.where(alternates, sign * np.abs(decay), decay)
        ends.append(np.array([decay, np.where(alternates, (1 - decay) / decay_rates, drift)]))
    return np.minimum(*ends), np.maximum(*ends)


def _lower_bounds(forms: "RiskForms", least: FloatArray, largest: FloatArray) -> FloatArray:
    """A number below the risk everywhere in each box of decay and drift, (2, intervals, r) each."""
    bias = _form_bound(forms.bias, least[0], largest[0])
    variance = _form_bound(forms.variance, least[1], largest[1])
    crosses = [np.where(forms.cross == 0, 0.0, side[0] * forms.cross) for side in (least, largest)]
    total = forms.frozen + bias + np.minimum(*crosses).sum(axis=-1) + variance
    # The cross term grows like the root of the bias, and cannot make up for one beyond the range of numbers.
    infinite = (bias == np.inf) | (variance == np.inf) | (forms.frozen == np.inf)
    total = np.where(infinite, np.inf, total)
    return np.where(np.isnan(total), -np.inf, total)


def _form_bound(form: "QuadraticForm", lower: FloatArray, upper: FloatArray) -> FloatArray:
    """The tangent at the point of each box that is nearest to zero, minimised over the box."""
    nearest = np.clip(0.0, lower, upper)
    escaped = np.isinf(nearest)
    finite = np.where(escaped, 0.0, nearest)
    slope = 2 * form.gradient(finite)
    ends = [np.where(slope == 0, 0.0, slope * (side - finite)) for side in (lower, upper)]
    bound = form(finite) + np.minimum(*ends).sum(axis=-1)
    # Once a mode that the form sees has left the range of numbers, so has the form.
    return np.where((escaped & form.sees).any(axis=-1), np.inf, bound)


def search_one_by_one(
    risks_at: Callable[[FloatArray], FloatArray], end: float, last: float, longest: float = LONGEST_SEARCH
) -> BestEpoch:
    """Try epochs one by one until the risk is at its limit `end` (or nan) to twelve digits.

    `risks_at` is the risk at epochs (k,), `last` the last epoch there is, `longest` how many are tried at most.
    """
    best, lowest, searched, is_over = 0, math.inf, 0, False
    while searched <= min(last, longest) and not is_over:
        stop = min(max(64, 2 * searched), last + 1, longest + 1)
        risks = risks_at(np.arange(searched, stop))
        if risks.min() < lowest:
            best, lowest = searched + int(np.argmin(risks)), float(risks.min())
        is_over = bool((risks[-32:] == end).all()) or bool(np.allclose(risks[-32:], end, 1e-12, 0.0))
        searched = int(stop)
    if end < lowest:
        return BestEpoch(math.inf, end, 0.0 if is_over else end)
    return BestEpoch(best, lowest, 0.0 if is_over or searched > last else lowest)
