"""Averages of iterates: what is reported in place of the last one."""

import math
from abc import ABC, abstractmethod
from typing import Any

from reshuffle._core import FloatArray, checks


class Average(ABC):
    """A weighted sum a of the iterates beta, taken on after every epoch or every visit: a -> kept a + taken beta.

    Attributes
    ----------
    per : str
        "epoch" or "visit": after which of them the iterate is taken on.
    start : int
        The epochs that are left out.
    """

    per: str
    start: int

    def _check_per(self) -> None:
        checks.choice("per", self.per, ("epoch", "visit"))

    @property
    def is_per_visit(self) -> bool:
        """Whether the iterate is taken on after every visit, not only after every epoch."""
        return self.per == "visit"

    def updates(self, steps: int) -> int:
        """How often in an epoch of `steps` visits the iterate is taken on."""
        return steps if self.is_per_visit else 1

    @property
    @abstractmethod
    def kept(self) -> float:
        """What is left of a where the iterate is taken on."""

    @property
    @abstractmethod
    def taken(self) -> float:
        """What the iterate that is taken on is multiplied by."""

    @property
    @abstractmethod
    def begins_with_iterate(self) -> bool:
        """Whether a is the iterate before anything is taken on; otherwise it is nothing."""

    @property
    @abstractmethod
    def earliest(self) -> int:
        """The first epoch after which there is an average."""

    @abstractmethod
    def divisor(self, epochs: float, steps: int) -> float:
        """What a is divided by after so many epochs of so many visits each."""


def checked(value: Any, horizon: float = math.inf) -> Average | None:
    """Return `value` if it is an average that begins before the last epoch there is, or None.

    >>> checked(0.99)
    Traceback (most recent call last):
    ...
    TypeError: average must be EMA(decay) or TailAverage(start), but it is 0.99.
    """
    if value is None:
        return None
    if not isinstance(value, Average):
        raise TypeError(f"average must be EMA(decay) or TailAverage(start), but it is {value!r}.")
    if value.earliest > horizon:
        raise ValueError(
            f"average must start before the step schedule ends, after {horizon:g} epochs, but it is {value!r}; "
            "try a smaller start, or a longer schedule."
        )
    return value


def require_begun(average: Average | None, epochs: FloatArray) -> None:
    """Refuse epochs after which nothing has been averaged yet."""
    if average is None or not epochs.size or float(epochs.min()) >= average.earliest:
        return
    raise ValueError(
        f"epochs must be at least {average.earliest} for {average!r}, which averages nothing before, but one is "
        f"{float(epochs.min()):g}; try a smaller start, or later epochs."
    )
