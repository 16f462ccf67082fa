"""Which column of a file is y, which are features, and how those of a second file match them."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshuffle.cli import tables
from reshuffle.cli.complaints import InputError, warn
from reshuffle.cli.tables import Table, quoted, shown, some

if TYPE_CHECKING:
    from reshuffle._arrays import FloatArray

_UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__", re.ASCII)
"""What an index of pandas is called in a file."""
_LONGEST_LIST = 8
"""Features that are all named."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Features and responses of a file.

    Attributes
    ----------
    path : str
    X, y :
        (n, p) and (n,).
    target : str
        What y is called.
    features : list of str or None
        What the columns of X are called; None if the file does not say.
    choice : str
        Why this column is y, if that was not asked for.
    truth : dict
        `beta_star`, `covariance` and `noise`, as far as the file knows them.
    """

    path: str
    X: "FloatArray"
    y: "FloatArray"
    target: str
    features: list[str] | None
    choice: str = ""
    truth: dict[str, Any] = field(default_factory=dict)

    def describe(self) -> str:
        """One line for people: which column is y, and which are features."""
        p = self.X.shape[1]
        if self.features is None:
            return (
                f"y = {self.target}{self.choice}, features = the {'other ' * bool(self.choice)}{p} columns."
            )
        names = [shown(name) for name in self.features]
        if p > _LONGEST_LIST:
            names = [*names[:4], "...", f"{names[-1]} ({p} of them)"]
        return f"y = {shown(self.target)}{self.choice}, features = {', '.join(names)}."


def read(path: str, target: str | None = None) -> Samples:
    """X, y and what the file knows of the truth.

    npz: arrays X and y, and `beta_star`, `covariance`, `noise`. npy: the last column is y. csv and parquet: the
    column `target`, else the one named y, else the last.
    """
    kind = Path(path).suffix.lower()
    if kind not in (".npz", *tables.KINDS):
        raise InputError(
            f"{path}: data files end in .npz, .npy, .csv or .parquet, but this one ends in {kind!r}."
        )
    if target is not None and kind in (".npz", ".npy"):
        holds = "a npz file holds X and y" if kind == ".npz" else "a npy file has no names"
        raise InputError(f"--target names a column of a csv or parquet file; {holds}.")
    return _of_arrays(path) if kind == ".npz" else _of_table(tables.read(path), target)


def read_matching(path: str, training: Samples) -> Samples:
    """Rows of another file with the features of the training rows: by name, or by place if there are no names."""
    if training.features is None:
        found = read(path)
        if found.features is not None:
            raise _mixed(path, training.path)
        if found.X.ndim != 2 or found.X.shape[1] != training.X.shape[1]:
            raise InputError(
                f"--test must have {training.X.shape[1]} features as the data has, but it has {found.X.shape[-1]}."
            )
        return found
    if Path(path).suffix.lower() == ".npz":
        raise _mixed(training.path, path)
    table = _require_columns(tables.read(path))
    if table.names is None:
        raise _mixed(training.path, path)
    wanted = [*training.features, training.target]
    for words, names in (
        ("it lacks", [name for name in wanted if name not in table.names]),
        ("it also has", [name for name in table.names if name not in wanted]),
    ):
        if names:
            listed = [shown(name) for name in names[:_LONGEST_LIST]] + ["..."] * (len(names) > _LONGEST_LIST)
            raise InputError(
                f"--test {path} must have the columns of {training.path}, in any order, "
                f"but {words} {', '.join(listed)}."
            )
    values = table.values[:, [table.names.index(name) for name in wanted]]
    return Samples(path, values[:, :-1], values[:, -1], training.target, training.features)


def entry(path: str, arrays: Any, name: str) -> Any:
    """An array of a npz file."""
    if not isinstance(arrays, dict) or name not in arrays:
        held = ", ".join(arrays) if isinstance(arrays, dict) else "a single array"
        raise InputError(f"{path} must hold an array named {name}, but it holds {held or 'nothing'}.")
    return arrays[name]


def _mixed(named: str, nameless: str) -> InputError:
    return InputError(
        f"--data and --test must both name their columns, or neither, but {named} does and {nameless} does not."
    )


def _of_arrays(path: str) -> Samples:
    arrays = tables.load(path)
    X, y = entry(path, arrays, "X"), entry(path, arrays, "y")
    truth = {name: arrays[name] for name in ("beta_star", "covariance", "noise") if name in arrays}
    if X.ndim != 2:
        raise InputError(f"{path}: X must be two-dimensional, (rows, columns), but its shape is {X.shape}.")
    if y.ndim != 1:
        raise InputError(
            f"{path}: y must be a vector, one response per row, but its shape is {y.shape}; "
            "save one of its columns as y, or ask LeastSquares(X, y) in Python about all of them."
        )
    return Samples(path, X, y, "the array y", None, "", truth)


def _of_table(table: Table, target: str | None) -> Samples:
    import numpy as np

    _require_columns(table)
    names, values, choice = table.names, table.values, ""
    if target is not None and (names is None or target not in names):
        found = "has no header" if names is None else f"has columns {some(names)}"
        raise InputError(
            f"--target must be a column of {table.path}, which {found}, but it is {quoted(target)}."
        )
    last = values.shape[1] - 1
    if names is None:
        place, choice = last, " (the last)"
    elif target is None and "y" not in names:
        place, choice = last, " (the last column; --target NAME takes another)"
    else:
        place = names.index("y" if target is None else target)
    X, y = np.delete(values, place, axis=1), values[:, place]
    if names is None:
        return Samples(table.path, X, y, f"column {last + 1}", None, choice)
    return Samples(table.path, X, y, names[place], [*names[:place], *names[place + 1 :]], choice)


def _require_columns(table: Table) -> Table:
    if table.values.ndim != 2 or table.values.shape[1] < 2:
        raise InputError(
            f"{table.path} must be a table with at least two columns, features and y, "
            f"but its shape is {table.values.shape}."
        )
    return table


def warn_of_indices(samples: Samples) -> None:
    """An index that pandas wrote is a feature like any other, and seldom meant to be."""
    import numpy as np

    names = samples.features or [f"column {place + 1}" for place in range(samples.X.shape[1])]
    columns = [*zip(names, np.asarray(samples.X).T, strict=True), (samples.target, samples.y)]
    suspects = []
    for name, values in columns:
        if samples.features is not None and _UNNAMED.fullmatch(name):
            suspects.append(f"{shown(name)} (without a name)")
        elif _counts(values):
            suspects.append(f"{shown(name)} (counts {values[0]:g}, {values[1]:g}, {values[2]:g}, ...)")
    if suspects:
        warn(
            f"{samples.path} has what looks like an index of its rows, and it is used as data: "
            f"{', '.join(suspects[:_LONGEST_LIST])}. If it is one, drop it: in pandas, to_csv(..., index=False)."
        )


def _counts(values: "FloatArray") -> bool:
    import numpy as np

    return (
        values.ndim == 1
        and len(values) > 2
        and values.dtype.kind in "iuf"
        and bool((np.diff(values) == 1).all())
    )
