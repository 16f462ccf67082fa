"""Reading X and y, and covariances, from files."""

import csv
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshuffle.cli.errors import InputError
from reshuffle.cli.options import ProblemOptions

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle.arrays import FloatArray


def problem(options: ProblemOptions) -> "rs.LeastSquares":
    """Draw the problem that the options describe, or read it."""
    import reshuffle as rs

    if options.data is not None:
        if options.n is not None or options.p is not None:
            raise InputError("--data brings its own n and p; leave out --n and --p.")
        return _own_problem(options)
    if options.target is not None:
        raise InputError("--target names a column of --data, which is not given.")
    if options.n is None or options.p is None:
        raise InputError("give --n and --p to draw data, or --data FILE to bring your own.")
    noise = 1.0 if options.noise is None else options.noise
    if options.p < 1:
        raise InputError(f"--p must be a whole number of at least 1, but it is {options.p}.")
    covariance = covariance_of(options.covariance, options.p)
    return rs.gaussian(options.n, options.p, covariance=covariance, noise=noise, seed=options.seed)


def _own_problem(options: ProblemOptions) -> "rs.LeastSquares":
    import reshuffle as rs

    assert options.data is not None
    X, y, truth = read(options.data, options.target)
    if options.noise is not None:
        truth["noise"] = options.noise
    if options.covariance != "identity":
        truth["covariance"] = covariance_of(options.covariance, X.shape[1])
    return rs.LeastSquares(X, y, **truth)


def read(path: str, target: str | None = None) -> tuple["FloatArray", "FloatArray", dict[str, Any]]:
    """X, y and what the file knows of the truth (`beta_star`, `covariance`, `noise` of an npz file).

    npz: arrays X and y. npy: the last column is y. csv and parquet: the column `target`, else the one named y,
    else the last.
    """
    kind = Path(path).suffix.lower()
    if kind == ".npz":
        return _from_npz(path, target)
    if kind == ".npy":
        if target is not None:
            raise InputError("--target names a column of a csv or parquet file; a npy file has no names.")
        return *_split(path, None, _load(path), None), {}
    if kind == ".csv":
        return *_split(path, *_from_csv(path), target), {}
    if kind == ".parquet":
        return *_split(path, *_from_parquet(path), target), {}
    raise InputError(
        f"{path}: data files end in .npz, .npy, .csv or .parquet, but this one ends in {kind!r}."
    )


def covariance_of(text: str, p: int) -> "FloatArray | None":
    """None for identity, a diagonal for powerlaw:EXP, or what a npy, npz or csv file holds."""
    import numpy as np

    if text == "identity":
        return None
    name, _, exponent = text.partition(":")
    if name == "powerlaw":
        try:
            power = float(exponent)
        except ValueError:
            power = float("nan")
        if not np.isfinite(power):
            raise InputError(
                f"--covariance powerlaw:EXP needs a number, such as powerlaw:1.5, but it is {text!r}."
            )
        with np.errstate(over="ignore"):
            return np.asarray(np.arange(1, p + 1, dtype=np.float64) ** -power)
    kind = Path(text).suffix.lower()
    if kind == ".npy":
        return np.asarray(_load(text))
    if kind == ".npz":
        arrays = _load(text)
        return np.asarray(_entry(text, arrays, "covariance"))
    if kind == ".csv":
        _, values = _from_csv(text)
        return values[:, 0] if values.shape[1] == 1 else values
    raise InputError(
        f"--covariance must be identity, powerlaw:EXP or a FILE.npy, .npz or .csv, but it is {text!r}."
    )


def _load(path: str) -> Any:
    """Arrays of numbers, never pickled objects: those could run code."""
    import numpy as np

    try:
        with open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else loaded
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is not a readable numpy file of numbers: {error}") from None


def _entry(path: str, arrays: Any, name: str) -> Any:
    if not isinstance(arrays, dict) or name not in arrays:
        held = ", ".join(arrays) if isinstance(arrays, dict) else "a single array"
        raise InputError(f"{path} must hold an array named {name}, but it holds {held or 'nothing'}.")
    return arrays[name]


def _from_npz(path: str, target: str | None) -> tuple["FloatArray", "FloatArray", dict[str, Any]]:
    if target is not None:
        raise InputError("--target names a column of a csv or parquet file; a npz file holds X and y.")
    arrays = _load(path)
    X, y = _entry(path, arrays, "X"), _entry(path, arrays, "y")
    truth = {name: arrays[name] for name in ("beta_star", "covariance", "noise") if name in arrays}
    if X.ndim != 2:
        raise InputError(f"{path}: X must be two-dimensional, (rows, columns), but its shape is {X.shape}.")
    return X, y, truth


def _from_csv(path: str) -> tuple[list[str] | None, "FloatArray"]:
    """The header, if the first line is not all numbers, and the numbers below."""
    import numpy as np

    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file in UTF-8.") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path} is empty.")
    separator = max(",;\t", key=lines[0].count)
    rows = list(csv.reader(lines, delimiter=separator))
    header = (
        None if all(_number(cell) is not None for cell in rows[0]) else [cell.strip() for cell in rows[0]]
    )
    body = rows if header is None else rows[1:]
    if not body:
        raise InputError(f"{path} has a header but no rows.")
    width = len(rows[0])
    numbers = []
    for place, row in enumerate(body, start=1 if header is None else 2):
        if len(row) != width:
            raise InputError(f"{path}: line {place} has {len(row)} cells, but the first line has {width}.")
        values = [_number(cell) for cell in row]
        if None in values:
            column = values.index(None)
            name = f"column {column + 1}" if header is None else f"column {header[column]!r}"
            raise InputError(f"{path}: line {place}, {name} must be a number, but it is {row[column]!r}.")
        numbers.append(values)
    return header, np.array(numbers, dtype=np.float64)


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _from_parquet(path: str) -> tuple[list[str], "FloatArray"]:
    import numpy as np

    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "parquet files need pyarrow, which is not installed; try pip install 'reshuffle[parquet]'."
        ) from None
    try:
        with open(path, "rb") as file:
            table = pyarrow.parquet.read_table(file)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError) as error:
        raise InputError(f"{path} is not a readable parquet file: {error}") from None
    columns = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        if not (pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)):
            raise InputError(f"{path}: column {name!r} must hold numbers, but its type is {column.type}.")
        if column.null_count:
            raise InputError(
                f"{path}: column {name!r} has {column.null_count} missing values; drop or impute them."
            )
        columns.append(np.asarray(column.to_numpy(), dtype=np.float64))
    return list(table.column_names), np.column_stack(columns) if columns else np.zeros((0, 0))


def _split(
    path: str, header: list[str] | None, values: Any, target: str | None
) -> tuple["FloatArray", "FloatArray"]:
    """Features and responses of a table."""
    import numpy as np

    if values.ndim != 2 or values.shape[1] < 2:
        raise InputError(
            f"{path} must be a table with at least two columns, features and y, but its shape is {values.shape}."
        )
    if target is not None and (header is None or target not in header):
        names = "has no header" if header is None else f"has columns {', '.join(header)}"
        raise InputError(f"--target must be a column of {path}, which {names}, but it is {target!r}.")
    wanted = target if target is not None else "y"
    at = header.index(wanted) if header is not None and wanted in header else values.shape[1] - 1
    return np.delete(values, at, axis=1), values[:, at]
