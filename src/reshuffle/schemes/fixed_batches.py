"""Schemes that visit every batch of a fixed partition once per epoch: in one, a fixed, or a random order."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations as every_order
from itertools import repeat
from math import factorial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle.errors import ArgumentError, UnsupportedError
from reshuffle.schemes.base import Batches, Scheme, Shuffle, Visit, with_named_numbers

_MOST_ENUMERATED = 720
"""Orders up to which all of them are averaged over: 6 batches."""
_DRAWS, _MOST_DRAWS = 256, 1_000_000
"""Orders that are drawn by default, and at most: they are followed side by side."""


class FullBatch(Scheme):
    """Gradient descent proper: beta -> beta - step X'(X beta - y) / n, once per epoch (Appendix A).

    >>> FullBatch()
    FullBatch()
    """

    shuffle = Shuffle.NEVER
    is_symmetric = True
    example = ""
    _fixed = "all rows in one batch"

    def __init__(self) -> None:
        super().__init__(batches=1)

    def __repr__(self) -> str:
        return "FullBatch()"


class Cyclic(Scheme):
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
    _own: ClassVar[tuple[str, ...]] = ("_order",)

    @with_named_numbers
    def __init__(
        self,
        batches: Batches = None,
        order: ArrayLike | None = None,
        *,
        batch_size: int | None = None,
        drop_last: bool = False,
        normalize: str = "own",
    ):
        super().__init__(batches=batches, batch_size=batch_size, drop_last=drop_last, normalize=normalize)
        self._order: IntArray | None = None
        if order is None:
            return
        numbers = _arrays.any_array("order", order)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            allowed = "be a one-dimensional sequence of the numbers of the batches"
            raise ArgumentError("order", allowed, f"it is {order!r}")
        self._order = numbers.astype(np.intp)
        if self.batches is not None:
            self._require_fit(self.batches)

    def __repr__(self) -> str:
        order = "" if self._order is None else f", order={self._order.tolist()}"
        return f"{type(self).__name__}({self._words}{order})"

    @property
    def _fixed(self) -> str:  # type: ignore[override]
        return "" if self._order is None else "batches in an order that was given"

    def order(self, n: int) -> IntArray:
        return np.arange(self.steps(n)) if self._order is None else self._order

    def steps(self, n: int) -> int:
        steps = super().steps(n)
        self._require_fit(steps)
        return steps

    def _require_fit(self, batches: int) -> None:
        if self._order is not None and sorted(self._order.tolist()) != list(range(batches)):
            allowed = f"hold each of the numbers 0..{batches - 1} of the batches once"
            raise ArgumentError("order", allowed, f"it is {self._order.tolist()}")

    def divisors(self, n: int) -> FloatArray:
        self.steps(n)
        return super().divisors(n)

    @classmethod
    def along(cls, scheme: Scheme, order: IntArray) -> "Cyclic":
        """The batches of another scheme in this order."""
        made = cls.__new__(cls)
        vars(made).update(vars(scheme) | {"_order": order, "origin": None, "met": None})
        return made


class RandomReshuffling(Scheme):
    """A fixed partition into B batches, visited once per epoch in a uniformly random order (Section 2).

    Parameters
    ----------
    batches : int or list of index arrays
        B, for contiguous blocks that differ by at most one row; or the rows of each batch.
    batch_size, drop_last, normalize
        Instead of `batches`, blocks of this many rows, with or without a shorter last one: see `Scheme`.
        Batches need not be equal: with W_b = X_b'X_b / m_b, m_b the rows of the batch (or their mean number, with
        normalize="equal"), Z = (1/B) sum_b Pi_b W_b, and the rows of Xtilde_b = X_b Pi_b carry the weight
        n / (B m_b), which is 1 for equal batches. With drop_last=True the same last rows are left out in every
        epoch: they weigh 0.

    >>> RandomReshuffling(batches=4)
    RandomReshuffling(batches=4)
    >>> RandomReshuffling(batch_size=32, drop_last=True)
    RandomReshuffling(batch_size=32, drop_last=True)
    """

    shuffle = Shuffle.EVERY_EPOCH


class ShuffleOnce(Cyclic):
    """One uniformly random order of the batches of a fixed partition, drawn once at the start.

    The mean over the draws of A_tau^k is not the k-th power of a mean, so each order is followed by itself: all of
    them while there are few, a sample of them beyond, in pairs of an order and its reverse; answers then carry the
    standard error of that sample.

    Parameters
    ----------
    batches, batch_size, drop_last, normalize
        As in RandomReshuffling.
    order : sequence of int, optional
        The order that was drawn, if that is known: then this is Cyclic with that order.
    draws : int, optional
        Average over a sample of this (even) number of orders. By default all orders are, up to 6 batches, and 256
        are drawn beyond.
    seed : int or numpy Generator
        Where that sample comes from.

    >>> ShuffleOnce(batches=4)
    ShuffleOnce(batches=4)
    """

    shuffle = Shuffle.ONCE
    _own = ("_order", "draws", "_sample_seed")

    @with_named_numbers
    def __init__(
        self,
        batches: Batches = None,
        order: ArrayLike | None = None,
        *,
        draws: int | None = None,
        seed: int | np.random.Generator = 0,
        batch_size: int | None = None,
        drop_last: bool = False,
        normalize: str = "own",
    ):
        super().__init__(
            batches=batches, order=order, batch_size=batch_size, drop_last=drop_last, normalize=normalize
        )
        self.draws = None if draws is None else _arrays.whole_number("draws", draws, 4, _MOST_DRAWS)
        if self.draws is not None and self.draws % 2:
            allowed = "be even, since orders are drawn with their reverses"
            raise ArgumentError("draws", allowed, f"it is {draws}")
        self._sample_seed = int(_arrays.generator("seed", seed).integers(2**63))

    def samples_orders(self, n: int) -> bool:
        if self._order is not None:
            return False
        return self.draws is not None or factorial(self.steps(n)) > _MOST_ENUMERATED

    def timelines(self, n: int) -> Sequence[Scheme]:
        if self._order is not None:
            return [Cyclic.along(self, self._order)]
        steps = self.steps(n)
        if not self.samples_orders(n):
            # Of an order and its reverse exactly one begins with the smaller batch.
            forward = [np.array(order) for order in every_order(range(steps)) if order[0] <= order[-1]]
            if steps == 1:
                return [Cyclic.along(self, forward[0])]
        else:
            rng = np.random.default_rng(self._sample_seed)
            forward = [rng.permutation(steps) for _ in range((self.draws or _DRAWS) // 2)]
        return [Cyclic.along(self, order) for pair in forward for order in (pair, pair[::-1])]

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        if self._order is None:
            return super().draw(n, rng, runs)
        return repeat(np.tile(self._order, (runs, 1)))


class PairedReversal(Scheme):
    """A uniformly random order of the batches of a fixed partition, then the same order backwards: one epoch.

    An epoch visits every batch twice, and draws one order for both passes. Its mean is E[A'A], with A the product
    over the first pass: what the order of the first pass did is undone to first order in the step by the second.
    At most 6 batches, all of whose orders are enumerated.

    Parameters
    ----------
    batches, batch_size, drop_last, normalize
        As in RandomReshuffling.

    >>> PairedReversal(batches=3).steps(30)
    6
    """

    shuffle = Shuffle.FROM_A_LIST

    def steps(self, n: int) -> int:
        return 2 * super().steps(n)

    def orders(self, n: int) -> Sequence[IntArray]:
        batches = super().steps(n)
        if factorial(batches) > _MOST_ENUMERATED:
            raise UnsupportedError(
                f"{self!r} must have at most 6 batches, since all of their orders are enumerated, but it has "
                f"{batches}; try larger batches."
            )
        return [np.array(order + order[::-1]) for order in every_order(range(batches))]


class LocalDescent(Scheme):
    """Federated averaging: every client takes some steps on its own rows, and the parameters are averaged.

    An epoch is one round. With W_c of the rows of client c it multiplies the error by the mean over the clients of
    (I - step W_c)^local_steps: nothing is random. `run.limit()` is its fixed point, which is least squares for one
    local step or clients that agree, and `run.compare_limit()` how far the clients' drift has moved it. Momentum
    buffers are averaged with the parameters. All clients count alike.

    Parameters
    ----------
    clients : int or list of index arrays
        The number of clients, for contiguous blocks of rows; or the rows of each.
    local_steps : int
        Full-batch steps of each client in a round; one is gradient descent on all clients.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(60, 3, noise=1.0, seed=1)
    >>> for local_steps in (1, 10):
    ...     run = rs.descend(problem, rs.LocalDescent(clients=3, local_steps=local_steps), step=0.1)
    ...     print(round(run.compare_limit().distance, 4))
    0.0
    0.0114
    """

    shuffle = Shuffle.FROM_A_LIST
    is_random = False
    example = "clients=4, local_steps=10"
    _own = ("local_steps",)
    _fixed = "clients"

    def __init__(self, clients: Batches, local_steps: int):
        self.local_steps = _arrays.whole_number("local_steps", local_steps, 1)
        if not isinstance(clients, Iterable):
            clients = _arrays.whole_number("clients", clients, 1)
        super().__init__(batches=clients)

    def __repr__(self) -> str:
        clients = "an explicit partition, " if self.is_explicit else ""
        return f"LocalDescent({clients}clients={self.batches}, local_steps={self.local_steps})"

    def steps(self, n: int) -> int:
        self.sizes(n)
        return self.local_steps

    def orders(self, n: int) -> Sequence[IntArray]:
        # The mean over a client that is drawn at random is the mean over all of them.
        return [np.full(self.local_steps, client) for client in range(len(self.sizes(n)))]

    def visits(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[Iterator[Visit]]:
        raise UnsupportedError(
            f"{self!r} averages over its clients after every round, which a simulation of single runs does not; "
            "descend(...) is exact, and nothing in it is random."
        )
