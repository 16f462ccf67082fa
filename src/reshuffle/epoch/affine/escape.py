"""What grows without bound along a course, and what is left without it.

Where the map does not settle, the eigenvalues x of D with |1 - x| >= 1 have a right and a left invariant
subspace: D W = W T, Y D = T Y, Y W = I. What a state has of them is Y z; D - W T Y is the map without them. In
the factors of `AffineMap` W is L times, and Y is R times, something of ordinary size, so that the kernel of the
remaining map loses no digits either.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np
import scipy.linalg

from reshuffle._arrays import BoolArray, FloatArray
from reshuffle.epoch.affine.affine_map import AffineMap, Powers, settling

_ROUNDING = 1e-12
"""Relative size of what rounding makes of nothing."""


class Escape:
    """The growing part of a map, and the rest.

    Parameters
    ----------
    once : AffineMap
        Finite.
    """

    def __init__(self, once: AffineMap):
        self.map = once
        self._roots = np.sqrt(once.left) * np.sqrt(once.right)
        growing, right, left = self._subspaces()
        self._right, self._left = right, left
        with np.errstate(over="ignore", invalid="ignore"):
            self._kernel = once.kernel - right @ growing @ left
            # The inputs of the remaining map, without what they push into the growing part.
            self._entries = once.entries - right @ (left @ (once.grades[:, np.newaxis] * once.entries))
        sizes = np.abs(right)
        self._reached: BoolArray = (sizes > _ROUNDING * sizes.max(axis=0, initial=0.0)).any(axis=1)

    def _subspaces(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """T (g, g), W / L^1/2 R^1/2 (d, g) and Y / L^1/2 R^1/2 (g, d), in the coordinates of the graded D."""
        graded, roots = self.map.graded, self._roots[:, np.newaxis]
        size = max(float(np.abs(graded).max()), self.map.weight * float(self.map.grades.max()))
        # An eigenvalue that is lost in rounding is small because features are, or it is zero: nothing moves.
        tiny = int((np.abs(self.map.eigenvalues) <= _ROUNDING * size).sum())
        floor = _ROUNDING * size if tiny <= (self.map.grades <= 1e3 * _ROUNDING * size).sum() else -1.0

        def grows(real: float, imaginary: float) -> bool:
            x = complex(real, imaginary)
            stands = floor < 0 and abs(x) <= _ROUNDING * size
            return stands or (abs(x) > floor and not settling(np.asarray(x)))

        schur, vectors, count = scipy.linalg.schur(graded, output="real", sort=grows, check_finite=False)
        growing, rest = schur[:count, :count], schur[count:, count:]
        mixed = scipy.linalg.solve_sylvester(growing, -rest, schur[:count, count:])
        right: FloatArray = vectors[:, :count]
        left: FloatArray = vectors[:, :count].T + mixed @ vectors[:, count:].T
        if floor < 0:
            return growing, right / roots, left / roots.T
        # W = D W T^-1 has the rows of D, and Y = T^-1 Y D its columns: small ones with all their digits.
        right = np.linalg.solve(growing.T, (self.map.kernel @ (roots * right)).T).T.astype(np.float64)
        left = np.linalg.solve(growing, (left * roots.T) @ self.map.kernel).astype(np.float64)
        return growing, right, left

    def _grows(self, states: FloatArray) -> BoolArray:
        """Which of the states (d, z) are displaced in the growing part at all, by more than rounding."""
        once = self.map
        seen = once.right[:, np.newaxis] * states
        # Two sizes are compared: what both are multiplied by may be any.
        grades = once.grades / (once.grades.max() or 1.0)
        part = self._left @ (grades[:, np.newaxis] * (once.kernel @ seen - once.entries))
        size = once.weight * np.abs(seen).max(axis=0, initial=0.0) + once.entry_sizes
        floor = (np.abs(self._left) @ grades)[:, np.newaxis] * size
        return np.asarray((np.abs(part) > _ROUNDING * floor).any(axis=0))

    @cached_property
    def _rest(self) -> Powers:
        """The map in which what grows is forgotten at once, D - W T Y + W Y: no trace of it may be left to grow."""
        return Powers(
            replace(self.map, kernel=self._kernel + self._right @ self._left, entries=self._entries)
        )

    def _staying(self, states: FloatArray) -> FloatArray:
        """What is in the growing part of states (d, z) and is not displaced there."""
        once = self.map
        units = np.sqrt(once.right)[:, np.newaxis] / np.sqrt(once.left)[:, np.newaxis]
        part = (self._left * self._roots) @ (units * states)
        stays = (self._roots[:, np.newaxis] * self._right) @ part / units
        return np.where(self._grows(states), 0.0, stays)

    def after(self, count: float, states: FloatArray) -> FloatArray:
        """The states (d, z) after so many applications, infinity included; inf where they grow."""
        if np.isfinite(count):
            rest = self._rest.after(count, states)
        else:
            rest = self._rest.map.fixed_point() if self._rest.map.settles else np.full_like(states, np.inf)
        reached = self._reached[:, np.newaxis] & self._grows(states)
        return np.where(reached, np.inf, rest + self._staying(states))
