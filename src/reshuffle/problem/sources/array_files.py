"""Files of numpy's format npy, one or a folder of them, as the rows of one array."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from reshuffle._core import AnyArray
from reshuffle.problem.sources.row_source import ArrayRows, RowSource


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
