"""What every way of visiting the data has in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.linalg

from reshuffle._core.arrays import FloatArray, IntArray
from reshuffle.epoch.accuracy import Accuracy
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.problem.blocks import Blocks
from reshuffle.schemes.partition import Partition

State = TypeVar("State")


@dataclass(frozen=True, eq=False)
class Visit:
    """One step of some of the runs of a simulation.

    Attributes
    ----------
    runs : (k,)
        Which runs make it.
    rows : (m,) or (k, m)
        The rows of the batch: the same for these runs, or for each its own.
    divisor : float
        What the sum of the gradients of the rows is divided by.
    """

    runs: IntArray
    rows: IntArray
    divisor: float


class Scheme(ABC):
    """A way of visiting the rows: a partition into batches, and a random order of visits in every epoch.

    A visit to batch b is one step of gradient descent on that batch's own mean loss,
    beta -> beta - step X_b'(X_b beta - y_b) / m_b, where m_b is the number of its rows (or, with
    normalize="equal", the mean number of rows of the batches).

    `batches`, `batch_size`, `drop_last` and `normalize` are those of `Partition`.
    """

    is_symmetric: ClassVar[bool] = True
    """Whether every order is as likely as its reverse, so that the mean of an epoch is symmetric."""
    is_random: ClassVar[bool] = True
    """Whether runs differ at all."""

    def __init__(
        self, batches: Any = None, *, batch_size: Any = None, drop_last: bool = False, normalize: str = "own"
    ):
        self._partition = Partition(batches, batch_size=batch_size, drop_last=drop_last, normalize=normalize)

    @property
    def batches(self) -> int | None:
        """B, the number of batches, if that was given; `steps(n)` knows it in every case."""
        return self._partition.batches

    def steps(self, n: int) -> int:
        """The number of steps in an epoch over n rows."""
        return len(self._partition.sizes(n))

    def partition(self, n: int) -> list[IntArray]:
        """The row indices of each batch, for n rows: those that are always visited together."""
        return self._partition.members(n)

    def divisors(self, n: int) -> FloatArray:
        """M_b (B,), what the sum of the gradients of each part of the partition is divided by."""
        return self._partition.divisors(n)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._partition})"

    @abstractmethod
    def mean_map(self, blocks: Blocks, step: float) -> MeanMap:
        """The exact mean of an epoch over the orders of visits, in row-space coordinates."""

    def estimated_map(self, blocks: Blocks, step: float, accuracy: Accuracy) -> MeanMap:
        """The mean of an epoch by the method asked for. Schemes whose exact mean is cheap know no other."""
        return self.mean_map(blocks, step)

    @abstractmethod
    def degree(self, n: int) -> int:
        """The degree in the step of the kernel of the mean map, a polynomial, for n rows."""

    @abstractmethod
    def orders(self, rng: np.random.Generator, runs: int, batches: int) -> Iterator[IntArray]:
        """Draw the batches that each run visits, (runs, steps) an epoch, epoch after epoch without end."""

    def contracting_step(self, blocks: Blocks) -> float:
        """2 / max |W_b|: with smaller steps each visit shrinks what it sees."""
        norms = [
            float(scipy.linalg.svdvals(blocks.rows[blocks.of(batch)])[0]) ** 2 / float(divisor)
            for batch, divisor in enumerate(blocks.divisors)
        ]
        return 2 / max(norms)

    def visits(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[Iterator[Visit]]:
        """Draw what each of several runs does: the visits of an epoch, epoch after epoch without end."""
        members, divisors = self.partition(n), self.divisors(n)

        def epoch(orders: IntArray) -> Iterator[Visit]:
            for step in orders.T:
                sorted_runs = np.argsort(step, kind="stable")
                batches, starts = np.unique(step[sorted_runs], return_index=True)
                for batch, group in zip(batches, np.split(sorted_runs, starts[1:]), strict=True):
                    yield Visit(group, members[batch], float(divisors[batch]))

        for orders in self.orders(rng, runs, len(members)):
            yield epoch(orders)

    def walk(
        self,
        n: int,
        visit: Callable[[int, State], State],
        mean: Callable[[Sequence[State]], State],
        start: State,
    ) -> State:
        """The mean over the orders of one epoch of any linear process, without enumerating orders.

        Parameters
        ----------
        n : int
            Rows.
        visit : callable
            (b, state) -> the state after a visit to batch b; linear, up to a constant.
        mean : callable
            The mean of a list of equally likely states.
        start : state
        """
        raise TypeError(
            f"scheme must visit fixed batches for this question, but it is {self!r}; "
            "try RandomReshuffling, or simulate(...)."
        )

    def walked(self, n: int) -> float:
        """How many visits a walk makes."""
        return self.steps(n)

    def equivalent(self, n: int) -> "Scheme":
        """The same runs of n rows as a scheme of which more is known, if there is one; else this one."""
        return self

    def courses(self, n: int) -> Sequence["Scheme"]:
        """The equally likely schemes between which a run chooses at its start; most draw afresh in every epoch."""
        return [self]
