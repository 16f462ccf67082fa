"""Rows that differ from each other, drawn afresh for every step."""

from collections.abc import Iterator

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.schemes.base import Scheme, permutations
from reshuffle.schemes.full_batch import FullBatch
from reshuffle.schemes.with_replacement import DrawnSamples


class SampleSubsets(DrawnSamples):
    """Batches of m distinct rows, every subset as likely as any other, drawn afresh for every step.

    This is `rng.choice(n, m, replace=False)` in a training loop: no row twice in a step, while some rows come more
    than once in an epoch and others not at all. The mean of one step is I - step W, as for the full batch. The mean
    of m rows has (n - m) / (n - 1) of the variance that it has with replacement, and none at all for m = n.

    Parameters
    ----------
    batch_size : int
        m, the rows drawn for a step. With m = 1 this is SampleWithReplacement(1), with m = n FullBatch().
    drop_last : bool
        Leave out the last step of an epoch if fewer than m rows are left for it.

    >>> SampleSubsets(batch_size=8)
    SampleSubsets(batch_size=8)
    >>> SampleSubsets(batch_size=8).variance_shares(15).round(4)
    array([0.0625, 0.0816])
    """

    def variance_shares(self, n: int) -> FloatArray:
        """(n - m) / ((n - 1) m) for each step."""
        sizes = self.sizes(n)
        return np.asarray((n - sizes) / (max(n - 1, 1) * sizes))

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        """The subsets of all steps, one after the other."""
        while True:
            drawn = [permutations(rng, runs, n)[:, :size] for size in self.sizes(n)]
            yield np.concatenate(drawn, axis=1)

    def equivalent(self, n: int) -> Scheme:
        """One step of all rows is the full batch."""
        return FullBatch() if self.sizes(n).tolist() == [n] else self
