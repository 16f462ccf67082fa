"""Schemes one after the other: batches that change with the epoch."""

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle.errors import ArgumentError, UnsupportedError
from reshuffle.problem.batches import RowGroups
from reshuffle.problem.row_space import CompressedRows
from reshuffle.schemes.base import Scheme, Shuffle, Unit, Visit

StageLike: TypeAlias = tuple[float | None, Scheme]
"""For how many epochs, None for ever, and which scheme."""
_FORM = "[(10, SampleReshuffling(batch_size=32)), (None, SampleReshuffling(batch_size=128))]"


class Stages(Scheme):
    """One scheme for some epochs, then another: batch sizes that change with the epoch.

    The parameters and the momentum buffer are handed from stage to stage, as where torch's optimizer goes on with
    another DataLoader. `step` is that of a visit in every stage; a schedule by epochs or visits counts them through
    all of them.

    Parameters
    ----------
    stages : list of (epochs, scheme)
        The number of epochs of each scheme; None or math.inf, for the last one alone, is "from then on". If the
        last one ends, nothing is known beyond.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(60, 20, noise=1.0, seed=1)
    >>> small, large = rs.RandomReshuffling(batch_size=15), rs.RandomReshuffling(batch_size=30)
    >>> growing = rs.Stages([(10, small), (None, large)])
    >>> growing
    Stages([(10, RandomReshuffling(batch_size=15)), (None, RandomReshuffling(batch_size=30))])
    >>> rs.descend(problem, growing, step=0.15).risk([10, 20]).total.round(4)
    array([0.4364, 0.4881])
    """

    shuffle = Shuffle.BY_STAGE
    unit = Unit.SAMPLE
    example = _FORM
    _fixed = "stages"

    def __init__(self, stages: Sequence[StageLike]):
        self._stages = _checked(stages)

    @property
    def stages(self) -> tuple[tuple[float, Scheme], ...]:
        return self._stages

    @property
    def is_random(self) -> bool:
        return any(scheme.is_random for _, scheme in self._stages)

    @property
    def visits_samples(self) -> bool:
        return any(scheme.visits_samples for _, scheme in self._stages)

    def groups(self, n: int) -> RowGroups:
        return reduce(RowGroups.refined, (scheme.groups(n) for _, scheme in self._stages))

    def _visit_compressed(self, compressed: CompressedRows, first_rows: IntArray | None) -> None:
        self._stages = tuple(
            (length, scheme.on_compressed(compressed, first_rows)) for length, scheme in self._stages
        )

    def steps(self, n: int) -> int:
        return max(scheme.steps(n) for _, scheme in self._stages)

    def sizes(self, n: int) -> IntArray:
        raise self._unknown("the rows of each step")

    def partition(self, n: int) -> list[IntArray]:
        last = max(int(max(rows.max() for rows in scheme.partition(n))) for _, scheme in self._stages)
        return list(np.arange(last + 1, dtype=np.intp)[:, np.newaxis])

    def divisors(self, n: int) -> FloatArray:
        return np.ones(len(self.partition(n)))

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        raise self._unknown("one kind of order")

    def visits(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[Iterator[Visit]]:
        for length, scheme in self._stages:
            drawn = scheme.visits(n, rng, runs)
            yield from drawn if math.isinf(length) else islice(drawn, int(length))

    def _unknown(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self!r} has not got {what}: its stages have; ask one of these.")

    @property
    def settings(self) -> tuple[object, ...]:
        return self._stages

    def __repr__(self) -> str:
        stages = (
            f"({'None' if math.isinf(length) else int(length)}, {scheme!r})"
            for length, scheme in self._stages
        )
        return f"Stages([{', '.join(stages)}])"


def _checked(stages: Any) -> tuple[tuple[float, Scheme], ...]:
    if not isinstance(stages, list | tuple) or not stages:
        allowed = f"be a list of pairs of epochs and a scheme, such as {_FORM}"
        raise ArgumentError("stages", allowed, f"it is {stages!r}")
    made = []
    for number, stage in enumerate(stages):
        if not isinstance(stage, list | tuple) or len(stage) != 2:
            raise ArgumentError(f"stages[{number}]", "be a pair of epochs and a scheme", f"it is {stage!r}")
        (length, scheme), name = stage, f"the scheme of stages[{number}]"
        if not isinstance(scheme, Scheme):
            example = "RandomReshuffling(batches=4)"
            raise TypeError(f"{name} must be a scheme such as {example}, but it is {scheme!r}.")
        if scheme.has_stages:
            allowed = "not have stages itself"
            raise ArgumentError(name, allowed, f"it is {scheme!r}", "put all stages into one list")
        name = f"the epochs of stages[{number}]"
        if length is not None and length != math.inf:
            length = float(_arrays.whole_number(name, length, 1, hint="None is for ever."))
        elif number < len(stages) - 1:
            allowed = "be a whole number of at least 1, since others follow"
            raise ArgumentError(name, allowed, f"it is {length!r}")
        made.append((math.inf if length is None else length, scheme))
    return tuple(made)
