"""What is kept of the rows: the rows themselves, or fewer that stand for them batch by batch.

An orthogonal change of the rows of a batch keeps X_b'X_b, X_b'y_b and y_b'y_b, which is all that a batch does to
the parameters. So a triangular factor of p + 1 rows stands for a batch of any number of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from reshuffle._core import FloatArray, IntArray
from reshuffle.errors import UnsupportedError
from reshuffle.problem.outputs import of_output
from reshuffle.problem.row_space import scale_of, unit_of


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Rows X (k, p) with responses y (k,) or (k, t), and the number of rows that they stand for.

    Attributes
    ----------
    X, y
    counts : (B,), optional
        The rows that each batch has in the data, where other rows stand for them; None if all are kept.
    offsets : (B + 1,), optional
        Batch b is X[offsets[b]:offsets[b + 1]].
    sizes : (p,), optional
        The largest absolute entry of each column of the data.
    """

    X: FloatArray
    y: FloatArray
    counts: IntArray | None = None
    offsets: IntArray | None = None
    sizes: FloatArray | None = None

    @property
    def n(self) -> int:
        """The number of rows of the data."""
        return len(self.X) if self.counts is None else int(self.counts.sum())

    @property
    def are_all(self) -> bool:
        """Whether these are the rows of the data."""
        return self.counts is None

    @property
    def stand_for(self) -> tuple[int, float] | None:
        """The number and the largest absolute entry of the rows that these stand for, if they are not all kept."""
        return None if self.are_all else (self.n, float(self.column_sizes.max()))

    @property
    def scale(self) -> float:
        """A power of two about as large as the largest entry of the features."""
        return scale_of(self.X) if self.are_all else unit_of(float(self.column_sizes.max()))

    @cached_property
    def column_sizes(self) -> FloatArray:
        """The largest absolute entry of each column, (p,)."""
        if self.sizes is not None:
            return self.sizes
        return np.asarray(np.maximum(self.X.max(axis=0), -self.X.min(axis=0)))

    @property
    def batches(self) -> list[IntArray]:
        """Which of the kept rows stand for each batch."""
        assert self.offsets is not None
        return [
            np.arange(*ends, dtype=np.int64) for ends in zip(self.offsets, self.offsets[1:], strict=False)
        ]

    def of_output(self, number: int) -> "KeptRows":
        """The same with the responses of one output."""
        return replace(self, y=of_output(self.y, number))

    def first(self, count: int) -> "KeptRows":
        """The first of the rows, whole batches where others stand for them."""
        if self.counts is None or self.offsets is None:
            return KeptRows(self.X[:count], self.y[:count])
        batches = int(np.searchsorted(self.offsets, count, side="left"))
        return KeptRows(
            self.X[:count], self.y[:count], self.counts[:batches], self.offsets[: batches + 1], self.sizes
        )

    def require_whole(self, partition: Sequence[IntArray]) -> None:
        """Refuse parts that are no whole batches: rows that stand for a batch mean nothing apart."""
        if self.offsets is None:
            return
        ends = set(self.offsets.tolist())
        for part in partition:
            contiguous = len(part) and part[-1] - part[0] + 1 == len(part)
            if not contiguous or int(part[0]) not in ends or int(part[-1]) + 1 not in ends:
                raise UnsupportedError(
                    f"this question cuts {self.n} rows in another way than the batches whose statistics are kept; "
                    "give a sample of the rows that fits into memory to LeastSquares(X, y)."
                )
