"""Moments of a run at the requested epochs, infinity included, and those of an average of its iterates.

Given the inputs zeta, the mean of the error state z over orders is C zeta, C = E z zeta'. Beside M = E z z' and C
the average a is followed without its own mean given zeta, by V_za = E z a' and V_aa = E a a'. An epoch does

    V_za -> left A V_za + X,    V_aa -> left^2 V_aa + left (S V_za + V_za'S') + Y,

where A and S are what the mean over orders makes of z for z and a, `left` is what it leaves of a, and X and Y
depend on M and C alone. Per epoch, a -> kept a + taken u with u the parameters in z: then S = taken A_u, and X and
Y are the covariances V_zu and V_uu after the epoch, times taken and its square. Per visit, state and average go
through the recursion of second moments together. Once M and C stand, what is left of the above is squared.
"""

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray
from reshuffle._linalg import few_threads, moving_power
from reshuffle._progress import track
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.moments.independent import epoch_moments
from reshuffle.epoch.moments.lattice import EpochMoments
from reshuffle.epoch.moments.matrix import MOST_ENTRIES, FarMoments
from reshuffle.epoch.moments.stationary import MeanPart, fixed_point
from reshuffle.epoch.timeline import Timeline, through_stages
from reshuffle.epoch.visits import Inputs
from reshuffle.problem.least_squares import Covariance
from reshuffle.problem.row_space import RowSpace

_STILL = 1e-15
"""Relative change in an epoch below which the next ones are not worth their time."""
_UNSEEN = 1e-14
"""Weight of a coordinate, relative to the largest, that is mere rounding."""


class Readout:
    """|V u / scale + o|_Sigma^2 for the error u (r,) inside the row space and o (p,) outside.

    Outside, nothing but a penalty acts: o = fade start - beta_star, both without what X sees of them.

    Parameters
    ----------
    space : RowSpace
    covariance : Covariance
    start, beta_star : (p,)
    """

    def __init__(self, space: RowSpace, covariance: Covariance, start: FloatArray, beta_star: FloatArray):
        self.space = space
        with few_threads(np.sqrt(space.p * space.dimension)):
            self.gram = covariance.gram(space.lift(np.eye(space.dimension)))
        sizes = np.abs(self.gram).max(axis=0, initial=0.0)
        self._unseen: BoolArray = sizes <= _UNSEEN * sizes.max(initial=0.0)
        ends = np.stack([space.outside(start), space.outside(beta_star)])
        # In a unit of their own, so that their squares are numbers.
        self._unit = float(np.abs(ends).max()) or 1.0
        weighted = covariance.apply((ends / self._unit).T)
        self._outer = (ends / self._unit) @ weighted
        self._inner = space.coordinates(weighted)

    def turned(self, basis: FloatArray) -> "Readout":
        """A copy for errors in the coordinates of an orthonormal basis (r, r) of the row space."""
        turned = copy(self)
        turned.gram = basis.T @ self.gram @ basis
        turned._unseen = np.full(len(basis), not self.gram.any())
        turned._inner = basis.T @ self._inner
        return turned

    def outside(self, fade: float) -> float:
        """|o|_Sigma^2."""
        if np.isinf(fade) and self._outer[0, 0] > 0:
            return np.inf
        weights = self._weights(fade)
        with np.errstate(over="ignore", invalid="ignore"):
            value = self._unit * (self._unit * max(float(weights @ self._outer @ weights), 0.0))
        return value if np.isfinite(value) else np.inf

    def _weights(self, fade: float) -> FloatArray:
        """Of start and beta_star; where nothing starts outside nothing can grow there."""
        return np.array([fade if np.isfinite(fade) else 0.0, -1.0])

    def between(self, mean: FloatArray, fade: float) -> float:
        """2 o'Sigma V u / scale, for the mean u of the errors."""
        seen = np.where(self._unseen, 0.0, mean)
        with np.errstate(over="ignore", invalid="ignore"):
            along = float((self._inner @ self._weights(fade)) @ (seen / self.space.scale))
        return 2 * self._unit * along

    def inside(self, second: FloatArray) -> float:
        """The trace of Sigma and the second moment V E[u u'] V' / scale^2."""
        seen = np.where(self._unseen | self._unseen[:, np.newaxis], 0.0, second)
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(np.vdot(self.gram, seen / self.space.scale / self.space.scale))
        return value if np.isfinite(value) else np.inf

    def size(self, second: FloatArray) -> float:
        """The sum of the sizes of the terms of `inside`, to which its rounding is relative."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(np.vdot(np.abs(self.gram), np.abs(second / self.space.scale / self.space.scale)))

    def inside_of(self, columns: FloatArray) -> float:
        """The sum of |V u / scale|_Sigma^2 over the columns u of (r, c)."""
        # What Sigma does not see may grow as it likes.
        seen = np.where(self._unseen[:, np.newaxis], 0.0, columns)
        with few_threads(len(self.gram)), np.errstate(over="ignore", invalid="ignore"):
            unit = seen / self.space.scale
            value = float(np.vdot(unit, self.gram @ unit))
        return max(value, 0.0) if np.isfinite(value) else np.inf

    def risks(self, states: FloatArray, fade: float, noise: float) -> FloatArray:
        """The risk of each of several states (k, r, 1 + rows): of the mean, and of the noise in each row."""
        used = states if noise else states[..., :1]
        with few_threads(len(self.gram)), np.errstate(over="ignore", invalid="ignore"):
            seen = np.where(self._unseen[:, np.newaxis], 0.0, used) / self.space.scale
            seen[..., 1:] *= noise
            squares = np.einsum("kij,kij->k", seen, self.gram @ seen)
            along = 2 * self._unit * (seen[..., 0] @ (self._inner @ self._weights(fade)))
            totals = np.maximum(np.maximum(squares, 0.0) + along + self.outside(fade), 0.0)
        return np.where(np.isfinite(squares) & np.isfinite(totals), totals, np.inf)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Second moment or covariance (r, r) and mean (r,) of scale V'(beta - beta_star) at one time.

    `error` is that of the matrix relative to its size.
    """

    second: FloatArray
    mean: FloatArray
    error: float = 0.0


def second_moments(
    stages: Sequence[Timeline], inputs: Inputs, start: FloatArray, epochs: FloatArray
) -> Iterator[Snapshot]:
    """E z z' and E z over orders and noise at ascending epochs, from the error u_0 (r,)."""
    visits = stages[0].visits(0)
    state = np.zeros(visits.dimension)
    state[: visits.rank] = start
    moments = epoch_moments(stages[0], inputs).start(state)
    return _followed(stages, inputs, moments, epochs, EpochMoments.change, _end_of_second)


def covariances(
    stages: Sequence[Timeline], responses: FloatArray, start: FloatArray, epochs: FloatArray
) -> Iterator[Snapshot]:
    """Covariance and mean of the parameters u over the orders at ascending epochs, from u_0 (r,).

    Parameters
    ----------
    stages : list of Timeline
        With fresh orders in every epoch.
    responses : (rows,)
        Of the rows of its blocks.
    start : (r,)
    epochs : (k,)
        Infinity included, which asks for the fixed point.
    """
    rank, d = stages[0].visits(0).rank, stages[0].visits(0).dimension
    moments = np.zeros((d, d + 1))
    moments[:rank, d] = start
    inputs = Inputs(np.zeros(rank), given=responses)
    return _followed(stages, inputs, moments, epochs, EpochMoments.covariance_change, _end_of_covariance)


Change: TypeAlias = Callable[[EpochMoments, FloatArray], FloatArray]
"""What an epoch adds to moments, kept side by side as [M, C] or [V, m]."""
End: TypeAlias = Callable[[Timeline, Inputs, FloatArray], tuple[FloatArray, FloatArray, float]]
"""Where moments end from those at the start: matrix, mean, and the relative error of the matrix."""


def _followed(
    stages: Sequence[Timeline],
    inputs: Inputs,
    moments: FloatArray,
    epochs: FloatArray,
    change: Change,
    end: End,
) -> Iterator[Snapshot]:
    """Follow moments through the stages, each from where the one before it has ended."""
    for stage, local, requested in through_stages([one.length for one in stages], epochs):
        reached = moments
        found = _along(stages[stage], inputs, moments, local, change, end)
        for number, (snapshot, current) in enumerate(found):
            reached = current
            if number < requested:
                yield snapshot
        moments = reached


def _along(
    timeline: Timeline, inputs: Inputs, begin: FloatArray, epochs: FloatArray, change: Change, end: End
) -> Iterator[tuple[Snapshot, FloatArray]]:
    """The results at each of the epochs, and the moments there, from those at the start."""
    recursion, d = epoch_moments(timeline, inputs), len(begin)
    rank, constant = timeline.visits(0).rank, timeline.recipe.is_constant
    current, done, stands = begin, 0, False
    far: FarMoments | None = None
    moves = d > 0 and constant and timeline.recipe.at(0).step > 0 and not begin[:, d + 1 :].any()
    if moves and change is EpochMoments.change and leaps(d, inputs.noise > 0, epochs):
        far = FarMoments(recursion, timeline.map(0), begin)
    last: Snapshot | None = None
    for epoch in epochs:
        if np.isfinite(epoch) and far is not None:
            current = far.after(epoch)
        elif np.isfinite(epoch):
            for passed in track(range(done, int(epoch)), int(epoch) - done, "second moments"):
                if stands:
                    break
                made = recursion if constant else epoch_moments(timeline, inputs, passed)
                with np.errstate(over="ignore", invalid="ignore"):
                    before, current = current, current + change(made, current)
                    moved = float(np.abs(current - before).max(initial=0.0))
                size = float(np.abs(current).max(initial=0.0))
                stands = not np.isfinite(size) or (constant and moved <= _STILL * size)
            done = int(epoch)
        if last is None and (np.isinf(epoch) or (stands and np.isfinite(current).all())):
            matrix, mean, error = current[:, :d], current[:, d], 0.0
            if timeline.recipe.at(0).step:
                matrix, mean, error = end(timeline, inputs, begin)
            last = Snapshot(matrix[:rank, :rank], mean[:rank], error)
        if last is not None and np.isinf(epoch):
            yield last, current
            return
        inside = current[:rank, :rank]
        error = 0.0 if last is None else _distance(inside, last.second)
        yield Snapshot(inside, current[:rank, d], error), current


def leaps(dimension: int, is_noisy: bool, epochs: FloatArray) -> int:
    """The number of moments whose epoch is squared as a matrix, where they are few and the epochs far; else 0."""
    last, count = float(epochs[np.isfinite(epochs)].max(initial=0.0)), FarMoments.entries(dimension, is_noisy)
    return count if count <= MOST_ENTRIES and last > 4 * count else 0


def _distance(here: FloatArray, end: FloatArray) -> float:
    """The distance of a matrix that seems to stand still from its limit, relative to its size."""
    size = float(np.abs(here).max(initial=0.0))
    return float(np.abs(here - end).max(initial=0.0)) / size if size else 0.0


def stationary(timeline: Timeline, inputs: Inputs, start: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """E z z' (d, d) and E z zeta' (d, inputs) in the long run, and the relative error of the first; inf if none.

    From the second moment `start` (d, d).
    """
    d, moments = len(start), epoch_moments(timeline, inputs)
    if not timeline.settles:
        return np.full((d, d), np.inf), np.full((d, inputs.count(moments.visits)), np.inf), 0.0
    once = timeline.map(0)
    cross = once.fixed_point()
    if inputs.given is not None:
        cross = inputs.constant * cross[:, :1] + cross[:, 1:] @ inputs.given[:, np.newaxis]
    else:
        cross[:, 1:] *= inputs.noise
    second, error = fixed_point(moments.change_beside(cross), MeanPart(once), start)
    return second, cross, error


def _end_of_second(
    timeline: Timeline, inputs: Inputs, begin: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    second, cross, error = stationary(timeline, inputs, begin[:, : len(begin)])
    return second, cross[:, 0], error


def _end_of_covariance(
    timeline: Timeline, inputs: Inputs, begin: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """The limit of covariance and mean, from [V, m] (d, d + 1) at the start."""
    d, moments = len(begin), epoch_moments(timeline, inputs)
    if not timeline.settles:
        return np.full((d, d), np.inf), np.full(d, np.inf), 0.0
    assert inputs.given is not None
    once = timeline.map(0).with_inputs(np.concatenate([[0.0], inputs.given]))
    mean = once.fixed_point()
    # What orders do to the way there is what they would do to a covariance.
    apart = begin[:, d:] - mean
    spread, error = fixed_point(
        lambda matrix: moments.covariance_change(np.hstack([matrix, mean]))[:, :d],
        MeanPart(once),
        begin[:, :d] + apart @ apart.T,
    )
    return spread, mean[:, 0], error


@dataclass(frozen=True, eq=False)
class Spread:
    """The covariance (r, r) of the average over orders at one time, and its error relative to its size."""

    covariance: FloatArray
    error: float = 0.0


@dataclass(frozen=True, eq=False)
class _Joint:
    """The moments after an epoch.

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
        """A copy of the state with nothing averaged beside it."""
        return replace(self, mixed=np.zeros_like(self.mixed), average=np.zeros_like(self.average))


def averaged_spreads(
    timeline: Timeline, inputs: Inputs, start: FloatArray, epochs: FloatArray
) -> Iterator[Spread]:
    """The covariance of the average at each of the ascending epochs, from the error e_0 (r,)."""
    if timeline.recipe.is_constant and timeline.recipe.at(0).step == 0:
        rank = timeline.visits(0).rank
        return (Spread(np.zeros((rank, rank))) for _ in epochs)
    return _Follower(timeline, inputs).spreads(start, epochs)


class _Follower:
    """Moments along one timeline, epoch by epoch until the state stands."""

    def __init__(self, timeline: Timeline, inputs: Inputs):
        assert timeline.recipe.average is not None
        self.timeline, self.average, self.inputs = timeline, timeline.recipe.average, inputs
        self._made: dict[Timeline, EpochMoments] = {}
        visits, self.steps = timeline.visits(0), timeline.walk.steps
        self.rank, self.d = visits.rank, visits.plain_dimension
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
        mean = np.zeros((d, self.inputs.count(self.timeline.visits(0))))
        mean[:r, 0] = start
        return _Joint(mean[:, :1] @ mean[:, :1].T, mean, np.zeros((d, r)), np.zeros((r, r)))

    def _stands(self, before: _Joint, now: _Joint) -> bool:
        """True if an epoch like the last one changes next to nothing of the state."""
        return self.timeline.recipe.is_constant and all(
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
        recursion, moments = self._recursion(self.timeline.plain, epoch), np.hstack([now.second, now.mean])
        after = moments + recursion.change(moments)
        return replace(now, second=after[:, : self.d], mean=after[:, self.d :])

    def _recursion(self, timeline: Timeline, epoch: int) -> EpochMoments:
        """Made once where all epochs are alike."""
        if not timeline.recipe.is_constant:
            return epoch_moments(timeline, self.inputs, epoch)
        if timeline not in self._made:
            self._made[timeline] = epoch_moments(timeline, self.inputs, epoch)
        return self._made[timeline]

    def _by_epochs(self, epoch: int, now: _Joint) -> _Joint:
        kept, taken, r = self.average.kept, self.average.taken, self.rank
        after, once = self._state_after(epoch, now), self.timeline.plain.map(epoch)
        spread = after.covariance
        lost = once.left[:, np.newaxis] * (once.kernel @ (once.right[:, np.newaxis] * now.mixed))
        mixed = kept * (now.mixed - lost)
        cross = taken * mixed[:r]
        average = kept**2 * now.average + cross + cross.T + taken**2 * spread[:r, :r]
        return replace(after, mixed=mixed + taken * spread[:, :r], average=average)

    def _by_visits(self, epoch: int, now: _Joint) -> _Joint:
        d, r = self.d, self.rank
        recursion = self._recursion(self.timeline, epoch)
        mean = np.vstack([now.mean, np.zeros((r, now.mean.shape[1]))])
        joint = np.block([[now.second, now.mixed], [now.mixed.T, now.average]])
        moments = np.hstack([joint, mean])
        after = moments + recursion.change(moments)
        joint, mean = after[:, : d + r], after[:, d + r :]
        beside = joint[:, d:] - mean @ mean[d:].T
        return _Joint(joint[:d, :d], mean[:d], beside[:d], _symmetric(beside[d:]))

    def _leap(self, now: _Joint, count: int) -> _Joint:
        """After so many epochs more of a state that stands: V_za, and half of V_aa, move by an affine map."""
        d, r, loss = self.d, self.rank, self.timeline.with_inputs(0, None, averages=True).loss
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
        """The limit of the state, and the relative error of that."""
        second, mean, error = stationary(self.timeline.plain, self.inputs, self._start)
        nothing = np.zeros((self.rank, self.rank))
        return _Joint(second, mean, np.zeros((self.d, self.rank)), nothing), error

    def _forever(self) -> Spread:
        """After infinitely many epochs: a mean over all of them knows no orders, if their mean square settles."""
        end, error = self._end
        if not end.is_finite or self.left == 1:
            return self._spread(end, self.average.earliest)
        loss = self.timeline.plain.map(0).loss
        added = self._onward(0, end).mixed
        mixed = np.asarray(np.linalg.solve((1 - self.left) * np.eye(self.d) + self.left * loss, added))
        average = self._onward(0, replace(end, mixed=mixed)).average / self.lost
        return self._spread(replace(end, average=average), np.inf, error)


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)
