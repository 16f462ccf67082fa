"""Progress bars for what takes long, on a terminal only."""

import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

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
    """Yield the items, and draw a bar on standard error once they have taken longer than two seconds.

    `total` is how many items there are, if that is known. `show` forces the bar (True) or forbids it (False); by
    default it is drawn on a terminal only.
    """
    if show is None:
        show = sys.stderr.isatty()
    if not show:
        yield from items
        return
    joins = _shown is not None
    begin, late = time.monotonic(), False
    with ExitStack() as stack:
        bars = stack.enter_context(display()) if joins else None
        task = bars.add_task(description, total=total, visible=False) if bars else None
        for done, item in enumerate(items, 1):
            yield item
            late = late or time.monotonic() - begin > _PATIENCE
            if late and bars is None:
                # A display has a price, which what is quick should not pay.
                bars = stack.enter_context(display())
                task = bars.add_task(description, total=total)
            if bars is not None and task is not None:
                bars.update(task, completed=done, visible=late)
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
        _shown = bars
        try:
            yield bars
        finally:
            _shown = None


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
