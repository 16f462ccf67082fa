"""Second moments of a run over samples that are shuffled and cut into two batches, exactly."""

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.epoch.accuracy import A_SECOND
from reshuffle.epoch.epoch import Epoch
from reshuffle.epoch.moments import two_shuffled_batches
from reshuffle.epoch.moments.stationary import ROUNDS, Enclosure, ModePart, positive_radius
from reshuffle.epoch.moments.two_shuffled_batches import TwoShuffledBatches


def halves(epoch: Epoch, noise: float = 0.0) -> TwoShuffledBatches:
    """One epoch in row-space coordinates."""
    scale, n = epoch.problem.row_space.scale, epoch.problem.n
    (m1, m2), (d1, d2) = epoch.scheme.sizes(n).tolist(), epoch.scheme.step_divisors(n).tolist()
    return TwoShuffledBatches(epoch.blocks.rows, (m1, m2), (d1, d2), epoch.step * scale * scale, noise)


class TwoBatchMoment:
    """The recursion of second moments, as `streams.reshuffled` asks for it."""

    def __init__(self, epoch: Epoch, noise: float):
        self.noise, self._halves, self._modes = noise, halves(epoch, noise), epoch.modes.vectors
        self.basis = np.eye(len(self._modes))

    def inlet(self, noise_map: FloatArray) -> FloatArray:
        """Through which noise enters each mode, (n, r)."""
        return noise_map.T

    def epoch(self, second: FloatArray, source: FloatArray) -> FloatArray:
        """E e e' (r, r) after an epoch; before it, E e eta' is the modes times the inlet."""
        after = second + self._halves.change(second, self._modes @ source.T)
        # What is not symmetric is rounding, and would grow.
        return np.asarray((after + after.T) / 2)


def radii(epoch: Epoch, budget: float) -> tuple[Enclosure, Enclosure]:
    """The rate and the gain of the spread, where the mean converges."""
    change, rank = halves(epoch).change, len(epoch.paces)
    part = ModePart(epoch.paces, epoch.modes.vectors)
    rounds = int(min(ROUNDS, max(budget, A_SECOND) / (2 * two_shuffled_batches.flops(epoch.problem.n, rank))))
    rate = positive_radius(lambda matrix: matrix + change(matrix), rank, rounds=max(rounds, 1))

    def positive(matrix: FloatArray) -> FloatArray:
        return part.solve(change(matrix) - part.change(matrix))

    gain = positive_radius(positive, rank, unit=1.0, rounds=max(rounds, 1))
    return rate, gain
