"""Averages of iterates, which take the place of the last one in all answers: exponential, or of the tail."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.recipe.schedules import COUNTED


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
        _arrays.choice("per", self.per, COUNTED)

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


def checked(value: Any, horizon: float = math.inf) -> Average:
    """Return `value` if it is an average that begins before the last epoch there is.

    >>> checked(0.99)
    Traceback (most recent call last):
    ...
    TypeError: average must be EMA(decay) or TailAverage(start), but it is 0.99.
    """
    if not isinstance(value, Average):
        raise TypeError(f"average must be EMA(decay) or TailAverage(start), but it is {value!r}.")
    if value.earliest > horizon:
        raise ValueError(
            f"average must start before the step schedule ends, after {horizon:g} epochs, but it is {value!r}; "
            "try a smaller start, or a longer schedule."
        )
    return value


def require_begun(average: Average, epochs: FloatArray) -> None:
    """Refuse epochs after which nothing has been averaged yet."""
    if not epochs.size or float(epochs.min()) >= average.earliest:
        return
    raise ValueError(
        f"epochs must be at least {average.earliest} for {average!r}, which averages nothing before, but one is "
        f"{float(epochs.min()):g}; try a smaller start, or later epochs."
    )


@dataclass(frozen=True)
class EMA(Average):
    """The exponential moving average of the iterates: a -> decay a + (1 - decay) beta, from a = beta_0.

    As torch's `AveragedModel` with `get_ema_multi_avg_fn(decay)` has it, if `update_parameters` is called once
    before training: the first call copies the parameters. If it is not, torch's average begins with the iterate of
    the first epoch or visit, and differs from this one by decay^k (beta_1 - beta_0) after k updates.

    Parameters
    ----------
    decay : float
        In [0, 1); with 0 the average is the iterate.
    per : str
        Whether it is updated after every "epoch" or after every "visit".

    >>> EMA(0.99, per="visit")
    EMA(decay=0.99, per='visit')
    >>> EMA(1.0)
    Traceback (most recent call last):
    ...
    ValueError: decay must be at least 0 and below 1, but it is 1.0.
    """

    decay: float
    per: str = "epoch"

    def __post_init__(self) -> None:
        decay = _arrays.nonnegative("decay", self.decay)
        if decay >= 1:
            raise ValueError(f"decay must be at least 0 and below 1, but it is {self.decay!r}.")
        object.__setattr__(self, "decay", decay)
        self._check_per()

    start = 0
    begins_with_iterate = True
    earliest = 0

    @property
    def kept(self) -> float:
        """The decay."""
        return self.decay

    @property
    def taken(self) -> float:
        """1 - decay."""
        return 1 - self.decay

    def divisor(self, epochs: float, steps: int) -> float:
        """Nothing is divided: the weights add up to one, whatever `epochs` and `steps`."""
        return 1.0


@dataclass(frozen=True)
class TailAverage(Average):
    """The mean of all iterates after the first `start` epochs: stochastic weight averaging.

    With per="epoch" the mean of the iterates of epochs start + 1, ..., k, as torch's `AveragedModel` has it that
    is updated after each of these; with per="visit" that over all visits of these epochs. After `start` epochs or
    fewer nothing has been averaged, and asking for it is an error.

    Parameters
    ----------
    start : int
        The epochs that are left out.
    per : str
        Whether the iterate counts after every "epoch" or after every "visit".

    >>> TailAverage(start=10)
    TailAverage(start=10, per='epoch')
    """

    start: int = 0
    per: str = "epoch"

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", _arrays.whole_number("start", self.start, 0))
        self._check_per()

    kept = 1.0
    taken = 1.0
    begins_with_iterate = False

    @property
    def earliest(self) -> int:
        """The epoch after the last one that is left out."""
        return self.start + 1

    def divisor(self, epochs: float, steps: int) -> float:
        """How many iterates were added up after `epochs` epochs of `steps` visits."""
        return (epochs - self.start) * self.updates(steps)
