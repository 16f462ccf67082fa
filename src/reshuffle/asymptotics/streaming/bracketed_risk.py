"""The risk along one pass by three groupings of the eigenvalues: the closest, and one on either side of it."""

import math
from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind
from reshuffle.asymptotics.streaming.fresh_samples import FreshSamples, StepByStep
from reshuffle.asymptotics.streaming.grouped_modes import Cells, Modes
from reshuffle.asymptotics.streaming.settled_risk import FixedPoint


@dataclass(frozen=True, eq=False)
class OnePassRecipe:
    """Batch size, steps, momentum and noise of one pass, asked about eigenvalues in cells."""

    batch_size: int
    schedule: FloatArray
    momentum: float
    noise: float

    @property
    def constant(self) -> bool:
        """Whether every step is the same and has no momentum, so that all numbers of steps cost the same."""
        return len(self.schedule) == 1 and not self.momentum

    def steps(self, last: int) -> FloatArray:
        """The first `last` steps."""
        return np.full(last, self.schedule[0]) if len(self.schedule) == 1 else self.schedule

    @property
    def last_step(self) -> float:
        """The step in the long run."""
        return float(self.schedule[-1])

    def fixed_point(self, cells: Cells) -> FixedPoint:
        """What the modes settle at."""
        return FixedPoint(cells, self.batch_size, self.momentum)

    def limit(self, cells: Cells) -> tuple[float, float]:
        """R_inf, and how far it may be off."""
        return self.fixed_point(cells).limit(self.last_step, self.noise)

    def risk(self, modes: Modes, wanted: FloatArray) -> FloatArray:
        """The expected risk after each of the given steps (t,), for one grouping."""
        if not wanted.size:
            return np.zeros(0)
        if self.constant:
            return FreshSamples(modes, self.batch_size, float(self.schedule[0]), self.noise).risk(wanted)
        steps = self.steps(int(wanted.max()))
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
        """The risk of the mean iterate, whose modes fade by themselves."""
        if not wanted.size:
            return np.zeros(0)
        return _faded(self, modes, wanted)

    def mean_limit(self, cells: Cells) -> float:
        """Where the mean iterate ends: at zero, unless its largest mode grows."""
        end = 2 * (1 + self.momentum) / cells.largest
        started = cells.moments[0, 0].any()
        return math.inf if started and self.schedule[-1] >= end else 0.0


def _faded(recipe: OnePassRecipe, modes: Modes, wanted: FloatArray) -> FloatArray:
    last = int(wanted.max())
    if recipe.constant:
        with np.errstate(over="ignore", divide="ignore"):
            logarithm = 2 * np.log(np.abs(1 - recipe.schedule[0] * modes.eigenvalues))
            # Small steps times small eigenvalues are lost beside one.
            near = np.abs(recipe.schedule[0] * modes.eigenvalues) < 0.5
            logarithm[near] = 2 * np.log1p(-recipe.schedule[0] * modes.eigenvalues[near])
            return np.array([_kept(logarithm * count, modes.start) for count in wanted])
    path = np.empty(last + 1)
    path[0] = modes.start.sum()
    error, velocity = np.ones(len(modes.start)), np.zeros(len(modes.start))
    with np.errstate(over="ignore", invalid="ignore"):
        for index, step in enumerate(recipe.steps(last)[:last]):
            velocity = recipe.momentum * velocity + modes.eigenvalues * error
            error = error - step * velocity
            path[index + 1] = modes.start @ error**2
    return np.asarray(np.where(np.isnan(path), np.inf, path)[wanted.astype(int)])


def _kept(exponents: FloatArray, start: FloatArray) -> float:
    """sum start exp(exponents), where 0 * -inf counts as one of zero steps."""
    factors = np.exp(np.where(np.isnan(exponents), 0.0, exponents))
    return float(start[start > 0] @ factors[start > 0])
