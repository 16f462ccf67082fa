"""Averages of iterates, which take the place of the last one in all answers: exponential, or of the tail."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from reshuffle import _arrays
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

    @property
    def is_per_visit(self) -> bool:
        """True if the iterate is taken on after every visit, not only after every epoch."""
        return self.per == "visit"

    def updates(self, steps: int) -> int:
        """The number of updates in an epoch of `steps` visits."""
        return steps if self.is_per_visit else 1

    @property
    @abstractmethod
    def kept(self) -> float:
        """The factor of a where the iterate is taken on."""

    @property
    @abstractmethod
    def taken(self) -> float:
        """The factor of the iterate that is taken on."""

    @property
    @abstractmethod
    def begins_with_iterate(self) -> bool:
        """True if a is the iterate before anything is taken on; otherwise it is zero."""

    @property
    @abstractmethod
    def earliest(self) -> int:
        """The first epoch after which there is an average."""

    @abstractmethod
    def divisor(self, epochs: float, steps: int) -> float:
        """The divisor of a after `epochs` epochs of `steps` visits each."""


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
        _arrays.choice("per", self.per, COUNTED)

    start = 0
    begins_with_iterate = True
    earliest = 0

    @property
    def kept(self) -> float:
        return self.decay

    @property
    def taken(self) -> float:
        return 1 - self.decay

    def divisor(self, epochs: float, steps: int) -> float:
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
        _arrays.choice("per", self.per, COUNTED)

    kept = 1.0
    taken = 1.0
    begins_with_iterate = False

    @property
    def earliest(self) -> int:
        return self.start + 1

    def divisor(self, epochs: float, steps: int) -> float:
        return (epochs - self.start) * self.updates(steps)
