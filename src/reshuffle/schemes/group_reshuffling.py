"""A fresh permutation of groups of rows every epoch, cut into batches."""

from collections.abc import Iterator
from typing import Self

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle.errors import UnsupportedError
from reshuffle.problem.blocks import KeptRows
from reshuffle.problem.row_groups import RowGroups
from reshuffle.schemes.base import Scheme, Shuffle, Unit, Visit, permutations, rows_of
from reshuffle.schemes.partition import Batches
from reshuffle.schemes.sample_reshuffling import as_batches

_FEW = 12
"""Batches of which all orders are averaged in no time."""


class GroupReshuffling(Scheme):
    """Samples of several rows each, once per epoch in a uniformly random order, cut into batches.

    The outputs of a network share its parameters, so that a sample of t outputs is t rows that are always visited
    together: rows 0 .. t-1 are the first sample, and so on. With one row per sample this is SampleReshuffling.
    The mean over all orders is that of shuffled samples with W_i = X_i'X_i for x_i x_i'. It is exact in polynomial
    time for up to three batches. `leave_one_out` leaves out samples, not single rows: each row is predicted by the
    run without its sample.

    Parameters
    ----------
    rows : int
        t, the rows of a sample.
    batches : int
        B, for batches that differ by at most one sample.
    batch_size, drop_last, normalize
        As in `SampleReshuffling`, counted in samples. The gradient of a batch is the mean over all of its rows.

    >>> GroupReshuffling(10, batch_size=32)
    GroupReshuffling(10, batch_size=32)
    >>> GroupReshuffling(2, batch_size=3).sizes(10)
    array([6, 4])
    >>> GroupReshuffling(3, batch_size=1).sizes(10)
    Traceback (most recent call last):
    ...
    ValueError: rows must divide the number of rows, 10, but it is 3.
    """

    shuffle = Shuffle.EVERY_EPOCH
    unit = Unit.GROUP
    takes_members = False
    example = "10, batch_size=32"

    def __init__(
        self,
        rows: int,
        batches: Batches = None,
        *,
        batch_size: int | None = None,
        drop_last: bool = False,
        normalize: str = "own",
    ):
        self.rows_per_unit = _arrays.whole_number("rows", rows, 1)
        super().__init__(batches, batch_size=batch_size, drop_last=drop_last, normalize=normalize)

    def __repr__(self) -> str:
        return f"GroupReshuffling({self.rows_per_unit}, {self._partition})"

    @property
    def settings(self) -> tuple[object, ...]:
        """What tells this scheme from others of its kind."""
        return (*super().settings, self.rows_per_unit)

    def _samples(self, n: int) -> int:
        if n % self.rows_per_unit:
            raise ValueError(f"rows must divide the number of rows, {n}, but it is {self.rows_per_unit}.")
        return n // self.rows_per_unit

    def on_kept(self, kept: KeptRows) -> Self:
        """Refused: which rows meet in a batch is drawn anew in every epoch."""
        raise self._not_kept(kept.n)

    def groups(self, n: int) -> RowGroups:
        """Refused: groups that are drawn anew are not read in chunks."""
        raise self._not_kept(n)

    def _not_kept(self, n: int) -> UnsupportedError:
        return UnsupportedError(
            f"{self!r} cuts groups of rows into batches anew in every epoch, and needs the rows themselves, but "
            f"these {n} rows are not in memory; give LeastSquares the rows, or in_memory=True."
        )

    def steps(self, n: int) -> int:
        """The number of steps per epoch over n rows."""
        return len(self._partition.sizes(self._samples(n)))

    def sizes(self, n: int) -> IntArray:
        """How many rows each step takes, (steps,)."""
        return self._partition.sizes(self._samples(n)) * self.rows_per_unit

    def step_divisors(self, n: int) -> FloatArray:
        """What the sum of the gradients of the rows of each step is divided by, (steps,)."""
        return self._partition.divisors(self._samples(n)) * self.rows_per_unit

    def partition(self, n: int) -> list[IntArray]:
        """The rows of each sample, which are always visited together."""
        self.sizes(n)
        return list(np.arange(n, dtype=np.int64).reshape(-1, self.rows_per_unit))

    def divisors(self, n: int) -> FloatArray:
        """One: a sample stands for itself."""
        return np.ones(self._samples(n))

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        """Independent uniformly random permutations of the samples."""
        while True:
            yield permutations(rng, runs, self._samples(n))

    def _sample_visits(self, n: int, order: IntArray) -> Iterator[Visit]:
        return super()._sample_visits(n, rows_of(order, self.rows_per_unit))

    def equivalent(self, n: int) -> Scheme:
        """All rows in one batch are the full batch; a few samples, one per batch, those batches in random order."""
        # Of more there is no exact mean over orders, but the cavity equation.
        return as_batches(self, n, alone=self.steps(n) == self._samples(n) <= _FEW)
