"""Every batch once an epoch, always in the same order."""

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat

import numpy as np

from reshuffle._core.arrays import IntArray
from reshuffle.schemes.base import State
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

    is_random = False

    @classmethod
    def along(cls, partition: Partition, order: IntArray) -> "Cyclic":
        """The scheme of a partition that exists already."""
        made = cls(len(order), order)
        made._partition = partition
        return made

    def orders(self, rng: np.random.Generator, runs: int, batches: int) -> Iterator[IntArray]:
        """The same for all runs and epochs."""
        return repeat(np.tile(self._order(batches), (runs, 1)))

    def walk(
        self,
        n: int,
        visit: Callable[[int, State], State],
        mean: Callable[[Sequence[State]], State],
        start: State,
    ) -> State:
        """One visit after the other."""
        for batch in self._order(self.steps(n)):
            start = visit(int(batch), start)
        return start

    def _order(self, batches: int) -> IntArray:
        return np.arange(batches) if self.order is None else self.order
