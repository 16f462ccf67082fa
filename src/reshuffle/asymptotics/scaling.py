"""The critical batch size, and the best model size and training time for every compute budget on power-law data."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind, significant, with_error
from reshuffle.asymptotics import fresh_samples
from reshuffle.asymptotics.fresh_samples import Cells, FixedPoint, FreshSamples, Values
from reshuffle.asymptotics.one_pass import one_pass
from reshuffle.asymptotics.spectra import PowerLaw, power_sums

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
        Error of `critical`, from the errors of both.
    steps_error : (b,)
        Error of `steps`: the change with half as many groups of eigenvalues, and the width of the search's last
        bracket.
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
    """The batch size from which on larger ones save few steps: fewest samples over fewest steps.

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
        The batch sizes of `steps` and `samples`.

    Returns
    -------
    CriticalBatch
        Steps, samples and best step for every batch size; the critical batch size.

    >>> from reshuffle.asymptotics import PowerLaw
    >>> found = critical_batch_size(PowerLaw(1.5), PowerLaw(0.5), target=0.1)
    >>> found.critical > 50 and bool((np.diff(found.samples) > 0).all() and (np.diff(found.steps) < 0).all())
    True
    """
    cells = fresh_samples.grouped(spectrum, source, _CELLS)
    noise = _arrays.nonnegative("noise", noise)
    target = _arrays.positive("target", target, "the risk to reach")
    start = float(cells.moments[0, 0].sum())
    if target >= start:
        raise ValueError(f"target must be below the risk of the start, {start:g}, but it is {target:g}.")
    sizes = np.atleast_1d(_arrays.real_array("batch_size", batch_size))
    for size in sizes:
        _arrays.whole_number("batch_size", float(size), 1)
    fewer = fresh_samples.grouped(spectrum, source, _CELLS // 2)
    requested = np.concatenate([sizes, [1.0, _ALL_SAMPLES]])
    tuned = np.array([_tuned(cells, float(size), target, noise) for size in requested])
    pairs = zip(requested, tuned, strict=True)
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
    """The number of steps until the risk reaches the target, to a thousandth; inf if never."""
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


_FRONTIER_CELLS = 128
_SIZES_PER_DECADE = 8
_LARGEST = 1e15


@dataclass(frozen=True, eq=False)
class Frontier:
    """The least risk for each budget of compute, made by `compute_frontier`.

    Attributes
    ----------
    compute : (c,)
        Budgets, steps times batch size times model size.
    size, steps, risk : (c,)
        The best model size p, the steps of training it gets, and the risk, that of the features left out included.
    error : (c,)
        Error of `risk`: that of grouped eigenvalues (a bound), plus that of the grid of sizes and the parabola
        through its best three (an estimate).
    error_kind : str
        "estimate".
    risk_exponent, size_exponent : float
        Slopes of log risk and log size against log compute over the upper half of the budgets, as fitted.
    theory : tuple of two floats
        The same two, as scaling theory has them for one pass without label noise.
    """

    compute: FloatArray
    size: FloatArray
    steps: FloatArray
    risk: FloatArray
    error: FloatArray
    error_kind: ErrorKind
    risk_exponent: float
    size_exponent: float
    theory: tuple[float, float]

    def __repr__(self) -> str:
        return (
            f"Frontier(risk ~ C^{self.risk_exponent:.3f} (theory {self.theory[0]:.3f}),"
            f" size ~ C^{self.size_exponent:.3f} (theory {self.theory[1]:.3f}))"
        )


def frontier_exponents(spectrum: float, source: float) -> tuple[float, float]:
    """The exponents of the least risk and of the best size in the compute, for j^-a and j^-b without label noise.

    With c = a + b - 1 a model of the first p features leaves p^-c, and its last feature is learned after p^a steps;
    to train longer buys logarithms, to train less leaves T^(-c/a) or more. So T = p^a, compute = p^(1 + a), up to
    logarithms where b > a and the noise of the gradients decays last.

    Parameters
    ----------
    spectrum, source : float
        The exponents a of the eigenvalues and b of the squared parameters.

    Returns
    -------
    (float, float)
        That of the risk, -c/(1 + a), and that of the size, 1/(1 + a).

    >>> frontier_exponents(1.5, 0.5)
    (-0.4, 0.4)
    """
    return -(spectrum + source - 1) / (1 + spectrum), 1 / (1 + spectrum)


def compute_frontier(
    spectrum: PowerLaw,
    source: PowerLaw,
    batch_size: int,
    step: float,
    compute: ArrayLike,
    *,
    noise: float = 0.0,
) -> Frontier:
    """The best size of a model and the best time to train it, for budgets of compute = steps batch_size size.

    The data have the eigenvalues `spectrum` and the parameters the squares `source`, both without end. A model of
    size p is trained on the first p eigenvectors in one pass over fresh samples, from zero. What the others explain
    of the response is independent of these and acts as label noise: the risk is that of `one_pass` with the noise
    noise^2 + A_p, plus A_p = sum_{j > p} lambda_j source_j.

    Parameters
    ----------
    spectrum, source : PowerLaw
        Power laws of infinite size.
    batch_size : int >= 1
    step : float > 0
        A convergent one; with label noise the risk does not fall below its limit at this step.
    compute : (c,)
        At least two budgets, ascending, each at least 100 batch_size.
    noise : float >= 0
        The standard deviation of the label noise.

    Returns
    -------
    Frontier
        Size, steps and risk for each budget, fitted exponents and those of theory.

    >>> from reshuffle.asymptotics import PowerLaw
    >>> compute_frontier(PowerLaw(1.5), PowerLaw(0.3), 1, 0.2, np.geomspace(1e6, 1e10, 9))
    Frontier(risk ~ C^-0.319 (theory -0.320), size ~ C^0.400 (theory 0.400))
    """
    budgets = _budgets(compute, _arrays.whole_number("batch_size", batch_size, 1))
    step, noise = _arrays.positive("step", step), _arrays.nonnegative("noise", noise)
    _require_endless(spectrum, source)
    most = float(budgets[-1]) / batch_size
    sizes = np.unique(np.round(np.geomspace(1, most, 1 + round(_SIZES_PER_DECADE * math.log10(most)))))
    risks, errors = np.full((2, len(sizes), len(budgets)), np.inf)
    for row, size in enumerate(sizes):
        steps = np.floor(budgets / (batch_size * size))
        trained = steps >= 1
        left = _left_out(spectrum, source, size)
        found = one_pass(
            PowerLaw(spectrum.exponent, size, spectrum.scale),
            PowerLaw(source.exponent, size, source.scale),
            batch_size,
            step,
            steps[trained],
            noise=math.sqrt(noise**2 + left),
            cells=_FRONTIER_CELLS,
        )
        if not found.converges:
            raise ValueError(
                f"step must be below the critical step, {found.stability.critical_step:.6g} for size {size:g}, but"
                f" it is {step:g}: {found.stability.diverges} diverges."
            )
        risks[row, trained], errors[row, trained] = found.risk + left, found.error
    return _best(
        budgets, sizes, risks, errors, batch_size, frontier_exponents(spectrum.exponent, source.exponent)
    )


def _best(
    budgets: FloatArray,
    sizes: FloatArray,
    risks: FloatArray,
    errors: FloatArray,
    batch_size: int,
    theory: tuple[float, float],
) -> Frontier:
    size, risk, error = np.empty((3, len(budgets)))
    for column in range(len(budgets)):
        best = int(np.argmin(risks[:, column]))
        size[column], risk[column] = _lowest(np.log(sizes), np.log(risks[:, column]), best)
        error[column] = errors[best, column] + abs(risks[best, column] - risk[column])
    upper = slice(len(budgets) // 2, None) if len(budgets) > 3 else slice(None)
    logarithm = np.log(budgets[upper])
    slopes = [float(np.polyfit(logarithm, np.log(values[upper]), 1)[0]) for values in (risk, size)]
    return Frontier(
        budgets, size, budgets / (batch_size * size), risk, error, "estimate", slopes[0], slopes[1], theory
    )


def _lowest(x: FloatArray, y: FloatArray, best: int) -> tuple[float, float]:
    """The lowest point of the parabola through the best of some points and its neighbours, out of logarithms."""
    if best == 0 or best == len(x) - 1 or not np.isfinite(y[best - 1 : best + 2]).all():
        return float(np.exp(x[best])), float(np.exp(y[best]))
    curve = np.polynomial.Polynomial.fit(x[best - 1 : best + 2], y[best - 1 : best + 2], 2)
    place = float(np.clip(curve.deriv().roots()[0].real, x[best - 1], x[best + 1]))
    return math.exp(place), math.exp(float(curve(place)))


def _left_out(spectrum: PowerLaw, source: PowerLaw, size: float) -> float:
    """A_p, the sum of lambda_j source_j beyond the features of a model."""
    tail = power_sums(spectrum.exponent + source.exponent, size + 1, math.inf)
    return spectrum.scale * source.scale * float(tail)


def _budgets(compute: ArrayLike, batch_size: int) -> FloatArray:
    budgets = _arrays.real_array("compute", compute)
    least = 100 * batch_size
    if budgets.ndim != 1 or len(budgets) < 2 or budgets[0] < least or not (np.diff(budgets) > 0).all():
        raise ValueError(
            f"compute must be at least two ascending budgets of at least 100 batch_size = {least}, but it is"
            f" {budgets}."
        )
    if budgets[-1] / batch_size > _LARGEST:
        raise ValueError(f"compute must be at most {_LARGEST:g} batch_size, but it is {budgets[-1]:g}.")
    return budgets


def _require_endless(spectrum: PowerLaw, source: PowerLaw) -> None:
    for name, law in (("spectrum", spectrum), ("source", source)):
        if not isinstance(law, PowerLaw) or math.isfinite(law.size):
            raise ValueError(
                f"{name} must be a PowerLaw of infinite size, PowerLaw(exponent), but it is {law!r}."
            )
    if spectrum.exponent <= 1 or spectrum.exponent + source.exponent <= 1:
        raise ValueError(
            "spectrum must have an exponent > 1, and with that of source add up to more than 1, or traces diverge,"
            f" but they are {spectrum.exponent:g} and {source.exponent:g}."
        )
