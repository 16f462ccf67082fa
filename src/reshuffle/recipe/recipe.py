"""How a run is made: the step of every epoch, the penalty, the momentum."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._core import FloatArray, checks
from reshuffle.problem.row_space import RowSpace
from reshuffle.recipe import average as averages
from reshuffle.recipe.average import Average

StepLike: TypeAlias = ArrayLike | Callable[[int], Any]
"""A number, a list with one number per epoch, or a function of the epochs done before."""
Schedule: TypeAlias = float | tuple[float, ...] | Callable[[int], Any]


@dataclass(frozen=True)
class Hyperparameters:
    """What one visit is done with: torch's `lr`, `weight_decay` and `momentum`.

    With g the gradient of the batch's mean loss plus penalty * beta, the buffer v starts at zero and
    v -> momentum v + g, beta -> beta - step v.
    """

    step: float
    penalty: float = 0.0
    momentum: float = 0.0

    def scaled(self, space: RowSpace) -> "Hyperparameters":
        """The same for features divided by their scale."""
        return Hyperparameters(
            self.step * space.scale * space.scale, self.penalty / space.scale / space.scale, self.momentum
        )


@dataclass(frozen=True)
class Recipe:
    """The hyperparameters of every epoch; recipes are equal if their entries are.

    Attributes
    ----------
    schedule : float, tuple of E or callable
        The step of one visit: always the same, one per epoch, or a function of the epochs done before: 0, 1, 2, ...
    penalty : float
        lambda of the loss + lambda |beta|^2 / 2, torch's weight_decay.
    momentum : float
        Of the heavy ball, in [0, 1).
    divisor : int
        What the schedule is divided by: 1, or the steps of an epoch if it was given as alpha.
    average : Average, optional
        Of the iterates, which takes the place of the last one in all answers.
    """

    schedule: Schedule
    penalty: float = 0.0
    momentum: float = 0.0
    divisor: int = 1
    average: Average | None = None

    @property
    def is_constant(self) -> bool:
        """Whether all epochs are alike."""
        return isinstance(self.schedule, float)

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing but a step in an epoch."""
        looks_inside = self.average is not None and self.average.is_per_visit
        return self.is_constant and self.penalty == 0 and self.momentum == 0 and not looks_inside

    @property
    def earliest(self) -> int:
        """The first epoch that can be asked for."""
        return 0 if self.average is None else self.average.earliest

    @property
    def horizon(self) -> float:
        """The last epoch that is known."""
        return float(len(self.schedule)) if isinstance(self.schedule, tuple) else np.inf

    def at(self, epoch: int) -> Hyperparameters:
        """What is used in the epoch after `epoch` others."""
        if callable(self.schedule):
            step = checks.nonnegative(f"step({epoch})", self.schedule(epoch))
        elif isinstance(self.schedule, tuple):
            step = self.schedule[epoch]
        else:
            step = self.schedule
        return Hyperparameters(step / self.divisor, self.penalty, self.momentum)

    def clock(self, epochs: Any) -> FloatArray:
        """Return the epochs asked for, if the schedule knows them and there is an average by then."""
        when = checks.epochs(epochs)
        averages.require_begun(self.average, when)
        if self.is_constant or not when.size:
            return when
        last = float(when.max())
        if last > self.horizon:
            raise ValueError(
                f"epochs must be at most {self.horizon:g}, the length of the step schedule, but one is {last:g}; "
                "give a longer list, or a function of the epoch."
            )
        if np.isinf(last):
            raise ValueError(
                "epochs must be finite under a step schedule, which has no limit, but one is inf; "
                "give a constant step to ask for limits."
            )
        return when

    def __repr__(self) -> str:
        if isinstance(self.schedule, float):
            words = [f"step={self.schedule / self.divisor:g}"]
        else:
            of = f"{len(self.schedule)} epochs" if isinstance(self.schedule, tuple) else "a function"
            words = [f"step schedule of {of}"]
        words += [f"penalty={self.penalty:g}"] if self.penalty else []
        words += [f"momentum={self.momentum:g}"] if self.momentum else []
        words += [f"average={self.average}"] if self.average else []
        return ", ".join(words)


def checked(
    step: StepLike | None,
    alpha: StepLike | None,
    penalty: float,
    momentum: float,
    steps_per_epoch: int,
    average: Any = None,
) -> Recipe:
    """Check what a user gave; exactly one of `step` and `alpha` = step * steps_per_epoch."""
    if (step is None) == (alpha is None):
        raise TypeError(
            f"exactly one of step and alpha must be given, but step is {step!r} and alpha is {alpha!r}."
        )
    made = Recipe(
        schedule=_schedule("step", step) if step is not None else _schedule("alpha", alpha),
        penalty=checks.nonnegative("penalty", penalty),
        momentum=_momentum(momentum),
        divisor=1 if alpha is None else steps_per_epoch,
    )
    return replace(made, average=averages.checked(average, made.horizon))


def _schedule(name: str, value: StepLike | None) -> Schedule:
    if callable(value):
        return value
    if checks.any_array(name, value).ndim == 0:
        return checks.nonnegative(name, value)
    steps = checks.real_array(name, value, advice="give a number >= 0 for every epoch")
    if steps.ndim != 1 or steps.size == 0:
        raise ValueError(
            f"{name} must be a number, a list with one entry per epoch or a function of the epoch, "
            f"but its shape is {steps.shape}."
        )
    if steps.min() < 0:
        epoch = int(np.argmin(steps))
        raise ValueError(f"{name} must hold numbers >= 0, but {name}[{epoch}] is {steps[epoch]}.")
    return tuple(steps.tolist())


def _momentum(value: Any) -> float:
    momentum = checks.nonnegative("momentum", value)
    if momentum >= 1:
        raise ValueError(f"momentum must be at least 0 and below 1, but it is {value!r}.")
    return momentum
