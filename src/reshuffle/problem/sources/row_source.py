"""What a source of rows is: some columns of numbers, read in chunks from the first row to the last."""

import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle._arrays import AnyArray, FloatArray

CHUNK = 1 << 21
"""Entries that are read at a time."""
_SHOWN = 10
"""Names of columns in a message."""


class RowSource(ABC):
    """Rows (n, columns), or n numbers where `columns` is None."""

    rows: int
    columns: int | None
    names: list[str] | None = None
    """Of the columns, if they have any."""

    @abstractmethod
    def chunks(self) -> Iterator[AnyArray]:
        """The rows in their order, some at a time."""

    @property
    def height(self) -> int:
        """Rows that are read at a time."""
        return max(1, CHUNK // (self.columns or 1))

    @property
    def bytes(self) -> float:
        """What all rows take as float64."""
        return 8.0 * self.rows * (self.columns or 1)


@dataclass(eq=False)
class ArrayRows(RowSource):
    """An array, in memory or mapped to a file, whose pages are read when they are asked for."""

    array: AnyArray

    def __post_init__(self) -> None:
        self.rows = len(self.array)
        self.columns = None if self.array.ndim == 1 else self.array.shape[1]

    def chunks(self) -> Iterator[AnyArray]:
        """Views of the array, each until the next is asked for."""
        for start in range(0, self.rows, self.height):
            yield self.array[start : start + self.height]
            _let_go(self.array)


def _let_go(array: AnyArray) -> None:
    """Give back the memory of the pages of a mapped file that have been read; else all of it would fill up."""
    # What was written to a private copy of the pages would be lost with them.
    if not isinstance(array, np.memmap) or array.mode == "c":
        return
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)


class Reader:
    """Takes the rows of chunks in pieces of any height.

    >>> reader = Reader(iter([np.arange(3), np.arange(3, 5)]))
    >>> reader.take(2).tolist(), reader.take(3).tolist()
    ([0, 1], [2, 3, 4])
    """

    def __init__(self, chunks: Iterator[AnyArray]):
        self._chunks, self._left = chunks, next(chunks)

    def take(self, height: int) -> AnyArray:
        """The next rows."""
        parts: list[AnyArray] = []
        while height:
            if not len(self._left):
                following = next(self._chunks, None)
                if following is None:
                    raise ValueError("y must keep as many rows as it had, but it has become shorter since.")
                self._left = following
            parts.append(self._left[:height])
            self._left = self._left[height:]
            height -= len(parts[-1])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def as_numbers(name: str, chunk: AnyArray, start: int) -> FloatArray:
    """A chunk as float64, without a copy where it is that already, if all of it is finite.

    >>> as_numbers("X", np.array([[1.0], [np.nan]]), 500)
    Traceback (most recent call last):
    ...
    ValueError: X must be finite, but X[501, 0] is nan; drop or impute such rows first.
    """
    if chunk.dtype.kind not in "biuf":
        raise TypeError(f"{name} must hold real numbers, but its dtype is {chunk.dtype} from row {start} on.")
    array = np.asarray(chunk, dtype=np.float64)
    if array.size and not (np.isfinite(array.min()) and np.isfinite(array.max())):
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        index = ", ".join(map(str, (start + where[0], *where[1:])))
        raise ValueError(
            f"{name} must be finite, but {name}[{index}] is {array[where]}; drop or impute such rows first."
        )
    return array


def response_columns(y: Any, names: Sequence[str]) -> list[str] | None:
    """The columns of a table that y names: one, or a list of several; None if it is no name.

    >>> response_columns("price", ["rooms", "price"])
    ['price']
    >>> response_columns("cost", ["rooms", "price"])
    Traceback (most recent call last):
    ...
    ValueError: y must name a column of X, but 'cost' is none of them: 'rooms', 'price'.
    """
    chosen = [y] if isinstance(y, str) else y
    if not (isinstance(chosen, list | tuple) and chosen and all(isinstance(each, str) for each in chosen)):
        return None
    missing = [name for name in chosen if name not in names]
    if missing:
        shown = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
        raise ValueError(f"y must name a column of X, but {missing[0]!r} is none of them: {shown}.")
    return list(chosen)
