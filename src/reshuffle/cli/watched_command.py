"""The thread that prints a plain line now and then while a command works and shows no bar."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

_GLANCE = 0.25
"""Seconds between two looks at the clock."""

_over = Event()
"""Whether the command that is watched needs no more lines."""


@contextmanager
def watched() -> Iterator[None]:
    """Watch a command for as long as this lasts."""
    _over.clear()
    thread = Thread(target=_watch, args=(time.monotonic(),), name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        hush()
        thread.join()
        progress = _progress()
        if progress is not None:
            progress.lines.command = None


def hush() -> None:
    """Print no more lines: the command has answered, or waits for its user."""
    _over.set()


def _watch(begin: float) -> None:
    while not _over.wait(_GLANCE):
        progress = _progress()
        if progress is not None:
            progress.lines.command = begin
            progress.lines.of_command()


def _progress() -> Any:
    """The module that knows which loops are open; None until a command has loaded it: help does without."""
    return sys.modules.get("reshuffle._core.progress")
