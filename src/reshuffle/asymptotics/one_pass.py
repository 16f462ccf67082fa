"""One pass over fresh data: the expected risk of a run along its steps, for any number of features."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind, with_error
from reshuffle.asymptotics import fresh_samples
from reshuffle.asymptotics.fresh_samples import (
    Cells,
    FixedPoint,
    FreshSamples,
    Modes,
    OnePassStability,
    StepByStep,
    Values,
)


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

    def risk(self, modes: Modes, wanted: FloatArray) -> FloatArray:
        """The expected risk after each of the given steps (t,), for one grouping."""
        if self.constant:
            return FreshSamples(modes, self.batch_size, float(self.schedule[0]), self.noise).risk(wanted)
        steps = self.steps(int(wanted.max(initial=0)))
        return StepByStep(modes, self.batch_size, steps, self.momentum, self.noise).risk(wanted)

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

    def mean_risk(self, modes: Modes, wanted: FloatArray) -> FloatArray:
        """The risk of the mean iterate after each of the given steps (t,): its modes decay independently."""
        if self.constant:
            scaled = self.schedule[0] * modes.eigenvalues
            # Small steps times small eigenvalues are lost when added to one.
            near = np.log1p(-np.minimum(scaled, 0.5))
            with np.errstate(over="ignore", divide="ignore"):
                logs = 2 * np.where(scaled < 0.5, near, np.log(np.abs(1 - scaled)))[modes.start > 0]
                start = modes.start[modes.start > 0]
                # After no steps even a mode that one step removes is whole.
                return np.array([start @ np.exp(count * logs) if count else start.sum() for count in wanted])
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

    >>> import math
    >>> from reshuffle.asymptotics import PowerLaw
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
    point, last = FixedPoint(groups, recipe.batch_size, momentum), float(recipe.schedule[-1])
    finite = np.isfinite(clock)
    limit, limit_error = point.limit(last, recipe.noise)
    risk, error = np.full(clock.shape, limit), np.full(clock.shape, limit_error)
    risk[finite], error[finite] = recipe.bracketed(groups, clock[finite])
    mean_risk = np.full(clock.shape, recipe.mean_limit(groups))
    mean_risk[finite] = recipe.mean_risk(groups.closest(), clock[finite])
    return OnePass(clock, risk, mean_risk, error, recipe.error_kind(groups), point.stability(last), limit)
