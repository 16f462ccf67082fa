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
from dataclasses import dataclass

import numpy as np
from flint import arb, ctx

from tests.oracles.exact_runs import size

_ROUNDING = 1e-9
_MOVEMENTS = 16
NEARLY_BEYOND = 1e300
_SMALLEST = 1e-305
_ALLOWED = 3.0
"""Of a stated error."""


@dataclass(frozen=True)
class Group:
    """Numbers of one size, as answered and as the oracle says; to that size their rounding is relative.

    `error` is what the answer admits to be off by, `scale` the size of what was added up where that may cancel,
    `floor` what rounding leaves of a square of differences that cancel. What is discrete must be equal.
    """

    label: str
    actual: list[float]
    expected: list
    error: float = 0.0
    scale: float = 0.0
    floor: float = 0.0
    is_discrete: bool = False


def flat(numbers):
    """The entries of an answer."""
    return np.asarray(numbers, dtype=float).ravel().tolist()


def yes_or_no(label, actual, expected):
    """A decision; None where it lies on the edge."""
    return Group(label, [float(actual)], [None if expected is None else float(expected)], is_discrete=True)


@dataclass(frozen=True)
class Verdict:
    """`kind` is one of the counted words; `detail` says what is wrong."""

    kind: str
    detail: str = ""


def judge(groups, again):
    """Right, right by movement, nan, or wrong; `again` yields the groups for inputs that have moved."""
    for group in groups:
        if any(math.isnan(number) for number in group.actual):
            return Verdict("nan", f"{group.label} is {group.actual}")
    unsettled = [number for number, group in enumerate(groups) if not _holds(group, [])]
    if not unsettled:
        return Verdict("right")
    moved = list(again())
    for number in unsettled:
        group = groups[number]
        if not _holds(group, [each[number].expected for each in moved]):
            right = [float(value.mid()) if isinstance(value, arb) else value for value in group.expected]
            error = f" +- {group.error:.2g}" if group.error else ""
            return Verdict("wrong", f"{group.label} is {group.actual}{error}, but right is {right}")
    return Verdict("right by movement")


def _holds(group, moved):
    """True if the answer is right for the inputs, or for all that lies between them and those that have moved."""
    if len(group.actual) != len(group.expected):
        return False
    with ctx.workprec(200):
        if group.is_discrete:
            return any(_equal(group.actual[0], values[0]) for values in [group.expected, *moved])
        if not (math.isfinite(group.error) and math.isfinite(group.floor)):
            return True
        scale = max([group.scale, *(size(value) for value in group.expected if isinstance(value, arb))])
        allowed = arb(_SMALLEST) + arb(_ROUNDING) * arb(scale if math.isfinite(scale) else 1e308)
        allowed += (
            _ALLOWED * arb(group.error) + arb(group.floor) + _MOVEMENTS * _movement(group.expected, moved)
        )
        # A run that overflows, or has no limit, is infinite as a whole: one such entry allows for all.
        values = [value for every in [group.expected, *moved] for value in every]
        overflows = any(value is None or size(value) > NEARLY_BEYOND for value in values)
        return all(
            (overflows and math.isinf(actual))
            or _entry_holds(actual, [value, *(values[place] for values in moved)], allowed)
            for place, (actual, value) in enumerate(zip(group.actual, group.expected, strict=True))
        )


def _equal(actual, value):
    return value is None or (actual == value if isinstance(value, float) else bool(arb(actual) == value))


def _movement(expected, moved):
    pairs = [pair for values in moved for pair in zip(expected, values, strict=True)]
    both = [abs(one - other).mid() for one, other in pairs if isinstance(one, arb) and isinstance(other, arb)]
    return max(both, default=arb(0))


def _entry_holds(actual, values, allowed):
    """`values` has what is right, followed by what it moves to."""
    right = values[0]
    if None in values:
        return True
    if math.isinf(actual):
        return any(size(value) > NEARLY_BEYOND for value in values)
    if isinstance(right, float):
        return any(isinstance(value, arb) for value in values) or abs(actual) > NEARLY_BEYOND
    # Inputs in between make a power of anything from nothing to infinity.
    return any(isinstance(value, float) for value in values) or bool(
        abs(arb(actual) - right.mid()) <= allowed
    )
