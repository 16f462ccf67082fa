"""The mean over orders of an average of the iterates, for any epochs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._blas import few_threads
from reshuffle._linalg import power_and_sum
from reshuffle.epoch.affine.affine_map import AffineMap
from reshuffle.epoch.affine.averaged_visits import averaged_map
from reshuffle.epoch.affine.course import Course, begin_with, once_more
from reshuffle.recipe import Average, Recipe


class DerivedCourse(Course):
    """A course whose maps are made of those of another, from a later epoch on.

    Parameters
    ----------
    source : Course
    recipe : Recipe
        Whose visits these maps belong to.
    derive : callable
        What is made of each of its maps.
    first : int
        The epochs of the source that are left out.
    """

    def __init__(
        self, source: Course, recipe: Recipe, derive: Callable[[AffineMap], AffineMap], first: int = 0
    ):
        super().__init__(source.scheme, source.n, source.blocks, source.space, recipe, source.truth)
        self._source, self._derive, self._first = source, derive, first

    @property
    def source(self) -> Course:
        """The course whose maps are the means over orders."""
        return self._source

    def map(self, epoch: int) -> AffineMap:
        """The mean map of the epoch after `epoch` others that are not left out."""
        return self._derive(self._source.map(self._first + epoch))

    def through(self, epoch: int, states: FloatArray, inputs: FloatArray | None) -> FloatArray:
        """The states after one more epoch: what was derived is known of maps alone."""
        return once_more(self.fed(epoch, inputs), states)


class AveragedCourse(Course):
    """A `Course` that answers for the average of the iterates: its states are (r, 1 + rows).

    Parameters
    ----------
    source : Course
        With the average in its state where it is taken per visit.
    average : Average
    """

    can_be_stacked = False

    def __init__(self, source: Course, average: Average):
        super().__init__(source.scheme, source.n, source.blocks, source.space, source.recipe, source.truth)
        self._source, self.average = source, average
        visits = source.visits(0)
        self.rank, self.state = visits.rank, visits.plain.dimension

    @property
    def source(self) -> Course:
        """The course whose maps are the means over orders."""
        return self._source

    @cached_property
    def plain(self) -> Course:
        """The course of the iterates themselves."""
        if not self.average.is_per_visit:
            return self._source
        place, recipe = np.arange(self.state), replace(self.recipe, average=None)
        return DerivedCourse(self._source, recipe, lambda once: once.part(place))

    @cached_property
    def followed(self) -> Course:
        """The course of the state and the average beside it, from where that begins."""

        def derive(once: AffineMap) -> AffineMap:
            return once if self.average.is_per_visit else averaged_map(once, self.rank, self.average)

        return DerivedCourse(self._source, self.recipe, derive, self.average.start)

    @cached_property
    def settles(self) -> bool:
        """Whether the mean iterate converges from every start, and hence its average."""
        return self.plain.settles

    @property
    def rate(self) -> float:
        """The spectral radius of the epoch of the iterates."""
        return self.plain.rate

    def states(
        self, start: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """The average after each of the ascending epochs, from u_0 or e_0 (r,): (r, 1 + rows), or (r, t)."""
        begin = begin_with(self.state, start, len(self.blocks.rows), inputs)
        late = epochs - self.average.start
        if self.average.begins_with_iterate:
            return self._moving(begin, late, inputs)
        return self._tail(begin, late, inputs)

    def _moving(
        self, begin: FloatArray, epochs: FloatArray, inputs: FloatArray | None
    ) -> Iterator[FloatArray]:
        both = np.concatenate([begin, begin[: self.rank]])
        for state in self.followed.onward(both, epochs[np.isfinite(epochs)], inputs):
            yield state[self.state :]
        for _ in epochs[np.isinf(epochs)]:
            yield self._end(begin, inputs)

    def _tail(self, begin: FloatArray, late: FloatArray, inputs: FloatArray | None) -> Iterator[FloatArray]:
        """A sum grows where the iterate settles: it is followed as it is, and divided in the end."""
        (state,) = self.plain.onward(begin, np.array([float(self.average.start)]), inputs)
        both = np.concatenate([state, np.zeros_like(state[: self.rank])])
        once = self.followed.repeated(inputs)
        current, done = both, 0
        for count in late[np.isfinite(late)]:
            with few_threads(len(both)):
                if self.recipe.is_constant:
                    current = once.powers.after(int(count) - done, current)
                    if not np.isfinite(current).all():
                        current = once.apart(count, both)
                else:
                    for passed in range(done, int(count)):
                        current = once_more(self.followed.fed(passed, inputs), current)
            done = int(count)
            yield current[self.state :] / self.average.divisor(count + self.average.start, self.walk.steps)
        for _ in late[np.isinf(late)]:
            yield self._end(begin, inputs)

    def _end(self, begin: FloatArray, inputs: FloatArray | None) -> FloatArray:
        """Where the iterate ends, or the average over the visits of an epoch there if all of them count."""
        state = self.plain.repeated(inputs).end(begin)
        if not self.average.is_per_visit:
            return state[: self.rank]
        both = np.concatenate([state, np.zeros_like(state[: self.rank])])
        taken_on = self.followed.repeated(inputs).apart(1, both)[self.state :]
        _, visits = power_and_sum(np.array([1 - self.average.kept]), np.asarray(float(self.walk.steps)))
        return taken_on / (self.average.taken * float(visits[0]))
