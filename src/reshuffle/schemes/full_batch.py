"""One step on all rows per epoch."""

from collections.abc import Iterator
from itertools import repeat
from typing import Self

import numpy as np

from reshuffle._arrays import IntArray
from reshuffle.schemes.base import Scheme, Shuffle


class FullBatch(Scheme):
    """Gradient descent proper: beta -> beta - step X'(X beta - y) / n, once per epoch (Appendix A).

    >>> FullBatch()
    FullBatch()
    """

    shuffle = Shuffle.NEVER
    is_symmetric = True
    example = ""

    def __init__(self) -> None:
        super().__init__(1)

    def __repr__(self) -> str:
        return "FullBatch()"

    def with_batch_size(self, batch_size: int) -> Self:
        """Refused: how smaller batches would be visited is open."""
        raise self._no_counterpart("all rows in one batch")

    def order(self, n: int) -> IntArray:
        """The one batch."""
        return np.zeros(1, dtype=np.int64)

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        """Only one order exists."""
        return repeat(np.zeros((runs, 1), dtype=np.int64))
