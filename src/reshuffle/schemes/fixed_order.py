"""What schemes have in common in which an order, once chosen, is kept."""

from typing import Any

import numpy as np

from reshuffle._core import checks
from reshuffle._core.arrays import FloatArray, IntArray
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.problem.blocks import Blocks
from reshuffle.schemes.base import Scheme


class FixedOrder(Scheme):
    """Visits in an order that does not change from epoch to epoch, so that an epoch is no symmetric map.

    Parameters
    ----------
    batches, batch_size, drop_last, normalize
        As in `Partition`.
    order : sequence of int, optional
        The numbers 0 .. B-1 of the batches, in the order of the visits.
    """

    is_symmetric = False

    def __init__(
        self,
        batches: Any = None,
        order: Any = None,
        *,
        batch_size: Any = None,
        drop_last: bool = False,
        normalize: str = "own",
    ):
        super().__init__(batches, batch_size=batch_size, drop_last=drop_last, normalize=normalize)
        self.order = None if order is None else _numbers(order)
        if self.order is not None and self.batches is not None:
            self._require_fit(self.batches)

    def __repr__(self) -> str:
        order = "" if self.order is None else f", order={self.order.tolist()}"
        return f"{type(self).__name__}({self._partition}{order})"

    def steps(self, n: int) -> int:
        """The number of steps in an epoch over n rows."""
        steps = super().steps(n)
        self._require_fit(steps)
        return steps

    def _require_fit(self, batches: int) -> None:
        if self.order is not None and sorted(self.order.tolist()) != list(range(batches)):
            raise ValueError(
                f"order must hold each of the numbers 0..{batches - 1} of the batches once, "
                f"but it is {self.order.tolist()}."
            )

    def mean_map(self, blocks: Blocks, step: float) -> MeanMap:
        """There is none: a fixed order and its reverse are not equally likely."""
        raise TypeError(f"the epoch of {self!r} is not a symmetric map.")

    def degree(self, n: int) -> int:
        """An epoch is a polynomial of degree B in the step."""
        return self.steps(n)

    def divisors(self, n: int) -> FloatArray:
        """What the gradients of each batch are divided by, once the order is known to fit."""
        self.steps(n)
        return super().divisors(n)


def _numbers(order: Any) -> IntArray:
    numbers = checks.any_array("order", order)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise ValueError(
            f"order must be a one-dimensional sequence of the numbers of the batches, but it is {order!r}."
        )
    return numbers.astype(np.int64)
