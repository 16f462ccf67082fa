"""The second moment of the state over orders and noise, epoch after epoch.

With white inputs zeta, the joint moments M = E z z' and C = E z zeta' of the error state z go through a visit as
M -> G M G' + G C H' + H C'G' + H H', C -> G C + H, and their means over the orders through an epoch by the walk of
the scheme, with no order enumerated.
"""

from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._blas import few_threads
from reshuffle.epoch.averaging.lattice import Process, Walk
from reshuffle.epoch.epoch_map import EpochMap, average
from reshuffle.epoch.visits import Inputs, Visits


class SecondMoment:
    """One epoch of the joint second moments, kept side by side as [M, C], (d, d + z)."""

    def __init__(self, walk: Walk, visits: Visits, inputs: Inputs):
        self.walk, self.n, self.visits, self.inputs = walk, walk.n, visits, inputs
        self._entries: dict[tuple[int, int], tuple[IntArray, FloatArray]] = {}

    def _entry(self, batch: int, slot: int) -> tuple[IntArray, FloatArray]:
        """Which inputs enter at a visit, and how."""
        key = batch, slot if self.visits.hyperparameters.shares else 0
        if key not in self._entries:
            self._entries[key] = self.inputs.entry(self.visits, *key)
        return self._entries[key]

    def start(self, error: FloatArray) -> FloatArray:
        """[M, C] of a certain state (d,)."""
        cross = np.zeros((len(error), self.inputs.count(self.visits)))
        cross[:, 0] = error
        return np.hstack([np.outer(error, error), cross])

    @property
    def largest_entry(self) -> float:
        """The size of what enters at a single visit."""
        entries = (self._entry(batch, 0)[1] for batch in range(self.visits.count))
        return max((float(np.abs(entry).max(initial=0.0)) for entry in entries), default=0.0)

    def epoch(self, moments: FloatArray) -> FloatArray:
        """[M, C] after one more epoch."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(moments + self.change(moments))

    def change(self, moments: FloatArray) -> FloatArray:
        """What one more epoch adds to [M, C], as a sum of what its visits do: small where the epoch does little."""
        d = self.visits.dimension

        def visit(batch: int, change: FloatArray, slot: int) -> FloatArray:
            return change + self._visit(batch, moments + change, slot)

        with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
            change = self.walk.of(Process(visit, average, np.zeros_like(moments)))
            change[:, :d] = (change[:, :d] + change[:, :d].T) / 2
        return change

    def congruence_change(self, matrix: FloatArray) -> FloatArray:
        """E[A M A'] - M (..., d, d) alone: what an epoch does to second moments when nothing enters."""

        def visit(batch: int, change: FloatArray, slot: int) -> FloatArray:
            return change + self.conjugation(batch, matrix + change, slot)

        with few_threads(self.visits.dimension), np.errstate(over="ignore", invalid="ignore"):
            change = self.walk.of(Process(visit, average, np.zeros_like(matrix)))
            return np.asarray((change + change.swapaxes(-1, -2)) / 2)

    def conjugation(self, batch: int, matrix: FloatArray, slot: int) -> FloatArray:
        """What a visit adds to M (..., d, d), symmetric, if nothing enters: G M G' - M = -D M - (D (G M)')'."""
        lost = self._lost(batch, matrix, slot)
        return -lost - self._lost(batch, (matrix - lost).swapaxes(-1, -2), slot).swapaxes(-1, -2)

    def motion(self, batch: int, state: FloatArray, slot: int) -> FloatArray:
        """What a visit adds to the mean of a state (d, 1), if the responses are given."""
        return np.asarray(self._entry(batch, slot)[1] - self.visits.loss(batch, state, slot))

    def scatter(self, batch: int, state: FloatArray, slot: int) -> FloatArray:
        """The covariance (d, d) that a visit to a certain state (d, 1) draws, if the responses are given."""
        return np.zeros((len(state), len(state)))

    def _lost(self, batch: int, matrix: FloatArray, slot: int) -> FloatArray:
        """D M for M (..., d, d), in one call: beside each other they are the columns of one matrix."""
        if matrix.ndim == 2:
            return self.visits.loss(batch, matrix, slot)
        columns = np.moveaxis(matrix, -2, 0)
        lost = self.visits.loss(batch, columns.reshape(len(columns), -1), slot)
        return np.moveaxis(lost.reshape(columns.shape), 0, -2)

    def _visit(self, batch: int, moments: FloatArray, slot: int) -> FloatArray:
        d = self.visits.dimension
        columns, entry = self._entry(batch, slot)
        change = -self.visits.loss(batch, moments, slot)
        after = moments + change
        mixed = after[:, d + columns] @ entry.T
        change[:, :d] -= self.visits.loss(batch, after[:, :d].T, slot).T
        change[:, :d] += mixed + mixed.T + entry @ entry.T
        change[:, d + columns] += entry
        return change


class DrawnSecondMoment(SecondMoment):
    """The same where every step draws its rows from all of them: beside the mean step there is its spread.

    With rho = C e - eta the residuals, the gradient of a drawn row has the covariance
    C' diag(E rho_i^2) C / n - E g g' around g = C' rho / n. That of the mean of m rows is a share of it, which the
    scheme declares: 1 / m if they are independent, (n - m) / ((n - 1) m) if they are distinct.

    Parameters
    ----------
    walk : Walk
    visits : Visits
        Of one block of all rows, uncompressed: `MeanVisits`, perhaps with an average beside them.
    """

    def __init__(self, walk: Walk, visits: Visits, inputs: Inputs):
        super().__init__(walk, visits, inputs)
        self.shares: list[float] = walk.scheme.variance_shares(walk.n).tolist()

    def _visit(self, batch: int, moments: FloatArray, slot: int) -> FloatArray:
        r, d = self.visits.rank, self.visits.dimension
        second, cross = moments[:r, :r], moments[:r, d:]
        squares = self.inputs.residual_squares(self.visits.blocks.rows, second, cross)
        change = super()._visit(0, moments, slot)
        change[:, :d] += self._spread(self._mean_gradient(second, cross), squares, slot)
        return change

    def conjugation(self, batch: int, matrix: FloatArray, slot: int) -> FloatArray:
        """What the mean step and its spread add to M (..., d, d) if nothing enters."""
        rows, r = self.visits.blocks.rows, self.visits.rank
        second = matrix[..., :r, :r]
        squares = np.einsum("...ij,ij->...i", rows @ second, rows)
        W = self._gram
        return super().conjugation(0, matrix, slot) + self._spread(W @ second @ W.T, squares, slot)

    def motion(self, batch: int, state: FloatArray, slot: int) -> FloatArray:
        """What the mean step adds to the mean of a state (d, 1)."""
        return super().motion(0, state, slot)

    def scatter(self, batch: int, state: FloatArray, slot: int) -> FloatArray:
        """The covariance (d, d) of the steps that may be drawn at a certain state (d, 1)."""
        assert self.inputs.given is not None
        residuals = self.visits.blocks.rows @ state[: self.visits.rank, 0] - self.inputs.given
        gradient = self.visits.unit.T @ residuals / self.n
        return self._spread(np.outer(gradient, gradient), np.square(residuals), slot)

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

    def _spread(self, mean: FloatArray, squares: FloatArray, slot: int) -> FloatArray:
        """What drawing the rows of a visit adds to second moments of the state (..., d, d)."""
        visits, unit = self.visits, self.visits.unit
        covariance = (unit.T @ (squares[..., np.newaxis] * unit) / self.n - mean) * self.shares[slot]
        # Every part of the state is pushed by the same gradient, coordinate by coordinate.
        push = visits.left * visits.pushed(np.ones(visits.rank), slot)
        parts = visits.dimension // max(visits.rank, 1)
        return np.asarray(push[:, np.newaxis] * np.tile(covariance, (parts, parts)) * push)


MOST_MOMENTS = 400
"""Joint moments [M, C] up to which their epoch is written out as a matrix."""


class SquaredMoments:
    """The affine map that an epoch is on [M, C] (d, d + z), in units in which all moments are of ordinary size.

    With D = L K R the parts of [M, C] times R change by L R times something of ordinary size, as the mean does: so
    `EpochMap` keeps the digits of slow modes here, too, whatever the number of epochs. M is symmetric, and known
    by its upper half.

    Parameters
    ----------
    recursion : SecondMoment
    """

    def __init__(self, recursion: SecondMoment):
        visits = recursion.visits
        d, inputs = visits.dimension, recursion.inputs.count(visits)
        ones = np.ones(inputs)
        self._units = np.hstack([np.outer(visits.right, visits.right), np.outer(visits.right, ones)])
        sizes = visits.left * visits.right
        self._left = np.hstack([np.add.outer(sizes, sizes), np.outer(sizes, ones)])
        self._upper = np.hstack([np.triu(np.ones((d, d), dtype=bool)), np.ones((d, inputs), dtype=bool)])
        self._recursion, self._state = recursion, d
        entries = self._changed(np.zeros(self._upper.sum()))
        # What is looked at is as large as what enters beside it, lest one be lost in the rounding of the other.
        of_state = np.nonzero(self._upper)[1] < d
        # What enters at the single visits may cancel in an epoch, and then leaves its rounding behind.
        pushed = np.float64(recursion.largest_entry) / (visits.left.min(initial=np.inf) or 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            of_squares = _size(np.append(entries[of_state], pushed**2 * sizes.max(initial=0.0)))
            looked_at = np.where(of_state, of_squares, _size(np.append(entries[~of_state], pushed)))
            # A single epoch may leave the range of numbers: then so do all after it.
            columns = [
                (entries - self._changed(size * unit)) / size
                for size, unit in zip(looked_at, np.eye(len(entries)), strict=True)
            ]
        left = self._left[self._upper]
        kernel, right = np.array(columns).reshape(len(left), len(left)).T, np.ones(len(left))
        # Means know nothing of squares: what a difference says beside zero is the rounding of what enters.
        kernel[np.ix_(~of_state, of_state)] = 0.0
        self._map = EpochMap(left, right, kernel, entries[:, np.newaxis], 1.0, np.ones(1))

    def _changed(self, packed: FloatArray) -> FloatArray:
        """What an epoch adds to moments, divided by their sizes L R, both in their units and packed."""
        change = self._recursion.change(self._unpacked(packed))
        return np.asarray((change * self._units / self._left)[self._upper])

    def _unpacked(self, packed: FloatArray) -> FloatArray:
        moments, d = np.zeros(self._upper.shape), self._state
        moments[self._upper] = packed
        moments[:, :d] += np.triu(moments[:, :d], 1).T
        with np.errstate(over="ignore"):
            return np.asarray(moments / self._units)

    def after(self, count: float, moments: FloatArray) -> FloatArray:
        """[M, C] after `count` more epochs; inf where they have left the range of numbers."""
        packed = (moments * self._units)[self._upper][:, np.newaxis]
        made = self._unpacked(self._map.after(count, packed)[:, 0])
        return np.where(np.isfinite(made), made, np.inf)


def _size(entries: FloatArray) -> float:
    return float(np.abs(entries).max(initial=0.0)) or 1.0
