"""A batch drawn at random for every step."""

from typing import Any

import numpy as np

from reshuffle.arrays import FloatArray, IntArray
from reshuffle.blocks import Blocks
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.orthogonal import thin_qr
from reshuffle.schemes.base import Scheme


class WithReplacement(Scheme):
    """B independent, uniformly random batches an epoch, from a fixed partition into B (Remark with_replacement).

    Parameters
    ----------
    batches : int or list of index arrays
        As in RandomReshuffling. With unequal batches the mean step is that of least squares in which a row
        of batch b has the weight n / (B m_b).

    >>> WithReplacement(batches=[[0, 1], [2]])
    WithReplacement(an explicit partition, batches=2)
    """

    degree = 0

    def __init__(self, batches: Any):
        super().__init__(batches)

    def mean_map(self, blocks: Blocks, step: float) -> MeanMap:
        """The mean of one step, (I - step W), B times an epoch."""
        roots = np.sqrt(np.repeat(1 / (blocks.batches * blocks.counts), blocks.sizes))[:, np.newaxis]
        orthonormal, factor = thin_qr(roots * blocks.rows)
        identity = np.eye(len(factor))

        def modifier(batch: int) -> FloatArray:
            one_step = identity - step * (factor.T @ factor)
            # Horner's rule for the mean of 1, A, ..., A^(B-1): what comes after a given visit.
            mean = identity
            for _ in range(blocks.batches - 1):
                mean = identity + one_step @ mean
            return mean / blocks.batches

        kernel = np.ones(len(factor))
        return MeanMap(factor, kernel, (orthonormal * roots).T, step, blocks.batches, 1.0, modifier)

    def orders(self, rng: np.random.Generator, runs: int) -> IntArray:
        """Independent uniformly random batches."""
        return rng.integers(self.batches, size=(runs, self.batches))
