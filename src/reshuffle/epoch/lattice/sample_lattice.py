"""The subset lattice over samples: exact means of an epoch from kernels as large as the batches involved.

With F(S) the average over all orderings of the batches in S of the product of (I - step W_b), write
F(S) = I - step C' D(S) C, where C (q, r) are all rows and D(S) is symmetric and vanishes outside the rows of S:
a word in the W_b begins and ends with rows of X. The recursion F(S) = mean over b in S of
(I - step W_b) F(S - b) becomes

    D(S) = mean over b in S of [ D(S - b) + E_b (E_b' - step (C C')_b D(S - b)) / m_b ],

where E_b places rows: half of the products through X_b disappear, and what is left is as large as S, not as C.
No difference of nearly equal numbers is taken, so small steps lose no digits.
"""

from collections.abc import Iterator
from math import comb

import numpy as np

from reshuffle._core import FloatArray, IntArray
from reshuffle._core.progress import track
from reshuffle._core.threads import each, workers
from reshuffle.epoch.lattice.subsets import elements, layer, prefix_weights
from reshuffle.problem.blocks import Blocks

_Layer = dict[int, FloatArray]


class SampleLattice:
    """The lattice of one set of batches, at one step.

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
