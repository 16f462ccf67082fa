"""Prices in floating-point operations, refusals of what exceeds the budget, and warnings about accuracy."""

import sys
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

import numpy as np

from reshuffle._arrays import FloatArray, available_bytes
from reshuffle._uncertainty import significant
from reshuffle.errors import AccuracyWarning, BudgetError, Hint

CALL = 2e5
"""Operations that fit in the time of a call with small matrices."""
A_SECOND = 1.6e10
"""Operations of a second or so, on one core; what takes no longer is done whatever the budget."""
AT_ONCE = A_SECOND / 20
"""Operations of first draws: means of several are nearer to normal than single ones."""
Answer = TypeVar("Answer")
FIRST: ContextVar[Callable[[], str]] = ContextVar("first", default=str)
"""Words that take the place of warnings about accuracy while a question is answered, unless they are empty."""


def duration(operations: float) -> str:
    """The time that so many operations take, in words.

    >>> duration(1e12), duration(5e13), duration(1e9), duration(1e16)
    ('about a minute', 'about 52 minutes', 'a second or less', 'about 7 days')
    """
    seconds = operations / A_SECOND
    if seconds <= 1:
        return "a second or less"
    for unit, size in (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0)):
        if seconds > 1.5 * size or unit == "second":
            return f"about {seconds / size:.0f} {unit}s"
        if seconds > 0.9 * size:
            return f"about {'an' if unit == 'hour' else 'a'} {unit}"
    return "for ever"


def require_affordable(operations: float, budget: float, question: str, hint: Hint) -> None:
    """Refuse at the door what costs more than the budget, and more than a second.

    >>> require_affordable(1e14, 1e12, "Z", "go")
    Traceback (most recent call last):
    ...
    reshuffle.errors.BudgetError: Z takes 1e+14 operations, about 2 hours, but budget is 1e+12, about a minute; go.
    """
    if np.isinf(operations):
        raise BudgetError(f"{question} takes more memory than this machine can spare.", hint=hint)
    if operations > max(budget, A_SECOND):
        needed, allowed = apart(operations, budget)
        raise BudgetError(
            f"{question} takes {needed} operations, {duration(operations)}, "
            f"but {{budget}} is {allowed}, {duration(budget)}.",
            hint=hint,
        )


def require_memory(needed: float, question: str, hint: Hint) -> None:
    """Refuse at the door what needs more memory than this machine can spare."""
    available = available_bytes()
    if needed > available:
        raise BudgetError(
            f"{question} needs {needed / 2**30:.1f} GiB of the {available / 2**30:.1f} GiB that this machine can "
            "spare.",
            hint=hint,
        )


def apart(one: float, other: float) -> tuple[str, str]:
    """Two numbers with as few digits as tell them apart.

    >>> apart(1.00004e-4, 1e-4), apart(2.0, 1.0)
    (('0.000100004', '0.0001'), ('2', '1'))
    """
    for digits in range(1, 17):
        words = f"{one:.{digits}g}", f"{other:.{digits}g}"
        if words[0] != words[1]:
            break
    return words


def warn_out_of_reach(error: float, method: str, rtol: float, hint: Hint) -> None:
    """Say that rtol was not reached."""
    known, wanted = apart(error, rtol)
    warn(
        f"the mean over orders is known to a relative error of {known} by {method}, "
        f"but {{rtol}} is {wanted}; answers carry their error.",
        hint,
    )


def warn_of_no_answer(epochs: FloatArray, answers: FloatArray, errors: FloatArray, start: float) -> None:
    """Warn where the error of a sampled risk exceeds the risk and is not small relative to that of the start."""
    with np.errstate(invalid="ignore"):
        unknown = np.isfinite(answers) & (errors > answers) & (errors > 1e-6 * start)
    if unknown.any():
        worst = np.unravel_index(np.argmax(np.where(unknown, errors, -1.0)), errors.shape)
        warn(
            f"the mean over orders is known too poorly for the risk after {epochs[worst]:g} epochs, "
            f"{significant(answers[worst], 3)} with an error of {significant(errors[worst], 3)}.",
            ("a smaller {rtol}", "a larger {budget}", "a smaller step", "fewer epochs"),
        )


def warnings_of(question: Callable[[], Answer]) -> tuple[Answer, list[AccuracyWarning]]:
    """Ask a question: its answer, and the warnings about its accuracy; other warnings are given as they are.

    >>> warnings_of(lambda: 3)
    (3, [])
    """
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = question()
    words = []
    for warning in said:
        if isinstance(warning.message, AccuracyWarning):
            words.append(warning.message)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return found, words


def warn(message: str, hint: Hint = "") -> None:
    """Warn at the line outside this package from which the question came."""
    if words := FIRST.get()():
        message, hint = f"{words} Answers carry their error.", ""
    # Cached properties put frames of other modules in between, so the outermost of ours is taken.
    frame, depth, outermost = sys._getframe().f_back, 1, 1
    while frame is not None:
        depth += 1
        if frame.f_globals.get("__name__", "").startswith("reshuffle."):
            outermost = depth
        frame = frame.f_back
    warnings.warn(AccuracyWarning(message, hint=hint), stacklevel=outermost + 1)
