"""Whether an answer is right.

It is if it lies within what it admits to be off by (`error`) and the rounding that its question deserves:

- 1e-9, relative to the largest number of its group (an iterate, the parts of a risk), and
- where the exact answer itself moves by more when the inputs move by 1e-15 (zeros and the rank of X kept): sixteen
  times that movement, the largest of a few. A backward stable algorithm commits some tens of units in the last
  place.

Infinity is right where the exact answer grows, or is above 1e300, and nothing else is. Where it depends on those
last units of the inputs whether something grows, either is, and all that lies between the two. A discrete answer
must be that of the inputs, or of inputs that have moved so.

For sampled orders and for the cavity equation one answer in some hundreds is outside its stated error by its
nature: here, where thousands are asked, three times as much is allowed. How often it suffices is told elsewhere.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flint import arb, ctx

from tests.oracles.exact.arithmetic import Value, Values, size

_ROUNDING = 1e-9
_MOVEMENTS = 16
NEARLY_BEYOND = 1e300
_SMALLEST = 1e-305


@dataclass(frozen=True)
class Group:
    """Numbers of one size, to which their rounding is relative.

    Attributes
    ----------
    label : str
    actual : list of float
        As answered.
    expected : Values
        As the oracle says.
    error : float
        What the answer admits to be off by.
    scale : float
        The size of what was added up, where that may cancel.
    floor : float
        What rounding may leave where the right answer is a square of differences that cancel.
    is_discrete : bool
        Whether only equality will do.
    """

    label: str
    actual: list[float]
    expected: Values
    error: float = 0.0
    scale: float = 0.0
    floor: float = 0.0
    is_discrete: bool = field(default=False)


def flat(numbers: Any) -> list[float]:
    """The entries of an answer."""
    return [float(entry) for entry in np.asarray(numbers, dtype=np.float64).ravel()]


def yes_or_no(label: str, actual: bool, expected: bool | None) -> Group:
    """A decision; None where it lies on the edge."""
    return Group(label, [float(actual)], [None if expected is None else float(expected)], is_discrete=True)


Again = Callable[[], Iterator[list[Group]]]
"""The same groups, with what the oracle says for inputs that have moved."""

_ALLOWED = 3.0
"""Of a stated error."""


@dataclass(frozen=True)
class Verdict:
    """`kind` is one of the counted words; `detail` says what is wrong."""

    kind: str
    detail: str = ""


def judge(groups: list[Group], again: Again) -> Verdict:
    """Right, right by movement (its inputs do not determine it better), nan, or wrong."""
    for group in groups:
        if any(math.isnan(number) for number in group.actual):
            return Verdict("nan", f"{group.label} is {group.actual}")
    open_groups = [number for number, group in enumerate(groups) if not _holds(group, _ALLOWED, [])]
    if not open_groups:
        return Verdict("right")
    moved = list(again())
    for number in open_groups:
        if not _holds(groups[number], _ALLOWED, [each[number].expected for each in moved]):
            return Verdict("wrong", _explain(groups[number]))
    return Verdict("right by movement")


def _explain(group: Group) -> str:
    expected = [value if not isinstance(value, arb) else float(value.mid()) for value in group.expected]
    error = f" +- {group.error:.2g}" if group.error else ""
    return f"{group.label} is {group.actual}{error}, but right is {expected}"


def _holds(group: Group, factor: float, moved: "list[list[Value]]") -> bool:
    if len(group.actual) != len(group.expected):
        return False
    with ctx.workprec(200):
        if group.is_discrete:
            return any(_equal(group.actual[0], values[0]) for values in [group.expected, *moved])
        finite = [value for value in group.expected if isinstance(value, arb)]
        scale = max([group.scale, *map(size, finite)])
        allowed = arb(_SMALLEST) + arb(_ROUNDING) * arb(scale if math.isfinite(scale) else 1e308)
        if not (math.isfinite(group.error) and math.isfinite(group.floor)):
            return True
        allowed += arb(factor) * arb(group.error) + arb(group.floor)
        allowed += _MOVEMENTS * _movement(group.expected, moved)
        # A run that overflows is infinite as a whole: one entry that is beyond all numbers allows for all.
        overflows = any(size(value) > NEARLY_BEYOND for value in group.expected if value is not None)
        return all(
            (overflows and math.isinf(actual))
            or _entry_holds(actual, [value, *(values[place] for values in moved)], allowed)
            for place, (actual, value) in enumerate(zip(group.actual, group.expected, strict=True))
        )


def _equal(actual: float, value: Value) -> bool:
    return value is None or (actual == value if isinstance(value, float) else bool(arb(actual) == value))


def _movement(expected: list[Value], moved: "list[list[Value]]") -> arb:
    largest = arb(0)
    for values in moved:
        for value, other in zip(expected, values, strict=True):
            if isinstance(value, arb) and isinstance(other, arb):
                largest = max(largest, abs(other - value).mid())
    return largest


def _entry_holds(actual: float, values: list[Value], allowed: arb) -> bool:
    """`values` holds what is right, followed by what it moves to."""
    if any(value is None for value in values):
        return True
    if math.isinf(actual):
        return any(size(value) > NEARLY_BEYOND for value in values)
    right = values[0]
    if isinstance(right, float):
        finite = [value for value in values if isinstance(value, arb)]
        return bool(finite) or abs(actual) > NEARLY_BEYOND
    assert isinstance(right, arb)
    if any(isinstance(value, float) for value in values):
        # Inputs in between make a power of anything from nothing to infinity.
        return True
    return bool(abs(arb(actual) - right.mid()) <= allowed)
