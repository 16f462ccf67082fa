"""Responses that are named: which columns of a table they are."""

from collections.abc import Sequence
from typing import Any

_SHOWN = 10


def response_columns(y: Any, names: Sequence[str]) -> list[str] | None:
    """The columns of a table that y names: one, or a list of several; None if it is no name.

    >>> response_columns("price", ["rooms", "price"])
    ['price']
    >>> response_columns("cost", ["rooms", "price"])
    Traceback (most recent call last):
    ...
    ValueError: y must name a column of X, but 'cost' is none of them: 'rooms', 'price'.
    """
    chosen = [y] if isinstance(y, str) else y
    if not (isinstance(chosen, list | tuple) and chosen and all(isinstance(each, str) for each in chosen)):
        return None
    missing = [name for name in chosen if name not in names]
    if missing:
        shown = ", ".join(map(repr, names[:_SHOWN])) + (", ..." if len(names) > _SHOWN else "")
        raise ValueError(f"y must name a column of X, but {missing[0]!r} is none of them: {shown}.")
    return list(chosen)
