"""Every batch once per epoch, always in the same order."""

from collections.abc import Iterator
from itertools import repeat

import numpy as np

from reshuffle._core.arrays import IntArray
from reshuffle.schemes.base import Shuffle
from reshuffle.schemes.fixed_order import FixedOrder
from reshuffle.schemes.partition import Partition


class Cyclic(FixedOrder):
    """The batches of a fixed partition in a fixed order: torch's DataLoader(shuffle=False).

    An epoch multiplies the error by A = (I - step W_B) ... (I - step W_1), which is not symmetric.

    Parameters
    ----------
    batches, batch_size, drop_last, normalize
        As in RandomReshuffling.
    order : sequence of int, optional
        The order of the visits; by default 0, 1, ..., B-1.

    >>> Cyclic(batches=3, order=[2, 0, 1])
    Cyclic(batches=3, order=[2, 0, 1])
    """

    shuffle = Shuffle.NEVER

    @classmethod
    def along(cls, partition: Partition, order: IntArray) -> "Cyclic":
        """The scheme of a partition that exists already."""
        made = cls(len(order), order)
        made._partition = partition
        return made

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        """The same for all runs and epochs."""
        return repeat(np.tile(self.order(n), (runs, 1)))
