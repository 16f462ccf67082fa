"""The per-batch statistics: all that a scheme needs to know of the data."""

from dataclasses import dataclass

import numpy as np

from reshuffle._core import FloatArray, IntArray
from reshuffle.problem.row_space import Reduction, RowSpace, chunks, compress


@dataclass(frozen=True, eq=False)
class Blocks:
    """The per-batch statistics: each batch's rows and responses, in row-space coordinates.

    Batch b holds rows[offsets[b]:offsets[b + 1]], and its gradients are divided by divisors[b] = m_b, the number of
    its rows in the data unless asked otherwise: W_b = scale^2 V rows_b' rows_b V' / m_b. A batch of more than r + 1
    rows is kept as its triangular factor:
    memory is bounded by B (r + 1)^2 however many rows there are.
    """

    rows: FloatArray
    response: FloatArray
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
    space = reduction.space
    is_whole_and_tall = len(partition) == 1 and len(partition[0]) == X.shape[0] >= X.shape[1]
    if is_whole_and_tall:
        tables = [np.column_stack([reduction.rows, reduction.response])]
    elif all(len(members) == 1 for members in partition):
        return _single_rows(X, y, reduction, np.concatenate(partition), divisors)
    elif X.shape[1] > X.shape[0]:
        table = np.column_stack([reduction.rows, reduction.response])
        tables = [compress([table[members]]) for members in partition]
    else:
        tables = [_tall_block(X, y, space, members) for members in partition]
    stacked = np.vstack(tables)
    return Blocks(
        rows=np.ascontiguousarray(stacked[:, :-1]),
        response=np.ascontiguousarray(stacked[:, -1]),
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


def _tall_block(X: FloatArray, y: FloatArray, space: RowSpace, members: IntArray) -> FloatArray:
    def in_coordinates(table: FloatArray) -> FloatArray:
        if space.basis is None:
            return table
        return np.column_stack([table[:, :-1] @ space.basis, table[:, -1]])

    return compress(in_coordinates(table) for table in chunks(X, y, space.scale, members))
