"""Files as sources of rows: numpy's npy, and parquet or other datasets of pyarrow; one, or a folder of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle._arrays import AnyArray
from reshuffle.problem.sources.row_source import ArrayRows, RowSource

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
        """The rows file by file."""
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
    """Whether a value is a dataset of pyarrow, which is not imported to be asked."""
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
        """The rows in the order of the files; missing values are nan."""
        scanner = self._dataset.scanner(
            columns=self.names, batch_size=self.height, batch_readahead=_AHEAD, fragment_readahead=_AHEAD
        )
        for batch in scanner.to_batches():
            if batch.num_rows:
                chunk = np.empty((batch.num_rows, batch.num_columns))
                for place, column in enumerate(batch.columns):
                    chunk[:, place] = column.to_numpy(zero_copy_only=False)
                yield chunk
