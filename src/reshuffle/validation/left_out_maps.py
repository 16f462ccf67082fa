"""Rows that are left out where the mean map of an epoch without each of them is known: a matrix per row."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._linalg import power_and_sum
from reshuffle.validation import contour
from reshuffle.validation.descent import Descent
from reshuffle.validation.looks import no_one

_CHUNK = 1 << 22
"""Numbers that are worked on at a time."""


@dataclass(frozen=True, eq=False)
class LeftOutMaps:
    """Without row i an epoch sends c to c - lost_i c + gained_i, on average over the orders.

    Unlike a contour, which must know where the eigenvalues are, this holds for maps that diverge.

    Attributes
    ----------
    features : (n, r)
    responses : (n, t)
        What is left of them at the start.
    lost : (n, r, r)
        Symmetric.
    gained : (n, r, t)
    alone : callable
        () -> which of all rows alone see some direction.
    """

    features: FloatArray
    responses: FloatArray
    lost: FloatArray
    gained: FloatArray
    alone: Callable[[], BoolArray]

    @staticmethod
    def of(descent: Descent, lost: FloatArray, gained: FloatArray) -> "LeftOutMaps":
        """The maps (n, r, r) and (n, r, t) of all rows of a descent."""
        members = np.arange(descent.problem.n)
        features = descent.rows(members)

        def alone() -> BoolArray:
            return no_one(len(members)) if descent.shrinkage else descent.alone

        return LeftOutMaps(features, descent.responses(members, features), lost, gained, alone)

    @property
    def outputs(self) -> int:
        """How many responses a row has."""
        return int(self.gained.shape[2])

    def residuals(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and y_i - x_i'b_i (epochs, rows, t) after each of the finite epochs (k,)."""
        contour.require_within_reach(np.ones(1), epochs)
        yield from self._after(rows, epochs)

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and their residuals (rows, t) in the limit; inf without a limit."""
        for members, found in self._after(rows, np.array([np.inf])):
            yield members, found[0]

    def _after(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        alone, side = self.alone(), self.lost.shape[1]
        height = max(1, _CHUNK // max(1, side * (side + self.outputs) * (1 + len(epochs))))
        for start in range(0, len(rows), height):
            members = rows[start : start + height]
            if not np.isfinite(self.lost[members]).all() or not np.isfinite(self.gained[members]).all():
                yield members, np.full((len(epochs), len(members), self.outputs), np.inf)
                continue
            values, vectors = np.linalg.eigh(self.lost[members])
            gained = np.swapaxes(vectors, 1, 2) @ self.gained[members]
            # Without a row that alone sees a direction nothing moves there, which rounding hides.
            still = np.argmin(np.abs(values), axis=1)[alone[members]]
            saturated = np.flatnonzero(alone[members])
            values[saturated, still], gained[saturated, still] = 0.0, 0.0
            moving = values.copy()
            moving[saturated, still] = np.abs(values).max(initial=0.0)
            if np.isinf(epochs).any():
                contour.require_paces(moving)
            _, sums = power_and_sum(values.ravel(), epochs)
            seen = np.einsum("mr,mrk->mk", self.features[members], vectors)
            with np.errstate(over="ignore", invalid="ignore"):
                parts = (seen[..., np.newaxis] * gained)[np.newaxis] * sums.reshape(-1, *values.shape, 1)
                # Zero times infinity: a direction in which nothing is learned.
                parts = np.where((seen[..., np.newaxis] * gained == 0)[np.newaxis], 0.0, parts)
                found = self.responses[members] - parts.sum(axis=2)
            yield members, np.where(np.isfinite(found), found, np.inf)
