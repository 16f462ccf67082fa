"""The mean state along one course of a run, for any epochs; coordinates that never meet are followed apart."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.sparse.csgraph import connected_components

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.epoch.affine.affine_map import AffineMap, Follow, Powers, followed_states, mean_map
from reshuffle.epoch.affine.averaged_visits import AveragedVisits
from reshuffle.epoch.affine.escape import Escape
from reshuffle.epoch.affine.stacked_maps import StackedMaps
from reshuffle.epoch.affine.visits import DrawnVisits, GradedBlocks, MeanVisits, SubsetVisits, Visits
from reshuffle.epoch.averaging.lattice import Walk
from reshuffle.problem.outputs import beside
from reshuffle.problem.row_space import RowSpace
from reshuffle.recipe import Hyperparameters, Recipe
from reshuffle.schemes.base import Scheme, Shuffle, Unit

_REMEMBERED_BYTES = 1e9


@dataclass(frozen=True, eq=False)
class Part:
    """Some epochs of one course, counted from its beginning.

    Attributes
    ----------
    course : Course
    epochs : (k,)
        Ascending.
    asked : int
        How many of them are asked for; one more is where the next part begins.
    """

    course: "Course"
    epochs: FloatArray
    asked: int


@dataclass(eq=False)
class Course:
    """The mean over the orders of one scheme, as states (d, 1 + rows) that inputs (1, y) are multiplied with.

    Parameters
    ----------
    scheme : Scheme
    n : int
        Rows.
    blocks : GradedBlocks
    space : RowSpace
    recipe : Recipe
    truth : (r,), optional
        u_star: then the states are those of the error, and the penalty pulls it towards -u_star.
    """

    can_be_stacked: ClassVar[bool] = True

    scheme: Scheme
    n: int
    blocks: GradedBlocks
    space: RowSpace
    recipe: Recipe
    truth: FloatArray | None = None

    def __post_init__(self) -> None:
        self.walk = Walk(self.scheme, self.n)
        self._maps: dict[Hyperparameters, AffineMap] = {}
        self._last: Visits | None = None

    def visits(self, epoch: int) -> Visits:
        """The visits of the epoch after `epoch` others: mostly those of the epoch that was last asked for."""
        scaled = self.recipe.at(epoch).scaled(self.space)
        if self._last is None or self._last.hyperparameters != scaled:
            self._last = self._visits(scaled)
        return self._last

    def _visits(self, scaled: Hyperparameters) -> Visits:
        if (self.scheme.shuffle, self.scheme.unit) == (Shuffle.EVERY_STEP, Unit.SAMPLE):
            return self._averaged(DrawnVisits(self.blocks, scaled))
        drawn = self.walk.drawn_batches if self.walk.exists else None
        return self._averaged(
            Visits(self.blocks, scaled) if drawn is None else SubsetVisits(self.blocks, scaled, drawn)
        )

    def _averaged(self, visits: Visits) -> Visits:
        """With what is averaged after every visit, if anything is."""
        average = self.recipe.average
        return AveragedVisits(visits, average) if average is not None and average.is_per_visit else visits

    def map(self, epoch: int) -> AffineMap:
        """The mean map of the epoch after `epoch` others."""
        scaled = self.visits(epoch).hyperparameters
        if scaled not in self._maps:
            follow, visits, force = self._epoch(epoch)
            made = mean_map(follow, self.walk.steps, visits, force)
            # Under a schedule every epoch may have a map of its own.
            if 8.0 * (made.kernel.size + made.entries.size) * len(self._maps) > _REMEMBERED_BYTES:
                self._maps.clear()
            self._maps[scaled] = made
        return self._maps[scaled]

    def _epoch(self, epoch: int) -> tuple[Follow, Visits, FloatArray]:
        """How the mean of the epoch after `epoch` others is taken, of which visits, and with which force."""
        visits, follow = self.visits(epoch), self.walk.of
        force = visits.unit_force(np.zeros(visits.rank) if self.truth is None else self.truth)
        if (self.scheme.shuffle, self.scheme.unit) == (Shuffle.EVERY_STEP, Unit.BATCH):
            # Independent visits: the mean of their product is that of as many mean visits.
            visits = self._averaged(MeanVisits(self.blocks, self.recipe.at(epoch).scaled(self.space)))
            follow = self.walk.one_after_the_other
        return follow, visits, force

    def through(self, epoch: int, states: FloatArray, inputs: FloatArray | None) -> FloatArray:
        """The states after one more epoch, unlike the one before it: followed themselves, with no map of it.

        A map has d columns more than the states, and if responses are given their single column is all there is.
        """
        after = followed_states(*self._epoch(epoch), states, inputs)
        # Beyond the range of numbers the map knows which states have grown.
        return after if np.isfinite(after).all() else once_more(self.fed(epoch, inputs), states)

    def parts(self, epochs: FloatArray) -> "Iterator[Part]":
        """What is gone through, one after the other, to reach the ascending epochs."""
        yield Part(self, epochs, len(epochs))

    def within(self, epoch: int) -> "tuple[Course, int]":
        """The course that the epoch after `epoch` others belongs to, and how many of its own were before."""
        return self, epoch

    @property
    def source(self) -> "Course":
        """The course whose maps are the means over orders."""
        return self

    def learn(self, once: AffineMap) -> None:
        """Take over the map of the first epoch from somewhere else, where it was found more quickly."""
        self._maps[self.visits(0).hyperparameters] = once

    @cached_property
    def settles(self) -> bool:
        """Whether the mean converges from every start."""
        return self.recipe.at(0).step == 0 or (self.map(0).is_finite and self.map(0).settles)

    @property
    def rate(self) -> float:
        """The spectral radius of the epoch."""
        return self.map(0).radius if self.map(0).is_finite else np.inf

    def states(
        self, start: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """The states after each of the epochs, which are ascending, from u_0 or e_0 (r,).

        They are (d, 1 + rows), to be multiplied with the inputs, or (d, t) if those (1 + rows, t) are given, of t
        outputs; (d, 1) for (1 + rows,). The start is (r,), or (r, t) then.
        """
        return self.onward(self.begin(start, inputs), epochs, inputs)

    def onward(
        self, begin: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """The same from a state (d, z)."""
        current, done, before = begin, 0.0, None
        once = self.repeated(inputs) if self.recipe.is_constant else None
        for epoch in epochs:
            if np.isinf(epoch):
                assert once is not None
                current = once.end(begin)
            elif once is not None:
                current = once.powers.after(int(epoch) - int(done), current)
                if not np.isfinite(current).all():
                    current = once.overflown(epoch, begin)
            else:
                for passed in range(int(done), int(epoch)):
                    now = self.recipe.at(passed)
                    if now == before:
                        current = once_more(self.fed(passed, inputs), current)
                    else:
                        current = self.through(passed, current, inputs)
                    before = now
            done = epoch
            yield current

    def begin(self, start: FloatArray, inputs: FloatArray | None) -> FloatArray:
        """The states before the first epoch."""
        return begin_with(self.visits(0).dimension, start, len(self.blocks.rows), inputs)

    def repeated(self, inputs: FloatArray | None) -> "Repeated":
        """The map of the first epoch over and over."""
        return Repeated(self.fed(0, inputs), self)

    def fed(self, epoch: int, inputs: FloatArray | None) -> AffineMap:
        """The mean map of the epoch after `epoch` others, with the inputs (1 + rows, t) if they are given."""
        return self.map(epoch) if inputs is None else self.map(epoch).fed(inputs)


class Repeated:
    """One map over and over, and what grows in it."""

    def __init__(self, once: AffineMap, course: Course):
        self.map, self.powers, self._course = once, Powers(once), course

    @cached_property
    def _parts(self) -> "list[tuple[IntArray, _Part]]":
        """The coordinates that have to do with each other, and what the map does to them: others may grow."""
        count, labels = connected_components(self.map.kernel != 0, directed=False)
        places = [np.flatnonzero(labels == label) for label in range(count)]
        return [(place, _Part(self.map.part(place))) for place in places]

    def overflown(self, epoch: float, begin: FloatArray) -> FloatArray:
        """The states after so many epochs, where some have left the range of numbers: they are inf."""
        states = np.zeros_like(begin)
        for place, part in self._parts:
            states[place] = _answer(part.after(epoch, begin[place]), part.map, begin[place])
        return states

    def apart(self, count: float, begin: FloatArray) -> FloatArray:
        """The states after so many epochs, each part by its powers alone: inf in all of a part that has grown."""
        states = np.zeros_like(begin)
        for place, part in self._parts:
            states[place] = _answer(Powers(part.map).after(count, begin[place]), part.map, begin[place])
        return states

    def end(self, begin: FloatArray) -> FloatArray:
        """The states after infinitely many epochs."""
        if self._course.recipe.at(0).step == 0:
            return begin
        return self.map.fixed_point() if self._course.settles else self.overflown(np.inf, begin)


class _Part:
    """A map on coordinates of which some may grow."""

    def __init__(self, once: AffineMap):
        self.map = once

    @cached_property
    def _repeated(self) -> Escape | Powers:
        return Powers(self.map) if self.map.settles else Escape(self.map)

    def after(self, epoch: float, begin: FloatArray) -> FloatArray:
        """The states (d, z) after so many epochs, infinity included."""
        if not self.map.is_finite:
            return np.full_like(begin, np.inf)
        if np.isinf(epoch) and self.map.settles:
            return self.map.fixed_point()
        # What grows takes with it coordinates that it does not even reach: the map without it leaves them.
        return self._repeated.after(epoch, begin)


def begin_with(dimension: int, start: FloatArray, rows: int, inputs: FloatArray | None) -> FloatArray:
    """The states (d, 1 + rows) before anything has entered, or (d, t) for inputs of t outputs."""
    if inputs is None:
        begin = np.zeros((dimension, 1 + rows))
        begin[: len(start), 0] = start
        return begin
    begin = np.zeros((dimension, beside(inputs).shape[1]))
    begin[: len(start)] = beside(start)
    return begin


def once_more(once: AffineMap | StackedMaps, states: FloatArray) -> FloatArray:
    """The states (..., d, z) after one more application; inf where they leave the range of numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _answer(once(states), once, states)


def _answer(following: FloatArray, once: AffineMap | StackedMaps, before: FloatArray) -> FloatArray:
    """The states after a map: what is no number has grown, but what was nothing, with no input, stays nothing."""
    still = ~(before.any(axis=-2, keepdims=True) | once.entries.any(axis=-2, keepdims=True))
    return np.where(still, 0.0, np.where(np.isfinite(following), following, np.inf))
