"""Arrays of others: tensors, sparse matrices and tables, and what is said of entries that are no numbers."""

import math
import os
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import scipy.sparse

from reshuffle._core import AnyArray, BoolArray
from reshuffle.errors import BudgetError

_UNKNOWN_MEMORY = 1.6e10
"""Bytes that a machine is taken to have which does not tell."""
_SHARE = 0.5
"""Of the memory, that features may take: what is made of them needs some too."""
_MISSING = ("NoneType", "NAType", "NaTType")
"""Types that stand for a missing value, by name: pandas is not imported to be asked for its own."""


def without_graph(value: Any) -> Any:
    """A tensor, known by its methods, as one that numpy can read; anything else as it is."""
    # torch refuses numpy a tensor that is part of a graph or on another device, and is not imported to be asked.
    if callable(getattr(value, "detach", None)) and callable(getattr(value, "cpu", None)):
        return value.detach().cpu()
    return value


def dense(name: str, value: Any) -> Any:
    """A sparse matrix or array of any format as a dense one, if that fits into memory; anything else as it is.

    >>> dense("X", scipy.sparse.eye_array(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if not scipy.sparse.issparse(value):
        return value
    given = cast(Any, value)
    # Whatever it holds becomes float64.
    needed = 8.0 * float(math.prod(given.shape))
    if needed > _SHARE * memory():
        raise BudgetError(
            f"{name} is stored dense, which takes {needed:.2g} bytes for its shape {given.shape}, but this machine "
            f"has {memory():.2g}, of which at most half is used; try fewer rows, or fewer columns (select some, or "
            "project them)."
        )
    return given.toarray()


def memory() -> float:
    """The bytes of memory that this machine has."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * float(os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN_MEMORY


def place(name: str, array: AnyArray, wrong: BoolArray) -> str:
    """Where the first of the wrong entries is, and what it is.

    >>> place("X", np.array([["1", "red"]]), np.array([[False, True]]))
    "X[0, 1] is 'red'"
    """
    where = tuple(int(i) for i in np.argwhere(wrong)[0]) if array.ndim else ()
    entry = array[where]
    shown = repr(entry.item() if isinstance(entry, np.generic) else entry)
    return f"{name}[{', '.join(map(str, where))}] is {shown}" if where else f"it is {shown}"


def wrong_entries(array: AnyArray, is_right: Callable[[Any], bool]) -> BoolArray:
    """Which entries of an array of another kind are no real numbers: all of them, unless told one by one."""
    if array.dtype.kind == "O":
        return np.array([not is_right(entry) for entry in array.flat], dtype=bool).reshape(array.shape)
    if array.dtype.kind == "c" and array.imag.any():
        return np.asarray(array.imag != 0)
    if array.dtype.kind in "US":
        # Numbers beside text have become text too, and are not what is wrong.
        words = np.array([not _reads_as_number(entry) for entry in array.flat], dtype=bool)
        return words.reshape(array.shape) if words.any() else np.ones(array.shape, dtype=bool)
    return np.ones(array.shape, dtype=bool)


def _reads_as_number(text: Any) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def are_missing(array: AnyArray, wrong: BoolArray) -> bool:
    """Whether all that is wrong with the entries is that they are missing."""
    return array.ndim > 0 and all(type(entry).__name__ in _MISSING for entry in array[wrong])


def advice(array: AnyArray) -> str:
    """What to do about entries of another kind than numbers."""
    if array.dtype.kind == "c":
        return "take their real parts, if the others are zero"
    if array.dtype.kind in "Mm":
        return "convert times to numbers, such as days since the first"
    return "one-hot encode categories, and convert text to numbers, first"
