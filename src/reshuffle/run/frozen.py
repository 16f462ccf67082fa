"""What is never learned, and whether the paper's assumption about it holds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._core import checks
from reshuffle._core.arrays import FloatArray
from reshuffle.problem.row_space import RowSpace


@dataclass(frozen=True)
class RangeAssumption:
    """Whether Range(Xtilde') lies in Range(Z), as Theorem batch_dynamics assumes.

    `violation` is what lies outside, |P_0 Xtilde'| relative to |X|. Where the assumption fails the noise in those
    directions adds up without end, k times after k epochs.
    """

    holds: bool
    violation: float


@dataclass(frozen=True, eq=False)
class FrozenSubspace:
    """The null space of Z, in which the error never fades.

    Under the range assumption the iterate does not move there at all; without it the noise drifts on.
    """

    dimension: int
    _space: RowSpace
    _modes: FloatArray

    def __repr__(self) -> str:
        return f"FrozenSubspace(dimension={self.dimension})"

    def project(self, vector: ArrayLike) -> FloatArray:
        """P_{Z,0} v, for v of shape (p,), without a p x p matrix."""
        vector = checks.vector("vector", vector, self._space.p, "one entry per parameter")
        inside = self._modes @ (self._modes.T @ self._space.coordinates(vector))
        return self._space.outside(vector) + self._space.lift(inside)


def nothing_frozen(p: int) -> FrozenSubspace:
    """Under a penalty everything moves."""
    return FrozenSubspace(0, RowSpace(p, p, 1.0, None), np.zeros((p, 0)))
