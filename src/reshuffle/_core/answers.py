"""What every answer that may be off says of itself: by how much, and in which sense."""

from typing import Literal, TypeAlias

from reshuffle._core.arrays import FloatArray

ErrorKind: TypeAlias = Literal["exact", "bound", "three standard errors", "estimate"]
"""In which sense `error` tells how far an answer may be off.

"exact": not at all, beyond rounding; "bound": never by more, proven; "three standard errors": in at least 99 of 100
cases by no more, over what was drawn; "estimate": by about that much, as far as can be told.
"""

_KINDS: dict[str, ErrorKind] = {"exact": "exact", "series": "bound", "sampling": "three standard errors"}


def kind_of_method(method: str) -> ErrorKind:
    """The kind of error that a way of averaging over orders has.

    >>> kind_of_method("series")
    'bound'
    """
    return _KINDS[method]


def with_error(value: FloatArray | float, error: FloatArray | float, kind: ErrorKind = "exact") -> str:
    """A number in words, with its error where there is one.

    >>> with_error(2.0, 0.0), with_error(2.0, 0.0123, "bound")
    ('2', '2 +- 0.012 (bound)')
    """
    return f"{float(value):.6g}" + (f" +- {float(error):.2g} ({kind})" if error else "")
