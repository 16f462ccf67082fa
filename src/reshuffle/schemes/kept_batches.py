"""Batches of which statistics are kept in place of their rows, and schemes that visit those."""

from collections.abc import Sequence

import numpy as np

from reshuffle._core import IntArray
from reshuffle.errors import UnsupportedError
from reshuffle.problem.kept_rows import KeptRows
from reshuffle.schemes.partition import Partition


class KeptBatches(Partition):
    """The batches of a partition, by the kept rows that stand for each, and the rows that each has in the data.

    >>> kept = KeptBatches(Partition(2), [np.arange(3), np.arange(3, 6)], np.array([1000, 500]))
    >>> kept.divisors(1500), kept
    (array([1000.,  500.]), batches=2)
    """

    def __init__(self, origin: Partition, members: Sequence[IntArray], counts: IntArray):
        super().__init__(len(members), normalize=origin.normalize)
        self.origin, self._members, self._counts = origin, list(members), counts
        self.number, self.batch_size = origin.number, origin.batch_size

    @classmethod
    def of(cls, origin: Partition, kept: KeptRows) -> "KeptBatches":
        """What a partition asks for, of batches that are there already: all of them, or all rows in one batch."""
        assert kept.counts is not None
        found = len(kept.counts)
        if origin.batch_size is not None or origin.is_explicit:
            raise UnsupportedError(
                f"scheme must ask for batches={found}, as they were filled, but it asks for {origin}; "
                "a row has found its batch when it was added, and sizes are what they became."
            )
        if origin.number == 1:
            return cls(origin, [np.arange(len(kept.X), dtype=np.int64)], np.array([kept.n]))
        if origin.number != found:
            raise ValueError(
                f"batches must be {found}, the number of batches that were filled, or 1, but it is "
                f"{origin.number}; fill rs.Accumulator(batches={origin.number}) for that."
            )
        return cls(origin, kept.batches, kept.counts)

    @classmethod
    def of_groups(cls, origin: Partition, kept: KeptRows, first_rows: IntArray) -> "KeptBatches":
        """The batches of a partition, each of which is some of the groups that are kept; a row of each is given."""
        assert kept.counts is not None
        sizes, places = origin.sizes(kept.n), kept.batches
        labels = origin.groups(kept.n).at(first_rows)
        members = [
            np.concatenate([places[group] for group in np.flatnonzero(labels == batch)])
            for batch in range(len(sizes))
        ]
        return cls(origin, members, sizes)

    def __repr__(self) -> str:
        return repr(self.origin)

    def _settings(self) -> tuple[object, ...]:
        return *self.origin._settings(), tuple(self._counts.tolist())

    @property
    def is_explicit(self) -> bool:
        """Yes: no other way to cut the rows is known."""
        return True

    def members(self, n: int) -> list[IntArray]:
        """Which of the kept rows stand for each batch."""
        return list(self._members)

    def sizes(self, n: int) -> IntArray:
        """How many rows each batch has in the data, (B,)."""
        return self._counts
