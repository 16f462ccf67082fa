"""The checks that every asymptotic question shares."""

from typing import Any

from reshuffle import validate


def aspect(value: Any) -> float:
    """Return the limit of p/n, a finite number > 0.

    >>> aspect(0)
    Traceback (most recent call last):
    ...
    ValueError: aspect must be a finite number > 0, the limit of p/n, but it is 0.
    """
    return validate.positive("aspect", value, "the limit of p/n")


def alpha(value: Any) -> float:
    """Return the full-batch step, a finite number > 0."""
    return validate.positive("alpha", value, "the full-batch step; each of B batches is visited with alpha/B")


def batches(value: Any) -> int:
    """Return B, a whole number >= 1."""
    return validate.whole_number("batches", value, 1)
