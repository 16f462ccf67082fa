"""Statistics of batches, in the coordinates of the row space, and how they are gathered from rows in pieces.

An orthogonal change of the rows of a batch keeps X_b'X_b, X_b'y_b and y_b'y_b, which is all that a batch does to
the parameters. So a triangular factor of p + 1 rows represents a batch of any number of them. Where rows come in
pieces a batch is kept as R (p, p), Q' times its responses, and the norm of what is left of them; a new piece is
taken in by LAPACK's QR of a triangle on top of rows (dtpqrt), which costs no more than a QR of the piece alone.
Never as X'X: that would square the condition number of X.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import few_threads, norms
from reshuffle.problem.row_space import CompressedRows, Reduction, chunks, compress

_PANEL = 32
"""Columns that LAPACK works on at a time."""
_FEW_ROWS = 256
"""Rows that wait for others: a QR of a single row costs as much as one of some dozens."""
_MANY_ROWS = 4096
"""Rows that are taken in at a time: more would not stay in the cache."""


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Rows 0 .. n-1 in groups: contiguous ones that end at `ends` (G,), or as `labels` (n,) say.

    >>> RowGroups(np.array([2, 5])).of(1, 4)
    array([0, 1, 1])
    """

    ends: IntArray
    labels: IntArray | None = None

    @property
    def key(self) -> tuple[bytes, ...]:
        """Equal for equal groups, and for these alone."""
        return self.ends.tobytes(), b"" if self.labels is None else self.labels.tobytes()

    @property
    def count(self) -> int:
        """G, the number of groups."""
        return len(self.ends)

    @property
    def sizes(self) -> IntArray:
        """The rows of each group, (G,)."""
        return np.diff(self.ends, prepend=0)

    def of(self, start: int, stop: int) -> IntArray:
        """The group of each of the rows start .. stop-1."""
        return self.at(np.arange(start, stop))

    def at(self, rows: IntArray) -> IntArray:
        """The group of each of some rows."""
        return np.searchsorted(self.ends, rows, side="right") if self.labels is None else self.labels[rows]

    @property
    def first_rows(self) -> IntArray:
        """One row of each group."""
        if self.labels is None:
            return self.ends - self.sizes
        return np.unique(self.labels, return_index=True)[1]

    @classmethod
    def labelled(cls, labels: IntArray) -> "RowGroups":
        """Groups that are given row by row, numbered 0, 1, ... without gaps."""
        return cls(np.cumsum(np.bincount(labels)), labels)

    @classmethod
    def whole(cls, n: int) -> "RowGroups":
        """All rows in one group."""
        return cls(np.array([n]))

    def refined(self, other: "RowGroups") -> "RowGroups":
        """Rows that are together in both.

        >>> RowGroups(np.array([2, 4])).refined(RowGroups(np.array([3, 4]))).ends
        array([2, 3, 4])
        """
        if self.labels is None and other.labels is None:
            return RowGroups(np.union1d(self.ends, other.ends))
        n = int(self.ends[-1])
        both = np.stack([self.of(0, n), other.of(0, n)])
        return RowGroups.labelled(np.unique(both, axis=1, return_inverse=True)[1].ravel())


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
        """The number of batches."""
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
        """The place of one batch's rows."""
        return slice(int(self.offsets[batch]), int(self.offsets[batch + 1]))


def split(
    X: FloatArray,
    y: FloatArray,
    reduction: Reduction,
    partition: list[IntArray],
    divisors: FloatArray | None = None,
) -> Blocks:
    """Cut the data into the batches of a partition, given as row indices; divisors are their lengths by default."""
    lengths = [len(members) for members in partition]
    divisors = np.array(lengths, dtype=np.float64) if divisors is None else divisors
    if max(lengths) == 1:
        # Many, and nothing to compress: nothing is copied but once.
        members = np.concatenate(partition)
        return Blocks(rows_inside(X, reduction, members), y[members], np.arange(len(members) + 1), divisors)
    space, (n, p), rank = reduction.space, X.shape, reduction.rows.shape[1]
    if len(partition) == 1 and len(partition[0]) == n >= p:
        return Blocks(reduction.rows, reduction.response, np.array([0, len(reduction.rows)]), divisors)
    if p > n:
        table = np.column_stack([reduction.rows, reduction.response])
        parts = [compress([table[members]], rank, dimensions=y.ndim) for members in partition]
    else:
        parts = [
            compress(
                (
                    table
                    if space.basis is None
                    else np.column_stack([table[:, :p] @ space.basis, table[:, p:]])
                    for table in chunks(X, y, space.scale, members)
                ),
                rank,
                dimensions=y.ndim,
            )
            for members in partition
        ]
    offsets = np.concatenate([[0], np.cumsum([len(rows) for rows, _ in parts])]).astype(np.int64)
    rows, responses = (np.concatenate(halves) for halves in zip(*parts, strict=True))
    return Blocks(rows, responses, offsets, divisors)


def rows_inside(X: FloatArray, reduction: Reduction, members: IntArray) -> FloatArray:
    """Rows of X (n, p) in the coordinates of the row space, over their scale: (m, r)."""
    if X.shape[1] > X.shape[0]:
        return reduction.rows[members]
    rows = X[members] / reduction.space.scale
    return rows if reduction.space.basis is None else rows @ reduction.space.basis


class BatchFactor:
    """The rows of one batch, of p features and t responses, as their factor and a few rows that wait for others."""

    def __init__(self, p: int, t: int):
        self.p, self.t, self.count = p, t, 0
        self._triangle: FloatArray | None = None
        self._explained, self._left = np.zeros((p, t)), np.zeros(t)
        self._waiting: list[tuple[FloatArray, FloatArray]] = []
        self._waiting_rows = 0

    def add(self, X: FloatArray, y: FloatArray, count: int | None = None) -> None:
        """Take in rows (m, p) and responses (m, t), which represent `count` rows of the data, by default m."""
        self.count += len(X) if count is None else count
        if not len(X):
            return
        if self._waiting_rows + len(X) <= max(_FEW_ROWS, self.p + 1):
            # A copy, since whoever adds may fill the same array with the next rows.
            self._waiting.append((np.array(X), np.array(y)))
            self._waiting_rows += len(X)
            return
        self._take_waiting()
        height = max(_MANY_ROWS, self.p + 1)
        for start in range(0, len(X), height):
            self._take(X[start : start + height], y[start : start + height])

    def rows(self) -> tuple[FloatArray, FloatArray]:
        """Rows (k, p) and responses (k, t) that represent the batch: its own if they are few, else p + 1 others."""
        if self._triangle is None and self._waiting_rows <= self.p + 1:
            return self._waiting_table()
        self._take_waiting()
        assert self._triangle is not None
        X = np.vstack([np.triu(self._triangle), np.zeros((1, self.p))])
        return X, np.vstack([self._explained, self._left])

    def _waiting_table(self) -> tuple[FloatArray, FloatArray]:
        if not self._waiting:
            return np.zeros((0, self.p)), np.zeros((0, self.t))
        if len(self._waiting) > 1:
            tables = zip(*self._waiting, strict=True)
            self._waiting = [(np.concatenate(next(tables)), np.concatenate(next(tables)))]
        return self._waiting[0]

    def _take_waiting(self) -> None:
        if self._waiting:
            table = self._waiting_table()
            self._waiting, self._waiting_rows = [], 0
            self._take(*table)

    def _take(self, X: FloatArray, y: FloatArray) -> None:
        """One QR of the triangle on top of the rows."""
        if self._triangle is None:
            self._triangle = np.zeros((self.p, self.p), order="F")
        with few_threads(self.p):
            triangle, reflectors, T, info = lapack.dtpqrt(
                0, min(_PANEL, self.p), self._triangle, np.array(X, order="F"),
                overwrite_a=True, overwrite_b=True,
            )  # fmt: skip
            explained, left, also = lapack.dtpmqrt(
                0, reflectors, T, np.asfortranarray(self._explained), np.array(y, order="F"), trans="T",
                overwrite_a=True, overwrite_b=True,
            )  # fmt: skip
        assert info == also == 0, "LAPACK refuses wrong shapes alone"
        self._triangle, self._explained = triangle, explained
        self._left = np.hypot(self._left, norms(left.T))


class BatchFactors:
    """The factors of all batches.

    Parameters
    ----------
    batches, p : int
    outputs : int or None
        t, or None if responses are a vector.

    >>> factors = BatchFactors(1, 1, None)
    >>> factors.add(np.full((1000, 1), 2.0), np.ones(1000), 0)
    >>> factors.compressed().X.shape, factors.counts
    ((2, 1), array([1000]))
    """

    def __init__(self, batches: int, p: int, outputs: int | None):
        self.p, self.outputs, self.sizes = p, outputs, np.zeros(p)
        self._factors = [BatchFactor(p, outputs or 1) for _ in range(batches)]

    @property
    def counts(self) -> IntArray:
        """The rows of each batch, (B,)."""
        return np.array([factor.count for factor in self._factors], dtype=np.int64)

    def add(self, X: FloatArray, y: FloatArray, batch: int) -> None:
        """Take rows X (m, p) and responses y (m,) or (m, t) into one batch."""
        np.maximum(self.sizes, np.maximum(X.max(axis=0), -X.min(axis=0)), out=self.sizes)
        self._factors[batch].add(X, y.reshape(len(X), -1))

    def add_labelled(self, X: FloatArray, y: FloatArray, labels: IntArray) -> None:
        """Take each row into the batch of its label."""
        for label in np.unique(labels).tolist():
            members = np.flatnonzero(labels == label)
            first, last = int(members[0]), int(members[-1]) + 1
            # No copy where they stand together.
            rows = slice(first, last) if last - first == len(members) else members
            self.add(X[rows], y[rows], label)

    def settle(self) -> None:
        """Let no more rows wait than represent a batch, before all this is sent elsewhere."""
        for factor in self._factors:
            factor.rows()

    def merge(self, kept: CompressedRows, *, together: bool = False) -> None:
        """Take in compressed batches: each into that of its number, or all `together` into the first one."""
        assert kept.counts is not None
        np.maximum(self.sizes, kept.column_sizes, out=self.sizes)
        y = kept.y.reshape(len(kept.X), -1)
        if together:
            self._factors[0].add(kept.X, y, count=kept.n)
            return
        for factor, members, count in zip(self._factors, kept.batches, kept.counts, strict=True):
            factor.add(kept.X[members], y[members], count=int(count))

    def compressed(self) -> CompressedRows:
        """The rows that represent all batches."""
        tables = [factor.rows() for factor in self._factors]
        y = np.concatenate([responses for _, responses in tables])
        return CompressedRows(
            X=np.concatenate([rows for rows, _ in tables]),
            y=y[:, 0].copy() if self.outputs is None else y,
            counts=self.counts,
            offsets=np.concatenate([[0], np.cumsum([len(rows) for rows, _ in tables])]).astype(np.int64),
            sizes=self.sizes.copy(),
        )
