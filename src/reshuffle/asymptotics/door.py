"""The checks that every asymptotic question shares."""

from typing import Any

from reshuffle._core import checks


def aspect(value: Any) -> float:
    """Return the limit of p/n, a finite number > 0.

    >>> aspect(0)
    Traceback (most recent call last):
    ...
    ValueError: aspect must be a finite number > 0, the limit of p/n, but it is 0.
    """
    return _within("aspect", checks.positive("aspect", value, "the limit of p/n"), 1e-12, 1e12)


def alpha(value: Any) -> float:
    """Return the full-batch step, a finite number > 0."""
    step = checks.positive("alpha", value, "the full-batch step; each of B batches is visited with alpha/B")
    return _within("alpha", step, 1e-50, 1e50)


def batches(value: Any) -> int:
    """Return B, a whole number >= 1."""
    return checks.whole_number("batches", value, 1)


def _within(name: str, value: float, low: float, high: float) -> float:
    """Return a value whose powers are numbers, so that no formula overflows."""
    if not low <= value <= high:
        raise ValueError(
            f"{name} must lie between {low:g} and {high:g}, but it is {value:g}; check its units."
        )
    return value


def sampled(aspect: float) -> None:
    """Refuse an aspect at which no matrix of moderate size shows where the spectrum is."""
    if not 1e-4 <= aspect <= 1e4:
        raise ValueError(
            f"aspect must lie between 0.0001 and 10000 for the support of this law, but it is {aspect:g}; ask for"
            " density(t) at chosen points, or for fixed_dimension, which is the limit p/n -> 0."
        )
