"""Partitions of the rows into batches, of rows at hand or of compressed ones."""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle.errors import UnsupportedError
from reshuffle.problem.batches import RowGroups
from reshuffle.problem.row_space import CompressedRows

Batches: TypeAlias = int | Iterable[ArrayLike] | None
"""B, or the rows of each batch."""

_NORMALIZATIONS = ("own", "equal")


@dataclass(eq=False, repr=False)
class Partition:
    """A division of rows 0 .. n-1 into batches, and what the sum of each batch's gradients is divided by.

    Parameters
    ----------
    batches : int or list of index arrays
        B, for contiguous blocks of which the first n mod B have one row more than the others; or the rows of
        each batch.
    batch_size : int
        Instead of `batches`: contiguous blocks of this many rows, as torch's DataLoader cuts them. Unless it
        divides n the last block is shorter; with fewer rows than that there is one block.
    drop_last : bool
        With `batch_size`: leave that shorter block out. Of a fixed partition its rows are never visited.
    normalize : "own" or "equal"
        "own": a batch's gradient is the mean over its own rows, as in torch and scikit-learn. "equal": the sum is
        divided by the mean length of the batches (n / B where no row is left out): every row weighs the same.

    >>> [block.tolist() for block in Partition(2).members(5)]
    [[0, 1, 2], [3, 4]]
    >>> [block.tolist() for block in Partition(batch_size=2).members(5)]
    [[0, 1], [2, 3], [4]]
    >>> Partition(batch_size=2, normalize="equal").divisors(5).round(3)
    array([1.667, 1.667, 1.667])
    >>> Partition([[0, 2], [1]]).members(4)
    Traceback (most recent call last):
    ...
    ValueError: batches must cover every row of 0..3 exactly once, but row 3 is in none of them.
    """

    batches: Batches = None
    _: KW_ONLY
    batch_size: int | None = None
    drop_last: bool = False
    normalize: str = "own"

    def __post_init__(self) -> None:
        self.number: int | None = None
        self._explicit: list[IntArray] | None = None
        if self.batch_size is not None:
            if self.batches is not None:
                raise TypeError(
                    "exactly one of batches and batch_size must be given, "
                    f"but batches is {self.batches!r} and batch_size is {self.batch_size!r}."
                )
            self.batch_size = _arrays.whole_number("batch_size", self.batch_size, 1)
        elif isinstance(self.batches, Iterable) and not isinstance(self.batches, str):
            self.batches = self._explicit = _index_arrays(self.batches)
            self.number = len(self._explicit)
        else:
            hint = "Or give batch_size." if self.batches is None else ""
            self.number = _arrays.whole_number("batches", self.batches, 1, hint=hint)
        self.drop_last = _arrays.flag("drop_last", self.drop_last)
        if self.drop_last and self.batch_size is None:
            raise ValueError(
                "drop_last must come with batch_size, since a given number of batches has no shorter last one, "
                "but batch_size is None."
            )
        self.normalize = _arrays.choice("normalize", self.normalize, _NORMALIZATIONS)

    def __repr__(self) -> str:
        words = ["an explicit partition"] if self._explicit is not None else []
        words.append(f"batches={self.number}" if self.batch_size is None else f"batch_size={self.batch_size}")
        words += ["drop_last=True"] if self.drop_last else []
        words += [f"normalize={self.normalize!r}"] if self.normalize != "own" else []
        return ", ".join(words)

    @property
    def settings(self) -> tuple[object, ...]:
        """Equal for equal partitions alone."""
        rows = None if self._explicit is None else tuple(tuple(part.tolist()) for part in self._explicit)
        return self.number, self.batch_size, rows, self.drop_last, self.normalize

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and self.settings == other.settings

    def __hash__(self) -> int:
        return hash(self.settings)

    @property
    def is_explicit(self) -> bool:
        """True if the rows of each batch were given."""
        return self._explicit is not None

    def with_batch_size(self, batch_size: int) -> "Partition":
        """Blocks of this many rows, with the same `drop_last` and `normalize`."""
        return Partition(batch_size=batch_size, drop_last=self.drop_last, normalize=self.normalize)

    def members(self, n: int) -> list[IntArray]:
        """The row indices of each batch, for n rows."""
        if self._explicit is not None:
            everything = np.concatenate(self._explicit)
            low, high = int(everything.min()), int(everything.max())
            if low < 0 or high >= n:
                raise ValueError(
                    f"batches must hold row indices in 0..{n - 1}, but one is {low if low < 0 else high}."
                )
            visits = np.bincount(everything, minlength=n)
            if (visits != 1).any():
                row = int(np.flatnonzero(visits != 1)[0])
                found = "none of them" if visits[row] == 0 else f"{visits[row]} places"
                raise ValueError(
                    f"batches must cover every row of 0..{n - 1} exactly once, but row {row} is in {found}."
                )
            return list(self._explicit)
        return np.split(np.arange(n, dtype=np.int64)[: self.sizes(n).sum()], np.cumsum(self.sizes(n))[:-1])

    def sizes(self, n: int) -> IntArray:
        """The rows of each batch, (B,)."""
        if self._explicit is not None:
            return np.array([len(part) for part in self._explicit], dtype=np.int64)
        if self.batch_size is not None:
            if self.batch_size > n and self.drop_last:
                raise ValueError(
                    f"batch_size must be a whole number between 1 and {n}, the number of rows, but it is "
                    f"{self.batch_size}, and drop_last leaves nothing."
                )
            whole, rest = divmod(n, self.batch_size)
            last = [rest] * (rest > 0 and not self.drop_last)
            return np.array([self.batch_size] * whole + last, dtype=np.int64)
        assert self.number is not None
        if self.number > n:
            raise ValueError(
                f"batches must be a whole number between 1 and {n}, the number of rows, "
                f"but it is {self.number}."
            )
        return (n + np.arange(self.number, dtype=np.int64)[::-1]) // self.number

    def groups(self, n: int) -> RowGroups:
        """The batch of each of n rows; rows that are never visited are one more group, the last."""
        if self._explicit is not None:
            labels = np.empty(n, dtype=np.int64)
            for number, members in enumerate(self.members(n)):
                labels[members] = number
            return RowGroups.labelled(labels)
        ends = np.cumsum(self.sizes(n))
        return RowGroups(ends if ends[-1] == n else np.append(ends, n))

    def divisors(self, n: int) -> FloatArray:
        """The divisors of the sum of the gradients of each batch's rows, (B,)."""
        sizes = self.sizes(n).astype(np.float64)
        return sizes if self.normalize == "own" else np.full(len(sizes), sizes.mean())


def _index_arrays(batches: Iterable[Any]) -> list[IntArray]:
    try:
        parts = [_arrays.any_array(f"batches[{number}]", part) for number, part in enumerate(batches)]
    except (TypeError, ValueError):
        raise TypeError(
            f"batches must be a whole number >= 1 or a list of index arrays, but it is {batches!r}."
        ) from None
    if not parts:
        raise ValueError("batches must hold at least one index array, but the list is empty.")
    for number, part in enumerate(parts):
        if part.ndim != 1 or part.size == 0 or part.dtype.kind not in "iu":
            raise ValueError(
                f"batches[{number}] must be a one-dimensional, non-empty array of row indices, "
                f"but it has shape {part.shape} and dtype {part.dtype}."
            )
        if part.max() > np.iinfo(np.int64).max:
            raise ValueError(f"batches[{number}] must hold row indices, but one is {part.max()}.")
    return [part.astype(np.int64) for part in parts]


class CompressedBatches(Partition):
    """The batches of a partition, by the kept rows that represent each, and the rows that each has in the data.

    Without `first_rows` the batches are there already: a partition asks for all of them, or for all rows in one
    batch. With them every batch is some of the groups that are kept, and `first_rows` has a row of each group.
    """

    def __init__(self, origin: Partition, kept: CompressedRows, first_rows: IntArray | None = None):
        members, counts = self._found(origin, kept) if first_rows is None else ([], origin.sizes(kept.n))
        if first_rows is not None:
            labels, places = origin.groups(kept.n).at(first_rows), kept.batches
            for batch in range(len(counts)):
                members.append(np.concatenate([places[group] for group in np.flatnonzero(labels == batch)]))
        super().__init__(len(members), normalize=origin.normalize)
        self.origin, self._members, self._counts = origin, members, counts
        self.number, self.batch_size = origin.number, origin.batch_size

    @staticmethod
    def _found(origin: Partition, kept: CompressedRows) -> tuple[list[IntArray], IntArray]:
        assert kept.counts is not None
        found = len(kept.counts)
        if origin.batch_size is not None or origin.is_explicit:
            raise UnsupportedError(
                f"scheme must ask for batches={found}, as they were filled, but it asks for {origin}; "
                "a row has found its batch when it was added, and sizes are what they became."
            )
        if origin.number == 1:
            return [np.arange(len(kept.X), dtype=np.int64)], np.array([kept.n])
        if origin.number != found:
            raise ValueError(
                f"batches must be {found}, the number of batches that were filled, or 1, but it is "
                f"{origin.number}; fill rs.Accumulator(batches={origin.number}) for that."
            )
        return kept.batches, kept.counts

    def __repr__(self) -> str:
        return repr(self.origin)

    @property
    def settings(self) -> tuple[object, ...]:
        return *self.origin.settings, tuple(self._counts.tolist())

    @property
    def is_explicit(self) -> bool:
        return True

    def members(self, n: int) -> list[IntArray]:
        return list(self._members)

    def sizes(self, n: int) -> IntArray:
        return self._counts
