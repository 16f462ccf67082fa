"""The cost of finding a law: counted while it lasts, and ended when it is too much."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reshuffle.free.progress import working

BUDGET = 60.0
"""Seconds of one core that a question may cost unless more are allowed."""


class Effort:
    """Counts Newton steps, in estimated seconds of one core: the same count on every machine, idle or not.

    Parameters
    ----------
    what : the law, for lines of progress; step : seconds of one step at one point.
    refuse : the estimated seconds and the budget -> the error to raise.
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
