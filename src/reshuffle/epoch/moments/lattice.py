"""Second moments of the state over the orders of an epoch and the noise: one recursion for every recipe.

A visit to batch b sends the state to G z + H y, G = F - P R: R are the rows of the batch, and F is what every visit
does (`epoch/visits.py`). Orders are merged where the same batches have been visited: M(S), the mean of E z z' over
the orders of the batches in S, is a mean over the batch b of S that came last,

    M(S) = mean over b of [ G M(S-b) G' + Y + Y' + noise^2 H H' ],      Y = G F(S-b) C_b H',

with C_b = E z eta_b' before the epoch: nothing of the noise of batch b has entered before its visit, and only the
mean map F(S-b) has acted on it. Given the responses, the covariance V and the mean m of the state obey the law of
total covariance, V(S) = mean of G V(S-b) G' + covariance of the means that come together in S.

All is written for what an epoch adds to the moments, in the coordinates R z of `EpochMap`, in which it is as small
as the modes are slow. Nodes are stacked: one product serves all subsets that batch b is visited from.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import TypeAlias

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import few_threads
from reshuffle.epoch.averaging.lattice import Walk, require_few
from reshuffle.epoch.timeline import Timeline
from reshuffle.epoch.visits import Inputs, Visits
from reshuffle.schemes.base import Shuffle, Unit

Nodes: TypeAlias = IntArray | slice

_FEW_ROWS = 0.6
"""Rows of a batch, relative to the rank, below which two products with them are cheaper than one with their Gram
matrix: both take as long at 0.6 and rank 100."""
NEAR_BYTES = 1.2e5
"""Memory of the matrices that are averaged at once: little enough to stay near a core."""


@dataclass(frozen=True, eq=False)
class Layer:
    """Visit number `slot` of all orders.

    Attributes
    ----------
    slot : int
    nodes : int
        What may have been visited after it.
    ways : int
        Visits that lead to each node; all are equally likely.
    visits : list of (batch, before, after)
        From which nodes (k,) of the layer before to which nodes (k,) a batch leads.
    """

    slot: int
    nodes: int
    ways: int
    visits: list[tuple[int, IntArray, IntArray]]


@lru_cache(maxsize=4)
def layers(walk: Walk) -> list[Layer]:
    """All orders of an epoch, visit by visit.

    >>> import reshuffle as rs
    >>> [layer.nodes for layer in layers(Walk(rs.RandomReshuffling(4), 8))]
    [4, 6, 4, 1]
    """
    kind = walk.scheme.shuffle, walk.scheme.unit
    if kind == (Shuffle.EVERY_EPOCH, Unit.BATCH):
        return _subsets(walk.steps)
    if kind[0] is Shuffle.EVERY_EPOCH:
        return _sets_of_samples(walk)
    if kind[0] is Shuffle.EVERY_STEP:
        here, batches = np.zeros(1, dtype=np.int64), walk.steps if kind[1] is Unit.BATCH else 1
        visits = [(batch, here, here) for batch in range(batches)]
        return [Layer(slot, 1, batches, visits) for slot in range(walk.steps)]
    listed = kind[0] is Shuffle.FROM_A_LIST
    orders = np.array(walk.scheme.orders(walk.n) if listed else [walk.scheme.order(walk.n)])
    made = []
    for slot, visited in enumerate(orders.T):
        places = [(int(batch), np.flatnonzero(visited == batch)) for batch in np.unique(visited)]
        visits = [(batch, place if slot else np.zeros_like(place), place) for batch, place in places]
        made.append(Layer(slot, len(orders), 1, visits))
    return made


def _subsets(batches: int) -> list[Layer]:
    require_few(batches)
    every = np.arange(2**batches)
    sizes = sum((every >> batch & 1 for batch in range(batches)), np.zeros_like(every))
    made, before = [], every[:1]
    for size in range(1, batches + 1):
        after = every[sizes == size]
        visits = []
        for batch in range(batches):
            ends = np.flatnonzero(after >> batch & 1)
            visits.append((batch, np.searchsorted(before, after[ends] ^ (1 << batch)), ends))
        made.append(Layer(size - 1, len(after), size, visits))
        before = after
    return made


def _sets_of_samples(walk: Walk) -> list[Layer]:
    numbers = {units: number for number, (units, _) in enumerate(walk.drawn_units)}
    before, taken, made = {frozenset[int](): 0}, 0, []
    for slot, size in enumerate(walk.units_taken.tolist()):
        taken += size
        every = combinations(range(walk.n // walk.scheme.rows_per_unit), taken)
        after = {frozenset(samples): number for number, samples in enumerate(every)}
        ways: dict[int, list[tuple[int, int]]] = {}
        for samples, end in after.items():
            for last in combinations(sorted(samples), size):
                ways.setdefault(numbers[last], []).append((before[samples.difference(last)], end))
        visits = [(batch, *np.array(pairs).T) for batch, pairs in ways.items()]
        made.append(Layer(slot, len(after), sum(map(len, ways.values())) // len(after), visits))
        before = after
    return made


@dataclass(frozen=True, eq=False)
class _Batch:
    """The gradient W = U'U + penalty of a batch, by its rows or by their Gram matrix, whichever is quicker.

    Attributes
    ----------
    rows : (m, r)
        U, divided by the root of the batch's divisor.
    root : float
        One over that root.
    columns : (m,)
        The places of the rows among all inputs.
    gram : (r, r), optional
        W, where it is used: then noise is reduced to U'eta.
    noise_gram : (r, r), optional
        U'U, likewise.
    """

    rows: FloatArray
    root: float
    columns: IntArray
    gram: FloatArray | None
    noise_gram: FloatArray | None

    def gradient(self, states: FloatArray) -> FloatArray:
        """W u for states u (c, r), one a row."""
        return states @ self.gram if self.gram is not None else (states @ self.rows.T) @ self.rows

    def reduced(self, cross: FloatArray) -> FloatArray:
        """E eta z' (..., m, d) in the units of the rows, as `lost` takes it."""
        return self.root * (cross if self.gram is None else self.rows.T @ cross)

    def lost(
        self, seen: FloatArray, cross: FloatArray | None, noise: float, step: "_Step"
    ) -> tuple[FloatArray, FloatArray | None]:
        """A (nodes, r, s, d) and B (nodes, r, s, r) of the loss L = A F' - B P' of second moments in a visit.

            G M G' + Y + Y' + noise^2 H H' = F M F' - P L - L'P'

        for the first rows of M, (nodes, r, s, d), and noise E eta z' (nodes, m, d), reduced; A = L if F = I.
        """
        nodes, r, count, d = seen.shape
        first = self.rows if self.gram is None else self.gram
        gradients = (first @ seen.reshape(nodes, r, -1)).reshape(nodes, len(first), count, d)
        half = gradients[..., :r] / 2
        if cross is not None:
            half -= cross[:, :, np.newaxis, :r]
            gradients -= cross[:, :, np.newaxis]
        inner = self.gradient(half.reshape(-1, r)).reshape(half.shape)
        if cross is not None:
            own = self.rows if self.noise_gram is None else self.noise_gram
            inner += (noise * self.root) ** 2 / 2 * own[:, np.newaxis]
        if step.still is None:
            gradients -= step.pushed(inner)
            if self.gram is None:
                return (self.rows.T @ gradients.reshape(nodes, len(first), -1)).reshape(seen.shape), None
            return gradients, None
        if self.gram is None:
            both = np.concatenate([gradients, inner], axis=-1).reshape(nodes, len(first), -1)
            both = (self.rows.T @ both).reshape(nodes, r, count, d + r)
            return both[..., :d], both[..., d:]
        return gradients, inner


@dataclass(frozen=True, eq=False)
class _Step:
    """P = push (x) W and F = I + still of a visit: (parts, r), and (parts, parts, r) if it is not zero."""

    push: FloatArray
    still: FloatArray | None

    @cached_property
    def _blocks(self) -> list[tuple[slice, slice, FloatArray]]:
        """The blocks of F - I that are not zero: to which part, of which part, and what (r,)."""
        if self.still is None:
            return []
        parts, _, rank = self.still.shape
        places = [slice(part * rank, (part + 1) * rank) for part in range(parts)]
        some = zip(*np.nonzero(self.still.any(axis=2)), strict=True)
        return [(places[to], places[of], self.still[to, of]) for to, of in some]

    def moved(self, states: FloatArray) -> FloatArray:
        """(F - I) z for states z (..., d)."""
        made = np.zeros_like(states)
        for to, of, block in self._blocks:
            made[..., to] += block * states[..., of]
        return made

    def conjugated(self, matrices: FloatArray) -> FloatArray:
        """F M F' - M = M (F - I)' + (F - I) M F' for symmetric M (nodes, d, s, d)."""
        made = self.moved(matrices)
        right = matrices + made
        for to, of, block in self._blocks:
            made[:, to] += block[:, np.newaxis, np.newaxis] * right[:, of]
        return made

    def pushed(self, gradients: FloatArray) -> FloatArray:
        """P g (..., d) for gradients g (..., r)."""
        if len(self.push) == 1:
            return gradients * self.push
        made = gradients[..., np.newaxis, :] * self.push
        return made.reshape(*gradients.shape[:-1], self.push.size)


Entry: TypeAlias = Callable[[int, int], tuple[IntArray, FloatArray]]
"""Which states a visit to a batch in a slot adds to, beside what it does to all of them, and what."""


class EpochMoments:
    """The map of second moments by one epoch.

    Parameters
    ----------
    timeline : Timeline
        With a fresh order in every epoch.
    inputs : Inputs
        What enters: noise or given responses, and the force of a penalty.
    epoch : int
        How many epochs came before.
    """

    def __init__(self, timeline: Timeline, inputs: Inputs, epoch: int = 0):
        self.walk, self.visits, self.inputs = timeline.walk, timeline.visits(epoch), inputs
        self.rank, self.dimension = self.visits.rank, self.visits.dimension
        self.units, self.grades = self.visits.right, self.visits.left * self.visits.right
        self._scales = np.outer(self.units, self.units)
        self._timeline, self._epoch = timeline, epoch
        self._batches: dict[int, _Batch] = {}
        self._steps: dict[int, _Step] = {}
        self._constants: dict[tuple[int, int], FloatArray] = {}

    @cached_property
    def layers(self) -> list[Layer]:
        """The orders of the epoch."""
        return layers(self.walk)

    def start(self, state: FloatArray) -> FloatArray:
        """[M, C] of a certain state (d,)."""
        cross = np.zeros((len(state), self.inputs.count(self.visits)))
        cross[:, 0] = state
        return np.hstack([np.outer(state, state), cross])

    def change(self, moments: FloatArray) -> FloatArray:
        """The change over one more epoch of M = E z z' (d, d) and C = E z zeta' (d, inputs), side by side.

        The first input is the constant 1, and the others are noise, of which there is none if responses are given.
        """
        d = self.dimension
        if not d:
            return np.zeros_like(moments)
        with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
            second, cross = self._scales * moments[:, :d], self.units * moments[:, d:].T
            source = Source(self, cross)
            change = self._climb(second[:, np.newaxis], source)[:, 0]
            return np.hstack([_symmetric(change) / self._scales, (source.change() / self.units).T])

    def change_beside(self, cross: FloatArray) -> Callable[[FloatArray], FloatArray]:
        """M -> what one more epoch adds to M (d, d), for C (d, inputs) that stays: what enters is computed once."""
        source = Source(self, self.units * cross.T, remembers=True)

        def change(second: FloatArray) -> FloatArray:
            if not self.dimension:
                return np.zeros_like(second)
            with few_threads(self.dimension), np.errstate(over="ignore", invalid="ignore"):
                stack = (self._scales * second)[:, np.newaxis]
                return _symmetric(self._climb(stack, source)[:, 0]) / self._scales

        return change

    def congruence_change(self, matrix: FloatArray) -> FloatArray:
        """E[A M A'] - M (..., d, d) for symmetric M: what an epoch does to second moments when nothing enters."""
        d = self.dimension
        if not d:
            return np.zeros_like(matrix)
        with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
            stack = np.moveaxis((self._scales * matrix).reshape(-1, d, d), 0, 1)
            made = np.moveaxis(self._climb(stack), 1, 0)
            return np.asarray((made + made.swapaxes(1, 2)).reshape(matrix.shape) / (2 * self._scales))

    def covariance_change(self, moments: FloatArray) -> FloatArray:
        """The change over one more epoch of the covariance V (d, d) and mean m (d, 1), given the responses.

        By the law of total covariance: a sum of squares, so that no digits are lost where runs hardly differ.
        """
        d = self.dimension
        if not d:
            return np.zeros_like(moments)
        with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
            spread, mean = self._scales * moments[:, :d], self.units * moments[:, d:].T
            source = CentredSource(self, mean)
            change = self._climb(spread[:, np.newaxis], source)[:, 0]
            ends = source.means[-1][:, 0]
            apart = ends - ends.mean(axis=0)
            change = _symmetric(change + apart.T @ apart / len(apart))
            return np.hstack([change / self._scales, (source.change() / self.units).T])

    def _climb(self, stack: FloatArray, source: "Source | None" = None) -> FloatArray:
        """The change over an epoch of symmetric matrices (d, s, d), averaged over all orders, without inputs."""
        *_, last = self.changes(stack, source)
        return np.asarray(last.mean(axis=0))

    def changes(self, stack: FloatArray, source: "Source | None" = None) -> Iterator[FloatArray]:
        """The sum of the visits in symmetric matrices (d, s, d) at every node (nodes, d, s, d), layer by layer."""
        d, r, count = self.dimension, self.rank, stack.shape[1]
        width = max(1, int(NEAR_BYTES / (8.0 * count * max(d * d, 1))))
        change = np.zeros((1, d, count, d))
        for number, layer in enumerate(self.layers):
            step, following = self.step(layer.slot), np.empty((layer.nodes, d, count, d))
            for low in range(0, layer.nodes, width):
                nodes = min(width, layer.nodes - low)
                total, outer = np.zeros((nodes, d, count, d)), np.zeros((nodes, r, count, d))
                inner, added = np.zeros((nodes, r, count, r)), None
                for batch, every, ends in layer.visits:
                    here = slice(*np.searchsorted(ends, [low, low + nodes]))
                    before, after = every[here], ends[here]
                    if not len(before):
                        continue
                    # Views where there is one: copies of large matrices cost as much as products with them.
                    start = slice(before[0], before[0] + 1) if len(before) == 1 else before
                    place = slice(None) if len(after) == nodes else after - low
                    total[place] += change[start]
                    cross = None if source is None else source.cross(number, batch, start)
                    lost = self.batch(batch).lost(
                        change[start, :r] + stack[:r], cross, self.inputs.noise, step
                    )
                    outer[place] += lost[0]
                    if lost[1] is not None:
                        inner[place] += lost[1]
                    entered = None if source is None else source.entered(number, batch, before, after)
                    if entered is not None:
                        added = np.zeros((nodes, d, d)) if added is None else added
                        added[place] += entered + entered.swapaxes(1, 2)
                if step.still is not None:
                    total += step.conjugated(total + layer.ways * stack)
                    outer += step.moved(outer) - step.pushed(inner)
                if added is not None:
                    total[:, :, 0] += added
                for part, push in enumerate(step.push):
                    place, pushed = slice(part * r, (part + 1) * r), push[:, np.newaxis, np.newaxis] * outer
                    total[:, place] -= pushed
                    total[..., place] -= pushed.transpose(0, 3, 2, 1)
                np.divide(total, layer.ways, out=following[low : low + nodes])
            drawn = self.drawn(number, stack + change, source)
            change = following if drawn is None else following + drawn
            yield change

    def drawn(self, number: int, current: FloatArray, source: "Source | None") -> FloatArray | None:
        """The change of matrices (1, d, s, d) by a visit that draws its rows: nothing, where batches are fixed."""
        return None

    @property
    def travels(self) -> bool:
        """True if E z eta' is followed visit by visit, since a batch may be visited more than once."""
        return self.walk.scheme.shuffle is not Shuffle.EVERY_EPOCH

    @cached_property
    def mean_changes(self) -> list[FloatArray]:
        """F(S)' - I (nodes, d, d) before each of the visits, and after all."""
        return self.follow(np.eye(self.dimension))

    @cached_property
    def mean_noise(self) -> FloatArray:
        """The inputs of E eta z' (n, d) in an epoch, where that does not travel."""
        entries = self._timeline.map(self._epoch).entries[:, 1:]
        return np.asarray((self.inputs.noise * self.grades[:, np.newaxis] * entries).T)

    def follow(self, states: FloatArray, entry: Entry | None = None) -> list[FloatArray]:
        """The sum of the visits in the means of states (c, d), one a row: (nodes, c, d), layer by layer."""
        changes = [np.zeros((1, *states.shape))]
        for layer in self.layers:
            total = np.zeros((layer.nodes, *states.shape))
            for batch, before, after in layer.visits:
                total[after] += self.visited(states, changes[-1][before], batch, layer.slot, entry)
            changes.append(total / layer.ways)
        return changes

    def visited(
        self, states: FloatArray, change: FloatArray, batch: int, slot: int, entry: Entry | None = None
    ) -> FloatArray:
        """The sum so far in states (c, d) after one more visit, from what has been before (nodes, c, d)."""
        step = self.step(slot)
        current = states + change
        gradients = self.batch(batch).gradient(current[..., : self.rank].reshape(-1, self.rank))
        following = change + step.moved(current)
        following -= step.pushed(gradients.reshape(*current.shape[:-1], self.rank))
        if entry is not None:
            places, added = entry(batch, slot)
            following[:, places] += added
        return np.asarray(following)

    def constant(self, batch: int, slot: int) -> FloatArray:
        """The input of every visit to a batch alike (d,): the force of a penalty, and given responses."""
        key = batch, self._slot(slot)
        if key not in self._constants:
            visits, given = self.visits, self.inputs.given
            entry = visits.force(self.inputs.truth, slot)
            if given is not None:
                entry = entry + visits.entry(batch, slot) @ given[visits.columns(batch)]
            self._constants[key] = self.units * entry
        return self._constants[key]

    def noise(self, batch: int, slot: int) -> tuple[IntArray, FloatArray]:
        """The noise that enters at a visit to a batch, and its input map: (m,), (m, d)."""
        rows = self.batch(batch)
        return rows.columns, self.inputs.noise * rows.root * self.step(slot).pushed(rows.rows)

    def _slot(self, slot: int) -> int:
        """One slot stands for all where all are alike."""
        return slot if self.visits.hyperparameters.shares else 0

    def batch(self, batch: int) -> _Batch:
        """The gradient of a batch, in the coordinates R z."""
        if batch not in self._batches:
            rows, divisor = self.visits._batches[batch]
            scaled, penalty_matrix = rows / np.sqrt(divisor), self.visits.penalty_matrix
            by_gram = penalty_matrix.ndim == 2 or len(rows) > _FEW_ROWS * self.rank
            own = scaled.T @ scaled if by_gram else None
            gram = (
                own
                if own is None or penalty_matrix.ndim == 1 or not self.visits.penalty
                else own + penalty_matrix
            )
            columns = self.visits.columns(batch)
            self._batches[batch] = _Batch(scaled, float(1 / np.sqrt(divisor)), columns, gram, own)
        return self._batches[batch]

    def step(self, slot: int) -> _Step:
        """P and F in a slot."""
        slot = self._slot(slot)
        if slot not in self._steps:
            visits, parts = self.visits, self.dimension // max(self.rank, 1)
            push = self.grades * visits.pushed(np.ones(self.rank), slot)
            units: FloatArray = np.asarray(np.kron(np.eye(parts), np.ones((self.rank, 1))), dtype=np.float64)
            alone = _without_rows(visits)
            blocks = (self.grades[:, np.newaxis] * alone.kernel(0, units, slot)).T
            still = -blocks.reshape(parts, parts, self.rank).swapaxes(0, 1) if blocks.any() else None
            self._steps[slot] = _Step(push.reshape(parts, self.rank), still)
        return self._steps[slot]


def _without_rows(visits: Visits) -> Visits:
    """Visits to a batch of no rows: what every visit does. A penalty that is a matrix is left to the gradient."""
    scaled = visits.hyperparameters
    if visits.penalty_matrix.ndim == 2:
        scaled = replace(scaled, penalty=0.0)
    return Visits(visits.blocks, scaled, visits.average, [((), 1.0)])


class Source:
    """The inputs of second moments in an epoch: noise, given responses, and the force of a penalty.

    Parameters
    ----------
    moments : EpochMoments
    cross : (inputs, d)
        E zeta z' before the epoch: the mean, and E eta z'.
    remembers : bool
        Keep what enters, to be asked for again.
    """

    def __init__(self, moments: EpochMoments, cross: FloatArray, remembers: bool = False):
        self.moments, self.mean, self.noise = moments, cross[:1], cross[1:]
        self._reduced: dict[int, FloatArray] = {}
        self._known: dict[tuple[int, int, int], FloatArray] | None = {} if remembers else None

    @cached_property
    def means(self) -> list[FloatArray]:
        """The sum so far in the mean at every node, (nodes, 1, d)."""
        here, constant = np.zeros(1, dtype=np.int64), self.moments.constant
        return self.moments.follow(self.mean, lambda batch, slot: (here, constant(batch, slot)[np.newaxis]))

    @cached_property
    def noises(self) -> list[FloatArray]:
        """The sum so far in E eta z' at every node, (nodes, n, d), where it travels."""
        return self.moments.follow(self.noise, self.moments.noise)

    @cached_property
    def _is_pushed(self) -> bool:
        """True if a constant enters."""
        given = self.moments.inputs.given
        return given is not None or bool(self.moments.constant(0, 0).any())

    def cross(self, number: int, batch: int, before: Nodes) -> FloatArray | None:
        """noise E eta_b z' before a visit (nodes, m, d), reduced; None if there is no noise."""
        if not len(self.noise):
            return None
        if self._known is None:
            return self._cross(number, batch, before)
        key = number, batch, before.start if isinstance(before, slice) else int(before[0])
        if key not in self._known:
            self._known[key] = self._cross(number, batch, before)
        return self._known[key]

    def _cross(self, number: int, batch: int, before: Nodes) -> FloatArray:
        moments = self.moments
        rows, noise = moments.batch(batch), moments.inputs.noise
        if batch not in self._reduced:
            self._reduced[batch] = noise * rows.reduced(self.noise[rows.columns])
        own = self._reduced[batch]
        if moments.travels:
            return own + noise * rows.reduced(self.noises[number][before][:, rows.columns])
        if not number:
            return own[np.newaxis]
        added = own @ moments.mean_changes[number][before]
        added += own
        return np.asarray(added)

    def entered(self, number: int, batch: int, before: IntArray, after: IntArray) -> FloatArray | None:
        """h (G m + h / 2)' (nodes, d, d) for the constant h that enters, half of what it adds, if there is one."""
        if not self._is_pushed:
            return None
        slot = self.moments.layers[number].slot
        constant = self.moments.constant(batch, slot)
        mean = self.mean + self.moments.visited(self.mean, self.means[number][before], batch, slot)
        return np.asarray(constant[:, np.newaxis] * (mean + constant / 2))

    def change(self) -> FloatArray:
        """The change over the epoch of E zeta z' (inputs, d)."""
        moments = self.moments
        if not len(self.noise) or moments.travels:
            paths = [self.means[-1].mean(axis=0)]
            return np.vstack([*paths, self.noises[-1].mean(axis=0)] if len(self.noise) else paths)
        mean = moments.mean_changes[-1].mean(axis=0)
        of_mean = self.means[-1].mean(axis=0) if self._is_pushed else self.mean @ mean
        return np.vstack([of_mean, self.noise @ mean + moments.mean_noise])


class CentredSource(Source):
    """The growth of the covariance of a state over the orders, given the responses: means that meet differ."""

    def entered(self, number: int, batch: int, before: IntArray, after: IntArray) -> FloatArray:
        """Half the squares (nodes, d, d) of what the mean after a visit differs by from that of its node."""
        slot = self.moments.layers[number].slot
        arrived = self.moments.visited(self.mean, self.means[number][before], batch, slot)
        apart = arrived + self.moments.constant(batch, slot) - self.means[number + 1][after]
        return np.asarray(apart.swapaxes(1, 2) * apart / 2)


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)
