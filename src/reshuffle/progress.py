"""A progress bar for what takes long, on a terminal only."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")

_PATIENCE = 2.0
"""Seconds without a bar."""


def track(items: Iterable[Item], total: int, description: str, show: bool | None = None) -> Iterator[Item]:
    """Yield the items, and draw a bar on standard error once they have taken longer than two seconds.

    `show` forces the bar (True) or forbids it (False); by default it is drawn on a terminal only.
    """
    if show is None:
        show = sys.stderr.isatty()
    if not show:
        yield from items
        return
    yield from _with_bar(items, total, description)


def _with_bar(items: Iterable[Item], total: int, description: str) -> Iterator[Item]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total, visible=False)
        begin = time.monotonic()
        for item in items:
            yield item
            bar.update(task, advance=1, visible=time.monotonic() - begin > _PATIENCE)
