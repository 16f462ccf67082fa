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
    `AffineMap` keeps the digits of slow modes here, too, whatever the number of epochs.

    Parameters
    ----------
    recursion : SecondMoment
    """

    def __init__(self, recursion: SecondMoment):
        visits = recursion.visits
        d, inputs = visits.dimension, recursion.inputs.count(visits)
        self._units = np.hstack(
            [np.outer(visits.right, visits.right), np.outer(visits.right, np.ones(inputs))]
        )
        sizes = visits.left * visits.right
        left = np.hstack([sizes[:, np.newaxis] + sizes, np.tile(sizes[:, np.newaxis], inputs)])
        nothing = np.zeros((d, d + inputs))
        enters = recursion.change(nothing)
        columns = []
        for place in range(nothing.size):
            unit = np.zeros(nothing.size)
            unit[place] = 1.0
            moments = unit.reshape(nothing.shape) / self._units
            # The matrix of a second moment is symmetric, and a recursion may rely on it.
            moments[:, :d] = (moments[:, :d] + moments[:, :d].T) / 2
            columns.append(((recursion.change(moments) - enters) * -self._units / left).ravel())
        entries = (enters * self._units / left).reshape(-1, 1)
        ones = np.ones(nothing.size)
        self._powers = Powers(AffineMap(left.ravel(), ones, np.array(columns).T, entries, 1.0, np.ones(1)))

    def after(self, count: float, moments: FloatArray) -> FloatArray:
        """[M, C] after `count` more epochs; inf where they have left the range of numbers."""
        states = (moments * self._units).reshape(-1, 1)
        made = self._powers.after(count, states).reshape(moments.shape) / self._units
        return np.where(np.isfinite(made), made, np.inf)
