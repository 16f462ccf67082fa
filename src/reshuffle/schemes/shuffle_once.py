"""Every batch once per epoch, in an order that is drawn once, at the start."""

from collections.abc import Iterator, Sequence
from itertools import permutations as every_order
from math import factorial

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import IntArray
from reshuffle.schemes.base import OrderLike, Scheme, Shuffle, permutations
from reshuffle.schemes.cyclic import Cyclic, FixedOrder
from reshuffle.schemes.partition import Batches

_MOST_ENUMERATED = 720
"""Orders up to which all of them are averaged over: 6 batches."""
_DRAWS = 256


class ShuffleOnce(FixedOrder):
    """One uniformly random order of the batches of a fixed partition, drawn at the start and kept.

    The mean over the draws of A_tau^k is not the k-th power of a mean, so each order is followed by itself: all of
    them while there are few, a sample of them beyond, in pairs of an order and its reverse; answers then carry the
    standard error of that sample.

    Parameters
    ----------
    batches, batch_size, drop_last, normalize
        As in RandomReshuffling.
    order : sequence of int, optional
        What was drawn, if that is known: then this is Cyclic with that order.
    draws : int, optional
        Average over a sample of this (even) number of orders. By default all orders are, up to 6 batches, and 256
        are drawn beyond.
    seed : int or numpy Generator
        Where that sample comes from.

    >>> ShuffleOnce(batches=4)
    ShuffleOnce(batches=4)
    """

    shuffle = Shuffle.ONCE

    def __init__(
        self,
        batches: Batches = None,
        order: OrderLike | None = None,
        *,
        draws: int | None = None,
        seed: int | np.random.Generator = 0,
        batch_size: int | None = None,
        drop_last: bool = False,
        normalize: str = "own",
    ):
        super().__init__(batches, order, batch_size=batch_size, drop_last=drop_last, normalize=normalize)
        self.draws = None if draws is None else _arrays.whole_number("draws", draws, 4)
        if self.draws is not None and self.draws % 2:
            raise ValueError(
                f"draws must be even, since orders are drawn with their reverses, but it is {draws}."
            )
        self._sample_seed = int(_arrays.generator("seed", seed).integers(2**63))

    @property
    def settings(self) -> tuple[object, ...]:
        """What tells this scheme from others of its kind."""
        return (*super().settings, self.draws, self._sample_seed)

    def samples_courses(self, n: int) -> bool:
        """Whether the orders are too many to follow them all, or a sample was asked for."""
        if self._order is not None:
            return False
        return self.draws is not None or factorial(self.steps(n)) > _MOST_ENUMERATED

    def courses(self, n: int) -> Sequence[Scheme]:
        """Cyclic schemes, one per order; neighbours are each other's reverses."""
        if self._order is not None:
            return [Cyclic.along(self._partition, self._order)]
        steps = self.steps(n)
        if not self.samples_courses(n):
            # Of an order and its reverse exactly one begins with the smaller batch.
            forward = [np.array(order) for order in every_order(range(steps)) if order[0] <= order[-1]]
            if steps == 1:
                return [Cyclic.along(self._partition, forward[0])]
        else:
            rng = np.random.default_rng(self._sample_seed)
            forward = [rng.permutation(steps) for _ in range((self.draws or _DRAWS) // 2)]
        return [Cyclic.along(self._partition, order) for pair in forward for order in (pair, pair[::-1])]

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        """Permutations that are drawn once."""
        if self._order is not None:
            kept = np.tile(self._order, (runs, 1))
        else:
            kept = permutations(rng, runs, self.steps(n))
        while True:
            yield kept
