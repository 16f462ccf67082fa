"""Steps that begin small: up to a level, and for some of them down again."""

from dataclasses import dataclass

from reshuffle import _arrays
from reshuffle.recipe.schedules import ready_schedule
from reshuffle.recipe.schedules.ready_schedule import ReadySchedule


@dataclass(frozen=True, repr=False)
class ConstantWarmup(ReadySchedule):
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
            step=_arrays.nonnegative("step", self.step),
            until=_arrays.whole_number("until", self.until, 0),
            factor=ready_schedule.share("factor", self.factor),
        )

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        return self.step * self.factor if count < self.until else self.step


@dataclass(frozen=True, repr=False)
class LinearWarmup(ReadySchedule):
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
            step=_arrays.nonnegative("step", self.step),
            until=_arrays.whole_number("until", self.until, 1),
            start=ready_schedule.share("start", self.start),
            end=ready_schedule.share("end", self.end),
        )

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        return self.step * ready_schedule.between(
            self.start, self.end, min(count, self.until) / self.until, "linear"
        )


@dataclass(frozen=True, repr=False)
class WarmupStableDecay(ReadySchedule):
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
            step=_arrays.nonnegative("step", self.step),
            total=_arrays.whole_number("total", self.total, 1),
            warmup=_arrays.whole_number("warmup", self.warmup, 0),
            decay=_arrays.whole_number("decay", self.decay, 0),
            start=ready_schedule.share("start", self.start),
            end=ready_schedule.share("end", self.end),
            shape=_arrays.choice("shape", self.shape, ready_schedule.SHAPES),
        )
        if self.warmup + self.decay > self.total:
            raise ValueError(
                f"warmup and decay must fit into total, but warmup is {self.warmup}, decay is {self.decay} and "
                f"total is {self.total}."
            )

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        if count < self.warmup:
            return self.step * ready_schedule.between(self.start, 1.0, count / self.warmup, "linear")
        done = min(count, self.total) - (self.total - self.decay)
        return (
            self.step * ready_schedule.between(1.0, self.end, done / self.decay, self.shape)
            if done > 0
            else self.step
        )


@dataclass(frozen=True, repr=False)
class OneCycle(ReadySchedule):
    """torch's OneCycleLR with cycle_momentum=False: up to the peak, and down to nearly nothing.

    Momentum is not cycled, as it is by torch's default. Nothing is known beyond `total`.

    Parameters
    ----------
    peak : float
        torch's max_lr.
    total : int
        torch's total_steps.
    warmup : float
        torch's pct_start, the share of `total` that goes up, between 0 and 1; at most half with three_phase.
    shape : str
        torch's anneal_strategy: "cosine" or "linear".
    divisor, final_divisor : float
        torch's div_factor and final_div_factor: it starts at peak / divisor, and ends at that / final_divisor.
    three_phase : bool
        Whether it goes down as it went up, and then on to the end.
    per : str
        "epoch" or "visit".

    >>> cycle = OneCycle(0.5, total=11, shape="linear", per="visit")
    >>> [round(cycle(t), 3) for t in range(11)]
    [0.02, 0.229, 0.437, 0.455, 0.39, 0.325, 0.26, 0.195, 0.13, 0.065, 0.0]
    """

    peak: float
    total: int
    warmup: float = 0.3
    shape: str = "cosine"
    divisor: float = 25.0
    final_divisor: float = 1e4
    three_phase: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            peak=_arrays.nonnegative("peak", self.peak),
            total=_arrays.whole_number("total", self.total, 1),
            shape=_arrays.choice("shape", self.shape, ready_schedule.SHAPES),
            divisor=_arrays.positive("divisor", self.divisor),
            final_divisor=_arrays.positive("final_divisor", self.final_divisor),
            three_phase=_arrays.flag("three_phase", self.three_phase),
        )
        self._set(warmup=ready_schedule.share("warmup", self.warmup, 0.5 if self.three_phase else 1.0))

    @property
    def length(self) -> float:
        """All steps of the cycle."""
        return float(self.total)

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        low, top, last = self.peak / self.divisor, self.warmup * self.total - 1, self.total - 1.0
        phases = [(0.0, top, low, self.peak), (top, last, self.peak, low / self.final_divisor)]
        if self.three_phase:
            phases[1:] = [(top, 2 * top, self.peak, low), (2 * top, last, low, low / self.final_divisor)]
        begin, end, first, second = next((phase for phase in phases if count <= phase[1]), phases[-1])
        # A phase of a single step is at its end, where torch would divide by zero.
        done = (count - begin) / (end - begin) if end > begin else 1.0
        return ready_schedule.between(first, second, done, self.shape)
