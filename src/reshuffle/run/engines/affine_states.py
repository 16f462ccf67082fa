"""The states of a run whose epochs are not one symmetric map: parameters, momentum buffer, and what enters."""

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np

from reshuffle import _uncertainty
from reshuffle._arrays import FloatArray
from reshuffle._blas import few_threads
from reshuffle._uncertainty import ERROR_KINDS, ErrorKind
from reshuffle.epoch import select, visits
from reshuffle.epoch.accuracy import Accuracy
from reshuffle.epoch.averaging.cavity_maps import CavityCourse
from reshuffle.epoch.averaging.lattice import Walk
from reshuffle.epoch.averaging.sampling import SampledCourse
from reshuffle.epoch.course import AveragedCourse, Course
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.select import Choice
from reshuffle.epoch.visits import GradedBlocks
from reshuffle.problem.batches import Blocks, split
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.outputs import beside, of_output
from reshuffle.problem.row_space import Reduction, RowSpace, extended_space
from reshuffle.recipe import Hyperparameters, Recipe
from reshuffle.schemes.base import Scheme

CHUNK_BYTES = 1.6e7
"""Memory that the maps and the states of a chunk of orders may take, with what is worked on: about a cache."""
BLOCK_BYTES = 1e8
"""Memory that means over orders may take, which are added up while chunks are followed."""

Watch: TypeAlias = Callable[[slice, int, FloatArray], None]
"""Sees the states (k, d, z) along some of the orders, after the epoch of that number."""

_ANY_ACCURACY = Accuracy(rtol=math.inf)
_OF_THE_WORST = 3.0
"""How far the worst mode may be off, over the root mean square of all."""


class AffineStates:
    """Mini-batch gradient descent as an affine recursion on a state: the parameters and the momentum buffer.

    Every visit is an affine map on the state, z -> G_b z + H_b y_b; the mean over the orders of an epoch is one
    too, though not symmetric in general, and is repeated by squaring.

    Attributes
    ----------
    problem : LeastSquares
    scheme : Scheme
    recipe : Recipe
        Step schedule, penalty, momentum, average.
    start : (p,)
    accuracy : Accuracy
        How the mean over orders is to be taken; by default whatever the first draws give, where they are drawn.
    """

    def __init__(
        self,
        problem: LeastSquares,
        scheme: Scheme,
        recipe: Recipe,
        start: FloatArray,
        accuracy: Accuracy = _ANY_ACCURACY,
    ):
        self.problem, self.recipe, self.start, self.accuracy = problem, recipe, start, accuracy
        self.scheme = scheme.equivalent(problem.n)
        self.walk = Walk(self.scheme, problem.n)
        self._replica: int | None = None
        self._stacked: dict[tuple[bool, bool], list[Course]] = {}
        self._known_maps: dict[tuple[str, bool], dict[Hyperparameters, list[EpochMap]]] = {}

    def with_recipe(self, recipe: Recipe) -> Self:
        """The same run with another step: what is known of the data is kept."""
        made = self._afresh("visited", "_graded", "readout")
        made.recipe, made._known_maps, made._stacked = recipe, {}, {}
        return made

    def _afresh(self, *kept: str) -> Self:
        """A copy that knows what it was made of and, of what was found out since, what is `kept`, and no more."""
        made = copy(self)
        for name in set(made.__dict__).difference(kept):
            if isinstance(getattr(type(self), name, None), cached_property):
                del made.__dict__[name]
        return made

    def output(self, number: int) -> Self:
        """The run of one output alone, which shares its maps with all others."""
        (space, blocks), courses = self._graded, self.courses
        made = self._afresh("choice", "courses", "_grows", "_outside")
        made.problem, made.start = self.problem.output(number), of_output(self.start, number)
        made._graded = space, replace(blocks, response=of_output(blocks.response, number))
        # Those of the parameters depend on no responses, those of the errors on the truth where there is a penalty.
        if len(courses) > 1:
            made._stacked = {kind: known for kind, known in self._stacked.items() if not kind[0]}
        if not self.recipe.penalty:
            made.courses_of_errors = courses
        alike = [("drawn", True), ("cavity", True)]
        made._known_maps = {kind: self._known_maps.setdefault(kind, {}) for kind in alike}
        return made

    def each_output(self) -> Iterator[Self]:
        """The runs of all outputs."""
        return (self.output(number) for number in range(self.problem.outputs or 0))

    @cached_property
    def choice(self) -> Choice:
        """How the mean over orders was chosen to be taken."""
        return select.affine_choice(
            self.walk, self.recipe, self.blocks, self.dimension, self.accuracy,
            lambda: self._cavity_course(None).missed, lambda: self._grows,
        )  # fmt: skip

    @property
    def method(self) -> str:
        """How the mean over orders is taken: "exact", "cavity" or "sampling"."""
        return self.choice.taken

    @property
    def error_kind(self) -> ErrorKind:
        """In which sense errors are meant."""
        return ERROR_KINDS[self.method]

    @property
    def dimension(self) -> int:
        """The length of the state."""
        average = self.recipe.average
        parts = (self.recipe.momentum != 0) + (average is not None and average.is_per_visit)
        return self.space.dimension * (1 + parts)

    @cached_property
    def visited(self) -> LeastSquares:
        """The problem without rows that are never visited: outside the row space of the others nothing moves."""
        problem = self.problem
        rows = sum(len(part) for part in self.scheme.partition(problem.n))
        # A partition that leaves rows out leaves out the last ones.
        return problem if rows == len(problem.compressed.X) else problem.of_first(rows)

    @property
    def space(self) -> RowSpace:
        """The row space of what is visited, turned to the singular vectors of the features."""
        return self._graded[0]

    @property
    def blocks(self) -> GradedBlocks:
        """The per-batch statistics in these coordinates."""
        return self._graded[1]

    @cached_property
    def _graded(self) -> tuple[RowSpace, GradedBlocks]:
        visited, unpenalized = self.visited, self.recipe.unpenalized
        if not unpenalized:
            return visits.graded(visited.row_space, self._blocks(visited.compressed.X, visited.reduction))
        seen = extended_space(visited.compressed, visited.reduction, np.array(unpenalized))
        root = math.sqrt(self.recipe.penalty) / seen.space.scale
        blocks = self._blocks(seen.features, seen.reduction)
        return visits.graded(seen.space, blocks, root * np.eye(seen.space.dimension)[seen.penalized])

    def _blocks(self, X: FloatArray, reduction: Reduction) -> Blocks:
        """The per-batch statistics of features, in the coordinates of their reduction."""
        y, n, space = self.visited.compressed.y, self.problem.n, reduction.space
        partition, divisors = self.scheme.partition(n), self.scheme.divisors(n)
        if self.scheme.visits_samples:
            self.problem.require_rows(
                f"what {self.scheme!r} does beyond its mean without momentum or penalty"
            )
        if self.scheme.unit.is_cut:
            rows = np.ascontiguousarray(space.coordinates(X.T).T / space.scale)
            offsets = np.concatenate([[0], np.cumsum([len(part) for part in partition])])
            return Blocks(rows, y, offsets, divisors)
        with few_threads(math.sqrt(X.size)):
            return split(X, y, reduction, partition, divisors)

    def inside(self, parameters: FloatArray) -> FloatArray:
        """The coordinates u = scale V'beta (r,) of parameters (p,) inside the row space."""
        return self.space.scale * self.space.coordinates(parameters)

    @cached_property
    def courses(self) -> list[Course]:
        """The mean states of the parameters along each of the courses between which the start of a run chooses."""
        return self._courses(None)

    @cached_property
    def courses_of_errors(self) -> list[Course]:
        """The same of the errors, on which a penalty acts as a force; of several outputs there is no one truth."""
        if self.problem.outputs is not None:
            return self.courses
        return self._courses(self.inside(self.problem.parameters("the risk")))

    def _courses(self, truth: FloatArray | None) -> list[Course]:
        courses, average = self._sources(truth), self.recipe.average
        return courses if average is None else [AveragedCourse(course, average) for course in courses]

    def _sources(self, truth: FloatArray | None) -> list[Course]:
        n = self.problem.n
        if self.error_kind == "estimate":
            return [self._cavity_course(truth)]
        if self.has_replicas:
            return [
                SampledCourse(
                    self.scheme, n, self.blocks, self.space, self.recipe, truth,
                    accuracy=select.asked_of_draws(self.choice, self.accuracy, lambda: self._grows),
                    kept=self._maps("drawn", truth), left_out=self._replica,
                )
            ]  # fmt: skip
        return [
            Course(scheme, n, self.blocks, self.space, self.recipe, truth)
            for scheme in self.scheme.courses(n)
        ]

    def _cavity_course(self, truth: FloatArray | None) -> CavityCourse:
        return CavityCourse(
            self.scheme, self.problem.n, self.blocks, self.space, self.recipe, truth,
            kept=self._maps("cavity", truth), replica=self._replica,
        )  # fmt: skip

    @cached_property
    def _grows(self) -> bool:
        """Whether the mean of the cavity equation grows for certain: it has no solution if a sample alone does."""
        course = self._cavity_course(None)
        missed = course.missed
        return math.isnan(missed) or course.map(0).radius * (1 - _OF_THE_WORST * missed) > 1

    def _maps(self, kind: str, truth: FloatArray | None) -> dict[Hyperparameters, list[EpochMap]]:
        """Where maps and their replicas are kept: those of errors apart, if a penalty makes them others."""
        return self._known_maps.setdefault((kind, truth is None or self.recipe.penalty == 0), {})

    @cached_property
    def _outside(self) -> Course:
        """The course of one coordinate outside the row space, where only a penalty acts: a feature that is zero."""
        course = self._outside_source()
        return course if self.recipe.average is None else AveragedCourse(course, self.recipe.average)

    def _outside_source(self) -> Course:
        steps, nothing = self.walk.steps, np.zeros((0, 1))
        blocks = GradedBlocks(
            nothing, np.zeros(0), np.zeros(2, dtype=np.int64), np.ones(1), nothing, np.zeros(1)
        )
        order = np.zeros((1, steps), dtype=np.int64)
        return Course(self.scheme, self.problem.n, blocks, self.space, self.recipe, orders=order)

    def fades(self, epochs: FloatArray) -> FloatArray:
        """The factor (k,) of the start outside the row space at the ascending epochs; 1 without a penalty."""
        if not self.recipe.penalty:
            return np.ones(len(epochs))
        states = self._outside.states(np.ones(1), epochs, np.ones(1))
        return np.array([float(state[..., 0, 0].ravel()[0]) for state in states])

    @property
    def has_replicas(self) -> bool:
        """Whether the map of an epoch is not exact, and replicas of it tell how far answers may be off."""
        return self.error_kind != "exact" and not self.samples_courses

    @property
    def samples_courses(self) -> bool:
        """Whether the courses are a sample of all there are."""
        return self.scheme.samples_courses(self.problem.n)

    def _replicas(self) -> list[Self]:
        """The same run with each of the maps that tell the error of its own; none if that is exact."""
        if not self.has_replicas or self._replica is not None:
            return []
        (course,) = self.courses
        assert isinstance(course.source, SampledCourse | CavityCourse)
        kept = ("choice", "visited", "_graded", "_grows", "_outside", "readout")
        made = [self._afresh(*kept) for _ in range(course.source.replicas)]
        for number, replica in enumerate(made):
            replica._replica = number
        return made

    def sampling_error(self, answer: Callable[[Any], FloatArray], here: FloatArray) -> FloatArray:
        """How far an answer of this run, which is `here`, may be off because its map is not exact; 0 if it is."""
        replicas = self._replicas()
        if not replicas:
            return np.zeros_like(here)
        answers = np.array([answer(replica) for replica in replicas])
        return _uncertainty.of_replicas(self.error_kind, here, answers)

    def chunks(self, of_errors: bool = False, inputs: FloatArray | None = None) -> list[Course]:
        """The courses of all orders, as many of them side by side as memory allows for; pairs stay together."""
        courses = self.courses_of_errors if of_errors else self.courses
        if len(courses) == 1:
            return courses
        known = self._stacked.get((of_errors, inputs is None))
        if known is None:
            d, rows = self.dimension, len(self.blocks.rows)
            columns = 1 + rows if inputs is None else beside(inputs).shape[1]
            # Kernels and entries of a power, of its square and of what they are made from; and the states.
            each = 8.0 * max(d, 1) * (6 * d + 4 * columns)
            size = 2 * max(1, int(CHUNK_BYTES / each / 2))
            orders = np.array([course.scheme.order(course.n) for course in courses])
            one = courses[0].source
            known = [
                Course(
                    one.scheme, one.n, one.blocks, one.space, one.recipe, one.truth, orders[at : at + size]
                )
                for at in range(0, len(orders), size)
            ]
            if self.recipe.average is not None:
                known = [AveragedCourse(course, self.recipe.average) for course in known]
            self._stacked[of_errors, inputs is None] = known
        return known

    def means(
        self,
        start: FloatArray,
        epochs: FloatArray,
        inputs: FloatArray | None = None,
        of_errors: bool = False,
        watch: Watch | None = None,
    ) -> Iterator[FloatArray]:
        """The states (r, 1 + rows), or (r, t) for given inputs, averaged over orders, at the ascending epochs.

        Where a run draws its order once, `watch` sees the states along each order. Epochs are followed block by
        block, so that the sums over chunks of orders fit in memory.
        """
        parts, rank = self.chunks(of_errors, inputs), self.space.dimension
        size = max(len(epochs), 1)
        if len(parts) > 1 and self.recipe.is_constant:
            size = self.block_length(inputs)
        for begin in range(0, len(epochs), size):
            totals: list[FloatArray] = []
            place = 0
            for course in parts:
                states = course.states(start, epochs[begin : begin + size], inputs)
                for number, state in enumerate(states):
                    if watch is not None and course.orders is not None:
                        watch(slice(place, place + course.count), begin + number, state)
                    with np.errstate(over="ignore", invalid="ignore"):
                        summed = state if course.orders is None else state.sum(axis=0)
                        if number == len(totals):
                            totals.append(summed)
                        else:
                            totals[number] = totals[number] + summed
                    if len(parts) == 1:
                        yield _finite_or_inf(totals.pop()[:rank] / course.count)
                        totals.append(np.zeros(0))
                place += course.count
            if len(parts) > 1:
                yield from (_finite_or_inf(total[:rank] / place) for total in totals)

    def block_length(self, inputs: FloatArray | None = None) -> int:
        """The number of mean states that are kept at a time."""
        columns = 1 + len(self.blocks.rows) if inputs is None else beside(inputs).shape[1]
        return max(16, int(BLOCK_BYTES / 8 / max(self.dimension * columns, 1)))


def _finite_or_inf(state: FloatArray) -> FloatArray:
    return np.where(np.isfinite(state), state, np.inf)


def pairs(states: FloatArray) -> FloatArray:
    """The means (k / 2, r, z) of each order and its reverse, which are neighbours."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray((states[0::2] + states[1::2]) / 2)
