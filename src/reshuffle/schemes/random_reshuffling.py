"""Every batch once an epoch, in a fresh random order."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from reshuffle._core.arrays import IntArray
from reshuffle._core.progress import track
from reshuffle.epoch import choice, series
from reshuffle.epoch.accuracy import Accuracy
from reshuffle.epoch.draws import DrawOrder, Order
from reshuffle.epoch.lattice import exact
from reshuffle.epoch.lattice.subsets import elements, layer
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.epoch.whitened import Whitened
from reshuffle.problem.blocks import Blocks
from reshuffle.schemes.base import Scheme, State
from reshuffle.schemes.cyclic import Cyclic


class RandomReshuffling(Scheme):
    """A fixed partition into B batches, visited once an epoch in a uniformly random order (Section 2).

    Parameters
    ----------
    batches : int or list of index arrays
        B, for contiguous blocks that differ by at most one row; or the rows of each batch.
    batch_size, drop_last, normalize
        Instead of `batches`, blocks of this many rows, with or without a shorter last one: see `Partition`.
        Batches need not be equal: with W_b = X_b'X_b / m_b, m_b the rows of the batch (or their mean number, with
        normalize="equal"), Z = (1/B) sum_b Pi_b W_b, and the rows of Xtilde_b = X_b Pi_b carry the weight
        n / (B m_b), which is 1 for equal batches. With drop_last=True the same last rows are left out in every
        epoch: they weigh 0.

    >>> RandomReshuffling(batches=4)
    RandomReshuffling(batches=4)
    >>> RandomReshuffling(batch_size=32, drop_last=True)
    RandomReshuffling(batch_size=32, drop_last=True)
    """

    def __init__(
        self, batches: Any = None, *, batch_size: Any = None, drop_last: bool = False, normalize: str = "own"
    ):
        super().__init__(batches, batch_size=batch_size, drop_last=drop_last, normalize=normalize)

    def degree(self, n: int) -> int:
        """Z is a polynomial of degree B - 1 in the step."""
        return self.steps(n) - 1

    def mean_map(self, blocks: Blocks, step: float) -> MeanMap:
        """The exact mean over the B! orders."""
        return exact.reshuffled_mean_map(blocks, step)

    def estimated_map(self, blocks: Blocks, step: float, accuracy: Accuracy) -> MeanMap:
        """The mean over orders: exact for a handful of batches, else by the series or from sampled orders."""
        weights = np.repeat(1 / (blocks.batches * blocks.divisors), blocks.sizes)
        task = choice.Task(
            exact=lambda: self.mean_map(blocks, step),
            exact_flops=exact.flops(blocks),
            whitened=lambda: Whitened.of(blocks.rows, weights, blocks.batches * step, blocks.offsets),
            coefficients=series.batch_coefficients(),
            contracts=True,
            draw=_batch_orders,
            steps=blocks.batches,
        )
        return choice.mean_map(task, accuracy)

    def orders(self, rng: np.random.Generator, runs: int, batches: int) -> Iterator[IntArray]:
        """Independent uniformly random permutations."""
        while True:
            yield rng.permuted(np.tile(np.arange(batches), (runs, 1)), axis=1)

    def equivalent(self, n: int) -> Scheme:
        """A single batch is always visited in the same order."""
        return Cyclic.along(self._partition, np.arange(1)) if self.steps(n) == 1 else self

    def walked(self, n: int) -> float:
        """Every subset is reached from each of its members: B 2^(B-1)."""
        return self.steps(n) * 2.0 ** (self.steps(n) - 1)

    def walk(
        self,
        n: int,
        visit: Callable[[int, State], State],
        mean: Callable[[Sequence[State]], State],
        start: State,
    ) -> State:
        """Up the subset lattice: the mean over the orders of S is that over which batch of S comes last."""
        exact.require_few(self.steps(n))
        batches = list(range(self.steps(n)))
        subsets = (subset for size in batches for subset in layer(batches, size + 1))
        previous: dict[int, State] = {0: start}
        current: dict[int, State] = {}
        for subset in track(subsets, 2 ** len(batches) - 1, "averaging orders"):
            if current and subset.bit_count() > next(iter(current)).bit_count():
                previous, current = current, {}
            current[subset] = mean(
                [visit(batch, previous[subset ^ (1 << batch)]) for batch in elements(subset)]
            )
        (end,) = current.values()
        return end


def _batch_orders(whitened: Whitened) -> DrawOrder:
    """Draw the rows of all batches, batch after batch in random order."""
    places = [np.arange(*ends) for ends in pairwise(whitened.offsets)]
    shares = np.ones(whitened.atoms)

    def draw(rng: np.random.Generator) -> Order:
        order = rng.permutation(whitened.atoms)
        offsets = np.concatenate([[0], np.cumsum(whitened.sizes[order])])
        return Order(np.concatenate([places[atom] for atom in order]), offsets, shares)

    return draw
