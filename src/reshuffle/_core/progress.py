"""Progress of what takes long: bars on a terminal, and plain lines now and then where there is none."""

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from reshuffle._core import plain_lines
from reshuffle._core.plain_lines import Loop

if TYPE_CHECKING:
    from rich.progress import Progress

Item = TypeVar("Item")

_PATIENCE = 2.0
"""Seconds without a bar."""

_shown: "Progress | None" = None
"""The display that is open, if any; a terminal has room for one, and more bars join it."""


def track(
    items: Iterable[Item], total: int | None, description: str, show: bool | None = None
) -> Generator[Item, None, None]:
    """Yield the items, and show how many are done once they have taken long.

    A bar on standard error after two seconds if that is a terminal; otherwise a plain line (`plain_lines`).
    `total` is how many items there are, if that is known. `show` forces the bar (True) or forbids both (False).
    """
    if show is False:
        yield from items
        return
    loop = Loop(description, total)
    plain_lines.lines.open.append(loop)
    try:
        yield from _with_bar(items, loop) if show or sys.stderr.isatty() else _with_lines(items, loop)
    finally:
        plain_lines.lines.open.remove(loop)


def _with_lines(items: Iterable[Item], loop: Loop) -> Generator[Item, None, None]:
    for item in items:
        yield item
        loop.done += 1
        plain_lines.lines.of_library()


def _with_bar(items: Iterable[Item], loop: Loop) -> Generator[Item, None, None]:
    joins, late = _shown is not None, False
    with ExitStack() as stack:
        bars = stack.enter_context(display()) if joins else None
        task = bars.add_task(loop.description, total=loop.total, visible=False) if bars else None
        for item in items:
            yield item
            loop.done += 1
            late = late or time.monotonic() - loop.begin > _PATIENCE
            if late and bars is None:
                # A display has a price, which what is quick should not pay.
                bars = stack.enter_context(display())
                task = bars.add_task(loop.description, total=loop.total)
            if bars is not None and task is not None:
                bars.update(task, completed=loop.done, visible=late)
        if joins and bars is not None and task is not None:
            bars.remove_task(task)


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
        _shown, plain_lines.lines.has_bar = bars, True
        try:
            yield bars
        finally:
            _shown, plain_lines.lines.has_bar = None, False


@contextmanager
def ticking(total: int, description: str, show: bool | None = None) -> Iterator[Callable[[], None]]:
    """A bar for work that is done by several threads, each of which calls what this gives after every part.

    >>> with ticking(2, "working", show=False) as tick:
    ...     tick()
    """
    parts, lock = track(iter(range(total)), total, description, show), Lock()
    with closing(parts):

        def tick() -> None:
            with lock:
                next(parts, None)

        yield tick
        for _ in parts:
            pass
