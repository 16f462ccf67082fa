"""One step on all rows an epoch."""

import numpy as np

from reshuffle.arrays import FloatArray, IntArray
from reshuffle.blocks import Blocks
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.schemes.base import Scheme


class FullBatch(Scheme):
    """Gradient descent proper: beta -> beta - step X'(X beta - y) / n, once an epoch (Appendix A).

    >>> FullBatch()
    FullBatch(batches=1)
    """

    degree = 0

    def __init__(self) -> None:
        super().__init__(1)

    def mean_map(self, blocks: Blocks, step: float) -> MeanMap:
        """Z = W: the kernel is I / n."""
        kernel = np.full(len(blocks.rows), 1 / blocks.counts[0])
        return MeanMap(blocks.rows, kernel, kernel, step, 1, blocks.weight, lambda batch: _identity(blocks))

    def orders(self, rng: np.random.Generator, runs: int) -> IntArray:
        """Only one order exists."""
        return np.zeros((runs, 1), dtype=np.int64)


def _identity(blocks: Blocks) -> FloatArray:
    return np.eye(blocks.rows.shape[1])
