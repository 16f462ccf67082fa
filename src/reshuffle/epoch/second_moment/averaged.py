"""What the random orders do to an average of the iterates: its covariance around the mean over orders.

Given the inputs zeta the mean error state is C zeta, C = E z zeta', and its covariance over orders and noise alike
is V = E z z' - C C'. The average a beside it is followed by the joint covariance of z and a; what is certain of a
has no part in that, so only C of the state is needed. Per epoch, a -> kept a + taken u with u the parameters in
z, and what a has to do with the next epoch it has through z alone:

    V_za -> kept A V_za + taken V_zu,    V_aa -> kept^2 V_aa + kept taken (A V_za + ...)_u + taken^2 V_uu,

with A the mean map of the epoch and V_zz that after it. Per visit, state and average go through the recursion of
second moments together.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from reshuffle._core import FloatArray
from reshuffle._core.averaged_powers import moving_power
from reshuffle._core.progress import track
from reshuffle._core.threads import few_threads
from reshuffle.epoch.affine.affine_map import AffineMap
from reshuffle.epoch.affine.averaged_course import AveragedCourse
from reshuffle.epoch.affine.outside import Inputs
from reshuffle.epoch.second_moment.streams import second_moment, stationary

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
    state : (d, d)
        V_zz.
    mixed : (d, r)
        V_za.
    average : (r, r)
        V_aa.
    mean : (d, inputs)
        C.
    """

    state: FloatArray
    mixed: FloatArray
    average: FloatArray
    mean: FloatArray

    def is_near(self, other: "_Joint") -> bool:
        """Whether all but the average are the same, up to rounding."""
        pairs = zip((self.state, self.mixed, self.mean), (other.state, other.mixed, other.mean), strict=True)
        return all(
            float(np.abs(one - two).max(initial=0.0)) <= _STILL * float(np.abs(one).max(initial=0.0))
            for one, two in pairs
        )

    @property
    def is_finite(self) -> bool:
        return bool(np.isfinite(self.state).all() and np.isfinite(self.mean).all())


def spreads(
    course: AveragedCourse, inputs: Inputs, start: FloatArray, epochs: FloatArray
) -> Iterator[Spread]:
    """The covariance of the average at each of the ascending epochs, from the error e_0 (r,)."""
    return _Follower(course, inputs).spreads(start, epochs)


class _Follower:
    """Moments along one course, epoch by epoch."""

    def __init__(self, course: AveragedCourse, inputs: Inputs):
        self.course, self.average, self.inputs = course, course.average, inputs
        self.rank, self.d, self.steps = course.rank, course.state, course.walk.steps
        # What is left of the average in an epoch, and what that leaves of its covariance.
        self.left, self.lost = moving_power(self.average.kept, self.average.updates(self.steps))
        self._end_error = 0.0

    def spreads(self, start: FloatArray, epochs: FloatArray) -> Iterator[Spread]:
        """Follow the moments to each of the epochs."""
        recipe, done, stands = self.course.recipe, 0, False
        now = self._begin(start)
        end: _Joint | None = None
        for epoch in epochs:
            if np.isinf(epoch):
                yield self._in_the_end(now if recipe.at(0).step == 0 else end)
                continue
            for _ in track(range(done, int(epoch)), int(epoch) - done, "second moments of an average"):
                if stands:
                    break
                now, before = self._onward(done, now), now
                done += 1
                stands = not now.is_finite or (
                    recipe.is_constant and done > self.average.start and now.is_near(before)
                )
            error = 0.0
            if stands and done < epoch and now.is_finite:
                end = self._end() if end is None else end
                error = _distance(now.state, end.state)
                now = replace(now, average=self._leap(now, int(epoch) - done))
            done = max(done, int(epoch))
            yield self._spread(now, epoch, error)

    def _begin(self, start: FloatArray) -> _Joint:
        d, r = self.d, self.rank
        mean = np.zeros((d, self.inputs.count(self.course.source.visits(0))))
        mean[:r, 0] = start
        return _Joint(np.zeros((d, d)), np.zeros((d, r)), np.zeros((r, r)), mean)

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
        after = recursion.epoch(np.hstack([now.state + now.mean @ now.mean.T, now.mean]))
        mean = after[:, self.d :]
        return replace(now, state=_symmetric(after[:, : self.d] - mean @ mean.T), mean=mean)

    def _by_epochs(self, epoch: int, now: _Joint) -> _Joint:
        kept, taken, r = self.average.kept, self.average.taken, self.rank
        after = self._state_after(epoch, now)
        mixed = kept * _applied(self.course.plain.map(epoch), now.mixed)
        cross = taken * mixed[:r]
        average = kept**2 * now.average + cross + cross.T + taken**2 * after.state[:r, :r]
        return replace(after, mixed=mixed + taken * after.state[:, :r], average=average)

    def _by_visits(self, epoch: int, now: _Joint) -> _Joint:
        d, r = self.d, self.rank
        recursion = second_moment(self.course.source, self.inputs, epoch)
        mean = np.vstack([now.mean, np.zeros((r, now.mean.shape[1]))])
        joint = np.block([[now.state, now.mixed], [now.mixed.T, now.average]])
        after = recursion.epoch(np.hstack([joint + mean @ mean.T, mean]))
        mean = after[:, d + r :]
        joint = _symmetric(after[:, : d + r] - mean @ mean.T)
        return _Joint(joint[:d, :d], joint[:d, d:], joint[d:, d:], mean[:d])

    def _leap(self, now: _Joint, count: int) -> FloatArray:
        """V_aa after so many epochs more of a state that stands: what is left of it, and as often what is added."""
        added = self._added(now)
        if self.left == 1:
            return now.average + count * added
        power, lost = moving_power(self.average.kept, count * self.average.updates(self.steps))
        return power**2 * now.average + (lost / self.lost) * added

    def _added(self, now: _Joint) -> FloatArray:
        """What an epoch adds to V_aa."""
        nothing = replace(now, average=np.zeros_like(now.average))
        return self._onward(self.average.start, nothing).average

    def _end(self) -> _Joint:
        """Where the state ends."""
        second, mean, self._end_error = stationary(self.course.plain, self.inputs)
        d, r = self.d, self.rank
        if not np.isfinite(second).all():
            second = np.full((d, d), np.inf)
            return _Joint(second, np.full((d, r), np.inf), np.full((r, r), np.inf), mean)
        spread = _symmetric(second - mean @ mean.T)
        return _Joint(spread, np.zeros((d, r)), np.zeros((r, r)), mean)

    def _in_the_end(self, known: _Joint | None) -> Spread:
        """After infinitely many epochs: a mean over all of them knows no orders, if their mean square settles."""
        end = self._end() if known is None else known
        if not end.is_finite or not self.average.begins_with_iterate:
            return self._spread(replace(end, average=np.zeros_like(end.average)), self.average.earliest)
        added = self._onward(0, replace(end, mixed=np.zeros_like(end.mixed))).mixed
        loss = self.course.plain.map(0).loss
        mixed = np.asarray(np.linalg.solve((1 - self.left) * np.eye(self.d) + self.left * loss, added))
        average = self._added(replace(end, mixed=mixed)) / self.lost
        return self._spread(replace(end, average=average), np.inf, self._end_error)


def _applied(once: AffineMap, columns: FloatArray) -> FloatArray:
    """A M (d, c), where nothing enters."""
    return np.asarray(
        columns - once.left[:, np.newaxis] * (once.kernel @ (once.right[:, np.newaxis] * columns))
    )


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)


def _distance(here: FloatArray, end: FloatArray) -> float:
    """How far, relative to its size, a covariance that seems to stand still is from where it ends."""
    size = float(np.abs(here).max(initial=0.0))
    return float(np.abs(here - end).max(initial=0.0)) / size if size else 0.0
