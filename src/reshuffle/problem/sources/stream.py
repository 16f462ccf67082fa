"""Rows that are read in chunks, and what a pass over them keeps of each group of rows."""

import math
from collections.abc import Callable, Iterator
from copy import copy
from functools import reduce
from typing import TypeAlias, TypeVar

from reshuffle._core import FloatArray, foreign
from reshuffle._core.progress import track
from reshuffle.errors import BudgetError
from reshuffle.problem.batch_factors import BatchFactors
from reshuffle.problem.blocks import KeptRows
from reshuffle.problem.row_groups import RowGroups
from reshuffle.problem.sources.preparation import Moments, Pair, Preparation, as_weighted, with_weights
from reshuffle.problem.sources.row_source import Reader, RowSource, as_numbers

Part = TypeVar("Part")
Prepare: TypeAlias = Callable[[FloatArray, FloatArray, FloatArray | None], Pair]
"""What is made of features, responses and weights."""

_SHARE = 0.5
"""Of the memory, that what is kept of the rows may take."""
_REMEMBERED = 4
"""Ways to cut the rows whose factors are kept for the next question."""


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
        self._prepare: Prepare = as_weighted
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
        return self.gathered(Moments.of, Moments.merged, with_weights)

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
        needed, room = 8 * rows * (self.p + (self.outputs or 1)), _SHARE * foreign.memory()
        if needed > room:
            raise BudgetError(
                f"{groups.count} batches of {self.n} rows that are read in chunks would keep {needed:.2g} bytes, "
                f"but {room:.2g} are allowed, half of the memory; try fewer and larger batches."
            )
