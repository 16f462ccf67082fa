"""How the rows are divided into batches."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from reshuffle import validate
from reshuffle.arrays import IntArray


class Partition:
    """A division of rows 0 .. n-1 into B batches: a number of contiguous blocks, or explicit row indices.

    Blocks need not be equal. When B does not divide n the first n mod B blocks have one row more, and in
    every case a batch's gradient is the mean over its own rows.

    >>> [block.tolist() for block in Partition(2).members(5)]
    [[0, 1, 2], [3, 4]]
    >>> Partition([[0, 2], [1]]).members(4)
    Traceback (most recent call last):
    ...
    ValueError: batches must cover every row of 0..3 exactly once, but row 3 is in none of them.
    """

    def __init__(self, batches: Any):
        self._explicit: list[IntArray] | None = None
        if isinstance(batches, Iterable) and not isinstance(batches, str):
            self._explicit = _index_arrays(batches)
            self.batches = len(self._explicit)
        else:
            self.batches = validate.whole_number("batches", batches, 1)

    @property
    def is_explicit(self) -> bool:
        """Whether the rows of each batch were given."""
        return self._explicit is not None

    def members(self, n: int) -> list[IntArray]:
        """The row indices of each batch, for n rows."""
        if self._explicit is not None:
            _require_cover(self._explicit, n)
            return list(self._explicit)
        if self.batches > n:
            raise ValueError(
                f"batches must be a whole number between 1 and {n}, the number of rows, "
                f"but it is {self.batches}."
            )
        return [part.astype(np.int64) for part in np.array_split(np.arange(n), self.batches)]


def _index_arrays(batches: Iterable[Any]) -> list[IntArray]:
    try:
        parts = [np.asarray(part) for part in batches]
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


def _require_cover(parts: list[IntArray], n: int) -> None:
    everything = np.concatenate(parts)
    low, high = int(everything.min()), int(everything.max())
    if low < 0 or high >= n:
        raise ValueError(
            f"batches must hold row indices in 0..{n - 1}, but one is {low if low < 0 else high}."
        )
    visits = np.bincount(everything, minlength=n)
    if (visits == 1).all():
        return
    row = int(np.flatnonzero(visits != 1)[0])
    found = "none of them" if visits[row] == 0 else f"{visits[row]} places"
    raise ValueError(f"batches must cover every row of 0..{n - 1} exactly once, but row {row} is in {found}.")
