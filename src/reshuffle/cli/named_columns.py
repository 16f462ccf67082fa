"""Columns of a csv or parquet file by name, whether they hold numbers, words, or gaps."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reshuffle.cli import tables
from reshuffle.cli.complaints import InputError
from reshuffle.cli.tables import shown

if TYPE_CHECKING:
    from reshuffle._core import FloatArray

_GAPS = {"", "#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
"""What stands for a missing value: what pandas reads as one, so that the code we give reads files as we do."""
_LONGEST_LIST = 8


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
        _require_no_gaps(self, name, found, "write a word for it in the file")
        return found

    def numbers(self, names: Sequence[str]) -> tuple["FloatArray", bool]:
        """Columns of finite numbers, (rows, columns), and whether they have decimal commas."""
        import numpy as np

        read = tables.reader_of_numbers(self.path, [cell for name in names for cell in self.column(name)])
        made, in_words = np.empty((self.rows, len(names))), []
        for place, name in enumerate(names):
            cells = self.column(name)
            values = [read(cell) for cell in cells]
            if any(
                value is None and cell.strip() not in _GAPS for value, cell in zip(values, cells, strict=True)
            ):
                in_words.append(name)
                continue
            _require_no_gaps(self, name, cells, "drop or fill in such rows")
            made[:, place] = values
        _require_no_words(self, in_words, read)
        for place, name in enumerate(names):
            wrong = np.flatnonzero(~np.isfinite(made[:, place]))
            if wrong.size:
                raise InputError(
                    f"{self.path}: line {self.lines[wrong[0]]}, column {name!r} must be a finite number, "
                    f"but it is {self.column(name)[wrong[0]].strip()}."
                )
        return made, bool(read("0,5"))


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


def listed(names: Sequence[str]) -> str:
    """Names for people, the first few of many.

    >>> listed(["a", "", "c"])
    "a, '', c"
    """
    more = [f"... ({len(names)} of them)"] * (len(names) > _LONGEST_LIST)
    return ", ".join([*(shown(name) for name in names[:_LONGEST_LIST]), *more])


def as_argument(name: str) -> str:
    """A name as it is typed in a shell.

    >>> print(as_argument("price"), as_argument("last year"))
    price 'last year'
    """
    return shlex.quote(name)


def _of_csv(path: str) -> NamedColumns:
    lines, separator = tables.csv_lines(path)
    header, body = lines[0][1], lines[1:]
    number = tables.reader_of_numbers(path, [])
    if all(number(cell) is not None for cell in header):
        raise InputError(
            f"{path} must name its columns in its first line, which is {separator.join(header)[:60]!r}; "
            "write such a line above it."
        )
    if not body:
        raise InputError(f"{path} has a header but no rows.")
    for place, row in body:
        if len(row) != len(header):
            raise InputError(
                f"{path}: line {place} has {len(row)} cells, but the first line has {len(header)}; "
                "entries with commas in them need quotes."
            )
    names = [cell.strip() for cell in header]
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


def _require_no_gaps(table: NamedColumns, name: str, cells: Sequence[str], advice: str) -> None:
    gaps = [line for line, cell in zip(table.lines, cells, strict=True) if cell.strip() in _GAPS]
    if gaps:
        raise InputError(
            f"{table.path}: column {name!r} has {len(gaps)} missing value{'s' * (len(gaps) > 1)}, the first in "
            f"line {gaps[0]}; {advice}, or leave the column out with --drop {as_argument(name)}."
        )


def _require_no_words(
    table: NamedColumns, names: Sequence[str], number: Callable[[str], float | None]
) -> None:
    """Refuse columns that hold words, by name."""
    if not names:
        return
    first = names[0]
    line, cell = next(
        (line, cell)
        for line, cell in zip(table.lines, table.column(first), strict=True)
        if number(cell) is None and cell.strip() not in _GAPS
    )
    counts = {name: len(set(table.column(name))) for name in names}
    others = [f"{shown(name)} ({counts[name]})" for name in names[1 : _LONGEST_LIST + 1]]
    also = f" (as in {', '.join(others)})" if others else ""
    raise InputError(
        f"{table.path}: line {line}, column {first!r} must be a number, but it is {cell!r}, one of {counts[first]} "
        f"different entries{also}; encode categories with --one-hot {as_argument(first)}, or leave the column out "
        f"with --drop {as_argument(first)}."
    )
