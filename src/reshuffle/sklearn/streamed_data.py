"""Rows at the door of an estimator that are read in chunks: their means, and what is learned from them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.errors import UnsupportedError
from reshuffle.problem import LeastSquares
from reshuffle.problem.sources import RowSource, Stream, as_numbers, opened, opened_rows
from reshuffle.sklearn.estimator_data import Centred


@dataclass(frozen=True, eq=False)
class CentredStream(Centred):
    """The data of a fit that are read in chunks: means and scales without rows.

    Attributes
    ----------
    stream : Stream or None
        Prepared; it is not pickled with the model, which keeps its coefficients.
    """

    stream: Stream | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "stream": None}

    def problem(self) -> LeastSquares:
        """What is learned."""
        if self.stream is None:
            raise UnsupportedError(
                "the model was pickled without the rows that it reads in chunks: it predicts, but knows no other "
                "epochs; fit it again for these."
            )
        return LeastSquares(self.stream, None)


def centred_stream(stream: Stream, centre: bool, scale: bool) -> CentredStream:
    """Prepare rows as `centred` does those in memory: one pass for the means, which all others make use of."""
    if centre and stream.n < 2:
        raise ValueError("X must have at least 2 rows with fit_intercept=True, but it has 1.")
    made, weights = stream.standardizer(centre=centre, scale=scale), stream.weights
    prepared = stream.standardized(made, None if weights is None else weights / weights.mean())
    nothing = np.zeros((0, stream.p))
    return CentredStream(
        nothing, made.responses(np.zeros((0, *np.shape(made.response_mean)))), made, None, centre, prepared
    )


def in_memory(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any]:
    """X and y as they are, or all rows of a source; refused if they are read in chunks."""
    found = opened(X, y, sample_weight)
    if isinstance(found, Stream):
        raise UnsupportedError(
            f"rows that are held out must be in memory, but X has {found.n} rows that are read in chunks; choose "
            "on a sample of the rows, and fit MiniBatchRegressor to all of them."
        )
    return (X, y) if found is None else (found.X, found.y)


def chunks_of(X: Any, columns: int, names: list[str] | None) -> Iterator[FloatArray] | None:
    """The rows of a source that predictions are asked for, chunk by chunk; None if X is an array in memory."""
    source = opened_rows(X, names)
    if source is None:
        return None
    if source.columns != columns:
        raise ValueError(f"X must have {columns} columns, as in fit, but it has {source.columns}.")
    return _numbers(source)


def _numbers(source: RowSource) -> Iterator[FloatArray]:
    start = 0
    for chunk in source.chunks():
        yield as_numbers("X", chunk, start)
        start += len(chunk)
