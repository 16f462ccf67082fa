"""A fresh permutation of the samples every epoch, cut into batches."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special

from reshuffle.arrays import FloatArray, IntArray
from reshuffle.blocks import Blocks
from reshuffle.epoch import choice, low_degrees, series
from reshuffle.epoch.accuracy import Accuracy
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.epoch.sampling import DrawOrder, Order
from reshuffle.epoch.whitened import Whitened
from reshuffle.errors import BudgetError
from reshuffle.schemes.base import Scheme, State, Visit
from reshuffle.schemes.full_batch import FullBatch
from reshuffle.schemes.random_reshuffling import RandomReshuffling

_MOST_WALKED = 5000
"""Visits of a walk over all ways to cut the samples into batches: beyond, orders are drawn."""
_MOST_BATCHES = 4
"""Degrees beyond the fourth have crossing pairs of pairs, and no sum of polynomial cost is known to us for them."""


class SampleReshuffling(Scheme):
    """All samples once an epoch in a uniformly random order, cut into batches: DataLoader(shuffle=True).

    Parameters
    ----------
    batches : int
        B, for batches that differ by at most one row.
    batch_size, drop_last, normalize
        As in torch's DataLoader: see `Partition`. With drop_last=True other rows are left out in every epoch.

    Batches have no members of their own, so the mean over all n! orders is that over one sample from each batch:
    Abar = sum_i (-step)^i e_i T_i, where T_i is the mean over ordered tuples of i distinct samples of the products
    of x x', and e_i the elementary symmetric functions of the batches' m_b / divisor_b (binom(B, i), if each batch
    is normalised by its own length). It is exact in polynomial time for up to four batches.

    >>> SampleReshuffling(batch_size=32)
    SampleReshuffling(batch_size=32)
    """

    def __init__(
        self, batches: Any = None, *, batch_size: Any = None, drop_last: bool = False, normalize: str = "own"
    ):
        super().__init__(batches, batch_size=batch_size, drop_last=drop_last, normalize=normalize)
        if self._partition.is_explicit:
            raise ValueError(
                "batches must be a whole number of at least 1, since every epoch draws the rows of a batch anew, "
                "but it is a list of index arrays; try RandomReshuffling."
            )

    def partition(self, n: int) -> list[IntArray]:
        """Single rows: no two are always visited together."""
        self._partition.sizes(n)
        return list(np.arange(n, dtype=np.int64)[:, np.newaxis])

    def divisors(self, n: int) -> FloatArray:
        """One: a sample stands for itself."""
        return np.ones(n)

    def sizes(self, n: int) -> IntArray:
        """How many rows each step takes."""
        return self._partition.sizes(n)

    def batch_divisors(self, n: int) -> FloatArray:
        """What the sum of the gradients of the rows of each step is divided by."""
        return self._partition.divisors(n)

    def degree(self, n: int) -> int:
        """Z is a polynomial of degree B - 1 in the step."""
        return self.steps(n) - 1

    def contracting_step(self, blocks: Blocks) -> float:
        """A step below 2 / |W_b| for every batch that may be drawn.

        A batch's |W_b| is at most the largest |x|^2 times m_b / divisor_b, and at most |X'X| / divisor_b.
        """
        n = blocks.batches
        shares = self._partition.sizes(n) / self._partition.divisors(n)
        by_rows = float(np.square(blocks.rows).sum(axis=1).max()) * float(shares.max())
        by_sum = float(scipy.linalg.svdvals(blocks.rows)[0]) ** 2 / float(self._partition.divisors(n).min())
        return 2 / min(by_rows, by_sum)

    def mean_map(self, blocks: Blocks, step: float) -> MeanMap:
        """The exact mean over the n! orders."""
        steps = self.steps(blocks.batches)
        if steps > _MOST_BATCHES:
            raise BudgetError(
                f"batches is {steps}, but the exact mean over shuffled samples is computed for at most "
                f'{_MOST_BATCHES}; try fewer batches, or descend(..., method="auto").'
            )
        whitened, coefficients = self._whitened(blocks, step), self._coefficients(blocks.batches)
        with np.errstate(over="ignore", invalid="ignore"):
            pull = low_degrees.up_to_two(whitened, coefficients)
            if steps == _MOST_BATCHES:
                pull -= coefficients[4] * low_degrees.degree_three_of_samples(whitened)
            modifier = partial(low_degrees.modifier_of_sample, whitened, coefficients)
            return choice.exact_map(whitened, pull.T, modifier).require_finite(steps)

    def estimated_map(self, blocks: Blocks, step: float, accuracy: Accuracy) -> MeanMap:
        """The mean over orders: exact for up to four batches, else by the series or from sampled orders."""
        n, rank = blocks.batches, blocks.rows.shape[1]
        steps = self.steps(n)
        flops = 12.0 * n * rank**2 + (4.0 * n**2 * rank if steps == _MOST_BATCHES else 0.0)
        task = choice.Task(
            exact=lambda: self.mean_map(blocks, step),
            exact_flops=flops if steps <= _MOST_BATCHES else np.inf,
            whitened=lambda: self._whitened(blocks, step),
            coefficients=self._coefficients(n),
            contracts=False,
            draw=self._sample_orders,
            steps=steps,
        )
        return choice.mean_map(task, accuracy)

    def _whitened(self, blocks: Blocks, step: float) -> Whitened:
        n = blocks.batches
        return Whitened.of(blocks.rows, np.full(n, 1 / n), self.steps(n) * step, blocks.offsets)

    def _coefficients(self, n: int) -> FloatArray:
        return series.sample_coefficients(self._partition.sizes(n) / self._partition.divisors(n), n)

    def _sample_orders(self, whitened: Whitened) -> DrawOrder:
        n = whitened.atoms
        offsets = np.concatenate([[0], np.cumsum(self._partition.sizes(n))])
        shares = n / (self.steps(n) * self._partition.divisors(n))
        return lambda rng: Order(rng.permutation(n)[: offsets[-1]], offsets, shares)

    def walked(self, n: int) -> float:
        """Every set of samples is reached by each of the batches that may have come last."""
        ends = np.cumsum(self.sizes(n))
        with np.errstate(over="ignore"):
            # More than a number can hold are infinitely many.
            return float((scipy.special.comb(n, ends) * scipy.special.comb(ends, self.sizes(n))).sum())

    def is_enumerable(self, n: int) -> bool:
        """Whether so few samples can be cut into batches that all ways are looked at."""
        return self.walked(n) <= _MOST_WALKED

    def draws(self, n: int) -> list[tuple[tuple[int, ...], float]]:
        """The rows and the divisor of every batch that a step may draw."""
        kinds = dict(zip(self.sizes(n).tolist(), self.batch_divisors(n).tolist(), strict=True))
        return [(rows, divisor) for m, divisor in kinds.items() for rows in combinations(range(n), m)]

    def walk(
        self,
        n: int,
        visit: Callable[[int, State], State],
        mean: Callable[[Sequence[State]], State],
        start: State,
    ) -> State:
        """Up the lattice of sets of samples: the mean over the ways into a set is that over its last batch.

        Visits are to the batches of `draws`.
        """
        if not self.is_enumerable(n):
            return super().walk(n, visit, mean, start)
        numbers = {rows: number for number, (rows, _) in enumerate(self.draws(n))}
        current: dict[frozenset[int], State] = {frozenset(): start}
        taken = 0
        for m in self.sizes(n).tolist():
            taken, previous = taken + m, current
            current = {
                frozenset(samples): mean(
                    [
                        visit(numbers[last], previous[frozenset(samples).difference(last)])
                        for last in combinations(samples, m)
                    ]
                )
                for samples in combinations(range(n), taken)
            }
        return mean(list(current.values()))

    def equivalent(self, n: int) -> Scheme:
        """All rows in one batch are the full batch; one row a batch, those batches in random order."""
        sizes, divisors = self.sizes(n), self.batch_divisors(n)
        if not np.array_equal(sizes, divisors):
            return self
        if len(sizes) == 1 and sizes[0] == n:
            return FullBatch()
        return RandomReshuffling(batch_size=1) if len(sizes) == n else self

    def orders(self, rng: np.random.Generator, runs: int, batches: int) -> Iterator[IntArray]:
        """The order of the samples, whole permutations."""
        while True:
            yield rng.permuted(np.tile(np.arange(batches), (runs, 1)), axis=1)

    def visits(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[Iterator[Visit]]:
        """Draw the visits of several runs, each with rows of its own."""
        offsets = np.concatenate([[0], np.cumsum(self._partition.sizes(n))])
        everyone = np.arange(runs)

        def epoch(orders: IntArray) -> Iterator[Visit]:
            for batch, divisor in enumerate(self._partition.divisors(n)):
                yield Visit(everyone, orders[:, offsets[batch] : offsets[batch + 1]], float(divisor))

        for orders in self.orders(rng, runs, n):
            yield epoch(orders)
