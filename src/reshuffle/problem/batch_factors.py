"""Triangular factors of the batches of data that come in pieces, and that are never there as a whole.

A batch is kept as R (p, p), what Q' makes of its responses, and the norm of what is left of them; a new piece of it
is taken in by LAPACK's QR of a triangle on top of rows (dtpqrt), which costs no more than a QR of the piece alone.
Never as X'X: that would square the condition number of X.
"""

import math

import numpy as np
from scipy.linalg import lapack

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._blas import few_threads
from reshuffle._linalg import norms
from reshuffle.problem.blocks import KeptRows

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
