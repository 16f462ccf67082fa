"""What is compared: numbers that were answered, beside those that are right."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fuzz.values import Values


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
