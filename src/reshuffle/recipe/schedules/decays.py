"""Steps that fall from the first one on."""

import math
from dataclasses import dataclass

from reshuffle import _arrays
from reshuffle.recipe.schedules import ready_schedule
from reshuffle.recipe.schedules.ready_schedule import ReadySchedule


@dataclass(frozen=True, repr=False)
class StepDecay(ReadySchedule):
    """torch's StepLR: step * factor^(t // every).

    Parameters
    ----------
    step : float
    every : int
        torch's step_size.
    factor : float
        torch's gamma, above 0 and at most 1.
    per : str
        "epoch" or "visit".

    >>> [StepDecay(0.8, every=2, factor=0.5)(t) for t in range(5)]
    [0.8, 0.8, 0.4, 0.4, 0.2]
    """

    step: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            step=_arrays.nonnegative("step", self.step),
            every=_arrays.whole_number("every", self.every, 1),
            factor=ready_schedule.factor("factor", self.factor),
        )

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        return float(self.step * self.factor ** (count // self.every))


@dataclass(frozen=True, repr=False)
class ExponentialDecay(ReadySchedule):
    """torch's ExponentialLR: step * factor^t.

    Parameters
    ----------
    step : float
    factor : float
        torch's gamma, above 0 and at most 1.
    per : str
        "epoch" or "visit".

    >>> ExponentialDecay(0.8, 0.5)(3)
    0.1
    """

    step: float
    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            step=_arrays.nonnegative("step", self.step), factor=ready_schedule.factor("factor", self.factor)
        )

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        return float(self.step * self.factor**count)


@dataclass(frozen=True, repr=False)
class CosineAnnealing(ReadySchedule):
    """torch's CosineAnnealingLR: end + (step - end) (1 + cos(pi t / until)) / 2, which rises again beyond `until`.

    Parameters
    ----------
    step : float
    until : int
        torch's T_max, when the step is smallest.
    end : float
        torch's eta_min, the smallest step.
    per : str
        "epoch" or "visit".

    >>> [round(CosineAnnealing(0.2, until=4)(t), 4) for t in range(6)]
    [0.2, 0.1707, 0.1, 0.0293, 0.0, 0.0293]
    """

    step: float
    until: int
    end: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            step=_arrays.nonnegative("step", self.step),
            until=_arrays.whole_number("until", self.until, 1),
            end=_arrays.nonnegative("end", self.end),
        )

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        # The angle of a whole number of turns less: its cosine is as exact after a million steps.
        angle = math.pi * (count % (2 * self.until)) / self.until
        return self.end + (self.step - self.end) * (1 + math.cos(angle)) / 2
