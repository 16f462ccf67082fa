"""A batch drawn at random for every step."""

from collections.abc import Iterator

import numpy as np

from reshuffle._core.arrays import IntArray
from reshuffle.schemes.base import Scheme, Shuffle
from reshuffle.schemes.cyclic import Cyclic
from reshuffle.schemes.sample_with_replacement import SampleWithReplacement


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
        covers = len(self.divisors(n)) == n
        return SampleWithReplacement(batch_size=1) if covers and (self.divisors(n) == 1).all() else self
