"""Threads of BLAS: one inside small matrices, several beside each other where there are many of them.

BLAS and LAPACK wait for all of their threads many times in one call. Where another process has one of the cores
such a wait lasts a time slice of the system, and a decomposition of 100 x 100 takes a hundred times as long. Work
on many matrices is spread over threads of our own instead, which never wait for each other; and since each product
is then done by one thread, its last bit does not depend on how many there are.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from threading import Lock, local
from typing import TypeVar

import numpy as np
import scipy.linalg
import threadpoolctl

# Both bring a BLAS of their own, and both are to be found when the libraries are counted.

Item = TypeVar("Item")
Result = TypeVar("Result")

_LARGE = 512
"""The side of a matrix from which the threads of BLAS are worth their waiting."""
_SPREAD = 48
"""The side of a matrix below which a call lasts no longer than it takes to hand it to a thread."""

assert scipy.linalg is not None


class _Limit:
    """One thread per library for as long as anyone asks for it; entered and left by any threads in any order."""

    def __init__(self, of_each_thread: bool = False) -> None:
        self._lock, self._depth, self._of_each_thread = Lock(), 0, of_each_thread
        self._before: list[int] = []

    @property
    def libraries(self) -> list[threadpoolctl.LibController]:
        """The libraries that are held: whose threads are everyone's, or each thread's own."""
        return [
            library
            for library in libraries()
            if (getattr(library, "threading_layer", "") == "openmp") is self._of_each_thread
        ]

    def enter(self) -> None:
        """Hold the libraries to one thread, unless they are."""
        with self._lock:
            if self._depth == 0:
                self._before = [library.get_num_threads() for library in self.libraries]
                self._set([1] * len(self._before))
            self._depth += 1

    def leave(self) -> None:
        """Give their threads back, if nobody else needs them held."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._set(self._before)

    def _set(self, counts: list[int]) -> None:
        for library, before, count in zip(self.libraries, self._before, counts, strict=True):
            if before > 1:
                # Newer versions listen to one thread alone, but any of ours may be the last to leave.
                release = getattr(library, "clear_controlling_thread", lambda force: None)
                release(force=True)
                library.set_num_threads(count)
                release(force=True)

    def threads(self) -> int:
        """The number of threads, before they were held."""
        with self._lock:
            held = self._depth > 0
            return max(self._before if held else [lib.get_num_threads() for lib in self.libraries], default=1)


class _LimitOfEachThread(_Limit, local):
    """One thread per library, for libraries in which every thread has threads of its own."""


@cache
def libraries() -> list[threadpoolctl.LibController]:
    """The BLAS libraries loaded at the first call: looking for them takes a millisecond."""
    return list(threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers)


_LIMITS = (_Limit(), _LimitOfEachThread(True))


class _Held:
    """BLAS with one thread while it is open, as often and in as many threads as anyone likes."""

    def __enter__(self) -> None:
        for limit in _limits():
            limit.enter()

    def __exit__(self, *error: object) -> None:
        for limit in _limits():
            limit.leave()


@cache
def _limits() -> tuple[_Limit, ...]:
    """The limits that there are libraries for."""
    return tuple(limit for limit in _LIMITS if limit.libraries)


_HELD, _FREE = _Held(), nullcontext()


def one_thread() -> AbstractContextManager[None]:
    """Hold BLAS to one thread; a few microseconds, and one where it is held already."""
    return _HELD


def few_threads(size: float) -> AbstractContextManager[None]:
    """Hold BLAS to one thread if `size`, the side of a square matrix of as much work, is small."""
    return _FREE if size >= _LARGE else _HELD


def workers() -> int:
    """The number of threads of BLAS, before it was held to one."""
    return max(limit.threads() for limit in _LIMITS)


def _nothing() -> None:
    """Do nothing about those that go on."""


@contextmanager
def _reporting(failure: Callable[[], None]) -> Iterator[None]:
    """Tell of a failure as soon as there is one: who waits for all of the items hears of it too late."""
    try:
        yield
    except BaseException:
        failure()
        raise


def each(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    size: float,
    abandon: Callable[[], None] = _nothing,
) -> list[Result]:
    """function(item) for each of many independent items, side by side: what BLAS has for threads are ours here.

    Parameters
    ----------
    function : callable
        Releases the interpreter in its products.
    items : iterable
    size : float
        The side of a square matrix of as much work as an item makes.
    abandon : callable
        Called where one of the items fails, or where the caller is interrupted: the others are waited for, and
        may hear of it here.

    >>> each(lambda number: number**2, [1, 2, 3], size=100)
    [1, 4, 9]
    """
    items, allowed = list(items), workers()
    if len(items) < allowed and size >= _LARGE:
        return [function(item) for item in items]
    with one_thread():
        if min(allowed, len(items)) < 2 or size < _SPREAD:
            return [function(item) for item in items]
        handling = np.geterr()

        def guarded(item: Item) -> Result:
            # What is done about overflow belongs to a thread and is not inherited, as the number of threads may be.
            with one_thread(), np.errstate(**handling), _reporting(abandon):
                return function(item)

        with ThreadPoolExecutor(min(allowed, len(items))) as pool, _reporting(abandon):
            return list(pool.map(guarded, items))
