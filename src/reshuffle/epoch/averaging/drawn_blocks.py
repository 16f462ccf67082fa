"""Mean over the orders of an epoch from few drawn ones, each averaged over all orders of its blocks.

An order of B visits is cut into L blocks of consecutive visits. Every order of the blocks is as likely as that
drawn, so the mean over all L! of them has the same expectation. It takes about L 2^(L-2) products on the lattice,

    F(S) = mean over blocks b in S of A_b F(S - b),    mean = mean over S of L / 2 blocks of F(all - S) F(S),

and has a fraction of the variance. Measured against single orders of Gaussian rows, at steps at which single rows
overshoot 2 to 8 times: 10 (L = 4), 60 to 400 (L = 6), 200 to 1e4 (L = 8), 300 to 4e5 (L = 10) times less.
"""

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._linalg import few_threads
from reshuffle._uncertainty import MOST_GROUPS
from reshuffle.epoch.averaging.sampling import Orders
from reshuffle.epoch.timeline import Timeline
from reshuffle.epoch.visits import Visits

_MOST_BLOCKS = 12
_STACKED_ENTRIES = 1 << 16
"""Numbers of the largest layer of subsets: what leaves the cache takes three times as long."""
_OF_A_PRODUCT = 300.0
"""Operations that a product of small matrices costs beside its own."""


class DrawnBlocks:
    """Drawn orders of the epochs of a timeline, cut into blocks; the same orders whatever the step.

    `budget` are the operations of one draw for each group, `flops` in the end: blocks are as many as that allows.
    """

    def __init__(self, timeline: Timeline, budget: float, seed: int = 0):
        self._scheme, self._n, self._seed = timeline.scheme, timeline.n, seed
        self._draw, self._steps, self.visits = timeline.draw_pairs, timeline.walk.steps, timeline.visits(0)
        affordable = (
            blocks
            for blocks in range(min(_MOST_BLOCKS, self._steps), 1, -1)
            if MOST_GROUPS * self._lattice_flops(blocks) <= budget
        )
        self._blocks = next(affordable, 1)
        (rows, rank), d = self.visits.blocks.rows.shape, self.visits.dimension
        of_visits = 4.0 * rows * rank * d + self._steps * (10.0 * d**2 + _OF_A_PRODUCT)
        self.flops = float(MOST_GROUPS * (of_visits + self._lattice_flops(self._blocks)))
        self._rng, self._drawn = np.random.default_rng(seed), np.zeros((0, MOST_GROUPS, d, d))

    def _lattice_flops(self, blocks: int) -> float:
        half = _later(blocks)
        products = sum(size * math.comb(blocks, size) for size in range(1, half + 1)) + math.comb(
            blocks, half
        )
        return float(products) * (2.0 * self.visits.dimension**3 + _OF_A_PRODUCT)

    def kernels(self, rounds: int) -> FloatArray:
        """Mean kernels K (groups, d, d) of `EpochMap`, over so many draws each: all earlier ones, and more."""
        d, missing = self.visits.dimension, MOST_GROUPS * (rounds - len(self._drawn))
        largest = math.comb(self._blocks, self._blocks // 2) * d**2
        stacked = max(1, int(_STACKED_ENTRIES / max(largest, 1)))
        found = [self._drawn.reshape(-1, d, d)]
        with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
            for first in range(0, missing, stacked):
                some = min(stacked, missing - first)
                drawn = self._draw(self._rng, some)
                found.append(self._over_blocks(Orders(drawn.rows[:some], drawn.divisors[:some])))
            self._drawn = np.concatenate(found).reshape(rounds, MOST_GROUPS, d, d)
            kernels = self._drawn.mean(axis=0)
            symmetric = self._scheme.is_symmetric and not self.visits.momentum
            return np.asarray((kernels + kernels.swapaxes(1, 2)) / 2 if symmetric else kernels)

    def single(self, pairs: int) -> FloatArray:
        """Kernels K (groups, 2 pairs, d, d) of so many orders and their reverses in each group."""
        d, rngs = self.visits.dimension, [np.random.default_rng([self._seed, g]) for g in range(MOST_GROUPS)]
        drawn = [self._draw(rng, pairs) for rng in rngs]
        rows, divisors = (
            np.concatenate(part) for part in zip(*((o.rows, o.divisors) for o in drawn), strict=True)
        )
        size = max(1, int(_STACKED_ENTRIES / max(d**2, 1)))
        with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
            found = [
                followed(self.visits, Orders(rows[at : at + size], divisors[at : at + size]), 0, self._steps)
                for at in range(0, len(rows), size)
            ]
        return np.concatenate(found).reshape(MOST_GROUPS, 2 * pairs, d, d)

    def _over_blocks(self, orders: Orders) -> FloatArray:
        """K (k, d, d) of drawn orders, averaged over the orders of their blocks."""
        scheme, n, visits = self._scheme, self._n, self.visits
        # A last visit that weighs less than the others stays the last.
        sizes = scheme.sizes(n) / scheme.step_divisors(n)
        whole = self._steps - (scheme.unit.is_cut and bool(sizes[-1] < sizes[0]))
        cuts = np.linspace(0, whole, min(self._blocks, whole) + 1).astype(int)
        kernels = [followed(visits, orders, *ends) for ends in pairwise(cuts)]
        grades = visits.left * visits.right
        mean = over_orders(np.array(kernels), grades)
        if whole < self._steps:
            last = followed(visits, orders, whole, self._steps)
            mean = mean + last - (last * grades) @ mean
        return mean


def over_orders(kernels: FloatArray, grades: FloatArray) -> FloatArray:
    """K (..., d, d) of the mean over all orders of a product of L maps I - L K_i R, kernels (L, ..., d, d).

    >>> over_orders(np.array([[[1.0]], [[2.0]]]), np.array([0.5]))  # 1 - (1 - 0.5) (1 - 1) = 0.5 K
    array([[2.]])
    """
    blocks = len(kernels)
    *_, layer, later = subset_layers(kernels, grades, _later(blocks))
    # The complements of ascending subsets descend.
    earlier = (later if blocks % 2 == 0 else layer)[::-1]
    return np.asarray((later + earlier - (later * grades) @ earlier).mean(axis=0))


def subset_layers(kernels: FloatArray, grades: FloatArray, most: int) -> Iterator[FloatArray]:
    """K (subsets, ..., d, d) of the mean over orders of all subsets of 0, 1, ..., most of the maps I - L K_i R.

    Kernels are (L, ..., d, d), with grades L R (d,). Subsets are ascending binary numbers.
    """
    members = np.arange(1 << len(kernels))
    sizes = np.array([subset.bit_count() for subset in members.tolist()])
    places, after = np.empty(len(members), dtype=np.int64), np.eye(len(grades)) - kernels * grades
    layer = np.zeros((1, *kernels.shape[1:]))
    yield layer
    for size in range(1, most + 1):
        places[members[sizes == size - 1]] = np.arange(len(layer))
        subsets = members[sizes == size]
        inside = subsets[:, np.newaxis] >> np.arange(len(kernels)) & 1
        following = np.tensordot(inside / size, kernels, 1)
        for number, one in enumerate(after / size):
            chosen = np.flatnonzero(inside[:, number])
            following[chosen] += one @ layer[places[subsets[chosen] ^ (1 << number)]]
        layer = following
        yield layer


def _later(blocks: int) -> int:
    """Blocks in the later half of an order: any subset of so many follows on its complement."""
    return (blocks + 1) // 2


def followed(visits: Visits, orders: Orders, first: int, last: int) -> FloatArray:
    """K (k, d, d) of the visits of each order from one slot to another, the last of them first.

    K -> K + (I - K L R) K_b: what is visited later stands to the left.
    """
    rank, d, grades = visits.rank, visits.dimension, visits.left * visits.right
    padded = np.vstack([visits.unit, np.zeros(rank)])
    kernel = np.zeros((len(orders.rows), d, d))
    for visit in reversed(range(first, last)):
        rows = padded[orders.rows[:, visit]]
        product = np.eye(d) - kernel * grades
        # A gradient moves the parameters by -1 (if not Nesterov's) and the buffer by 1, in their units.
        pushed = visits.hyperparameters.of_gradient(visit) * product[:, :, :rank]
        if visits.momentum:
            pushed -= product[:, :, rank:]
            stays = (1 - visits.momentum) * product[:, :, rank:]
            kernel[:, :, rank:] += visits.hyperparameters.of_buffer(visit) * product[:, :, :rank] + stays
        entry = pushed @ rows.swapaxes(1, 2) / orders.divisors[:, visit, np.newaxis, np.newaxis]
        kernel[:, :, :rank] += entry @ rows
        if visits.penalty:
            kernel[:, :, :rank] += visits.penalty_gradient(pushed.swapaxes(1, 2)).swapaxes(1, 2)
    return kernel
