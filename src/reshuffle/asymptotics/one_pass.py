"""One pass over fresh data: the expected risk of a run along its steps, and the best model for every budget."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._linalg import power_and_sum
from reshuffle._uncertainty import ErrorKind, with_error
from reshuffle.asymptotics import fresh_samples
from reshuffle.asymptotics.fresh_samples import (
    Cells,
    FreshSamples,
    LongRunVariance,
    ModeNodes,
    OnePassStability,
    Values,
    walked_risk,
)
from reshuffle.asymptotics.spectra import PowerLaw, power_sums


@dataclass(frozen=True, eq=False)
class OnePassRecipe:
    """Batch size, steps, momentum and noise of one pass, evaluated on eigenvalues in cells."""

    batch_size: int
    schedule: FloatArray
    momentum: float
    noise: float

    @property
    def constant(self) -> bool:
        """True if the step is constant and without momentum: then all numbers of steps cost the same."""
        return len(self.schedule) == 1 and not self.momentum

    def steps(self, last: int) -> FloatArray:
        """The first `last` steps."""
        return np.full(last, self.schedule[0]) if len(self.schedule) == 1 else self.schedule[:last]

    def risk(self, modes: ModeNodes, wanted: FloatArray) -> FloatArray:
        """The expected risk after each of the given steps (t,), for one grouping."""
        if self.constant:
            return FreshSamples(modes, self.batch_size, float(self.schedule[0]), self.noise).risk(wanted)
        steps = self.steps(int(wanted.max(initial=0)))
        return walked_risk(modes, self.batch_size, steps, self.momentum, self.noise, wanted)

    def bracketed(self, cells: Cells, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The risk by the closest grouping, and how far from it those above and below are."""
        risk = self.risk(cells.closest(), wanted)
        if cells.exact:
            return risk, np.zeros(len(risk))
        below, above = self.risk(cells.below(self._bend), wanted), self.risk(cells.above(), wanted)
        with np.errstate(invalid="ignore"):
            error = np.maximum(np.abs(above - risk), np.abs(risk - below))
        return risk, np.where(np.isfinite(error), error, np.where(np.isinf(risk), 0.0, np.inf))

    @property
    def _bend(self) -> float:
        """The eigenvalue at which 1 - 2 s lambda + s^2 (1 + 1/m) lambda^2 is smallest."""
        return 1 / ((1 + 1 / self.batch_size) * float(self.schedule.max()))

    def error_kind(self, cells: Cells) -> ErrorKind:
        """A bound where products of a are convex: of one parabola always, of several where all of them fall."""
        if cells.exact:
            return "exact"
        falls = float(cells.high[cells.low < cells.high].max()) <= self._bend
        return "bound" if self.constant or (falls and not self.momentum) else "estimate"

    def mean_risk(self, modes: ModeNodes, wanted: FloatArray) -> FloatArray:
        """The risk of the mean iterate after each of the given steps (t,): its modes decay independently."""
        if self.constant:
            started = modes.start > 0
            with np.errstate(over="ignore"):
                power, _ = power_and_sum(self.schedule[0] * modes.eigenvalues[started], wanted)
                return np.asarray(power**2 @ modes.start[started])
        steps = self.steps(int(wanted.max(initial=0)))
        path = np.empty(len(steps) + 1)
        path[0] = modes.start.sum()
        error, velocity = np.ones(len(modes.start)), np.zeros(len(modes.start))
        with np.errstate(over="ignore", invalid="ignore"):
            for index, step in enumerate(steps):
                velocity = self.momentum * velocity + modes.eigenvalues * error
                error = error - step * velocity
                path[index + 1] = modes.start @ error**2
        return np.asarray(np.where(np.isnan(path), np.inf, path)[wanted.astype(int)])

    def mean_limit(self, cells: Cells) -> float:
        """The limiting risk of the mean iterate: zero, unless its largest mode grows."""
        end = 2 * (1 + self.momentum) / cells.largest
        started = cells.moments[0, 0].any()
        return math.inf if started and self.schedule[-1] >= end else 0.0


CELLS = 256
"""Cells that eigenvalues are sorted into, if there are more distinct ones."""


@dataclass(frozen=True, eq=False)
class OnePass:
    """The risk of one pass over fresh samples, made by `one_pass`.

    Attributes
    ----------
    steps : array of any shape
        The requested numbers of steps; math.inf is the limit.
    risk : array of the same shape
        E |beta - beta_star|_Sigma^2 over runs; inf where a run that does not converge ends.
    mean_risk : array
        The risk of the mean over runs of the parameters. The rest is the spread of single runs.
    error, error_kind :
        Error of `risk` because eigenvalues share nodes: none ("exact"), a bound ("bound"), or an estimate
        ("estimate", with momentum or large steps that change).
    stability : OnePassStability
        Convergence, kappa and the critical step; of the last step where steps change.
    limit : float
        R_inf, the limit of the risk.
    """

    steps: FloatArray
    risk: FloatArray
    mean_risk: FloatArray
    error: FloatArray
    error_kind: ErrorKind
    stability: OnePassStability
    limit: float

    @property
    def spread(self) -> FloatArray:
        """The expected risk of single runs less that of the mean iterate, of the shape of `steps`."""
        with np.errstate(invalid="ignore"):
            rest = np.maximum(self.risk - self.mean_risk, 0.0)
        return np.where(np.isinf(self.risk), np.inf, rest)

    @property
    def converges(self) -> bool:
        """True if the risk has a limit."""
        return self.stability.converges

    def __repr__(self) -> str:
        last = with_error(self.risk.flat[-1], self.error.flat[-1], self.error_kind) if self.risk.size else "-"
        grows = f"; {self.stability.diverges} diverges" if self.stability.diverges else ""
        return (
            f"OnePass(risk={last}, limit={self.limit:.6g}, kappa={self.stability.kappa:.6g},"
            f" critical_step={self.stability.critical_step:.6g}{grows})"
        )


def one_pass(
    spectrum: Values,
    source: Values,
    batch_size: int,
    step: ArrayLike,
    steps: ArrayLike,
    *,
    noise: float = 1.0,
    momentum: float = 0.0,
    cells: int = CELLS,
) -> OnePass:
    r"""The expected risk of descent that draws m fresh Gaussian samples for every step.

    The diagonal d of the mean square error, in the eigenbasis of Sigma, closes:

    .. math::
        d' = \big(1 - 2 s \lambda + s^2 (1 + \tfrac1m) \lambda^2\big) d
             + \tfrac{s^2}{m} \lambda (R + \text{noise}^2), \qquad R = \lambda \cdot d,

    and R converges to

    .. math::
        R_\infty = \text{noise}^2 \frac{\kappa}{1 - \kappa}, \qquad
        \kappa = \frac{s}{m} \sum \frac{\lambda}{2 - s (1 + 1/m) \lambda},

    if kappa < 1 and s (1 + 1/m) lambda_max < 2. docs/one_pass.md derives it, with momentum.

    Parameters
    ----------
    spectrum : (p,) or PowerLaw
        The eigenvalues of Sigma.
    source : (p,) or PowerLaw
        The squares of beta_0 - beta_star along the eigenvectors of Sigma, in the order of `spectrum`.
    batch_size : int >= 1
        m, the samples of one step.
    step : float > 0, or (t,)
        s; or one for every step.
    steps : whole numbers of any shape, or math.inf
        Numbers of steps after which the risk is computed.
    noise : float >= 0
        The standard deviation of the label noise.
    momentum : float
        In [0, 1), torch's.
    cells : int
        Where there are more distinct eigenvalues, those of a cell share two nodes.

    Returns
    -------
    OnePass
        Risk, risk of the mean iterate and error of the shape of `steps`; stability, kappa, limit.

    >>> found = one_pass(PowerLaw(1.5, 10**6), PowerLaw(0.5, 10**6), 8, 0.3, [0, 10, 1000, math.inf])
    >>> found.risk.round(4)
    array([1.6449, 0.3166, 0.0655, 0.0564])
    >>> found.converges, found.error_kind, bool((found.error < 1e-3 * found.risk).all())
    (True, 'bound', True)
    """
    groups = fresh_samples.grouped(spectrum, source, cells)
    clock = _arrays.epochs(steps, "steps")
    momentum = _arrays.nonnegative("momentum", momentum)
    if momentum >= 1:
        raise ValueError(f"momentum must lie in [0, 1), but it is {momentum:g}.")
    recipe = OnePassRecipe(
        batch_size=_arrays.whole_number("batch_size", batch_size, 1),
        schedule=fresh_samples.schedule(step, clock, momentum),
        momentum=momentum,
        noise=_arrays.nonnegative("noise", noise),
    )
    point, last = LongRunVariance(groups, recipe.batch_size, momentum), float(recipe.schedule[-1])
    finite = np.isfinite(clock)
    limit, limit_error = point.limit(last, recipe.noise)
    risk, error = np.full(clock.shape, limit), np.full(clock.shape, limit_error)
    risk[finite], error[finite] = recipe.bracketed(groups, clock[finite])
    mean_risk = np.full(clock.shape, recipe.mean_limit(groups))
    mean_risk[finite] = recipe.mean_risk(groups.closest(), clock[finite])
    return OnePass(clock, risk, mean_risk, error, recipe.error_kind(groups), point.stability(last), limit)


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

    >>> compute_frontier(PowerLaw(1.5), PowerLaw(0.3), 1, 0.2, np.geomspace(1e6, 1e10, 9))
    Frontier(risk ~ C^-0.319 (theory -0.320), size ~ C^0.401 (theory 0.400))
    """
    budgets, least = (
        _arrays.real_array("compute", compute),
        100 * _arrays.whole_number("batch_size", batch_size, 1),
    )
    if budgets.ndim != 1 or len(budgets) < 2 or budgets[0] < least or not (np.diff(budgets) > 0).all():
        raise ValueError(
            f"compute must be at least two ascending budgets of at least 100 batch_size = {least}, but it is"
            f" {budgets}."
        )
    if budgets[-1] / batch_size > _LARGEST:
        raise ValueError(f"compute must be at most {_LARGEST:g} batch_size, but it is {budgets[-1]:g}.")
    step, noise = _arrays.positive("step", step), _arrays.nonnegative("noise", noise)
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
        return LongRunVariance(self._grouped(size)[0], self.batch_size, 0.0).stability(self.step)

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
        cells, _, noise = self._grouped(size)
        steps = np.floor([budget / (self.batch_size * size)])
        recipe = OnePassRecipe(self.batch_size, np.array([self.step]), 0.0, noise)
        # Eigenvalues in common cells make a bounded error.
        grouping = float(recipe.bracketed(cells, steps)[1][0])
        return size, risk, search + grouping + _ROUNDING * risk

    def _after(self, size: float, steps: float) -> float:
        return float(self.risk(size, np.array([steps]))[0])


def _vertex(sizes: FloatArray, risks: FloatArray) -> tuple[float, float]:
    """Place and value of the lowest point of the parabola through points, in logarithms of both."""
    x, y = np.log(sizes), np.log(risks)
    curve = np.polynomial.Polynomial.fit(x, y, 2)
    roots = curve.deriv().roots()
    place = float(np.clip(roots[0].real, x[0], x[-1])) if len(roots) else float(x[np.argmin(y)])
    return math.exp(place), math.exp(float(curve(place)))
