"""Which batch each row of a stream belongs to, without a number per row where batches are contiguous."""

from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import IntArray


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
