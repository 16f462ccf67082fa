"""Single samples drawn at random for every step."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from reshuffle._core.arrays import FloatArray, IntArray
from reshuffle._core.orthogonal import thin_qr
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.problem.blocks import Blocks
from reshuffle.schemes.base import Scheme, State, Visit
from reshuffle.schemes.partition import Partition


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

    def __init__(self, batch_size: Any, *, drop_last: bool = False):
        if batch_size is None:
            raise ValueError("batch_size must be a whole number of at least 1, but it is None.")
        super().__init__(batch_size=batch_size, drop_last=drop_last)

    def partition(self, n: int) -> list[IntArray]:
        """All rows are alike: one part."""
        return Partition(1).members(n)

    def divisors(self, n: int) -> FloatArray:
        """The mean over all rows."""
        return np.array([float(n)])

    def sizes(self, n: int) -> IntArray:
        """How many rows each step draws."""
        return self._partition.sizes(n)

    def mean_map(self, blocks: Blocks, step: float) -> MeanMap:
        """The mean of one step, (I - step W), for each step of an epoch."""
        n = int(blocks.divisors[0])
        steps = self.steps(n)
        orthonormal, factor = thin_qr(blocks.rows / np.sqrt(n))
        identity = np.eye(factor.shape[1])

        def modifier(batch: int) -> FloatArray:
            one_step = identity - step * (factor.T @ factor)
            mean = identity
            for _ in range(steps - 1):
                mean = identity + one_step @ mean
            return mean / steps

        return MeanMap(factor, np.ones(len(factor)), orthonormal.T / np.sqrt(n), step, steps, 1.0, modifier)

    def degree(self, n: int) -> int:
        """The mean of one step is linear in the step."""
        return 0

    def orders(self, rng: np.random.Generator, runs: int, batches: int) -> Iterator[IntArray]:
        """There are none: see `visits`."""
        raise TypeError(f"{self!r} draws rows, not batches.")

    def visits(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[Iterator[Visit]]:
        """Rows of its own for each run and step."""

        def epoch() -> Iterator[Visit]:
            for size in self.sizes(n):
                yield Visit(np.arange(runs), rng.integers(n, size=(runs, int(size))), float(size))

        while True:
            yield epoch()

    def walk(
        self,
        n: int,
        visit: Callable[[int, State], State],
        mean: Callable[[Sequence[State]], State],
        start: State,
    ) -> State:
        """One step after the other; `visit` averages over what it draws."""
        for step in range(self.steps(n)):
            start = visit(step, start)
        return start
