"""Progress of long work: bars on a terminal, and plain lines now and then where there is none.

The first line comes after two seconds in a loop, as a bar would, and others rarely. A command prints it from a
thread (`cli.complaints`), so that even a single long call is not silent; the library prints when a part of a loop
is done, and not within a single call. Lines go to standard error, as bars do. Worker processes print none: the
process that started them does.
"""

import itertools
import math
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from multiprocessing import current_process
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

Item = TypeVar("Item")

PATIENCE = 2.0
"""Seconds without a line or a bar, in a loop."""
PATIENCE_OUTSIDE = 10.0
"""Seconds without a line, of a command that is in no loop: on a busy machine imports alone take seconds."""
_SHORTEST, _LONGEST = 10.0, 30.0
"""Seconds between two lines: half of what has passed, within these."""

_shown: "Progress | None" = None
"""The display that is open, if any; a terminal takes one, and more bars join it."""


@dataclass(eq=False)
class Loop:
    """A loop that has begun, and how many of its parts are done."""

    description: str
    total: int | None
    done: int = 0
    begin: float = field(default_factory=lambda: time.monotonic())

    def __str__(self) -> str:
        return f"{self.description} {self.done}" + ("" if self.total is None else f" of {self.total}")


class Lines:
    """The plain lines of a process about the `open` loops, the outermost first: at most one line now and then.

    `command` is when the command began whose thread prints them, None for the library; a bar says the same.
    """

    def __init__(self) -> None:
        self.open: list[Loop] = []
        self.command: float | None = None
        self.has_bar = False
        self._last = -math.inf

    def of_command(self) -> None:
        """Print a line of the command if it is due."""
        loops, begin = self.open.copy(), self.command
        if begin is not None:
            in_loop = bool(loops) and time.monotonic() - loops[0].begin > PATIENCE
            self._say(begin, PATIENCE if in_loop else PATIENCE_OUTSIDE)

    def of_library(self) -> None:
        """Print a line of the outermost loop if it is due."""
        if self.command is None:
            self._say(self.open[0].begin, PATIENCE)

    def _say(self, begin: float, patience: float) -> None:
        """Print a line if what began at `begin` has taken longer than `patience`, and the last line is long ago."""
        now = time.monotonic()
        passed = now - begin
        silence = min(max(passed / 2, _SHORTEST), _LONGEST)
        if passed <= patience or begin <= self._last > now - silence or self.has_bar:
            return
        if current_process().name == "MainProcess":
            self._last = now
            parts = "; ".join(map(str, self.open)) or "still working"
            print(f"reshuffle: {passed:.0f} s, {parts}", file=sys.stderr, flush=True)


lines = Lines()


def track(
    items: Iterable[Item], total: int | None, description: str, show: bool | None = None
) -> Generator[Item, None, None]:
    """Yield the items, `total` of them if known, and show how many are done once they have taken long.

    A bar on a terminal, otherwise a plain line; `show` forces the bar (True) or forbids both (False).
    """
    if show is False:
        yield from items
        return
    loop = Loop(description, total)
    lines.open.append(loop)
    try:
        if show or sys.stderr.isatty():
            yield from _with_bar(items, loop)
            return
        for item in items:
            yield item
            loop.done += 1
            lines.of_library()
    finally:
        lines.open.remove(loop)


def _with_bar(items: Iterable[Item], loop: Loop) -> Generator[Item, None, None]:
    with ExitStack() as stack:
        bars, task = _shown, None
        if bars is not None:
            task = bars.add_task(loop.description, total=loop.total, visible=False)
            stack.callback(bars.remove_task, task)
        for item in items:
            yield item
            loop.done += 1
            if time.monotonic() - loop.begin > PATIENCE:
                if bars is None or task is None:
                    # A display has a price, which what is quick should not pay.
                    bars = stack.enter_context(display())
                    task = bars.add_task(loop.description, total=loop.total)
                bars.update(task, completed=loop.done, visible=True)


@contextmanager
def display() -> Iterator["Progress"]:
    """The open display of bars, or a new one on standard error for as long as this lasts."""
    global _shown
    if _shown is not None:
        yield _shown
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bars:
        _shown, lines.has_bar = bars, True
        try:
            yield bars
        finally:
            _shown, lines.has_bar = None, False


@contextmanager
def ticking(total: int | None, description: str, show: bool | None = None) -> Iterator[Callable[[], None]]:
    """A bar for work that calls the function this gives after every part, from any thread, as `track` shows it."""
    items = itertools.count() if total is None else range(total)
    parts, lock = track(items, total, description, show), Lock()
    with closing(parts):
        next(parts, None)

        def tick() -> None:
            with lock:
                next(parts, None)

        yield tick
