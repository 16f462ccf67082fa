"""The recipe of a run whose scheme changes with the epoch: schedules count through all stages."""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.errors import UnsupportedError
from reshuffle.recipe.recipe import Hyperparameters, Recipe, Schedule
from reshuffle.recipe.schedules import StepSchedule
from reshuffle.schemes.base import Scheme


@dataclass(frozen=True)
class LaterSteps(StepSchedule):
    """A schedule from some way on.

    Attributes
    ----------
    whole : callable or StepSchedule
    before : int
        How many of its steps are over.
    """

    whole: Any
    before: int

    @property
    def per(self) -> str:
        return self.whole.per if isinstance(self.whole, StepSchedule) else "epoch"

    @property
    def length(self) -> float:
        return self.whole.length - self.before if isinstance(self.whole, StepSchedule) else math.inf

    def __call__(self, count: int) -> float:
        place = self.before + count
        return _arrays.nonnegative(f"step({place})", self.whole(place))


@dataclass(frozen=True, repr=False)
class StagedRecipe(Recipe):
    """A recipe through stages, each with a number of visits per epoch of its own.

    Attributes
    ----------
    stages : tuple of (epochs, visits per epoch)
        Those that the schedule reaches; the last may have infinitely many epochs.
    ends : float
        The last epoch of the last stage that was asked for.
    """

    stages: tuple[tuple[float, int], ...] = ()
    ends: float = math.inf

    @property
    def is_constant(self) -> bool:
        return False

    @property
    def has_limit(self) -> bool:
        return isinstance(self.schedule, float) and math.isinf(self.ends)

    @cached_property
    def begins(self) -> FloatArray:
        """The epochs before each of the stages."""
        return np.cumsum([0.0, *(length for length, _ in self.stages[:-1])])

    @cached_property
    def parts(self) -> tuple[Recipe, ...]:
        made, visited = [], 0.0
        for begin, (length, visits) in zip(self.begins, self.stages, strict=True):
            schedule: Schedule = self.schedule
            if isinstance(schedule, tuple):
                schedule = schedule[int(begin) :]
            elif not isinstance(schedule, float):
                schedule = LaterSteps(schedule, int(visited if self.goes_by_visits else begin))
            made.append(replace(_plain(self), schedule=schedule, visits=visits))
            visited += length * visits
        return tuple(made)

    def at(self, epoch: int) -> Hyperparameters:
        number = int(np.searchsorted(self.begins, epoch, side="right")) - 1
        return self.parts[number].at(epoch - int(self.begins[number]))

    @property
    def horizon(self) -> float:
        known = float(self.begins[-1]) + self.parts[-1].horizon
        return min(known, self.ends)

    def epochs(self, epochs: Any) -> FloatArray:
        when = _arrays.epochs(epochs)
        last = float(when.max(initial=0.0))
        if last > self.ends:
            raise ValueError(
                f"epochs must be at most {self.ends:g}, where the last stage ends, but one is {last:g}; "
                "give more stages, or None for the epochs of the last one."
            )
        return when if self.has_limit else super().epochs(when)

    @property
    def _in_visits(self) -> str:
        if not (isinstance(self.schedule, StepSchedule) and self.goes_by_visits):
            return ""
        return f" of {self.schedule.length:g} visits through the stages"


def arranged(made: Recipe, scheme: Scheme, n: int) -> Recipe:
    """The recipe of a run whose scheme has stages."""
    if made.average is not None:
        raise UnsupportedError(
            f"average must be None for {scheme!r}, whose epochs differ in their visits, but it is {made.average!r}."
        )
    counts = [each.steps(n) for _, each in scheme.stages]
    if made.divisor != 1 and len(set(counts)) > 1:
        raise ValueError(
            f"step must be given in place of alpha for {scheme!r}, since alpha is step times the visits per epoch, "
            f"and its stages have {', '.join(map(str, counts))}."
        )
    lengths = [length for length, _ in scheme.stages]
    reached: list[tuple[float, int]] = []
    for stage in zip(lengths, counts, strict=True):
        # A schedule may be over before the last stages begin.
        if reached and StagedRecipe(**vars(made), stages=(*reached, stage)).parts[-1].horizon < 1:
            break
        reached.append(stage)
    return StagedRecipe(**vars(made), stages=tuple(reached), ends=sum(lengths))


def rearranged(recipe: Recipe, scheme: Scheme, n: int) -> Recipe:
    """The recipe where the scheme makes other visits, since there are n rows."""
    if not scheme.has_stages:
        return replace(_plain(recipe), visits=scheme.steps(n))
    return arranged(_plain(recipe), scheme, n)


def _plain(recipe: Recipe) -> Recipe:
    """The recipe without its stages."""
    return Recipe(**{field.name: getattr(recipe, field.name) for field in fields(Recipe)})
