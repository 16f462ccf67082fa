"""Second moments where every step draws its rows from all of them: beside the mean step there is its spread.

With residuals rho = X e - eta the gradient of a drawn row has the covariance X' diag(E rho_i^2) X / n - E g g'
around g = X'rho / n. That of the mean of m rows is a share of it, which the scheme declares: 1 / m if they are
independent, (n - m) / ((n - 1) m) if they are distinct.
"""

from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.epoch.moments.lattice import CentredSource, EpochMoments, Source
from reshuffle.epoch.timeline import Timeline
from reshuffle.epoch.visits import Inputs, MeanVisits


def epoch_moments(timeline: Timeline, inputs: Inputs, epoch: int = 0) -> EpochMoments:
    """The map of second moments by the epoch after `epoch` others of a timeline."""
    drawn = isinstance(timeline.visits(epoch), MeanVisits)
    return (DrawnSteps if drawn else EpochMoments)(timeline, inputs, epoch)


class DrawnSteps(EpochMoments):
    """One epoch of steps that draw their rows, each independently of the others."""

    @cached_property
    def _shares(self) -> FloatArray:
        return self.walk.scheme.variance_shares(self.walk.n)

    @cached_property
    def _gram(self) -> FloatArray:
        return np.asarray(self.visits.unit.T @ self.visits.unit / self.walk.n)

    def drawn(self, number: int, current: FloatArray, source: Source | None) -> FloatArray:
        """The covariance (1, d, s, d) that drawing adds to a visit, beside the second moments before it."""
        r, n, U, W = self.rank, self.walk.n, self.visits.unit, self._gram
        second = current[0, :r, :, :r]
        if isinstance(source, CentredSource):
            mean = source.mean[0] + source.means[number][0, 0]
            second = second + np.outer(mean[:r], mean[:r])[:, np.newaxis]
        seen = (U @ second.reshape(r, -1)).reshape(len(U), -1, r)
        squares = np.einsum("nsi,ni->sn", seen, U)
        gradients = W @ second.swapaxes(0, 1) @ W
        if source is not None:
            of_noise, mixed, own = self._of_inputs(number, source)
            squares, gradients = squares + of_noise, gradients - mixed - mixed.T + own
        covariance = (U.T @ (squares[..., np.newaxis] * U) / n - gradients) * self._shares[number]
        # Every part of the state is pushed by the same gradient, coordinate by coordinate.
        push = self.step(self.layers[number].slot).push
        return np.asarray(np.einsum("ai,sij,bj->aisbj", push, covariance, push).reshape(current.shape))

    def _of_inputs(self, number: int, source: Source) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The parts of noise or given responses in E rho_i^2 (n,) and E g g' (r, r): mixed, and their own."""
        r, n, U, W, inputs = self.rank, self.walk.n, self.visits.unit, self._gram, self.inputs
        if inputs.given is not None:
            mean, pushed = (source.mean[0] + source.means[number][0, 0])[:r], U.T @ inputs.given / n
            squares = inputs.given * (inputs.given - 2 * (U @ mean))
            return squares, np.outer(W @ mean, pushed), np.outer(pushed, pushed)
        if not len(source.noise):
            return np.zeros(n), np.zeros((r, r)), np.zeros((r, r))
        cross = inputs.noise * (source.noise + source.noises[number][0])[:, :r]
        squares = inputs.noise**2 - 2 * np.einsum("ij,ij->i", U, cross)
        return squares, W @ (cross.T @ U) / n, inputs.noise**2 / n * W
