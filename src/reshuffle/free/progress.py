"""Progress and cost of laws that take long to find: lines on standard error, a budget, and one BLAS thread.

`working` names the work and `step` is called within its loops; a line appears after two seconds, and now and then
later. A program that has another display sets `display` to it. `Effort` counts the cost of a law and ends the
work when it is too much. `SINGLE_THREAD` holds BLAS to one thread while small matrices are solved: a second one
would only wait, and count as work.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from multiprocessing import current_process
from threading import Lock
from typing import Any

import numpy as np
import threadpoolctl

PATIENCE, _OFTEN = 2.0, 0.1
"""Seconds without a line, and between two states of that on a terminal, which is written in place."""
_SHORTEST, _LONGEST = 10.0, 30.0
"""Seconds between two lines elsewhere: half of what has passed, within these."""
BUDGET = 60.0
"""Seconds of one core that a question may cost unless more are allowed."""

assert np.linalg is not None, "its BLAS has to be loaded when the libraries are counted"


@contextmanager
def lines(description: str) -> Iterator[Callable[[], None]]:
    """Lines on standard error, and none in worker processes; yields what is to be called after every step."""
    begin, last, done = time.monotonic(), -math.inf, 0
    in_place = sys.stderr.isatty()

    def tick() -> None:
        nonlocal last, done
        done += 1
        now = time.monotonic()
        silence = _OFTEN if in_place else min(max((now - begin) / 2, _SHORTEST), _LONGEST)
        if now - begin > PATIENCE and now - last > silence and current_process().name == "MainProcess":
            last = now
            text = f"reshuffle: {now - begin:.0f} s, {description} {done}"
            text = f"\r\x1b[K{text}" if in_place else f"{text}\n"
            print(text, end="", file=sys.stderr, flush=True)

    try:
        yield tick
    finally:
        if in_place and last > begin:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


display: Callable[[str], AbstractContextManager[Callable[[], None]]] = lines
"""Shows work that is described, for as long as the context lasts."""

_tick: Callable[[], None] | None = None
"""Counts a step of the work that is shown, if any is."""


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that this is worked on; work inside other work is part of it."""
    global _tick
    if _tick is not None:
        yield
        return
    with display(f"{what if len(what) <= 60 else what[:57] + '...'}: step") as _tick:
        try:
            yield
        finally:
            _tick = None


def step() -> None:
    """Count a step of what is worked on."""
    if _tick is not None:
        _tick()


class Effort:
    """Counts Newton steps, in estimated seconds of one core: the same count on every machine, idle or not.

    ``what`` is the law, for lines of progress, ``step`` the seconds of one step at one point, and ``refuse`` makes
    the error to raise from estimated seconds and budget.
    """

    def __init__(self, what: str, step: float, refuse: Callable[[float, float], Exception]):
        self.what, self.step, self.refuse = what, step, refuse
        self.spent, self.budget = 0.0, float("inf")

    @contextmanager
    def question(self, budget: float) -> Iterator[None]:
        """Bound what is spent inside, and show that it is worked on."""
        self.spent, self.budget = 0.0, budget
        try:
            with working(self.what):
                yield
        finally:
            self.budget = float("inf")

    def expect(self, steps: float) -> None:
        """Raise if so many steps more would exceed the budget."""
        if self.spent + steps * self.step > self.budget:
            raise self.refuse(self.spent + steps * self.step, self.budget)

    def spend(self, steps: float) -> None:
        """Count steps that were taken, and raise once the budget is spent."""
        self.spent += steps * self.step
        self.expect(0)


@cache
def _libraries() -> list[Any]:
    """The BLAS libraries that were loaded at the first call; finding them takes a millisecond."""
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
