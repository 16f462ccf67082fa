"""The critical batch size, and the best model size and training time for every compute budget on power-law data."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind, significant, with_error
from reshuffle.asymptotics import fresh_samples
from reshuffle.asymptotics.fresh_samples import Cells, FixedPoint, FreshSamples, OnePassStability, Values
from reshuffle.asymptotics.one_pass import OnePassRecipe
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
    again = [_steps_to(fewer, float(size), float(step), target, noise) for size, (_, step) in pairs]
    errors = np.abs(tuned[:, 0] - again) + _NARROW * tuned[:, 0]
    steps, best = tuned[:-2].T
    fewest_samples, fewest_steps = float(tuned[-2, 0]), float(tuned[-1, 0])
    critical = fewest_samples / fewest_steps
    error = critical * float((errors[-2:] / tuned[-2:, 0]).sum())
    return CriticalBatch(
        sizes, steps, steps * sizes, best, fewest_steps, fewest_samples, critical, error, errors[:-2]
    )


def _tuned(cells: Cells, batch_size: float, target: float, noise: float) -> tuple[float, float]:
    """The fewest steps to the target, and the step size that needs them: a grid, then thirds of an interval."""
    shares = np.geomspace(1e-6, 0.999, _SEARCHED)
    critical = FixedPoint(cells, batch_size, 0.0).critical_step()

    def needed(share: float) -> float:
        return _steps_to(cells, batch_size, share * critical, target, noise)

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


def _steps_to(cells: Cells, batch_size: float, step: float, target: float, noise: float) -> float:
    """The number of steps until the risk reaches the target, to a thousandth; inf if never."""
    if FixedPoint(cells, batch_size, 0.0).limit(step, noise)[0] >= target:
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
_EVERY_SIZE = 64
"""Sizes up to which every one is tried: there a step more or less matters."""
_NEARBY = 0.03
"""Relative distance of the sizes through which the last parabola goes."""
_ROUNDING = 1e-12
_LARGEST = 1e15


@dataclass(frozen=True, eq=False)
class Frontier:
    """The least risk for each budget of compute, made by `compute_frontier`.

    Attributes
    ----------
    compute : (c,)
        Budgets, steps times batch size times model size.
    size, steps, risk : (c,)
        The best model size p, a whole number; the steps that the budget pays for; and the risk after the whole ones
        of them, that of the features left out included.
    error : (c,)
        Error of `risk` as the least of all sizes: that of grouped eigenvalues (a bound), plus by how much another
        size could be better (an estimate; zero where all sizes near the best were tried).
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
    Frontier(risk ~ C^-0.319 (theory -0.320), size ~ C^0.401 (theory 0.400))
    """
    budgets = _budgets(compute, _arrays.whole_number("batch_size", batch_size, 1))
    step, noise = _arrays.positive("step", step), _arrays.nonnegative("noise", noise)
    _require_endless(spectrum, source)
    models = _Models(spectrum, source, batch_size, step, noise)
    most = float(budgets[-1]) / batch_size
    grid = np.round(np.geomspace(1, most, 1 + round(_SIZES_PER_DECADE * math.log10(most))))
    sizes = np.unique(np.concatenate([np.arange(1.0, min(_EVERY_SIZE, most) + 1), grid]))
    stability = models.stability(sizes[-1])
    if not stability.converges:
        raise ValueError(
            f"step must be below the critical step, {stability.critical_step:.6g} for size {sizes[-1]:g}, but"
            f" it is {step:g}: {stability.diverges} diverges."
        )
    steps = budgets / (batch_size * sizes[:, np.newaxis])
    both = np.concatenate([steps, np.floor(steps)], axis=1)
    risks = np.array([models.risk(size, row) for size, row in zip(sizes, both, strict=True)])
    smooth, whole = np.split(np.where(np.tile(steps >= 1, 2), risks, np.inf), 2, axis=1)
    found = [
        models.best(*question, sizes) for question in zip(budgets.tolist(), smooth.T, whole.T, strict=True)
    ]
    size, risk, error = np.array(found).T
    upper = slice(len(budgets) // 2, None) if len(budgets) > 3 else slice(None)
    logarithm = np.log(budgets[upper])
    slopes = [float(np.polyfit(logarithm, np.log(values[upper]), 1)[0]) for values in (risk, size)]
    a, b = spectrum.exponent, source.exponent
    # A model leaves p^-(a + b - 1), and learns its last feature after p^a steps: compute = p^(1 + a).
    theory = -(a + b - 1) / (1 + a), 1 / (1 + a)
    return Frontier(
        budgets, size, budgets / (batch_size * size), risk, error, "estimate", slopes[0], slopes[1], theory
    )


@dataclass(frozen=True)
class _Models:
    """One pass of models of every size, with a constant step, on infinitely many features."""

    spectrum: PowerLaw
    source: PowerLaw
    batch_size: int
    step: float
    noise: float

    def _grouped(self, size: float) -> tuple[Cells, float, float]:
        """The eigenvalues of a model, A_p of the features it leaves out, and the noise with them."""
        spectrum = PowerLaw(self.spectrum.exponent, size, self.spectrum.scale)
        source = PowerLaw(self.source.exponent, size, self.source.scale)
        tail = float(power_sums(spectrum.exponent + source.exponent, size + 1, math.inf))
        left = spectrum.scale * source.scale * tail
        cells = fresh_samples.grouped(spectrum, source, _FRONTIER_CELLS)
        return cells, left, math.sqrt(self.noise**2 + left)

    def stability(self, size: float) -> OnePassStability:
        """Stability of the pass of one model; the largest has the smallest critical step."""
        return FixedPoint(self._grouped(size)[0], self.batch_size, 0.0).stability(self.step)

    def risk(self, size: float, steps: FloatArray) -> FloatArray:
        """The risk after steps (t,), which need not be whole: then it is a smooth function of the size."""
        cells, left, noise = self._grouped(size)
        return FreshSamples(cells.closest(), self.batch_size, self.step, noise).risk(steps) + left

    def best(
        self, budget: float, smooth: FloatArray, whole: FloatArray, sizes: FloatArray
    ) -> tuple[float, float, float]:
        """The best size for a budget, its risk after whole steps, and an error of the least risk.

        `smooth` and `whole` are the risks of the `sizes`, all (s,), after all steps and after whole ones. Up to
        `_EVERY_SIZE` every size has been tried. Beyond, the risk after steps that need not be whole is smooth and
        has its minimum where a parabola in the logarithms puts it, and whole steps can only do worse: the error
        is by how much they do.
        """
        best, chosen = int(np.argmin(smooth)), int(np.argmin(whole))
        size, risk, search = float(sizes[chosen]), float(whole[chosen]), 0.0
        if sizes[best] > _EVERY_SIZE / 2:
            place, lowest, doubt = float(sizes[best]), float(smooth[best]), 0.0
            if best + 1 < len(sizes) and np.isfinite(smooth[best + 1]):
                around = slice(best - 1, best + 2)
                place, _ = _vertex(sizes[around], smooth[around])
                near = np.unique(np.round(place * np.array([1 - _NEARBY, 1.0, 1 + _NEARBY])))
                values = np.array([self._after(p, budget / (self.batch_size * p)) for p in near])
                place, vertex = _vertex(near, values)
                doubt, lowest = abs(float(values.min()) - vertex), min(lowest, float(values.min()), vertex)
            # The largest sizes that have time for a whole number of steps near the best.
            times = math.floor(budget / (self.batch_size * place)) + np.arange(2.0)
            for p in np.unique(np.floor(budget / (self.batch_size * times[times >= 1]))):
                found = self._after(p, math.floor(budget / (self.batch_size * p)))
                size, risk = (float(p), found) if found < risk else (size, risk)
            search = max(risk - lowest, 0.0) + doubt
        return size, risk, search + self._grouping_error(size, budget) + _ROUNDING * risk

    def _after(self, size: float, steps: float) -> float:
        return float(self.risk(size, np.array([steps]))[0])

    def _grouping_error(self, size: float, budget: float) -> float:
        """Bound of the error that eigenvalues in common cells make."""
        cells, _, noise = self._grouped(size)
        steps = math.floor(budget / (self.batch_size * size))
        recipe = OnePassRecipe(self.batch_size, np.array([self.step]), 0.0, noise)
        return float(recipe.bracketed(cells, np.array([float(steps)]))[1][0])


def _vertex(sizes: FloatArray, risks: FloatArray) -> tuple[float, float]:
    """Place and value of the lowest point of the parabola through points, in logarithms of both."""
    x, y = np.log(sizes), np.log(risks)
    curve = np.polynomial.Polynomial.fit(x, y, 2)
    roots = curve.deriv().roots()
    place = float(np.clip(roots[0].real, x[0], x[-1])) if len(roots) else float(x[np.argmin(y)])
    return math.exp(place), math.exp(float(curve(place)))


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
