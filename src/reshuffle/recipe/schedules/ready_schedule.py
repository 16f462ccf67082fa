"""What the ready schedules share: what they count, how they go from one step to another, and checks."""

import math
from dataclasses import dataclass, field, fields
from typing import Any

from reshuffle import _arrays
from reshuffle.recipe.step_schedule import COUNTED, StepSchedule

SHAPES = ("cosine", "linear")


@dataclass(frozen=True, repr=False)
class ReadySchedule(StepSchedule):
    """A schedule that goes by epochs unless it is told to go by visits.

    The attributes of each are checked, and cleaned, when it is made.
    """

    per: str = field(default="epoch", kw_only=True)

    def __post_init__(self) -> None:
        self._set(per=_arrays.choice("per", self.per, COUNTED))

    def _set(self, **cleaned: Any) -> None:
        for name, value in cleaned.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        own = [one.name for one in fields(self) if one.name != "per"]
        words = [f"{name}={getattr(self, name)!r}" for name in own]
        words += ["per='visit'"] if self.per == "visit" else []
        return f"{type(self).__name__}({', '.join(words)})"


def between(start: float, end: float, done: float, shape: str) -> float:
    """Where something is that goes from start to end, once a share of the way is done."""
    if shape == "cosine":
        return end + (start - end) * (1 + math.cos(math.pi * done)) / 2
    return start + (end - start) * done


def factor(name: str, value: Any) -> float:
    """Return a float above 0 and at most 1."""
    number = _arrays.positive(name, value)
    if number > 1:
        raise ValueError(f"{name} must be above 0 and at most 1, but it is {value!r}.")
    return number


def share(name: str, value: Any, most: float = 1.0) -> float:
    """Return a float between 0 and `most`."""
    number = _arrays.nonnegative(name, value)
    if number > most:
        raise ValueError(f"{name} must be between 0 and {most:g}, but it is {value!r}.")
    return number
