"""What every way of visiting the data has in common."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from reshuffle.arrays import IntArray
from reshuffle.blocks import Blocks
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.schemes.partition import Partition


class Scheme(ABC):
    """A way of visiting the rows: a partition into batches, and a random order of visits in every epoch.

    A visit to batch b is one step of gradient descent on that batch's own mean loss,
    beta -> beta - step X_b'(X_b beta - y_b) / m_b, where m_b is the number of its rows.
    """

    def __init__(self, batches: Any):
        self._partition = Partition(batches)

    @property
    def batches(self) -> int:
        """B, the number of batches; also the number of steps in an epoch."""
        return self._partition.batches

    def partition(self, n: int) -> list[IntArray]:
        """The row indices of each batch, for n rows."""
        return self._partition.members(n)

    def __repr__(self) -> str:
        given = "an explicit partition, " if self._partition.is_explicit else ""
        return f"{type(self).__name__}({given}batches={self.batches})"

    @abstractmethod
    def mean_map(self, blocks: Blocks, step: float) -> MeanMap:
        """The mean of an epoch over the orders of visits, in row-space coordinates."""

    @abstractmethod
    def orders(self, rng: np.random.Generator, runs: int) -> IntArray:
        """Draw the batches that each run visits in one epoch, (runs, B)."""

    @property
    @abstractmethod
    def degree(self) -> int:
        """The degree in the step of the kernel of the mean map, a polynomial."""
