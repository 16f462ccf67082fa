"""Where something first fails as the step grows: proven from bounds of derivatives, or found by trying."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from reshuffle._progress import track

_PRECISION = 1e-9
"""Relative width to which the critical step is enclosed."""
_WIDE, _APART = 1e-3, 1e-5
"""Relative distances: within which a touch is looked for, and of the points whose values are compared there."""
_ROUNDING = 1e-13
"""Of a function, relative to what its slope makes of the step."""
GROWTH = 1.02
"""Steps are first tried on a grid this fine."""
_HALVINGS = 40
"""How often a start that is not stable is halved."""


def first_zero(
    functions: Sequence[Callable[[float], float]],
    slopes: Sequence[float],
    curvatures: Sequence[float],
    low: float,
    high: float,
) -> float | None:
    """The first zero of any of several functions, by certified bisection.

    Each is the smallest eigenvalue of a symmetric matrix whose derivatives are at most `slope` and `curvature` in
    norm. Between two points that matrix is its chord, whose smallest eigenvalue is concave, up to what the
    curvature allows: so the way to a zero that is only touched is passed in steps that shrink with the distance.
    """

    def is_free(i: int, at_left: float, at_right: float, width: float, right: float) -> bool:
        least = _least_above_chord(at_left, at_right, curvatures[i] * width * width / 2)
        # Two values whose sum exceeds what the slope could undo leave no room for a zero between them, either.
        return least > _ROUNDING * slopes[i] * right or at_left + at_right > slopes[i] * width

    def values(point: float, chosen: Iterable[int]) -> dict[int, float]:
        return {number: functions[number](point) for number in chosen}

    every = range(len(functions))
    waiting = [(low, values(low, every), high, values(high, every))]
    while waiting:
        left, at_left, right, at_right = waiting.pop()
        if min(at_left.values()) <= 0:
            return left
        unsure = [i for i in at_left if not is_free(i, at_left[i], at_right[i], right - left, right)]
        if not unsure:
            continue
        middle = (left + right) / 2
        # Bounds of slopes are several times too large, and so is what they leave unsure.
        if right - left <= _PRECISION / 16 * right:
            # A function that has not crossed but is this near to it has, to the promised precision.
            nearest = min(unsure, key=lambda i: at_right[i])
            return middle if at_right[nearest] <= 0 else _touch(functions[nearest], slopes[nearest], left)
        at_middle = values(middle, unsure)
        if min(at_middle.values()) > 0:
            waiting.append((middle, at_middle, right, {i: at_right[i] for i in unsure}))
        # The left half is looked at first, and alone if it holds a crossing.
        waiting.append((left, {i: at_left[i] for i in unsure}, middle, at_middle))
    return None


def _least_above_chord(left: float, right: float, bend: float) -> float:
    """The least value of left (1 - s) + right s - bend s (1 - s) for s from 0 to 1.

    >>> _least_above_chord(1.0, 1.0, 4.0), _least_above_chord(1.0, 3.0, 1.0)
    (0.0, 1.0)
    """
    if bend <= abs(right - left):
        return min(left, right)
    place = 0.5 - (right - left) / (2 * bend)
    return left + place * (right - left) - bend * place * (1 - place)


def _touch(function: Callable[[float], float], slope: float, start: float) -> float:
    """Where a positive function that nearly vanishes right of the start touches zero; the start if it does not.

    Beside such a point it is like a parabola, and near zero long before: the root of its differences is sharp.
    """
    apart, end = _APART * start, start * (1 + _WIDE)

    def difference(point: float) -> float:
        return function(point + apart) - function(point - apart)

    if not difference(start) < 0 < difference(end):
        return start
    low, high = start, end
    while high - low > _PRECISION * start / 10:
        middle = (low + high) / 2
        low, high = (middle, high) if difference(middle) < 0 else (low, middle)
    # One that comes out clearly below zero has crossed, and did so at the start.
    return low if abs(function(low)) <= _ROUNDING * slope * start else start


def first_failure(is_stable: Callable[[float], bool], start: float, precision: float) -> float:
    """The last step that was found stable, before the first that was not."""
    low = _stable_step(is_stable, start)
    high = low * GROWTH
    for _ in track(count(), None, "trying steps"):
        if not is_stable(high):
            break
        low, high = high, high * GROWTH
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (middle, high) if is_stable(middle) else (low, middle)
    return low


def _stable_step(is_stable: Callable[[float], bool], start: float) -> float:
    """A step that was found stable: the start, or the first of its halves that is."""
    for halvings in range(_HALVINGS):
        step = math.ldexp(start, -halvings)
        if is_stable(step):
            return step
    raise ArithmeticError(
        f"no step between {step:.3g} and {start:.3g} is stable up to rounding; try a smaller momentum or penalty."
    )
