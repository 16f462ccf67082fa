"""Plain lines that tell of progress now and then, where no bar can be drawn.

The first line comes after two seconds in a loop, as a bar would, and others rarely. A command prints it from a
thread (`cli.complaints`), so that even a single long call is not silent; the library prints when a part of a loop
is done, and not within a single call. Lines go to standard error, as bars do. Worker processes print none: the
process that started them does.
"""

import math
import sys
import time
from dataclasses import dataclass, field
from multiprocessing import current_process

PATIENCE = 2.0
"""Seconds without a line, in a loop."""
PATIENCE_OUTSIDE = 10.0
"""The same of a command that is in no loop: on a busy machine imports alone take seconds."""
_SHORTEST, _LONGEST = 10.0, 30.0
"""Seconds between two lines: half of what has passed, within these."""


@dataclass(eq=False)
class Loop:
    """A loop that has begun: what it does, how many parts it has if that is known, and how many are done."""

    description: str
    total: int | None
    done: int = 0
    begin: float = field(default_factory=lambda: time.monotonic())

    def __str__(self) -> str:
        return f"{self.description} {self.done}" + ("" if self.total is None else f" of {self.total}")


class Lines:
    """The plain lines of a process: at most one now and then, whatever number of loops is open.

    Attributes
    ----------
    open : list of Loop
        The loops that have begun, the outermost first.
    command : float or None
        When the command began whose thread prints the lines; None for the library.
    has_bar : bool
        Whether a bar is shown, which says the same.
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
