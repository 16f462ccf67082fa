"""Many courses at once: the states of all orders that a run may have drawn at its start.

The maps of the orders, their powers and the states along them are stacked arrays. Where all of them together would
take too much memory the courses are followed chunk after chunk, and the epochs block after block; every block
begins with a power of the maps, so that no states are kept in between.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray
from reshuffle._blas import few_threads
from reshuffle.epoch.affine.course import Course, Repeated, once_more
from reshuffle.epoch.affine.stacked_maps import StackedMaps, StackedPowers, stacked_maps
from reshuffle.problem.outputs import beside
from reshuffle.recipe import Hyperparameters

CHUNK_BYTES = 1.6e7
"""Memory that the maps and the states of a chunk of courses may take, with what is worked on: about a cache."""
BLOCK_BYTES = 1e8
"""Memory that means over courses may take, which are added up while chunks are followed."""


class StackedCourses:
    """Courses with fixed orders of the same batches, followed side by side.

    Parameters
    ----------
    courses : list of Course
        Which differ in their orders alone.
    keeps : bool
        Whether the maps are remembered until others are asked for.
    """

    def __init__(self, courses: Sequence[Course], keeps: bool):
        self._courses, self.first, self._keeps = courses, courses[0], keeps
        self._orders = np.array([course.scheme.order(course.n) for course in courses])
        self._known: tuple[Hyperparameters, StackedMaps] | None = None

    def __len__(self) -> int:
        return len(self._courses)

    def maps(self, epoch: int, inputs: FloatArray | None = None) -> StackedMaps:
        """The maps of the epoch after `epoch` others; with given inputs a column enters per output."""
        visits, truth = self.first.visits(epoch), self.first.truth
        if inputs is None and self._known is not None and self._known[0] == visits.hyperparameters:
            return self._known[1]
        force = visits.unit_force(np.zeros(visits.rank) if truth is None else truth)
        made = stacked_maps(visits, force, self._orders, inputs)
        if inputs is None and self._keeps:
            self._known = visits.hyperparameters, made
        return made

    def states(
        self, start: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """The states (courses, d, z) after each of the ascending epochs, as `Course.states` has them one by one."""
        begin, constant = self.first.begin(start, inputs), self.first.recipe.is_constant
        repeated = _Repeated(self.maps(0, inputs), self._courses, begin)
        current, done = repeated.begin, 0
        for epoch in epochs:
            if np.isinf(epoch):
                current = repeated.end()
            elif constant:
                current = repeated.after(int(epoch), done, current)
            else:
                for passed in range(done, int(epoch)):
                    current = once_more(self.maps(passed, inputs), current)
            done = int(epoch) if np.isfinite(epoch) else done
            yield current

    @property
    def settled(self) -> BoolArray:
        """Which of the courses (courses,) converge from every start."""
        return self._settled(self.kernels())

    def fates(self) -> tuple[BoolArray, FloatArray]:
        """The same, and the spectral radii (courses,) of their epochs."""
        maps = self.kernels()
        return self._settled(maps), maps.radii

    def _settled(self, maps: StackedMaps) -> BoolArray:
        moves = self.first.recipe.at(0).step != 0
        return maps.settled if moves else np.ones(len(self), dtype=bool)

    def kernels(self) -> StackedMaps:
        """The maps of the first epoch, with whatever enters."""
        # Nothing has to enter to see what becomes of a state.
        return self.maps(0, None if self._known else np.zeros(1 + len(self.first.blocks.rows)))


class CoursesApart(StackedCourses):
    """Courses that cannot be stacked, such as those of averages, one after the other."""

    def __init__(self, courses: Sequence[Course]):
        super().__init__(courses, keeps=False)

    def states(
        self, start: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """The states (courses, d, z) after each of the ascending epochs."""
        together = zip(*(course.states(start, epochs, inputs) for course in self._courses), strict=True)
        return (np.array(states) for states in together)

    @property
    def settled(self) -> BoolArray:
        """Which of the courses (courses,) converge from every start."""
        return np.array([course.settles for course in self._courses])

    def fates(self) -> tuple[BoolArray, FloatArray]:
        """The same, and the spectral radii (courses,) of their epochs."""
        return self.settled, np.array([course.rate for course in self._courses])


class _Repeated:
    """The maps of the first epoch over and over, from one state (d, z)."""

    def __init__(self, once: StackedMaps, courses: Sequence[Course], begin: FloatArray):
        self._map, self._courses, self._begin = once, courses, begin
        self._powers = StackedPowers(once)
        self._alone: dict[int, Repeated] = {}

    @property
    def begin(self) -> FloatArray:
        """The states before the first epoch."""
        return np.repeat(self._begin[np.newaxis], len(self._courses), axis=0)

    def after(self, epoch: int, done: int, states: FloatArray) -> FloatArray:
        """The states after `epoch` epochs, from those after `done`."""
        current = self._powers.after(epoch - done, states)
        for number in np.flatnonzero(~np.isfinite(current).all(axis=(1, 2))):
            current[number] = self._overflown(int(number), float(epoch))
        return current

    def end(self) -> FloatArray:
        """The states after infinitely many epochs."""
        states = self.begin
        if self._courses[0].recipe.at(0).step == 0:
            return states
        settled = self._map.settled
        with few_threads(states.shape[1]):
            states[settled] = self._map.fixed_points(np.flatnonzero(settled))
        for number in np.flatnonzero(~settled):
            states[number] = self._overflown(int(number), np.inf)
        return states

    def _overflown(self, number: int, epoch: float) -> FloatArray:
        """One of the states where something has left the range of numbers."""
        if number not in self._alone:
            self._alone[number] = Repeated(self._map.one(number), self._courses[number])
        return self._alone[number].overflown(epoch, self._begin)


def chunks(courses: Sequence[Course], inputs: FloatArray | None = None) -> list[StackedCourses]:
    """As many courses together as memory allows for; pairs of neighbours stay together."""
    if not courses[0].can_be_stacked:
        return [CoursesApart(courses)]
    d = courses[0].visits(0).dimension
    columns = 1 + len(courses[0].blocks.rows) if inputs is None else beside(inputs).shape[1]
    # Kernels and entries of a power, of its square and of what they are made from; and the states.
    each = 8.0 * max(d, 1) * (6 * d + 4 * columns)
    size = 2 * max(1, int(CHUNK_BYTES / each / 2))
    parts = [courses[first : first + size] for first in range(0, len(courses), size)]
    return [StackedCourses(part, keeps=len(parts) == 1) for part in parts]


Watch: TypeAlias = Callable[[slice, int, FloatArray], None]
"""What looks at the states (k, d, z) of some of the courses, after the epoch of that number."""


def mean_states(
    parts: Sequence[StackedCourses],
    start: FloatArray,
    epochs: FloatArray,
    inputs: FloatArray | None = None,
    watch: Watch | None = None,
) -> Iterator[FloatArray]:
    """The states (d, z) averaged over all courses, after each of the ascending epochs."""
    places = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    for begin, block in _blocks(parts, epochs, inputs):
        totals: list[FloatArray] = []
        for place, part in zip(pairwise(places), parts, strict=True):
            for number, states in enumerate(part.states(start, block, inputs)):
                if watch is not None:
                    watch(slice(*place), begin + number, states)
                with np.errstate(over="ignore", invalid="ignore"):
                    summed = states.sum(axis=0)
                    if len(parts) == 1:
                        yield summed / places[-1]
                    elif number == len(totals):
                        totals.append(summed)
                    else:
                        totals[number] += summed
        yield from (total / places[-1] for total in totals)


def mean_loss(courses: Sequence[Course]) -> FloatArray:
    """The mean over the courses of D (d, d), what the first epoch takes away."""
    if not courses[0].can_be_stacked:
        return np.asarray(sum(course.map(0).loss for course in courses) / len(courses))
    parts = [part.kernels() for part in chunks(courses, np.zeros(1 + len(courses[0].blocks.rows)))]
    kernel = sum(maps.kernels.sum(axis=0) for maps in parts) / len(courses)
    return np.asarray(parts[0].left[:, np.newaxis] * kernel * parts[0].right)


def block_length(course: Course, inputs: FloatArray | None = None) -> int:
    """How many mean states are kept at a time."""
    return max(16, int(BLOCK_BYTES / 8 / max(course.begin(np.zeros(0), inputs).size, 1)))


def _blocks(
    parts: Sequence[StackedCourses], epochs: FloatArray, inputs: FloatArray | None
) -> Iterator[tuple[int, FloatArray]]:
    """So many epochs at a time that the means after them fit in memory, and the number of the first."""
    first = parts[0].first
    size = block_length(first, inputs)
    # Under a schedule there is no power to begin with.
    if len(parts) == 1 or not first.recipe.is_constant:
        size = max(len(epochs), 1)
    for begin in range(0, len(epochs), size):
        yield begin, epochs[begin : begin + size]
