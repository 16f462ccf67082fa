"""Tables of numbers from csv, parquet and npy files, with the names of their columns if they have any."""

import csv
import io
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshuffle.cli.complaints import InputError, warn

if TYPE_CHECKING:
    from reshuffle._arrays import FloatArray

KINDS = (".npy", ".csv", ".parquet")

_LONGEST, _LONGEST_LIST = 60, 8
"""Characters of a cell or a name, and names, that a message shows."""

_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+", re.ASCII)


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers (rows, columns) of a file, and the names of its columns, each another; None without a header."""

    path: str
    names: list[str] | None
    values: "FloatArray"


def read(path: str) -> Table:
    """Read a table; two columns of one name are refused, since nobody knows which is meant."""
    kind = Path(path).suffix.lower()
    if kind == ".csv":
        names, values = _from_csv(path)
    elif kind == ".parquet":
        names, values = _from_parquet(path)
    else:
        names, values = None, load(path)
    require_distinct(path, names)
    return Table(path, names, values)


def shown(name: str) -> str:
    """A name of a column for people: what would not print, or is empty, is quoted, and what is long is cut.

    >>> shown("price"), shown("")
    ('price', "''")
    """
    return name if name.strip() and name.isprintable() and len(name) <= _LONGEST else quoted(name)


def quoted(text: str) -> str:
    """A cell or a name in quotes; of what is long, its beginning and its length.

    >>> quoted("n/a"), quoted("7" * 100_000)[-30:]
    ("'n/a'", "777777'... (100000 characters)")
    """
    return repr(text) if len(text) <= _LONGEST else f"{text[:_LONGEST]!r}... ({len(text)} characters)"


def some(names: Sequence[str]) -> str:
    """Names for people, the first few of many.

    >>> some(["a", "", "c"])
    "a, '', c"
    """
    more = [f"... ({len(names)} of them)"] * (len(names) > _LONGEST_LIST)
    return ", ".join([*(shown(name) for name in names[:_LONGEST_LIST]), *more])


def load(path: str) -> Any:
    """Arrays of numbers, never pickled objects: those could run code."""
    import numpy as np

    try:
        with open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not a readable numpy file of numbers: {error}") from None


def require_distinct(path: str, names: list[str] | None) -> None:
    """Refuse two columns of one name."""
    repeated = [name for name, count in Counter(names or []).items() if count > 1]
    if names is None or not repeated:
        return
    places = []
    for name in repeated[:_LONGEST_LIST]:
        columns = [str(k + 1) for k, other in enumerate(names) if other == name]
        more = ["..."] * (len(columns) > _LONGEST_LIST)
        places.append(f"{' and '.join(columns[:_LONGEST_LIST] + more)} ({shown(name)})")
    places += [f"... ({len(repeated)} names)"] * (len(repeated) > _LONGEST_LIST)
    raise InputError(
        f"{path}: every column must have a name of its own, but these share one: columns {', '.join(places)}; "
        "rename or drop all but one."
    )


def _from_csv(path: str) -> tuple[list[str] | None, "FloatArray"]:
    """The header, if the first line is not all numbers, and the numbers below."""
    import numpy as np

    lines, _ = csv_lines(path)
    number = reader_of_numbers(path, [cell for _, row in lines for cell in row])
    first = lines[0][1]
    header = None if all(number(cell) is not None for cell in first) else [cell.strip() for cell in first]
    if (
        header is None
        and len(first) > 1
        and [cell.strip() for cell in first] == [str(place) for place in range(len(first))]
    ):
        warn(
            f"line 1 of {path} counts 0, 1, 2, ... and is read as numbers; if it is a header, name its columns."
        )
    body = lines if header is None else lines[1:]
    if not body:
        raise InputError(f"{path} has a header but no rows.")
    numbers = []
    for place, row in body:
        if len(row) != len(first):
            raise InputError(
                f"{path}: line {place} has {len(row)} cells, but the first line has {len(first)}."
                + (_ADVICE if len(row) == 2 * len(first) else "")
            )
        values = [number(cell) for cell in row]
        if None in values:
            column = values.index(None)
            name = f"column {column + 1}" if header is None else f"column {quoted(header[column])}"
            raise InputError(
                f"{path}: line {place}, {name} must be a number, but it is {quoted(row[column])}; "
                "correct it, or leave out its row or its column."
            )
        numbers.append(values)
    return header, np.array(numbers, dtype=np.float64)


def csv_lines(path: str) -> tuple[list[tuple[int, list[str]]], str]:
    """The cells of every line that is not blank, and its number in the file; and what separates cells."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8.") from None
    separator = separator_of(text.rstrip().rpartition("\n")[2])
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        lines = [(reader.line_num, row) for row in reader if len(row) > 1 or (row and row[0].strip())]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}.") from None
    if not lines:
        raise InputError(f"{path} is empty.")
    return lines, separator


def separator_of(last: str) -> str:
    """What separates the cells of a file, by its last line: that has numbers, if any has."""
    # Numbers hold commas, but neither tabs nor semicolons.
    return next((sign for sign in "\t;" if sign in last), ",")


_ADVICE = (
    " If its numbers have decimal commas, write points: in pandas, read_csv(..., sep=';', decimal=',')"
    ".to_csv(..., index=False)."
)


def reader_of_numbers(path: str, cells: Sequence[str]) -> Any:
    """How the numbers of this file are read: with decimal points, or with decimal commas if nothing else fits."""
    commas = [cell for cell in cells if _DECIMAL_COMMA.fullmatch(cell.strip())]
    if not commas:
        return _number
    point = next((cell for cell in cells if "." in cell and _number(cell) is not None), None)
    if point is not None or all(_THOUSANDS.fullmatch(cell.strip()) for cell in commas):
        why = "may have one for thousands" if point is None else f"stands beside {quoted(point.strip())}"
        raise InputError(f"{path}: {quoted(commas[0].strip())} has a comma, and {why}.{_ADVICE}")
    first = shown(commas[0].strip())
    warn(f"{path} has decimal commas: {first} is read as {first.replace(',', '.', 1)}.")
    return lambda cell: _number(cell.replace(",", "."))


def _number(cell: str) -> float | None:
    """A number, or None; Python's own underscores, as in 1_000, are no part of one."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def parquet_table(path: str) -> Any:
    """The table of a parquet file, as pyarrow has it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "parquet files need pyarrow, which is not installed: install pyarrow."
        ) from None
    try:
        with open(path, "rb") as file:
            # Unlike read_table, this reads columns of the same name, which are refused by name.
            return pyarrow.parquet.ParquetFile(file).read()
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise InputError(f"{path} is not a readable parquet file: {error}") from None


def _from_parquet(path: str) -> tuple[list[str], "FloatArray"]:
    import numpy as np

    table = parquet_table(path)
    import pyarrow

    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not (pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)):
            raise InputError(
                f"{path}: column {quoted(name)} must hold numbers, but its type is {column.type}."
            )
        if column.null_count:
            raise InputError(
                f"{path}: column {quoted(name)} has {column.null_count} missing values; drop or impute them."
            )
        columns.append(np.asarray(column.to_numpy(), dtype=np.float64))
    return list(table.column_names), np.column_stack(columns) if columns else np.zeros((0, 0))
