"""The exact mean over the orders of a handful of batches: on the lattice of their subsets, whichever is cheaper.

F(S), the average over all orderings of the batches in S of the product of (I - step W_b), obeys
F(S) = mean over b in S of (I - step W_b) F(S - b). Two lattices write it in kernels D(S): one over the rows of
S, one over the parameters.
"""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, combinations
from math import comb
from typing import Generic, TypeVar

import numpy as np
import scipy.special

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._budget import CALL
from reshuffle._linalg import each, thin_qr, workers
from reshuffle._progress import track
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.errors import BudgetError
from reshuffle.problem.batches import Blocks
from reshuffle.schemes.base import Scheme, Shuffle, Unit


def flops(blocks: Blocks) -> float:
    """Operations of the cheaper lattice, calls included; infinite with too many batches or too little memory."""
    if blocks.batches > MOST_BATCHES or _needed_bytes(blocks) > available_bytes():
        return math.inf
    return min(_flops_of_both(blocks)) + CALL * blocks.batches * 2.0 ** (blocks.batches - 1)


def reshuffled_mean_map(blocks: Blocks, step: float) -> MeanMap:
    """The mean over all B! orders of the batches, from 2^B matrices (section 3.1, Lemma batch_Z_symmetric)."""
    batches = blocks.batches
    require_few(batches)
    needed, available = _needed_bytes(blocks), available_bytes()
    if needed > available:
        raise BudgetError(
            f"batches is {batches}, and the exact mean over their orders needs {needed / 2**30:.1f} GiB of the "
            f"{available / 2**30:.1f} GiB that this machine can spare; "
            'try fewer batches, or descend(..., method="auto").'
        )
    over_samples, over_parameters = _flops_of_both(blocks)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = (
            _over_samples(blocks, step) if over_samples <= over_parameters else _over_parameters(blocks, step)
        )
    return mean.require_finite(batches)


def _over_samples(blocks: Blocks, step: float) -> MeanMap:
    lattice = SampleLattice(blocks, step)
    rows, kernel = blocks.rows, lattice.kernel()

    def modifier(batch: int) -> FloatArray:
        return np.eye(rows.shape[1]) - step * (rows.T @ lattice.prefix_mean(batch) @ rows)

    return MeanMap(rows, kernel, kernel, blocks.batches * step, 1, blocks.weight, modifier)


def _over_parameters(blocks: Blocks, step: float) -> MeanMap:
    lattice = ParameterLattice(blocks, step)
    factor = lattice.factor

    def modifier(batch: int) -> FloatArray:
        return np.eye(factor.shape[1]) - step * (factor.T @ lattice.prefix_means[batch] @ factor)

    return MeanMap(
        factor, lattice.kernel, lattice.input_map, blocks.batches * step, 1, blocks.weight, modifier
    )


def _flops_of_both(blocks: Blocks) -> tuple[float, float]:
    return sample_flops(blocks.sizes), parameter_flops(blocks.batches, blocks.rows.shape[1])


def _needed_bytes(blocks: Blocks) -> float:
    over_samples, over_parameters = _flops_of_both(blocks)
    if over_samples <= over_parameters:
        return sample_bytes(blocks.sizes)
    return parameter_bytes(blocks.batches, blocks.rows.shape[1])


def sample_flops(sizes: IntArray) -> float:
    """Multiplications and additions of `SampleLattice.kernel`, for blocks of about equal size."""
    batches, size = len(sizes), float(np.mean(sizes))
    half = batches // 2
    layers = sum(
        batches * comb(batches - 1, done) * 2 * size * (done * size) ** 2 for done in range(batches - half)
    )
    halves = comb(batches, half) / (2 - batches % 2)
    meeting = halves * 2 * (half * size) * ((batches - half) * size) * (batches * size)
    return layers + meeting


def sample_bytes(sizes: IntArray) -> float:
    """Memory of the two largest layers that are alive together, and of two matrices beside them."""
    batches, size = len(sizes), float(np.mean(sizes))
    top = batches - batches // 2
    layers = sum(comb(batches, done) * (done * size) ** 2 for done in (top - 1, top))
    return 8 * (layers + 2 * (batches * size) ** 2)


def parameter_flops(batches: int, rank: int) -> float:
    """Multiplications and additions of a `ParameterLattice`."""
    return batches * 2.0 ** (batches - 1) * 2 * rank**3


def parameter_bytes(batches: int, rank: int) -> float:
    """Memory of the two largest layers, and of the statistics of the batches."""
    return 8.0 * rank**2 * (comb(batches + 1, (batches + 1) // 2) + 3 * batches)


class ParameterLattice:
    """The lattice over parameters, of one set of batches, at one step: for batches of many rows.

    With rows C = U R, U'U = I (R triangular), and P_b = U_b'U_b / m_b, F(S) = I - step R' D(S) R with a symmetric
    (r, r) kernel, and

        D(S) = mean over b in S of [ P_b + (I - step P_b R R') D(S - b) ].

    Each batch enters through its statistics alone, at 2 r^3 operations per visit.

    Attributes
    ----------
    factor : (r, r)
        R.
    kernel : (r, r)
        K with Z = R'K R.
    input_map : (r, q)
        A with Xtilde' = n R'A on the rows of the blocks.
    prefix_means : list of (r, r)
        E_b with Pi_b = I - step R'E_b R.
    """

    def __init__(self, blocks: Blocks, step: float):
        orthonormal, self.factor = thin_qr(blocks.rows)
        parts = [orthonormal[blocks.of(batch)] for batch in range(blocks.batches)]
        self._shares: list[FloatArray] = [
            part.T @ part / count for part, count in zip(parts, blocks.divisors, strict=True)
        ]
        gram = self.factor @ self.factor.T
        self._side = len(gram)
        self._visits: list[FloatArray] = [_without(step * (share @ gram)) for share in self._shares]
        self.prefix_means = [np.zeros_like(gram) for _ in parts]
        total = self._climb()
        self.kernel = (total + total.T) / (2 * blocks.batches)
        self.input_map = np.hstack(
            [
                _without(step * (mean @ gram)) @ part.T / (blocks.batches * count)
                for mean, part, count in zip(self.prefix_means, parts, blocks.divisors, strict=True)
            ]
        )

    def _climb(self) -> FloatArray:
        """Fill the prefix means on the way up, and return D(all)."""
        batches = len(self._shares)
        everything = (1 << batches) - 1
        current = {0: np.zeros_like(self._shares[0])}
        for size, weight in track(enumerate(prefix_weights(batches)), batches, "averaging orders"):
            for subset, mean in current.items():
                for batch in elements(everything ^ subset):
                    self.prefix_means[batch] += weight * mean
            following = list(layer(list(range(batches)), size + 1))
            averages = each(
                partial(self._average, previous=current), following, self._side * np.cbrt(size + 1)
            )
            current = dict(zip(following, averages, strict=True))
        return current[everything]

    def _average(self, subset: int, previous: dict[int, FloatArray]) -> FloatArray:
        members = elements(subset)
        mean = np.zeros_like(self._shares[0])
        for batch in members:
            mean += self._shares[batch]
            mean += self._visits[batch] @ previous[subset ^ (1 << batch)]
        mean /= len(members)
        return mean


def _without(taken: FloatArray) -> FloatArray:
    """I - taken, in the memory of what is taken: the layers of the lattice leave no room for an identity."""
    np.negative(taken, out=taken)
    taken.flat[:: len(taken) + 1] += 1
    return taken


_Layer = dict[int, FloatArray]


class SampleLattice:
    """The lattice over samples, of one set of batches, at one step: kernels as large as the batches involved.

    F(S) = I - step C' D(S) C, where C (q, r) are all rows and D(S) is symmetric and vanishes outside the rows of S:
    a word in the W_b begins and ends with rows of X. The recursion becomes

        D(S) = mean over b in S of [ D(S - b) + E_b (E_b' - step (C C')_b D(S - b)) / m_b ],

    where E_b places rows: half of the products through X_b disappear, and what is left is as large as S, not as C.
    No difference of nearly equal numbers is taken, so small steps lose no digits.

    Parameters
    ----------
    blocks : Blocks
        The batches, q rows in all.
    step : float
        The step of one visit.
    """

    def __init__(self, blocks: Blocks, step: float):
        self.blocks = blocks
        self.step = step
        self.gram = blocks.rows @ blocks.rows.T

    def kernel(self) -> FloatArray:
        """K (q, q) with Z = C'K C and Xtilde' = n C'K, for all batches.

        Layers up to the middle suffice: an order of all batches is an order of some B // 2 of them followed
        by an order of the rest, F(all) = mean over S of F(rest) F(S).
        """
        batches = self.blocks.batches
        everything = (1 << batches) - 1
        longer: _Layer = {0: np.zeros((0, 0))}
        half = batches - batches // 2
        for size in track(range(1, half + 1), half, "averaging orders"):
            # In two statements, so that the layer before is freed before the next is made.
            shorter = longer
            longer = self._next_layer(list(range(batches)), size, shorter)
        if batches % 2 == 0:
            shorter = longer
        total = np.zeros_like(self.gram)
        # With two equal halves (S, rest) and (rest, S) are transposes of each other.
        pairs = [(S, everything ^ S) for S in shorter if batches % 2 or everything ^ S > S]
        side = float(np.mean(self.blocks.sizes)) * batches / 2
        # A few at a time: all of the products together would be another layer.
        few = workers()
        for some in track(_batched(pairs, few), -(-len(pairs) // few), "averaging orders"):
            bridges = each(lambda pair: self._bridge(shorter[pair[0]], longer[pair[1]], *pair), some, side)
            for (first, second), bridge in zip(some, bridges, strict=True):
                self._meet(total, first, shorter[first], second, longer[second], bridge)
        return (total + total.T) / (2 * batches * comb(batches, batches // 2) / (2 - batches % 2))

    def prefix_mean(self, batch: int) -> FloatArray:
        """E (q, q) with Pi_b = I - step C'E C, the mean over what comes before batch b."""
        others = [other for other in range(self.blocks.batches) if other != batch]
        mean = np.zeros_like(self.gram)
        current: _Layer = {0: np.zeros((0, 0))}
        for size, weight in enumerate(prefix_weights(self.blocks.batches)):
            if size:
                current = self._next_layer(others, size, current)
            for subset, block in current.items():
                rows = self._rows(subset)
                mean[np.ix_(rows, rows)] += weight * block
        return mean

    def _next_layer(self, members: list[int], size: int, previous: _Layer) -> _Layer:
        subsets = list(layer(members, size))
        # The products that make a kernel out of the layer before.
        side = np.cbrt(size * np.mean(self.blocks.sizes) * ((size - 1) * np.mean(self.blocks.sizes)) ** 2)
        averages = each(lambda subset: self._average(subset, previous), subsets, float(side))
        return dict(zip(subsets, averages, strict=True))

    def _average(self, subset: int, previous: _Layer) -> FloatArray:
        members = elements(subset)
        sizes = self.blocks.sizes
        mean = np.zeros((sum(sizes[members]),) * 2)
        start = 0
        for batch in members:
            stop = start + int(sizes[batch])
            before = subset ^ (1 << batch)
            earlier, share = previous[before], 1 / self.blocks.divisors[batch]
            rows = self.gram[self.blocks.of(batch)][:, self._rows(before)] @ earlier
            rows *= self.step * share
            for here, there in _around(start, stop, len(mean)):
                mean[start:stop, here] -= rows[:, there]
                for below, beneath in _around(start, stop, len(mean)):
                    mean[below, here] += earlier[beneath, there]
            mean[range(start, stop), range(start, stop)] += share
            start = stop
        mean /= len(members)
        return mean

    def _bridge(self, early: FloatArray, late: FloatArray, first: int, second: int) -> FloatArray:
        """D(second) (C C') D(first)."""
        rows, others = self._rows(first), self._rows(second)
        return np.asarray(late @ (self.gram[np.ix_(others, rows)] @ early))

    def _meet(
        self,
        total: FloatArray,
        first: int,
        early: FloatArray,
        second: int,
        late: FloatArray,
        bridge: FloatArray,
    ) -> None:
        """Add D(first) + D(second) - step D(second) (C C') D(first) to `total`, in place."""
        rows, others = self._rows(first), self._rows(second)
        total[np.ix_(rows, rows)] += early
        total[np.ix_(others, others)] += late
        total[np.ix_(others, rows)] -= self.step * bridge

    def _rows(self, subset: int) -> IntArray:
        return np.concatenate(
            [np.arange(0), *(np.r_[self.blocks.of(batch)] for batch in elements(subset))]
        ).astype(np.int64)


def _batched(pairs: list[tuple[int, int]], size: int) -> Iterator[list[tuple[int, int]]]:
    for start in range(0, len(pairs), size):
        yield pairs[start : start + size]


def _around(start: int, stop: int, end: int) -> Iterator[tuple[slice, slice]]:
    """Slices of the rows before and after start:stop, and where those rows are once start:stop is cut out."""
    yield slice(0, start), slice(0, start)
    yield slice(stop, end), slice(start, start + end - stop)


# The mean over the orders of an epoch, of any process that visits change linearly, without enumerating
# orders.
#
# A walk knows how a scheme draws (`Scheme.shuffle`, `Scheme.unit`) and nothing of what is followed: means,
# second
# moments and whatever else is linear all come from here. Most walks climb the lattice of subsets of the
# batches,
# which are bit masks, layer by layer.

State = TypeVar("State")

_MOST_WALKED = 5000
"""Visits of a walk over all ways to cut samples into batches: beyond, orders are drawn."""
MOST_BATCHES = 20
"""Beyond, 2^B averages take longer than anyone waits."""


@dataclass(frozen=True, eq=False)
class Process(Generic[State]):
    """A linear process through the visits of an epoch.

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
    """True if a fresh order of samples, or groups of rows, is cut into batches in every epoch."""
    return scheme.shuffle is Shuffle.EVERY_EPOCH and scheme.unit.is_cut


class Walk:
    """The mean over the orders of one epoch of a scheme over n rows.

    >>> import reshuffle as rs
    >>> Walk(rs.RandomReshuffling(batches=4), 8).visits
    32.0
    """

    def __init__(self, scheme: Scheme, n: int):
        self.scheme, self.n, self.steps = scheme, n, scheme.steps(n)

    @property
    def exists(self) -> bool:
        """True if there is a walk: not over many shuffled samples, nor over orders that are drawn once."""
        kind = self.scheme.shuffle, self.scheme.unit
        if cuts_orders(self.scheme):
            return self.visits <= _MOST_WALKED
        return kind in _WALKS

    @cached_property
    def visits(self) -> float:
        """The number of its visits."""
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
        """Numbers of samples or groups that each step takes, (steps,)."""
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
    """True if a walk up the lattice of so many batches, with states of this size, fits in memory."""
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
