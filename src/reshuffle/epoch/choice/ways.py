"""One of several ways to compute something, and which of them is taken."""

from dataclasses import dataclass, replace

import numpy as np

from reshuffle.epoch.accuracy import apart, duration

OUT_OF_REACH = "it takes more memory than this machine can spare, or more batches than anyone waits for"
WITHOUT_SOLUTION = "its equation has no solution at so large a step"
NO_SOLUTION = (
    'the cavity equation has no solution at so large a step; try a smaller step, or method="sampling".'
)


@dataclass(frozen=True)
class Way:
    """One way to compute something.

    Attributes
    ----------
    name : str
    operations : float
        What it costs; nan if that is not known beforehand.
    against : str
        What speaks against it; empty if nothing does.
    """

    name: str
    operations: float
    against: str = ""

    def __repr__(self) -> str:
        price = f", {self.operations:.1g} operations" if np.isfinite(self.operations) else ""
        took = f" ({duration(self.operations)})" if price else ""
        return f"{self.name}{price}{took}" + (f": {self.against}" if self.against else "")


@dataclass(frozen=True)
class Choice:
    """Which of several ways is taken.

    Attributes
    ----------
    question : str
    ways : tuple of Way
        In the order of preference.
    """

    question: str
    ways: tuple[Way, ...]

    @property
    def taken(self) -> str:
        """The name of the first way against which nothing speaks."""
        return self.way.name

    @property
    def way(self) -> Way:
        """The first way against which nothing speaks; the last, if something speaks against each."""
        return next((way for way in self.ways if not way.against), self.ways[-1])

    def __repr__(self) -> str:
        lines = [f"{self.question}: {self.way}"]
        others = (way if way.against else replace(way, against="not needed") for way in self.ways)
        lines += [f"  not {way}" for way in others if way.name != self.taken]
        return "\n".join(lines)


@dataclass(frozen=True)
class Computation:
    """How the answers of a run are computed, at what cost, and why not otherwise.

    Attributes
    ----------
    mean : Choice
        Of the mean over the orders of an epoch: iterates, risk, limits, stability.
    second_moment : Choice
        Of the second moments after one epoch: the expected risk and its spread.
    """

    mean: Choice
    second_moment: Choice

    def __repr__(self) -> str:
        return f"{self.mean}\n{self.second_moment}"


def too_much(operations: float, budget: float, out_of_reach: str = OUT_OF_REACH) -> str:
    """What speaks against a price, if anything."""
    if np.isinf(operations):
        return out_of_reach
    if operations <= budget:
        return ""
    needed, allowed = apart(operations, budget)
    return f"it takes {needed} operations, but budget is {allowed}"


def too_far(missed: float, rtol: float) -> str:
    """What speaks against a way that may miss the paces of the modes by so much, if anything."""
    if missed <= rtol:
        return ""
    known, wanted = apart(missed, rtol)
    return f"it may be off by {known}, but rtol is {wanted}"
