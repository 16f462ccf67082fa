"""A batch drawn at random for every step."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from reshuffle._core.arrays import FloatArray, IntArray
from reshuffle._core.orthogonal import thin_qr
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.problem.blocks import Blocks
from reshuffle.schemes.base import Scheme, State
from reshuffle.schemes.cyclic import Cyclic
from reshuffle.schemes.sample_with_replacement import SampleWithReplacement


class WithReplacement(Scheme):
    """B independent, uniformly random batches an epoch, from a fixed partition into B (Remark with_replacement).

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

    def __init__(
        self, batches: Any = None, *, batch_size: Any = None, drop_last: bool = False, normalize: str = "own"
    ):
        super().__init__(batches, batch_size=batch_size, drop_last=drop_last, normalize=normalize)

    def mean_map(self, blocks: Blocks, step: float) -> MeanMap:
        """The mean of one step, (I - step W), B times an epoch."""
        roots = np.sqrt(np.repeat(1 / (blocks.batches * blocks.divisors), blocks.sizes))[:, np.newaxis]
        orthonormal, factor = thin_qr(roots * blocks.rows)
        identity = np.eye(factor.shape[1])

        def modifier(batch: int) -> FloatArray:
            one_step = identity - step * (factor.T @ factor)
            # Horner's rule for the mean of 1, A, ..., A^(B-1): what comes after a given visit.
            mean = identity
            for _ in range(blocks.batches - 1):
                mean = identity + one_step @ mean
            return mean / blocks.batches

        kernel = np.ones(len(factor))
        return MeanMap(factor, kernel, (orthonormal * roots).T, step, blocks.batches, 1.0, modifier)

    def degree(self, n: int) -> int:
        """The mean of one step is linear in the step."""
        return 0

    def orders(self, rng: np.random.Generator, runs: int, batches: int) -> Iterator[IntArray]:
        """Independent uniformly random batches."""
        while True:
            yield rng.integers(batches, size=(runs, batches))

    def walked(self, n: int) -> float:
        """B^2: every batch in every step."""
        return float(self.steps(n)) ** 2

    def equivalent(self, n: int) -> Scheme:
        """Single rows drawn one by one are SampleWithReplacement(batch_size=1); of one batch nothing is random."""
        if self.steps(n) == 1:
            return Cyclic.along(self._partition, np.arange(1))
        covers = len(self.divisors(n)) == n
        return SampleWithReplacement(batch_size=1) if covers and (self.divisors(n) == 1).all() else self

    def walk(
        self,
        n: int,
        visit: Callable[[int, State], State],
        mean: Callable[[Sequence[State]], State],
        start: State,
    ) -> State:
        """Every step is the mean over the batches."""
        batches = self.steps(n)
        for _ in range(batches):
            start = mean([visit(batch, start) for batch in range(batches)])
        return start
