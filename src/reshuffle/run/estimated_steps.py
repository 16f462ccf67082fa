"""The largest step that converges where the mean over orders is not exact: searched, with its error.

The same orders are drawn at every step, so that what is searched is smooth in the step; how far its root may be off
is how far the rate, or the gain of the spread, may be off there, over how fast it grows with the step.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import count

import numpy as np

from reshuffle._core.confidence import ErrorKind, with_error
from reshuffle._core.progress import track
from reshuffle._core.threads import few_threads
from reshuffle.epoch.accuracy import Accuracy
from reshuffle.epoch.epoch import Epoch
from reshuffle.epoch.second_moment import centred_radius
from reshuffle.errors import AccuracyWarning, UnsupportedError
from reshuffle.run import centred_moments
from reshuffle.run.engines.affine_engine import AffineEngine
from reshuffle.run.engines.modes_engine import ModesEngine

QUICK = Accuracy(method="auto", rtol=1e-2, budget=3e9)
"""What is asked of a symmetric mean at every step that is tried."""
_FIRST_DRAWS = Accuracy(rtol=math.inf, budget=1e10)
"""The same of one that is drawn: what the first round gives."""
_GROWTH = 1.5
_PRECISION = 1e-3
_BESIDE = 1.02
"""A step beside another, relative to it, from which a slope is read."""
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
    """Whether a step is stable, and the number that is one at the end of stability, with its error.

    That number is nan where it tells nothing of the end: a mean that settles fades as its slowest mode does.
    """

    stable: bool
    size: float
    error: float
    error_kind: ErrorKind = "exact"


def mean_step(at_rest: AffineEngine, is_symmetric: bool, start: float) -> CriticalStep:
    """The step up to which the mean iterate converges.

    Steps are tried from a start that is stable, a factor of 1.5 apart, and what is between the last stable one and
    the first that fails is narrowed down: a gap of instability narrower than that is missed.

    Parameters
    ----------
    at_rest : AffineEngine
        The run with any step.
    is_symmetric : bool
        Whether its epochs have symmetric means.
    start : float
    """

    @cache
    def trial(step: float) -> _Trial:
        try:
            engine = _engine(at_rest, is_symmetric, step)
            found = engine.stability()
        except (OverflowError, UnsupportedError):
            return _Trial(False, math.inf, 0.0)
        size = math.nan if found.converges else found.rate
        return _Trial(found.converges, size, found.error, engine.error_kind)

    with warnings.catch_warnings():
        # The answer carries its error.
        warnings.simplefilter("ignore", AccuracyWarning)
        low, high = _bracket(trial, start)
        low, high = _refined(trial, low, high)
        error = (high - low) / 2 + _shift(trial, high)
        kind = trial(low).error_kind
    return CriticalStep((low + high) / 2, error, "estimate" if kind == "exact" else kind)


def mean_square_step(at_rest: AffineEngine, is_symmetric: bool, start: float) -> CriticalStep:
    """The step up to which the mean square converges, by centred maps: between a safe start and that of the mean.

    What is between is narrowed down, which takes it for granted that the gain of the spread grows with the step.
    """
    of_mean = mean_step(at_rest, is_symmetric, start)

    def radius(step: float) -> centred_radius.Radius:
        run = _with_step(at_rest, step)
        modes = _modes(run) if is_symmetric else None
        drawn = centred_moments.undriven(run, modes)
        drawn.more(_PAIRS)
        with few_threads(run.dimension):
            return centred_radius.gain(drawn.maps)

    @cache
    def trial(step: float) -> _Trial:
        try:
            found = radius(step)
        except (OverflowError, UnsupportedError):
            return _Trial(False, math.inf, 0.0)
        return _Trial(found.value < 1, found.value, found.error)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        ceiling = float(of_mean) + min(of_mean.error, float(of_mean) / 2)
        if trial(ceiling).stable:
            return of_mean
        low, high = _refined(trial, start, ceiling)
        error = (high - low) / 2 + _shift(trial, low, 1 / _BESIDE)
    found = (low + high) / 2
    # Single runs never converge where their mean does not.
    return CriticalStep(min(found, float(of_mean)), error, "three standard errors")


def _with_step(at_rest: AffineEngine, step: float) -> AffineEngine:
    made = at_rest.with_recipe(replace(at_rest.recipe, schedule=step))
    made.accuracy = _FIRST_DRAWS
    return made


def _modes(run: AffineEngine) -> ModesEngine:
    step = run.recipe.at(0).step
    return ModesEngine(Epoch(run.problem, run.scheme, step, QUICK), np.zeros(run.problem.p))


def _engine(at_rest: AffineEngine, is_symmetric: bool, step: float) -> AffineEngine | ModesEngine:
    run = _with_step(at_rest, step)
    return _modes(run) if is_symmetric else run


def _bracket(trial: Callable[[float], _Trial], start: float) -> tuple[float, float]:
    low = start
    while not trial(low).stable:
        low /= 2
        if low < start * 2.0**-40:
            raise ArithmeticError(
                f"no step between {low:.3g} and {start:.3g} is stable; try a smaller momentum or penalty."
            )
    for _ in track(count(), None, "trying steps"):
        if not trial(low * _GROWTH).stable:
            break
        low *= _GROWTH
    return low, low * _GROWTH


def _refined(trial: Callable[[float], _Trial], low: float, high: float) -> tuple[float, float]:
    """A stable and an unstable step closer together than the precision.

    Where the sizes of two steps are known, the line through them is one somewhere: steps are tried just below it,
    then just above. Every fourth one, and where there is no line, is in the middle.
    """
    sizes: dict[float, float] = {}
    for tries in count(1):
        if high - low <= _PRECISION * high:
            break
        root = _root(sizes)
        beside = [root * (1 - _PRECISION / 3), root * (1 + _PRECISION / 3)]
        step = next(
            (aim for aim in beside if low < aim < high and tries % 4), math.sqrt(low) * math.sqrt(high)
        )
        found = trial(step)
        low, high = (step, high) if found.stable else (low, step)
        if math.isfinite(found.size):
            sizes[step] = found.size - 1
    return low, high


def _root(values: dict[float, float]) -> float:
    """Where the line through the two values nearest to zero is zero; nan where there is none.

    >>> _root({1.0: 2.0, 3.0: 6.0, 2.0: 4.0}), _root({1.0: 2.0})
    (0.0, nan)
    """
    nearest = sorted(values, key=lambda step: abs(values[step]))[:2]
    if len(nearest) < 2 or values[nearest[0]] == values[nearest[1]]:
        return math.nan
    one, other = nearest
    return one - values[one] * (other - one) / (values[other] - values[one])


def _shift(trial: Callable[[float], _Trial], step: float, factor: float = _BESIDE) -> float:
    """How far the root may be off: the error of the size there over its slope."""
    here, beside = trial(step), trial(step * factor)
    if not (np.isfinite(here.size) and np.isfinite(beside.size)):
        return 0.0
    slope = (beside.size - here.size) / (step * (factor - 1))
    return here.error / slope if slope > 0 else math.inf
