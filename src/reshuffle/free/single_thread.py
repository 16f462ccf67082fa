"""BLAS with one thread while small matrices are solved: a second one would only wait, and count as work."""

from functools import cache
from threading import Lock
from typing import Any

import numpy as np
import threadpoolctl

assert np.linalg is not None
"""Its BLAS has to be loaded when the libraries are counted."""


@cache
def _libraries() -> list[Any]:
    """Those that were loaded when this was first asked: looking for them takes a millisecond."""
    return list(threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers)


class SingleThread:
    """A context in which BLAS has one thread, entered and left as often as anyone likes, in any thread.

    >>> with SINGLE_THREAD, SINGLE_THREAD:
    ...     max((library.get_num_threads() for library in _libraries()), default=1)
    1
    """

    def __init__(self) -> None:
        self._lock, self._depth = Lock(), 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._before = [library.get_num_threads() for library in _libraries()]
                self._set([1] * len(self._before))

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._set(self._before)

    def _set(self, counts: list[int]) -> None:
        for library, before, count in zip(_libraries(), self._before, counts, strict=True):
            if before > 1:
                # Newer versions listen to one thread alone, but any of ours may be the last to leave.
                release = getattr(library, "clear_controlling_thread", lambda force: None)
                release(force=True)
                library.set_num_threads(count)
                release(force=True)


SINGLE_THREAD = SingleThread()
"""The one that everybody enters."""
