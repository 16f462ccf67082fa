"""Validators that return the cleaned value, or say which argument is wrong, what is allowed and what to try."""

from collections.abc import Callable
from numbers import Real as RealNumber
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

# The contents of an array, for the reader; numpy's own stubs widen most results, so the type checker sees Any.
Real = NDArray[Any]
Complex = NDArray[Any]

ErrorKind: TypeAlias = Literal["exact", "bound", "confidence 99%", "estimate"]
"""The meaning of a stated error."""


SMALLEST, LARGEST = 1e-60, 1e60
"""Sizes of laws: their cubes must be numbers."""
NARROWEST = 1e-8
"""The smallest width of an interval, relative to its location."""


class ConvergenceError(ArithmeticError):
    """A quantity could not be computed to the requested accuracy; the message says what to try."""


def number(
    name: str, value: float, low: float = -np.inf, high: float = np.inf, *, open_low: bool = False
) -> float:
    """Return ``value`` as a float inside ``[low, high]`` (``(low, high]`` with ``open_low``)."""
    start = "(" if open_low or low == -np.inf else "["
    end = ")" if high == np.inf else "]"
    allowed = f"{name} must be a finite real number in {start}{low:g}, {high:g}{end}"
    try:
        result = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{allowed}, but it is {value!r}; pass a plain number") from None
    inside = low < result <= high if open_low else low <= result <= high
    if not (inside and np.isfinite(result)):
        raise ValueError(f"{allowed}, but it is {value!r}; check its sign and its units")
    return result


def location(name: str, value: float) -> float:
    """Return ``value`` as a float whose square and cube are numbers too, so that no formula overflows."""
    return number(name, value, low=-LARGEST, high=LARGEST)


def size(name: str, value: float, smallest: float = SMALLEST, largest: float = LARGEST) -> float:
    """Return ``value`` as a float > 0, neither so small nor so large that formulas under- or overflow."""
    return number(name, value, low=smallest, high=largest)


def require_width(name: str, low: float, high: float) -> None:
    """Raise where ``[low, high]`` is too narrow for numbers inside of it to be distinguished."""
    if not high - low >= max(SMALLEST, NARROWEST * max(abs(low), abs(high))):
        raise ValueError(
            f"{name} lives on [{low:.17g}, {high:.17g}], which is narrower than {NARROWEST:g} of its distance from"
            " 0; use Discrete([point]), or move the law to 0 and add the shift to the spectrum"
        )


def count(name: str, value: int, low: int = 1) -> int:
    """Return ``value`` as an integer of at least ``low``."""
    if not is_whole(value) or value < low:
        raise ValueError(
            f"{name} must be an integer >= {low}, but it is {value!r}; pass a larger whole number"
        )
    return int(value)


def is_whole(value: Any) -> bool:
    """Return whether ``value`` is a number without fraction; True and False are not numbers here.

    >>> [is_whole(value) for value in (3, 3.0, 2.5, "3", True)]
    [True, True, False, False, False]
    """
    return isinstance(value, RealNumber) and not isinstance(value, bool) and value % 1 == 0


def real_points(name: str, value: ArrayLike) -> Real:
    """Return ``value`` as an array of finite floats, any shape."""
    if np.iscomplexobj(np.asarray(value)):
        raise TypeError(f"{name} must be real, but it is a complex array; use cauchy for complex points")
    return _numbers(name, value, np.float64)


def complex_points(name: str, value: ArrayLike) -> Complex:
    """Return ``value`` as an array of finite complex numbers, any shape."""
    return _numbers(name, value, np.complex128)


def _numbers(name: str, value: ArrayLike, kind: type) -> NDArray[Any]:
    try:
        points: NDArray[Any] = np.asarray(value).astype(kind)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number or an array of numbers, but it is {value!r}") from None
    refuse_infinite(name, points)
    return points


def refuse_infinite(name: str, points: NDArray[Any]) -> None:
    """Raise if any entry is nan or infinite, and show the first one."""
    bad = ~np.isfinite(points)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} must be finite, but it is {points[bad].flat[0]} at index {where}; drop that point"
        )


def probabilities(name: str, value: ArrayLike) -> Real:
    """Return ``value`` as an array of numbers in [0, 1]."""
    points = real_points(name, value)
    if points.size and (points.min() < 0 or points.max() > 1):
        worst = points.flat[int(np.argmax(np.abs(points - 0.5)))]
        raise ValueError(
            f"{name} must lie in [0, 1], but one is {worst}; pass probabilities, not percentages"
        )
    return points


def weights(name: str, value: ArrayLike) -> Real:
    """Return ``value`` as non-negative weights that sum to one."""
    result = np.atleast_1d(real_points(name, value))
    if not result.size:
        raise ValueError(f"{name} must hold at least one number, but it is {value!r}; a law needs a point")
    if result.min() < 0:
        raise ValueError(f"{name} must be >= 0, but one is {result.min()}; drop or correct that weight")
    if abs(result.sum() - 1) > 1e-9:
        raise ValueError(f"{name} must sum to 1, but their sum is {result.sum()}; divide them by their sum")
    return np.asarray(result / result.sum(), dtype=np.float64)


def callable_or_raise(name: str, function: Any) -> None:
    """Raise unless ``function`` can be called."""
    if not callable(function):
        raise TypeError(f"{name} must be a function of an array, but it is {function!r}; pass lambda z: ...")


def cauchy_transform(function: Callable[[Complex], Any], scale: float, center: float) -> None:
    """Raise unless ``function`` maps the upper half-plane down and decays like 1/z."""
    callable_or_raise("cauchy", function)
    ladder = center + scale * np.add.outer(1j * np.array([0.01, 0.3, 2.0]), np.linspace(-2, 2, 9)).ravel()
    values = np.asarray(function(ladder), dtype=np.complex128)
    refuse_infinite("cauchy(z)", values)
    worst = int(values.imag.argmax())
    if values[worst].imag > 0:
        raise ValueError(
            f"cauchy must map the upper half-plane to Im <= 0, but is {values[worst]:.6g} at {ladder[worst]:.6g};"
            " a Stieltjes transform needs its sign flipped, lambda z: -m(z), and a square root its branch,"
            " sqrt(z - a) * sqrt(z - b)"
        )
    far = center + scale * 1e6 * np.exp(1j * np.array([0.3, 1.5, 2.8]))
    decay = np.asarray(function(far), dtype=np.complex128) * (far - center)
    off = decay[np.abs(decay - 1).argmax()]
    if abs(off - 1) > 1e-4:
        raise ValueError(
            f"cauchy must decay like 1/z, but z cauchy(z) = {off:.6g} far away (should be 1);"
            " check the branch of its square root, sqrt(z - a) * sqrt(z - b), and its normalisation"
        )
