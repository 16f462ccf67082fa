"""A fresh permutation of the samples every epoch, cut into batches."""

import copy
from collections.abc import Iterator
from typing import Self

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.errors import UnsupportedError
from reshuffle.problem.blocks import KeptRows
from reshuffle.problem.row_groups import RowGroups
from reshuffle.schemes.base import Scheme, Shuffle, Unit, permutations
from reshuffle.schemes.full_batch import FullBatch
from reshuffle.schemes.random_reshuffling import RandomReshuffling


class SampleReshuffling(Scheme):
    """All samples once per epoch in a uniformly random order, cut into batches: DataLoader(shuffle=True).

    Batches have no members of their own, so the mean over all n! orders is that over one sample from each batch:
    Abar = sum_i (-step)^i e_i T_i, where T_i is the mean over ordered tuples of i distinct samples of the products
    of x x', and e_i the elementary symmetric functions of the batches' m_b / divisor_b (binom(B, i), if each batch
    is normalised by its own length). It is exact in polynomial time for up to four batches.

    Parameters
    ----------
    batches : int
        B, for batches that differ by at most one row.
    batch_size, drop_last, normalize
        As in torch's DataLoader: see `Partition`. With drop_last=True other rows are left out in every epoch.

    >>> SampleReshuffling(batch_size=32)
    SampleReshuffling(batch_size=32)
    """

    shuffle = Shuffle.EVERY_EPOCH
    unit = Unit.SAMPLE
    takes_members = False

    def on_kept(self, kept: KeptRows) -> Self:
        """Refused: which rows meet in a batch is drawn anew in every epoch."""
        raise UnsupportedError(
            f"{self!r} cuts single rows into batches anew in every epoch, but of these {kept.n} rows only the "
            "statistics of each batch are kept; try RandomReshuffling with the batches that were filled, or give "
            "LeastSquares the source of the rows."
        )

    def groups(self, n: int) -> RowGroups:
        """No two rows are always visited together; what is known of all of them comes first."""
        self.sizes(n)
        return RowGroups.whole(n)

    def on_groups(self, kept: KeptRows, first_rows: IntArray) -> Self:
        """The same scheme: its samples are read anew, in chunks."""
        return copy.copy(self)._meeting(self, kept)

    def partition(self, n: int) -> list[IntArray]:
        """Single rows: no two are always visited together."""
        self.sizes(n)
        return list(np.arange(n, dtype=np.int64)[:, np.newaxis])

    def divisors(self, n: int) -> FloatArray:
        """One: a sample stands for itself."""
        return np.ones(n)

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        """Independent uniformly random permutations of the samples."""
        while True:
            yield permutations(rng, runs, n)

    def equivalent(self, n: int) -> Scheme:
        """All rows in one batch are the full batch; one row per batch, those batches in random order."""
        return as_batches(self, n, alone=self.steps(n) == n)


def as_batches(scheme: Scheme, n: int, *, alone: bool) -> Scheme:
    """A scheme of units that are cut, as one of fixed batches: of all rows, or of one unit each (alone)."""
    sizes = scheme.sizes(n)
    if not np.array_equal(sizes, scheme.step_divisors(n)):
        return scheme
    if len(sizes) == 1 and sizes[0] == n:
        return FullBatch()
    return RandomReshuffling(batch_size=scheme.rows_per_unit) if alone else scheme
