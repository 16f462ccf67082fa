"""Answers that may be missing: what a run cannot tell is kept as the reason why."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._budget import warnings_of
from reshuffle._uncertainty import ErrorKind, plus_minus, significant
from reshuffle.errors import BudgetError

REFUSALS = (ValueError, TypeError, ArithmeticError, BudgetError)
"""What a question is refused with; everything else is a mistake of ours and is not caught."""

_UNSEEN = 1e-6
"""Errors relative to an answer that its digits do not show."""


@dataclass(frozen=True, eq=False)
class Answer:
    """A number or an array, how far it may be off, and why it is not known where it is not.

    Attributes
    ----------
    value : array
        nan where there is no answer, inf where it grows without bound.
    error : array
        Of the same shape, in the sense of `error_kind`.
    error_kind : str
    reason : str
        Why there is no answer, or what was said about its accuracy; empty if there is nothing to say.
    """

    value: FloatArray
    error: FloatArray = field(default_factory=lambda: np.zeros(()))
    error_kind: ErrorKind = "exact"
    reason: str = ""

    @property
    def is_known(self) -> bool:
        """Whether there is an answer to all of it."""
        return not bool(np.isnan(self.value).any())

    def text(self, place: int = 0, infinite: str = "diverges") -> str:
        """One of the entries in words: four digits, or as many as a visible error leaves; a word or `?`.

        >>> [Answer(np.asarray(value)).text() for value in (0.123456, math.inf, math.nan)]
        ['0.1235', 'diverges', '?']
        >>> Answer(np.asarray(0.123456), np.asarray(0.00234)).text()
        '0.1235 ± 0.0023'
        """
        value = float(np.ravel(self.value)[place])
        error = float(np.broadcast_to(self.error, self.value.shape).ravel()[place])
        if math.isnan(value):
            return "?"
        if math.isinf(value):
            return infinite
        return plus_minus(value, error) if error > _UNSEEN * abs(value) else significant(value, 4)


Result = TypeVar("Result")
Found: TypeAlias = tuple[FloatArray, FloatArray, ErrorKind]
"""Values, their errors, and in which sense."""


def heard(question: Callable[[], Result]) -> tuple[Result | None, str]:
    """What a question answers and what was said about its accuracy; or None and why there is no answer.

    >>> heard(lambda: 3)
    (3, '')
    """
    try:
        found, words = warnings_of(question)
    except REFUSALS as refusal:
        return None, str(refusal)
    return found, "; ".join(dict.fromkeys(map(str, words)))


def ask(question: Callable[[], Found], shape: tuple[int, ...] = ()) -> Answer:
    """Ask, and keep what speaks against an answer of this shape in place of raising it."""
    found, words = heard(question)
    if found is None:
        return Answer(np.full(shape, np.nan), np.zeros(shape), "exact", words)
    value, error, kind = found
    return Answer(np.asarray(value), np.asarray(error), kind, words)


def ask_along(question: Callable[[FloatArray], Found], epochs: FloatArray, count: int = 1) -> list[Answer]:
    """Ask for several quantities at epochs of any shape.

    Finite epochs and the limit are asked for apart: the one may be known without the other.

    Parameters
    ----------
    question : callable
        Values and errors (count, k) at epochs (k,).
    epochs : any shape
    count : int
        How many quantities there are.
    """
    flat = epochs.ravel()
    value, error = np.full((count, flat.size), np.nan), np.zeros((count, flat.size))
    reasons: list[str] = []
    kind: ErrorKind = "exact"
    for chosen in (np.isfinite(flat), np.isinf(flat)):
        when = flat[chosen]
        if not when.size:
            continue
        found = ask(partial(question, when), (count, when.size))
        value[:, chosen], error[:, chosen] = found.value, found.error
        kind = found.error_kind if found.error.any() else kind
        reasons += [found.reason] if found.reason else []
    said = "; ".join(dict.fromkeys(reasons))
    return [
        Answer(one.reshape(epochs.shape), off.reshape(epochs.shape), kind, said)
        for one, off in zip(value, error, strict=True)
    ]
