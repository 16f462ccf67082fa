"""Columns of a csv or parquet file by name, whether they hold numbers, words, or gaps."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reshuffle.cli import tables
from reshuffle.cli.complaints import InputError
from reshuffle.cli.tables import quoted, shown

if TYPE_CHECKING:
    from reshuffle._arrays import FloatArray

GAPS = {"", "#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
"""What stands for a missing value: what pandas reads as one, so that the code we give reads files as we do."""
_LONGEST_ARGUMENT = 200
_OTHERS = 8
"""Columns that a message names beside the first."""


@dataclass(frozen=True, eq=False)
class NamedColumns:
    """The cells of a file as text, column by column.

    Attributes
    ----------
    path : str
    names : list of str
        Each another.
    cells : list of lists of str
    lines : list of int
        Where each row stands in the file, counted from 1; of a parquet file, its number.
    separator : str
        Between the cells of a csv file.
    is_padded : bool
        Whether names have spaces around them in the file.
    """

    path: str
    names: list[str]
    cells: list[list[str]]
    lines: list[int]
    separator: str = ","
    is_padded: bool = False

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self.lines)

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        return self.cells[self.names.index(name)]

    def words(self, name: str) -> list[str]:
        """The cells of a column of categories, none of them missing."""
        found = self.column(name)
        require_no_gaps(self.path, name, self._gaps(found), "write a word for it in the file")
        return found

    def numbers(self, names: Sequence[str]) -> tuple["FloatArray", bool]:
        """Columns of finite numbers, (rows, columns), and whether they have decimal commas."""
        import numpy as np

        read = tables.reader_of_numbers(self.path, [cell for name in names for cell in self.column(name)])
        made = np.empty((self.rows, len(names)))
        in_words: dict[str, tuple[int, str, str]] = {}
        for place, name in enumerate(names):
            cells = self.column(name)
            values = [read(cell) for cell in cells]
            word = next(
                (
                    (line, cell)
                    for value, line, cell in zip(values, self.lines, cells, strict=True)
                    if value is None and cell.strip() not in GAPS
                ),
                None,
            )
            if word is not None:
                in_words[name] = (*word, f"{len(set(cells))} different entries")
                continue
            require_no_gaps(self.path, name, self._gaps(cells), "drop or fill in such rows")
            made[:, place] = values
        require_no_words(self.path, in_words)
        for place, name in enumerate(names):
            wrong = np.flatnonzero(~np.isfinite(made[:, place]))
            if wrong.size:
                raise InputError(
                    f"{self.path}: line {self.lines[wrong[0]]}, column {quoted(name)} must be a finite number, "
                    f"but it is {shown(self.column(name)[wrong[0]].strip())}."
                )
        return made, bool(read("0,5"))

    def _gaps(self, cells: Sequence[str]) -> list[int]:
        """The lines in which they are missing."""
        return [line for line, cell in zip(self.lines, cells, strict=True) if cell.strip() in GAPS]


def read(path: str) -> NamedColumns:
    """Read a csv file that has a header, or a parquet file."""
    kind = Path(path).suffix.lower()
    if kind not in (".csv", ".parquet"):
        raise InputError(
            f"{path}: advice is for tables with names of columns, .csv or .parquet, but this one ends in {kind!r}."
        )
    found = _of_csv(path) if kind == ".csv" else _of_parquet(path)
    tables.require_distinct(path, found.names)
    return found


def as_argument(name: str) -> str:
    """A name as it is typed in a shell.

    >>> print(as_argument("price"), as_argument("last year"))
    price 'last year'
    """
    return shlex.quote(name) if len(name) <= _LONGEST_ARGUMENT else f"{shlex.quote(name[:40])}..."


def _of_csv(path: str) -> NamedColumns:
    lines, separator = tables.csv_lines(path)
    header, body = lines[0][1], lines[1:]
    names = header_names(path, header, separator)
    if not body:
        raise InputError(f"{path} has a header but no rows.")
    for place, row in body:
        if len(row) != len(header):
            raise wrong_length(path, place, len(row), len(header))
    cells = [list(column) for column in zip(*(row for _, row in body), strict=True)]
    return NamedColumns(path, names, cells, [place for place, _ in body], separator, names != header)


def _of_parquet(path: str) -> NamedColumns:
    table = tables.parquet_table(path)
    if not table.num_rows:
        raise InputError(f"{path} has no rows.")
    cells = [
        ["" if value is None else str(value) for value in column.to_pylist()] for column in table.columns
    ]
    return NamedColumns(path, list(table.column_names), cells, list(range(1, table.num_rows + 1)))


def require_no_gaps(path: str, name: str, lines: Sequence[int], advice: str) -> None:
    """Refuse a column in which values are missing, in these lines."""
    if lines:
        raise InputError(
            f"{path}: column {quoted(name)} has {len(lines)} missing value{'s' * (len(lines) > 1)}, the first "
            f"in line {lines[0]}; {advice}, or leave the column out with --drop {as_argument(name)}."
        )


def require_no_words(path: str, found: dict[str, tuple[int, str, str]]) -> None:
    """Refuse columns that hold words, by name: the line of a word, the word, and how many there are."""
    if not found:
        return
    (first, (line, cell, count)), *rest = found.items()
    others = [f"{shown(name)} ({number.split()[0]})" for name, (_, _, number) in rest[:_OTHERS]]
    also = f" (as in {', '.join(others)})" if others else ""
    raise InputError(
        f"{path}: line {line}, column {quoted(first)} must be a number, but it is {quoted(cell)}, "
        f"one of {count}{also}; encode categories with --one-hot {as_argument(first)}, or leave "
        f"the column out with --drop {as_argument(first)}."
    )


def header_names(path: str, header: Sequence[str], separator: str) -> list[str]:
    """The names in the first line of a file, which must not be numbers."""
    number = tables.reader_of_numbers(path, [])
    if all(number(cell) is not None for cell in header):
        raise InputError(
            f"{path} must name its columns in its first line, which is {separator.join(header)[:60]!r}; "
            "write such a line above it."
        )
    return [cell.strip() for cell in header]


def wrong_length(path: str, line: int, cells: int, columns: int) -> InputError:
    """What is said of a line that has too few or too many cells."""
    return InputError(
        f"{path}: line {line} has {cells} cells, but the first line has {columns}; "
        "entries with commas in them need quotes."
    )
