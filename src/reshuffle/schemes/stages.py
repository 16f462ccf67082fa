"""Schemes one after the other: batches that change with the epoch."""

import copy
import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import islice
from typing import Any, Self, TypeAlias

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import FloatArray, IntArray
from reshuffle.errors import UnsupportedError
from reshuffle.problem.batches import KeptRows, RowGroups
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
        How many epochs each scheme is kept for; None or math.inf, for the last one alone, is "from then on". If the
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

    def __init__(self, stages: Sequence[StageLike]):
        self._stages = _checked(stages)

    @property
    def stages(self) -> tuple[tuple[float, Scheme], ...]:
        """For how many epochs each scheme is kept, one after the other; the last may be infinitely many."""
        return self._stages

    @property
    def is_random(self) -> bool:
        """Whether runs differ in any stage."""
        return any(scheme.is_random for _, scheme in self._stages)

    @property
    def batches(self) -> int | None:
        """None: every stage has its own."""
        return None

    @property
    def visits_samples(self) -> bool:
        """Whether single rows matter in any stage."""
        return any(scheme.visits_samples for _, scheme in self._stages)

    def on_kept(self, kept: KeptRows) -> Self:
        """The same stages, each visiting what is kept."""
        made = copy.copy(self)
        made._stages = tuple((length, scheme.on_kept(kept)) for length, scheme in self._stages)
        return made._meeting(self, kept)

    def groups(self, n: int) -> RowGroups:
        """Rows that are together in all stages."""
        return reduce(RowGroups.refined, (scheme.groups(n) for _, scheme in self._stages))

    def on_groups(self, kept: KeptRows, first_rows: IntArray) -> Self:
        """The same stages, each visiting what is kept."""
        made = copy.copy(self)
        made._stages = tuple((length, each.on_groups(kept, first_rows)) for length, each in self._stages)
        return made._meeting(self, kept)

    def steps(self, n: int) -> int:
        """The largest number of steps per epoch over n rows, of all stages."""
        return max(scheme.steps(n) for _, scheme in self._stages)

    def sizes(self, n: int) -> IntArray:
        """Every stage has its own."""
        raise self._unknown("the rows of each step")

    def step_divisors(self, n: int) -> FloatArray:
        """Every stage has its own."""
        raise self._unknown("the divisor of each step")

    def with_batch_size(self, batch_size: int) -> Self:
        """Refused: every stage has its own."""
        raise self._no_counterpart("stages")

    def partition(self, n: int) -> list[IntArray]:
        """Single rows, all that any stage visits: no two need be visited together in all stages."""
        last = max(int(max(rows.max() for rows in scheme.partition(n))) for _, scheme in self._stages)
        return list(np.arange(last + 1, dtype=np.int64)[:, np.newaxis])

    def divisors(self, n: int) -> FloatArray:
        """One: a row stands for itself."""
        return np.ones(len(self.partition(n)))

    def draw(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[IntArray]:
        """Orders of what? Every stage has units of its own: `visits` draws them."""
        raise self._unknown("one kind of order")

    def visits(self, n: int, rng: np.random.Generator, runs: int) -> Iterator[Iterator[Visit]]:
        """The visits of every epoch, as its stage has them."""
        for length, scheme in self._stages:
            drawn = scheme.visits(n, rng, runs)
            yield from drawn if math.isinf(length) else islice(drawn, int(length))

    def _unknown(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self!r} has not got {what}: its stages have; ask one of these.")

    @property
    def settings(self) -> tuple[object, ...]:
        """What tells this scheme from others of its kind."""
        return self._stages

    def __repr__(self) -> str:
        stages = (
            f"({'None' if math.isinf(length) else int(length)}, {scheme!r})"
            for length, scheme in self._stages
        )
        return f"Stages([{', '.join(stages)}])"


def _checked(stages: Any) -> tuple[tuple[float, Scheme], ...]:
    if not isinstance(stages, list | tuple) or not stages:
        raise ValueError(
            f"stages must be a list of pairs of epochs and a scheme, such as {_FORM}, but it is {stages!r}."
        )
    made = []
    for number, stage in enumerate(stages):
        if not isinstance(stage, list | tuple) or len(stage) != 2:
            raise ValueError(f"stages[{number}] must be a pair of epochs and a scheme, but it is {stage!r}.")
        made.append((_length(number, stage[0], number == len(stages) - 1), _scheme(number, stage[1])))
    return tuple(made)


def _length(number: int, value: Any, is_last: bool) -> float:
    name = f"the epochs of stages[{number}]"
    if value is None or (isinstance(value, float) and math.isinf(value) and value > 0):
        if is_last:
            return math.inf
        raise ValueError(
            f"{name} must be a whole number of at least 1, since others follow, but it is {value!r}."
        )
    return float(_arrays.whole_number(name, value, 1, hint="None is for ever."))


def _scheme(number: int, value: Any) -> Scheme:
    if not isinstance(value, Scheme):
        raise TypeError(
            f"the scheme of stages[{number}] must be a scheme such as RandomReshuffling(batches=4), "
            f"but it is {value!r}."
        )
    if value.has_stages:
        raise ValueError(
            f"the scheme of stages[{number}] must not have stages itself, but it is {value!r}; "
            "put all stages into one list."
        )
    return value
