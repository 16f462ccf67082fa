"""Single samples drawn at random for every step."""

from collections.abc import Iterator

import numpy as np

from reshuffle._core.arrays import FloatArray, IntArray
from reshuffle.schemes.base import Scheme, Shuffle, Unit


class SampleWithReplacement(Scheme):
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

    shuffle = Shuffle.EVERY_STEP
    unit = Unit.SAMPLE
    example = "batch_size=32"

    def __init__(self, batch_size: int, *, drop_last: bool = False):
        if batch_size is None:
            raise ValueError("batch_size must be a whole number of at least 1, but it is None.")
        super().__init__(batch_size=batch_size, drop_last=drop_last)

    def partition(self, n: int) -> list[IntArray]:
        """All rows are alike: one part."""
        return [np.arange(n, dtype=np.int64)]

    def divisors(self, n: int) -> FloatArray:
        """The mean over all rows."""
        return np.array([float(n)])

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        """The samples of all steps, one after the other."""
        while True:
            drawn = [rng.integers(n, size=(runs, int(size))) for size in self.sizes(n)]
            yield np.concatenate(drawn, axis=1)
