"""Intervals in which a density starts or stops, made narrower, and the ends that are known to be regular."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.checks import Real

SECTIONS = 25


@dataclass(frozen=True)
class Brackets:
    """Intervals in each of which the density starts or stops; `rising` tells which."""

    low: Real
    high: Real
    rising: NDArray[np.bool_]

    def take(self, index: NDArray[Any]) -> "Brackets":
        """Return the intervals at ``index``."""
        return Brackets(self.low[index], self.high[index], self.rising[index])

    @property
    def edges(self) -> Real:
        """The end of each that lies inside the support."""
        return np.asarray(np.where(self.rising, self.high, self.low))

    @property
    def outside(self) -> Real:
        """The other end of each."""
        return np.asarray(np.where(self.rising, self.low, self.high))


def cut(
    density: Callable[[Real], Any],
    brackets: Brackets,
    threshold: float,
    precision: float,
    rounds: int = 12,
) -> Brackets:
    """Return brackets cut into sections until they are no wider than ``precision``, or for so many rounds.

    >>> found = cut(lambda x: np.sqrt(np.maximum(x - 1, 0)), Brackets(*np.array([[0.0], [2.0], [1]])), 0.0, 1e-6)
    >>> bool(found.low[0] <= 1.0 <= found.high[0] <= found.low[0] + 1e-6)
    True
    """
    low, high, rising = brackets.low, brackets.high, brackets.rising
    fractions = np.arange(1, SECTIONS) / SECTIONS
    for _ in range(rounds):
        if not len(low) or np.max(high - low) <= precision:
            break
        points = low[:, None] + (high - low)[:, None] * fractions
        # A point that failed sits on an atom or at an edge; it must not count as continuous mass.
        values = np.nan_to_num(np.asarray(density(points.ravel()), dtype=float), nan=0.0)
        inside = values.reshape(points.shape) > threshold
        # The first section whose right end is on the far side of the change.
        crossed = np.concatenate([inside == rising[:, None], np.ones((len(low), 1), dtype=bool)], axis=1)
        section = np.argmax(crossed, axis=1)
        ends = np.concatenate([low[:, None], points, high[:, None]], axis=1)
        pick = np.arange(len(low))
        low, high = ends[pick, section], ends[pick, section + 1]
    return Brackets(low, high, rising)


def no_folds(outside: Real, inside: Real) -> Real:
    """Return that no end is known beforehand."""
    return np.full(len(inside), np.nan)


def regular_ends(
    density: Callable[[Real], Any],
    brackets: Brackets,
    folds: Callable[[Real, Real], Real],
    threshold: float,
    attempts: NDArray[np.int_],
) -> tuple[Real, Brackets]:
    """Return the ends that ``folds`` finds in brackets (n,), nan for the others, and how narrow the brackets got.

    Parameters
    ----------
    density, threshold : as in `cut`.
    folds : points outside and inside -> ends between them, or nan.
    attempts : (n,)
        How often a fold is looked for, each time from 25 times closer.
    """
    ends = np.full(len(brackets.low), np.nan)
    if folds is no_folds:
        return ends, brackets
    low, high = brackets.low.copy(), brackets.high.copy()
    for attempt in range(int(attempts.max(initial=0))):
        waiting = np.flatnonzero(np.isnan(ends) & (attempts > attempt))
        if not len(waiting):
            break
        part = Brackets(low[waiting], high[waiting], brackets.rising[waiting])
        if attempt:
            part = cut(density, part, threshold, 0.0, rounds=1)
            low[waiting], high[waiting] = part.low, part.high
        found = np.asarray(folds(part.outside, part.edges))
        ends[waiting] = np.where((found >= part.low) & (found <= part.high), found, np.nan)
    return ends, Brackets(low, high, brackets.rising)
