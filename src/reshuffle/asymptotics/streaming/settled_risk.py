"""Where one pass over fresh samples ends, whether it does, and the largest step for which it does."""

import math
from dataclasses import dataclass

import scipy.optimize

from reshuffle.asymptotics.streaming.grouped_modes import Cells, Modes


@dataclass(frozen=True)
class OnePassStability:
    """Whether the mean square of one pass settles.

    Attributes
    ----------
    converges : bool
        Whether kappa < 1 and no single mode grows.
    kappa : float
        The part of the risk that the noise of the gradients hands on for ever: R_inf = noise^2 kappa / (1 - kappa).
        inf where a single mode grows.
    critical_step : float
        The supremum of the steps that converge.
    diverges : str or None
        What grows: "the largest eigenvalue", by itself, or "the noise of the gradients", all modes together.
    """

    converges: bool
    kappa: float
    critical_step: float
    diverges: str | None


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """kappa as a function of the step, for eigenvalues in cells.

    A mode whose gradients have noise of variance lambda q / m has in the long run

        E e^2 = s (1 + mu) q / ( m (1 - mu) (2 (1 + mu) - s lambda) - s (1 + mu) lambda ),

    for torch's momentum mu, and kappa is the sum of lambda E e^2 / q.
    """

    cells: Cells
    batch_size: float
    momentum: float

    @property
    def largest_step(self) -> float:
        """From where on the largest eigenvalue by itself grows."""
        inertia, grown = self.batch_size * (1 - self.momentum), 1 + self.momentum
        return 2 * grown * inertia / ((inertia + grown) * self.cells.largest)

    def kappa(self, step: float, modes: Modes | None = None) -> float:
        """The sum of lambda E e^2 / q, by the closest grouping or another; inf at and beyond `largest_step`."""
        if step >= self.largest_step:
            return math.inf
        inertia, grown = self.batch_size * (1 - self.momentum), 1 + self.momentum
        # 1/(c - d l) = 1/c + (d/c) l/(c - d l): the trace is exact, and the rest is a sum of lambda^2.
        constant, slope = 2 * inertia * grown, step * (inertia + grown)
        nodes = self.cells.closest() if modes is None else modes
        room = constant - slope * nodes.eigenvalues
        if room.min() <= 0:
            return math.inf
        rest = float(nodes.gain @ (1 / room))
        return step * grown / constant * (self.cells.trace + slope * rest)

    def critical_step(self) -> float:
        """Where kappa is one; kappa grows with the step, without end towards `largest_step`."""
        if not math.isfinite(self.cells.trace):
            return 0.0
        end, modes = self.largest_step, self.cells.closest()

        def excess(share: float) -> float:
            return min(self.kappa(share * end, modes), 1e300) - 1

        return float(scipy.optimize.brentq(excess, 0.0, 1.0, xtol=1e-300, rtol=1e-15)) * end

    def stability(self, step: float) -> OnePassStability:
        """Whether, and why not, a step converges."""
        kappa = self.kappa(step)
        grows = None if kappa < 1 else "the noise of the gradients"
        grows = "the largest eigenvalue" if math.isinf(kappa) and math.isfinite(self.cells.trace) else grows
        return OnePassStability(kappa < 1, kappa, self.critical_step(), grows)

    def limit(self, step: float, noise: float) -> tuple[float, float]:
        """R_inf = noise^2 kappa / (1 - kappa), inf where it does not settle, and how far it may be off.

        A summand is convex in lambda, so that the groupings on either side enclose the sum.
        """
        kappa = self.kappa(step)
        if kappa >= 1:
            return math.inf, 0.0
        limit = noise * noise * kappa / (1 - kappa)
        if self.cells.exact:
            return limit, 0.0
        # The summand grows with lambda: the smaller mean is below for both measures.
        ends = [self.kappa(step, modes) for modes in (self.cells.below(0.0), self.cells.above())]
        if max(ends) >= 1:
            return limit, math.inf
        return limit, max(abs(noise * noise * end / (1 - end) - limit) for end in ends)
