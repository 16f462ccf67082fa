"""The moments of a run's error at the epochs that were asked for, infinity included."""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray
from reshuffle._blas import few_threads
from reshuffle._linalg import power_and_sum
from reshuffle._progress import track
from reshuffle.epoch.course import Course
from reshuffle.epoch.epoch import Epoch
from reshuffle.epoch.moments.recursion import (
    MOST_MOMENTS,
    DrawnSecondMoment,
    SecondMoment,
    SquaredMoments,
)
from reshuffle.epoch.moments.stationary import Map, ModePart, fixed_point, mean_part
from reshuffle.epoch.visits import Inputs, MeanVisits
from reshuffle.problem.covariance import Covariance
from reshuffle.problem.row_space import RowSpace

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
        """The same for errors in the coordinates of an orthonormal basis (r, r) of the row space."""
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


_STILL = 1e-15
"""Relative change in an epoch below which the next ones are not worth their time."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """E u u' (r, r) and E u (r,) of the error u = scale V'(beta - beta_star) at one time.

    `error` is that of the second moment relative to its size.
    """

    second: FloatArray
    mean: FloatArray
    error: float = 0.0


Along: TypeAlias = Callable[[Course, Inputs, FloatArray, FloatArray], Iterator[tuple[Snapshot, FloatArray]]]
"""From moments at the start to what is known at ascending epochs, and the moments there."""


def second_moment(course: Course, inputs: Inputs, epoch: int) -> SecondMoment:
    """The recursion that belongs to a course, in the epoch after `epoch` others."""
    course, epoch = course.within(epoch)
    visits = course.visits(epoch)
    if isinstance(visits, MeanVisits):
        return DrawnSecondMoment(course.walk, visits, inputs)
    return SecondMoment(course.walk, visits, inputs)


def general(course: Course, inputs: Inputs, start: FloatArray, epochs: FloatArray) -> Iterator[Snapshot]:
    """Follow the joint moments of error and inputs epoch by epoch, for any scheme and recipe."""
    rank = course.visits(0).rank
    state = np.zeros(course.visits(0).dimension)
    state[:rank] = start
    moments = second_moment(course, inputs, 0).start(state)
    return one_after_the_other(course, inputs, moments, epochs, _along)


def one_after_the_other(
    course: Course, inputs: Inputs, moments: FloatArray, epochs: FloatArray, along: Along
) -> Iterator[Snapshot]:
    """Follow moments through the parts of a course, each from where the one before it has ended."""
    for part in course.parts(epochs):
        reached = moments
        for number, (snapshot, current) in enumerate(along(part.course, inputs, moments, part.epochs)):
            reached = current
            if number < part.asked:
                yield snapshot
        moments = reached


def _along(
    course: Course, inputs: Inputs, moments: FloatArray, epochs: FloatArray
) -> Iterator[tuple[Snapshot, FloatArray]]:
    """What is known at each of the epochs, and the joint moments, from those at the start."""
    recursion, d = second_moment(course, inputs, 0), len(moments)
    rank = course.visits(0).rank

    def advance(passed: int, current: FloatArray) -> FloatArray:
        made = recursion if course.recipe.is_constant else second_moment(course, inputs, passed)
        return made.epoch(current)

    moves = course.recipe.is_constant and course.recipe.at(0).step > 0
    leap = SquaredMoments(recursion).after if moves and leaps(moments.size, epochs) else None
    pace = Pace(advance, moments, course.recipe.is_constant, leap)
    end: Snapshot | None = None
    for epoch in epochs:
        current = pace.at(int(epoch)) if np.isfinite(epoch) else pace.state
        if end is None and (np.isinf(epoch) or pace.has_settled):
            end = _end(course, inputs, current)
        if end is not None and np.isinf(epoch):
            yield end, current
            return
        error = 0.0 if end is None else distance(current[:rank, :rank], end)
        yield Snapshot(current[:rank, :rank], current[:rank, d], error), current


def leaps(moments: int, epochs: FloatArray) -> bool:
    """Whether the joint moments are few enough, and the epochs far enough, to square the map of an epoch."""
    last = float(epochs[np.isfinite(epochs)].max(initial=0.0))
    return moments <= MOST_MOMENTS and last > 4 * moments


class Pace:
    """A recursion that is followed epoch by epoch, until nothing changes any more or all has left the range."""

    def __init__(
        self,
        advance: Callable[[int, FloatArray], FloatArray],
        state: FloatArray,
        constant: bool,
        leap: Callable[[float, FloatArray], FloatArray] | None = None,
    ):
        self._advance, self.state, self._constant, self._leap = advance, state, constant, leap
        self._done, self._stands = 0, False

    @property
    def has_settled(self) -> bool:
        """Whether epochs were left out because the last one changed next to nothing."""
        return self._stands and bool(np.isfinite(self.state).all())

    def at(self, epoch: int) -> FloatArray:
        """The state after an epoch that is not before the last one asked for."""
        if self._leap is not None:
            self.state, self._done = self._leap(epoch - self._done, self.state), epoch
        for _ in track(range(self._done, epoch), epoch - self._done, "second moments"):
            if self._stands:
                break
            with np.errstate(over="ignore", invalid="ignore"):
                following = self._advance(self._done, self.state)
                change = float(np.abs(following - self.state).max(initial=0.0))
            size = float(np.abs(following).max(initial=0.0))
            self.state, self._done = following, self._done + 1
            self._stands = not np.isfinite(size) or (self._constant and change <= _STILL * size)
        return self.state


def distance(second: FloatArray, end: Snapshot) -> float:
    """How far, relative to its size, a second moment that seems to stand still is from where it ends."""
    size = float(np.abs(second).max(initial=0.0))
    gap = float(np.abs(second - end.second).max(initial=0.0))
    return gap / size if size else 0.0


def _end(course: Course, inputs: Inputs, current: FloatArray) -> Snapshot:
    d, rank = len(current), course.visits(0).rank
    if course.recipe.at(0).step == 0:
        return Snapshot(current[:rank, :rank], current[:rank, d])
    second, cross, error = stationary(course, inputs, current[:, :d])
    return Snapshot(second[:rank, :rank], cross[:rank, 0], error)


def stationary(course: Course, inputs: Inputs, start: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """E z z' (d, d) and E z zeta' (d, inputs) in the long run, and the relative error of the first; inf if none.

    From the second moment `start` (d, d).
    """
    visits = course.visits(0)
    d = visits.dimension
    if not course.settles:
        return np.full((d, d), np.inf), np.full((d, inputs.count(visits)), np.inf), 0.0
    mean, recursion = course.map(0), second_moment(course, inputs, 0)
    ends = mean.fixed_point()
    cross = (
        ends[:, :1] + ends[:, 1:] @ inputs.given[:, np.newaxis]
        if inputs.given is not None
        else np.hstack([ends[:, :1], inputs.noise * ends[:, 1:]])
    )
    symmetric = course.recipe.momentum == 0 and course.scheme.is_symmetric
    second, error = fixed_point(
        lambda matrix: recursion.change(np.hstack([matrix, cross]))[:, :d],
        mean_part(mean, symmetric),
        start,
    )
    return second, cross, error


class EpochMoment(Protocol):
    """The second moment after an epoch, in coordinates of its own, as `ReshuffledMoment` has it."""

    noise: float
    basis: FloatArray

    def inlet(self, noise_map: FloatArray) -> FloatArray:
        """Through which noise enters each mode."""

    def epoch(self, second: FloatArray, source: FloatArray) -> FloatArray:
        """E e e' after an epoch."""


def reshuffled(
    epoch: Epoch, lattice: EpochMoment, start: FloatArray, epochs: FloatArray
) -> Iterator[Snapshot]:
    """The same for random reshuffling with nothing but a step, in the coordinates of the lattice."""
    space, paces = epoch.problem.row_space, epoch.paces
    modes = lattice.basis.T @ epoch.modes.vectors
    inlet = lattice.inlet((lattice.noise**2 * space.scale) * epoch.pull)
    begin = lattice.basis.T @ start

    def after(count: float, matrix: FloatArray) -> FloatArray:
        _, drift = power_and_sum(paces, np.array(float(count)))
        return lattice.epoch(matrix, inlet * drift)

    pace = Pace(after, np.outer(begin, begin), constant=True)
    end: Snapshot | None = None
    for when in epochs:
        second = pace.at(int(when)) if np.isfinite(when) else pace.state
        if end is None and (np.isinf(when) or pace.has_settled):
            end = _settled(modes, paces, lambda matrix: after(np.inf, matrix), np.outer(begin, begin))
        if end is not None and np.isinf(when):
            yield end
            return
        decay, _ = power_and_sum(paces, np.array(when))
        error = 0.0 if end is None else distance(second, end)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = modes @ (decay * (modes.T @ begin))
        yield Snapshot(second, mean, error)


def _settled(modes: FloatArray, paces: FloatArray, epoch: Map, start: FloatArray) -> Snapshot:
    if not ((paces > 0) & (paces < 2)).all():
        return Snapshot(np.full_like(modes, np.inf), np.full_like(paces, np.inf))
    second, error = fixed_point(lambda matrix: epoch(matrix) - matrix, ModePart(paces, modes), start)
    return Snapshot(second, np.zeros_like(paces), error)
