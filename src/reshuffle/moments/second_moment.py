"""The second moment of the state over orders and noise, epoch after epoch.

With white inputs zeta, the joint moments M = E z z' and C = E z zeta' of the error state z go through a visit as
M -> G M G' + G C H' + H C'G' + H H', C -> G C + H, and their means over the orders through an epoch by the walk of
the scheme, with no order enumerated.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from reshuffle.arrays import FloatArray
from reshuffle.moments.affine_map import average
from reshuffle.moments.inputs import Inputs
from reshuffle.moments.visits import DrawnVisits, Visits
from reshuffle.schemes import Scheme


class SecondMoment:
    """One epoch of the joint second moments, kept side by side as [M, C], (d, d + z)."""

    def __init__(self, scheme: Scheme, n: int, visits: Visits, inputs: Inputs):
        self.scheme, self.n, self.visits, self.inputs = scheme, n, visits, inputs
        self._entries = [inputs.entry(visits, batch) for batch in range(visits.blocks.batches)]

    def start(self, error: FloatArray) -> FloatArray:
        """[M, C] of a certain state (d,)."""
        cross = np.zeros((len(error), self.inputs.count(self.visits)))
        cross[:, 0] = error
        return np.hstack([np.outer(error, error), cross])

    def epoch(self, moments: FloatArray) -> FloatArray:
        """[M, C] after one more epoch."""
        d = self.visits.dimension
        with np.errstate(over="ignore", invalid="ignore"):
            after = self.scheme.walk(self.n, self._visit, average, moments)
            after[:, :d] = (after[:, :d] + after[:, :d].T) / 2
        return after

    def congruence(self, matrix: FloatArray) -> FloatArray:
        """E[A M A'] (d, d) alone: what an epoch makes of a second moment when nothing enters."""
        with np.errstate(over="ignore", invalid="ignore"):
            after = self.scheme.walk(self.n, self._conjugate, average, matrix)
            return np.asarray((after + after.T) / 2)

    def _conjugate(self, batch: int, matrix: FloatArray) -> FloatArray:
        # The matrix is symmetric, so that moving the columns of (G M)' gives G M G'.
        return self.visits.move(batch, self.visits.move(batch, matrix).T)

    def _visit(self, batch: int, moments: FloatArray) -> FloatArray:
        d = self.visits.dimension
        columns, entry = self._entries[batch]
        after = self.visits.move(batch, moments)
        mixed = after[:, d + columns] @ entry.T
        after[:, :d] = self.visits.move(batch, after[:, :d].T)
        after[:, :d] += mixed + mixed.T + entry @ entry.T
        after[:, d + columns] += entry
        return after


class DrawnSecondMoment(SecondMoment):
    """The same where every step draws its rows with replacement: beside the mean step there is its spread.

    With rho = C e - eta the residuals, the gradient of m independent rows has the covariance
    ( C' diag(E rho_i^2) C / n - E g g' ) / m around g = C' rho / n.

    Parameters
    ----------
    sizes : sequence of int
        How many rows each step draws.
    visits : DrawnVisits
        Of one block of all rows, uncompressed.
    """

    def __init__(self, scheme: Scheme, n: int, visits: DrawnVisits, inputs: Inputs, sizes: Sequence[int]):
        super().__init__(scheme, n, visits, inputs)
        self.visits: DrawnVisits = visits
        self.sizes = sizes

    def _visit(self, batch: int, moments: FloatArray) -> FloatArray:
        r, d = self.visits.rank, self.visits.dimension
        second, cross = moments[:r, :r], moments[:r, d:]
        squares = self.inputs.residual_squares(self.visits.blocks.rows, second, cross)
        after = super()._visit(0, moments)
        after[:, :d] += self._spread(self._mean_gradient(second, cross), squares, self.sizes[batch])
        return after

    def _conjugate(self, batch: int, matrix: FloatArray) -> FloatArray:
        rows, r = self.visits.blocks.rows, self.visits.rank
        second = matrix[:r, :r]
        squares = np.einsum("ij,ij->i", rows @ second, rows)
        W = self._gram
        return super()._conjugate(0, matrix) + self._spread(W @ second @ W.T, squares, self.sizes[batch])

    @cached_property
    def _gram(self) -> FloatArray:
        """g^-1 W (r, r), which makes gradients in their own units of errors."""
        return np.asarray(self.visits.unit.T @ self.visits.blocks.rows / self.n)

    def _mean_gradient(self, second: FloatArray, cross: FloatArray) -> FloatArray:
        """E g g' (r, r), for the gradient of the loss on all rows, in its own units."""
        unit, inputs, W = self.visits.unit, self.inputs, self._gram
        if inputs.given is not None:
            pushed = unit.T @ inputs.given / self.n
            mixed = np.outer(W @ cross[:, 0], pushed)
            own = np.outer(pushed, pushed)
        else:
            mixed = inputs.noise * (W @ cross[:, 1:] @ unit) / self.n
            own = inputs.noise**2 * (unit.T @ unit) / self.n**2
        return np.asarray(W @ second @ W.T - mixed - mixed.T + own)

    def _spread(self, mean: FloatArray, squares: FloatArray, size: int) -> FloatArray:
        """What drawing so many rows adds to the second moment of the state (d, d)."""
        visits, unit = self.visits, self.visits.unit
        covariance = (unit.T @ (squares[:, np.newaxis] * unit) / self.n - mean) / size
        signs = np.array([[1.0]]) if visits.momentum == 0 else np.array([[1.0, -1.0], [-1.0, 1.0]])
        return np.asarray(visits.left[:, np.newaxis] * np.kron(signs, covariance) * visits.left)
