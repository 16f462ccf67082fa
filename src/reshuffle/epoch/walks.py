"""The mean over the orders of an epoch, of any process that visits change linearly, without enumerating orders.

A walk knows how a scheme draws (`Scheme.shuffle`, `Scheme.unit`) and nothing of what is followed: means, second
moments and whatever else is linear all come from here. Most walks climb the lattice of subsets of the batches,
which are bit masks, layer by layer.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import comb
from typing import Generic, TypeVar

import numpy as np
import scipy.special

from reshuffle._arrays import IntArray
from reshuffle._progress import track
from reshuffle.errors import BudgetError
from reshuffle.schemes.base import Scheme, Shuffle, Unit

State = TypeVar("State")

_MOST_WALKED = 5000
"""Visits of a walk over all ways to cut samples into batches: beyond, orders are drawn."""
MOST_BATCHES = 20
"""Beyond, 2^B averages take longer than anyone waits."""


@dataclass(frozen=True, eq=False)
class Process(Generic[State]):
    """What is followed through an epoch.

    Attributes
    ----------
    visit : callable
        (b, state, slot) -> the state after a visit to batch b, the epoch's visit number `slot`, from 0; linear, up
        to a constant.
    mean : callable
        The mean of a list of equally likely states.
    start : state
    """

    visit: Callable[[int, State, int], State]
    mean: Callable[[Sequence[State]], State]
    start: State

    def along(self, order: IntArray | range) -> State:
        """The state after visits in this order."""
        state = self.start
        for slot, batch in enumerate(order):
            state = self.visit(int(batch), state, slot)
        return state


def cuts_orders(scheme: Scheme) -> bool:
    """Whether a fresh order of samples, or groups of rows, is cut into batches in every epoch."""
    return scheme.shuffle is Shuffle.EVERY_EPOCH and scheme.unit.is_cut


class Walk:
    """How the mean over the orders of one epoch of a scheme over n rows is taken.

    >>> import reshuffle as rs
    >>> Walk(rs.RandomReshuffling(batches=4), 8).visits
    32.0
    """

    def __init__(self, scheme: Scheme, n: int):
        self.scheme, self.n, self.steps = scheme, n, scheme.steps(n)

    @property
    def exists(self) -> bool:
        """Whether there is a walk: not over many shuffled samples, nor over orders that are drawn once."""
        kind = self.scheme.shuffle, self.scheme.unit
        if cuts_orders(self.scheme):
            return self.visits <= _MOST_WALKED
        return kind in _WALKS

    @cached_property
    def visits(self) -> float:
        """How many visits it makes."""
        kind = self.scheme.shuffle, self.scheme.unit
        return _VISITS[kind](self) if kind in _VISITS else float(self.steps)

    @cached_property
    def drawn_batches(self) -> list[tuple[tuple[int, ...], float]] | None:
        """The rows and the divisor of every batch that a step may draw; None where visits are to fixed batches."""
        if not cuts_orders(self.scheme):
            return None
        members = [rows.tolist() for rows in self.scheme.partition(self.n)]
        return [
            (tuple(chain.from_iterable(map(members.__getitem__, units))), divisor)
            for units, divisor in self.drawn_units
        ]

    @property
    def drawn_units(self) -> list[tuple[tuple[int, ...], float]]:
        """The units and the divisor of every batch that a step may cut."""
        divisors = self.scheme.step_divisors(self.n).tolist()
        kinds = dict(zip(self.units_taken.tolist(), divisors, strict=True))
        everything = range(self.n // self.scheme.rows_per_unit)
        return [
            (units, divisor) for size, divisor in kinds.items() for units in combinations(everything, size)
        ]

    @property
    def units_taken(self) -> IntArray:
        """How many samples or groups each step takes, (steps,)."""
        return self.scheme.sizes(self.n) // self.scheme.rows_per_unit

    def of(self, process: Process[State]) -> State:
        """The mean of a process over the orders of an epoch."""
        if not self.exists:
            raise TypeError(
                f"scheme must visit fixed batches for this question, but it is {self.scheme!r}; "
                "try RandomReshuffling, or simulate(...)."
            )
        return _WALKS[self.scheme.shuffle, self.scheme.unit](self, process)

    def one_after_the_other(self, process: Process[State]) -> State:
        """A process through as many visits as an epoch has, all of which are alike."""
        return process.along(range(self.steps))


def _in_order(walk: Walk, process: Process[State]) -> State:
    return process.along(walk.scheme.order(walk.n))


def _over_a_list(walk: Walk, process: Process[State]) -> State:
    return process.mean([process.along(order) for order in walk.scheme.orders(walk.n)])


def _over_subsets(walk: Walk, process: Process[State]) -> State:
    """Up the subset lattice: the mean over the orders of S is that over which batch of S comes last."""
    require_few(walk.steps)
    batches = list(range(walk.steps))
    subsets = (subset for size in batches for subset in layer(batches, size + 1))
    previous: dict[int, State] = {0: process.start}
    current: dict[int, State] = {}
    for subset in track(subsets, 2 ** len(batches) - 1, "averaging orders"):
        if current and subset.bit_count() > next(iter(current)).bit_count():
            previous, current = current, {}
        slot = subset.bit_count() - 1
        current[subset] = process.mean(
            [process.visit(batch, previous[subset ^ (1 << batch)], slot) for batch in elements(subset)]
        )
    (end,) = current.values()
    return end


def _over_sets_of_samples(walk: Walk, process: Process[State]) -> State:
    """Up the lattice of sets of samples: the mean over the ways into a set is that over its last batch."""
    numbers = {units: number for number, (units, _) in enumerate(walk.drawn_units)}
    current: dict[frozenset[int], State] = {frozenset(): process.start}
    taken = 0
    for slot, size in enumerate(walk.units_taken.tolist()):
        taken, previous = taken + size, current
        current = {
            frozenset(samples): process.mean(
                [
                    process.visit(numbers[last], previous[frozenset(samples).difference(last)], slot)
                    for last in combinations(samples, size)
                ]
            )
            for samples in combinations(range(walk.n // walk.scheme.rows_per_unit), taken)
        }
    return process.mean(list(current.values()))


def _over_draws(walk: Walk, process: Process[State]) -> State:
    """Every step is the mean over the batches."""
    state = process.start
    for slot in range(walk.steps):
        state = process.mean([process.visit(batch, state, slot) for batch in range(walk.steps)])
    return state


def _over_steps(walk: Walk, process: Process[State]) -> State:
    """Each `visit` averages over the samples it draws."""
    return walk.one_after_the_other(process)


def _visits_over_sets(walk: Walk) -> float:
    """Every set of samples is reached by each of the batches that may have come last."""
    sizes, units = walk.units_taken, walk.n // walk.scheme.rows_per_unit
    ends = np.cumsum(sizes)
    with np.errstate(over="ignore"):
        # More than a number can hold are infinitely many.
        return float((scipy.special.comb(units, ends) * scipy.special.comb(ends, sizes)).sum())


_WALKS: dict[tuple[Shuffle, Unit], Callable[..., State]] = {
    (Shuffle.NEVER, Unit.BATCH): _in_order,
    (Shuffle.FROM_A_LIST, Unit.BATCH): _over_a_list,
    (Shuffle.EVERY_EPOCH, Unit.BATCH): _over_subsets,
    (Shuffle.EVERY_EPOCH, Unit.SAMPLE): _over_sets_of_samples,
    (Shuffle.EVERY_EPOCH, Unit.GROUP): _over_sets_of_samples,
    (Shuffle.EVERY_STEP, Unit.BATCH): _over_draws,
    (Shuffle.EVERY_STEP, Unit.SAMPLE): _over_steps,
}

_VISITS: dict[tuple[Shuffle, Unit], Callable[[Walk], float]] = {
    (Shuffle.FROM_A_LIST, Unit.BATCH): lambda walk: float(len(walk.scheme.orders(walk.n)) * walk.steps),
    # Every subset is reached from each of its members.
    (Shuffle.EVERY_EPOCH, Unit.BATCH): lambda walk: walk.steps * 2.0 ** (walk.steps - 1),
    (Shuffle.EVERY_EPOCH, Unit.SAMPLE): _visits_over_sets,
    (Shuffle.EVERY_EPOCH, Unit.GROUP): _visits_over_sets,
    (Shuffle.EVERY_STEP, Unit.BATCH): lambda walk: float(walk.steps) ** 2,
}


def layer(members: list[int], size: int) -> Iterator[int]:
    """All subsets with `size` of the members.

    >>> [bin(subset) for subset in layer([0, 1, 2], 2)]
    ['0b11', '0b101', '0b110']
    """
    for chosen in combinations(members, size):
        yield sum(1 << batch for batch in chosen)


def elements(subset: int) -> list[int]:
    """The batches of a subset, in increasing order.

    >>> elements(0b101)
    [0, 2]
    """
    return [batch for batch in range(subset.bit_length()) if subset >> batch & 1]


def prefix_weights(batches: int) -> list[float]:
    """The chance that a given set of j other batches is what comes before batch b, for j = 0 .. B-1.

    All positions of b are equally likely, and so are all sets of that many others: 1 / (B binom(B-1, j)).

    >>> prefix_weights(3)
    [0.3333333333333333, 0.16666666666666666, 0.3333333333333333]
    """
    return [1 / (batches * comb(batches - 1, size)) for size in range(batches)]


def fits_in_memory(batches: int, state_bytes: float) -> bool:
    """Whether a walk up the lattice of so many batches, with states of this size, can be done at all."""
    if batches > MOST_BATCHES:
        return False
    # Two neighbouring layers at a time, none of them larger than the middle one.
    return 2 * math.comb(batches, batches // 2) * state_bytes <= available_bytes()


def require_few(batches: int) -> None:
    """Refuse a lattice that has no end."""
    if batches > MOST_BATCHES:
        raise BudgetError(
            f"batches is {batches}, but the exact mean over their orders takes 2^batches averages and is computed "
            f'for at most {MOST_BATCHES}; try fewer batches, or descend(..., method="auto").'
        )


def available_bytes() -> float:
    """Memory that may be used."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return 0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
