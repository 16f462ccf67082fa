"""The per-batch statistics: all that a scheme needs to know of the data."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from reshuffle._core import FloatArray, IntArray
from reshuffle.problem.row_space import Reduction, RowSpace, chunks, compress, compress_apart


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
