"""Every batch once per epoch, always in the same order."""

from collections.abc import Iterator
from itertools import repeat
from typing import Self

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle.schemes.base import OrderLike, Scheme, Shuffle
from reshuffle.schemes.partition import Batches, Partition


class FixedOrder(Scheme):
    """Visits in an order that does not change from epoch to epoch, so that an epoch is no symmetric map.

    Parameters
    ----------
    batches, batch_size, drop_last, normalize
        As in `Partition`.
    order : sequence of int, optional
        The numbers 0 .. B-1 of the batches, in the order of the visits.
    """

    def __init__(
        self,
        batches: Batches = None,
        order: OrderLike | None = None,
        *,
        batch_size: int | None = None,
        drop_last: bool = False,
        normalize: str = "own",
    ):
        super().__init__(batches, batch_size=batch_size, drop_last=drop_last, normalize=normalize)
        self._order = None if order is None else _numbers(order)
        if self._order is not None and self.batches is not None:
            self._require_fit(self.batches)

    def __repr__(self) -> str:
        order = "" if self._order is None else f", order={self._order.tolist()}"
        return f"{type(self).__name__}({self._partition}{order})"

    @property
    def settings(self) -> tuple[object, ...]:
        """What tells this scheme from others of its kind."""
        return (*super().settings, None if self._order is None else tuple(self._order.tolist()))

    def order(self, n: int) -> IntArray:
        """The order of the batches, 0, 1, ..., B-1 unless another was given."""
        return np.arange(self.steps(n)) if self._order is None else self._order

    def steps(self, n: int) -> int:
        """The number of steps per epoch over n rows."""
        steps = super().steps(n)
        self._require_fit(steps)
        return steps

    def with_batch_size(self, batch_size: int) -> Self:
        """The same with batches of another size, unless their order was given."""
        if self._order is not None:
            raise self._no_counterpart("batches in an order that was given")
        return super().with_batch_size(batch_size)

    def _require_fit(self, batches: int) -> None:
        if self._order is not None and sorted(self._order.tolist()) != list(range(batches)):
            raise ValueError(
                f"order must hold each of the numbers 0..{batches - 1} of the batches once, "
                f"but it is {self._order.tolist()}."
            )

    def divisors(self, n: int) -> FloatArray:
        """What the gradients of each batch are divided by, once the order is known to fit."""
        self.steps(n)
        return super().divisors(n)


def _numbers(order: OrderLike) -> IntArray:
    numbers = _arrays.any_array("order", order)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"order must be a one-dimensional sequence of the numbers of the batches, but it is {order!r}."
        )
    return numbers.astype(np.int64)


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
