"""The mean state of a run along its epochs: the maps of its segments of equal epochs, applied one after another.

A `Timeline` is one scheme; `StagedTimeline` one scheme after the other, `AveragedTimeline` an average of iterates.
Where a run draws its order once, the maps and states of all equally likely orders have a leading axis.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import power_and_sum
from reshuffle.epoch.averaging.lattice import Walk
from reshuffle.epoch.epoch_map import EpochMap, maps_of_orders, mean_map
from reshuffle.epoch.visits import MeanVisits, ScaledBlocks, Visits
from reshuffle.problem.outputs import beside
from reshuffle.problem.row_space import RowSpace
from reshuffle.recipe import Average, Hyperparameters, Recipe
from reshuffle.schemes.base import Scheme, Shuffle, Unit

_REMEMBERED_BYTES = 1e9


@dataclass(frozen=True, eq=False)
class Part:
    """Some epochs of one timeline, counted from its beginning.

    Attributes
    ----------
    timeline : Timeline
    epochs : (k,)
        Ascending.
    asked : int
        How many of them are requested; one more is where the next part begins.
    """

    timeline: "Timeline"
    epochs: FloatArray
    asked: int


@dataclass(eq=False)
class Timeline:
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
        u_star: then the states are those of the error, and the penalty moves it towards -u_star.
    orders : (c, steps), optional
        Equally likely orders of visits, of which a run keeps one: maps and states have a leading axis of c.
    """

    scheme: Scheme
    n: int
    blocks: ScaledBlocks
    space: RowSpace
    recipe: Recipe
    truth: FloatArray | None = None
    orders: IntArray | None = None

    def __post_init__(self) -> None:
        self.walk = Walk(self.scheme, self.n)
        self._maps: dict[Hyperparameters, EpochMap] = {}
        self._last: Visits | None = None
        self._last_with_inputs: tuple[Hyperparameters, FloatArray | None, EpochMap] | None = None

    @property
    def count(self) -> int:
        """The number of orders that are followed apart."""
        return 1 if self.orders is None else len(self.orders)

    def visits(self, epoch: int) -> Visits:
        """The visits of the epoch after `epoch` others: mostly those of the epoch before."""
        scaled = self.recipe.at(epoch).scaled(self.space)
        if self._last is None or self._last.hyperparameters != scaled:
            self._last = self._visits(scaled)
        return self._last

    def _visits(self, scaled: Hyperparameters) -> Visits:
        if self.orders is None and self._draws(Unit.SAMPLE):
            return MeanVisits(self.blocks, scaled, self._average)
        drawn = self.walk.drawn_batches if self.orders is None and self.walk.exists else None
        return Visits(self.blocks, scaled, self._average, drawn)

    def _draws(self, unit: Unit) -> bool:
        """True if every step draws independently of the others."""
        return (self.scheme.shuffle, self.scheme.unit) == (Shuffle.EVERY_STEP, unit)

    @property
    def _average(self) -> Average | None:
        """The average that is part of the state, if one is updated after every visit."""
        average = self.recipe.average
        return average if average is not None and average.is_per_visit else None

    def force(self, visits: Visits) -> FloatArray:
        """Minus the gradient (r,) of the penalty at the truth, which enters at every visit."""
        return visits.unit_force(np.zeros(visits.rank) if self.truth is None else self.truth)

    def map(self, epoch: int) -> EpochMap:
        """The mean map of the epoch after `epoch` others."""
        visits = self.visits(epoch)
        scaled = visits.hyperparameters
        if scaled not in self._maps:
            made = self._mean_map(visits)
            # Under a schedule every epoch may have a map of its own.
            if 8.0 * (made.kernel.size + made.entries.size) * len(self._maps) > _REMEMBERED_BYTES:
                self._maps.clear()
            self._maps[scaled] = made
        return self._maps[scaled]

    def _mean_map(self, visits: Visits) -> EpochMap:
        force, follow = self.force(visits), self.walk.of
        if self.orders is not None:
            return maps_of_orders(visits, force, self.orders)
        if self._draws(Unit.BATCH):
            # Independent visits: the mean of their product is that of as many mean visits.
            visits = MeanVisits(self.blocks, visits.hyperparameters, self._average)
            follow = self.walk.one_after_the_other
        return mean_map(follow, self.walk.steps, visits, force)

    def with_inputs(self, epoch: int, inputs: FloatArray | None) -> EpochMap:
        """The mean map of the epoch after `epoch` others, with the inputs (1 + rows, t) if they are given.

        Remembered while hyperparameters and inputs stay the same, since the map keeps its powers.
        """
        if inputs is None:
            return self.map(epoch)
        visits = self.visits(epoch)
        scaled = visits.hyperparameters
        if (
            self._last_with_inputs is None
            or self._last_with_inputs[0] != scaled
            or self._last_with_inputs[1] is not inputs
        ):
            if self.orders is None or scaled in self._maps:
                made = self.map(epoch).with_inputs(inputs)
            else:
                # Of many orders a column per output is much less than one per row.
                made = maps_of_orders(visits, self.force(visits), self.orders, inputs)
            self._last_with_inputs = scaled, inputs, made
        return self._last_with_inputs[2]

    def parts(self, epochs: FloatArray) -> "Iterator[Part]":
        """The timelines that lead to the ascending epochs, one after the other."""
        yield Part(self, epochs, len(epochs))

    def within(self, epoch: int) -> "tuple[Timeline, int]":
        """The timeline that the epoch after `epoch` others belongs to, and how many of its own were before."""
        return self, epoch

    @property
    def source(self) -> "Timeline":
        """The timeline whose maps are the means over orders."""
        return self

    def learn(self, once: EpochMap) -> None:
        """Take over the map of the first epoch from somewhere else, where it was found more quickly."""
        self._maps[self.visits(0).hyperparameters] = once

    @cached_property
    def settles(self) -> bool:
        """True if the mean converges from every start, along every order."""
        return self.recipe.at(0).step == 0 or self.response.converges

    @property
    def rate(self) -> float:
        """The spectral radius of the epoch, the largest of all orders."""
        return self.response.radius

    @property
    def response(self) -> EpochMap:
        """The map of the first epoch, whatever its inputs."""
        return (
            self.map(0) if self.orders is None else self.with_inputs(0, np.zeros(1 + len(self.blocks.rows)))
        )

    def states(
        self, start: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """The states after each of the epochs, which are ascending, from u_0 or e_0 (r,).

        They are (d, 1 + rows), to be multiplied with the inputs, or (d, t) if those (1 + rows, t) are given, of t
        outputs; (d, 1) for (1 + rows,). The start is (r,), or (r, t) then.
        """
        return self.propagate(self.begin(start, inputs), epochs, inputs)

    def propagate(
        self, begin: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """The states (..., d, z) after each of the ascending epochs, from a state; what leaves all numbers is inf.

        Equal epochs in a row are one power of their map.
        """
        current, done = begin, 0
        for epoch in epochs:
            if np.isinf(epoch):
                current = begin if self.recipe.at(0).step == 0 else self.with_inputs(0, inputs).limit(begin)
            while done < epoch < np.inf:
                end = int(epoch)
                if not self.recipe.is_constant:
                    now = self.recipe.at(done)
                    end = next((late for late in range(done + 1, end) if self.recipe.at(late) != now), end)
                current, done = self.with_inputs(done, inputs).after(end - done, current), end
            yield current

    def begin(self, start: FloatArray, inputs: FloatArray | None) -> FloatArray:
        """The states before the first epoch."""
        return self._begin_with(self.visits(0).dimension, start, inputs)

    def _begin_with(self, dimension: int, start: FloatArray, inputs: FloatArray | None) -> FloatArray:
        """States (d, 1 + rows) that nothing has entered, or (d, t) for inputs of t outputs."""
        columns = 1 + len(self.blocks.rows) if inputs is None else beside(inputs).shape[1]
        begin = np.zeros((dimension, columns))
        if inputs is None:
            begin[: len(start), 0] = start
        else:
            begin[: len(start)] = beside(start)
        return begin if self.orders is None else np.repeat(begin[np.newaxis], self.count, axis=0)


class DerivedTimeline(Timeline):
    """A timeline whose maps are made of those of another, from a later epoch on.

    Parameters
    ----------
    source : Timeline
    recipe : Recipe
        Whose visits these maps belong to.
    derive : callable
        Makes a map of each of its maps.
    first : int
        The epochs of the source that are left out.
    """

    def __init__(
        self, source: Timeline, recipe: Recipe, derive: Callable[[EpochMap], EpochMap], first: int = 0
    ):
        super().__init__(
            source.scheme, source.n, source.blocks, source.space, recipe, source.truth, source.orders
        )
        self._source, self._derive, self._first = source, derive, first

    @property
    def source(self) -> Timeline:
        """The timeline whose maps are the means over orders."""
        return self._source

    def map(self, epoch: int) -> EpochMap:
        """The mean map of the epoch after `epoch` others that are not left out."""
        return self._derive(self._source.map(self._first + epoch))

    def with_inputs(self, epoch: int, inputs: FloatArray | None) -> EpochMap:
        """The mean map with the inputs (1 + rows, t), if they are given."""
        once = self._source.with_inputs(self._first + epoch, inputs)
        known = self._last_with_inputs
        if known is None or known[0] != self.visits(epoch).hyperparameters or known[1] is not inputs:
            self._last_with_inputs = known = self.visits(epoch).hyperparameters, inputs, self._derive(once)
        return known[2]


class AveragedTimeline(Timeline):
    """A `Timeline` that answers for the average of the iterates: its states are (r, 1 + rows).

    Parameters
    ----------
    source : Timeline
        With the average in its state where it is taken per visit.
    average : Average
    """

    def __init__(self, source: Timeline, average: Average):
        super().__init__(
            source.scheme, source.n, source.blocks, source.space, source.recipe, source.truth, source.orders
        )
        self._source, self.average = source, average
        visits = source.visits(0)
        self.rank, self.state = visits.rank, visits.plain_dimension

    @property
    def source(self) -> Timeline:
        """The timeline whose maps are the means over orders."""
        return self._source

    @cached_property
    def plain(self) -> Timeline:
        """The course of the iterates themselves."""
        if not self.average.is_per_visit:
            return self._source
        place, recipe = np.arange(self.state), replace(self.recipe, average=None)
        return DerivedTimeline(self._source, recipe, lambda once: once.part(place))

    @cached_property
    def followed(self) -> Timeline:
        """The course of the state and the average beside it, from where that begins."""

        def derive(once: EpochMap) -> EpochMap:
            return once if self.average.is_per_visit else once.with_average(self.rank, self.average)

        return DerivedTimeline(self._source, self.recipe, derive, self.average.start)

    @property
    def response(self) -> EpochMap:
        """The map of the iterates in the first epoch, whatever its inputs."""
        return self.plain.response

    def states(
        self, start: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """The average after each of the ascending epochs, from u_0 or e_0 (r,): (r, 1 + rows), or (r, t).

        The state is followed alone to where the average begins, and beside the average from there on. A sum grows
        where the iterate settles: it is followed as it is, and divided in the end.
        """
        average, rank, first = self.average, self.rank, self.average.start
        begin = self._begin_with(self.state, start, inputs)
        (state,) = self.plain.propagate(begin, np.array([float(first)]), inputs)
        own = state[..., :rank, :]
        both = np.concatenate([state, own if average.begins_with_iterate else np.zeros_like(own)], axis=-2)
        finite = epochs[np.isfinite(epochs)]
        for epoch, current in zip(finite, self.followed.propagate(both, finite - first, inputs), strict=True):
            yield current[..., self.state :, :] / average.divisor(epoch, self.walk.steps)
        for _ in epochs[np.isinf(epochs)]:
            yield self._end(begin, inputs)

    def _end(self, begin: FloatArray, inputs: FloatArray | None) -> FloatArray:
        """The limit of the iterate, or the average over the visits of an epoch there if all of them count."""
        (state,) = self.plain.propagate(begin, np.array([np.inf]), inputs)
        if not self.average.is_per_visit:
            return np.asarray(state[..., : self.rank, :])
        both = np.concatenate([state, np.zeros_like(state[..., : self.rank, :])], axis=-2)
        added = self.followed.with_inputs(0, inputs).after(1, both)[..., self.state :, :]
        _, visits = power_and_sum(np.array([1 - self.average.kept]), np.asarray(float(self.walk.steps)))
        return np.asarray(added / (self.average.taken * float(visits[0])))


@dataclass(frozen=True, eq=False)
class ChosenBlocks(ScaledBlocks):
    """Batches that are any of the rows: every stage has its own, of rows that all stages share.

    Rows are not compressed, since what is entered with them must mean the same in every stage.

    Attributes
    ----------
    members : tuple of (m_b,)
        The rows of each batch.
    """

    members: tuple[IntArray, ...] = ()

    def of(self, batch: int) -> IntArray:
        """The rows of one batch."""
        return self.members[batch]

    def columns(self, batch: int) -> IntArray:
        """The rows of one batch."""
        return self.members[batch]


def chosen(blocks: ScaledBlocks, members: Sequence[IntArray], divisors: FloatArray) -> ChosenBlocks:
    """Other batches of the same rows."""
    offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in members])]).astype(np.int64)
    return ChosenBlocks(
        blocks.rows, blocks.response, offsets, divisors, blocks.unit, blocks.singular, blocks.penalty_matrix,
        tuple(members),
    )  # fmt: skip


def through_stages(lengths: Sequence[float], epochs: FloatArray) -> Iterator[tuple[int, FloatArray, int]]:
    """The epochs of each stage that lead to the ascending ones, and how many of these are requested.

    >>> for stage, local, asked in through_stages([2, 3, math.inf], np.array([1.0, 5.0, 9.0])):
    ...     print(stage, local, asked)
    0 [1. 2.] 1
    1 [3.] 1
    2 [4.] 1
    """
    done = 0
    for stage, end in enumerate(accumulate(lengths)):
        stop = int(np.searchsorted(epochs, end, side="right"))
        local = epochs[done:stop] - (end - lengths[stage] if math.isfinite(end) else sum(lengths[:stage]))
        asked, is_last = len(local), stop == len(epochs)
        if not is_last and not (asked and local[-1] == lengths[stage]):
            local = np.append(local, lengths[stage])
        yield stage, local, asked
        done = stop
        if is_last:
            return
    raise ValueError(
        f"epochs must be at most {sum(lengths):g}, where the last stage ends, but one is {epochs[-1]:g}."
    )


@dataclass(eq=False, kw_only=True)
class StagedTimeline(Timeline):
    """A `Timeline` that is another one in every stage.

    Parameters
    ----------
    scheme, n, blocks, space, recipe, truth
        As in `Timeline`, of the whole run; the blocks are single rows.
    timelines : list of Timeline
        That of each stage, as if the run began with it.
    lengths : list of float
        The epochs of each stage.
    """

    timelines: list[Timeline]
    lengths: list[float] = field(default_factory=list)

    def within(self, epoch: int) -> tuple[Timeline, int]:
        """The course of the stage that an epoch belongs to, and how many epochs of the stage were before."""
        begin = 0
        for timeline, length in zip(self.timelines, self.lengths, strict=True):
            if epoch < begin + length:
                return timeline, epoch - begin
            begin += int(length)
        raise IndexError(epoch)

    def parts(self, epochs: FloatArray) -> Iterator[Part]:
        """The epochs of each stage."""
        for stage, local, asked in through_stages(self.lengths, epochs):
            yield Part(self.timelines[stage], local, asked)

    def visits(self, epoch: int) -> Visits:
        """The visits of the epoch after `epoch` others."""
        timeline, local = self.within(epoch)
        return timeline.visits(local)

    def map(self, epoch: int) -> EpochMap:
        """The mean map of the epoch after `epoch` others."""
        timeline, local = self.within(epoch)
        return timeline.map(local)

    def propagate(
        self, begin: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """The states after each of the ascending epochs, stage by stage."""
        current = begin
        for part in self.parts(epochs):
            grown = ~np.isfinite(current).all(axis=-2, keepdims=True)
            states = part.timeline.propagate(np.where(grown, 0.0, current), part.epochs, inputs)
            for number, (epoch, state) in enumerate(zip(part.epochs, states, strict=True)):
                # What has left the range of numbers does not come back to it, but in the end.
                returns = np.isinf(epoch) and part.timeline.settles
                current = state if returns else np.where(grown, np.inf, state)
                if number < part.asked:
                    yield current
