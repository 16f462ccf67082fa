"""What the oracle says: enclosures, infinity, or that anything may be said."""

import math
from collections.abc import Callable
from typing import TypeAlias

from flint import arb, ctx

Value: TypeAlias = "arb | float | None"
"""An enclosure; math.inf where it grows; None where there is no one answer (it oscillates for ever)."""
Values: TypeAlias = list[Value]

_PRECISIONS = (320, 900, 3000)
_KNOWN = 1e-13
"""Relative to the largest number of an answer: the radius at which it counts as known."""


def size(value: Value) -> float:
    """The size of a value; inf beyond the range of floats."""
    return 0.0 if value is None else math.inf if isinstance(value, float) else float(abs(value).mid())


def is_beyond(value: arb) -> bool:
    """Whether every number in the enclosure is beyond the range of floats."""
    return bool(abs(value) > arb(2) ** 1025)


def certified(compute: Callable[[], list[Values]]) -> list[Values]:
    """What is computed, at the first precision at which it is known well enough; None where it never is."""
    groups: list[Values] = []
    for precision in _PRECISIONS:
        with ctx.workprec(precision):
            groups = [[beyond_is_infinite(value) for value in group] for group in compute()]
            if all(_is_known(value, group) for group in groups for value in group):
                return groups
    with ctx.workprec(_PRECISIONS[-1]):
        return [[value if _is_known(value, group) else None for value in group] for group in groups]


def beyond_is_infinite(value: Value) -> Value:
    """Infinity in place of an enclosure beyond the range of floats."""
    return math.inf if isinstance(value, arb) and value.is_finite() and is_beyond(value) else value


def _is_known(value: Value, group: Values) -> bool:
    if not isinstance(value, arb):
        return True
    if not value.is_finite():
        return False
    largest = max(abs(each).mid() for each in group if isinstance(each, arb) and each.is_finite())
    return bool(value.rad() <= largest * _KNOWN)
