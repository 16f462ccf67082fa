"""The map M -> E[A M A'] of second moments through an epoch, less M: by the quickest of several ways."""

from functools import lru_cache

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.epoch import select
from reshuffle.epoch.accuracy import CALL
from reshuffle.epoch.averaging.lattice import fits_in_memory
from reshuffle.epoch.course import Course
from reshuffle.epoch.moments import squared_lattice
from reshuffle.epoch.moments.reshuffled import ReshuffledMoment
from reshuffle.epoch.moments.snapshots import second_moment
from reshuffle.epoch.moments.stationary import Map
from reshuffle.epoch.visits import Inputs

_WELL_CONDITIONED = 1e-3
"""Ratio of singular values above which the coordinates of the fast recursion are as good as any."""
MOST_WRITTEN_OUT = 120
"""Entries of a second moment up to which the map of an epoch is written out."""
FEWEST_ROUNDS = 20
"""Applications of an epoch without which there is no use to begin."""
_REMEMBERED_BYTES = 4e9
_MANY = 8
"""Batches from which a recursion that is repeated costs more than to write its map out."""


def epoch_flops(course: Course) -> float:
    """Operations of one application of `congruence`, calls included; infinite if its memory is out of reach.

    Where the map is written out first, that is all it costs.
    """
    if is_written_out(course):
        return squared_lattice.flops(course.blocks.batches, course.visits(0).dimension)
    visits, (rows, rank) = course.visits(0), course.blocks.rows.shape
    d, batches = visits.dimension, course.blocks.batches
    fast = _is_fast(course)
    if select.climbs(course.scheme) and not fast and not fits_in_memory(batches, 8.0 * d * d):
        return np.inf
    each = 8.0 * d * d * min(rows / batches, rank) + (1.5 if fast else 4) * CALL
    return float(course.walk.visits * each)


def congruence_change(course: Course) -> Map:
    """M -> E[A M A'] - M over the orders of an epoch."""
    visits = course.visits(0)
    if is_written_out(course):
        return _by_entries(course)
    if _is_fast(course):
        lattice = ReshuffledMoment(course.blocks, visits.step, np.eye(visits.rank), 0.0)
        basis, nothing = lattice.basis, np.zeros((0, visits.rank))

        def fast(matrix: FloatArray) -> FloatArray:
            after = basis @ lattice.epoch(basis.T @ matrix @ basis, nothing) @ basis.T
            return np.asarray((after + after.T) / 2 - matrix)

        return fast
    change = second_moment(course, Inputs(np.zeros(visits.rank)), 0).congruence_change
    small = 0 < visits.dimension * (visits.dimension + 1) // 2 <= MOST_WRITTEN_OUT
    return _written_out(change, visits.left, visits.right) if small and visits.step else change


def _by_entries(course: Course) -> Map:
    change, d = _mean_change(course), course.visits(0).dimension
    upper = squared_lattice.upper_entries(d)
    return lambda matrix: squared_lattice.symmetric(change @ matrix[upper], d)


@lru_cache(maxsize=1)
def _mean_change(course: Course) -> FloatArray:
    """Both radii ask for it, one after the other."""
    return squared_lattice.mean_change(course.visits(0))


def is_written_out(course: Course) -> bool:
    """Whether many batches of few parameters are averaged as matrices on the entries of second moments."""
    visits, singular = course.visits(0), course.blocks.singular
    batches = course.blocks.batches
    if not (select.climbs(course.scheme) and batches >= _MANY and visits.step and len(singular)):
        return False
    if singular[-1] <= _WELL_CONDITIONED * singular[0]:
        return False
    each = course.walk.visits * (
        8.0 * visits.dimension**2 * min(len(course.blocks.rows) / batches, visits.rank)
    )
    return squared_lattice.flops(batches, visits.dimension) < FEWEST_ROUNDS * (
        each + CALL * course.walk.visits
    )


def _written_out(change: Map, left: FloatArray, right: FloatArray) -> Map:
    """The same linear map of symmetric matrices (..., d, d) as a matrix, as good as many walks over all orders.

    In units R M R, in which it is sizes L R times something of ordinary size.
    """
    units, upper = np.outer(right, right), np.triu(np.ones((len(right), len(right)), dtype=bool))
    sizes = np.add.outer(left * right, left * right)

    def unpacked(packed: FloatArray) -> FloatArray:
        matrix = np.zeros_like(units)
        matrix[upper] = packed
        return matrix + np.triu(matrix, 1).T

    with np.errstate(over="ignore", invalid="ignore"):
        looked_at = np.array([unpacked(unit) for unit in np.eye(int(upper.sum()))])
        kernel = (change(looked_at / units) * units / sizes)[:, upper].T

    def applied(matrix: FloatArray) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            return unpacked(kernel @ (matrix * units)[upper]) * sizes / units

    return applied


def _is_fast(course: Course) -> bool:
    """Whether the recursion through the rows serves, which remembers a matrix for every subset of the batches."""
    visits, singular = course.visits(0), course.blocks.singular
    is_plain = select.climbs(course.scheme) and not (visits.penalty or visits.momentum)
    well_conditioned = not len(singular) or bool(singular[-1] > _WELL_CONDITIONED * singular[0])
    fits = 2.0**course.blocks.batches * 8 * visits.rank**2 <= _REMEMBERED_BYTES
    return is_plain and well_conditioned and fits
