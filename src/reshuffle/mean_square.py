"""Does the mean square of a run converge, beside its mean, and up to which step."""

from dataclasses import dataclass

import numpy as np

from reshuffle.affine_mean import AffineMean
from reshuffle.arrays import FloatArray
from reshuffle.moments.course import Course
from reshuffle.moments.inputs import Inputs
from reshuffle.moments.reshuffled_moment import ReshuffledMoment
from reshuffle.moments.stationary import Enclosure, Map, mean_part, positive_radius
from reshuffle.moments.streams import second_moment
from reshuffle.schemes import RandomReshuffling

_ROUNDING = 1e-12
"""Relative size of a difference of two changes that is nothing but rounding."""
_WELL_CONDITIONED = 1e-3
"""Ratio of singular values above which the coordinates of the fast recursion are as good as any."""


@dataclass(frozen=True)
class MeanSquareStability:
    """Whether E |beta_k - limit|^2 converges from every start, on which the expected risk depends.

    Attributes
    ----------
    converges : bool
        The mean converges, and the gain is below one: then so is the rate.
    rate : float
        The spectral radius of M -> E[A M A'] on symmetric matrices, over the row space and, under a penalty,
        outside of it; never below the square of the rate of the mean.
    bounds : (float, float)
        Certified bounds on the rate (Collatz and Wielandt).
    gain : float
        How much the spread feeds itself: the spectral radius of (I - Abar . Abar')^-1 E, where E is what the
        differences between orders add to an epoch; infinite where the mean diverges.
    """

    converges: bool
    rate: float
    bounds: tuple[float, float]
    gain: float


def mean_square_stability(run: AffineMean) -> MeanSquareStability:
    """Decide for a run with a constant step."""
    mean = run.stability()
    with np.errstate(over="ignore"):
        square = float(np.square(mean.rate))
    courses = run._courses
    if len(courses) > 1 or not courses[0].scheme.is_random or run.recipe.at(0).step == 0:
        return MeanSquareStability(
            mean.converges, square, (square, square), 0.0 if mean.converges else np.inf
        )
    course = courses[0]
    rate = _rate(course)
    # The mean knows of what a penalty does outside the row space, too.
    bounds = max(rate.lower, square), max(rate.upper, square)
    gain = spread_gain(course) if mean.converges else Enclosure(np.inf, np.inf, np.inf)
    converges = mean.converges and _settles(gain, rate)
    return MeanSquareStability(converges, max(rate.estimate, square), bounds, gain.estimate)


def settles(course: Course) -> bool:
    """Whether the mean square converges along a course of random orders on which the mean does."""
    gain = spread_gain(course, decided=1.0)
    decided = gain.is_below(1.0)
    return _settles(gain, _rate(course, decided=1.0)) if decided is None else decided


def _settles(gain: Enclosure, rate: Enclosure) -> bool:
    """By whichever bounds are on one side of one; both radii are, so the rate speaks where the gain cannot."""
    if rate.lower > 1:
        return False
    for radius in (gain, rate):
        decided = radius.is_below(1.0)
        if decided is not None:
            return decided
    return gain.estimate < 1


def _rate(course: Course, decided: float | None = None) -> Enclosure:
    """The spectral radius of M -> E[A M A']."""
    change = congruence_change(course)
    return positive_radius(lambda matrix: matrix + change(matrix), course.visits(0).dimension, decided)


def spread_gain(course: Course, decided: float | None = None) -> Enclosure:
    """The spectral radius of (I - Abar . Abar')^-1 E; only which side of `decided` it is on, if that is given."""
    symmetric = course.scheme.is_symmetric and course.recipe.momentum == 0
    part, change = mean_part(course.map(0), symmetric), congruence_change(course)
    scales = np.outer(part.units, part.units)

    def positive(scaled: FloatArray) -> FloatArray:
        # In units in which slow modes, too, have a spread of ordinary size.
        matrix = scaled / scales
        by_the_mean = part.change(matrix)
        spread = change(matrix) - by_the_mean
        if np.abs(spread).max(initial=0.0) <= _ROUNDING * np.abs(by_the_mean).max(initial=0.0):
            return np.zeros_like(matrix)
        return scales * part.solve(spread)

    return positive_radius(positive, len(scales), decided)


def congruence_change(course: Course) -> Map:
    """M -> E[A M A'] - M over the orders of an epoch."""
    visits, singular = course.visits(0), course.blocks.singular
    well_conditioned = singular[-1] > _WELL_CONDITIONED * singular[0] if len(singular) else True
    if (
        isinstance(course.scheme, RandomReshuffling)
        and well_conditioned
        and not (visits.penalty or visits.momentum)
    ):
        lattice = ReshuffledMoment(course.blocks, visits.step, np.eye(visits.rank), 0.0)
        basis, nothing = lattice.basis, np.zeros((0, visits.rank))

        def fast(matrix: FloatArray) -> FloatArray:
            after = basis @ lattice.epoch(basis.T @ matrix @ basis, nothing) @ basis.T
            return np.asarray((after + after.T) / 2 - matrix)

        return fast
    return second_moment(course, Inputs(np.zeros(visits.rank)), 0).congruence_change
