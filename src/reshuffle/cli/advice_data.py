"""What `reshuffle advise` learns from: which columns are targets, features, encoded or left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reshuffle.cli import large_columns, named_columns, samples, tables
from reshuffle.cli.complaints import InputError, warn
from reshuffle.cli.large_columns import LargeColumns
from reshuffle.cli.named_columns import NamedColumns, as_argument
from reshuffle.cli.samples import Samples
from reshuffle.cli.tables import quoted, shown, some

if TYPE_CHECKING:
    from reshuffle._arrays import FloatArray

_LARGEST = 1e100
_FEWEST_ROWS = 3
"""One to leave out, and two to learn from."""


@dataclass(frozen=True, eq=False)
class AdviceData:
    """Features and targets of a file, as numbers.

    Attributes
    ----------
    path : str
    X : (n, p)
        Columns of numbers, then a column of zeros and ones per category, as pandas.get_dummies has them.
    y : (n, t)
    targets : list of str
    numeric : list of str
        Features that are numbers.
    encoded : dict
        Features that are categories, each with its categories in ascending order.
    dropped, constant : lists of str
        What was left out because it was asked for, and because it is the same in every row.
    separator, has_decimal_commas, is_padded :
        How the file is written.
    """

    path: str
    X: "FloatArray"
    y: "FloatArray"
    targets: list[str]
    numeric: list[str]
    encoded: dict[str, list[str]]
    dropped: list[str]
    constant: list[str]
    separator: str
    has_decimal_commas: bool
    is_padded: bool

    @property
    def features(self) -> list[str]:
        """What the columns of X are called."""
        return [*self.numeric, *(f"{name}_{word}" for name, words in self.encoded.items() for word in words)]

    def describe(self) -> str:
        """One line for people."""
        n, p = self.X.shape
        parts = [
            f"{n} rows, {p} feature{'s' * (p > 1)}",
            f"target{'s' * (len(self.targets) > 1)} {some(self.targets)}",
        ]
        if self.encoded:
            words = [f"{shown(name)} ({len(words)} categories)" for name, words in self.encoded.items()]
            parts.append(f"encoded {', '.join(words)}")
        if self.dropped:
            parts.append(f"left out {some(self.dropped)}")
        if self.constant:
            parts.append(f"left out as constant {some(self.constant)}")
        return f"{self.path}: {'; '.join(parts)}."

    def held_out(self, path: str) -> tuple["FloatArray", "FloatArray"]:
        """X and y of another file, whose columns may stand in any order."""
        table = _table(path)
        wanted = [*self.numeric, *self.encoded, *self.targets]
        lacking = [name for name in wanted if name not in table.names]
        if lacking:
            raise InputError(
                f"--test {path} must have the columns of {self.path}, but it lacks {some(lacking)}."
            )
        numbers, _ = table.numbers([*self.numeric, *self.targets])
        features, targets = numbers[:, : len(self.numeric)], numbers[:, len(self.numeric) :]
        for name, words in self.encoded.items():
            new = sorted(set(table.words(name)) - set(words))
            if new:
                warn(f"{path}: column {quoted(name)} has categories that {self.path} has not: {some(new)}.")
        return _with_categories(table, features, self.encoded), targets


def read(path: str, target: Sequence[str], drop: Sequence[str], one_hot: Sequence[str]) -> AdviceData:
    """Read a file; what cannot be learned from is refused by name."""
    import numpy as np

    table = _table(path)
    targets = _targets(table, target)
    dropped, words = _named(table, "--drop", drop), _named(table, "--one-hot", one_hot)
    for option, names, others in (
        ("--drop", dropped, targets),
        ("--one-hot", words, targets),
        ("--one-hot", words, dropped),
    ):
        both = [name for name in names if name in others]
        if both:
            what = "--target" if others is targets else "--drop"
            raise InputError(f"{option} and {what} must name different columns, but both name {some(both)}.")
    if table.rows < _FEWEST_ROWS:
        raise InputError(
            f"{path} must have at least {_FEWEST_ROWS} rows, to leave one out and learn from the others, "
            f"but it has {table.rows}."
        )
    others = [name for name in table.names if name not in {*targets, *dropped, *words}]
    numbers, has_commas = table.numbers([*others, *targets])
    X, y = numbers[:, : len(others)], numbers[:, len(others) :]
    _require_ordinary_sizes(path, [*others, *targets], numbers)
    _require_varying(path, targets, y)
    moving = [bool(np.ptp(column)) for column in X.T]
    constant = [name for name, moves in zip(others, moving, strict=True) if not moves]
    numeric = [name for name in others if name not in constant]
    encoded = {name: _categories(table, name) for name in words}
    constant += [name for name, found in encoded.items() if len(found) == 1]
    encoded = {name: found for name, found in encoded.items() if len(found) > 1}
    if not all(moving):
        X = X[:, moving]
    features = _with_categories(table, X, encoded)
    if not features.shape[1]:
        raise InputError(f"{path} must have a feature that is not constant beside --target, but it has none.")
    _require_no_copies(path, numeric, X, targets, y)
    for name, found in encoded.items():
        taken = [f"{name}_{word}" for word in found if f"{name}_{word}" in table.names]
        if taken:
            raise InputError(
                f"--one-hot {as_argument(name)} makes columns named {shown(name)}_..., but {path} has "
                f"{some(taken)} already; rename one of them."
            )
    samples.warn_of_indices(Samples(path, X, y[:, 0], targets[0], numeric))
    return AdviceData(
        path=path,
        X=features,
        y=y,
        targets=targets,
        numeric=numeric,
        encoded=encoded,
        dropped=dropped,
        constant=constant,
        separator=table.separator,
        has_decimal_commas=has_commas,
        is_padded=table.is_padded,
    )


def _table(path: str) -> NamedColumns | LargeColumns:
    """The columns of a file by name: of a large one, read in chunks."""
    if Path(path).exists() and large_columns.is_large(path):
        found = large_columns.read(path)
        tables.require_distinct(path, found.names)
        return found
    return named_columns.read(path)


def _targets(table: NamedColumns | LargeColumns, given: Sequence[str]) -> list[str]:
    if not given:
        raise InputError(
            f"--target must name the column of {table.path} to be predicted, one of {some(table.names)}."
        )
    if len(table.names) < 2:
        raise InputError(
            f"{table.path} must have a column beside --target to learn from, but it has one alone."
        )
    return _named(table, "--target", given)


def _named(table: NamedColumns | LargeColumns, option: str, given: Sequence[str]) -> list[str]:
    """Columns that were named one by one, or several with commas."""
    names: list[str] = []
    for text in given:
        parts = [part.strip() for part in text.split(",")]
        names += [text] if text in table.names or not set(parts) <= set(table.names) else parts
    for name in names:
        if name not in table.names:
            raise InputError(
                f"{option} must be a column of {table.path}, which has columns {some(table.names)}, "
                f"but it is {quoted(name)}."
            )
        if names.count(name) > 1:
            raise InputError(
                f"{option} must name each column once, but it names {quoted(name)} {names.count(name)} times."
            )
    return names


def _require_ordinary_sizes(path: str, names: Sequence[str], values: "FloatArray") -> None:
    """Refuse numbers whose squares are beyond the range of numbers."""
    import numpy as np

    sizes = np.maximum(values.max(axis=0), -values.min(axis=0))
    for name, size in zip(names, sizes, strict=True):
        if size and not 1 / _LARGEST < size < _LARGEST:
            raise InputError(
                f"{path}: column {quoted(name)} must have its largest entry between {1 / _LARGEST:g} and "
                f"{_LARGEST:g}, but that is {size:.3g}; write it in other units."
            )


def _require_varying(path: str, targets: Sequence[str], y: "FloatArray") -> None:
    for name, column in zip(targets, y.T, strict=True):
        if column.min() == column.max():
            raise InputError(
                f"--target {shown(name)} is {column[0]:g} in every row of {path}: there is nothing to be learned; "
                "name another column."
            )


def _require_no_copies(
    path: str, numeric: Sequence[str], X: "FloatArray", targets: Sequence[str], y: "FloatArray"
) -> None:
    for name, column in zip(numeric, X.T, strict=True):
        for target, answers in zip(targets, y.T, strict=True):
            if (column == answers).all():
                raise InputError(
                    f"{path}: column {quoted(name)} is a copy of --target {shown(target)} and would give it away; "
                    f"leave it out with --drop {as_argument(name)}."
                )


def _categories(table: NamedColumns | LargeColumns, name: str) -> list[str]:
    found = sorted(set(table.words(name)))
    if len(found) == table.rows:
        raise InputError(
            f"--one-hot {shown(name)} must be a column of categories, but every row of {table.path} has another "
            f"entry there; leave it out with --drop {as_argument(name)}."
        )
    return found


def _with_categories(
    table: NamedColumns | LargeColumns, numbers: "FloatArray", encoded: dict[str, list[str]]
) -> "FloatArray":
    import numpy as np

    if not encoded:
        return numbers
    columns = [np.asarray(table.words(name)) == word for name, words in encoded.items() for word in words]
    return np.column_stack([numbers, *columns]).astype(np.float64)
