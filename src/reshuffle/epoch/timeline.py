"""The mean state of a run along its epochs: maps of segments of equal epochs, applied one after another.

A `Timeline` is one scheme with one recipe; a run through stages has one for each stage. An average of iterates is
one more block of the state. Where a run draws its order once, the equally likely orders are a leading axis.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate, pairwise
from typing import Any, Self, TypeAlias

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import finite_or_inf, overflow_is_inf, power_and_sum
from reshuffle._uncertainty import ERROR_KINDS, MOST_GROUPS, ErrorKind
from reshuffle.epoch import select
from reshuffle.epoch.averaging import cavity_maps
from reshuffle.epoch.averaging.lattice import Walk, climbs, repeated
from reshuffle.epoch.averaging.sampling import DrawPairs, pairs_of_orders
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.select import WITHOUT_SOLUTION, Accuracy, Averager, Choice
from reshuffle.epoch.visits import MeanVisits, ScaledBlocks, Visits, maps_of_orders, mean_map
from reshuffle.errors import BudgetError
from reshuffle.problem.row_space import RowSpace
from reshuffle.recipe import Hyperparameters, Recipe
from reshuffle.schemes.base import Scheme, Shuffle, Unit

REMEMBERED_BYTES = 1e9  # memory of the maps of a schedule, which may have one for every epoch
DRAWN_BYTES = 4e9  # memory of the maps of all groups of drawn orders, which the replicas of a run share
CHUNK_BYTES = 1.6e7
"""Memory of the maps and the states of a chunk of orders, with what is worked on: about a cache."""
BLOCK_BYTES = 1e8  # memory of the sums over orders, which are added up chunk by chunk

ANY_ACCURACY = Accuracy(rtol=math.inf)  # whatever the first draws give, where orders are drawn

Watch: TypeAlias = Callable[[slice, int, FloatArray], None]
"""Sees the states (k, d, z) along some of the orders, after the epoch of that number."""


class Timeline:
    """The epochs of one scheme and recipe: visits, mean maps over orders with replicas, and the mean states.

    Inputs are zeta = (1, y of the rows of the blocks). The first enters with the force of a penalty at the truth
    u_star (r,), which acts on errors u - u_star; for parameters it is 0 in place of 1. A stage has a `length` in
    epochs. Equally likely `orders` (c, steps), by default those between which the scheme chooses at the start, are
    followed one by one.
    """

    def __init__(
        self,
        scheme: Scheme,
        n: int,
        blocks: ScaledBlocks,
        space: RowSpace,
        recipe: Recipe,
        truth: FloatArray | None = None,
        accuracy: Accuracy = ANY_ACCURACY,
        length: float = math.inf,
        orders: IntArray | None = None,
    ):
        self._chosen_from, self.n, self.blocks, self.space = scheme, n, blocks, space
        self.recipe, self.truth, self.accuracy, self.length = recipe, truth, accuracy, length
        alternatives = scheme.timelines(n)
        if orders is None and len(alternatives) > 1:
            orders = np.array([each.order(n) for each in alternatives])
        self.scheme, self.orders = alternatives[0], orders
        self.walk = Walk(self.scheme, n)
        self.replica: int | None = None
        self._last: Visits | None = None
        self._whole: Timeline | None = None
        # Shared by all replicas.
        self._maps: dict[Hyperparameters, EpochMap] = {}
        self._sums: dict[str, Any] = {}
        # Of this one alone.
        self._applied: dict[bool, tuple[Hyperparameters, FloatArray | None, EpochMap]] = {}
        self._cut: dict[bool, list[Timeline]] = {}

    def _copy(self, **changes: Any) -> Self:
        """A copy with changes; what follows from the maps is computed anew."""
        made = copy(self)
        made.__dict__.update(_applied={}, _cut={}, **changes)
        for name in ("responses", "plain"):
            made.__dict__.pop(name, None)
        return made

    def with_truth(self, truth: FloatArray | None) -> "Timeline":
        """The timeline of the errors of another output: without a penalty the same one."""
        return self._copy(truth=truth, _maps={}, _sums={}) if self.recipe.penalty else self

    @property
    def count(self) -> int:
        """The number of orders that are followed apart."""
        return 1 if self.orders is None else len(self.orders)

    # How the mean over orders is taken, and the replicas that carry its error.

    @cached_property
    def choice(self) -> Choice:
        """The way in which the mean over orders is taken, and why: by what it is worth in the first epoch."""
        first = self.visits(0)
        known = self._averagers(first)
        chosen = select.select(known, self.accuracy)
        if chosen.taken == "cavity":
            # Only its solution tells what the cavity equation is worth.
            self._maps[first.hyperparameters], chosen = select.average(known, self.accuracy)
        return chosen

    def _averagers(self, visits: Visits) -> list[Averager[EpochMap]]:
        """The methods to take the mean of an epoch."""
        walk, force = Walk(self._chosen_from, self.n), self.force(visits)
        over_all_orders = partial(self._over_all_orders, visits, force)
        return select.of_epoch(
            walk, self.recipe, self.blocks, visits, force, lambda: self.draw_pairs, over_all_orders
        )

    @property
    def error_kind(self) -> ErrorKind:
        """The meaning of errors: "exact", an "estimate" by the cavity equation, or that of drawn orders."""
        return ERROR_KINDS[self.choice.taken]

    @cached_property
    def draw_pairs(self) -> DrawPairs:
        """Draws pairs of an order of the scheme and its reverse."""
        return pairs_of_orders(self.scheme, self.n, self.blocks)

    @overflow_is_inf
    def _mean_map(self, visits: Visits) -> EpochMap:
        """The mean map of an epoch, with the replicas that carry its error: none if it is exact."""
        key, chosen = visits.hyperparameters, self.choice
        if key in self._maps:
            return self._maps[key]
        (averager,) = (one for one in self._averagers(visits) if one.name == chosen.taken)
        if chosen.taken == "cavity":
            # Under a schedule the equation may have a solution in the first epoch alone.
            made = averager.average(self.accuracy) or cavity_maps.beyond_numbers(visits, self.walk.steps)
        else:
            unknown = any(one.rejected_because == WITHOUT_SOLUTION for one in chosen.methods)
            wanted = self.accuracy.relaxed_for_divergence if unknown else self.accuracy
            made = select.averaged(averager, wanted)
        # Under a schedule every epoch may have a different map; drawn ones are too expensive to be drawn again.
        if self.error_kind == "exact" and made.bytes * len(self._maps) > REMEMBERED_BYTES:
            self._maps.clear()
        self._maps[key] = made
        return made

    def _over_all_orders(self, visits: Visits, force: FloatArray) -> EpochMap:
        """The mean map of an epoch over all orders, or those of each of the orders that are followed apart."""
        if self.orders is not None:
            return maps_of_orders(visits, force, self.orders)
        if self._draws(Unit.BATCH):
            # Independent visits: the mean of their product is that of as many mean visits.
            mean = MeanVisits(self.blocks, visits.hyperparameters, visits.average)
            return mean_map(repeated(1, self.walk.steps), mean, force)
        return mean_map(self.walk.layers, visits, force, of_subsets=climbs(self.walk.scheme))

    @property
    def samples_orders(self) -> bool:
        """True if the orders that are followed apart are a sample of all there are."""
        return self._chosen_from.samples_orders(self.n)

    @property
    def replicas(self) -> "list[Timeline]":
        """Copies with each of the maps that carry the error, or without each group of drawn orders."""
        if self.error_kind == "exact" or self.replica is not None:
            return []
        if self.orders is None:
            return [
                self._copy(replica=number) for number in range(len(self._mean_map(self.visits(0)).replicas))
            ]
        made = [copy(self) for _ in self._groups]
        for number, each in enumerate(made):
            each.replica = number
        return made

    # Visits and maps.

    def visits(self, epoch: int) -> Visits:
        """The visits of the epoch after `epoch` others: mostly those of the epoch before."""
        scaled, average = self.recipe.at(epoch).scaled(self.space), self.recipe.average
        if self._last is None or self._last.hyperparameters != scaled:
            average = average if average is not None and average.is_per_visit else None
            kind = MeanVisits if self.orders is None and self._draws(Unit.SAMPLE) else Visits
            blocks = self.blocks
            if kind is Visits and self.orders is None and self.walk.exists and self.walk.drawn_batches:
                rows, divisors = zip(*self.walk.drawn_batches, strict=True)
                blocks = blocks.with_batches(
                    [np.array(one, dtype=np.intp) for one in rows], np.array(divisors)
                )
            self._last = kind(blocks, scaled, average)
        return self._last

    def _draws(self, unit: Unit) -> bool:
        """True if every step draws independently of the others."""
        return (self.scheme.shuffle, self.scheme.unit) == (Shuffle.EVERY_STEP, unit)

    def force(self, visits: Visits) -> FloatArray:
        """Minus the gradient (r,) of the penalty at the truth, which enters at every visit."""
        return visits.unit_force(np.zeros(visits.rank) if self.truth is None else self.truth)

    def map(self, epoch: int) -> EpochMap:
        """The mean map of the epoch after `epoch` others."""
        if self._whole is not None:
            return self._alone(self._whole.map(epoch))
        mean = self._mean_map(self.visits(epoch))
        if self.replica is None or self.orders is not None or not mean.replicas:
            return mean
        return mean.replicas[self.replica]

    def learn(self, once: EpochMap) -> None:
        """Take over the map of the first epoch from somewhere else, where it was found more quickly."""
        self._maps[self.visits(0).hyperparameters] = once

    def with_inputs(self, epoch: int, inputs: FloatArray | None, averages: bool = False) -> EpochMap:
        """The mean map of the epoch after `epoch` others, with the inputs (1 + rows, t) if they are given.

        With `averages` its state includes the average per epoch. Remembered while hyperparameters and inputs
        stay the same, since the map keeps its powers.
        """
        visits = self.visits(epoch)
        scaled, known = visits.hyperparameters, self._applied.get(averages)
        if known is not None and known[0] == scaled and known[1] is inputs:
            return known[2]
        if self._whole is not None:
            made = self._alone(self._whole.with_inputs(epoch, inputs))
        elif inputs is None or self.orders is None or scaled in self._maps:
            made = self.map(epoch)
            made = made if inputs is None else made.with_inputs(inputs)
        else:
            # Of many orders a column per output is much less than one per row.
            made = maps_of_orders(visits, self.force(visits), self.orders, inputs)
        if averages and self.recipe.average is not None and visits.average is None:
            made = made.with_average(visits.rank, self.recipe.average)
        self._applied[averages] = scaled, inputs, made
        return made

    @cached_property
    def plain(self) -> "Timeline":
        """The timeline of the iterates themselves, without an average in the state."""
        if self.recipe.average is None:
            return self
        return self._copy(recipe=replace(self.recipe, average=None), _whole=self, _last=None)

    def _alone(self, once: EpochMap) -> EpochMap:
        """The map without an average per visit."""
        d = self.visits(0).plain_dimension
        return once if len(once.left) == d else once.part(np.arange(d))

    @cached_property
    def responses(self) -> list[EpochMap]:
        """The maps of the iterates in the first epoch, whatever its inputs, in chunks of orders."""
        if self.orders is None:
            return [self.plain.map(0)]
        nothing = np.zeros((1 + len(self.blocks.rows), 1))
        return [chunk.plain.with_inputs(0, nothing) for chunk in self._chunks(nothing)]

    @property
    @overflow_is_inf
    def converges(self) -> bool:
        """True if the mean converges from every start, along every order."""
        return self.recipe.at(0).step == 0 or all(once.converges for once in self.responses)

    @property
    @overflow_is_inf
    def rate(self) -> float:
        """The spectral radius of the epoch, the largest of all orders."""
        return max(once.radius for once in self.responses)

    # States.

    def begin(self, start: FloatArray, inputs: FloatArray | None) -> FloatArray:
        """The state (..., d, 1 + rows) before the first epoch, or (..., d, t) for inputs of t outputs."""
        begin = np.zeros((self.visits(0).plain_dimension, self._columns(inputs)))
        begin[: len(start), : start.shape[1]] = start
        return begin if self.orders is None else np.repeat(begin[np.newaxis], self.count, axis=0)

    def _columns(self, inputs: FloatArray | None) -> int:
        return 1 + len(self.blocks.rows) if inputs is None else inputs.shape[1]

    def propagate(
        self,
        begin: FloatArray,
        epochs: FloatArray,
        inputs: FloatArray | None,
        first: int = 0,
        averages: bool = False,
    ) -> Iterator[FloatArray]:
        """The states (..., d, z) at ascending epochs, from the state after `first`; what overflows is inf.

        Equal epochs in a row are one power of their map.
        """
        self._require_memory(epochs)
        current, done = begin, first
        for epoch in epochs:
            if np.isinf(epoch):
                at_rest = self.recipe.at(0).step == 0
                current = begin if at_rest else self.with_inputs(0, inputs, averages).limit(begin)
            while done < epoch < np.inf:
                end = int(epoch)
                if not self.recipe.is_constant:
                    now = self.recipe.at(done)
                    end = next((late for late in range(done + 1, end) if self.recipe.at(late) != now), end)
                current, done = self.with_inputs(done, inputs, averages).after(end - done, current), end
            yield current

    def _require_memory(self, epochs: FloatArray) -> None:
        """Refuse a schedule whose maps of drawn orders, which all replicas share, do not fit."""
        source = self if self._whole is None else self._whole
        is_free = self.recipe.is_constant or self.orders is not None or not len(epochs)
        if is_free or source.error_kind in ("exact", "estimate"):
            return
        unlike = len({self.recipe.at(epoch) for epoch in range(int(epochs[-1]))})
        mean = source._mean_map(source.visits(0))
        needed = unlike * mean.bytes * (1 + len(mean.replicas))
        if needed > DRAWN_BYTES:
            raise BudgetError(
                f"the drawn orders of {unlike} epochs with different steps take {needed:.1g} bytes, but at most "
                f"{DRAWN_BYTES:.1g} are stored; try fewer epochs, steps that change less often, fixed batches "
                "that are few (RandomReshuffling), or simulate(...)."
            )

    def states(
        self, start: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """The states, or the averages of the iterates, at ascending epochs, from u_0 or e_0 (r,) or (r, t).

        They are (..., d, 1 + rows), to be multiplied with the inputs, or (..., d, t) if those (1 + rows, t) are
        given. With an average the state is followed alone to where that begins, and with it from there on. A sum
        grows where the iterate converges: it is followed as it is, and divided in the end.
        """
        average, visits, begin = self.recipe.average, self.visits(0), self.begin(start, inputs)
        if average is None:
            yield from self.propagate(begin, epochs, inputs)
            return
        rank, place = visits.rank, visits.plain_dimension
        (state,) = self.plain.propagate(begin, np.array([float(average.start)]), inputs)
        own = state[..., :rank, :]
        both = np.concatenate([state, own if average.begins_with_iterate else np.zeros_like(own)], axis=-2)
        finite = epochs[np.isfinite(epochs)]
        followed = self.propagate(both, finite, inputs, average.start, averages=True)
        for epoch, current in zip(finite, followed, strict=True):
            yield current[..., place:, :] / average.divisor(epoch, self.walk.steps)
        if len(finite) == len(epochs):
            return
        # The limit of the iterate, or the average over the visits of an epoch there if all of them count.
        (end,) = self.plain.propagate(begin, np.array([np.inf]), inputs)
        own = end[..., :rank, :]
        if average.is_per_visit:
            both = np.concatenate([end, np.zeros_like(own)], axis=-2)
            added = self.with_inputs(average.start, inputs, averages=True).after(1, both)[..., place:, :]
            _, visited = power_and_sum(np.array([1 - average.kept]), np.asarray(float(self.walk.steps)))
            own = added / (average.taken * float(visited[0]))
        yield from (np.asarray(own) for _ in epochs[len(finite) :])

    def means(
        self,
        start: FloatArray,
        epochs: FloatArray,
        inputs: FloatArray | None = None,
        watch: Watch | None = None,
    ) -> Iterator[FloatArray]:
        """The states (r, 1 + rows), or (r, t) for given inputs, averaged over orders, at ascending epochs.

        Where a run draws its order once, `watch` sees the states along each order, and a replica leaves its group
        out. Epochs are followed block by block, so that the sums over chunks of orders fit in memory.
        """
        rank = self.space.dimension
        if self.orders is None:
            for state in self.states(start, epochs, inputs):
                yield finite_or_inf(state[:rank])
            return
        groups, columns, size = self._groups, self._columns(inputs), max(len(epochs), 1)
        if self.recipe.is_constant or self.samples_orders:
            size = max(1, int(BLOCK_BYTES / max(8 * len(groups) * rank * columns, 1)))
        sizes = np.array([group.stop - group.start for group in groups])
        counted = np.arange(len(groups)) != self.replica
        for first in range(0, len(epochs), size):
            when = epochs[first : first + size]
            key = (start.tobytes(), when.tobytes(), None if inputs is None else inputs.tobytes())
            if watch is not None or self._sums.get("key") != key:
                # The sums over the orders of each group, which all replicas share.
                sums, place = np.zeros((len(when), len(groups), rank, columns)), 0
                for chunk in self._chunks(inputs):
                    group = next(at for at, one in enumerate(groups) if one.start <= place < one.stop)
                    for number, state in enumerate(chunk.states(start, when, inputs)):
                        if watch is not None:
                            watch(slice(place, place + chunk.count), first + number, state)
                        sums[number, group] += state[:, :rank].sum(axis=0)
                    place += chunk.count
                self._sums.update(key=key, sums=sums)
            for summed in self._sums["sums"]:
                yield finite_or_inf(summed[counted].sum(axis=0) / sizes[counted].sum())

    @property
    def _groups(self) -> list[slice]:
        """The orders of each group that is left out in turn: pairs of an order and its reverse stay together."""
        if not self.samples_orders:
            return [slice(0, self.count)]
        pairs = self.count // 2
        ends = 2 * np.unique(np.linspace(0, pairs, min(MOST_GROUPS, pairs) + 1).astype(int))
        return [slice(int(first), int(last)) for first, last in pairwise(ends)]

    @property
    def chunks(self) -> int:
        """The number of chunks of orders that are followed one after the other, with an input per row."""
        return 1 if self.orders is None else len(self._chunks(None))

    def _chunks(self, inputs: FloatArray | None) -> "list[Timeline]":
        """Timelines of as many orders of a group side by side as memory allows for."""
        if (inputs is None) not in self._cut:
            assert self.orders is not None
            d = max(self.visits(0).dimension, 1)
            # Kernels and entries of a power, of its square and of what they are made from; and the states.
            each = 8.0 * d * (6 * d + 4 * self._columns(inputs))
            size = 2 * max(1, int(CHUNK_BYTES / each / 2))
            self._cut[inputs is None] = [
                self._copy(orders=self.orders[at : min(at + size, group.stop)], _maps={})
                for group in self._groups
                for at in range(group.start, group.stop, size)
            ]
        return self._cut[inputs is None]


def through_stages(lengths: Sequence[float], epochs: FloatArray) -> Iterator[tuple[int, FloatArray, int]]:
    """The epochs of each stage that lead to the ascending ones, and how many of these are requested.

    >>> for stage, local, requested in through_stages([2, 3, math.inf], np.array([1.0, 5.0, 9.0])):
    ...     print(stage, local, requested)
    0 [1. 2.] 1
    1 [3.] 1
    2 [4.] 1
    """
    done = 0
    for stage, end in enumerate(accumulate(lengths)):
        stop = int(np.searchsorted(epochs, end, side="right"))
        local = epochs[done:stop] - (end - lengths[stage] if math.isfinite(end) else sum(lengths[:stage]))
        requested, is_last = len(local), stop == len(epochs)
        if not is_last and not (requested and local[-1] == lengths[stage]):
            local = np.append(local, lengths[stage])
        yield stage, local, requested
        done = stop
        if is_last:
            return
    raise ValueError(
        f"epochs must be at most {sum(lengths):g}, where the last stage ends, but one is {epochs[-1]:g}."
    )


def states_through(
    stages: Sequence[Timeline], start: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
) -> Iterator[FloatArray]:
    """The states (..., d, z) at ascending epochs, stage after stage."""
    if len(stages) == 1:
        yield from stages[0].states(start, epochs, inputs)
        return
    current = stages[0].begin(start, inputs)
    for number, local, requested in through_stages([stage.length for stage in stages], epochs):
        grown = ~np.isfinite(current).all(axis=-2, keepdims=True)
        states = stages[number].propagate(np.where(grown, 0.0, current), local, inputs)
        for place, (epoch, state) in enumerate(zip(local, states, strict=True)):
            # What has overflowed does not come back, but in the limit.
            returns = np.isinf(epoch) and stages[number].converges
            current = state if returns else np.where(grown, np.inf, state)
            if place < requested:
                yield current
