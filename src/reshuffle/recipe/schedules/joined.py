"""One schedule after the other."""

from collections.abc import Sequence
from dataclasses import dataclass

from reshuffle import _arrays
from reshuffle.recipe.step_schedule import StepSchedule


@dataclass(frozen=True, repr=False)
class Joined(StepSchedule):
    """torch's SequentialLR: one schedule after the other, each from its own beginning.

    Parameters
    ----------
    schedules : list of schedules
        All per epoch, or all per visit.
    at : list of int
        torch's milestones: when each but the first begins, ascending.

    >>> from reshuffle.recipe.schedules import CosineAnnealing, LinearWarmup
    >>> warm = Joined([LinearWarmup(0.2, until=2, start=0.5), CosineAnnealing(0.2, until=4)], at=[2])
    >>> [round(warm(t), 4) for t in range(7)]
    [0.1, 0.15, 0.2, 0.1707, 0.1, 0.0293, 0.0]
    """

    schedules: Sequence[StepSchedule]
    at: Sequence[int]

    def __post_init__(self) -> None:
        parts = tuple(self.schedules)
        if not parts or not all(isinstance(part, StepSchedule) for part in parts):
            raise TypeError(
                f"schedules must be a list of schedules, such as StepDecay(...), but it is {parts!r}."
            )
        if len({part.per for part in parts}) > 1:
            raise ValueError(f"schedules must be all per epoch or all per visit, but they are {parts!r}.")
        starts = tuple(_arrays.whole_number(f"at[{place}]", start, 1) for place, start in enumerate(self.at))
        if len(starts) != len(parts) - 1 or list(starts) != sorted(set(starts)):
            raise ValueError(
                f"at must hold {len(parts) - 1} ascending whole numbers, one per schedule but the first, "
                f"but it is {list(starts)}."
            )
        for part, begin, end in zip(parts, (0, *starts), starts, strict=False):
            if part.length < end - begin:
                raise ValueError(
                    f"schedules must last until the next one begins, but {part!r} has {part.length:g} steps "
                    f"between {begin} and {end}."
                )
        object.__setattr__(self, "schedules", parts)
        object.__setattr__(self, "at", starts)

    @property
    def per(self) -> str:
        """That of its parts."""
        return self.schedules[0].per

    @property
    def length(self) -> float:
        """That of the last one, from when it begins."""
        return (self.at[-1] if self.at else 0) + self.schedules[-1].length

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        number = sum(count >= start for start in self.at)
        return self.schedules[number](count - (self.at[number - 1] if number else 0))
