"""Moments of a run at the requested epochs, infinity included, and those of an average of its iterates.

Given the inputs zeta, the mean of the error state z over orders is C zeta, C = E z zeta'. Beside M = E z z' and C
the average a is followed without its own mean given zeta, by V_za = E z a' and V_aa = E a a'. An epoch does

    V_za -> left A V_za + X,    V_aa -> left^2 V_aa + left (S V_za + V_za'S') + Y,

where A and S are what the mean over orders makes of z for z and a, `left` is what it leaves of a, and X and Y
depend on M and C alone. Per epoch, a -> kept a + taken u with u the parameters in z: then S = taken A_u, and X and
Y are the covariances V_zu and V_uu after the epoch, times taken and its square. Per visit, state and average go
through the recursion of second moments together. Once M and C are stationary, what is left of the above is squared.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._linalg import few_threads, moving_power
from reshuffle._progress import track
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.moments.lattice import EpochMoments, epoch_moments, is_stationary
from reshuffle.epoch.moments.matrix import MOST_ENTRIES, FarMoments
from reshuffle.epoch.moments.stationary import MeanPart, fixed_point
from reshuffle.epoch.timeline import Timeline, through_stages
from reshuffle.epoch.visits import Inputs

_UNCHANGED = 1e-15
"""Relative change in an epoch below which the next ones are not worth their time."""


class Snapshot(NamedTuple):
    """Second moment or covariance (r, r) of the parameters at one time, their mean (r,), and the relative error."""

    matrix: FloatArray
    mean: FloatArray
    error: float = 0.0


def moments_along(
    stages: Sequence[Timeline], inputs: Inputs, start: FloatArray, epochs: FloatArray, centred: bool = False
) -> Iterator[Snapshot]:
    """E u u' and E u over orders and noise at ascending epochs, infinity included, from u_0 (r,).

    Centred, the covariance of u over the orders in place of E u u', given the responses.
    """
    visits = stages[0].visits(0)
    d = visits.dimension
    current = np.zeros((d, d + inputs.count(visits)))
    current[: visits.rank, d] = start
    if not centred:
        current[:, :d] = np.outer(current[:, d], current[:, d])
    for stage, local, requested in through_stages([one.length for one in stages], epochs):
        found = _along(stages[stage], inputs, current, local, centred)
        for number, (snapshot, reached) in enumerate(found):
            current = reached
            if number < requested:
                yield snapshot


def squared_moments(dimension: int, is_noisy: bool, epochs: FloatArray) -> int:
    """The number of moments whose epoch is squared as a matrix, where they are few and the epochs far; else 0."""
    last = float(epochs[np.isfinite(epochs)].max(initial=0.0))
    count = dimension * (dimension + 1) // 2 + dimension * (1 + dimension * is_noisy)
    return count if count <= MOST_ENTRIES and last > 4 * count else 0


def _along(
    timeline: Timeline, inputs: Inputs, begin: FloatArray, epochs: FloatArray, centred: bool
) -> Iterator[tuple[Snapshot, FloatArray]]:
    """The results at each of the epochs of one scheme, and the moments [M, C] or [V, m] there."""
    recursion, d = epoch_moments(timeline, inputs), len(begin)
    rank, constant, step = timeline.visits(0).rank, timeline.recipe.is_constant, timeline.recipe.at(0).step
    current, done, ended = begin, 0, False
    far: FarMoments | None = None
    may_square = constant and step > 0 and not centred and not begin[:, d + 1 :].any()
    if may_square and squared_moments(d, inputs.noise > 0, epochs):
        far = FarMoments(recursion, timeline.map(0), begin)
    last: Snapshot | None = None
    for epoch in epochs:
        if np.isfinite(epoch) and far is not None:
            current = far.after(epoch)
        elif np.isfinite(epoch):
            for passed in track(range(done, int(epoch)), int(epoch) - done, "second moments"):
                if ended:
                    break
                made = recursion if constant else epoch_moments(timeline, inputs, passed)
                with np.errstate(over="ignore", invalid="ignore"):
                    before, current = current, current + made.change(current, centred)
                is_finite = bool(np.isfinite(current).all())
                ended = not is_finite or (constant and is_stationary(current, before, _UNCHANGED))
            done = int(epoch)
        if last is None and (np.isinf(epoch) or (ended and np.isfinite(current).all())):
            matrix, mean, error = current[:, :d], current[:, d:], 0.0
            if step:
                matrix, mean, error = stationary(timeline, inputs, begin, centred)
            last = Snapshot(matrix[:rank, :rank], mean[:rank, 0], error)
        if last is not None and np.isinf(epoch):
            yield last, current
            return
        inside = current[:rank, :rank]
        yield (
            Snapshot(inside, current[:rank, d], 0.0 if last is None else _distance(inside, last[0])),
            current,
        )


def _distance(here: FloatArray, end: FloatArray) -> float:
    """The distance of a matrix that seems stationary from its limit, relative to its size."""
    size = float(np.abs(here).max(initial=0.0))
    return float(np.abs(here - end).max(initial=0.0)) / size if size else 0.0


def stationary(
    timeline: Timeline, inputs: Inputs, begin: FloatArray, centred: bool = False
) -> tuple[FloatArray, FloatArray, float]:
    """The limits of M or V (d, d) and of C or m from [M, C] or [V, m], and the error of the first; inf if none."""
    d = len(begin)
    if not timeline.converges:
        return np.full((d, d), np.inf), np.full((d, begin.shape[1] - d), np.inf), 0.0
    once, start = timeline.map(0), begin[:, :d]
    if inputs.given is not None:
        once = once.with_inputs(np.concatenate([[inputs.constant], inputs.given])[:, np.newaxis])
    cross = once.fixed_point()
    cross[:, 1:] *= inputs.noise
    if centred:
        # What orders do to the way there is what they would do to a covariance.
        apart = begin[:, d:] - cross
        start = start + apart @ apart.T
    change = epoch_moments(timeline, inputs).change_beside(cross, centred)
    matrix, error = fixed_point(change, MeanPart(once), start)
    return matrix, cross, error


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
                is_same = all(
                    is_stationary(*both, _UNCHANGED) for both in zip(now[:2], before[:2], strict=True)
                )
                ended = not now.is_finite or (recipe.is_constant and done > self.average.start and is_same)
            error = 0.0
            if ended and now.is_finite and done < epoch:
                half = np.vstack([now.mixed, now.average / 2])
                half = self._affine_map(now).after(epoch - done, half)
                now = now._replace(mixed=half[: self.d], average=half[self.d :] + half[self.d :].T)
                error = _distance(now.covariance, self._end[0].covariance)
            done = epoch
            yield self._covariance(now, epoch), error
        for _ in epochs[np.isinf(epochs)]:
            yield self._limit()

    def _covariance(self, now: _Joint, epoch: float) -> FloatArray:
        divisor = self.average.divisor(epoch, self.steps)
        known = np.isfinite(now.average) & now.is_finite
        return np.where(known, now.average / divisor / divisor, np.inf)

    def _after(self, epoch: int, now: _Joint) -> _Joint:
        """After the epoch that comes after `epoch` others."""
        with few_threads(self.d), np.errstate(over="ignore", invalid="ignore"):
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
        """The epoch of V_za and half of V_aa (d + r, r) beside a stationary state."""
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
        """The limit of the state with nothing averaged beside it, and its relative error."""
        begin = self._begin
        moments = np.hstack([begin.second, begin.mean])
        second, mean, error = stationary(self.timeline.plain, self.inputs, moments)
        return begin._replace(second=second, mean=mean), error

    def _limit(self) -> tuple[FloatArray, float]:
        """After infinitely many epochs: a mean over all of them knows no orders, if their mean square converges."""
        end, error = self._end
        if not end.is_finite or self.left == 1:
            return self._covariance(end, self.average.earliest), 0.0
        half = self._affine_map(end).fixed_point()[self.d :]
        return self._covariance(end._replace(average=half + half.T), np.inf), error


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)
