"""The mean square of one pass over fresh Gaussian samples, mode by mode."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._linalg import power_and_sum
from reshuffle.asymptotics.streaming.coupled_paces import coupled_paces
from reshuffle.asymptotics.streaming.grouped_modes import Modes

_CHUNK = 1 << 20
"""Entries of (steps, modes) arrays that are worked on at a time."""


@dataclass(frozen=True, eq=False)
class FreshSamples:
    """r_j, the risk in each node, after steps of a constant size on batches of m fresh samples.

    With a_j = 1 - 2 s l_j + s^2 (1 + 1/m) l_j^2 for a node at l_j, and g_j its gain s^2/m sum lambda^2,

        r_j' = a_j r_j + g_j (R + noise^2),    R = sum_j r_j.

    In the variables r_j / sqrt(g_j) the map is symmetric, a diagonal plus one square, so that the roots of one
    secular equation answer for every number of steps.
    """

    modes: Modes
    batch_size: float
    step: float
    noise: float

    @cached_property
    def paces(self) -> FloatArray:
        """1 - a_j, what a step takes off the squares of each node, gradients' noise aside."""
        scaled = self.step * self.modes.eigenvalues
        return scaled * (2 - (1 + 1 / self.batch_size) * scaled)

    @cached_property
    def gains(self) -> FloatArray:
        """g_j, what a step adds per unit of R + noise^2."""
        return self.step**2 / self.batch_size * self.modes.gain

    @cached_property
    def _decomposition(self) -> tuple[FloatArray, ...]:
        """Paces of the coupled modes, and how their start and the noise are seen in the risk."""
        moving = self.gains > 0
        return coupled_paces(self.paces[moving], self.gains[moving], self.modes.start[moving])

    @property
    def frozen(self) -> float:
        """The risk in nodes that no step moves; zero, since a null eigenvalue has no risk."""
        return float(self.modes.start[self.gains == 0].sum())

    def risk(self, steps: FloatArray) -> FloatArray:
        """The expected risk after each of the given finite steps (t,)."""
        paces, start, noise = self._decomposition
        risk = np.empty(len(steps))
        height = max(1, _CHUNK // len(paces))
        with np.errstate(over="ignore", invalid="ignore"):
            for begin in range(0, len(steps), height):
                part = slice(begin, begin + height)
                power, total = power_and_sum(paces, steps[part])
                risk[part] = power @ start + self.noise**2 * (total @ noise)
        risk += self.frozen
        return np.where(np.isnan(risk), np.inf, np.maximum(risk, 0.0))


@dataclass(frozen=True, eq=False)
class StepByStep:
    """The same recursion one step after the other, for steps that change and for momentum.

    With momentum mu a visit is v' = mu v + g, e' = e - s v', with g the mean gradient of the batch, and the moments
    E e^2, E e v and E v^2 of every mode close. In risk units, multiplied by lambda, with q = R + noise^2,

        w' = mu^2 w + 2 mu l c + (1 + 1/m) l^2 r + (sum lambda^2 / m) q      (v' v')
        e v' = mu c + l r,      c' = e v' - s w',      r' = r - 2 s e v' + s^2 w'.
    """

    modes: Modes
    batch_size: float
    steps: FloatArray
    momentum: float
    noise: float

    def risk(self, wanted: FloatArray) -> FloatArray:
        """The expected risk after each of the given steps (t,), whole numbers up to len(self.steps)."""
        path = self.path(int(wanted.max(initial=0)))
        return np.asarray(path[wanted.astype(int)])

    def path(self, last: int) -> FloatArray:
        """The expected risk after 0, 1, ..., `last` steps."""
        values, share = self.modes.eigenvalues, 1 / self.batch_size
        twice, injected = (1 + share) * values**2, share * self.modes.gain
        risks, crosses, squares = self.modes.start.copy(), np.zeros(len(values)), np.zeros(len(values))
        path = np.empty(last + 1)
        path[0] = risks.sum()
        with np.errstate(over="ignore", invalid="ignore"):
            for index in range(last):
                step = self.steps[index]
                if self.momentum:
                    squares *= self.momentum**2
                    squares += 2 * self.momentum * values * crosses
                    squares += twice * risks
                    squares += (path[index] + self.noise**2) * injected
                    crosses = self.momentum * crosses + values * risks
                else:
                    squares = twice * risks + (path[index] + self.noise**2) * injected
                    crosses = values * risks
                risks = risks - 2 * step * crosses + step**2 * squares
                crosses -= step * squares
                path[index + 1] = risks.sum()
                if not math.isfinite(path[index + 1]):
                    path[index + 1 :] = math.inf
                    break
        return path
