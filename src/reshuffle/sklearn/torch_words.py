"""The parameters of the estimators, in torch's words, as schemes and settings of runs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle import _arrays
from reshuffle.recipe import Average, StepLike, recipe
from reshuffle.recipe.schedules import checked_steps
from reshuffle.schemes import (
    Cyclic,
    FullBatch,
    RandomReshuffling,
    SampleReshuffling,
    SampleWithReplacement,
    Scheme,
    ShuffleOnce,
)

_SHUFFLES: Mapping[bool | str, Any] = {
    True: SampleReshuffling,
    False: Cyclic,
    "batches": RandomReshuffling,
    "once": ShuffleOnce,
    "replacement": SampleWithReplacement,
}


def scheme(batch_size: Any, shuffle: Any, drop_last: Any) -> Scheme:
    """How a DataLoader with these settings visits the rows.

    >>> scheme(32, True, False), scheme(32, "once", True), scheme(None, True, False)
    (SampleReshuffling(batch_size=32), ShuffleOnce(batch_size=32, drop_last=True), FullBatch())
    >>> scheme(32, "always", False)
    Traceback (most recent call last):
    ...
    ValueError: shuffle must be True, False, "batches", "once" or "replacement", but it is 'always'.
    """
    drop_last = _arrays.flag("drop_last", drop_last)
    is_flag = isinstance(shuffle, (bool, np.bool_))
    if not (is_flag or (isinstance(shuffle, str) and shuffle in _SHUFFLES)):
        raise ValueError(
            f'shuffle must be True, False, "batches", "once" or "replacement", but it is {shuffle!r}.'
        )
    if batch_size is None:
        return FullBatch()
    size = _arrays.whole_number("batch_size", batch_size, 1, hint="None takes all rows in one batch.")
    made: Scheme = _SHUFFLES[bool(shuffle) if is_flag else shuffle](batch_size=size, drop_last=drop_last)
    return made


def epochs(value: Any) -> float:
    """A whole number of epochs of at least one, or math.inf.

    >>> epochs(0)
    Traceback (most recent call last):
    ...
    ValueError: epochs must be a whole number of at least 1 or math.inf, but it is 0.
    """
    if isinstance(value, float) and value == math.inf:
        return math.inf
    try:
        return _arrays.whole_number("epochs", value, 1)
    except ValueError:
        message = f"epochs must be a whole number of at least 1 or math.inf, but it is {value!r}."
    raise ValueError(message)


@dataclass(frozen=True)
class Settings:
    """What a run is made with: `descend`'s arguments under torch's names, checked.

    Attributes
    ----------
    learning_rate : float, tuple, callable or schedule, or None
        The step of one visit; None asks for one that is safe.
    """

    learning_rate: StepLike | None
    weight_decay: float
    momentum: float
    nesterov: bool
    average: Average | None
    rtol: float
    budget: float
    seed: int


def _learning_rate(value: Any) -> StepLike | None:
    """A step, a schedule of steps, or None for "auto".

    >>> _learning_rate("constant")
    Traceback (most recent call last):
    ...
    ValueError: learning_rate must be "auto", a number >= 0, a list with one per epoch, a function of the epochs
    done before or a schedule of reshuffle.schedules, but it is 'constant'.
    """
    if isinstance(value, str) and value == "auto":
        return None
    if value is None or isinstance(value, str):
        raise ValueError(
            'learning_rate must be "auto", a number >= 0, a list with one per epoch, a function of the epochs done '
            f"before or a schedule of reshuffle.schedules, but it is {value!r}."
        )
    if callable(value) or _arrays.any_array("learning_rate", value).ndim:
        return checked_steps("learning_rate", value, "epoch")
    return _arrays.nonnegative("learning_rate", value)


def settings(
    *,
    learning_rate: Any,
    weight_decay: Any,
    momentum: Any,
    nesterov: Any,
    average: Any,
    rtol: Any,
    budget: Any,
    seed: int,
) -> Settings:
    """Check what a user gave."""
    penalty = _arrays.nonnegative("weight_decay", weight_decay)
    made = recipe.checked(0.0, None, penalty, momentum, 1, nesterov, average=average)
    return Settings(
        learning_rate=_learning_rate(learning_rate),
        weight_decay=penalty,
        momentum=made.momentum,
        nesterov=made.nesterov,
        average=made.average,
        rtol=_arrays.positive("rtol", rtol),
        budget=_arrays.positive("budget", budget),
        seed=seed,
    )
