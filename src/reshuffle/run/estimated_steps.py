"""The largest step that converges where the mean over orders is not exact: searched, with its error.

The same orders are drawn at every step, so that what is searched is smooth in the step; how far its root may be off
is how far the rate, or the gain of the spread, may be off there, over how fast it grows with the step.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from reshuffle._blas import few_threads
from reshuffle._progress import track
from reshuffle._uncertainty import ErrorKind, with_error
from reshuffle.epoch.accuracy import Accuracy
from reshuffle.epoch.epoch import Epoch
from reshuffle.epoch.moments import drawn as drawn_orders
from reshuffle.errors import AccuracyWarning, UnsupportedError
from reshuffle.run import centred_moments
from reshuffle.run.engines.affine_engine import AffineEngine
from reshuffle.run.engines.modes_engine import ModesEngine
from reshuffle.run.stability import rate_error

QUICK = Accuracy(method="auto", rtol=1e-2, budget=3e9)
"""What is asked of a symmetric mean at a step that decides."""
_ROUGH = Accuracy(method="auto", rtol=1e-2, budget=3e8)
"""The same with fewer draws, at a step that may be far from the end of stability."""
_DRAWN = Accuracy(method="sampling", rtol=5e-2, budget=1e10)
"""The same where that leaves open on which side of one the rate is."""
_FIRST_DRAWS = Accuracy(rtol=math.inf, budget=1e10)
"""The same of one that is drawn: what the first round gives."""
GROWTH, FINE_GROWTH = 1.1, 1.02
"""Steps are tried this far apart, and where the rate rises towards one, or falls from a peak near it, that far."""
_NEAR = 0.6
"""A rate from which on steps are fine: windows between coarse steps whose rates are both below it were not met
(benchmarks/step_coverage.py)."""
_SURE_STRIDE, _BEYOND = 1.2, 5
"""Up to which step |x|^2 / m the errors of the cavity equation cover, and with which power of it they grow beyond,
where a visit overshoots along a single sample: measured where means are exact (benchmarks/step_coverage.py)."""
_FINE = 5
"""Fine steps in a coarse one, at most."""
_SKEWED = 1.5
"""By how much errors of drawn rates are widened: near the end few of all orders weigh most, and of 60 rates one was
off by 1.45 times its three standard errors (benchmarks/step_coverage.py)."""
_PRECISION = 1e-3
_FINE_WIDTH = FINE_GROWTH - 1
_MOST_BEYOND = 7
"""Steps that are tried beyond the end until one fails for certain, each further away: up to 3.6 times as large."""
_FARTHEST = 2.0
"""Where none fails for certain: exact steps were at most 1.6 times what was found, of 40 such problems of 9 to 59
rows (benchmarks/step_coverage.py)."""
_PAIRS = 4
"""Pairs of orders in each group whose maps tell the gain."""


class CriticalStep(float):
    """A step, with how far it may be off: a number like any other beside that.

    Attributes
    ----------
    error : float
        How far the step may be off.
    error_kind : str
        In which sense that is meant.

    >>> step = CriticalStep(0.5, 0.01, "estimate")
    >>> step, 2 * step, step.error
    (0.5 +- 0.01 (estimate), 1.0, 0.01)
    >>> CriticalStep(0.5)
    0.5
    """

    error: float
    error_kind: ErrorKind

    def __new__(cls, value: float, error: float = 0.0, error_kind: ErrorKind = "exact") -> "CriticalStep":
        """Exact unless an error is given."""
        made = super().__new__(cls, value)
        made.error, made.error_kind = error, error_kind
        return made

    def __reduce__(self) -> tuple[type, tuple[float, float, ErrorKind]]:
        return CriticalStep, (float(self), self.error, self.error_kind)

    def __repr__(self) -> str:
        return with_error(float(self), self.error, self.error_kind) if self.error else float.__repr__(self)

    __str__ = __repr__


@dataclass(frozen=True)
class _Trial:
    """A number that is one at the end of stability, at some step, and how far it may be off.

    One that `is_positive`, a mean of positive numbers, is off by a factor where its error is as large as itself:
    most draws are far below their mean.
    """

    size: float
    error: float = 0.0
    error_kind: ErrorKind = "exact"
    is_positive: bool = False

    @property
    def least(self) -> float:
        """The smallest that the number may be."""
        if self.is_positive and math.isfinite(self.size):
            return self.size * self.size / (self.size + self.error) if self.size else 0.0
        return self.size - self.error

    @property
    def most(self) -> float:
        """The largest that the number may be."""
        return self.size + self.error

    @property
    def is_open(self) -> bool:
        """Whether it may be on either side of one."""
        return self.least < 1 <= self.most


def mean_step(at_rest: AffineEngine, is_symmetric: bool, start: float) -> CriticalStep:
    """The step up to which the mean iterate converges: the first at which its rate reaches one.

    Steps are tried from a start that is stable, 10% apart, and 2% where the rate is above 0.6 and rises, or has
    just risen; what is between the last stable one and the first that fails is narrowed down. A window of
    instability that is wider than 10% of its step is found for certain. The error reaches from where the rate may
    be one already to where it is for certain. Where no step nearby is and the rate rises, it reaches to twice the
    step, an estimate; where it does not rise, everything is open, and the error is infinite.

    Parameters
    ----------
    at_rest : AffineEngine
        The run with any step.
    is_symmetric : bool
        Whether its epochs have symmetric means.
    start : float
    """
    longest = _longest(at_rest)

    def found(step: float, accuracy: Accuracy) -> _Trial:
        try:
            engine = _engine(at_rest, is_symmetric, step, accuracy)
            known = engine.stability()
        except (OverflowError, UnsupportedError):
            return _Trial(math.inf)
        # One that diverges without growing has modes that never settle.
        size = known.rate if known.converges else max(known.rate, 1.0)
        beyond = (
            max(1.0, step * longest / _SURE_STRIDE) ** _BEYOND if engine.error_kind == "estimate" else _SKEWED
        )
        error = known.error
        if isinstance(engine, ModesEngine):
            # A slow mode that is known well hides a fast one that is not, and may be beyond one.
            error = max(error, rate_error(engine.epoch.paces, engine.epoch.mean.repeats, engine.epoch.error))
        return _Trial(size, beyond * error, engine.error_kind)

    @cache
    def trial(step: float) -> _Trial:
        if not is_symmetric:
            return found(step, QUICK)
        best = _Trial(1.0, math.inf)
        for accuracy in (_ROUGH, _DRAWN):
            best = min(best, found(step, accuracy), key=lambda each: each.error)
            if abs(best.size - 1) > best.error:
                break
        return best

    with warnings.catch_warnings():
        # The answer carries its error.
        warnings.simplefilter("ignore", AccuracyWarning)
        step, error, is_sure = _first_end(trial, _stable_start(trial, start), math.inf)
        kind = trial(step).error_kind
    return CriticalStep(step, error, "estimate" if kind == "exact" or not is_sure else kind)


def mean_square_step(
    at_rest: AffineEngine, is_symmetric: bool, start: float, of_mean: CriticalStep
) -> CriticalStep:
    """The step up to which the mean square converges, by centred maps: between a safe start and that of the mean.

    Steps are tried as for the mean, with the gain of the spread in place of the rate.
    """

    @cache
    def trial(step: float) -> _Trial:
        run = _with_step(at_rest, step)
        try:
            modes = _modes(run, QUICK) if is_symmetric else None
            drawn = centred_moments.undriven(run, modes)
            drawn.more(_PAIRS)
            with few_threads(run.dimension):
                known = drawn_orders.gain(drawn.maps)
        except (OverflowError, UnsupportedError):
            return _Trial(math.inf)
        return _Trial(known.value, known.error, "three standard errors", is_positive=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        ceiling = float(of_mean) + min(of_mean.error, float(of_mean) / 2)
        step, error, is_sure = _first_end(trial, _stable_start(trial, start), ceiling)
    if step < of_mean:
        return CriticalStep(step, error, "three standard errors" if is_sure else "estimate")
    # Single runs never converge where their mean does not.
    kind: ErrorKind = "three standard errors" if error > of_mean.error else of_mean.error_kind
    return CriticalStep(float(of_mean), max(error, of_mean.error), kind)


def _longest(run: AffineEngine) -> float:
    """The largest |x|^2 / m of a sample, or of the rows of a batch together."""
    blocks, scheme, n = run.blocks, run.scheme, run.problem.n
    weights = 1 / blocks.divisors
    if scheme.unit.is_cut:
        weights = weights * float((scheme.sizes(n) / scheme.rows_per_unit / scheme.step_divisors(n)).max())
    squares = np.add.reduceat(np.square(blocks.rows).sum(axis=1), blocks.offsets[:-1]) * weights
    return float(squares.max()) * run.space.scale * run.space.scale


def _with_step(at_rest: AffineEngine, step: float) -> AffineEngine:
    made = at_rest.with_recipe(replace(at_rest.recipe, schedule=step))
    made.accuracy = _FIRST_DRAWS
    return made


def _modes(run: AffineEngine, accuracy: Accuracy) -> ModesEngine:
    step = run.recipe.at(0).step
    return ModesEngine(Epoch(run.problem, run.scheme, step, accuracy), np.zeros(run.problem.p))


def _engine(
    at_rest: AffineEngine, is_symmetric: bool, step: float, accuracy: Accuracy
) -> AffineEngine | ModesEngine:
    run = _with_step(at_rest, step)
    return _modes(run, accuracy) if is_symmetric else run


def _stable_start(trial: Callable[[float], _Trial], start: float) -> float:
    low = start
    while trial(low).size >= 1:
        low /= 2
        if low < start * 2.0**-40:
            raise ArithmeticError(
                f"no step between {low:.3g} and {start:.3g} is stable; try a smaller momentum or penalty."
            )
    return low


def _first_end(trial: Callable[[float], _Trial], start: float, last: float) -> tuple[float, float, bool]:
    """The first step at which the size is one, from a stable start on, its error, and whether that is sure.

    The step is `last` if there is none.
    """
    low = sure = end = start
    first_open: float | None = None
    for step in track(_ascending(trial, start, last), None, "trying steps"):
        here, end = trial(step), step
        if first_open is None and here.most >= 1:
            first_open = step
        if first_open is None:
            sure = step
        if here.size >= 1:
            break
        low = step
    lower = upper = end
    is_sure = True
    if trial(end).size >= 1:
        precision = _FINE_WIDTH if trial(low).is_open and trial(end).is_open else _PRECISION
        low, high = _narrowed(lambda step: trial(step).size >= 1, low, end, precision)
        lower, end, upper = low, (low + high) / 2, _surely_unstable(trial, high, last)
        if math.isinf(upper):
            rises = trial(_FARTHEST * high).size > trial(high).most
            upper, is_sure = _FARTHEST * high if rises else math.inf, False
    if first_open is not None and trial(lower).most >= 1:
        lower, _ = _narrowed(lambda step: trial(step).most >= 1, sure, min(first_open, end), _FINE_WIDTH)
    return end, max(end - lower, upper - end), is_sure


def _ascending(trial: Callable[[float], _Trial], start: float, last: float) -> Iterator[float]:
    """Steps from the start to the last: coarse ones, and fine ones between where a window may be narrow."""
    low, rose = start, True
    while low < last:
        high = min(low * GROWTH, last)
        before, after = trial(low), trial(high)
        rises = after.size >= before.size
        near = max(before.most, after.most) > _NEAR
        # Where the error leaves everything open, finer steps say no more.
        if near and (rose or rises) and before.most < 1:
            yield from (
                low * FINE_GROWTH**number for number in range(1, _FINE) if low * FINE_GROWTH**number < high
            )
        yield high
        low, rose = high, rises


def _surely_unstable(trial: Callable[[float], _Trial], step: float, last: float) -> float:
    """A step from an unstable one on that is unstable whatever the error, near the first; inf if none is found."""

    def is_sure(step: float) -> bool:
        return trial(step).least >= 1

    low, growth = step, FINE_GROWTH
    for _ in range(_MOST_BEYOND):
        if is_sure(step):
            return _narrowed(is_sure, low, step, _FINE_WIDTH)[1]
        if step >= last:
            return last
        low, step, growth = step, min(step * growth, last), growth * growth
    return math.inf


def _narrowed(
    is_beyond: Callable[[float], bool], low: float, high: float, precision: float
) -> tuple[float, float]:
    """Two steps between which something begins, closer together than the precision."""
    while high - low > precision * high:
        middle = math.sqrt(low) * math.sqrt(high)
        low, high = (low, middle) if is_beyond(middle) else (middle, high)
    return low, high
