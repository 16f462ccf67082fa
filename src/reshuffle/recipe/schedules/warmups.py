"""Steps that begin small."""

from dataclasses import dataclass

from reshuffle._core import checks
from reshuffle.recipe.schedules import curves
from reshuffle.recipe.schedules.curves import Paced


@dataclass(frozen=True, repr=False)
class ConstantWarmup(Paced):
    """torch's ConstantLR: step * factor until t = `until`, and step from then on.

    Parameters
    ----------
    step : float
    until : int
        torch's total_iters.
    factor : float
        Between 0 and 1.
    per : str
        "epoch" or "visit".

    >>> [ConstantWarmup(0.3, until=2, factor=0.5)(t) for t in range(3)]
    [0.15, 0.15, 0.3]
    """

    step: float
    until: int = 5
    factor: float = 1 / 3

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            step=checks.nonnegative("step", self.step),
            until=checks.whole_number("until", self.until, 0),
            factor=curves.share("factor", self.factor),
        )

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        return self.step * self.factor if count < self.until else self.step


@dataclass(frozen=True, repr=False)
class LinearWarmup(Paced):
    """torch's LinearLR: step times a factor that goes from `start` to `end` on a straight line until t = `until`.

    Parameters
    ----------
    step : float
    until : int
        torch's total_iters.
    start, end : float
        torch's start_factor and end_factor, between 0 and 1. With start=1 and end=0 it is a linear decay.
    per : str
        "epoch" or "visit".

    >>> [LinearWarmup(0.4, until=4, start=0.0)(t) for t in range(6)]
    [0.0, 0.1, 0.2, 0.30000000000000004, 0.4, 0.4]
    """

    step: float
    until: int = 5
    start: float = 1 / 3
    end: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            step=checks.nonnegative("step", self.step),
            until=checks.whole_number("until", self.until, 1),
            start=curves.share("start", self.start),
            end=curves.share("end", self.end),
        )

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        return self.step * curves.between(self.start, self.end, min(count, self.until) / self.until, "linear")


@dataclass(frozen=True, repr=False)
class WarmupStableDecay(Paced):
    """Up on a straight line, long at the same step, and down at the end; beyond `total` the step stays where it is.

    It is torch's SequentialLR of LinearLR, ConstantLR with factor 1 and LinearLR.

    Parameters
    ----------
    step : float
    total : int
        The whole length.
    warmup, decay : int
        How much of it goes up, and how much goes down.
    start, end : float
        What the step is multiplied by at the beginning and at the end, between 0 and 1.
    shape : str
        How it goes down: "linear" or "cosine".
    per : str
        "epoch" or "visit".

    >>> [WarmupStableDecay(1.0, total=7, warmup=2, decay=2)(t) for t in range(8)]
    [0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 0.5, 0.0]
    """

    step: float
    total: int
    warmup: int
    decay: int
    start: float = 0.0
    end: float = 0.0
    shape: str = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            step=checks.nonnegative("step", self.step),
            total=checks.whole_number("total", self.total, 1),
            warmup=checks.whole_number("warmup", self.warmup, 0),
            decay=checks.whole_number("decay", self.decay, 0),
            start=curves.share("start", self.start),
            end=curves.share("end", self.end),
            shape=checks.choice("shape", self.shape, curves.SHAPES),
        )
        if self.warmup + self.decay > self.total:
            raise ValueError(
                f"warmup and decay must fit into total, but warmup is {self.warmup}, decay is {self.decay} and "
                f"total is {self.total}."
            )

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        if count < self.warmup:
            return self.step * curves.between(self.start, 1.0, count / self.warmup, "linear")
        done = min(count, self.total) - (self.total - self.decay)
        return (
            self.step * curves.between(1.0, self.end, done / self.decay, self.shape)
            if done > 0
            else self.step
        )
