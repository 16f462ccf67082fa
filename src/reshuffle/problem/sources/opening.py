"""Opening of X and y that are not arrays in memory: the source that they are."""

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle._arrays import AnyArray, FloatArray, checked_responses, checked_weights
from reshuffle.problem.sources import dask_rows, rows
from reshuffle.problem.sources.rows import ArrayRows, RowSource, Stream, as_numbers, response_columns

IN_MEMORY = float(1 << 26)
"""Bytes up to which the rows of files are read into memory, where more can be asked of them."""
_KINDS = "a .npy or .parquet file, or a folder of such files"


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
    if isinstance(features, dask_rows.DaskRows) and not in_memory:
        weights = None if sample_weight is None else checked_weights(sample_weight, features.rows)
        return dask_rows.DaskStream(features, responses, weights)
    if in_memory or features.bytes + responses.bytes <= most:
        return FewRows(_whole("X", features), _whole("y", responses), features.names)
    weights = None if sample_weight is None else checked_weights(sample_weight, features.rows)
    return Stream(features, responses, weights)


def opened_rows(X: Any, names: Sequence[str] | None) -> RowSource | None:
    """The source of features alone, of a table those of some columns; None if X is an array in memory."""
    if dask_rows.is_dask(X):
        return dask_rows.opened_rows(X, names)
    if isinstance(X, str | os.PathLike):
        paths = _files("X", Path(X))
        if paths[0].suffix == ".npy":
            return rows.ArrayFiles("X", paths)
        X = rows.dataset_of(paths)
    if rows.is_dataset(X):
        return rows.TableRows("X", X, names or rows.column_names(X))
    return ArrayRows(X) if isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > IN_MEMORY else None


def _whole(name: str, source: RowSource) -> FloatArray:
    return as_numbers(name, np.concatenate(list(source.chunks())), 0)


def _opened_pair(X: Any, y: Any, most: float) -> tuple[RowSource, RowSource] | None:
    """The sources of features and responses, of a table by the names of their columns."""
    if dask_rows.is_dask(X):
        return dask_rows.opened(X, y)
    if isinstance(X, str | os.PathLike):
        paths = _files("X", Path(X))
        if paths[0].suffix == ".npy":
            return rows.ArrayFiles("X", paths), _responses(y)
        X = rows.dataset_of(paths)
    if rows.is_dataset(X):
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
            return _single_column(rows.ArrayFiles("y", paths))
        y = rows.dataset_of(paths)
    if rows.is_dataset(y):
        return _single_column(rows.TableRows("y", y, rows.column_names(y)))
    if isinstance(y, np.memmap) and y.ndim in (1, 2):
        return ArrayRows(y)
    if dask_rows.is_dask(y):
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
    names = rows.column_names(dataset)
    # A name that is no column may be that of a file.
    is_path = isinstance(y, str) and y not in names and Path(y).exists()
    chosen = None if is_path else response_columns(y, names)
    if chosen is None:
        return rows.TableRows("X", dataset, names), _responses(y)
    rest = [name for name in names if name not in chosen]
    responses = rows.TableRows("y", dataset, chosen)
    return rows.TableRows("X", dataset, rest), _Column(responses) if isinstance(y, str) else responses
