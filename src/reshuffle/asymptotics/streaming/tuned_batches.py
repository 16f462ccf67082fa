"""Steps and samples to a target, with the best step for every batch size: the critical batch size."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind, significant, with_error
from reshuffle.asymptotics.streaming import one_pass_arguments
from reshuffle.asymptotics.streaming.fresh_samples import FreshSamples
from reshuffle.asymptotics.streaming.grouped_modes import Cells
from reshuffle.asymptotics.streaming.one_pass_arguments import Values
from reshuffle.asymptotics.streaming.settled_risk import FixedPoint

_CELLS = 64
_MOST_STEPS = 1e12
_ALL_SAMPLES = 1e12
"""A batch so large that its gradient has no noise."""
_SEARCHED = 16
"""Steps that are tried, from a thousandth of the critical one, before the best is narrowed down."""
_NARROWED = 12
_NARROW = 1e-3
"""Relative distance to which numbers of steps are narrowed down."""


@dataclass(frozen=True, eq=False)
class CriticalBatch:
    """Steps and samples that one pass needs to a target, made by `critical_batch_size`.

    Attributes
    ----------
    batch_size : (b,)
    steps, samples : (b,)
        The fewest steps that reach the target with the best step size, and their samples; to about a percent.
    step : (b,)
        That step size.
    fewest_steps : float
        With batches of any size.
    fewest_samples : float
        With single samples.
    critical : float
        fewest_samples / fewest_steps: where steps and samples are both about twice their least.
    error : float
        How far `critical` may be off, by the errors of both.
    steps_error : (b,)
        How far `steps` may be off: what half as many groups of eigenvalues change, and how far they are narrowed
        down.
    error_kind : str
        "estimate".
    """

    batch_size: FloatArray
    steps: FloatArray
    samples: FloatArray
    step: FloatArray
    fewest_steps: float
    fewest_samples: float
    critical: float
    error: float
    steps_error: FloatArray
    error_kind: ErrorKind = "estimate"

    def __repr__(self) -> str:
        critical = with_error(self.critical, self.error, self.error_kind)
        return (
            f"CriticalBatch(critical={critical}, fewest_steps={significant(self.fewest_steps, 4)},"
            f" fewest_samples={significant(self.fewest_samples, 4)})"
        )


def critical_batch_size(
    spectrum: Values,
    source: Values,
    target: float,
    *,
    noise: float = 1.0,
    batch_size: ArrayLike = (1, 16, 256),
) -> CriticalBatch:
    """From which batch size on larger batches save few steps: samples over steps, each at its least.

    Small batches need the fewest samples to a target risk, large ones the fewest steps, and in between
    (steps/fewest - 1)(samples/fewest - 1) = 1 is a rule of thumb (McCandlish and others, 2018), by which both are
    twice their least at the critical batch size. For each batch size the constant step is the one that needs
    the fewest steps.

    Parameters
    ----------
    spectrum, source
        As in `one_pass`.
    target : float > 0
        The risk to reach, below that of the start.
    noise : float >= 0
    batch_size : whole numbers (b,)
        For which steps and samples are told.

    Returns
    -------
    CriticalBatch
        Steps, samples and best step for every batch size; the critical batch size.

    >>> from reshuffle.asymptotics import PowerLaw
    >>> found = critical_batch_size(PowerLaw(1.5), PowerLaw(0.5), target=0.1)
    >>> found.critical > 50 and bool((np.diff(found.samples) > 0).all() and (np.diff(found.steps) < 0).all())
    True
    """
    cells = one_pass_arguments.grouped(spectrum, source, _CELLS)
    noise = _arrays.nonnegative("noise", noise)
    target = _arrays.positive("target", target, "the risk to reach")
    start = float(cells.moments[0, 0].sum())
    if target >= start:
        raise ValueError(f"target must be below the risk of the start, {start:g}, but it is {target:g}.")
    sizes = np.atleast_1d(_arrays.real_array("batch_size", batch_size))
    for size in sizes:
        _arrays.whole_number("batch_size", float(size), 1)
    fewer = one_pass_arguments.grouped(spectrum, source, _CELLS // 2)
    asked = np.concatenate([sizes, [1.0, _ALL_SAMPLES]])
    tuned = np.array([_tuned(cells, float(size), target, noise) for size in asked])
    pairs = zip(asked, tuned, strict=True)
    again = [_again(fewer, float(size), float(step), target, noise) for size, (_, step) in pairs]
    errors = np.abs(tuned[:, 0] - again) + _NARROW * tuned[:, 0]
    steps, best = tuned[:-2].T
    fewest_samples, fewest_steps = float(tuned[-2, 0]), float(tuned[-1, 0])
    critical = fewest_samples / fewest_steps
    error = critical * float((errors[-2:] / tuned[-2:, 0]).sum())
    return CriticalBatch(
        sizes, steps, steps * sizes, best, fewest_steps, fewest_samples, critical, error, errors[:-2]
    )


def _again(cells: Cells, batch_size: float, step: float, target: float, noise: float) -> float:
    """The steps to the target with a step that is known."""
    return _steps_to(cells, batch_size, step, target, noise, FixedPoint(cells, batch_size, 0.0))


def _tuned(cells: Cells, batch_size: float, target: float, noise: float) -> tuple[float, float]:
    """The fewest steps to the target, and the step size that needs them: a grid, then thirds of an interval."""
    point = FixedPoint(cells, batch_size, 0.0)
    shares = np.geomspace(1e-6, 0.999, _SEARCHED)
    critical = point.critical_step()

    def needed(share: float) -> float:
        return _steps_to(cells, batch_size, share * critical, target, noise, point)

    found = [needed(share) for share in shares]
    if not math.isfinite(min(found)):
        raise ValueError(
            f"target must be reached within {_MOST_STEPS:g} steps at some step size, but {target:g} is not; take a"
            " larger one."
        )
    best = int(np.argmin(found))
    low, high = math.log(shares[max(best - 1, 0)]), math.log(shares[min(best + 1, len(shares) - 1)])
    for _ in range(_NARROWED):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        if needed(math.exp(left)) <= needed(math.exp(right)):
            high = right
        else:
            low = left
    middle = math.exp((low + high) / 2)
    steps = needed(middle)
    return (steps, middle * critical) if steps <= found[best] else (found[best], shares[best] * critical)


def _steps_to(
    cells: Cells, batch_size: float, step: float, target: float, noise: float, point: FixedPoint
) -> float:
    """After how many steps the risk is first at the target, to a thousandth; inf if never."""
    limit, _ = point.limit(step, noise)
    if limit >= target:
        return math.inf
    modes = FreshSamples(cells.closest(), batch_size, step, noise)
    low, high = 0.0, _MOST_STEPS
    # Risks on a grid between two numbers of steps; the first below the target narrows it down.
    while high > low * (1 + _NARROW) and high > low + _NARROW:
        grid = np.linspace(low, high, 33) if low else np.concatenate([[0.0], np.geomspace(1e-2, high, 64)])
        below = np.flatnonzero(modes.risk(grid) <= target)
        if not below.size:
            return math.inf
        low, high = float(grid[below[0] - 1]), float(grid[below[0]])
    return (low + high) / 2
