"""Recipes of runs: the step of every epoch or visit, penalty, momentum, averages of iterates, stages."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.errors import ArgumentError, UnsupportedError
from reshuffle.problem.row_space import RowSpace
from reshuffle.recipe.schedules import COUNTED, PerVisit, StepLike, Steps, StepSchedule, checked_steps
from reshuffle.schemes.base import Scheme

Schedule: TypeAlias = float | Steps
"""A number, a tuple with one number per epoch, a function of the epochs done before, or a `StepSchedule`."""

_SCALED_STEPS = (1e-12, 1e12)
"""Steps times the square of the largest feature plus the penalty: below nothing moves in 1e12 visits, beyond one
visit is noise."""


class Average:
    """A weighted sum a of the iterates beta, updated after every epoch or every visit: a -> kept a + taken beta.

    `start` epochs are left out. With decay < 1 the sum begins with beta_0, and its weights add up to one; with
    decay = 1 it begins with zero and is divided by the number of its terms.
    """

    per: str
    start: int = 0
    decay: float = 1.0

    @property
    def is_per_visit(self) -> bool:
        """True if the average is updated after every visit, not only after every epoch."""
        return self.per == "visit"

    def updates(self, steps: int) -> int:
        """The number of updates in an epoch of `steps` visits."""
        return steps if self.is_per_visit else 1

    @property
    def begins_with_iterate(self) -> bool:
        """True if a is the iterate before the first update; otherwise it is zero."""
        return self.decay < 1

    @property
    def kept(self) -> float:
        """The factor of a in an update."""
        return self.decay

    @property
    def taken(self) -> float:
        """The factor of the iterate in an update."""
        return 1 - self.decay if self.begins_with_iterate else 1.0

    @property
    def earliest(self) -> int:
        """The first epoch after which there is an average."""
        return 0 if self.begins_with_iterate else self.start + 1

    def divisor(self, epochs: float, steps: int) -> float:
        """The divisor of a after `epochs` epochs of `steps` visits each."""
        return 1.0 if self.begins_with_iterate else (epochs - self.start) * self.updates(steps)


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
        "epoch" or "visit": when it is updated.

    >>> EMA(0.99, per="visit")
    EMA(decay=0.99, per='visit')
    >>> EMA(1.0)
    Traceback (most recent call last):
    ...
    reshuffle.errors.ArgumentError: decay must be at least 0 and below 1, but it is 1.0.
    """

    decay: float
    per: str = "epoch"

    def __post_init__(self) -> None:
        object.__setattr__(self, "decay", _arrays.below_one("decay", self.decay))
        _arrays.choice("per", self.per, COUNTED)


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
        "epoch" or "visit": the iterates that are averaged.

    >>> TailAverage(start=10)
    TailAverage(start=10, per='epoch')
    """

    start: int = 0
    per: str = "epoch"

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", _arrays.whole_number("start", self.start, 0))
        _arrays.choice("per", self.per, COUNTED)


@dataclass(frozen=True)
class Hyperparameters:
    """The hyperparameters of one epoch: torch's `lr`, `weight_decay`, `momentum` and `nesterov`.

    With g the gradient of the batch's mean loss plus penalty * beta, the buffer v starts at zero and
    v -> momentum v + g, beta -> beta - step v; with nesterov, beta -> beta - step (g + momentum v), the new v.
    `step` is the largest of the epoch, `shares` (B,) that of each visit over it; empty if all are the same.
    """

    step: float
    penalty: float = 0.0
    momentum: float = 0.0
    nesterov: bool = False
    shares: tuple[float, ...] = ()

    def share(self, slot: int) -> float:
        """The step of the visit after `slot` others, over the largest of the epoch."""
        return self.shares[slot] if self.shares else 1.0

    def step_of(self, slot: int) -> float:
        """The step of the visit after `slot` others."""
        return self.step * self.share(slot)

    def of_gradient(self, slot: int) -> float:
        """The factor of step times the gradient, by which the visit after `slot` others moves the parameters."""
        return self.share(slot) * (1 + self.momentum if self.nesterov else 1.0)

    def of_buffer(self, slot: int) -> float:
        """The factor of step times the buffer before the visit."""
        return self.share(slot) * (self.momentum * self.momentum if self.nesterov else self.momentum)

    def scaled(self, space: RowSpace) -> "Hyperparameters":
        """Hyperparameters for features divided by their scale."""
        step, penalty = self.step * space.scale * space.scale, self.penalty / space.scale / space.scale
        return replace(self, step=step, penalty=penalty)


@dataclass(frozen=True)
class Recipe:
    """The hyperparameters of every epoch; recipes are equal if their entries are.

    `schedule` is the step of one visit: always the same, one per epoch, a function of the epochs done before, or a
    schedule, which may go by visits. It counts through all stages, begins after `offset` of its steps, and is
    divided by `divisor`: 1, or the steps of an epoch if it was given as alpha. `average` takes the place of the
    last iterate in all answers. `visits` are those of an epoch. The penalty leaves out the columns `unpenalized`.
    `stages` are pairs of epochs and visits per epoch, as far as the schedule reaches, if the scheme has stages;
    the last of these `ends`.
    """

    schedule: Schedule
    penalty: float = 0.0
    momentum: float = 0.0
    divisor: int = 1
    average: Average | None = None
    nesterov: bool = False
    visits: int = 1
    unpenalized: tuple[int, ...] = ()
    stages: tuple[tuple[float, int], ...] = ()
    ends: float = math.inf
    offset: int = 0

    @property
    def is_constant(self) -> bool:
        """True if all epochs are alike."""
        return isinstance(self.schedule, float) and not self.stages

    @property
    def has_limit(self) -> bool:
        """True if epochs are alike from some epoch on, for ever."""
        return isinstance(self.schedule, float) and math.isinf(self.ends)

    @cached_property
    def begins(self) -> FloatArray:
        """The epochs before each of the stages."""
        return np.cumsum([0.0, *(length for length, _ in self.stages[:-1])])

    @cached_property
    def parts(self) -> "tuple[Recipe, ...]":
        """The recipe of each stage of the scheme, as if the run began with it."""
        if not self.stages:
            return (self,)
        made, visited = [], 0.0
        for begin, (length, visits) in zip(self.begins, self.stages, strict=True):
            offset = 0.0 if isinstance(self.schedule, float) else visited if self.goes_by_visits else begin
            made.append(replace(self, visits=visits, stages=(), ends=math.inf, offset=int(offset)))
            visited += length * visits
        return tuple(made)

    def fitted(self, scheme: Scheme, n: int) -> "Recipe":
        """The recipe where epochs take the visits that `scheme` makes to n rows, in each of its stages."""
        plain = replace(self, visits=scheme.steps(n), stages=(), ends=math.inf)
        if not scheme.has_stages:
            return plain
        if self.average is not None:
            raise UnsupportedError(
                f"average must be None for {scheme!r}, whose epochs differ in their visits, but it is "
                f"{self.average!r}."
            )
        stages = [(length, each.steps(n)) for length, each in scheme.stages]
        counts = [count for _, count in stages]
        if self.divisor != 1 and len(set(counts)) > 1:
            raise ValueError(
                f"step must be given in place of alpha for {scheme!r}, since alpha is step times the visits per "
                f"epoch, and its stages have {', '.join(map(str, counts))}."
            )
        made = replace(plain, stages=tuple(stages[:1]), ends=sum(length for length, _ in stages))
        for stage in stages[1:]:
            longer = replace(made, stages=(*made.stages, stage))
            if longer.parts[-1].horizon < 1:
                # The schedule is over before this stage begins.
                break
            made = longer
        return made

    @property
    def averages_visits(self) -> bool:
        """True if the average is updated after every visit."""
        return self.average is not None and self.average.is_per_visit

    @property
    def is_plain(self) -> bool:
        """True if there is nothing but a step in an epoch."""
        return self.is_constant and self.penalty == 0 and self.momentum == 0 and not self.averages_visits

    @property
    def earliest(self) -> int:
        """The first epoch that has an answer."""
        return 0 if self.average is None else self.average.earliest

    @property
    def is_even(self) -> bool:
        """True if the visits of an epoch are alike, and treat all parameters alike."""
        return self._steps_per_epoch == 1 and not self.averages_visits and not self.unpenalized

    @property
    def horizon(self) -> float:
        """The last epoch that is known."""
        if self.stages:
            return min(float(self.begins[-1]) + self.parts[-1].horizon, self.ends)
        if isinstance(self.schedule, StepSchedule):
            length = self.schedule.length
        else:
            length = float(len(self.schedule)) if isinstance(self.schedule, tuple) else math.inf
        return (length - self.offset) // self._steps_per_epoch if math.isfinite(length) else math.inf

    @property
    def goes_by_visits(self) -> bool:
        """True if the schedule counts visits, not epochs."""
        return isinstance(self.schedule, StepSchedule) and self.schedule.per == "visit"

    @property
    def _steps_per_epoch(self) -> int:
        """The number of steps of the schedule that an epoch takes."""
        return self.visits if self.goes_by_visits else 1

    def at(self, epoch: int) -> Hyperparameters:
        """The hyperparameters of the epoch after `epoch` others."""
        if self.stages:
            number = int(np.searchsorted(self.begins, epoch, side="right")) - 1
            return self.parts[number].at(epoch - int(self.begins[number]))
        count, steps = self._steps_per_epoch, []
        for place in range(self.offset + epoch * count, self.offset + (epoch + 1) * count):
            if callable(self.schedule):
                step = _arrays.nonnegative(f"step({place})", self.schedule(place))
            else:
                step = self.schedule[place] if isinstance(self.schedule, tuple) else self.schedule
            steps.append(step / self.divisor)
        largest = max(steps)
        shares = tuple(step / largest for step in steps) if min(steps) < largest else ()
        return Hyperparameters(largest, self.penalty, self.momentum, self.nesterov, shares)

    def require_ordinary(self, scale: float) -> None:
        """Refuse steps that are hopelessly small or large for features whose largest entry is about `scale`.

        Zero is allowed, and functions are trusted.
        """
        known = self.schedule.steps if isinstance(self.schedule, PerVisit) else self.schedule
        name = "step" if self.divisor == 1 else "alpha"
        curvature = scale * scale + self.penalty
        low, high = (limit / curvature * self.divisor for limit in _SCALED_STEPS)
        for step in (known,) if isinstance(known, float) else known if isinstance(known, tuple) else ():
            if step and not low <= step <= high:
                allowed = (
                    f"be 0, or between {low:.3g} and {high:.3g} for features whose largest entry is about"
                )
                given = f"it is {step:.6g}"
                raise ArgumentError(name, f"{allowed} {scale:.3g}", given, "try less than {critical_step}")

    def epochs(self, epochs: Any) -> FloatArray:
        """Return the requested epochs, if the schedule knows them and there is an average by then."""
        when = _arrays.epochs(epochs)
        first, last = float(when.min(initial=np.inf)), float(when.max(initial=0.0))
        if first < self.earliest:
            allowed = f"be at least {self.earliest} for {self.average!r}, which averages nothing before"
            given = f"one is {first:g}"
            raise ArgumentError("epochs", allowed, given, "try a smaller start, or later epochs")
        if last > self.ends:
            given, hint = f"one is {last:g}", "give more stages, or None for the epochs of the last one"
            raise ArgumentError("epochs", f"be at most {self.ends:g}, where the last stage ends", given, hint)
        if self.has_limit:
            return when
        if last > self.horizon:
            of_visits = ""
            if isinstance(self.schedule, StepSchedule) and self.goes_by_visits:
                per_epoch = " through the stages" if self.stages else f", {self.visits} per epoch"
                of_visits = f" of {self.schedule.length:g} visits{per_epoch}"
            allowed = f"be at most {self.horizon:g}, the length of the step schedule{of_visits}"
            given = f"one is {last:g}"
            raise ArgumentError("epochs", allowed, given, "give a longer list, or a function of the epoch")
        if math.isinf(last):
            allowed = "be finite under a step schedule, which has no limit"
            raise ArgumentError("epochs", allowed, "one is inf", "give a constant step to ask for limits")
        return when

    def __repr__(self) -> str:
        if isinstance(self.schedule, float):
            words = [f"step={self.schedule / self.divisor:g}"]
        elif isinstance(self.schedule, StepSchedule):
            words = [f"{'step' if self.divisor == 1 else 'alpha'}={self.schedule!r}"]
        else:
            of = f"{len(self.schedule)} epochs" if isinstance(self.schedule, tuple) else "a function"
            words = [f"step schedule of {of}"]
        words += [f"penalty={self.penalty:g}"] if self.penalty else []
        words += [f"unpenalized={list(self.unpenalized)}"] if self.unpenalized else []
        words += [f"momentum={self.momentum:g}"] if self.momentum else []
        words += [f"average={self.average}"] if self.average else []
        words += ["nesterov=True"] if self.nesterov else []
        return ", ".join(words)


def checked(
    step: StepLike | None,
    alpha: StepLike | None,
    penalty: float,
    momentum: float,
    steps_per_epoch: int,
    nesterov: bool = False,
    unpenalized: ArrayLike = (),
    p: int = 0,
    average: Any = None,
) -> Recipe:
    """Check the arguments of a user; exactly one of `step` and `alpha` = step * steps_per_epoch, p columns."""
    if (step is None) == (alpha is None):
        raise TypeError(
            f"exactly one of step and alpha must be given, but step is {step!r} and alpha is {alpha!r}."
        )
    given = _arrays.any_array("unpenalized", unpenalized)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        allowed = "be a list of column numbers, such as [0]"
        raise ArgumentError("unpenalized", allowed, f"it is {unpenalized!r}")
    columns = [_arrays.whole_number("unpenalized", number, -p, p - 1) % p for number in given.tolist()]
    if len(set(columns)) < len(columns):
        raise ArgumentError("unpenalized", "name a column once", f"it is {given.tolist()}")
    penalty = _arrays.nonnegative("penalty", penalty)
    if p and len(columns) == p:
        penalty = 0.0
    name, value = ("step", step) if step is not None else ("alpha", alpha)
    by_epoch = callable(value) or _arrays.any_array(name, value).ndim
    schedule = checked_steps(name, value, "epoch") if by_epoch else _arrays.nonnegative(name, value)
    made = Recipe(
        schedule=schedule,
        penalty=penalty,
        momentum=_arrays.below_one("momentum", momentum),
        divisor=1 if alpha is None else steps_per_epoch,
        nesterov=_arrays.flag("nesterov", nesterov),
        visits=steps_per_epoch,
        unpenalized=tuple(sorted(columns)) if penalty else (),
    )
    if made.nesterov and made.momentum == 0:
        allowed = "be above 0 with nesterov=True, which looks ahead by it"
        raise ArgumentError("momentum", allowed, f"it is {momentum!r}", "try momentum=0.9, or nesterov=False")
    if average is None:
        return made
    if not isinstance(average, Average):
        raise TypeError(f"average must be EMA(decay) or TailAverage(start), but it is {average!r}.")
    if average.earliest > made.horizon:
        allowed = f"start before the step schedule ends, after {made.horizon:g} epochs"
        found = f"it is {average!r}"
        raise ArgumentError("average", allowed, found, "try a smaller start, or a longer schedule")
    return replace(made, average=average)
