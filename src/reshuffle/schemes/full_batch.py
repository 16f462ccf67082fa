"""One step on all rows an epoch."""

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

import numpy as np

from reshuffle._core.arrays import FloatArray, IntArray
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.problem.blocks import Blocks
from reshuffle.schemes.base import Scheme, State


class FullBatch(Scheme):
    """Gradient descent proper: beta -> beta - step X'(X beta - y) / n, once an epoch (Appendix A).

    >>> FullBatch()
    FullBatch(batches=1)
    """

    is_random = False

    def __init__(self) -> None:
        super().__init__(1)

    def mean_map(self, blocks: Blocks, step: float) -> MeanMap:
        """Z = W: the kernel is I / n."""
        kernel = np.full(len(blocks.rows), 1 / blocks.divisors[0])
        return MeanMap(blocks.rows, kernel, kernel, step, 1, blocks.weight, lambda batch: _identity(blocks))

    def degree(self, n: int) -> int:
        """Z does not depend on the step."""
        return 0

    def orders(self, rng: np.random.Generator, runs: int, batches: int) -> Iterator[IntArray]:
        """Only one order exists."""
        return repeat(np.zeros((runs, 1), dtype=np.int64))

    def walk(
        self,
        n: int,
        visit: Callable[[int, State], State],
        mean: Callable[[Sequence[State]], State],
        start: State,
    ) -> State:
        """One visit."""
        return visit(0, start)


def _identity(blocks: Blocks) -> FloatArray:
    return np.eye(blocks.rows.shape[1])
