"""Tables of files, read by pandas: which columns are y and which are features, and clear words on what is wrong."""

import csv
import gzip
import io
import re
import shlex
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshuffle.cli.console import InputError, warn

if TYPE_CHECKING:
    import pandas as pd

    from reshuffle._arrays import BoolArray, FloatArray

STANDARD_INPUT = "-"
_TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_HEAD = 1 << 20
"""Bytes at the beginning of a text file that tell what separates its cells, and whether it has a header."""
_LONGEST, _LONGEST_LIST, _LONGEST_ARGUMENT = 60, 8, 200
"""Characters of a cell or a name, names, and characters of an argument that a message shows."""
_FEW = 0.1
"""Share of cells without numbers up to which a column is one of numbers with mistakes."""

_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+", re.ASCII)
_PERCENTAGE = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*%", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:[T ].*)?|\d{1,2}([./-])\d{1,2}\1\d{2,4}(?: .*)?", re.ASCII)
_UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__", re.ASCII)
"""Names of an index that pandas wrote."""
_COMMA_ADVICE = (
    "If its numbers have decimal commas, write points: in pandas, read_csv(..., sep=';', decimal=',')"
    ".to_csv(..., index=False)."
)


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file, how the file is written, and its frame, which is read when it is first used.

    Columns have names without spaces around them, or "column 1", "column 2", ... where the file has none; those of
    `words` stay text. The separator is empty for files that are no text.
    """

    path: str
    names: list[str]
    has_names: bool
    separator: str = ""
    header_lines: int = 0
    has_decimal_commas: bool = False
    is_padded: bool = False
    words: tuple[str, ...] = ()

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """All rows, as pandas reads them."""
        import pandas as pd

        if self.separator:
            frame = self._frame_of_text()
        elif self.has_names:
            with _parquet(self.path) as file:
                frame = file.read().to_pandas(ignore_metadata=True)
        else:
            return pd.DataFrame(load(self.path), columns=self.names)
        if frame.empty:
            raise InputError(f"{self.path} has {'a header but ' * bool(self.separator)}no rows.")
        return frame

    def _frame_of_text(self) -> "pd.DataFrame":
        import pandas as pd

        exactly = {"float_precision": "round_trip"} if int(pd.__version__.partition(".")[0]) < 3 else {}
        try:
            with opened(self.path) as file:
                return pd.read_csv(
                    file,
                    sep=self.separator,
                    header=None,
                    names=self.names,
                    skiprows=self.header_lines,
                    decimal="," if self.has_decimal_commas else ".",
                    dtype={name: str for name in self.words if name in self.names},
                    encoding="utf-8-sig",
                    low_memory=False,
                    **exactly,
                )
        except UnicodeDecodeError:
            raise InputError(f"{self.path} is not a text file in UTF-8.") from None
        except pd.errors.EmptyDataError:
            return pd.DataFrame(columns=self.names)
        except pd.errors.ParserError as error:
            self.require_equal_rows()
            raise InputError(f"{self.path} is not a readable table: {error}") from None

    def rows_of_text(self) -> Iterator[tuple[int, list[str]]]:
        """The number of every line of a text file below the header that is not blank, and its cells."""
        with opened(self.path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
            rows = _rows(self.path, text, self.separator)
            if self.has_names:
                next(rows)
            yield from rows

    def place(self, row: int) -> str:
        """Where a row stands in the file, for people."""
        if not self.separator:
            return f"row {row + 1}"
        return next(f"line {line}" for place, (line, _) in enumerate(self.rows_of_text()) if place == row)

    def require_equal_rows(self) -> None:
        """Refuse a text file with a line that has too few or too many cells."""
        for line, cells in self.rows_of_text() if self.separator else ():
            if len(cells) != len(self.names):
                raise _ragged(self.path, line, len(cells), len(self.names))


@dataclass(frozen=True, eq=False)
class Data:
    """Features X (n, p) and responses y (n, t) of a file, as numbers, and the columns that they come from.

    Columns of X are those that are numbers, then for each column of categories a column of zeros and ones per
    category, in ascending order, as pandas.get_dummies has them. `fill` says how missing values of features are
    replaced, `filled` by which numbers; `choice` why this column is y, if none was named. The truth is `beta_star`,
    `covariance` and `noise`, as far as the file knows them; arrays X and y come from no table.
    """

    table: Table | None
    path: str
    X: "FloatArray"
    y: "FloatArray"
    targets: list[str]
    numeric: list[str]
    encoded: dict[str, list[str]] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    constant: list[str] = field(default_factory=list)
    fill: str | None = None
    filled: dict[str, float] = field(default_factory=dict)
    choice: str = ""
    truth: dict[str, Any] = field(default_factory=dict)

    @property
    def has_names(self) -> bool:
        """Whether columns are known by name, not by their place."""
        return self.table is not None and self.table.has_names

    @property
    def features(self) -> list[str]:
        """What the columns of X are called."""
        return [*self.numeric, *(f"{name}_{word}" for name, words in self.encoded.items() for word in words)]

    def describe(self) -> str:
        """One line for people: which column is y, and which are features."""
        p, target = self.X.shape[1], self.targets[0]
        if not self.has_names:
            return f"y = {target}{self.choice}, features = the {'other ' * bool(self.choice)}{p} columns."
        names = [shown(name) for name in self.features]
        if p > _LONGEST_LIST:
            names = [*names[:4], "...", f"{names[-1]} ({p} of them)"]
        filled = f" Missing values of {some(list(self.filled))} are their medians." * bool(self.filled)
        return f"y = {shown(target)}{self.choice}, features = {', '.join(names)}.{filled}"

    def held_out(self, path: str, *, allow_more: bool = False) -> tuple["FloatArray", "FloatArray"]:
        """X and y of another file, with columns of the same names in any order, or of the same places."""
        import numpy as np

        if not self.has_names:
            found = read(path)
            if found.has_names:
                raise _mixed(path, self.path)
            if found.X.shape[1] != self.X.shape[1]:
                raise InputError(
                    f"{{test}} must have {self.X.shape[1]} features as the data has, but it has {found.X.shape[1]}."
                )
            return found.X, found.y
        if kind_of(path) == ".npz":
            raise _mixed(self.path, path)
        table = replace(_require_columns(read_table(path)), words=tuple(self.encoded))
        if not table.has_names:
            raise _mixed(self.path, path)
        wanted = [*self.numeric, *self.encoded, *self.targets]
        known = {*wanted, *self.dropped, *self.constant, *(table.names if allow_more else ())}
        for words, names in (
            ("it lacks", [name for name in wanted if name not in table.names]),
            ("it also has", [name for name in table.names if name not in known]),
        ):
            if names:
                order = "" if allow_more else ", in any order"
                raise InputError(
                    f"{{test}} {path} must have the columns of {self.path}{order}, but {words} {some(names)}."
                )
        medians = dict(zip(self.numeric, np.median(self.X[:, : len(self.numeric)], axis=0), strict=True))
        table, numbers, _ = _numbers(table, self.numeric, self.targets, medians if self.fill else {})
        for name, known_words in self.encoded.items():
            new = sorted(set(_words(table, name)) - set(known_words))
            if new:
                warn(f"{path}: column {quoted(name)} has categories that {self.path} has not: {some(new)}.")
        count = len(self.numeric)
        return _with_categories(table, numbers[:, :count], self.encoded), numbers[:, count:]

    def require_different_target(self) -> None:
        """Refuse a feature that is a copy of a target."""
        for name, column in zip(self.numeric, self.X.T, strict=False):
            for target, answers in zip(self.targets, self.y.T, strict=True):
                if (column == answers).all():
                    raise InputError(
                        f"{self.path}: column {quoted(name)} is a copy of {{target}} {shown(target)} and would "
                        f"give it away; leave it out with {{drop}} {as_argument(name)}."
                    )

    def without_constants(self) -> "Data":
        """The same without the features that are constant."""
        import numpy as np

        moving = np.ptp(self.X, axis=0) != 0
        away = [name for name, moves in zip(self.features, moving, strict=True) if not moves]
        numeric = [name for name in self.numeric if name not in away]
        single = [name for name, words in self.encoded.items() if len(words) == 1]
        encoded = {name: words for name, words in self.encoded.items() if name not in single}
        constant = [name for name in self.numeric if name in away] + single
        X = self.X if moving.all() else self.X[:, moving]
        return replace(self, X=X, numeric=numeric, encoded=encoded, constant=constant)

    def warn_of_indices(self) -> None:
        """Warn of an index that pandas wrote: it is a feature like any other, and seldom meant to be."""
        import numpy as np

        suspects = []
        for name, values in zip([*self.numeric, *self.targets], [*self.X.T, *self.y.T], strict=False):
            if self.has_names and _UNNAMED.fullmatch(name):
                suspects.append(f"{shown(name)} (without a name)")
            elif len(values) > 2 and bool((np.diff(values) == 1).all()):
                suspects.append(f"{shown(name)} (counts {values[0]:g}, {values[1]:g}, {values[2]:g}, ...)")
        if suspects:
            warn(
                f"{self.path} has what looks like an index of its rows, and it is used as data: "
                f"{', '.join(suspects[:_LONGEST_LIST])}. If it is one, leave it out with --drop."
            )


def read(
    path: str,
    target: Sequence[str] = (),
    drop: Sequence[str] = (),
    one_hot: Sequence[str] = (),
    fill: str | None = None,
) -> Data:
    """Read X, y and what the file knows of the truth.

    npz: arrays X and y, and `beta_star`, `covariance`, `noise`. npy: the last column is y. Tables: the columns
    `target`, else the one named y, else the last.
    """
    kind = kind_of(path)
    for option, given in (("target", target), ("drop", drop), ("one_hot", one_hot)):
        if given and kind in (".npz", ".npy"):
            holds = "a npz file holds X and y" if kind == ".npz" else "a npy file has no names"
            raise InputError(f"{{{option}}} names a column of a csv or parquet file; {holds}.")
    if kind == ".npz":
        return _of_arrays(path)
    table = _require_columns(read_table(path))
    targets, choice = _targets(table, target)
    dropped, words = _named(table, "drop", drop), _named(table, "one_hot", one_hot)
    table = replace(table, words=tuple(words))
    for option, names, other, others in (
        ("drop", dropped, "target", targets),
        ("one_hot", words, "target", targets),
        ("one_hot", words, "drop", dropped),
    ):
        both = [name for name in names if name in others]
        if both:
            raise InputError(
                f"{{{option}}} and {{{other}}} must name different columns, but both name {some(both)}."
            )
    numeric = [name for name in table.names if name not in {*targets, *dropped, *words}]
    table, numbers, filled = _numbers(table, numeric, targets, fill)
    encoded = {name: sorted(set(_words(table, name))) for name in words}
    for name, found in encoded.items():
        if len(found) == len(table.frame) > 1:
            raise InputError(
                f"{{one_hot}} {shown(name)} must be a column of categories, but every row of {path} has another "
                f"entry there; leave it out with {{drop}} {as_argument(name)}."
            )
        taken = [f"{name}_{word}" for word in found if f"{name}_{word}" in table.names]
        if taken:
            raise InputError(
                f"{{one_hot}} {as_argument(name)} makes columns named {shown(name)}_..., but {path} has "
                f"{some(taken)} already; rename one of them."
            )
    X = _with_categories(table, numbers[:, : len(numeric)], encoded)
    y = numbers[:, len(numeric) :]
    # A copy has no frame, which takes as much memory as X.
    return Data(replace(table), path, X, y, targets, numeric, encoded, dropped, [], fill, filled, choice)


def read_table(path: str) -> Table:
    """The columns of a table, without its rows. Two columns of one name are refused."""
    kind = kind_of(path)
    if kind in _TEXT:
        return _of_text(path)
    if kind == ".parquet":
        with _parquet(path) as file:
            names = file.schema_arrow.names
        _require_distinct(path, names)
        return Table(path, names, has_names=True)
    values = load(path)
    if values.ndim != 2:
        raise _too_narrow(path, values.shape)
    return Table(path, _places(values.shape[1]), has_names=False)


def kind_of(path: str) -> str:
    """The ending of a file's name, or that which the bytes of standard input would have."""
    if path == STANDARD_INPUT:
        signs = {b"PAR1": ".parquet", b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"\x1f\x8b": ".csv.gz"}
        return next((kind for sign, kind in signs.items() if _standard_input().startswith(sign)), ".csv")
    endings = [ending.lower() for ending in Path(path).suffixes]
    kind = "".join(endings[-2:]) if endings[-1:] == [".gz"] else "".join(endings[-1:])
    if kind not in (".npz", ".npy", ".parquet", *_TEXT):
        raise InputError(
            f"{path}: data files end in .npz, .npy, .csv or .parquet (or .tsv, or .csv.gz), but this one ends in "
            f"{kind!r}."
        )
    return kind


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """The bytes of a file, unpacked, or of standard input."""
    with io.BytesIO(_standard_input()) if path == STANDARD_INPUT else open(path, "rb") as file:
        if kind_of(path).endswith(".gz"):
            with gzip.open(file) as unpacked:
                yield unpacked
        else:
            yield file


@cache
def _standard_input() -> bytes:
    return sys.stdin.buffer.read()


def load(path: str) -> Any:
    """Arrays of numbers, never pickled objects: those could run code."""
    import numpy as np

    try:
        with opened(path) as file:
            loaded = np.load(file, allow_pickle=False)
            return dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not a readable numpy file of numbers: {error}") from None


def entry(path: str, arrays: Any, name: str) -> Any:
    """An array of a npz file."""
    if not isinstance(arrays, dict) or name not in arrays:
        held = ", ".join(arrays) if isinstance(arrays, dict) else "a single array"
        raise InputError(f"{path} must hold an array named {name}, but it holds {held or 'nothing'}.")
    return arrays[name]


def numbers_of(table: Table) -> "FloatArray":
    """All columns of a table of numbers."""
    return _numbers(table, table.names, [], None)[1]


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


def as_argument(name: str) -> str:
    """A name as it is typed in a shell.

    >>> print(as_argument("price"), as_argument("last year"))
    price 'last year'
    """
    return shlex.quote(name) if len(name) <= _LONGEST_ARGUMENT else f"{shlex.quote(name[:40])}..."


def _of_arrays(path: str) -> Data:
    arrays = load(path)
    X, y = entry(path, arrays, "X"), entry(path, arrays, "y")
    truth = {name: arrays[name] for name in ("beta_star", "covariance", "noise") if name in arrays}
    if X.ndim != 2:
        raise InputError(f"{path}: X must be two-dimensional, (rows, columns), but its shape is {X.shape}.")
    if y.ndim != 1:
        raise InputError(
            f"{path}: y must be a vector, one response per row, but its shape is {y.shape}; "
            "save one of its columns as y, or ask LeastSquares(X, y) in Python about all of them."
        )
    return Data(None, path, X, y[:, None], ["the array y"], _places(X.shape[1]), truth=truth)


def _places(count: int) -> list[str]:
    """Names of columns that have none."""
    return [f"column {place + 1}" for place in range(count)]


@contextmanager
def _parquet(path: str) -> Iterator[Any]:
    """An open parquet file; unlike read_parquet of pandas, it may have columns of the same name."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "parquet files need pyarrow, which is not installed: install pyarrow."
        ) from None
    try:
        with opened(path) as file:
            yield pyarrow.parquet.ParquetFile(file)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise InputError(f"{path} is not a readable parquet file: {error}") from None


def _of_text(path: str) -> Table:
    """The columns of a text file, by its beginning."""
    try:
        with opened(path) as file:
            head = file.read(_HEAD)
            is_whole = not file.read(1)
            # A sign may be cut through at the end.
            text = head.decode("utf-8-sig", errors="strict" if is_whole else "ignore")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8.") from None
    except (EOFError, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is not a readable gzip file: {error}") from None
    whole = text if is_whole else text.rpartition("\n")[0] or text
    # Numbers hold commas, but neither tabs nor semicolons; the last line has numbers, if any has.
    last = whole.rstrip().rpartition("\n")[2]
    separator = next((sign for sign in "\t;" if sign in last), ",")
    rows = _rows(path, io.StringIO(text, newline=""), separator)
    line, header = next(rows, (0, []))
    if not header:
        raise InputError(f"{path} is empty.")
    has_names = not all(_is_number(cell) for cell in header)
    names = [cell.strip() for cell in header]
    if has_names:
        _require_distinct(path, names)
        # pandas would take a surplus of cells for an index.
        below, cells = next(rows, (0, header))
        if len(cells) != len(names):
            raise _ragged(path, below, len(cells), len(names))
    else:
        if len(names) > 1 and names == [str(place) for place in range(len(names))]:
            warn(
                f"line 1 of {path} counts 0, 1, 2, ... and is read as numbers; if it is a header, name its columns."
            )
        names, line = _places(len(names)), 0
    return Table(path, names, has_names, separator, line, is_padded=has_names and names != header)


def _rows(path: str, text: Any, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The number of every line that is not blank, and its cells."""
    reader = csv.reader(text, delimiter=separator)
    try:
        for row in reader:
            if len(row) > 1 or (row and row[0].strip()):
                yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: {error}.") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8.") from None


def _is_number(cell: str) -> bool:
    """True for a number with a decimal point or comma; underscores, as in 1_000, are no part of one."""
    try:
        float(cell)
    except ValueError:
        return _DECIMAL_COMMA.fullmatch(cell.strip()) is not None
    return "_" not in cell


def _targets(table: Table, given: Sequence[str]) -> tuple[list[str], str]:
    """The columns that are y, and why, if none was named."""
    if given and not table.has_names:
        raise InputError(
            f"{{target}} must be a column of {table.path}, which has no header, but it is {quoted(given[0])}."
        )
    if given:
        return _named(table, "target", given), ""
    if not table.has_names:
        return [table.names[-1]], " (the last)"
    if "y" in table.names:
        return ["y"], ""
    return [table.names[-1]], " (the last column; --target NAME takes another)"


def _named(table: Table, option: str, given: Sequence[str]) -> list[str]:
    """Columns that were named one by one, or several with commas."""
    names: list[str] = []
    for text in given:
        parts = [part.strip() for part in text.split(",")]
        names += [text] if text in table.names or not set(parts) <= set(table.names) else parts
    for name in names:
        if name not in table.names:
            raise InputError(
                f"{{{option}}} must be a column of {table.path}, which has columns {some(table.names)}, "
                f"but it is {quoted(name)}."
            )
        if names.count(name) > 1:
            times = names.count(name)
            raise InputError(
                f"{{{option}}} must name each column once, but it names {quoted(name)} {times} times."
            )
    return names


def _numbers(
    table: Table, features: Sequence[str], targets: Sequence[str], fill: Any
) -> tuple[Table, "FloatArray", dict[str, float]]:
    """Columns of finite numbers, (rows, features and targets), and what stands for missing values of features.

    `fill` is None, "median", or the values themselves. Where numbers have decimal commas the table is read again.
    """
    import numpy as np

    names = [*features, *targets]
    made = np.empty((len(table.frame), len(names)))
    wrong: dict[str, BoolArray] = {}
    for place, name in enumerate(names):
        made[:, place], bad = _converted(table.frame[name])
        if bad.any():
            wrong[name] = bad
    gaps = {name: np.isnan(column) for name, column in zip(names, made.T, strict=True) if name not in wrong}
    gaps = {name: missing for name, missing in gaps.items() if missing.any()}
    if wrong or gaps:
        # pandas takes cells that a line lacks for missing ones.
        table.require_equal_rows()
    if (
        wrong
        and table.separator
        and not table.has_decimal_commas
        and _has_decimal_commas(table, names, wrong)
    ):
        return _numbers(replace(table, has_decimal_commas=True), features, targets, fill)
    if wrong:
        raise _not_numbers(table, wrong, targets)
    filled: dict[str, float] = {}
    for name in [name for name in gaps if name in features and fill]:
        column, missing = made[:, names.index(name)], gaps.pop(name)
        value = float(np.median(column[~missing])) if fill == "median" and not missing.all() else None
        value = fill.get(name) if isinstance(fill, dict) else value
        if value is None:
            raise InputError(
                f"{table.path}: column {quoted(name)} is empty; leave it out with {{drop}} {as_argument(name)}."
            )
        column[missing] = filled[name] = value
    if gaps:
        raise _missing(table, gaps, targets)
    for name, column in zip(names, made.T, strict=True):
        infinite = np.flatnonzero(np.isinf(column))
        if infinite.size:
            raise InputError(
                f"{table.path}: {table.place(infinite[0])}, column {quoted(name)} must be a finite number, "
                f"but it is {column[infinite[0]]}."
            )
    return table, made, filled


def _converted(column: "pd.Series") -> tuple[Any, "BoolArray"]:
    """The numbers of a column, nan where there is none, and a mask of the cells that hold something else."""
    import numpy as np
    import pandas as pd

    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return column.to_numpy(dtype=np.float64), np.zeros(len(column), dtype=bool)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "Mm":
        return np.full(len(column), np.nan), column.notna().to_numpy()
    numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(dtype=np.float64)
    return numbers, np.isnan(numbers) & column.notna().to_numpy()


def _has_decimal_commas(table: Table, names: Sequence[str], wrong: "dict[str, BoolArray]") -> bool:
    """Whether cells that are no numbers have decimal commas; refused where these may mean thousands."""
    texts = [str(cell).strip() for name, bad in wrong.items() for cell in table.frame[name][bad]]
    commas = [text for text in texts if _DECIMAL_COMMA.fullmatch(text)]
    if not commas:
        return False
    places = [table.names.index(name) for name in names]
    cells = (row[place].strip() for _, row in table.rows_of_text() for place in places)
    point = next((cell for cell in cells if "." in cell and _is_number(cell)), None)
    if point is not None or all(_THOUSANDS.fullmatch(text) for text in commas):
        why = "may have one for thousands" if point is None else f"stands beside {quoted(point)}"
        raise InputError(f"{table.path}: {quoted(commas[0])} has a comma, and {why}. {_COMMA_ADVICE}")
    first = shown(commas[0])
    warn(f"{table.path} has decimal commas: {first} is read as {first.replace(',', '.', 1)}.")
    return True


def _not_numbers(table: Table, wrong: "dict[str, BoolArray]", targets: Sequence[str]) -> InputError:
    """What is said of columns that hold something else than numbers: how it looks, and what to do about it."""
    import numpy as np

    (name, bad), *rest = wrong.items()
    row = int(np.flatnonzero(bad)[0])
    cell = str(table.frame[name].iloc[row])
    counts = {name: int(table.frame[name].nunique()) for name in wrong}
    what, argument = quoted(cell), as_argument(name)
    drop = f"or leave the column out with {{drop}} {argument}"
    is_date = table.frame[name].dtype.kind in "Mm" or _DATE.fullmatch(cell.strip())
    if is_date or _PERCENTAGE.fullmatch(cell.strip()):
        what = f"the {'date' if is_date else 'percentage'} {what}"
        advice = (
            "write numbers, such as days since the first" if is_date else "write numbers without the sign"
        )
        hint = f"{advice}, {'or name another target' if name in targets else drop}."
    elif bad.mean() <= _FEW and name not in targets:
        hint = f"correct it, leave out its row, {drop}."
    elif bad.mean() <= _FEW or (counts[name] > len(bad) / 2 and name in targets):
        hint = "correct it, or leave out its row."
    elif name in targets:
        what += f", one of {counts[name]} different entries"
        some_classes = ", ".join(map(str, range(min(counts[name], 3))))
        hint = f"write a number for each class, such as {some_classes}, or name another target."
    else:
        others = [
            f"{shown(other)} ({counts[other]})" for other, _ in rest[:_LONGEST_LIST] if other not in targets
        ]
        also = f" (as in {', '.join(others)})" if others else ""
        what += f", one of {counts[name]} different entries{also}"
        hint = f"encode categories with {{one_hot}} {argument}, {drop}."
    place = table.place(row)
    return InputError(
        f"{table.path}: {place}, column {quoted(name)} must be a number, but it is {what}; {hint}"
    )


def _missing(table: Table, gaps: "dict[str, BoolArray]", targets: Sequence[str]) -> InputError:
    """What is said of all columns in which values are missing."""
    import numpy as np

    counts = {name: int(missing.sum()) for name, missing in gaps.items()}
    first = min(int(np.flatnonzero(missing)[0]) for missing in gaps.values())
    features = [name for name in gaps if name not in targets]
    drops = " ".join(f"{{drop}} {as_argument(name)}" for name in features[:_LONGEST_LIST])
    drops += " ..." * (len(features) > _LONGEST_LIST)
    ways = ["drop or fill in such rows"]
    if features:
        ways += [f"leave the column{'s' * (len(features) > 1)} out with {drops}", "take {fill} median"]
    if len(counts) == 1:
        ((name, count),) = counts.items()
        found = f"column {quoted(name)} has {count} missing value{'s' * (count > 1)}"
    else:
        listed = [f"{quoted(name)} ({count})" for name, count in list(counts.items())[:_LONGEST_LIST]]
        more = f", ... ({len(counts)} of them)" * (len(counts) > _LONGEST_LIST)
        found = f"columns {', '.join(listed)}{more} have missing values"
    place = table.place(first)
    return InputError(f"{table.path}: {found}, the first in {place}; {', or '.join(ways)}.")


def _words(table: Table, name: str) -> list[str]:
    """The cells of a column of categories as text, none of them missing."""
    import numpy as np

    column = table.frame[name]
    missing = np.flatnonzero(column.isna())
    if missing.size:
        table.require_equal_rows()
        raise InputError(
            f"{table.path}: column {quoted(name)} has {len(missing)} missing value{'s' * (len(missing) > 1)}, the "
            f"first in {table.place(missing[0])}; write a word for it in the file, or leave the column out with "
            f"{{drop}} {as_argument(name)}."
        )
    return [str(cell) for cell in column]


def _with_categories(table: Table, numbers: "FloatArray", encoded: dict[str, list[str]]) -> "FloatArray":
    import numpy as np

    columns = []
    for name, words in encoded.items():
        cells = np.asarray(_words(table, name))
        columns += [cells == word for word in words]
    return np.column_stack([numbers, *columns]).astype(np.float64) if columns else numbers


def _require_columns(table: Table) -> Table:
    if len(table.names) < 2:
        raise _too_narrow(table.path, table.frame.shape)
    return table


def _require_distinct(path: str, names: Sequence[str]) -> None:
    """Refuse two columns of one name, since nobody knows which is meant."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if not repeated:
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


def _ragged(path: str, line: int, cells: int, columns: int) -> InputError:
    said = f"{path}: line {line} has {cells} cells, but the first line has {columns}"
    if cells == 2 * columns:
        return InputError(f"{said}. {_COMMA_ADVICE}")
    return InputError(f"{said}; entries with commas in them need quotes.")


def _too_narrow(path: str, shape: tuple[int, ...]) -> InputError:
    return InputError(
        f"{path} must be a table with at least two columns, features and y, but its shape is {shape}."
    )


def _mixed(named: str, nameless: str) -> InputError:
    return InputError(
        f"{{data}} and {{test}} must both name their columns, or neither, but {named} does and {nameless} does not."
    )
