"""The covariance of the state over orders, given the responses, around its own mean.

A visit sends a state with mean m and covariance C to one with mean G m + h and covariance G C G'. Where the orders
of an epoch come together in a walk, equally likely with means m_i and covariances C_i, the law of total covariance
has it that

    mean m = mean of the m_i,     covariance = mean of the C_i + mean of (m_i - m)(m_i - m)'.

So the covariance is a sum of squares all the way, and never a difference of second moments: no digits are lost
where runs hardly differ.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._blas import few_threads
from reshuffle.epoch.averaging.lattice import Process
from reshuffle.epoch.course import Course
from reshuffle.epoch.epoch_map import average
from reshuffle.epoch.moments.recursion import SecondMoment
from reshuffle.epoch.moments.snapshots import (
    Pace,
    Snapshot,
    distance,
    one_after_the_other,
    second_moment,
)
from reshuffle.epoch.moments.stationary import fixed_point, mean_part
from reshuffle.epoch.visits import Inputs


class CentredMoment:
    """One epoch of the covariance and the mean of a state, kept side by side as [C, m], (d, d + 1).

    Parameters
    ----------
    recursion : SecondMoment
        What visits do, with given responses.
    """

    def __init__(self, recursion: SecondMoment):
        self._recursion, self._state = recursion, recursion.visits.dimension

    def epoch(self, moments: FloatArray) -> FloatArray:
        """[C, m] after one more epoch."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(moments + self.change(moments))

    def change(self, moments: FloatArray) -> FloatArray:
        """What one more epoch adds to [C, m], as a sum of what its visits do."""
        d, recursion = self._state, self._recursion

        def visit(batch: int, change: FloatArray, slot: int) -> FloatArray:
            before = moments + change
            state = before[:, d:]
            spread = recursion.conjugation(batch, before[:, :d], slot) + recursion.scatter(batch, state, slot)
            return np.asarray(change + np.hstack([spread, recursion.motion(batch, state, slot)]))

        with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
            change = recursion.walk.of(Process(visit, self._together, np.zeros_like(moments)))
            change[:, :d] = (change[:, :d] + change[:, :d].T) / 2
        return change

    def _together(self, states: Sequence[FloatArray]) -> FloatArray:
        """The law of total covariance for equally likely states."""
        mean, d = average(states), self._state
        if len(states) == 1:
            return mean
        apart = np.array([state[:, d] for state in states]) - mean[:, d]
        mean[:, :d] += apart.T @ apart / len(states)
        return mean


def covariances(
    course: Course, responses: FloatArray, start: FloatArray, epochs: FloatArray
) -> Iterator[Snapshot]:
    """Covariance (r, r) and mean (r,) of the parameters u over the orders, at ascending epochs.

    Parameters
    ----------
    course : Course
        Of the parameters, with fresh orders in every epoch.
    responses : (rows,)
        Of the rows of its blocks.
    start : (r,)
        u_0.
    epochs : (k,)
        Infinity included, which asks for the fixed point.
    """
    rank, d = course.visits(0).rank, course.visits(0).dimension
    inputs = Inputs(np.zeros(rank), given=responses)
    moments = np.zeros((d, d + 1))
    moments[:rank, d] = start
    return one_after_the_other(course, inputs, moments, epochs, _along)


def _along(
    course: Course, inputs: Inputs, begin: FloatArray, epochs: FloatArray
) -> Iterator[tuple[Snapshot, FloatArray]]:
    """What is known at each of the epochs, and [C, m], from those at the start."""
    d, rank = len(begin), course.visits(0).rank
    first = CentredMoment(second_moment(course, inputs, 0))

    def advance(passed: int, current: FloatArray) -> FloatArray:
        constant = course.recipe.is_constant
        made = first if constant else CentredMoment(second_moment(course, inputs, passed))
        return made.epoch(current)

    pace = Pace(advance, begin, course.recipe.is_constant)
    end: Snapshot | None = None
    for epoch in epochs:
        current = pace.at(int(epoch)) if np.isfinite(epoch) else pace.state
        if end is None and (np.isinf(epoch) or pace.has_settled):
            end = _end(course, first, inputs, current, begin)
        if end is not None and np.isinf(epoch):
            yield end, current
            return
        inside = current[:rank, :rank]
        yield Snapshot(inside, current[:rank, d], 0.0 if end is None else distance(inside, end)), current


def _end(
    course: Course, once: CentredMoment, inputs: Inputs, current: FloatArray, begin: FloatArray
) -> Snapshot:
    """Where covariance and mean end, from [C, m] (d, d + 1) at the start."""
    d, rank = len(current), course.visits(0).rank
    if course.recipe.at(0).step == 0:
        return Snapshot(current[:rank, :rank], current[:rank, d])
    if not course.settles:
        return Snapshot(np.full((rank, rank), np.inf), np.full(rank, np.inf))
    assert inputs.given is not None
    mean_map = course.map(0).fed(np.concatenate([[1.0], inputs.given]))
    mean = mean_map.fixed_point()
    symmetric = course.recipe.momentum == 0 and course.scheme.is_symmetric
    # What orders do to the way there is what they would do to a covariance.
    apart = begin[:, d:] - mean
    second, error = fixed_point(
        lambda matrix: once.change(np.hstack([matrix, mean]))[:, :d],
        mean_part(mean_map, symmetric),
        begin[:, :d] + apart @ apart.T,
    )
    return Snapshot(second[:rank, :rank], mean[:rank, 0], error)
