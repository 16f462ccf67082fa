"""Rows that are read in chunks: files, tables and arrays of Dask as sources, and the compressed rows of a pass."""

import math
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import AnyArray, FloatArray
from reshuffle._progress import track
from reshuffle.errors import ArgumentError, BudgetError
from reshuffle.problem.batches import BatchFactors, RowGroups
from reshuffle.problem.row_space import CompressedRows
from reshuffle.problem.standardizer import Moments, Standardizer

IN_MEMORY = float(1 << 26)
"""Bytes up to which the rows of files are read into memory, where more can be computed from them."""
CHUNK = 1 << 21
"""Entries that are read at a time."""
_SHOWN = 10
"""Names of columns in a message."""
_AHEAD = 1
"""Chunks, and files, that are read ahead: pyarrow's own choice takes gigabytes."""
_SHARE = 0.5
"""Share of the memory that compressed rows may take."""
_REMEMBERED = 4
"""Ways to cut the rows whose factors are remembered for the next question."""
_KINDS = "a .npy or .parquet file, or a folder of such files"

Pair: TypeAlias = tuple[FloatArray, FloatArray]
"""X (m, p) and y (m, t)."""
Part = TypeVar("Part")
Prepare: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray | None], Pair]
"""Makes a pair of features, responses and weights."""


@dataclass(eq=False)
class RowSource:
    """Rows (n, columns), or n numbers where `columns` is None; `read(height)` yields them some at a time."""

    rows: int
    columns: int | None
    read: Callable[[int], Iterator[AnyArray]]
    names: list[str] | None = None

    @property
    def height(self) -> int:
        """Rows that are read at a time."""
        return max(1, CHUNK // (self.columns or 1))

    @property
    def bytes(self) -> float:
        """Bytes of all rows as float64."""
        return 8.0 * self.rows * (self.columns or 1)

    def chunks(self) -> Iterator[AnyArray]:
        """The rows in their order; those of a single column that is a vector are one-dimensional."""
        for chunk in self.read(self.height):
            yield chunk.reshape(-1) if self.columns is None else chunk

    def as_vector(self) -> "RowSource":
        """A source of these rows as numbers, if they have one column."""
        return RowSource(self.rows, None, self.read) if self.columns == 1 else self


def array_rows(array: AnyArray) -> RowSource:
    """The rows of an array, in memory or mapped to a file, whose pages are read when they are needed."""
    return RowSource(len(array), None if array.ndim == 1 else array.shape[1], partial(_array_chunks, array))


def _array_chunks(array: AnyArray, height: int) -> Iterator[AnyArray]:
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    # What was written to a private copy of the pages would be lost with them.
    is_mapped = isinstance(array, np.memmap) and array.mode != "c" and isinstance(base, mmap.mmap)
    for start in range(0, len(array), height):
        yield array[start : start + height]
        if is_mapped and hasattr(mmap, "MADV_DONTNEED"):
            # Gives back the memory of the pages that have been read; else all of it would fill up.
            base.madvise(mmap.MADV_DONTNEED)


def _array_files(name: str, paths: Sequence[Path]) -> RowSource:
    """The rows of several files of arrays, one after the other; only one of them is mapped at a time."""
    shapes = [_mapped(name, path).shape for path in paths]
    for path, shape in zip(paths, shapes, strict=True):
        if len(shape) not in (1, 2) or shape[1:] != shapes[0][1:]:
            given = f"{paths[0].name} has shape {shapes[0]} and {path.name} has {shape}"
            raise ArgumentError(name, "be files whose arrays have the same columns", given)

    def chunks(height: int) -> Iterator[AnyArray]:
        for path in paths:
            yield from _array_chunks(_mapped(name, path), height)

    return RowSource(sum(shape[0] for shape in shapes), shapes[0][1] if len(shapes[0]) == 2 else None, chunks)


def _mapped(name: str, path: Path) -> AnyArray:
    try:
        mapped: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        allowed = "be files of numbers in numpy's format npy"
        raise ArgumentError(name, allowed, f"{path.name} cannot be read: {str(error).rstrip('.')}") from None
    return mapped


def _is_dataset(value: Any) -> bool:
    """True for datasets of pyarrow, which is not imported for the check."""
    return type(value).__module__.startswith("pyarrow") and callable(getattr(value, "count_rows", None))


def _table_rows(name: str, dataset: Any, columns: Sequence[str]) -> RowSource:
    """Some columns of a dataset of pyarrow, which must hold numbers; `name` is that of the argument."""
    import pyarrow

    for column in columns:
        kind = dataset.schema.field(column).type
        is_number = pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind)
        if not (is_number or pyarrow.types.is_boolean(kind)):
            raise TypeError(
                f"{name} must hold real numbers, but column {column!r} holds {kind}; drop such columns, or "
                "encode them as numbers first."
            )
    names = list(columns)

    def chunks(height: int) -> Iterator[AnyArray]:
        ahead = {"batch_readahead": _AHEAD, "fragment_readahead": _AHEAD}
        for batch in dataset.scanner(columns=names, batch_size=height, **ahead).to_batches():
            if batch.num_rows:
                chunk = np.empty((batch.num_rows, batch.num_columns))
                for place, column in enumerate(batch.columns):
                    chunk[:, place] = column.to_numpy(zero_copy_only=False)
                yield chunk

    return RowSource(int(dataset.count_rows()), len(names), chunks, names)


def response_columns(y: Any, names: Sequence[str]) -> list[str] | None:
    """The columns of a table that y names: one, or a list of several; None if it is no name.

    >>> response_columns("price", ["rooms", "price"])
    ['price']
    >>> response_columns("cost", ["rooms", "price"])
    Traceback (most recent call last):
    ...
    reshuffle.errors.ArgumentError: y must name a column of X, but 'cost' is none of them: 'rooms', 'price'.
    """
    chosen = [y] if isinstance(y, str) else y
    if not (isinstance(chosen, list | tuple) and chosen and all(isinstance(each, str) for each in chosen)):
        return None
    missing = [name for name in chosen if name not in names]
    if missing:
        shown = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
        raise ArgumentError("y", "name a column of X", f"{missing[0]!r} is none of them: {shown}")
    return list(chosen)


def _as_weighted(X: FloatArray, y: FloatArray, weights: FloatArray | None) -> Pair:
    """Rows multiplied by the roots of their weights, if they have any."""
    return (X, y) if weights is None else _arrays.weighted(X, y, weights)


class Stream:
    """Rows with their responses, and weights (n,) if there are any, never in memory as a whole."""

    def __init__(self, features: RowSource, responses: RowSource, weights: FloatArray | None):
        self._features, self._responses, self.weights = features, responses, weights
        self._prepare: Prepare = _as_weighted
        self.n, self.p, self.outputs = features.rows, features.columns or 1, responses.columns
        self.names, self.passes = features.names, 0
        self._known: dict[tuple[bytes, ...], CompressedRows] = {}

    def standardizer(self, *, centre: bool, scale: bool) -> Standardizer:
        """Standardizer of all rows, from one pass over them; from none if nothing is centred or scaled."""
        if not (centre or scale):
            return Standardizer.identity(self.p, self.outputs)

        # Rows as they are, with their weights as one more column of the responses.
        def with_weights(X: FloatArray, y: FloatArray, weights: FloatArray | None) -> Pair:
            return X, np.column_stack([y, np.ones(len(X)) if weights is None else weights])

        def moments_of(X: FloatArray, y: FloatArray) -> Moments:
            return Moments.of(X, y[:, :-1], y[:, -1])

        moments = self.gathered(moments_of, Moments.merged, with_weights)
        made = Standardizer.of_moments(moments, self.n, centre=centre, scale=scale)
        return replace(made, response_mean=made.response_mean[0]) if self.outputs is None else made

    def standardized(self, standardizer: Standardizer, weights: FloatArray | None) -> "Stream":
        """The stream with rows centred and scaled as they are read, and with other weights."""

        def standardized(X: FloatArray, y: FloatArray, weights: FloatArray | None) -> Pair:
            return _as_weighted(standardizer.rows(X), standardizer.responses(y), weights)

        made = copy(self)
        made._prepare, made.weights, made._known = standardized, weights, {}
        return made

    def pairs(self, prepare: Prepare | None = None) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Number of the first row, features (m, p) and responses (m, t), chunk after chunk."""
        self.passes += 1
        total, start, responses = math.ceil(self.n / self._features.height), 0, self._responses.chunks()
        waiting = np.zeros((0,) if self.outputs is None else (0, self.outputs))
        for chunk in track(self._features.chunks(), total, "reading rows"):
            while len(waiting) < len(chunk):
                following = next(responses, None)
                if following is None:
                    raise ArgumentError("y", "keep as many rows as it had", "it has become shorter since")
                waiting = np.concatenate([waiting, following]) if len(waiting) else following
            rows = slice(start, start + len(chunk))
            X = _arrays.real_array("X", chunk, first_row=start)
            y = _arrays.columns(_arrays.real_array("y", waiting[: len(chunk)], first_row=start))
            start, waiting = rows.stop, waiting[len(chunk) :]
            weights = None if self.weights is None else self.weights[rows]
            yield rows.start, *(prepare or self._prepare)(X, y, weights)

    def compressed(self, groups: RowGroups | None = None) -> CompressedRows:
        """Compressed rows of each group; of any groups, if none are given and some are known."""
        if groups is None:
            if self._known:
                return next(reversed(self._known.values()))
            groups = RowGroups.whole(self.n)
        if groups.key not in self._known:
            rows = float(groups.sizes.clip(max=self.p + 1).sum())
            needed, allowed = 8 * rows * (self.p + (self.outputs or 1)), _SHARE * _arrays.memory()
            if needed > allowed:
                raise BudgetError(
                    f"{groups.count} batches of {self.n} rows that are read in chunks would keep {needed:.2g} "
                    f"bytes, but {allowed:.2g} are allowed, half of the memory; try fewer and larger batches."
                )
            if groups.count == 1 and self._known:
                # All rows in one group follow from several: that takes no pass.
                made = BatchFactors(1, self.p, self.outputs or 1)
                made.merge(next(reversed(self._known.values())), together=True)
            else:
                made = self.factors(groups)
            self._known[groups.key] = made.compressed()
            while len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return self._known[groups.key]

    def factors(self, groups: RowGroups) -> BatchFactors:
        """One pass over the rows: the factors of all groups."""
        made = BatchFactors(groups.count, self.p, self.outputs or 1)
        for start, X, y in self.pairs():
            made.add_labelled(X, y, groups.at(np.arange(start, start + len(X))))
        return made

    def gathered(
        self,
        work: Callable[[FloatArray, FloatArray], Part],
        merge: Callable[[Part, Part], Part],
        prepare: Prepare | None = None,
    ) -> Part:
        """One pass over the rows: the results of `work` on X (m, p) and y of each chunk, merged."""
        return reduce(merge, (work(X, y) for _, X, y in self.pairs(prepare)))


def is_dask(value: Any) -> bool:
    """True for collections of Dask, which is not imported for the check."""
    return type(value).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(value, "to_delayed")


@dataclass(frozen=True, eq=False)
class FewRows:
    """All rows of a source: X (n, p), y (n,) or (n, t), and the names of the columns of X, if they have any."""

    X: FloatArray
    y: FloatArray
    names: list[str] | None


def opened(X: Any, y: Any, sample_weight: Any, in_memory: bool | None = None) -> Stream | FewRows | None:
    """A stream of rows, all rows if they are few or `in_memory`, or None if X is an array in memory."""
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
        raise ArgumentError("X", "be two-dimensional, (rows, columns)", f"its shape is ({features.rows},)")
    if not (features.rows and features.columns):
        allowed = "have at least one row and one column"
        raise ArgumentError("X", allowed, f"its shape is ({features.rows}, {features.columns})")
    if responses.columns == 0:
        raise ArgumentError("y", "have at least one column", "it has none")
    if responses.rows != features.rows:
        raise ArgumentError("y", f"have one row per row of X, {features.rows}", f"it has {responses.rows}")
    if in_memory or (not is_dask(X) and features.bytes + responses.bytes <= most):
        X, y = (np.concatenate(list(source.chunks())) for source in made)
        return FewRows(_arrays.real_array("X", X), _arrays.real_array("y", y), features.names)
    weights = None if sample_weight is None else _arrays.checked_weights(sample_weight, features.rows)
    if is_dask(X):
        from reshuffle.problem import dask_rows

        return dask_rows.DaskStream(features, responses, weights)
    return Stream(features, responses, weights)


def opened_rows(X: Any, names: Sequence[str] | None) -> RowSource | None:
    """The source of features alone, of a table those of some columns; None if X is an array in memory."""
    if is_dask(X):
        from reshuffle.problem import dask_rows

        return dask_rows.opened_rows(X, names)
    X = _file_or_dataset("X", X)
    if _is_dataset(X):
        return _table_rows("X", X, names or list(X.schema.names))
    if isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > IN_MEMORY:
        return array_rows(X)
    return X if isinstance(X, RowSource) else None


def _opened_pair(X: Any, y: Any, most: float) -> tuple[RowSource, RowSource] | None:
    """The sources of features and responses, of a table by the names of their columns."""
    if is_dask(X):
        from reshuffle.problem import dask_rows

        return dask_rows.opened(X, y)
    X = _file_or_dataset("X", X)
    if isinstance(X, np.memmap) and X.nbytes > most and X.ndim == 2:
        X = array_rows(X)
    if isinstance(X, RowSource):
        return X, _responses(y)
    if not _is_dataset(X):
        return None
    names = list(X.schema.names)
    # A name that is no column may be that of a file.
    is_path = isinstance(y, str) and y not in names and Path(y).exists()
    chosen = None if is_path else response_columns(y, names)
    if chosen is None:
        return _table_rows("X", X, names), _responses(y)
    responses = _table_rows("y", X, chosen)
    rest = _table_rows("X", X, [name for name in names if name not in chosen])
    return rest, responses.as_vector() if isinstance(y, str) else responses


def _file_or_dataset(name: str, value: Any) -> Any:
    """A path as the source of its .npy files, or as the dataset of its .parquet files; all else as it is."""
    if not isinstance(value, str | os.PathLike):
        return value
    path = Path(value)
    paths = [path]
    if not (path.is_file() and path.suffix in (".npy", ".parquet")):
        if not path.is_dir():
            raise ArgumentError(name, f"be an array, or {_KINDS}", f"there is none at {str(path)!r}")
        paths = sorted(each for each in path.iterdir() if each.suffix in (".npy", ".parquet"))
    kinds = {each.suffix for each in paths}
    if len(kinds) != 1:
        which = "holds both" if kinds else "holds none"
        allowed = f"be {_KINDS}, all of one kind"
        raise ArgumentError(name, allowed, f"{str(path)!r} {which} of .npy and .parquet files")
    if kinds == {".npy"}:
        return _array_files(name, paths)
    try:
        import pyarrow.dataset
    except ImportError:
        raise ImportError("parquet files need pyarrow, which is not installed: install pyarrow.") from None
    # What is buffered beforehand stays in memory until the file is read: three times the memory, and more time.
    options = pyarrow.dataset.ParquetFragmentScanOptions(pre_buffer=False)
    parquet = pyarrow.dataset.ParquetFileFormat(default_fragment_scan_options=options)
    return pyarrow.dataset.dataset([str(path) for path in paths], format=parquet)


def _responses(y: Any) -> RowSource:
    """Responses for rows whose columns have no names."""
    if isinstance(y, str | os.PathLike) and not Path(y).exists():
        allowed = f"be an array, or {_KINDS}, since the columns of X have no names"
        raise ArgumentError("y", allowed, f"there is none at {str(y)!r}")
    y = _file_or_dataset("y", y)
    if _is_dataset(y):
        y = _table_rows("y", y, list(y.schema.names))
    if isinstance(y, RowSource):
        # Files of one column are a vector.
        return y.as_vector()
    if isinstance(y, np.memmap) and y.ndim in (1, 2):
        return array_rows(y)
    if is_dask(y):
        raise TypeError("y must not be a Dask collection where X is none; try y.compute(), or a Dask X.")
    array = np.asarray(y)
    return array_rows(_arrays.checked_responses(y, len(array) if array.ndim else 1))
