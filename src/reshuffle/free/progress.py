"""Progress of laws that take long to find: a line on standard error after two seconds, and now and then later.

`working` names the work and `step` is called within its loops. A program that has a display of its own sets
`display` to it.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing import current_process

PATIENCE = 2.0
"""Seconds without a line."""
_OFTEN = 0.1
"""Seconds between two states of the line on a terminal, which is written in place."""
_SHORTEST, _LONGEST = 10.0, 30.0
"""Seconds between two lines elsewhere: half of what has passed, within these."""


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
    with display(f"{what[:60]}: step") as _tick:
        try:
            yield
        finally:
            _tick = None


def step() -> None:
    """Count a step of what is worked on."""
    if _tick is not None:
        _tick()
