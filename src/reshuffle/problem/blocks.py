"""What is kept of the rows, and the per-batch statistics: all that a scheme needs to know of the data.

An orthogonal change of the rows of a batch keeps X_b'X_b, X_b'y_b and y_b'y_b, which is all that a batch does to
the parameters. So a triangular factor of p + 1 rows stands for a batch of any number of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.errors import UnsupportedError
from reshuffle.problem.outputs import of_output
from reshuffle.problem.row_space import (
    Reduction,
    RowSpace,
    chunks,
    compress,
    compress_apart,
    scale_of,
    unit_of,
)


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


@dataclass(frozen=True, eq=False)
class Blocks:
    """The per-batch statistics: each batch's rows and responses, in row-space coordinates.

    Batch b holds rows[offsets[b]:offsets[b + 1]], and its gradients are divided by divisors[b] = m_b, the number of
    its rows in the data unless asked otherwise: W_b = scale^2 V rows_b' rows_b V' / m_b. A batch of more than r + 1
    rows is kept as its triangular factor, so that memory is bounded by B (r + 1)^2 however many rows there are.
    """

    rows: FloatArray
    response: FloatArray
    """(rows,), or (rows, t) if there are several outputs."""
    offsets: IntArray
    divisors: FloatArray

    @property
    def batches(self) -> int:
        """How many batches there are."""
        return len(self.divisors)

    @property
    def sizes(self) -> IntArray:
        """Rows kept of each batch."""
        return np.diff(self.offsets)

    @property
    def weight(self) -> float:
        """The largest weight 1 / (B m_b) that a row has in the mean gradient of the batches."""
        return 1 / (self.batches * float(self.divisors.min()))

    def of(self, batch: int) -> slice | IntArray:
        """Where one batch's rows are."""
        return slice(int(self.offsets[batch]), int(self.offsets[batch + 1]))


def split(
    X: FloatArray,
    y: FloatArray,
    reduction: Reduction,
    partition: list[IntArray],
    divisors: FloatArray | None = None,
) -> Blocks:
    """Cut the data into the batches of a partition, given as row indices; divisors are their lengths by default."""
    space, rank = reduction.space, reduction.rows.shape[1]
    is_whole_and_tall = len(partition) == 1 and len(partition[0]) == X.shape[0] >= X.shape[1]
    squeeze = compress if y.ndim == 1 else _compress_apart(rank)
    if is_whole_and_tall:
        tables = [np.column_stack([reduction.rows, reduction.response])]
    elif all(len(members) == 1 for members in partition):
        return _single_rows(X, y, reduction, np.concatenate(partition), divisors)
    elif X.shape[1] > X.shape[0]:
        table = np.column_stack([reduction.rows, reduction.response])
        tables = [squeeze([table[members]]) for members in partition]
    else:
        tables = [squeeze(_tall_block(X, y, space, members)) for members in partition]
    stacked = np.vstack(tables)
    return Blocks(
        rows=np.ascontiguousarray(stacked[:, :rank]),
        response=np.ascontiguousarray(stacked[:, rank] if y.ndim == 1 else stacked[:, rank:]),
        offsets=np.concatenate([[0], np.cumsum([len(table) for table in tables])]).astype(np.int64),
        divisors=np.array([len(members) for members in partition], dtype=np.float64)
        if divisors is None
        else divisors,
    )


def rows_inside(X: FloatArray, reduction: Reduction, members: IntArray) -> FloatArray:
    """Rows of X (n, p) in the coordinates of the row space, over their scale: (m, r)."""
    if X.shape[1] > X.shape[0]:
        return reduction.rows[members]
    rows = X[members] / reduction.space.scale
    return rows if reduction.space.basis is None else rows @ reduction.space.basis


def _single_rows(
    X: FloatArray, y: FloatArray, reduction: Reduction, members: IntArray, divisors: FloatArray | None
) -> Blocks:
    """Batches of one row each: many, and nothing to compress, so that nothing is copied but once."""
    rows, count = rows_inside(X, reduction, members), len(members)
    return Blocks(rows, y[members], np.arange(count + 1), np.ones(count) if divisors is None else divisors)


def _compress_apart(rank: int) -> Callable[[Iterable[FloatArray]], FloatArray]:
    return lambda tables: np.hstack(compress_apart(tables, rank))


def _tall_block(X: FloatArray, y: FloatArray, space: RowSpace, members: IntArray) -> Iterator[FloatArray]:
    """The rows and responses of a batch, some thousand at a time, in the coordinates of the row space."""
    p = X.shape[1]
    for table in chunks(X, y, space.scale, members):
        yield table if space.basis is None else np.column_stack([table[:, :p] @ space.basis, table[:, p:]])
