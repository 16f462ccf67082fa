"""Step schedules: the step of every epoch, or of every visit; those of torch.optim.lr_scheduler as `rs.schedules`.

Each ready one is a function of t, the epochs done before, or the visits with per="visit": torch's scheduler stepped
after every epoch, or after every batch. `step` is torch's base learning rate, or alpha where that is given.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, cast

from numpy.typing import ArrayLike

from reshuffle import _arrays

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


def checked_factor(name: str, value: Any) -> float:
    """Return a float above 0 and at most 1."""
    number = _arrays.positive(name, value)
    if number > 1:
        raise ValueError(f"{name} must be above 0 and at most 1, but it is {value!r}.")
    return number


def checked_share(name: str, value: Any, most: float = 1.0) -> float:
    """Return a float between 0 and `most`."""
    number = _arrays.nonnegative(name, value)
    if number > most:
        raise ValueError(f"{name} must be between 0 and {most:g}, but it is {value!r}.")
    return number


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
            factor=checked_factor("factor", self.factor),
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
        self._set(step=_arrays.nonnegative("step", self.step), factor=checked_factor("factor", self.factor))

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
            factor=checked_share("factor", self.factor),
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
            start=checked_share("start", self.start),
            end=checked_share("end", self.end),
        )

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        return self.step * between(self.start, self.end, min(count, self.until) / self.until, "linear")


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
            start=checked_share("start", self.start),
            end=checked_share("end", self.end),
            shape=_arrays.choice("shape", self.shape, SHAPES),
        )
        if self.warmup + self.decay > self.total:
            raise ValueError(
                f"warmup and decay must fit into total, but warmup is {self.warmup}, decay is {self.decay} and "
                f"total is {self.total}."
            )

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        if count < self.warmup:
            return self.step * between(self.start, 1.0, count / self.warmup, "linear")
        done = min(count, self.total) - (self.total - self.decay)
        return self.step * between(1.0, self.end, done / self.decay, self.shape) if done > 0 else self.step


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
            shape=_arrays.choice("shape", self.shape, SHAPES),
            divisor=_arrays.positive("divisor", self.divisor),
            final_divisor=_arrays.positive("final_divisor", self.final_divisor),
            three_phase=_arrays.flag("three_phase", self.three_phase),
        )
        self._set(warmup=checked_share("warmup", self.warmup, 0.5 if self.three_phase else 1.0))

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
        return between(first, second, done, self.shape)


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
