"""Arrays and dataframes of Dask: every block is reduced where it is, and only factors travel."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from reshuffle._arrays import AnyArray, FloatArray, IntArray, checked_responses, columns, real_array
from reshuffle.errors import ArgumentError
from reshuffle.problem.batches import BatchFactors, RowGroups
from reshuffle.problem.sources import Prepare, RowSource, Stream, is_dask, response_columns

Part = TypeVar("Part")

_AT_ONCE = 8
"""Factors that are merged by one task."""


class DaskRows(RowSource):
    """The blocks of rows, delayed, of an array or of a dataframe, and the number of rows of each."""

    def __init__(
        self,
        blocks: Sequence[Any],
        lengths: Sequence[int],
        columns: int | None,
        names: list[str] | None = None,
    ):
        super().__init__(sum(lengths), columns, self._computed, names)
        self.blocks, self.lengths = list(blocks), list(lengths)

    def _computed(self, height: int) -> Iterator[AnyArray]:
        return (np.asarray(block.compute()) for block in self.blocks)

    def chosen(self, names: str | list[str]) -> "DaskRows":
        """Some columns of frames, or a single one as a vector, of blocks that are read once for all of them."""
        # By themselves, few columns may be cut into other blocks than many.
        blocks = [_delayed(_columns)(block, names) for block in self.blocks]
        if isinstance(names, str):
            return DaskRows(blocks, self.lengths, None)
        return DaskRows(blocks, self.lengths, len(names), names)


def opened(X: Any, y: Any) -> tuple[DaskRows, RowSource]:
    """The blocks of X, and the responses y: an array, a collection of Dask, or the names of columns."""
    names = None if _is_array(X) else list(X.columns)
    chosen = None if names is None else response_columns(y, names)
    features = _blocks("X", X)
    if names is not None and chosen is not None:
        rest = [name for name in names if name not in chosen]
        return features.chosen(rest), features.chosen(y if isinstance(y, str) else chosen)
    if isinstance(y, str):
        raise ArgumentError("y", "name a column of X", f"a Dask array has no names, and y is {y!r}")
    if not is_dask(y):
        array = np.asarray(y)
        given = checked_responses(y, len(array) if array.ndim else 1)
        columns = None if given.ndim == 1 else given.shape[1]
        if len(given) != features.rows:
            return features, DaskRows([], [len(given)], columns)
        parts = np.split(given, np.cumsum(features.lengths)[:-1])
        return features, DaskRows([_delayed(part) for part in parts], features.lengths, columns)
    if _is_array(y) and not np.isnan(y.shape[0]) and y.shape[0] == features.rows:
        y = y.rechunk({0: tuple(features.lengths)})
    responses = _blocks("y", y)
    if responses.rows == features.rows and responses.lengths != features.lengths:
        cuts = [
            ", ".join(map(str, lengths[:5])) + (", ..." if len(lengths) > 5 else "")
            for lengths in (features.lengths, responses.lengths)
        ]
        allowed = f"be cut into blocks as X is, of {cuts[0]} rows"
        raise ArgumentError("y", allowed, f"its blocks have {cuts[1]}", "repartition one of them")
    return features, responses


def opened_rows(X: Any, names: Sequence[str] | None) -> DaskRows:
    """The blocks of X alone, of a dataframe those of some columns."""
    rows = _blocks("X", X)
    return rows if names is None or rows.names is None else rows.chosen(list(names))


def _columns(frame: Any, names: str | list[str]) -> Any:
    return frame[names]


def _is_array(value: Any) -> bool:
    return hasattr(value, "rechunk")


def _blocks(name: str, value: Any) -> DaskRows:
    """The blocks of a collection that have rows, which are counted where their number is not known."""
    columns, names = None, None
    if _is_array(value):
        if value.ndim not in (1, 2):
            raise ArgumentError(name, "be of one or two dimensions", f"its shape is {value.shape}")
        rows = value.rechunk({1: -1}) if value.ndim == 2 else value
        blocks, lengths = rows.to_delayed().ravel().tolist(), list(rows.chunks[0])
        columns = int(value.shape[1]) if value.ndim == 2 else None
    else:
        blocks = list(value.to_delayed())
        lengths = [np.nan] * len(blocks)
        if value.ndim == 2:
            columns, names = len(value.columns), list(value.columns)
    if np.isnan(lengths).any():
        lengths = list(import_module("dask").compute(*[_delayed(len)(block) for block in blocks]))
    full = [(block, int(length)) for block, length in zip(blocks, lengths, strict=True) if length]
    return DaskRows([block for block, _ in full], [length for _, length in full], columns, names)


def _delayed(value: Any) -> Any:
    # Named at random: hashing the data would cost as much as reducing them.
    return import_module("dask").delayed(value, pure=False)


class DaskStream(Stream):
    """Rows whose blocks are reduced by the workers of Dask, each where it is; factors are merged in a tree."""

    _features: DaskRows
    _responses: DaskRows

    def factors(self, groups: RowGroups) -> BatchFactors:
        ends = groups.ends

        def reduced(start: int, X: FloatArray, y: FloatArray, labels: IntArray | None) -> BatchFactors:
            made = BatchFactors(len(ends), X.shape[1], y.shape[1])
            rows = np.arange(start, start + len(X))
            made.add_labelled(X, y, RowGroups(ends).at(rows) if labels is None else labels)
            return made.compacted()

        return self._tree(reduced, _merged, groups.labels, self._prepare)

    def gathered(
        self,
        work: Callable[[FloatArray, FloatArray], Part],
        merge: Callable[[Part, Part], Part],
        prepare: Prepare | None = None,
    ) -> Part:
        return self._tree(
            lambda start, X, y, labels: work(X, y),
            lambda parts: reduce(merge, parts),
            None,
            prepare or self._prepare,
        )

    def _tree(
        self,
        work: Callable[[int, FloatArray, FloatArray, IntArray | None], Part],
        merged: Callable[[list[Part]], Part],
        labels: IntArray | None,
        prepare: Prepare,
    ) -> Part:
        """Apply `work` to the first row's number and the rows of each block; merge the results some at a time."""

        def on_block(
            block: Any, responses: Any, start: int, weights: FloatArray | None, labels: IntArray | None
        ) -> Part:
            X = real_array("X", block, first_row=start)
            y = columns(real_array("y", responses, first_row=start))
            if len(X) != len(y) or X.shape[1] != p:
                given = f"from row {start} on their shapes are {X.shape} and {y.shape}"
                raise ArgumentError("X and y", "have blocks of the same rows", given)
            return work(start, *prepare(X, y, weights), labels)

        self.passes += 1
        p, start, parts = self.p, 0, []
        for number, height in enumerate(self._features.lengths):
            rows = slice(start, start + height)
            weights = None if self.weights is None else self.weights[rows]
            own = None if labels is None else labels[rows]
            block, responses = self._features.blocks[number], self._responses.blocks[number]
            parts.append(_delayed(on_block)(block, responses, start, weights, own))
            start = rows.stop
        while len(parts) > 1:
            parts = [_delayed(merged)(parts[at : at + _AT_ONCE]) for at in range(0, len(parts), _AT_ONCE)]
        found: Part = parts[0].compute()
        return found


def _merged(parts: Sequence[BatchFactors]) -> BatchFactors:
    """The factors of several blocks, as new ones: the inputs of a task may be given to it again."""
    made = BatchFactors(len(parts[0].counts), parts[0].p, parts[0].t)
    for part in parts:
        made.merge(part.compressed())
    return made.compacted()
