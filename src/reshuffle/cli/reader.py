"""Tables of files, read by pandas: which columns are y and which are features, and clear words on what is wrong."""

import csv
import gzip
import io
import re
import shlex
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshuffle.cli.console import warn
from reshuffle.errors import ArgumentError

if TYPE_CHECKING:
    import pandas as pd

    from reshuffle._arrays import AnyArray, FloatArray

STANDARD_INPUT = "-"
_KINDS = {
    **dict.fromkeys((".npz", ".npy"), "numpy file of numbers"),
    ".parquet": "parquet file",
    **dict.fromkeys((".csv", ".tsv", ".csv.gz", ".tsv.gz"), "table"),
}
"""Endings of files, and what such a file is."""
_SIGNS = {b"PAR1": ".parquet", b"\x93NUMPY": ".npy", b"PK\x03\x04": ".npz", b"\x1f\x8b": ".csv.gz"}
"""First bytes of standard input, and the ending that such a file would have."""
_HEAD = 1 << 20
"""Characters at the beginning of a text file that tell what separates its cells, and whether it has a header."""
_LONGEST, _LONGEST_LIST, _LONGEST_ARGUMENT = 60, 8, 200
"""Characters of a cell or a name, names, and characters of an argument that a message shows."""
_FEW = 0.1
"""Share of cells without numbers up to which a column is one of numbers with mistakes."""

_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+", re.ASCII)
_PERCENTAGE = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*%", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:[T ].*)?|\d{1,2}([./-])\d{1,2}\1\d{2,4}(?: .*)?", re.ASCII)
_LINE_END = re.compile(r"\r\n?|\n")
_UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__", re.ASCII)
"""Names of an index that pandas wrote."""
_COMMA_ADVICE = (
    "If its numbers have decimal commas, write points: in pandas, read_csv(..., sep=';', decimal=',')"
    ".to_csv(..., index=False)."
)


# ------------------------------------------------------------------------------------------------ names in messages


def shown(name: str) -> str:
    """A name of a column for people: quoted if it would not print or is empty, and cut if it is long.

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


def some(names: Iterable[str], show: Any = shown, joint: str = ", ") -> str:
    """Names for people, the first few of many.

    >>> some(["a", "", "c"]), some("abcdefghijk", joint="")
    ("a, '', c", 'abcdefgh... (11 of them)')
    """
    every = list(names)
    more = [f"... ({len(every)} of them)"] * (len(every) > _LONGEST_LIST)
    return joint.join([*map(show, every[:_LONGEST_LIST]), *more])


def as_argument(name: str) -> str:
    """A name as it is typed in a shell.

    >>> print(as_argument("price"), as_argument("last year"))
    price 'last year'
    """
    return shlex.quote(name) if len(name) <= _LONGEST_ARGUMENT else f"{shlex.quote(name[:40])}..."


# ------------------------------------------------------------------------------------------------------------ files


def kind_of(path: str) -> str:
    """The ending of a file's name, or that which the bytes of standard input would have."""
    if path == STANDARD_INPUT:
        return next((kind for sign, kind in _SIGNS.items() if _standard_input().startswith(sign)), ".csv")
    endings = [ending.lower() for ending in Path(path).suffixes]
    kind = "".join(endings[-2:] if endings[-1:] == [".gz"] else endings[-1:])
    if kind not in _KINDS:
        allowed = "end in .npz, .npy, .csv or .parquet (or .tsv, or .csv.gz)"
        raise ArgumentError(path, allowed, f"it ends in {kind!r}")
    return kind


@cache
def _standard_input() -> bytes:
    return sys.stdin.buffer.read()


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """The bytes of a file, unpacked, or of standard input; whatever fails to read them is refused."""
    kind = kind_of(path)
    # Errors of pandas and pyarrow are ValueErrors.
    unreadable = ValueError, EOFError, NotImplementedError, csv.Error, zipfile.BadZipFile, gzip.BadGzipFile
    try:
        with (
            io.BytesIO(_standard_input()) if path == STANDARD_INPUT else open(path, "rb") as file,
            gzip.open(file) if kind.endswith(".gz") else nullcontext(file) as unpacked,
        ):
            yield unpacked
    except ArgumentError:
        raise
    except UnicodeDecodeError:
        raise ArgumentError(path, "", "is not a text file in UTF-8") from None
    except unreadable as error:
        raise ArgumentError(path, "", f"is not a readable {_KINDS[kind]}: {error}") from None


def load(path: str) -> Any:
    """Arrays of numbers, never pickled objects: those could run code."""
    import numpy as np

    with opened(path) as file:
        loaded = np.load(file, allow_pickle=False)
        return dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded


def array(path: str, arrays: Any, name: str) -> Any:
    """One of the arrays of a npz file."""
    if not isinstance(arrays, dict) or name not in arrays:
        held = ", ".join(arrays) if isinstance(arrays, dict) else "a single array"
        raise ArgumentError(path, f"hold an array named {name}", f"it holds {held or 'nothing'}")
    return arrays[name]


@dataclass(frozen=True, eq=False)
class FileTable:
    """The columns of a file, how the file is written, and its frame, which is read when it is first used.

    Columns have names without spaces around them, or "column 1", "column 2", ... where the file has none; those of
    `words` stay text. The separator is empty for files that are no text, which are read at once.
    """

    path: str
    names: list[str]
    has_names: bool
    loaded: "pd.DataFrame | None" = None
    separator: str = ""
    header_lines: int = 0
    has_decimal_commas: bool = False
    is_padded: bool = False
    words: Sequence[str] = ()

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """All rows, as pandas reads them."""
        import pandas as pd

        frame = self.loaded
        if frame is None:
            exactly = {"float_precision": "round_trip"} if int(pd.__version__.partition(".")[0]) < 3 else {}
            try:
                with opened(self.path) as file:
                    frame = pd.read_csv(
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
            except ArgumentError:
                self.require_equal_rows()
                raise
        if frame.empty:
            raise ArgumentError(self.path, "", f"has {'a header but ' * bool(self.header_lines)}no rows")
        return frame

    def rows_of_text(self) -> Iterator[tuple[int, list[str]]]:
        """The number of every line of a text file below the header that is not blank, and its cells."""
        with opened(self.path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
            rows = _rows(text, self.separator)
            if self.has_names:
                next(rows)
            yield from rows

    def place(self, row: int) -> str:
        """The line or row of the file, for people."""
        if not self.separator:
            return f"row {row + 1}"
        return next(f"line {line}" for place, (line, _) in enumerate(self.rows_of_text()) if place == row)

    def require_equal_rows(self) -> None:
        """Refuse a text file with a line that has too few or too many cells."""
        for line, cells in self.rows_of_text() if self.separator else ():
            if len(cells) != len(self.names):
                raise _ragged(self.path, line, len(cells), len(self.names))


def read_table(path: str, least: int = 1) -> FileTable:
    """The columns of a table; rows of text are read later. Too few columns are refused, and equal names."""
    kind = kind_of(path)
    if kind == ".npy":
        import pandas as pd

        values = load(path)
        names = _places(values.shape[1]) if values.ndim == 2 else []
        table = FileTable(path, names, False, pd.DataFrame(values, columns=names) if names else None)
    elif kind == ".parquet":
        try:
            import pyarrow
            import pyarrow.parquet
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "parquet files need pyarrow, which is not installed: install pyarrow."
            ) from None
        with opened(path) as file:
            # Unlike read_parquet of pandas, it takes columns of the same name, which are refused below.
            frame = pyarrow.parquet.ParquetFile(file).read().to_pandas(ignore_metadata=True)
        table = FileTable(path, list(frame.columns), True, frame)
    else:
        table = _table_of_text(path)
    if len(table.names) < least:
        raise ArgumentError(
            path, "be a table with at least two columns, features and y", f"it has {len(table.names)}"
        )
    places: dict[str, list[str]] = {}
    for place, name in enumerate(table.names):
        places.setdefault(name, []).append(str(place + 1))
    shared = [name for name, columns in places.items() if len(columns) > 1]
    if shared:
        listed = some(shared, lambda name: f"{some(places[name], joint=' and ')} ({shown(name)})")
        raise ArgumentError(
            f"{path}: every column",
            "have a different name",
            f"these share one: columns {listed}",
            "rename or drop all but one",
        )
    return table


def _table_of_text(path: str) -> FileTable:
    """The columns of a text file, by its beginning."""
    with opened(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as whole:
        text = whole.read(_HEAD)
        # Numbers hold commas, but neither tabs nor semicolons; the last line has numbers, if any has.
        last = (text.rpartition("\n")[0] or text).rstrip().rpartition("\n")[2]
        separator = next((sign for sign in "\t;" if sign in last), ",")
        rows = _rows(io.StringIO(text, newline=""), separator)
        line, header = next(rows, (0, []))
        if not header:
            raise ArgumentError(path, "", "is empty")
        names = [cell.strip() for cell in header]
        if not all(map(_is_number, header)):
            # pandas would take a surplus of cells for an index.
            below, cells = next(rows, (0, header))
            if len(cells) != len(names):
                raise _ragged(path, below, len(cells), len(names))
            # For pandas a name over several lines is in one.
            line -= sum(len(_LINE_END.findall(cell)) for cell in header)
            return FileTable(path, names, True, None, separator, line, is_padded=names != header)
    if len(names) > 1 and names == [str(place) for place in range(len(names))]:
        warn(
            f"line 1 of {path} counts 0, 1, 2, ... and is read as numbers; if it is a header, name its columns."
        )
    return FileTable(path, _places(len(names)), False, None, separator)


def _rows(text: Any, separator: str) -> Iterator[tuple[int, list[str]]]:
    """The number of every line that is not blank, and its cells."""
    reader = csv.reader(text, delimiter=separator)
    return ((reader.line_num, row) for row in reader if len(row) > 1 or (row and row[0].strip()))


def _is_number(cell: str) -> bool:
    """True for a number with a decimal point or comma; underscores, as in 1_000, are no part of one."""
    try:
        float(cell)
    except ValueError:
        return _DECIMAL_COMMA.fullmatch(cell.strip()) is not None
    return "_" not in cell


def _places(count: int) -> list[str]:
    """Names of columns that have none."""
    return [f"column {place + 1}" for place in range(count)]


def _ragged(path: str, line: int, cells: int, columns: int) -> ArgumentError:
    given = f"has {cells} cells, but the first line has {columns}"
    hint = _COMMA_ADVICE if cells == 2 * columns else "entries with commas in them need quotes"
    return ArgumentError(f"{path}: line {line}", "", given, hint)


# --------------------------------------------------------------------------------------------------- features and y


@dataclass(frozen=True, eq=False)
class Data:
    """Features X (n, p) and responses y (n, t) of a file, as numbers, and the columns that they come from.

    Columns of X are those that are numbers, then for each column of categories a column of zeros and ones per
    category, in ascending order, as pandas.get_dummies has them. `fill` says how missing values of features are
    replaced, `filled` by which numbers; `choice` why this column is y, if none was named. The truth is `beta_star`,
    `covariance` and `noise`, as far as the file knows them; arrays X and y come from no table. Where y has classes,
    `labels` (n,) are its entries; those that are no numbers are counted in y.
    """

    table: FileTable | None
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
    labels: "AnyArray | None" = None

    @property
    def has_names(self) -> bool:
        """True if columns are known by name, not by their place."""
        return self.table is not None and self.table.has_names

    @property
    def features(self) -> list[str]:
        """Names of the columns of X."""
        return [*self.numeric, *(f"{name}_{word}" for name, words in self.encoded.items() for word in words)]

    def describe(self) -> str:
        """One line for people: which column is y, and which are features."""
        p, target = self.X.shape[1], self.targets[0]
        if not self.has_names:
            return f"y = {target}{self.choice}, features = the {'other ' * bool(self.choice)}{p} columns."
        names = [shown(name) for name in self.features]
        if p > _LONGEST_LIST:
            names = [*names[:4], "...", f"{names[-1]} ({p} of them)"]
        filled = f" Missing values of {some(self.filled)} are their medians." * bool(self.filled)
        return f"y = {shown(target)}{self.choice}, features = {', '.join(names)}.{filled}"

    def held_out(self, path: str) -> tuple["FloatArray", "AnyArray"]:
        """X and y, or labels, of another file, with columns of the same names in any order or of equal places."""
        import numpy as np

        # Arrays have no names, and may have no table.
        table = None if kind_of(path) == ".npz" else read_table(path, least=2)
        has_names = table is not None and table.has_names
        if has_names != self.has_names:
            named, nameless = (path, self.path) if has_names else (self.path, path)
            raise ArgumentError(
                "{data} and {test}",
                "both name their columns, or neither",
                f"{named} does and {nameless} does not",
            )
        if table is None or not has_names:
            found = read(path)
            if found.X.shape[1] != self.X.shape[1]:
                raise ArgumentError(
                    "test", f"have {self.X.shape[1]} features as the data has", f"it has {found.X.shape[1]}"
                )
            return found.X, found.y
        wanted = [*self.numeric, *self.encoded, *self.targets]
        lacking = [name for name in wanted if name not in table.names]
        if lacking:
            raise ArgumentError(
                f"{{test}} {path}", f"have the columns of {self.path}", f"it lacks {some(lacking)}"
            )
        medians = dict(zip(self.numeric, np.median(self.X[:, : len(self.numeric)], axis=0), strict=True))
        targets = self.targets if self.labels is None else []
        made = _numbers(
            replace(table, words=list(self.encoded)), self.numeric, targets, medians if self.fill else {}
        )
        categories = _words(made[0], self.encoded)
        for name, cells in categories.items():
            new = sorted(set(cells) - set(self.encoded[name]))
            if new:
                warn(f"{path}: column {quoted(name)} has categories that {self.path} has not: {some(new)}.")
        if self.labels is None:
            return _encoded(made[1], categories, self.encoded), made[2]
        labels = _labels(made[0], self.targets[0])
        unknown = sorted(set(labels.tolist()) - set(self.labels.tolist()))
        if unknown:
            raise ArgumentError(
                f"{{test}} {path}",
                f"have the classes of {self.path}",
                f"column {quoted(self.targets[0])} has others: {some(map(str, unknown))}",
            )
        return _encoded(made[1], categories, self.encoded), labels

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
                f"{some(suspects, str)}. If it is one, leave it out with --drop."
            )


def read(
    source: str | FileTable,
    target: Sequence[str] = (),
    drop: Sequence[str] = (),
    one_hot: Sequence[str] = (),
    fill: str | None = None,
    classes: bool | None = False,
) -> Data:
    """Read X, y and what the file, or a table of it, knows of the truth.

    npz: arrays X and y, and `beta_star`, `covariance`, `noise`. npy: the last column is y. Tables: the columns
    `target`, else the one named y, else the last. `classes` is True if y has labels, None if its entries tell.
    """
    import numpy as np

    path = source if isinstance(source, str) else source.path
    kind = kind_of(path)
    for option, given in (("target", target), ("drop", drop), ("one_hot", one_hot)):
        if given and kind in (".npz", ".npy"):
            holds = "a npz file holds X and y" if kind == ".npz" else "a npy file has no names"
            raise ArgumentError(option, "name a column of a csv or parquet file", holds)
    if kind == ".npz":
        arrays = load(path)
        X, y = array(path, arrays, "X"), array(path, arrays, "y")
        truth = {name: arrays[name] for name in ("beta_star", "covariance", "noise") if name in arrays}
        if X.ndim != 2:
            raise ArgumentError(
                f"{path}: X", "be two-dimensional, (rows, columns)", f"its shape is {X.shape}"
            )
        if y.ndim != 1:
            raise ArgumentError(
                f"{path}: y",
                "be a vector, one response per row",
                f"its shape is {y.shape}",
                "save one of its columns as y, or ask LeastSquares(X, y) in Python about all of them",
            )
        return Data(None, path, X, y[:, None], ["the array y"], _places(X.shape[1]), truth=truth)
    table = read_table(path, least=2) if isinstance(source, str) else source
    choice = ""
    if target and not table.has_names:
        raise ArgumentError(
            "target", f"be a column of {path}, which has no header", f"it is {quoted(target[0])}"
        )
    if not target and not (table.has_names and "y" in table.names):
        choice = " (the last column; --target NAME takes another)" if table.has_names else " (the last)"
    targets = [table.names[-1]] if choice else _named(table, "target", target or ["y"])
    dropped, words = _named(table, "drop", drop), _named(table, "one_hot", one_hot)
    for option, names, other, others in (
        ("drop", dropped, "target", targets),
        ("one_hot", words, "target", targets),
        ("one_hot", words, "drop", dropped),
    ):
        both = [name for name in names if name in others]
        if both:
            raise ArgumentError(
                f"{{{option}}} and {{{other}}}", "name different columns", f"both name {some(both)}"
            )
    numeric = [name for name in table.names if name not in {*targets, *dropped, *words}]
    table, labels = replace(table, words=words), None
    if classes and len(targets) > 1:
        given = f"there are {len(targets)}: {some(targets)}"
        raise ArgumentError("classes", "come with a single {target}", given)
    if classes or (classes is None and len(targets) == 1 and _has_labels(table.frame[targets[0]])):
        table, features, y, filled = _numbers(table, numeric, [], fill)
        labels = _labels(table, targets[0])
        y = (np.unique(labels, return_inverse=True)[1] if labels.dtype.kind == "U" else labels)[:, np.newaxis]
        y = y.astype(np.float64)
    else:
        table, features, y, filled = _numbers(table, numeric, targets, fill)
    categories = _words(table, words)
    encoded = {name: sorted(set(cells)) for name, cells in categories.items()}
    for name, found in encoded.items():
        if len(found) == len(table.frame) > 1:
            raise ArgumentError(
                f"{{one_hot}} {shown(name)}",
                "be a column of categories",
                f"every row of {path} has another entry there",
                f"leave it out with {{drop}} {as_argument(name)}",
            )
        taken = [f"{name}_{word}" for word in found if f"{name}_{word}" in table.names]
        if taken:
            given = f"makes columns named {shown(name)}_..., but {path} has {some(taken)} already"
            raise ArgumentError(f"{{one_hot}} {as_argument(name)}", "", given, "rename one of them")
    X = _encoded(features, categories, encoded)
    # A copy has no frame, which takes as much memory as X.
    table = replace(table, loaded=None)
    return Data(
        table, path, X, y, targets, numeric, encoded, dropped, [], fill, filled, choice, labels=labels
    )


def _named(table: FileTable, option: str, given: Sequence[str]) -> list[str]:
    """Columns that were named one by one, or several with commas."""
    names: list[str] = []
    for text in given:
        parts = [part.strip() for part in text.split(",")]
        names += [text] if text in table.names or not set(parts) <= set(table.names) else parts
    for name in names:
        if name not in table.names:
            raise ArgumentError(
                option,
                f"be a column of {table.path}, which has columns {some(table.names)}",
                f"it is {quoted(name)}",
            )
        if (times := names.count(name)) > 1:
            raise ArgumentError(option, "name each column once", f"it names {quoted(name)} {times} times")
    return names


# ---------------------------------------------------------------------------------------------------------- numbers


def numbers_of(table: FileTable) -> "FloatArray":
    """All columns of a table of numbers."""
    return _numbers(table, table.names, [], None)[1]


def _numbers(
    table: FileTable, features: list[str], targets: list[str], fill: Any
) -> tuple[FileTable, "FloatArray", "FloatArray", dict[str, float]]:
    """The table, features and targets as finite numbers, and the values filled in for missing ones.

    `fill` is None, "median", or the values themselves. Where numbers have decimal commas the table is read again.
    """
    import numpy as np

    names = [*features, *targets]
    given = table.frame[names]
    made = given.apply(_converted)
    missing = made.isna()
    wrong = missing & given.notna()
    if missing.to_numpy().any():
        # pandas takes cells that a line lacks for missing ones.
        table.require_equal_rows()
    if wrong.to_numpy().any():
        wrong = wrong.loc[:, wrong.any()]
        if table.separator and not table.has_decimal_commas and _has_decimal_commas(table, names, wrong):
            return _numbers(replace(table, has_decimal_commas=True), features, targets, fill)
        raise _not_numbers(table, wrong, targets)
    # Other rows, which have the values to fill in already, may lack all of a column.
    for name in [] if isinstance(fill, dict) else features:
        if missing[name].all():
            hint = f"leave it out with {{drop}} {as_argument(name)}"
            raise ArgumentError(f"{table.path}: column {quoted(name)}", "", "is empty", hint)
    gaps = [name for name in features if fill and missing[name].any()]
    filled = {name: made[name].median() if fill == "median" else fill[name] for name in gaps}
    missing = missing.loc[:, missing.any()].drop(columns=gaps)
    if not missing.empty:
        away = [name for name in missing if name not in targets]
        raise _missing(table, missing, "drop or fill in such rows", away, "take {fill} median")
    values = made.fillna(filled).to_numpy(np.float64)
    for row, place in np.argwhere(np.isinf(values)):
        raise ArgumentError(
            f"{table.path}: {table.place(row)}, column {quoted(names[place])}",
            "be a finite number",
            f"it is {values[row, place]}",
        )
    return table, values[:, : len(features)], values[:, len(features) :], filled


def _converted(column: "pd.Series") -> Any:
    """The numbers of a column, nan where there is none; pandas would make numbers of dates, too."""
    import numpy as np
    import pandas as pd

    kind = column.dtype.kind if isinstance(column.dtype, np.dtype) else "O"
    if kind in "Mm":
        return np.full(len(column), np.nan)
    return (column if kind in "biuf" else pd.to_numeric(column.astype(object), errors="coerce")).astype(
        np.float64
    )


def _has_labels(column: "pd.Series") -> bool:
    """True for flags, and for text with few different entries which are not meant as numbers or dates."""
    kind, given = column.dtype.kind, column.dropna()
    if kind in "biufcMm":
        return bool(kind == "b")
    texts = given.astype(str).str.strip().unique()
    is_meant_otherwise = any(
        _is_number(text) or any(pattern.fullmatch(text) for pattern in (_THOUSANDS, _PERCENTAGE, _DATE))
        for text in texts
    )
    return 0 < len(texts) <= len(given) / 2 and not is_meant_otherwise


def _labels(table: FileTable, name: str) -> "AnyArray":
    """The entries of a column of classes, none of them missing."""
    import numpy as np

    found = _complete(table, name, "drop or fill in such rows").to_numpy()
    return np.asarray(found.astype(str) if found.dtype == object else found)


def _has_decimal_commas(table: FileTable, names: Sequence[str], wrong: "pd.DataFrame") -> bool:
    """True if cells that are no numbers have decimal commas; refused where these may mean thousands."""
    texts = [str(cell).strip() for name in wrong for cell in table.frame[name][wrong[name]]]
    commas = [text for text in texts if _DECIMAL_COMMA.fullmatch(text)]
    if not commas:
        return False
    places = [table.names.index(name) for name in names]
    cells = (row[place].strip() for _, row in table.rows_of_text() for place in places)
    point = next((cell for cell in cells if "." in cell and _is_number(cell)), None)
    if point is not None or all(_THOUSANDS.fullmatch(text) for text in commas):
        why = "may have one for thousands" if point is None else f"{quoted(point)} has a point"
        where = f"{table.path}: {quoted(commas[0])}"
        raise ArgumentError(where, "", f"has a comma, and {why}", _COMMA_ADVICE)
    first = shown(commas[0])
    warn(f"{table.path} has decimal commas: {first} is read as {first.replace(',', '.', 1)}.")
    return True


def _not_numbers(table: FileTable, wrong: "pd.DataFrame", targets: Sequence[str]) -> ArgumentError:
    """The error on columns that hold something else than numbers, with what to do about it."""
    name, *rest = wrong
    bad, column, is_target = wrong[name].to_numpy(), table.frame[name], name in targets
    row, count, argument = int(bad.argmax()), int(column.nunique()), as_argument(name)
    cell = str(column.iloc[row])
    what = quoted(cell)
    # Dates and percentages are numbers in other words, even where none comes twice.
    keys = [one for one in wrong if one not in targets and _names_rows(table.frame[one], wrong[one])]
    otherwise = "name another target" if is_target else f"leave the column out with {{drop}} {argument}"
    if column.dtype.kind in "Mm" or _DATE.fullmatch(cell.strip()):
        what, hint = f"the date {what}", "write numbers, such as days since the first"
    elif _PERCENTAGE.fullmatch(cell.strip()):
        what, hint = f"the percentage {what}", "write numbers without the sign"
    elif is_target and (bad.mean() <= _FEW or count > len(bad) / 2):
        hint, otherwise = "correct it", "leave out its row"
    elif name in keys:
        what += ", and no entry comes twice, as in names of rows"
        hint, otherwise = otherwise, "write numbers"
    elif bad.mean() <= _FEW:
        hint = "correct it, leave out its row"
    elif is_target:
        what += f", one of {count} different entries"
        numbers = "0 and 1 for its classes" if count == 2 else "a column of 0 and 1 for each class"
        hint = f"reshuffle advise --classes learns classes; here write {numbers}"
    else:
        what += f", one of {count} different entries"
        hint = f"encode categories with {{one_hot}} {argument}"
    advice = f"{hint}, or {otherwise}."
    alike = [one for one in rest if (one in keys) == (name in keys)]
    unlike = [one for one in rest if one not in alike]
    for others, say in ((alike, "The same goes for"), (unlike, "No numbers either are in")):
        listed = some(others, lambda one: f"{quoted(one)} ({table.frame[one].nunique()} different entries)")
        advice += f" {say} column{'s' * (len(others) > 1)} {listed}." * bool(others)
    where = f"{table.path}: {table.place(row)}, column {quoted(name)}"
    return ArgumentError(where, "be a number", f"it is {what}", advice)


def _names_rows(column: "pd.Series", bad: "pd.Series") -> bool:
    """True for text in which no entry comes twice, and none is a number, a date or a percentage."""
    is_text = column.dtype.kind not in "Mm" and bad.all() and column.is_unique
    return bool(is_text) and not any(
        pattern.fullmatch(str(column.iloc[0]).strip()) for pattern in (_PERCENTAGE, _DATE)
    )


def _missing(
    table: FileTable, missing: "pd.DataFrame", remedy: str, away: Sequence[str], *others: str
) -> ArgumentError:
    """The error on all columns in which values are missing; those that may be left out have other remedies, too."""
    counts = missing.sum().to_dict()
    first = table.place(int(missing.any(axis=1).to_numpy().argmax()))
    (name, count), *_ = counts.items()
    where, found = f"column {quoted(name)}", f"has {count} missing value{'s' * (count > 1)}"
    if len(counts) > 1:
        where = f"columns {some(counts, lambda name: f'{quoted(name)} ({counts[name]})')}"
        found = "have missing values"
    ways = [remedy]
    if away:
        drops = " ".join(f"{{drop}} {as_argument(name)}" for name in away[:_LONGEST_LIST])
        drops += " ..." * (len(away) > _LONGEST_LIST)
        ways += [f"leave the column{'s' * (len(away) > 1)} out with {drops}", *others]
    return ArgumentError(f"{table.path}: {where}", "", f"{found}, the first in {first}", ", or ".join(ways))


def _words(table: FileTable, names: Iterable[str]) -> dict[str, "pd.Series"]:
    """The cells of columns of categories as text, none of them missing."""
    return {
        name: _complete(table, name, "write a word for it in the file", [name]).astype(str) for name in names
    }


def _complete(table: FileTable, name: str, remedy: str, away: Sequence[str] = ()) -> "pd.Series":
    """A column without missing values; where there are some, the error has the remedies of `_missing`."""
    missing = table.frame[[name]].isna()
    if missing.to_numpy().any():
        table.require_equal_rows()
        raise _missing(table, missing, remedy, away)
    return table.frame[name]


def _encoded(
    numbers: "FloatArray", cells: "dict[str, pd.Series]", encoded: dict[str, list[str]]
) -> "FloatArray":
    """The features: numbers, and a column of zeros and ones for each category."""
    import numpy as np

    columns = [cells[name] == word for name, words in encoded.items() for word in words]
    return np.column_stack([numbers, *columns]).astype(np.float64) if columns else numbers
