"""Rows that are read in chunks: files, tables and arrays of Dask as sources, and the compressed rows of a pass."""

import math
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import AnyArray, BoolArray, FloatArray, checked_responses, checked_weights, weighted
from reshuffle._progress import track
from reshuffle.errors import BudgetError
from reshuffle.problem.batches import BatchFactors, RowGroups
from reshuffle.problem.row_space import CompressedRows

IN_MEMORY = float(1 << 26)
"""Bytes up to which the rows of files are read into memory, where more can be asked of them."""
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
        """Bytes of all rows as float64."""
        return 8.0 * self.rows * (self.columns or 1)


@dataclass(eq=False)
class ArrayRows(RowSource):
    """An array, in memory or mapped to a file, whose pages are read when they are asked for."""

    array: AnyArray

    def __post_init__(self) -> None:
        self.rows = len(self.array)
        self.columns = None if self.array.ndim == 1 else self.array.shape[1]

    def chunks(self) -> Iterator[AnyArray]:
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


class ChunkReader:
    """Takes the rows of chunks in pieces of any height.

    >>> reader = ChunkReader(iter([np.arange(3), np.arange(3, 5)]))
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


_AHEAD = 1
"""Chunks, and files, that are read beside the one that is worked on: pyarrow's own choice takes gigabytes."""


class ArrayFiles(RowSource):
    """The rows of several files of arrays, one after the other; only one of them is mapped at a time.

    Parameters
    ----------
    name : str
        Of the argument, for messages.
    paths : list of Path
        In the order of their rows.
    """

    def __init__(self, name: str, paths: Sequence[Path]):
        self._name, self._paths = name, list(paths)
        shapes = [self._mapped(path).shape for path in self._paths]
        for path, shape in zip(self._paths, shapes, strict=True):
            if len(shape) not in (1, 2) or shape[1:] != shapes[0][1:]:
                raise ValueError(
                    f"{name} must be files whose arrays have the same columns, but {self._paths[0].name} has shape "
                    f"{shapes[0]} and {path.name} has {shape}."
                )
        self.rows = sum(shape[0] for shape in shapes)
        self.columns = shapes[0][1] if len(shapes[0]) == 2 else None

    def _mapped(self, path: Path) -> AnyArray:
        try:
            mapped: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(
                f"{self._name} must be files of numbers in numpy's format npy, but {path.name} cannot be read: "
                f"{str(error).rstrip('.')}."
            ) from None
        return mapped

    def chunks(self) -> Iterator[AnyArray]:
        for path in self._paths:
            yield from ArrayRows(self._mapped(path)).chunks()


def dataset_of(paths: Sequence[Path]) -> Any:
    """Parquet files as one dataset."""
    try:
        import pyarrow.dataset
    except ImportError:
        raise ImportError("parquet files need pyarrow, which is not installed: install pyarrow.") from None
    return pyarrow.dataset.dataset([str(path) for path in paths], format="parquet")


def is_dataset(value: Any) -> bool:
    """True for datasets of pyarrow, which is not imported to be asked."""
    return type(value).__module__.startswith("pyarrow") and callable(getattr(value, "count_rows", None))


def column_names(dataset: Any) -> list[str]:
    """The names of the columns, in their order."""
    return list(dataset.schema.names)


class TableRows(RowSource):
    """Some columns of a dataset, which must hold numbers.

    Parameters
    ----------
    name : str
        Of the argument, for messages.
    dataset : pyarrow.dataset.Dataset
    columns : list of str
    """

    names: list[str]

    def __init__(self, name: str, dataset: Any, columns: Sequence[str]):
        import pyarrow

        self._dataset, self.names = dataset, list(columns)
        for column in self.names:
            kind = dataset.schema.field(column).type
            is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)
            if not (is_number or pyarrow.types.is_boolean(kind)):
                raise TypeError(
                    f"{name} must hold real numbers, but column {column!r} holds {kind}; drop such columns, or "
                    "encode them as numbers first."
                )
        self.rows, self.columns = int(dataset.count_rows()), len(self.names)

    def chunks(self) -> Iterator[AnyArray]:
        scanner = self._dataset.scanner(
            columns=self.names, batch_size=self.height, batch_readahead=_AHEAD, fragment_readahead=_AHEAD
        )
        for batch in scanner.to_batches():
            if batch.num_rows:
                chunk = np.empty((batch.num_rows, batch.num_columns))
                for place, column in enumerate(batch.columns):
                    chunk[:, place] = column.to_numpy(zero_copy_only=False)
                yield chunk


Pair: TypeAlias = tuple[FloatArray, FloatArray]
"""X (m, p) and y (m,) or (m, t)."""
Part = TypeVar("Part")
Prepare: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray | None], Pair]
"""What is made of features, responses and weights."""
_SHARE = 0.5
"""Of the memory, that what is kept of the rows may take."""
_REMEMBERED = 4
"""Ways to cut the rows whose factors are kept for the next question."""


def _as_weighted(X: FloatArray, y: FloatArray, weights: FloatArray | None) -> Pair:
    """Rows multiplied by the roots of their weights, if they have any."""
    return (X, y) if weights is None else weighted(X, y, weights)


@dataclass(frozen=True, eq=False)
class Standardization:
    """Centring and scaling: subtracts means from features and responses, and divides features by scales.

    Attributes
    ----------
    X_mean, X_scale : (p,)
    y_mean : (t,)
    is_constant : (p,)
        Which columns hold but one number, and are exactly zero once it is subtracted.
    """

    X_mean: FloatArray
    X_scale: FloatArray
    y_mean: FloatArray
    is_constant: BoolArray

    def __call__(self, X: FloatArray, y: FloatArray, weights: FloatArray | None) -> Pair:
        """Prepared rows, weighted."""
        features = (X - self.X_mean) / self.X_scale
        features[:, self.is_constant] = 0.0
        return _as_weighted(features, y - (self.y_mean[0] if y.ndim == 1 else self.y_mean), weights)


def _with_weights(X: FloatArray, y: FloatArray, weights: FloatArray | None) -> Pair:
    """Rows as they are, with their weights as one more column of the responses."""
    column = np.ones(len(X)) if weights is None else weights
    return X, np.column_stack([y, column])


@dataclass(frozen=True, eq=False)
class Moments:
    """The sum of the weights of rows, the weighted means of their columns, and the squares around these.

    >>> first, second = (Moments.of(np.full((1, 1), x), np.array([[0.0, 1.0]])) for x in (1.0, 3.0))
    >>> both = first.merged(second)
    >>> both.X_mean, both.X_squares
    (array([2.]), array([2.]))
    """

    total: float
    X_mean: FloatArray
    X_squares: FloatArray
    y_mean: FloatArray

    @classmethod
    def of(cls, X: FloatArray, responses: FloatArray) -> "Moments":
        """Moments of some rows, whose weights are the last column of the responses."""
        weights = responses[:, -1]
        mean = np.average(X, axis=0, weights=weights)
        squares = weights @ np.square(X - mean)
        return cls(
            float(weights.sum()), mean, squares, np.average(responses[:, :-1], axis=0, weights=weights)
        )

    def merged(self, other: "Moments") -> "Moments":
        """Moments of both together."""
        total = self.total + other.total
        share, apart = other.total / total, other.X_mean - self.X_mean
        return Moments(
            total,
            self.X_mean + share * apart,
            self.X_squares + other.X_squares + self.total * share * np.square(apart),
            self.y_mean + share * (other.y_mean - self.y_mean),
        )


class Stream:
    """Rows with their responses, never in memory as a whole.

    Parameters
    ----------
    features, responses : RowSource
        With as many rows each.
    weights : (n,), optional
    """

    def __init__(self, features: RowSource, responses: RowSource, weights: FloatArray | None):
        self._features, self._responses, self._weights = features, responses, weights
        self._prepare: Prepare = _as_weighted
        self.n, self.p, self.outputs = features.rows, features.columns or 1, responses.columns
        self.names, self.passes = features.names, 0
        self._known: dict[tuple[bytes, ...], CompressedRows] = {}

    def prepared(self, preparation: Standardization, weights: FloatArray | None) -> "Stream":
        """The stream with rows centred and scaled on their way, and with other weights."""
        made = copy(self)
        made._prepare, made._weights, made._known = preparation, weights, {}
        return made

    @property
    def weights(self) -> FloatArray | None:
        """Weights of the rows, (n,), if they have any."""
        return self._weights

    def moments(self) -> Moments:
        """One pass over the rows: the weighted means of the columns, and the squares around them."""
        return self.gathered(Moments.of, Moments.merged, _with_weights)

    def pairs(self, prepare: Prepare | None = None) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Number of the first row, features (m, p) and responses (m,) or (m, t), chunk after chunk."""
        self.passes += 1
        responses, start = ChunkReader(self._responses.chunks()), 0
        total = math.ceil(self.n / self._features.height)
        for chunk in track(self._features.chunks(), total, "reading rows"):
            rows = slice(start, start + len(chunk))
            X, y = as_numbers("X", chunk, start), as_numbers("y", responses.take(len(chunk)), start)
            start = rows.stop
            weights = None if self._weights is None else self._weights[rows]
            yield rows.start, *(prepare or self._prepare)(X, y, weights)

    def compressed(self, groups: RowGroups | None = None) -> CompressedRows:
        """Compressed rows of each group; of any groups, if none are given and some are known."""
        if groups is None:
            if self._known:
                return next(reversed(self._known.values()))
            groups = RowGroups.whole(self.n)
        if groups.key not in self._known:
            rows = float(groups.sizes.clip(max=self.p + 1).sum())
            needed, room = 8 * rows * (self.p + (self.outputs or 1)), _SHARE * _arrays.memory()
            if needed > room:
                raise BudgetError(
                    f"{groups.count} batches of {self.n} rows that are read in chunks would keep {needed:.2g} "
                    f"bytes, but {room:.2g} are allowed, half of the memory; try fewer and larger batches."
                )
            if groups.count == 1 and self._known:
                # All rows in one group, from what is known of several: that takes no pass.
                made = BatchFactors(1, self.p, self.outputs)
                made.merge(next(reversed(self._known.values())), together=True)
            else:
                made = self.factors(groups)
            self._known[groups.key] = made.compressed()
            while len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return self._known[groups.key]

    def factors(self, groups: RowGroups) -> BatchFactors:
        """One pass over the rows: the factors of all groups."""
        made = BatchFactors(groups.count, self.p, self.outputs)
        for start, X, y in self.pairs():
            made.add_labelled(X, y, groups.of(start, start + len(X)))
        return made

    def gathered(
        self,
        work: Callable[[FloatArray, FloatArray], Part],
        merge: Callable[[Part, Part], Part],
        prepare: Prepare | None = None,
    ) -> Part:
        """One pass over the rows: what `work` makes of X (m, p) and y of each chunk, merged."""
        return reduce(merge, (work(X, y) for _, X, y in self.pairs(prepare)))


_KINDS = "a .npy or .parquet file, or a folder of such files"


def is_dask(value: Any) -> bool:
    """True for collections of Dask, which is not imported to be asked."""
    return type(value).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(value, "to_delayed")


@dataclass(frozen=True, eq=False)
class FewRows:
    """All rows of a source: X (n, p), y (n,) or (n, t), and the names of the columns of X, if they have any."""

    X: FloatArray
    y: FloatArray
    names: list[str] | None


def opened(X: Any, y: Any, sample_weight: Any, in_memory: bool | None = None) -> Stream | FewRows | None:
    """A stream of rows, all rows if they are few or are wanted so, or None if X is an array in memory."""
    most = IN_MEMORY if in_memory is None else math.inf if in_memory else 0.0
    made = _opened_pair(X, y, most)
    if made is None:
        if in_memory is False and not isinstance(X, np.memmap):
            raise ValueError(
                "in_memory must be True or left out for rows that are in memory already, but it is False; "
                f"X is a {type(X).__name__}."
            )
        return None
    features, responses = made
    if features.columns is None:
        raise ValueError(f"X must be two-dimensional, (rows, columns), but its shape is ({features.rows},).")
    if not (features.rows and features.columns):
        raise ValueError(
            f"X must have at least one row and one column, but its shape is ({features.rows}, {features.columns})."
        )
    if responses.rows != features.rows or responses.columns == 0:
        raise ValueError(
            f"y must have one row per row of X, {features.rows}, but it has {responses.rows}."
            if responses.columns != 0
            else "y must have at least one column, but it has none."
        )
    if is_dask(X) and not in_memory:
        from reshuffle.problem import dask_rows

        weights = None if sample_weight is None else checked_weights(sample_weight, features.rows)
        return dask_rows.DaskStream(features, responses, weights)
    if in_memory or features.bytes + responses.bytes <= most:
        return FewRows(_whole("X", features), _whole("y", responses), features.names)
    weights = None if sample_weight is None else checked_weights(sample_weight, features.rows)
    return Stream(features, responses, weights)


def opened_rows(X: Any, names: Sequence[str] | None) -> RowSource | None:
    """The source of features alone, of a table those of some columns; None if X is an array in memory."""
    if is_dask(X):
        from reshuffle.problem import dask_rows

        return dask_rows.opened_rows(X, names)
    if isinstance(X, str | os.PathLike):
        paths = _files("X", Path(X))
        if paths[0].suffix == ".npy":
            return ArrayFiles("X", paths)
        X = dataset_of(paths)
    if is_dataset(X):
        return TableRows("X", X, names or column_names(X))
    return ArrayRows(X) if isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > IN_MEMORY else None


def _whole(name: str, source: RowSource) -> FloatArray:
    return as_numbers(name, np.concatenate(list(source.chunks())), 0)


def _opened_pair(X: Any, y: Any, most: float) -> tuple[RowSource, RowSource] | None:
    """The sources of features and responses, of a table by the names of their columns."""
    if is_dask(X):
        from reshuffle.problem import dask_rows

        return dask_rows.opened(X, y)
    if isinstance(X, str | os.PathLike):
        paths = _files("X", Path(X))
        if paths[0].suffix == ".npy":
            return ArrayFiles("X", paths), _responses(y)
        X = dataset_of(paths)
    if is_dataset(X):
        return _of_table(X, y)
    if isinstance(X, np.memmap) and X.nbytes > most and X.ndim == 2:
        return ArrayRows(X), _responses(y)
    return None


def _files(name: str, path: Path) -> list[Path]:
    """The files of a folder that are read, sorted by their names, or the one file itself."""
    if path.is_file() and path.suffix in (".npy", ".parquet"):
        return [path]
    if not path.is_dir():
        raise ValueError(f"{name} must be an array, or {_KINDS}, but there is none at {str(path)!r}.")
    found = sorted(each for each in path.iterdir() if each.suffix in (".npy", ".parquet"))
    kinds = {each.suffix for each in found}
    if len(kinds) != 1:
        which = "holds both" if kinds else "holds none"
        raise ValueError(
            f"{name} must be {_KINDS}, all of one kind, but {str(path)!r} {which} of .npy and .parquet files."
        )
    return found


def _responses(y: Any) -> RowSource:
    """Responses beside rows that have no names of columns."""
    if isinstance(y, str | os.PathLike):
        path = Path(y)
        if not path.exists():
            raise ValueError(
                f"y must be an array, or {_KINDS}, since the columns of X have no names, but there is none at "
                f"{str(y)!r}."
            )
        paths = _files("y", path)
        if paths[0].suffix == ".npy":
            return _single_column(ArrayFiles("y", paths))
        y = dataset_of(paths)
    if is_dataset(y):
        return _single_column(TableRows("y", y, column_names(y)))
    if isinstance(y, np.memmap) and y.ndim in (1, 2):
        return ArrayRows(y)
    if is_dask(y):
        raise TypeError("y must not be a Dask collection where X is none; try y.compute(), or a Dask X.")
    array = np.asarray(y)
    return ArrayRows(checked_responses(y, len(array) if array.ndim else 1))


def _single_column(source: RowSource) -> RowSource:
    """Files of one column are a vector."""
    return _Column(source) if source.columns == 1 else source


class _Column(RowSource):
    """The only column of a source."""

    def __init__(self, source: RowSource):
        self._source, self.rows, self.columns = source, source.rows, None

    def chunks(self) -> Iterator[AnyArray]:
        return (chunk.reshape(-1) for chunk in self._source.chunks())


def _of_table(dataset: Any, y: Any) -> tuple[RowSource, RowSource]:
    names = column_names(dataset)
    # A name that is no column may be that of a file.
    is_path = isinstance(y, str) and y not in names and Path(y).exists()
    chosen = None if is_path else response_columns(y, names)
    if chosen is None:
        return TableRows("X", dataset, names), _responses(y)
    rest = [name for name in names if name not in chosen]
    responses = TableRows("y", dataset, chosen)
    return TableRows("X", dataset, rest), _Column(responses) if isinstance(y, str) else responses
