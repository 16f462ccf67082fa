"""The risk of an error that is known by its moments inside the row space, and by itself outside."""

from copy import copy

import numpy as np

from reshuffle._core.arrays import BoolArray, FloatArray
from reshuffle._core.threads import few_threads
from reshuffle.problem.covariance import Covariance
from reshuffle.problem.row_space import RowSpace

_UNSEEN = 1e-14
"""Weight of a coordinate, relative to the largest, that is mere rounding."""


class Readout:
    """|V u / scale + o|_Sigma^2 for the error u (r,) inside the row space and o (p,) outside.

    Outside, nothing but a penalty acts: o = fade start - beta_star, both without what X sees of them.

    Parameters
    ----------
    space : RowSpace
    covariance : Covariance
    start, beta_star : (p,)
    """

    def __init__(self, space: RowSpace, covariance: Covariance, start: FloatArray, beta_star: FloatArray):
        self.space = space
        with few_threads(np.sqrt(space.p * space.dimension)):
            self.gram = covariance.gram(space.lift(np.eye(space.dimension)))
        sizes = np.abs(self.gram).max(axis=0, initial=0.0)
        self._unseen: BoolArray = sizes <= _UNSEEN * sizes.max(initial=0.0)
        ends = np.stack([space.outside(start), space.outside(beta_star)])
        # In a unit of their own, so that their squares are numbers.
        self._unit = float(np.abs(ends).max()) or 1.0
        weighted = covariance.apply((ends / self._unit).T)
        self._outer = (ends / self._unit) @ weighted
        self._inner = space.coordinates(weighted)

    def turned(self, basis: FloatArray) -> "Readout":
        """The same for errors in the coordinates of an orthonormal basis (r, r) of the row space."""
        turned = copy(self)
        turned.gram = basis.T @ self.gram @ basis
        turned._unseen = np.full(len(basis), not self.gram.any())
        turned._inner = basis.T @ self._inner
        return turned

    def outside(self, fade: float) -> float:
        """|o|_Sigma^2."""
        if np.isinf(fade) and self._outer[0, 0] > 0:
            return np.inf
        weights = self._weights(fade)
        with np.errstate(over="ignore", invalid="ignore"):
            value = self._unit * (self._unit * max(float(weights @ self._outer @ weights), 0.0))
        return value if np.isfinite(value) else np.inf

    def _weights(self, fade: float) -> FloatArray:
        """Of start and beta_star; where nothing starts outside nothing can grow there."""
        return np.array([fade if np.isfinite(fade) else 0.0, -1.0])

    def between(self, mean: FloatArray, fade: float) -> float:
        """2 o'Sigma V u / scale, for the mean u of the errors."""
        seen = np.where(self._unseen, 0.0, mean)
        with np.errstate(over="ignore", invalid="ignore"):
            along = float((self._inner @ self._weights(fade)) @ (seen / self.space.scale))
        return 2 * self._unit * along

    def inside(self, second: FloatArray) -> float:
        """The trace of Sigma and the second moment V E[u u'] V' / scale^2."""
        seen = np.where(self._unseen | self._unseen[:, np.newaxis], 0.0, second)
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(np.vdot(self.gram, seen / self.space.scale / self.space.scale))
        return value if np.isfinite(value) else np.inf

    def size(self, second: FloatArray) -> float:
        """The sum of the sizes of the terms of `inside`, to which its rounding is relative."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.vdot(np.abs(self.gram), np.abs(second / self.space.scale / self.space.scale)))

    def inside_of(self, columns: FloatArray) -> float:
        """The sum of |V u / scale|_Sigma^2 over the columns u of (r, c)."""
        # What Sigma does not see may grow as it likes.
        seen = np.where(self._unseen[:, np.newaxis], 0.0, columns)
        with few_threads(len(self.gram)), np.errstate(over="ignore", invalid="ignore"):
            unit = seen / self.space.scale
            value = float(np.vdot(unit, self.gram @ unit))
        return max(value, 0.0) if np.isfinite(value) else np.inf
