"""The learning rates that a scheduler of torch sets, one after the other."""

import copy
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from reshuffle import _arrays
from reshuffle.errors import UnsupportedError
from reshuffle.recipe import schedules
from reshuffle.recipe.schedules import COUNTED, StepSchedule
from reshuffle.torch.torch_models import kind, torch_itself

_KNOWN: Mapping[str, Callable[[Any, float, float, str], StepSchedule]] = {
    "StepLR": lambda given, step, unit, per: schedules.StepDecay(step, given.step_size, given.gamma, per=per),
    "ExponentialLR": lambda given, step, unit, per: schedules.ExponentialDecay(step, given.gamma, per=per),
    "CosineAnnealingLR": lambda given, step, unit, per: schedules.CosineAnnealing(
        step, given.T_max, unit * given.eta_min, per=per
    ),
    "LinearLR": lambda given, step, unit, per: schedules.LinearWarmup(
        step, given.total_iters, given.start_factor, given.end_factor, per=per
    ),
    "ConstantLR": lambda given, step, unit, per: schedules.ConstantWarmup(
        step, given.total_iters, given.factor, per=per
    ),
}
"""Schedulers that have a schedule here, by the names of their classes; all others are stepped and recorded."""


def schedule(scheduler: Any, optimizer: Any, unit: float, per: str) -> StepSchedule:
    """The steps of a scheduler that is stepped once per epoch, or once per visit.

    Parameters
    ----------
    scheduler : torch.optim.lr_scheduler.LRScheduler
        As it was made: not stepped yet.
    optimizer : torch.optim.Optimizer
        Whose learning rate it sets.
    unit : float
        What a learning rate of one is as a step.
    per : "epoch" or "visit"

    >>> torch = torch_itself()
    >>> sgd = torch.optim.SGD([torch.zeros(3)], lr=0.1)
    >>> schedule(torch.optim.lr_scheduler.StepLR(sgd, 30), sgd, 1.0, "epoch")
    StepDecay(step=0.1, every=30, factor=0.1)
    """
    torch = torch_itself()
    per = _arrays.choice("per", per, COUNTED)
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        raise UnsupportedError(
            "the scheduler must set learning rates that are known beforehand, but ReduceLROnPlateau waits for what "
            "training measures; give the steps as a schedule of reshuffle.schedules."
        )
    if not isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
        raise TypeError(f"scheduler must be one of torch.optim.lr_scheduler, but it is a {kind(scheduler)}.")
    if scheduler.optimizer is not optimizer:
        raise ValueError(
            "scheduler must set the learning rate of this optimizer, but it was made for another one."
        )
    done = _steps_done(scheduler)
    if done:
        raise ValueError(
            "scheduler must be as it was made, so that training is described from its start, but it was stepped "
            f"{done} times; make it anew."
        )
    known = _KNOWN.get(kind(scheduler)) if type(scheduler).__module__.startswith("torch.") else None
    if known is None:
        return RecordedRates(scheduler, unit, per)
    return known(scheduler, unit * float(scheduler.base_lrs[0]), unit, per)


def _steps_done(scheduler: Any) -> int:
    """How often a scheduler was stepped; a ChainedScheduler leaves the counting to its parts."""
    if hasattr(scheduler, "last_epoch"):
        return int(scheduler.last_epoch)
    return max(map(_steps_done, scheduler._schedulers))


class RecordedRates(StepSchedule):
    """The learning rates of any scheduler, found by stepping a copy of it beside an optimizer that does nothing.

    Parameters
    ----------
    scheduler, unit, per
        As in `schedule`.
    """

    def __init__(self, scheduler: Any, unit: float, per: str):
        torch = torch_itself()
        self._unit, self._per, self._name = unit, per, kind(scheduler)
        group = {key: value for key, value in scheduler.optimizer.param_groups[0].items() if key != "params"}
        idle = torch.optim.SGD([{"params": [torch.zeros(1)], **group}])
        # Copies of the scheduler's parts, and of the schedulers that it consists of, share the idle optimizer.
        self._copy = copy.deepcopy(scheduler, {id(scheduler.optimizer): idle})
        self._group = idle.param_groups[0]
        self._kept = self._others()
        self._rates = [float(self._group["lr"])]
        self._last: float = float(getattr(scheduler, "total_steps", None) or "inf")
        self._record(1)

    def __repr__(self) -> str:
        return f"the learning rates of {self._name} per {self._per}"

    @property
    def per(self) -> str:
        """What is counted."""
        return self._per

    @property
    def length(self) -> float:
        """How many there are: OneCycleLR ends."""
        return self._last

    def __call__(self, count: int) -> float:
        """The step after `count` others."""
        self._record(count)
        return self._unit * self._rates[count]

    def _others(self) -> tuple[Any, ...]:
        return tuple(self._group[name] for name in ("momentum", "weight_decay", "dampening", "nesterov"))

    def _record(self, count: int) -> None:
        while len(self._rates) <= count < self._last:
            # torch warns of schedulers that are stepped where nothing is trained, which is what is done here.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                self._copy.step()
            if self._others() != self._kept:
                raise UnsupportedError(
                    f"the scheduler must change the learning rate alone, but {self._name} changes the momentum "
                    "too; make it with cycle_momentum=False."
                )
            self._rates.append(float(self._group["lr"]))
