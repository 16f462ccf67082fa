"""The moments of a run's error at the epochs that were asked for, infinity included."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from reshuffle.arrays import FloatArray
from reshuffle.epoch.epoch import Epoch
from reshuffle.moments.course import Course
from reshuffle.moments.inputs import Inputs
from reshuffle.moments.reshuffled_moment import ReshuffledMoment
from reshuffle.moments.second_moment import DrawnSecondMoment, SecondMoment
from reshuffle.moments.stationary import Map, MeanPart, fixed_point
from reshuffle.powers import power_and_sum
from reshuffle.schemes import SampleWithReplacement


@dataclass(frozen=True, eq=False)
class Snapshot:
    """E u u' (r, r) and E u (r,) of the error u = scale V'(beta - beta_star) at one time.

    `error` is that of the second moment relative to its size.
    """

    second: FloatArray
    mean: FloatArray
    error: float = 0.0


def second_moment(course: Course, inputs: Inputs, epoch: int) -> SecondMoment:
    """The recursion that belongs to a course, in the epoch after `epoch` others."""
    scheme, visits = course.scheme, course.visits(epoch)
    if isinstance(scheme, SampleWithReplacement):
        return DrawnSecondMoment(scheme, course.n, visits, inputs, scheme.sizes(course.n).tolist())
    return SecondMoment(scheme, course.n, visits, inputs)


def general(course: Course, inputs: Inputs, start: FloatArray, epochs: FloatArray) -> Iterator[Snapshot]:
    """Follow the joint moments of error and inputs epoch by epoch, for any scheme and recipe."""
    rank = course.visits(0).rank
    state = np.zeros(course.visits(0).dimension)
    state[:rank] = start
    recursion = second_moment(course, inputs, 0)
    moments, done = recursion.start(state), 0
    for epoch in epochs:
        if np.isinf(epoch):
            yield _end(course, inputs, moments)
            return
        for passed in range(done, int(epoch)):
            if not course.recipe.is_constant:
                recursion = second_moment(course, inputs, passed)
            moments = recursion.epoch(moments)
        done = int(epoch)
        yield Snapshot(moments[:rank, :rank], moments[:rank, len(moments)])


def _end(course: Course, inputs: Inputs, current: FloatArray) -> Snapshot:
    d, rank = len(current), course.visits(0).rank
    if course.recipe.at(0).step == 0:
        return Snapshot(current[:rank, :rank], current[:rank, d])
    if not course.settles:
        return Snapshot(np.full((rank, rank), np.inf), np.full(rank, np.inf))
    mean, recursion = course.map(0), second_moment(course, inputs, 0)
    ends = mean.fixed_point()
    cross = (
        ends[:, :1] + ends[:, 1:] @ inputs.given[:, np.newaxis]
        if inputs.given is not None
        else np.hstack([ends[:, :1], inputs.noise * ends[:, 1:]])
    )
    symmetric = course.recipe.momentum == 0 and course.scheme.is_symmetric
    loss = (mean.loss + mean.loss.T) / 2 if symmetric else mean.loss
    second, error = fixed_point(
        lambda matrix: recursion.epoch(np.hstack([matrix, cross]))[:, :d], MeanPart(loss)
    )
    return Snapshot(second[:rank, :rank], cross[:rank, 0], error)


def reshuffled(
    epoch: Epoch, lattice: ReshuffledMoment, start: FloatArray, epochs: FloatArray
) -> Iterator[Snapshot]:
    """The same for random reshuffling with nothing but a step, in the coordinates of the lattice."""
    space, rates = epoch.problem.row_space, epoch.rates
    modes = lattice.basis.T @ epoch.modes.vectors
    inlet = lattice.inlet((lattice.noise**2 * space.scale) * epoch.pull)
    begin = lattice.basis.T @ start
    second, done = np.outer(begin, begin), 0

    def after(count: float, matrix: FloatArray) -> FloatArray:
        _, drift = power_and_sum(rates, np.array(count))
        return lattice.epoch(matrix, inlet * drift)

    for when in epochs:
        if np.isinf(when):
            yield _settled(modes, rates, lambda matrix: after(np.inf, matrix))
            return
        with np.errstate(over="ignore", invalid="ignore"):
            for passed in range(done, int(when)):
                second = after(float(passed), second)
        done = int(when)
        decay, _ = power_and_sum(rates, np.array(when))
        yield Snapshot(second, modes @ (decay * (modes.T @ begin)))


def _settled(modes: FloatArray, rates: FloatArray, epoch: Map) -> Snapshot:
    if not ((rates > 0) & (rates < 2)).all():
        return Snapshot(np.full_like(modes, np.inf), np.full_like(rates, np.inf))
    loss = (modes * rates) @ modes.T
    second, error = fixed_point(epoch, MeanPart((loss + loss.T) / 2))
    return Snapshot(second, np.zeros_like(rates), error)
