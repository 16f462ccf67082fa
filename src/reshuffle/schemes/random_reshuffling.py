"""Every batch once an epoch, in a fresh random order."""

from typing import Any

import numpy as np

from reshuffle.arrays import IntArray
from reshuffle.blocks import Blocks
from reshuffle.epoch.lattice import reshuffled_mean_map
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.schemes.base import Scheme


class RandomReshuffling(Scheme):
    """A fixed partition into B batches, visited once an epoch in a uniformly random order (Section 2).

    Parameters
    ----------
    batches : int or list of index arrays
        B, for contiguous blocks that differ by at most one row; or the rows of each batch. Each batch's
        gradient is the mean over its own rows, also when the batches are not equal. Then
        Z = (1/B) sum_b Pi_b W_b with W_b = X_b'X_b / m_b, and the rows of Xtilde_b = X_b Pi_b carry the weight
        n / (B m_b), which is 1 for equal batches; every formula holds with these.

    >>> RandomReshuffling(batches=4)
    RandomReshuffling(batches=4)
    """

    def __init__(self, batches: Any):
        super().__init__(batches)

    @property
    def degree(self) -> int:
        """Z is a polynomial of degree B - 1 in the step."""
        return self.batches - 1

    def mean_map(self, blocks: Blocks, step: float) -> MeanMap:
        """The exact mean over the B! orders."""
        return reshuffled_mean_map(blocks, step)

    def orders(self, rng: np.random.Generator, runs: int) -> IntArray:
        """Independent uniformly random permutations."""
        return rng.permuted(np.tile(np.arange(self.batches), (runs, 1)), axis=1)
