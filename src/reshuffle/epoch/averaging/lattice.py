"""The exact mean over the orders of a handful of batches, on the lattice of their subsets.

F(S), the average over all orderings of the batches in S of the product of (I - step W_b), obeys

    F(S) = mean over b in S of (I - step W_b) F(S - b),

layer by layer. `Walk` lists the visits of all orders of a scheme that way, fixed and independent orders too, and
`follow` takes the mean of whatever visits change linearly. `over_samples` and `over_parameters` write the recursion
in kernels D(S), over the rows of S or over the parameters: the cheaper one makes the symmetric mean. Subsets are
bit masks.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from itertools import chain, combinations
from math import comb
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
import scipy.special

from reshuffle._arrays import FloatArray, IntArray, available_bytes
from reshuffle._budget import CALL, require_memory
from reshuffle._linalg import each, thin_qr, workers
from reshuffle._progress import track
from reshuffle.epoch.epoch_map import MeanMap
from reshuffle.errors import BudgetError
from reshuffle.problem.row_space import Blocks
from reshuffle.schemes.base import Scheme, Shuffle, Unit

MOST_BATCHES = 20  # beyond, 2^B averages take longer than anyone waits
_MOST_WALKED = 5000  # visits of a walk over all ways to cut samples into batches: beyond, orders are drawn

_FEW_BATCHES = 8  # batches whose lattice is climbed in no time
_LARGE = 1 << 12
"""Numbers of a state from which on states are visited one by one: calls take less time than copies."""
_STACKED = 1 << 16
"""Numbers in the visits to one batch that are multiplied at a time: 12 batches in 12 modes take a quarter of the
time that they take one subset after the other; four times as many take a fifth longer, as they leave the cache."""

Visit: TypeAlias = Callable[[int, FloatArray, int], FloatArray]
"""(b, states, slot) -> the states (m, ...) after a visit to batch b, after `slot` others of the epoch; affine."""
Item = TypeVar("Item")


class Layer(NamedTuple):
    """One visit of all orders: `ways` visits (batch, nodes before, nodes after) lead to a node, equally likely."""

    nodes: int
    ways: int
    visits: list[tuple[int, IntArray, IntArray]]


def repeated(batches: int, steps: int) -> list[Layer]:
    """Steps that visit any of so many batches, independently of each other."""
    here = np.zeros(1, dtype=np.intp)
    return [Layer(1, batches, [(batch, here, here) for batch in range(batches)])] * steps


@lru_cache(maxsize=4)
def subset_layers(batches: int, most: int) -> list[Layer]:
    """Orders of all subsets of up to `most` batches: nodes are the ascending subsets of one size.

    >>> [layer.nodes for layer in subset_layers(4, 4)]
    [4, 6, 4, 1]
    """
    require_few(batches)
    made, (before, *others) = [], subsets_by_size(batches)
    for size, after in enumerate(others[:most], 1):
        visits = []
        for batch in range(batches):
            ends = np.flatnonzero(after >> batch & 1)
            visits.append((batch, np.searchsorted(before, after[ends] ^ (1 << batch)), ends))
        made.append(Layer(len(after), size, visits))
        before = after
    return made


def subsets_by_size(batches: int) -> list[IntArray]:
    """Subsets of the batches as bits, ascending, for every size from none to all.

    >>> [some.tolist() for some in subsets_by_size(2)]
    [[0], [1, 2], [3]]
    """
    every = np.arange(2**batches)
    sizes = sum((every >> batch & 1 for batch in range(batches)), np.zeros_like(every))
    return [every[sizes == size] for size in range(batches + 1)]


def follow(
    layers: Sequence[Layer], visit: Visit, start: FloatArray, side: float = 0.0
) -> Iterator[FloatArray]:
    """The means (nodes, ...) over the orders that lead to each node, layer by layer, from the start on.

    A visit changes several states (m, ...) at once. `side` is that of a square matrix whose product costs as much
    as a visit to one state: visits to many large ones are spread over threads.
    """
    states = start[np.newaxis]
    yield states
    for slot, layer in enumerate(_tracked(layers, len(layers))):
        is_single = layer.nodes == len(layer.visits) == 1
        states = (
            visit(layer.visits[0][0], states, slot) if is_single else _means(layer, slot, visit, states, side)
        )
        yield states


def _means(layer: Layer, slot: int, visit: Visit, before: FloatArray, side: float) -> FloatArray:
    """The means over the visits of one layer, some nodes at a time."""
    means = np.zeros((layer.nodes, *before.shape[1:]))
    height = max(1, _STACKED // max(before[0].size, 1)) if before[0].size < _LARGE else 1

    def add(low: int) -> None:
        ends = [low, min(low + height, layer.nodes)]
        for batch, nodes, places in layer.visits:
            first, last = np.searchsorted(places, ends) if height < layer.nodes else (0, len(places))
            if height == 1 and last > first:
                # Views: a copy of a large state costs as much as a product with it.
                means[low : low + 1] += visit(batch, before[nodes[first] : nodes[first] + 1], slot)
            elif last > first:
                means[places[first:last]] += visit(batch, before[nodes[first:last]], slot)
        means[slice(*ends)] /= layer.ways

    each(add, range(0, layer.nodes, height), side)
    return means


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


def _tracked(items: Sequence[Item], batches: int) -> Iterable[Item]:
    """The items, with a progress bar where batches are many."""
    return track(items, len(items), "averaging orders") if batches > _FEW_BATCHES else items


def fits_in_memory(batches: int, state_bytes: float) -> bool:
    """True if a walk up the lattice of so many batches, with states of this size, fits in memory."""
    # Two neighbouring layers at a time, none of them larger than the middle one.
    return batches <= MOST_BATCHES and 2 * comb(batches, batches // 2) * state_bytes <= available_bytes()


def require_few(batches: int) -> None:
    """Refuse a lattice that has no end."""
    if batches > MOST_BATCHES:
        raise BudgetError(
            f"batches is {batches}, but the exact mean over their orders takes 2^batches averages and is computed "
            f"for at most {MOST_BATCHES}.",
            hint=("fewer batches", 'descend(..., {method}="auto")'),
        )


def flops(blocks: Blocks) -> float:
    """Operations of the cheaper lattice, calls included; infinite with too many batches or too little memory."""
    if blocks.batches > MOST_BATCHES:
        return math.inf
    _, operations, memory = _cheaper(blocks)
    return (
        operations + CALL * blocks.batches * 2.0 ** (blocks.batches - 1)
        if memory <= available_bytes()
        else math.inf
    )


def reshuffled_mean_map(blocks: Blocks, step: float) -> MeanMap:
    """The mean over all B! orders of the batches, from 2^B matrices (section 3.1, Lemma batch_Z_symmetric)."""
    batches = blocks.batches
    require_few(batches)
    cheaper, _, needed = _cheaper(blocks)
    if needed > available_bytes():
        hint = "fewer batches", 'descend(..., {method}="auto")'
        require_memory(needed, f"batches is {batches}, and the exact mean over their orders", hint)
    return cheaper(blocks, step).require_finite(batches)


def _cheaper(blocks: Blocks) -> tuple[Callable[[Blocks, float], MeanMap], float, float]:
    """The cheaper of the two lattices, its operations and its bytes, for batches of about equal size.

    Two layers are in memory at a time.
    """
    batches, rank, rows = blocks.batches, blocks.rows.shape[1], float(np.mean(blocks.sizes))
    of_parameters = batches * 2.0 ** (batches - 1) * 2 * rank**3
    half, top = batches // 2, batches - batches // 2
    of_layers = sum(batches * comb(batches - 1, done) * 2 * rows * (done * rows) ** 2 for done in range(top))
    meeting = comb(batches, half) / (2 - batches % 2) * 2 * (half * rows) * (top * rows) * (batches * rows)
    if of_layers + meeting <= of_parameters:
        two_layers = sum(comb(batches, done) * (done * rows) ** 2 for done in (top - 1, top))
        return over_samples, of_layers + meeting, 8 * (two_layers + 2 * (batches * rows) ** 2)
    memory = 8.0 * rank**2 * (comb(batches + 1, (batches + 1) // 2) + 3 * batches)
    return over_parameters, of_parameters, memory


def over_parameters(blocks: Blocks, step: float) -> MeanMap:
    """The mean map from the lattice over parameters: for batches of many rows.

    With rows C = U R, U'U = I (R triangular), and P_b = U_b'U_b / m_b, F(S) = I - step R' D(S) R with a symmetric
    (r, r) kernel, and

        D(S) = mean over b in S of [ P_b + (I - step P_b R R') D(S - b) ].

    Each batch enters through its statistics alone, at 2 r^3 operations per visit.
    """
    batches = blocks.batches
    orthonormal, factor = thin_qr(blocks.rows)
    gram, rank = factor @ factor.T, len(factor)
    parts = [orthonormal[blocks.of(batch)] for batch in range(batches)]
    shares = [part.T @ part / count for part, count in zip(parts, blocks.divisors, strict=True)]
    visits = [_without(step * (share @ gram)) for share in shares]

    def visit(batch: int, before: FloatArray, slot: int) -> FloatArray:
        # Before the first visit D is zero.
        following: FloatArray = visits[batch] @ before if slot else np.zeros_like(before)
        following += shares[batch]
        return following

    # Means E_b over what comes before batch b, with Pi_b = I - step R'E_b R.
    prefix_means = [np.zeros((rank, rank)) for _ in parts]
    everything = (1 << batches) - 1
    climb = follow(subset_layers(batches, batches), visit, np.zeros((rank, rank)), rank)
    for weight, subsets, means in zip(prefix_weights(batches), subsets_by_size(batches), climb, strict=False):
        for subset, mean in zip(subsets.tolist(), means, strict=True):
            for batch in elements(everything ^ subset):
                prefix_means[batch] += weight * mean
    (total,) = next(climb)
    input_map = np.hstack(
        [
            _without(step * (mean @ gram)) @ part.T / (batches * count)
            for mean, part, count in zip(prefix_means, parts, blocks.divisors, strict=True)
        ]
    )

    def modifier(batch: int) -> FloatArray:
        return np.eye(factor.shape[1]) - step * (factor.T @ prefix_means[batch] @ factor)

    kernel = (total + total.T) / (2 * batches)
    return MeanMap(factor, kernel, input_map, batches * step, 1, blocks.weight, modifier)


def _without(taken: FloatArray) -> FloatArray:
    """I - taken, in place: next to the layers of the lattice an identity takes too much memory."""
    np.negative(taken, out=taken)
    taken.flat[:: len(taken) + 1] += 1
    return taken


def over_samples(blocks: Blocks, step: float) -> MeanMap:
    """The mean map from the lattice over samples, with kernels as large as the batches involved: for wide data.

    F(S) = I - step C' D(S) C, where C (q, r) are all rows and D(S) is symmetric and vanishes outside the rows of S:
    a word in the W_b begins and ends with rows of X. The recursion becomes

        D(S) = mean over b in S of [ D(S - b) + E_b (E_b' - step (C C')_b D(S - b)) / m_b ],

    where E_b places rows: half of the products through X_b disappear, and what is left is as large as S, not as C.
    No difference of nearly equal numbers is taken, so small steps lose no digits. Layers up to the middle suffice:
    an order of all batches is an order of some B // 2 of them followed by one of the rest,
    F(all) = mean over S of F(rest) F(S).
    """
    batches, sizes, rows = blocks.batches, blocks.sizes, blocks.rows
    gram, typical = rows @ rows.T, float(np.mean(blocks.sizes))
    everything, half = (1 << batches) - 1, batches - batches // 2

    def rows_of(subset: int) -> IntArray:
        return np.concatenate(
            [np.arange(0), *(np.r_[blocks.of(batch)] for batch in elements(subset))]
        ).astype(np.intp)

    def mean_of(previous: dict[int, FloatArray], subset: int) -> FloatArray:
        members = elements(subset)
        mean = np.zeros((sum(sizes[members]),) * 2)
        start = 0
        for batch in members:
            stop = start + int(sizes[batch])
            before = subset ^ (1 << batch)
            earlier, share = previous[before], 1 / blocks.divisors[batch]
            seen = gram[blocks.of(batch)][:, rows_of(before)] @ earlier
            seen *= step * share
            # The rows before and after start:stop, and where they are once start:stop is cut out.
            around = (
                (slice(0, start), slice(0, start)),
                (slice(stop, len(mean)), slice(start, start + len(mean) - stop)),
            )
            for here, there in around:
                mean[start:stop, here] -= seen[:, there]
                for below, beneath in around:
                    mean[below, here] += earlier[beneath, there]
            mean[range(start, stop), range(start, stop)] += share
            start = stop
        mean /= len(members)
        return mean

    def climb(members: list[int]) -> Iterator[dict[int, FloatArray]]:
        current = {0: np.zeros((0, 0))}
        yield current
        for size in range(1, len(members) + 1):
            subsets = [sum(1 << batch for batch in chosen) for chosen in combinations(members, size)]
            side = float(np.cbrt(size * typical * ((size - 1) * typical) ** 2))
            current = dict(zip(subsets, each(partial(mean_of, current), subsets, side), strict=True))
            yield current

    to_the_middle = climb(list(range(batches)))
    longer = next(to_the_middle)
    for _ in _tracked(range(half), batches):
        # In two statements, so that the layer before is freed before the next is made.
        shorter = longer
        longer = next(to_the_middle)
    if batches % 2 == 0:
        shorter = longer

    def meet(pair: tuple[int, int]) -> tuple[IntArray, IntArray, FloatArray]:
        """The rows of both halves, and D(rest) (C C') D(S)."""
        first, second = rows_of(pair[0]), rows_of(pair[1])
        return first, second, longer[pair[1]] @ (gram[np.ix_(second, first)] @ shorter[pair[0]])

    total = np.zeros_like(gram)
    # With two equal halves (S, rest) and (rest, S) are transposes of each other.
    pairs = [(S, everything ^ S) for S in shorter if batches % 2 or everything ^ S > S]
    # A few at a time: all of the products together would be another layer.
    few = workers()
    starts = range(0, len(pairs), few)
    for start in _tracked(starts, batches):
        some = pairs[start : start + few]
        for pair, (first, second, met) in zip(some, each(meet, some, typical * batches / 2), strict=True):
            total[np.ix_(first, first)] += shorter[pair[0]]
            total[np.ix_(second, second)] += longer[pair[1]]
            total[np.ix_(second, first)] -= step * met
    kernel = (total + total.T) / (2 * batches * comb(batches, batches // 2) / (2 - batches % 2))

    def modifier(batch: int) -> FloatArray:
        # The mean E_b over what comes before batch b: Pi_b = I - step C'E_b C.
        mean = np.zeros_like(gram)
        others = [other for other in range(batches) if other != batch]
        for weight, current in zip(prefix_weights(batches), climb(others), strict=True):
            for subset, block in current.items():
                mean[np.ix_(rows_of(subset), rows_of(subset))] += weight * block
        return np.eye(rows.shape[1]) - step * (rows.T @ mean @ rows)

    return MeanMap(rows, kernel, kernel, batches * step, 1, blocks.weight, modifier)


def cuts_orders(scheme: Scheme) -> bool:
    """True if a fresh order of samples, or groups of rows, is cut into batches in every epoch."""
    return scheme.shuffle is Shuffle.EVERY_EPOCH and scheme.unit.is_cut


def climbs(scheme: Scheme) -> bool:
    """True if a walk goes up the lattice of subsets of the batches."""
    return (scheme.shuffle, scheme.unit) == (Shuffle.EVERY_EPOCH, Unit.BATCH)


class Walk:
    """The mean over the orders of one epoch of a scheme over n rows, of whatever visits change linearly.

    >>> import reshuffle as rs
    >>> Walk(rs.RandomReshuffling(batches=4), 8).visits, Walk(rs.SampleReshuffling(batch_size=4), 5).kinds
    (32.0, 10.0)
    """

    def __init__(self, scheme: Scheme, n: int):
        self.scheme, self.n, self.steps = scheme, n, scheme.steps(n)

    @property
    def exists(self) -> bool:
        """True if there is a walk: not over many shuffled samples, nor over orders that are drawn once."""
        if cuts_orders(self.scheme):
            return self.visits <= _MOST_WALKED
        return self.scheme.shuffle not in (Shuffle.ONCE, Shuffle.BY_STAGE)

    @cached_property
    def visits(self) -> float:
        """The number of its visits."""
        scheme, steps = self.scheme, float(self.steps)
        if climbs(scheme):
            # Every subset is reached from each of its members.
            return float(steps * 2.0 ** (steps - 1))
        if cuts_orders(scheme):
            # Every set of samples is reached by each of the batches that may have come last.
            ends = np.cumsum(self.units_taken)
            with np.errstate(over="ignore"):
                # More than a number can hold are infinitely many.
                sets = scipy.special.comb(self._units, ends) * scipy.special.comb(ends, self.units_taken)
                return float(sets.sum())
        if scheme.shuffle is Shuffle.FROM_A_LIST:
            return float(len(scheme.orders(self.n)) * steps)
        is_drawn = (scheme.shuffle, scheme.unit) == (Shuffle.EVERY_STEP, Unit.BATCH)
        return float(steps**2 if is_drawn else steps)

    @property
    def kinds(self) -> float:
        """The number of batches that steps may visit, over all steps: visits to each are taken together."""
        if cuts_orders(self.scheme):
            return float(scipy.special.comb(self._units, self.units_taken).sum())
        return float(self.steps**2)

    @property
    def _units(self) -> int:
        """Samples or groups."""
        return self.n // self.scheme.rows_per_unit

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
        return [
            (units, divisor)
            for size, divisor in kinds.items()
            for units in combinations(range(self._units), size)
        ]

    @property
    def units_taken(self) -> IntArray:
        """Numbers of samples or groups that each step takes, (steps,)."""
        return self.scheme.sizes(self.n) // self.scheme.rows_per_unit

    @cached_property
    def layers(self) -> list[Layer]:
        """All orders of an epoch, visit by visit."""
        scheme = self.scheme
        if not self.exists:
            raise TypeError(
                f"scheme must visit fixed batches for this question, but it is {scheme!r}; "
                "try RandomReshuffling, or simulate(...)."
            )
        if climbs(scheme):
            return subset_layers(self.steps, self.steps)
        if cuts_orders(scheme):
            return self._sets_of_samples()
        if scheme.shuffle is Shuffle.EVERY_STEP:
            # A visit to samples is the mean over those that it draws.
            return repeated(self.steps if scheme.unit is Unit.BATCH else 1, self.steps)
        if scheme.shuffle is Shuffle.NEVER:
            here = np.zeros(1, dtype=np.intp)
            return [Layer(1, 1, [(batch, here, here)]) for batch in scheme.order(self.n).tolist()]
        orders, made = np.array(scheme.orders(self.n)), []
        for slot, visited in enumerate(orders.T):
            places = [(int(batch), np.flatnonzero(visited == batch)) for batch in np.unique(visited)]
            visits = [(batch, place if slot else np.zeros_like(place), place) for batch, place in places]
            made.append(Layer(len(orders), 1, visits))
        return made

    def _sets_of_samples(self) -> list[Layer]:
        """Up the lattice of sets of samples: the mean over the ways into a set is that over its last batch."""
        numbers = {units: number for number, (units, _) in enumerate(self.drawn_units)}
        before, taken, made = {frozenset[int](): 0}, 0, []
        for size in self.units_taken.tolist():
            taken += size
            every = combinations(range(self._units), taken)
            after = {frozenset(samples): number for number, samples in enumerate(every)}
            ways: dict[int, list[tuple[int, int]]] = {}
            for samples, end in after.items():
                for last in combinations(sorted(samples), size):
                    ways.setdefault(numbers[last], []).append((before[samples.difference(last)], end))
            visits = [(batch, *np.array(pairs).T) for batch, pairs in ways.items()]
            made.append(Layer(len(after), sum(map(len, ways.values())) // len(after), visits))
            before = after
        return made
