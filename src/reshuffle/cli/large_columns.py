"""Columns of a csv file that is too large for its cells to be kept as text: numbers are read in chunks."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from reshuffle.cli import tables
from reshuffle.cli.complaints import InputError
from reshuffle.cli.named_columns import (
    GAPS,
    header_names,
    require_no_gaps,
    require_no_words,
    wrong_length,
)

if TYPE_CHECKING:
    from reshuffle._arrays import FloatArray, IntArray

LARGE = 200_000_000
"""Bytes of a file from which this is the way. 500 MB in 20 columns of numbers took 6.9 GB as text."""
_CHUNK = 1 << 19
"""Cells that are text at a time."""
_TAIL = 1 << 20
"""Bytes at the end of a file that tell what separates cells; more only if its last line is longer."""
_MOST_ENTRIES = 1000
"""Different words of a column that are counted."""


class _NotNumbers:
    """What is not a number in one column: gaps, and words."""

    def __init__(self) -> None:
        self.gaps: list[int] = []
        self.word: tuple[int, str] | None = None
        self._entries: set[str] = set()

    def note(self, lines: Sequence[int], cells: Sequence[str], values: Sequence[float | None]) -> None:
        """Note those of a chunk."""
        for line, cell, value in zip(lines, cells, values, strict=True):
            if value is not None and value == value:
                continue
            if cell.strip() in GAPS:
                self.gaps.append(line)
            elif value is None:
                self.word = self.word or (line, cell)
                if len(self._entries) <= _MOST_ENTRIES:
                    self._entries.add(cell)

    @property
    def entries(self) -> str:
        """How many different words there are."""
        count = len(self._entries)
        return f"{count if count <= _MOST_ENTRIES else f'{_MOST_ENTRIES}+'} different words"


@dataclass(frozen=True, eq=False)
class LargeColumns:
    """The columns of a large csv file; its cells are read from the file whenever they are wanted.

    Attributes
    ----------
    path : str
    names : list of str
        Each another.
    separator : str
        Between the cells.
    is_padded : bool
        Whether names have spaces around them in the file.
    """

    path: str
    names: list[str]
    separator: str
    is_padded: bool
    _words: dict[str, list[str]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """How many there are at most: lines but the first, of which some may be blank."""
        with open(self.path, "rb") as file:
            return sum(block.count(b"\n") for block in iter(lambda: file.read(_TAIL), b""))

    def words(self, name: str) -> list[str]:
        """The cells of a column of categories, none of them missing; equal words are one object."""
        if name not in self._words:
            place, known = self.names.index(name), dict[str, str]()
            gaps: list[int] = []
            found: list[str] = []
            for numbers, columns in self._chunks(f"reading {tables.shown(name)}"):
                for line, cell in zip(numbers, columns[place], strict=True):
                    found.append(known.setdefault(cell, cell))
                    if cell.strip() in GAPS:
                        gaps.append(line)
            require_no_gaps(self.path, name, gaps, "write a word for it in the file")
            self._words[name] = found
        return self._words[name]

    def numbers(self, names: Sequence[str]) -> tuple["FloatArray", bool]:
        """Columns of finite numbers, (rows, columns), and whether they have decimal commas.

        Whether they have is told from the first chunk.
        """
        import numpy as np

        places, read, rows = [self.names.index(name) for name in names], None, 0
        others = [_NotNumbers() for _ in names]
        # Pages that are never written to take no memory.
        made = np.empty((self.rows + 1, len(names)))
        lines: list[IntArray] = []
        for numbers, columns in self._chunks("reading rows"):
            read = read or tables.reader_of_numbers(
                self.path, [cell for place in places for cell in columns[place]]
            )
            part = made[rows : rows + len(numbers)]
            for column, place in enumerate(places):
                values = [read(cell) for cell in columns[place]]
                # None becomes nan.
                part[:, column] = values
                if np.isnan(part[:, column]).any():
                    others[column].note(numbers, columns[place], values)
            lines.append(np.array(numbers, dtype=np.int64))
            rows += len(numbers)
        if read is None:
            raise InputError(f"{self.path} has a header but no rows.")
        words = {
            name: (*other.word, other.entries)
            for name, other in zip(names, others, strict=True)
            if other.word is not None
        }
        for name, other in zip(names, others, strict=True):
            if name not in words:
                require_no_gaps(self.path, name, other.gaps, "drop or fill in such rows")
        require_no_words(self.path, words)
        for name, column in zip(names, made[:rows].T, strict=True):
            wrong = np.flatnonzero(np.isinf(column))
            if wrong.size:
                raise InputError(
                    f"{self.path}: line {np.concatenate(lines)[wrong[0]]}, column {tables.quoted(name)} must be a "
                    f"finite number, but it is {column[wrong[0]]}."
                )
        return made[:rows], bool(read("0,5"))

    def _chunks(self, doing: str) -> Iterator[tuple[list[int], list[tuple[str, ...]]]]:
        """The numbers of some lines that are not blank, and their cells column by column."""
        from reshuffle._progress import track

        height = max(1, _CHUNK // len(self.names))
        total = -(-self.rows // height)
        for chunk in track(self._pieces(height), total, doing):
            yield [line for line, _ in chunk], list(zip(*(row for _, row in chunk), strict=True))

    def _pieces(self, height: int) -> Iterator[list[tuple[int, list[str]]]]:
        with open(self.path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=self.separator)
            rows = ((reader.line_num, row) for row in reader if len(row) > 1 or (row and row[0].strip()))
            try:
                next(rows)
                while chunk := list(islice(rows, height)):
                    for line, row in chunk:
                        if len(row) != len(self.names):
                            raise wrong_length(self.path, line, len(row), len(self.names))
                    yield chunk
            except csv.Error as error:
                raise InputError(f"{self.path}, line {reader.line_num}: {error}.") from None
            except UnicodeDecodeError:
                raise InputError(f"{self.path} is not a text file in UTF-8.") from None


def is_large(path: str) -> bool:
    """Whether a file is read in chunks."""
    return Path(path).suffix.lower() == ".csv" and Path(path).stat().st_size > LARGE


def read(path: str) -> LargeColumns:
    """The columns of a csv file that has a header; nothing but that is read."""
    separator = tables.separator_of(_last_line(path))
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=separator)
            header = next((row for row in reader if len(row) > 1 or (row and row[0].strip())), None)
    except csv.Error as error:
        raise InputError(f"{path}, line 1: {error}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8.") from None
    if header is None:
        raise InputError(f"{path} is empty.")
    names = header_names(path, header, separator)
    return LargeColumns(path, names, separator, names != header)


def _last_line(path: str) -> str:
    """The last line that is not blank."""
    with open(path, "rb") as file:
        size, wanted = file.seek(0, 2), _TAIL
        while True:
            file.seek(max(0, size - wanted))
            # A sign that is cut through at the front is in none of the last line, unless that is longer.
            tail = file.read().decode("utf-8", errors="replace").rstrip()
            if "\n" in tail or wanted >= size:
                return tail.rpartition("\n")[2]
            wanted *= 2
