"""Groups of rows, and the factors of batches whose rows come in pieces."""

from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.problem.row_space import BatchFactor, CompressedRows


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Rows 0 .. n-1 in groups: contiguous ones that end at `ends` (G,), or by their `labels` (n,).

    >>> RowGroups(np.array([2, 5])).at(np.arange(1, 4))
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
        rows = np.arange(self.ends[-1])
        both = np.stack([self.at(rows), other.at(rows)])
        return RowGroups.labelled(np.unique(both, axis=1, return_inverse=True)[1].ravel())


class BatchFactors:
    """The factors of all batches, of p features and t outputs.

    >>> factors = BatchFactors(1, 1, 1)
    >>> factors.add(np.full((1000, 1), 2.0), np.ones((1000, 1)), 0)
    >>> factors.compressed().X.shape, factors.counts
    ((2, 1), array([1000]))
    """

    def __init__(self, batches: int, p: int, t: int):
        self.p, self.t, self.sizes = p, t, np.zeros(p)
        self._factors = [BatchFactor(p, t) for _ in range(batches)]

    @property
    def counts(self) -> IntArray:
        """The rows of each batch, (B,)."""
        return np.array([factor.count for factor in self._factors], dtype=np.int64)

    def add(self, X: FloatArray, y: FloatArray, batch: int) -> None:
        """Add rows X (m, p) and responses y (m, t) to one batch."""
        np.maximum(self.sizes, np.maximum(X.max(axis=0), -X.min(axis=0)), out=self.sizes)
        self._factors[batch].add(X, y)

    def add_labelled(self, X: FloatArray, y: FloatArray, labels: IntArray) -> None:
        """Add each row to the batch of its label."""
        for label in np.unique(labels).tolist():
            members = np.flatnonzero(labels == label)
            first, last = int(members[0]), int(members[-1]) + 1
            # No copy where they are contiguous.
            rows = slice(first, last) if last - first == len(members) else members
            self.add(X[rows], y[rows], label)

    def compacted(self) -> "BatchFactors":
        """These factors with no more rows than represent each batch, before they are sent elsewhere."""
        for factor in self._factors:
            factor.rows()
        return self

    def merge(self, kept: CompressedRows, *, together: bool = False) -> None:
        """Add compressed batches: each to that of its number, or all `together` to the first one."""
        assert kept.counts is not None
        np.maximum(self.sizes, kept.column_sizes, out=self.sizes)
        if together:
            self._factors[0].add(kept.X, kept.y, count=kept.n)
            return
        for factor, members, count in zip(self._factors, kept.batches, kept.counts, strict=True):
            factor.add(kept.X[members], kept.y[members], count=int(count))

    def compressed(self) -> CompressedRows:
        """The rows that represent all batches."""
        features, responses = zip(*(factor.rows() for factor in self._factors), strict=True)
        offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in features])]).astype(np.intp)
        X, y = np.concatenate(features), np.concatenate(responses)
        return CompressedRows(X, y, self.counts, offsets, self.sizes.copy())
