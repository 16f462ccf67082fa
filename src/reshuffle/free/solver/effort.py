"""What it costs to find a law: told on the terminal while it lasts, and ended when it is too much."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0
"""Seconds without a word."""
BUDGET = 60.0
"""Seconds of one core that a question may cost unless more are allowed."""


class Effort:
    """Counts Newton steps, in estimated seconds of one core: the same count on every machine, idle or not.

    Parameters
    ----------
    what : of which law, for the line on the terminal; step : seconds of one step at one point.
    refuse : the estimated seconds and the budget -> the error to raise.
    """

    def __init__(self, what: str, step: float, refuse: Callable[[float, float], Exception]):
        self.what, self.step, self.refuse = what, step, refuse
        self.spent, self.budget = 0.0, float("inf")
        self._began, self._shown = 0.0, False

    @contextmanager
    def question(self, budget: float) -> Iterator[None]:
        """Bound what is spent inside, and say on a terminal that it takes long when it does."""
        self.spent, self.budget, self._began = 0.0, budget, time.monotonic()
        try:
            yield
        finally:
            self.budget = float("inf")
            if self._shown:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
                self._shown = False

    def expect(self, steps: float) -> None:
        """Raise if so many steps more would exceed the budget."""
        if self.spent + steps * self.step > self.budget:
            raise self.refuse(self.spent + steps * self.step, self.budget)

    def spend(self, steps: float) -> None:
        """Count steps that were taken, and raise once the budget is spent."""
        self.spent += steps * self.step
        if self.budget < float("inf"):
            self._tell()
            self.expect(0)

    def _tell(self) -> None:
        if time.monotonic() - self._began < PATIENCE or not sys.stderr.isatty():
            return
        share = min(self.spent / self.budget, 1.0)
        print(f"\r\x1b[K{self.what[:60]}: {share:.0%} of the budget", end="", file=sys.stderr, flush=True)
        self._shown = True
