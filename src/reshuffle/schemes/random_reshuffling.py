"""Every batch once per epoch, in a fresh random order."""

from collections.abc import Iterator

import numpy as np

from reshuffle._arrays import IntArray
from reshuffle.schemes.base import Scheme, Shuffle, permutations
from reshuffle.schemes.cyclic import Cyclic


class RandomReshuffling(Scheme):
    """A fixed partition into B batches, visited once per epoch in a uniformly random order (Section 2).

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

    shuffle = Shuffle.EVERY_EPOCH

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        """Independent uniformly random permutations of the batches."""
        while True:
            yield permutations(rng, runs, self.steps(n))

    def equivalent(self, n: int) -> Scheme:
        """A single batch is always visited in the same order."""
        return Cyclic.along(self._partition, np.arange(1)) if self.steps(n) == 1 else self
