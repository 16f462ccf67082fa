"""Second moments of an average of the iterates, at the requested epochs, infinity included.

Given the inputs zeta, the mean of the error state z over orders is C zeta, C = E z zeta'. In addition to M = E z z'
and C, the average a is followed without its own mean given zeta, by V_za = E z a' and V_aa = E a a'. An epoch does

    V_za -> left A V_za + X,    V_aa -> left^2 V_aa + left (S V_za + V_za'S') + Y,

where A and S are what the mean over orders makes of z for z and a, `left` is what it leaves of a, and X and Y
depend on M and C alone. Per epoch, a -> kept a + taken u with u the parameters in z: then S = taken A_u, and X and
Y are the covariances V_zu and V_uu after the epoch, times taken and its square. Per visit, state and average go
through the recursion of second moments together. Once M and C are stationary, what is left of the above is squared.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._linalg import few_threads, moving_power
from reshuffle._progress import track
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.moments.lattice import EpochMoments, distance, epoch_moments, is_stationary
from reshuffle.epoch.moments.stationary import stationary
from reshuffle.epoch.timeline import Timeline
from reshuffle.epoch.visits import Inputs


class _Joint(NamedTuple):
    """M (d, d), C (d, inputs), V_za (d, r) and V_aa (r, r) after an epoch."""

    second: FloatArray
    mean: FloatArray
    mixed: FloatArray
    average: FloatArray

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.second).all() and np.isfinite(self.mean).all())

    @property
    def covariance(self) -> FloatArray:
        """V_zz, which may be lost in the rounding of M where orders hardly differ."""
        return _symmetric(self.second - self.mean @ self.mean.T)


class AveragedMoments:
    """Moments of the average of iterates along a timeline, epoch by epoch until the state is stationary."""

    def __init__(self, timeline: Timeline, inputs: Inputs, start: FloatArray):
        assert timeline.recipe.average is not None
        self.timeline, self.average, self.inputs = timeline, timeline.recipe.average, inputs
        self._made: dict[Timeline, EpochMoments] = {}
        visits, self.steps = timeline.visits(0), timeline.walk.steps
        self.rank, self.d = visits.rank, visits.plain_dimension
        # What an epoch leaves of the average, and what it takes of its covariance.
        self.left, self.lost = moving_power(self.average.kept, self.average.updates(self.steps))
        mean = np.zeros((self.d, inputs.count(visits)))
        mean[: self.rank, 0] = start
        nothing = np.zeros((self.d, self.rank))
        self._begin = _Joint(mean[:, :1] @ mean[:, :1].T, mean, nothing, nothing[: self.rank])

    def covariances(self, epochs: FloatArray) -> Iterator[tuple[FloatArray, float]]:
        """The covariance (r, r) of the average over orders at ascending epochs, and its relative error."""
        recipe, now, done, ended = self.timeline.recipe, self._begin, 0, False
        if recipe.is_constant and recipe.at(0).step == 0:
            yield from ((np.zeros((self.rank, self.rank)), 0.0) for _ in epochs)
            return
        for epoch in epochs[np.isfinite(epochs)].astype(int):
            for _ in track(range(done, epoch), epoch - done, "second moments of an average"):
                if ended:
                    break
                now, before = self._after(done, now), now
                done += 1
                is_same = all(is_stationary(*both) for both in zip(now[:2], before[:2], strict=True))
                ended = not now.is_finite or (recipe.is_constant and done > self.average.start and is_same)
            error = 0.0
            if ended and now.is_finite and done < epoch:
                half = np.vstack([now.mixed, now.average / 2])
                half = self._affine_map(now).after(epoch - done, half)
                now = now._replace(mixed=half[: self.d], average=half[self.d :] + half[self.d :].T)
                error = distance(now.covariance, self._end[0].covariance)
            done = epoch
            yield self._covariance(now, epoch), error
        for _ in epochs[np.isinf(epochs)]:
            yield self._limit()

    def _covariance(self, now: _Joint, epoch: float) -> FloatArray:
        divisor = self.average.divisor(epoch, self.steps)
        known = np.isfinite(now.average) & now.is_finite
        return np.where(known, now.average / divisor / divisor, np.inf)

    def _after(self, epoch: int, now: _Joint) -> _Joint:
        """The moments after the epoch that follows `epoch` others."""
        with few_threads(self.d):
            if epoch >= self.average.start and self.average.is_per_visit:
                return self._by_visits(epoch, now)
            d, r, kept, taken = self.d, self.rank, self.average.kept, self.average.taken
            moments = np.hstack([now.second, now.mean])
            moments = moments + self._recursion(self.timeline.plain, epoch).change(moments)
            after = now._replace(second=moments[:, :d], mean=moments[:, d:])
            if epoch < self.average.start:
                return after
            once, spread = self.timeline.plain.map(epoch), after.covariance
            lost = once.left[:, np.newaxis] * (once.kernel @ (once.right[:, np.newaxis] * now.mixed))
            mixed = kept * (now.mixed - lost)
            cross = taken * mixed[:r]
            average = kept**2 * now.average + cross + cross.T + taken**2 * spread[:r, :r]
            return after._replace(mixed=mixed + taken * spread[:, :r], average=average)

    def _recursion(self, timeline: Timeline, epoch: int) -> EpochMoments:
        """Made once where all epochs are alike."""
        if not timeline.recipe.is_constant:
            return epoch_moments(timeline, self.inputs, epoch)
        if timeline not in self._made:
            self._made[timeline] = epoch_moments(timeline, self.inputs, epoch)
        return self._made[timeline]

    def _by_visits(self, epoch: int, now: _Joint) -> _Joint:
        d, r = self.d, self.rank
        mean = np.vstack([now.mean, np.zeros((r, now.mean.shape[1]))])
        joint = np.block([[now.second, now.mixed], [now.mixed.T, now.average]])
        moments = np.hstack([joint, mean])
        after = moments + self._recursion(self.timeline, epoch).change(moments)
        joint, mean = after[:, : d + r], after[:, d + r :]
        beside = joint[:, d:] - mean @ mean[d:].T
        return _Joint(joint[:d, :d], mean[:d], beside[:d], _symmetric(beside[d:]))

    def _affine_map(self, now: _Joint) -> EpochMap:
        """The epoch of V_za and half of V_aa (d + r, r) for a stationary state."""
        d, r, loss = self.d, self.rank, self.timeline.with_inputs(0, None, averages=True).loss
        alone = now._replace(mixed=np.zeros((d, r)), average=np.zeros((r, r)))
        added = self._after(self.average.start, alone)
        kernel = np.zeros((d + r, d + r))
        kernel[:d, :d] = (1 - self.left) * np.eye(d) + self.left * loss[:d, :d]
        kernel[d:, :d] = self.left * loss[d:, :d]
        kernel[d:, d:] = self.lost * np.eye(r)
        entries, ones = np.vstack([added.mixed, added.average / 2]), np.ones(d + r)
        return EpochMap(ones, ones, kernel, entries, 1.0, np.ones(r))

    @cached_property
    def _end(self) -> tuple[_Joint, float]:
        """The limit of the state without its average, and its relative error."""
        begin = self._begin
        moments = np.hstack([begin.second, begin.mean])
        second, mean, error = stationary(self.timeline.plain, self.inputs, moments)
        return begin._replace(second=second, mean=mean), error

    def _limit(self) -> tuple[FloatArray, float]:
        """The limiting covariance and its error; zero for a mean over all epochs, inf if the run diverges."""
        end, error = self._end
        if not end.is_finite or self.left == 1:
            return self._covariance(end, self.average.earliest), 0.0
        half = self._affine_map(end).fixed_point()[self.d :]
        return self._covariance(end._replace(average=half + half.T), np.inf), error


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)
