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
from reshuffle.threads import few_threads


class SecondMoment:
    """One epoch of the joint second moments, kept side by side as [M, C], (d, d + z)."""

    def __init__(self, scheme: Scheme, n: int, visits: Visits, inputs: Inputs):
        self.scheme, self.n, self.visits, self.inputs = scheme, n, visits, inputs
        self._entries = [inputs.entry(visits, batch) for batch in range(visits.count)]

    def start(self, error: FloatArray) -> FloatArray:
        """[M, C] of a certain state (d,)."""
        cross = np.zeros((len(error), self.inputs.count(self.visits)))
        cross[:, 0] = error
        return np.hstack([np.outer(error, error), cross])

    def epoch(self, moments: FloatArray) -> FloatArray:
        """[M, C] after one more epoch."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(moments + self.change(moments))

    def change(self, moments: FloatArray) -> FloatArray:
        """What one more epoch adds to [M, C], as a sum of what its visits do: small where the epoch does little."""
        d = self.visits.dimension

        def visit(batch: int, change: FloatArray) -> FloatArray:
            return change + self._visit(batch, moments + change)

        with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
            change = self.scheme.walk(self.n, visit, average, np.zeros_like(moments))
            change[:, :d] = (change[:, :d] + change[:, :d].T) / 2
        return change

    def congruence_change(self, matrix: FloatArray) -> FloatArray:
        """E[A M A'] - M (..., d, d) alone: what an epoch does to second moments when nothing enters."""

        def visit(batch: int, change: FloatArray) -> FloatArray:
            return change + self._conjugate(batch, matrix + change)

        with few_threads(self.visits.dimension), np.errstate(over="ignore", invalid="ignore"):
            change = self.scheme.walk(self.n, visit, average, np.zeros_like(matrix))
            return np.asarray((change + change.swapaxes(-1, -2)) / 2)

    def _conjugate(self, batch: int, matrix: FloatArray) -> FloatArray:
        """G M G' - M = -D M - (D (G M)')', for symmetric M (..., d, d)."""
        lost = self._lost(batch, matrix)
        return -lost - self._lost(batch, (matrix - lost).swapaxes(-1, -2)).swapaxes(-1, -2)

    def _lost(self, batch: int, matrix: FloatArray) -> FloatArray:
        """D M for M (..., d, d), in one call: beside each other they are the columns of one matrix."""
        if matrix.ndim == 2:
            return self.visits.loss(batch, matrix)
        columns = np.moveaxis(matrix, -2, 0)
        lost = self.visits.loss(batch, columns.reshape(len(columns), -1))
        return np.moveaxis(lost.reshape(columns.shape), 0, -2)

    def _visit(self, batch: int, moments: FloatArray) -> FloatArray:
        d = self.visits.dimension
        columns, entry = self._entries[batch]
        change = -self.visits.loss(batch, moments)
        after = moments + change
        mixed = after[:, d + columns] @ entry.T
        change[:, :d] -= self.visits.loss(batch, after[:, :d].T).T
        change[:, :d] += mixed + mixed.T + entry @ entry.T
        change[:, d + columns] += entry
        return change


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
        change = super()._visit(0, moments)
        change[:, :d] += self._spread(self._mean_gradient(second, cross), squares, self.sizes[batch])
        return change

    def _conjugate(self, batch: int, matrix: FloatArray) -> FloatArray:
        rows, r = self.visits.blocks.rows, self.visits.rank
        second = matrix[..., :r, :r]
        squares = np.einsum("...ij,ij->...i", rows @ second, rows)
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
        """What drawing so many rows adds to second moments of the state (..., d, d)."""
        visits, unit = self.visits, self.visits.unit
        covariance = (unit.T @ (squares[..., np.newaxis] * unit) / self.n - mean) / size
        signs = np.array([[1.0]]) if visits.momentum == 0 else np.array([[1.0, -1.0], [-1.0, 1.0]])
        return np.asarray(visits.left[:, np.newaxis] * np.kron(signs, covariance) * visits.left)
