"""How rows that are left out look at the parameters."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._progress import track


class LeavesOut(Protocol):
    """What knows the residuals of rows that are left out one by one."""

    @property
    def outputs(self) -> int:
        """How many responses a row has."""

    def residuals(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and y_i - x_i'b_i (epochs, rows, t) after each of the finite epochs (k,)."""

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and their residuals (rows, t) in the limit."""


Residuals: TypeAlias = Callable[[LeavesOut], FloatArray]
"""What leaves out rows -> the residuals (epochs, m, t) of some rows that are looked at."""
ErrorOfMeanSquare: TypeAlias = Callable[[Residuals, FloatArray], FloatArray]
"""Residuals, and weights (m,) of their squares -> how far the sum of the squares may be off, (epochs, t)."""


def weighted(squares: FloatArray, weights: FloatArray) -> FloatArray:
    """The sum (epochs, t) of squares of residuals (epochs, m, t), with weights (m,); inf if that is not known."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.einsum("kmt,m->kt", squares, weights)
    return np.where(np.isnan(found), np.inf, found)


@dataclass(frozen=True, eq=False)
class Looks:
    """How rows look at the parameters, in the modes of the mean map.

    Attributes
    ----------
    members : (m,)
        The rows.
    right : (m, q, r)
        R' of each row.
    alpha : (m, q, t)
        What each has to say, per output.
    coupling : (m, q, q)
        C of each row.
    picks : (q,)
        o.
    """

    members: IntArray
    right: FloatArray
    alpha: FloatArray
    coupling: FloatArray
    picks: FloatArray

    def of(self, chosen: BoolArray) -> "Looks":
        """Those of some of the rows."""
        members, right, alpha = self.members[chosen], self.right[chosen], self.alpha[chosen]
        return Looks(members, right, alpha, self.coupling[chosen], self.picks)


def chunked(rows: IntArray, height: int, look: Callable[[IntArray], Looks]) -> Iterator[Looks]:
    """The looks of the rows, at most so many at a time."""
    starts = range(0, len(rows), height)
    for start in track(starts, len(starts), "leaving out rows, part"):
        yield look(rows[start : start + height])


def no_one(n: int) -> BoolArray:
    """No row alone sees any direction: a penalty does, too."""
    return np.zeros(n, dtype=bool)
