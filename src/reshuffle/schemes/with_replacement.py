"""A batch, or single samples, drawn at random for every step."""

import copy
from collections.abc import Iterator
from typing import Self

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.problem.blocks import KeptRows
from reshuffle.problem.row_groups import RowGroups
from reshuffle.schemes.base import Scheme, Shuffle, Unit
from reshuffle.schemes.cyclic import Cyclic
from reshuffle.schemes.full_batch import FullBatch


class DrawnSamples(Scheme):
    """Batches of m rows, drawn from all rows afresh for every step.

    Parameters
    ----------
    batch_size : int
        m, the rows drawn for a step.
    drop_last : bool
        Leave out the last step of an epoch if fewer than m rows are left for it.
    """

    shuffle = Shuffle.EVERY_STEP
    unit = Unit.SAMPLE
    example = "batch_size=32"

    def __init__(self, batch_size: int, *, drop_last: bool = False):
        if batch_size is None:
            raise ValueError("batch_size must be a whole number of at least 1, but it is None.")
        super().__init__(batch_size=batch_size, drop_last=drop_last)

        self._kept: int | None = None

    def on_kept(self, kept: KeptRows) -> Self:
        """The same scheme, whose mean step needs no more than all rows together."""
        made = copy.copy(self)
        made._kept = len(kept.X)
        return made._meeting(self, kept)

    def groups(self, n: int) -> RowGroups:
        """All rows are alike."""
        return RowGroups.whole(n)

    def on_groups(self, kept: KeptRows, first_rows: IntArray) -> Self:
        """The same scheme, whose mean step needs no more than all rows together."""
        return self.on_kept(kept)

    def partition(self, n: int) -> list[IntArray]:
        """All rows are alike: one part."""
        return [np.arange(n if self._kept is None else self._kept, dtype=np.int64)]

    def divisors(self, n: int) -> FloatArray:
        """The mean over all rows."""
        return np.array([float(n)])


class SampleWithReplacement(DrawnSamples):
    """Batches of m rows, each drawn uniformly from all rows and independently of the others.

    This is torch's DataLoader(sampler=RandomSampler(data, replacement=True), batch_size=m): an epoch takes as
    many steps as there are batches of m in n rows. The mean of one step is I - step W, as for the full batch.

    Parameters
    ----------
    batch_size : int
        m, the rows drawn for a step. With m = 1 this is WithReplacement(batch_size=1).
    drop_last : bool
        Leave out the last step if fewer than m rows are left for it.

    >>> SampleWithReplacement(batch_size=8)
    SampleWithReplacement(batch_size=8)
    """

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        """The samples of all steps, one after the other."""
        while True:
            drawn = [rng.integers(n, size=(runs, int(size))) for size in self.sizes(n)]
            yield np.concatenate(drawn, axis=1)

    def equivalent(self, n: int) -> Scheme:
        """Of a single row nothing is random."""
        return FullBatch() if n == 1 else self


class WithReplacement(Scheme):
    """B independent, uniformly random batches per epoch, from a fixed partition into B (Remark with_replacement).

    Parameters
    ----------
    batches : int or list of index arrays
    batch_size, drop_last, normalize
        As in RandomReshuffling. With unequal batches the mean step is that of least squares in which a row
        of batch b has the weight n / (B m_b). With batch_size=1 every step takes a single sample; for several
        samples drawn independently of each other for every step see SampleWithReplacement.

    >>> WithReplacement(batches=[[0, 1], [2]])
    WithReplacement(an explicit partition, batches=2)
    """

    shuffle = Shuffle.EVERY_STEP

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        """Independent uniformly random batches."""
        while True:
            yield rng.integers(self.steps(n), size=(runs, self.steps(n)))

    def equivalent(self, n: int) -> Scheme:
        """Single rows drawn one by one are SampleWithReplacement(batch_size=1); of one batch nothing is random."""
        if self.steps(n) == 1:
            return Cyclic.along(self._partition, np.arange(1))
        covers = self.met is None and len(self.divisors(n)) == n
        return SampleWithReplacement(batch_size=1) if covers and (self.divisors(n) == 1).all() else self
