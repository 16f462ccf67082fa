"""What a step schedule is: the step of every epoch, or of every visit, one after the other."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from numpy.typing import ArrayLike

from reshuffle import _arrays

StepLike: TypeAlias = ArrayLike | Callable[[int], Any]
"""A number, a list with one number per epoch, a function of the epochs done before, or a `StepSchedule`."""
Steps: TypeAlias = tuple[float, ...] | Callable[[int], Any]
"""A list, or a function of how many there were before."""

COUNTED = ("epoch", "visit")
"""What a schedule counts."""


class StepSchedule(ABC):
    """The steps of a run as a function of how many epochs, or visits, were before: 0, 1, 2, ...

    Schedules are equal if their entries are.
    """

    @property
    @abstractmethod
    def per(self) -> str:
        """What is counted: "epoch" or "visit"."""

    @property
    def length(self) -> float:
        """How many steps there are; infinite if they never end."""
        return math.inf

    @abstractmethod
    def __call__(self, count: int) -> float:
        """The step after `count` others."""


@dataclass(frozen=True, repr=False)
class PerVisit(StepSchedule):
    """Steps that change with every visit, counted from the start of training.

    With B batches per epoch the visit number k is in epoch k // B. In a random order a step belongs to its place in
    the order, whatever batch comes there: as where torch's scheduler is stepped after every batch.

    Parameters
    ----------
    steps : list or callable
        One step per visit, and nothing is known beyond the last one; or a function of the visits done before.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(60, 20, noise=1.0, seed=1)
    >>> warm = rs.PerVisit(lambda visit: 0.15 * min(1.0, (visit + 1) / 10))
    >>> rs.descend(problem, rs.RandomReshuffling(batch_size=15), step=warm).risk([1, 10]).total.round(4)
    array([0.6922, 0.4175])
    >>> rs.PerVisit([0.1, 0.2])
    PerVisit([0.1, 0.2])
    """

    steps: StepLike

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", checked_steps("steps", self.steps, "visit"))

    @property
    def _known(self) -> Steps:
        """The steps, as they were checked."""
        return cast(Steps, self.steps)

    @property
    def per(self) -> str:
        """Visits."""
        return "visit"

    @property
    def length(self) -> float:
        """How many visits are known."""
        return float(len(self._known)) if isinstance(self._known, tuple) else math.inf

    def __call__(self, count: int) -> Any:
        """The step of the visit after `count` others, as it was given."""
        return self._known[count] if isinstance(self._known, tuple) else self._known(count)

    def __repr__(self) -> str:
        known = self._known
        if not isinstance(known, tuple):
            return f"PerVisit({getattr(known, '__name__', repr(known))})"
        shown = ", ".join(f"{step:g}" for step in known[:4])
        return f"PerVisit([{shown}{', ...' if len(known) > 4 else ''}])"


def checked_steps(name: str, value: Any, per: str) -> Steps:
    """Return a list of steps >= 0, one per epoch or visit, as a tuple; and a function as it is.

    >>> checked_steps("step", [0.1, -0.2], "epoch")
    Traceback (most recent call last):
    ...
    ValueError: step must hold numbers >= 0, but step[1] is -0.2.
    """
    if isinstance(value, type):
        raise TypeError(
            f"{name} must be a schedule that is made, but it is the class {value.__name__}; "
            f"call it: {value.__name__}(...)."
        )
    if callable(value):
        function: Callable[[int], Any] = value
        return function
    steps = _arrays.real_array(name, value, advice=f"give a number >= 0 for every {per}")
    if steps.ndim != 1 or steps.size == 0:
        raise ValueError(
            f"{name} must be {'a number, ' * (per == 'epoch')}a list with one entry per {per} or "
            f"a function of the {per}, but its shape is {steps.shape}."
        )
    if steps.min() < 0:
        place = int(steps.argmin())
        raise ValueError(f"{name} must hold numbers >= 0, but {name}[{place}] is {steps[place]}.")
    return tuple(steps.tolist())
