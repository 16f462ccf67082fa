"""What the random orders do to an average of the iterates: its covariance around the mean over orders.

Given the inputs zeta, the mean of the error state z over orders is C zeta, C = E z zeta'. Beside M = E z z' and C
the average a is followed without its own mean given zeta, by V_za = E z a' and V_aa = E a a'. An epoch does

    V_za -> left A V_za + X,    V_aa -> left^2 V_aa + left (S V_za + V_za'S') + Y,

where A and S are what the mean over orders makes of z for z and a, `left` is what it leaves of a, and X and Y
depend on M and C alone. Per epoch, a -> kept a + taken u with u the parameters in z: then S = taken A_u, and X and
Y are the covariances V_zu and V_uu after the epoch, times taken and its square. Per visit, state and average go
through the recursion of second moments together. Once M and C stand, what is left of the above is squared.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._blas import few_threads
from reshuffle._linalg import moving_power
from reshuffle._progress import track
from reshuffle.epoch.course import AveragedCourse
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.moments.snapshots import second_moment, stationary
from reshuffle.epoch.visits import Inputs

_STILL = 1e-15
"""Relative change in an epoch below which the next ones are not worth their time."""


@dataclass(frozen=True, eq=False)
class Spread:
    """The covariance (r, r) of the average over orders at one time, and its error relative to its size."""

    covariance: FloatArray
    error: float = 0.0


@dataclass(frozen=True, eq=False)
class _Joint:
    """What is known after an epoch.

    Attributes
    ----------
    second : (d, d)
        M.
    mean : (d, inputs)
        C.
    mixed : (d, r)
        V_za.
    average : (r, r)
        V_aa.
    """

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

    def alone(self) -> "_Joint":
        """The same state with nothing averaged beside it."""
        return replace(self, mixed=np.zeros_like(self.mixed), average=np.zeros_like(self.average))


def spreads(
    course: AveragedCourse, inputs: Inputs, start: FloatArray, epochs: FloatArray
) -> Iterator[Spread]:
    """The covariance of the average at each of the ascending epochs, from the error e_0 (r,)."""
    if course.recipe.is_constant and course.recipe.at(0).step == 0:
        return (Spread(np.zeros((course.rank, course.rank))) for _ in epochs)
    return _Follower(course, inputs).spreads(start, epochs)


class _Follower:
    """Moments along one course, epoch by epoch until the state stands."""

    def __init__(self, course: AveragedCourse, inputs: Inputs):
        self.course, self.average, self.inputs = course, course.average, inputs
        self.rank, self.d, self.steps = course.rank, course.state, course.walk.steps
        # What an epoch leaves of the average, and what it takes of its covariance.
        self.left, self.lost = moving_power(self.average.kept, self.average.updates(self.steps))

    def spreads(self, start: FloatArray, epochs: FloatArray) -> Iterator[Spread]:
        """Follow the moments to each of the epochs."""
        now, done, stands = self._begin(start), 0, False
        self._start = now.second
        for epoch in epochs[np.isfinite(epochs)].astype(int):
            for _ in track(range(done, epoch), epoch - done, "second moments of an average"):
                if stands:
                    break
                now, before = self._onward(done, now), now
                done += 1
                stands = not now.is_finite or (done > self.average.start and self._stands(before, now))
            error = 0.0
            if stands and now.is_finite and done < epoch:
                now = self._leap(now, epoch - done)
                error = _distance(now.covariance, self._end[0].covariance)
            done = epoch
            yield self._spread(now, epoch, error)
        for _ in epochs[np.isinf(epochs)]:
            yield self._forever()

    def _begin(self, start: FloatArray) -> _Joint:
        d, r = self.d, self.rank
        mean = np.zeros((d, self.inputs.count(self.course.source.visits(0))))
        mean[:r, 0] = start
        return _Joint(mean[:, :1] @ mean[:, :1].T, mean, np.zeros((d, r)), np.zeros((r, r)))

    def _stands(self, before: _Joint, now: _Joint) -> bool:
        """Whether an epoch like the last one changes next to nothing of the state."""
        return self.course.recipe.is_constant and all(
            float(np.abs(new - old).max(initial=0.0)) <= _STILL * float(np.abs(new).max(initial=0.0))
            for new, old in ((now.second, before.second), (now.mean, before.mean))
        )

    def _spread(self, now: _Joint, epoch: float, error: float = 0.0) -> Spread:
        divisor = self.average.divisor(epoch, self.steps)
        known = np.isfinite(now.average) & now.is_finite
        return Spread(np.where(known, now.average / divisor / divisor, np.inf), error)

    def _onward(self, epoch: int, now: _Joint) -> _Joint:
        """After the epoch that comes after `epoch` others."""
        with few_threads(self.d), np.errstate(over="ignore", invalid="ignore"):
            if epoch < self.average.start:
                return self._state_after(epoch, now)
            return self._by_visits(epoch, now) if self.average.is_per_visit else self._by_epochs(epoch, now)

    def _state_after(self, epoch: int, now: _Joint) -> _Joint:
        recursion = second_moment(self.course.plain, self.inputs, epoch)
        after = recursion.epoch(np.hstack([now.second, now.mean]))
        return replace(now, second=after[:, : self.d], mean=after[:, self.d :])

    def _by_epochs(self, epoch: int, now: _Joint) -> _Joint:
        kept, taken, r = self.average.kept, self.average.taken, self.rank
        after, once = self._state_after(epoch, now), self.course.plain.map(epoch)
        spread = after.covariance
        lost = once.left[:, np.newaxis] * (once.kernel @ (once.right[:, np.newaxis] * now.mixed))
        mixed = kept * (now.mixed - lost)
        cross = taken * mixed[:r]
        average = kept**2 * now.average + cross + cross.T + taken**2 * spread[:r, :r]
        return replace(after, mixed=mixed + taken * spread[:, :r], average=average)

    def _by_visits(self, epoch: int, now: _Joint) -> _Joint:
        d, r = self.d, self.rank
        recursion = second_moment(self.course.source, self.inputs, epoch)
        mean = np.vstack([now.mean, np.zeros((r, now.mean.shape[1]))])
        joint = np.block([[now.second, now.mixed], [now.mixed.T, now.average]])
        after = recursion.epoch(np.hstack([joint, mean]))
        joint, mean = after[:, : d + r], after[:, d + r :]
        beside = joint[:, d:] - mean @ mean[d:].T
        return _Joint(joint[:d, :d], mean[:d], beside[:d], _symmetric(beside[d:]))

    def _leap(self, now: _Joint, count: int) -> _Joint:
        """After so many epochs more of a state that stands: V_za, and half of V_aa, move by an affine map."""
        d, r, loss = self.d, self.rank, self.course.followed.map(0).loss
        added = self._onward(self.average.start, now.alone())
        kernel = np.zeros((d + r, d + r))
        kernel[:d, :d] = (1 - self.left) * np.eye(d) + self.left * loss[:d, :d]
        kernel[d:, :d] = self.left * loss[d:, :d]
        kernel[d:, d:] = self.lost * np.eye(r)
        entries, ones = np.vstack([added.mixed, added.average / 2]), np.ones(d + r)
        once = EpochMap(ones, ones, kernel, entries, 1.0, np.ones(r))
        after = once.after(count, np.vstack([now.mixed, now.average / 2]))
        return replace(now, mixed=after[:d], average=after[d:] + after[d:].T)

    @cached_property
    def _end(self) -> tuple[_Joint, float]:
        """Where the state ends, and the relative error of that."""
        second, mean, error = stationary(self.course.plain, self.inputs, self._start)
        nothing = np.zeros((self.rank, self.rank))
        return _Joint(second, mean, np.zeros((self.d, self.rank)), nothing), error

    def _forever(self) -> Spread:
        """After infinitely many epochs: a mean over all of them knows no orders, if their mean square settles."""
        end, error = self._end
        if not end.is_finite or self.left == 1:
            return self._spread(end, self.average.earliest)
        loss = self.course.plain.map(0).loss
        added = self._onward(0, end).mixed
        mixed = np.asarray(np.linalg.solve((1 - self.left) * np.eye(self.d) + self.left * loss, added))
        average = self._onward(0, replace(end, mixed=mixed)).average / self.lost
        return self._spread(replace(end, average=average), np.inf, error)


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)


def _distance(here: FloatArray, end: FloatArray) -> float:
    """How far, relative to its size, a covariance that seems to stand still is from where it ends."""
    size = float(np.abs(here).max(initial=0.0))
    return float(np.abs(here - end).max(initial=0.0)) / size if size else 0.0
