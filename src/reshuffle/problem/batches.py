"""Statistics of batches: the rows that stand for them, and how they are gathered from data that come in pieces.

An orthogonal change of the rows of a batch keeps X_b'X_b, X_b'y_b and y_b'y_b, which is all that a batch does to
the parameters. So a triangular factor of p + 1 rows stands for a batch of any number of them. Where rows come in
pieces a batch is kept as R (p, p), Q' times its responses, and the norm of what is left of them; a new piece is
taken in by LAPACK's QR of a triangle on top of rows (dtpqrt), which costs no more than a QR of the piece alone.
Never as X'X: that would square the condition number of X.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import lapack

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._blas import few_threads
from reshuffle._linalg import norms
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
class RowGroups:
    """Rows 0 .. n-1 in groups: contiguous ones that end at `ends` (G,), or as `labels` (n,) say.

    >>> RowGroups(np.array([2, 5])).of(1, 4)
    array([0, 1, 1])
    """

    ends: IntArray
    labels: IntArray | None = None

    @property
    def key(self) -> tuple[bytes, ...]:
        """What tells these groups from others."""
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


_PANEL = 32
"""Columns that LAPACK works on at a time."""
_FEW_ROWS = 256
"""Rows that wait for others: a QR of a single row costs as much as one of some dozens."""
_MANY_ROWS = 4096
"""Rows that are taken in at a time: more would not stay in the cache."""
_ORDINARY = 300
"""Powers of two up to which, and down to whose inverse, entries are taken in as they are."""


class BatchFactor:
    """The rows of one batch, of p features and t responses, as their factor and a few rows that wait for others."""

    def __init__(self, p: int, t: int):
        self.p, self.t, self.count = p, t, 0
        self._triangle: FloatArray | None = None
        self._explained = np.zeros((p, t))
        self._left = np.zeros(t)
        self._exponents = np.zeros(2, dtype=np.int64)
        self._waiting: list[tuple[FloatArray, FloatArray]] = []
        self._waiting_rows = 0

    def add(self, X: FloatArray, y: FloatArray, count: int | None = None) -> None:
        """Take in rows (m, p) and responses (m, t), which stand for `count` rows of the data, by default m."""
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
        """Rows (k, p) and responses (k, t) that stand for the batch: its own if they are few, else p + 1 others."""
        if self._triangle is None and self._waiting_rows <= self.p + 1:
            return self._waiting_table()
        self._take_waiting()
        assert self._triangle is not None
        features, responses = (int(exponent) for exponent in self._exponents)
        X = np.vstack([np.triu(self._triangle), np.zeros((1, self.p))])
        return np.ldexp(X, features), np.ldexp(np.vstack([self._explained, self._left]), responses)

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
        self._make_room(X, y)
        features, responses = (int(exponent) for exponent in self._exponents)
        rows = np.array(X if features == 0 else np.ldexp(X, -features), order="F")
        columns = np.array(y if responses == 0 else np.ldexp(y, -responses), order="F")
        with few_threads(self.p):
            triangle, reflectors, T, info = lapack.dtpqrt(
                0, min(_PANEL, self.p), self._triangle, rows, overwrite_a=True, overwrite_b=True
            )
            explained, left, also = lapack.dtpmqrt(
                0, reflectors, T, np.asfortranarray(self._explained), columns, trans="T",
                overwrite_a=True, overwrite_b=True,
            )  # fmt: skip
        assert info == also == 0, "LAPACK refuses wrong shapes alone"
        self._triangle, self._explained = triangle, explained
        self._left = np.hypot(self._left, norms(left.T))

    def _make_room(self, X: FloatArray, y: FloatArray) -> None:
        """Choose units, powers of two, in which neither what is there nor what comes is beyond squaring."""
        assert self._triangle is not None
        for place, (new, old) in enumerate(
            ((X, [self._triangle]), (y, [self._explained, self._left])),
        ):
            unit = int(self._exponents[place])
            there = max(float(np.abs(part).max(initial=0.0)) for part in old)
            # Beyond the range of numbers only until it is divided by the new unit.
            wanted = max(_exponent(there) + unit if there else _LOWEST, _exponent(_largest(new)))
            wanted = 0 if -_ORDINARY < wanted < _ORDINARY else wanted
            if wanted in (unit, _LOWEST):
                continue
            for part in old:
                np.ldexp(part, unit - wanted, out=part)
            self._exponents[place] = wanted


_LOWEST = -(1 << 20)
"""The exponent of nothing."""


def _largest(values: FloatArray) -> float:
    return max(float(values.max()), -float(values.min()))


def _exponent(largest: float) -> int:
    return math.frexp(largest)[1] if largest else _LOWEST


class BatchFactors:
    """The factors of all batches.

    Parameters
    ----------
    batches, p : int
    outputs : int or None
        t, or None if responses are a vector.

    >>> factors = BatchFactors(1, 1, None)
    >>> factors.add(np.full((1000, 1), 2.0), np.ones(1000), 0)
    >>> factors.kept().X.shape, factors.counts
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
        for batch, members in groups(labels):
            self.add(X[members], y[members], batch)

    def settle(self) -> None:
        """Let no more rows wait than stand for a batch, before all this is sent elsewhere."""
        for factor in self._factors:
            factor.rows()

    def merge(self, other: "BatchFactors") -> None:
        """Take in what others have, batch by batch."""
        np.maximum(self.sizes, other.sizes, out=self.sizes)
        for mine, theirs in zip(self._factors, other._factors, strict=True):
            mine.add(*theirs.rows(), count=theirs.count)

    def merge_kept(self, kept: KeptRows) -> None:
        """Take in what was kept of batches."""
        assert kept.counts is not None
        np.maximum(self.sizes, kept.column_sizes, out=self.sizes)
        y = kept.y.reshape(len(kept.X), -1)
        for number, members in enumerate(kept.batches):
            self._factors[number].add(kept.X[members], y[members], count=int(kept.counts[number]))

    def merge_together(self, kept: KeptRows) -> None:
        """Take all that was kept of several batches into the first one."""
        np.maximum(self.sizes, kept.column_sizes, out=self.sizes)
        self._factors[0].add(kept.X, kept.y.reshape(len(kept.X), -1), count=kept.n)

    def kept(self) -> KeptRows:
        """What stands for the rows of all batches."""
        tables = [factor.rows() for factor in self._factors]
        y = np.concatenate([responses for _, responses in tables])
        return KeptRows(
            X=np.concatenate([rows for rows, _ in tables]),
            y=y[:, 0].copy() if self.outputs is None else y,
            counts=self.counts,
            offsets=np.concatenate([[0], np.cumsum([len(rows) for rows, _ in tables])]).astype(np.int64),
            sizes=self.sizes.copy(),
        )


def groups(labels: IntArray) -> list[tuple[int, slice | IntArray]]:
    """The rows of each label that occurs: a slice where they stand together, without a copy.

    >>> groups(np.array([1, 1, 0]))
    [(0, slice(2, 3, None)), (1, slice(0, 2, None))]
    """
    found: list[tuple[int, slice | IntArray]] = []
    for label in np.unique(labels).tolist():
        members = np.flatnonzero(labels == label)
        first, last = int(members[0]), int(members[-1])
        found.append((label, slice(first, last + 1) if last - first + 1 == len(members) else members))
    return found
