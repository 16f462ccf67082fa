"""Rows that are read in chunks, prepared on their way, and what a pass over them keeps of each group of rows."""

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias, TypeVar

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import BoolArray, FloatArray
from reshuffle._progress import track
from reshuffle.errors import BudgetError
from reshuffle.problem.batch_factors import BatchFactors
from reshuffle.problem.blocks import KeptRows
from reshuffle.problem.row_groups import RowGroups
from reshuffle.problem.sources.row_source import Reader, RowSource, as_numbers
from reshuffle.problem.weights import weighted

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
class Preparation:
    """What is subtracted from features and responses, and what features are divided by.

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
        """Those of some rows, whose weights are the last column of the responses."""
        weights = responses[:, -1]
        mean = np.average(X, axis=0, weights=weights)
        squares = weights @ np.square(X - mean)
        return cls(
            float(weights.sum()), mean, squares, np.average(responses[:, :-1], axis=0, weights=weights)
        )

    def merged(self, other: "Moments") -> "Moments":
        """Those of both together."""
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
        self._known: dict[tuple[bytes, ...], KeptRows] = {}

    def prepared(self, preparation: Preparation, weights: FloatArray | None) -> "Stream":
        """The same rows, centred and scaled on their way, and with other weights."""
        made = copy(self)
        made._prepare, made._weights, made._known = preparation, weights, {}
        return made

    @property
    def weights(self) -> FloatArray | None:
        """Of the rows, (n,), if they have any."""
        return self._weights

    def moments(self) -> Moments:
        """One pass over the rows: the weighted means of the columns, and the squares around them."""
        return self.gathered(Moments.of, Moments.merged, _with_weights)

    def pairs(self, prepare: Prepare | None = None) -> Iterator[tuple[int, FloatArray, FloatArray]]:
        """Number of the first row, features (m, p) and responses (m,) or (m, t), chunk after chunk."""
        self.passes += 1
        responses, start = Reader(self._responses.chunks()), 0
        total = math.ceil(self.n / self._features.height)
        for chunk in track(self._features.chunks(), total, "reading rows"):
            rows = slice(start, start + len(chunk))
            X, y = as_numbers("X", chunk, start), as_numbers("y", responses.take(len(chunk)), start)
            start = rows.stop
            weights = None if self._weights is None else self._weights[rows]
            yield rows.start, *(prepare or self._prepare)(X, y, weights)

    def kept(self, groups: RowGroups | None = None) -> KeptRows:
        """What stands for the rows of each group; of any groups, if none are given and some are known."""
        if groups is None:
            if self._known:
                return next(reversed(self._known.values()))
            groups = RowGroups.whole(self.n)
        if groups.key not in self._known:
            self._require_room(groups)
            together = groups.count == 1 and bool(self._known)
            made = self._together() if together else self.factors(groups)
            self._known[groups.key] = made.kept()
            while len(self._known) > _REMEMBERED:
                del self._known[next(iter(self._known))]
        return self._known[groups.key]

    def _together(self) -> BatchFactors:
        """All rows in one group, from what is known of several: that takes no pass."""
        made = BatchFactors(1, self.p, self.outputs)
        made.merge_together(next(reversed(self._known.values())))
        return made

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

    def _require_room(self, groups: RowGroups) -> None:
        """Refuse groups so many that what stands for them is as much as the data."""
        rows = float(groups.sizes.clip(max=self.p + 1).sum())
        needed, room = 8 * rows * (self.p + (self.outputs or 1)), _SHARE * _arrays.memory()
        if needed > room:
            raise BudgetError(
                f"{groups.count} batches of {self.n} rows that are read in chunks would keep {needed:.2g} bytes, "
                f"but {room:.2g} are allowed, half of the memory; try fewer and larger batches."
            )
