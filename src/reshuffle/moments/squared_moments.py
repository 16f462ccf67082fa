"""Second moments after any number of epochs, where the state is small: an epoch as a matrix, and its powers."""

import numpy as np

from reshuffle.arrays import FloatArray
from reshuffle.moments.affine_map import AffineMap, Powers
from reshuffle.moments.second_moment import SecondMoment

MOST_MOMENTS = 400
"""Joint moments [M, C] up to which their epoch is written out as a matrix."""


class SquaredMoments:
    """The affine map that an epoch is on [M, C] (d, d + z), in units in which all moments are of ordinary size.

    With D = L K R the parts of [M, C] times R change by L R times something of ordinary size, as the mean does: so
    `AffineMap` keeps the digits of slow modes here, too, whatever the number of epochs. M is symmetric, and known
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
        looked_at = np.where(of_state, _size(entries[of_state]), _size(entries[~of_state]))
        with np.errstate(over="ignore", invalid="ignore"):
            # A single epoch may leave the range of numbers: then so do all after it.
            columns = [
                (entries - self._changed(size * unit)) / size
                for size, unit in zip(looked_at, np.eye(len(entries)), strict=True)
            ]
        left = self._left[self._upper]
        kernel, right = np.array(columns).T, np.ones(len(left))
        self._powers = Powers(AffineMap(left, right, kernel, entries[:, np.newaxis], 1.0, np.ones(1)))

    def _changed(self, packed: FloatArray) -> FloatArray:
        """What an epoch adds to moments, divided by their sizes L R, both in their units and packed."""
        change = self._recursion.change(self._unpacked(packed))
        return np.asarray((change * self._units / self._left)[self._upper])

    def _unpacked(self, packed: FloatArray) -> FloatArray:
        moments, d = np.zeros(self._upper.shape), self._state
        moments[self._upper] = packed
        moments[:, :d] += np.triu(moments[:, :d], 1).T
        return np.asarray(moments / self._units)

    def after(self, count: float, moments: FloatArray) -> FloatArray:
        """[M, C] after `count` more epochs; inf where they have left the range of numbers."""
        packed = (moments * self._units)[self._upper][:, np.newaxis]
        made = self._unpacked(self._powers.after(count, packed)[:, 0])
        return np.where(np.isfinite(made), made, np.inf)


def _size(entries: FloatArray) -> float:
    return float(np.abs(entries).max(initial=0.0)) or 1.0
