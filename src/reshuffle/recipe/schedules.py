"""Step schedules: the step of every epoch, or of every visit; those of torch.optim.lr_scheduler as `rs.schedules`.

Each ready one is a function of t, the epochs done before, or the visits with per="visit": torch's scheduler stepped
after every epoch, or after every batch.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Annotated, Any, TypeAlias, cast

from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle.errors import ArgumentError

__all__ = [
    "ConstantWarmup",
    "CosineAnnealing",
    "ExponentialDecay",
    "Joined",
    "LinearWarmup",
    "OneCycle",
    "PerVisit",
    "StepDecay",
    "WarmupStableDecay",
]

StepLike: TypeAlias = ArrayLike | Callable[[int], Any]
"""A number, a list with one number per epoch, a function of the epochs done before, or a `StepSchedule`."""
Steps: TypeAlias = tuple[float, ...] | Callable[[int], Any]
"""A list, or a function of how many there were before."""

COUNTED = ("epoch", "visit")
"""The unit in which a schedule counts."""


class StepSchedule(ABC):
    """The steps of a run as a function of how many epochs, or visits, were before: 0, 1, 2, ..."""

    @property
    @abstractmethod
    def per(self) -> str:
        """The unit of the count: "epoch" or "visit"."""

    @property
    def length(self) -> float:
        """The number of steps; infinite if they never end."""
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
    def per(self) -> str:
        return "visit"

    @property
    def length(self) -> float:
        return float(len(self.steps)) if isinstance(self.steps, tuple) else math.inf

    def __call__(self, count: int) -> Any:
        known = cast(Steps, self.steps)
        return known[count] if isinstance(known, tuple) else known(count)

    def __repr__(self) -> str:
        known = cast(Steps, self.steps)
        if not isinstance(known, tuple):
            return f"PerVisit({getattr(known, '__name__', repr(known))})"
        shown = ", ".join(f"{step:g}" for step in known[:4])
        return f"PerVisit([{shown}{', ...' if len(known) > 4 else ''}])"


def checked_steps(name: str, value: Any, per: str) -> Steps:
    """Return a list of steps >= 0, one per epoch or visit, as a tuple; and a function as it is."""
    if isinstance(value, type):
        made = value.__name__
        raise TypeError(
            f"{name} must be a schedule that is made, but it is the class {made}; call it: {made}(...)."
        )
    if callable(value):
        return cast(Steps, value)
    steps = _arrays.real_array(name, value, advice=f"give a number >= 0 for every {per}")
    if steps.ndim != 1 or steps.size == 0:
        raise ValueError(
            f"{name} must be {'a number, ' * (per == 'epoch')}a list with one entry per {per} or "
            f"a function of the {per}, but its shape is {steps.shape}."
        )
    if steps.min() < 0:
        place = int(steps.argmin())
        raise ArgumentError(name, "hold numbers >= 0", f"{name}[{place}] is {steps[place]}")
    return tuple(steps.tolist())


def _share(name: str, value: Any, most: float = 1.0) -> float:
    number = _arrays.nonnegative(name, value)
    if number > most:
        raise ArgumentError(name, f"be between 0 and {most:g}", f"it is {value!r}")
    return number


def _factor(name: str, value: Any) -> float:
    number = _arrays.positive(name, value)
    if number > 1:
        raise ArgumentError(name, "be above 0 and at most 1", f"it is {value!r}")
    return number


# A ready schedule checks each of its fields by what its type is annotated with.
Step: TypeAlias = Annotated[float, _arrays.nonnegative]
Positive: TypeAlias = Annotated[float, _arrays.positive]
Factor: TypeAlias = Annotated[float, _factor]
Share: TypeAlias = Annotated[float, _share]
Count: TypeAlias = Annotated[int, partial(_arrays.whole_number, low=0)]
Length: TypeAlias = Annotated[int, partial(_arrays.whole_number, low=1)]
Shape: TypeAlias = Annotated[str, partial(_arrays.choice, allowed=("cosine", "linear"))]
Flag: TypeAlias = Annotated[bool, _arrays.flag]
Counted: TypeAlias = Annotated[str, partial(_arrays.choice, allowed=COUNTED)]


@dataclass(frozen=True, repr=False)
class ReadySchedule(StepSchedule):
    """A schedule that goes by epochs, or by visits."""

    per: Counted = field(default="epoch", kw_only=True)

    def __post_init__(self) -> None:
        for one in fields(self):
            for check in getattr(one.type, "__metadata__", ()):
                object.__setattr__(self, one.name, check(one.name, getattr(self, one.name)))

    def __repr__(self) -> str:
        # `per` is the first of the fields, but can be given by its name alone.
        own = [*fields(self)[1:], *(fields(self)[:1] if self.per == "visit" else ())]
        return f"{type(self).__name__}({', '.join(f'{one.name}={getattr(self, one.name)!r}' for one in own)})"


def _between(start: float, end: float, done: float, shape: str) -> float:
    """The value on the way from start to end, once a share of the way is done."""
    if shape == "cosine":
        return end + (start - end) * (1 + math.cos(math.pi * done)) / 2
    return start + (end - start) * done


@dataclass(frozen=True, repr=False)
class StepDecay(ReadySchedule):
    """torch's StepLR: step * factor^(t // every).

    Parameters
    ----------
    step : float
        torch's base learning rate, or alpha where that is given.
    every : int
        torch's step_size.
    factor : float
        torch's gamma, above 0 and at most 1.
    per : str
        "epoch" or "visit".

    >>> [StepDecay(0.8, every=2, factor=0.5)(t) for t in range(5)]
    [0.8, 0.8, 0.4, 0.4, 0.2]
    """

    step: Step
    every: Length
    factor: Factor = 0.1

    def __call__(self, count: int) -> float:
        return float(self.step * self.factor ** (count // self.every))


@dataclass(frozen=True, repr=False)
class ExponentialDecay(ReadySchedule):
    """torch's ExponentialLR: step * factor^t.

    Parameters
    ----------
    step, factor, per
        As in StepDecay.

    >>> ExponentialDecay(0.8, 0.5)(3)
    0.1
    """

    step: Step
    factor: Factor

    def __call__(self, count: int) -> float:
        return float(self.step * self.factor**count)


@dataclass(frozen=True, repr=False)
class CosineAnnealing(ReadySchedule):
    """torch's CosineAnnealingLR: end + (step - end) (1 + cos(pi t / until)) / 2, which rises again beyond `until`.

    Parameters
    ----------
    step, per
        As in StepDecay.
    until : int
        torch's T_max, when the step is smallest.
    end : float
        torch's eta_min, the smallest step.

    >>> [round(CosineAnnealing(0.2, until=4)(t), 4) for t in range(6)]
    [0.2, 0.1707, 0.1, 0.0293, 0.0, 0.0293]
    """

    step: Step
    until: Length
    end: Step = 0.0

    def __call__(self, count: int) -> float:
        # The angle of a whole number of turns less: its cosine is as exact after a million steps.
        angle = math.pi * (count % (2 * self.until)) / self.until
        return self.end + (self.step - self.end) * (1 + math.cos(angle)) / 2


@dataclass(frozen=True, repr=False)
class ConstantWarmup(ReadySchedule):
    """torch's ConstantLR: step * factor until t = `until`, and step from then on.

    Parameters
    ----------
    step, per
        As in StepDecay.
    until : int
        torch's total_iters.
    factor : float
        Between 0 and 1.

    >>> [ConstantWarmup(0.3, until=2, factor=0.5)(t) for t in range(3)]
    [0.15, 0.15, 0.3]
    """

    step: Step
    until: Count = 5
    factor: Share = 1 / 3

    def __call__(self, count: int) -> float:
        return self.step * self.factor if count < self.until else self.step


@dataclass(frozen=True, repr=False)
class LinearWarmup(ReadySchedule):
    """torch's LinearLR: step times a factor that goes from `start` to `end` on a straight line until t = `until`.

    Parameters
    ----------
    step, per
        As in StepDecay.
    until : int
        torch's total_iters.
    start, end : float
        torch's start_factor and end_factor, between 0 and 1. With start=1 and end=0 it is a linear decay.

    >>> [LinearWarmup(0.4, until=4, start=0.0)(t) for t in range(6)]
    [0.0, 0.1, 0.2, 0.30000000000000004, 0.4, 0.4]
    """

    step: Step
    until: Length = 5
    start: Share = 1 / 3
    end: Share = 1.0

    def __call__(self, count: int) -> float:
        return self.step * _between(self.start, self.end, min(count, self.until) / self.until, "linear")


@dataclass(frozen=True, repr=False)
class WarmupStableDecay(ReadySchedule):
    """Up on a straight line, long at the same step, and down at the end; beyond `total` the step stays where it is.

    It is torch's SequentialLR of LinearLR, ConstantLR with factor 1 and LinearLR.

    Parameters
    ----------
    step, per
        As in StepDecay.
    total : int
        The whole length.
    warmup, decay : int
        The lengths of the increase and of the decrease.
    start, end : float
        Factors of the step at the beginning and at the end, between 0 and 1.
    shape : str
        The form of the decrease: "linear" or "cosine".

    >>> [WarmupStableDecay(1.0, total=7, warmup=2, decay=2)(t) for t in range(8)]
    [0.0, 0.5, 1.0, 1.0, 1.0, 1.0, 0.5, 0.0]
    """

    step: Step
    total: Length
    warmup: Count
    decay: Count
    start: Share = 0.0
    end: Share = 0.0
    shape: Shape = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.warmup + self.decay > self.total:
            given = f"warmup is {self.warmup}, decay is {self.decay} and total is {self.total}"
            raise ArgumentError("warmup and decay", "fit into total", given)

    def __call__(self, count: int) -> float:
        if count < self.warmup:
            return self.step * _between(self.start, 1.0, count / self.warmup, "linear")
        done = min(count, self.total) - (self.total - self.decay)
        return self.step * _between(1.0, self.end, done / self.decay, self.shape) if done > 0 else self.step


@dataclass(frozen=True, repr=False)
class OneCycle(ReadySchedule):
    """torch's OneCycleLR with cycle_momentum=False: up to the peak, and down to nearly nothing.

    Momentum is not cycled, as it is by torch's default. Nothing is known beyond `total`.

    Parameters
    ----------
    peak, total
        torch's max_lr and total_steps.
    warmup : float
        torch's pct_start, the share of `total` that goes up, between 0 and 1; at most half with three_phase.
    shape : str
        torch's anneal_strategy: "cosine" or "linear".
    divisor, final_divisor : float
        torch's div_factor and final_div_factor: it starts at peak / divisor, and ends at that / final_divisor.
    three_phase : bool
        If True, the step decreases as it increased, and then on to the end.
    per : str
        "epoch" or "visit".

    >>> cycle = OneCycle(0.5, total=11, shape="linear", per="visit")
    >>> [round(cycle(t), 3) for t in range(11)]
    [0.02, 0.229, 0.437, 0.455, 0.39, 0.325, 0.26, 0.195, 0.13, 0.065, 0.0]
    """

    peak: Step
    total: Length
    warmup: float = 0.3
    shape: Shape = "cosine"
    divisor: Positive = 25.0
    final_divisor: Positive = 1e4
    three_phase: Flag = False

    def __post_init__(self) -> None:
        super().__post_init__()
        most = 0.5 if self.three_phase else 1.0
        object.__setattr__(self, "warmup", _share("warmup", self.warmup, most))

    @property
    def length(self) -> float:
        return float(self.total)

    def __call__(self, count: int) -> float:
        low, top, last = self.peak / self.divisor, self.warmup * self.total - 1, self.total - 1.0
        phases = [(0.0, top, low, self.peak), (top, last, self.peak, low / self.final_divisor)]
        if self.three_phase:
            phases[1:] = [(top, 2 * top, self.peak, low), (2 * top, last, low, low / self.final_divisor)]
        begin, end, first, second = next((phase for phase in phases if count <= phase[1]), phases[-1])
        # A phase of a single step is at its end, where torch would divide by zero.
        done = (count - begin) / (end - begin) if end > begin else 1.0
        return _between(first, second, done, self.shape)


@dataclass(frozen=True, repr=False)
class Joined(StepSchedule):
    """torch's SequentialLR: one schedule after the other, each from its own beginning.

    Parameters
    ----------
    schedules : list of schedules
        All per epoch, or all per visit.
    at : list of int
        torch's milestones: when each but the first begins, ascending.

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
            raise ArgumentError("schedules", "be all per epoch or all per visit", f"they are {parts!r}")
        starts = tuple(_arrays.whole_number(f"at[{place}]", start, 1) for place, start in enumerate(self.at))
        if len(starts) != len(parts) - 1 or list(starts) != sorted(set(starts)):
            allowed = f"hold {len(parts) - 1} ascending whole numbers, one per schedule but the first"
            raise ArgumentError("at", allowed, f"it is {list(starts)}")
        for part, begin, end in zip(parts, (0, *starts), starts, strict=False):
            if part.length < end - begin:
                given = f"{part!r} has {part.length:g} steps between {begin} and {end}"
                raise ArgumentError("schedules", "last until the next one begins", given)
        object.__setattr__(self, "schedules", parts)
        object.__setattr__(self, "at", starts)

    @property
    def per(self) -> str:
        return self.schedules[0].per

    @property
    def length(self) -> float:
        return (self.at[-1] if self.at else 0) + self.schedules[-1].length

    def __call__(self, count: int) -> float:
        number = sum(count >= start for start in self.at)
        return self.schedules[number](count - (self.at[number - 1] if number else 0))
