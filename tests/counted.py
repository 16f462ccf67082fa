"""A limit on work that is the same on every machine: calls and returns of functions are counted, not seconds."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class TooMuchWork(BaseException):
    """Something takes more calls than it may: an error that commands do not catch."""


@contextmanager
def at_most(events: int) -> Iterator[None]:
    """End what calls and returns from functions, those of numpy included, more often than that."""
    left = iter(range(events))

    def count(*_: object) -> None:
        for _number in left:
            return
        sys.setprofile(None)
        raise TooMuchWork(f"more than {events} calls and returns")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(before)
