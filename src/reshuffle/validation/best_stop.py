"""When to stop if the truth is not known: where leave-one-out is smallest."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.validation.leave_one_out import LeaveOneOut

_PER_DECADE = 24
"""Epochs that are looked at first, in every power of ten: errors are smooth in the logarithm of the epochs."""
_AT_ONCE = 48
"""Epochs that are looked at between two of them."""


@dataclass(frozen=True, eq=False)
class BestStop:
    """Where leave-one-out is smallest, per output (t,).

    Attributes
    ----------
    epochs : (t,)
    mean_square, standard_error, error : (t,)
        Of leave-one-out there.
    """

    epochs: FloatArray
    mean_square: FloatArray
    standard_error: FloatArray
    error: FloatArray

    def per_output(self) -> list[list[float]]:
        """The four of each output."""
        found: list[list[float]] = np.column_stack(
            [self.epochs, self.mean_square, self.standard_error, self.error]
        ).tolist()
        return found


def best_stop(ask: Callable[[FloatArray], LeaveOneOut], first: FloatArray) -> BestStop:
    """Look for the smallest mean square at the first epochs (k,), then around the best of them.

    `ask` takes epochs (k,) to leave-one-out.
    """
    found = _Looked(ask(first))
    for output in range(found.outputs):
        while len(between := found.between(output)):
            found.add(ask(between))
    return found.best()


def epochs_to_look_at(first: int, last: float, has_limit: bool) -> FloatArray:
    """Whole numbers from the first to the last epoch, evenly spread in their logarithm; and infinity."""
    decades = max(1.0, math.log10(max(last, 1.0)))
    later = np.round(np.geomspace(1, max(last, 1.0), math.ceil(decades * _PER_DECADE)))
    when = np.unique(np.concatenate([[float(first)], later[(later >= first) & (later <= last)]]))
    return np.append(when, np.inf) if has_limit else when


class _Looked:
    """The epochs that were looked at, ascending, and what was found there (epochs, t)."""

    def __init__(self, given: LeaveOneOut):
        self.when, self.found = given.epochs, self._columns(given)

    @staticmethod
    def _columns(given: LeaveOneOut) -> FloatArray:
        """(3, epochs, t)."""
        parts = np.stack([given.mean_square, given.standard_error, given.error])
        return parts if parts.ndim == 3 else parts[..., np.newaxis]

    @property
    def outputs(self) -> int:
        """t."""
        return int(self.found.shape[2])

    def add(self, given: LeaveOneOut) -> None:
        """Remember more."""
        when = np.concatenate([self.when, given.epochs])
        found = np.concatenate([self.found, self._columns(given)], axis=1)
        self.when, places = np.unique(when, return_index=True)
        self.found = found[:, places]

    def between(self, output: int) -> FloatArray:
        """Epochs on both sides of the best of an output that were not looked at yet."""
        best = int(np.argmin(self.found[0, :, output]))
        sides = self.when[max(best - 1, 0) : best + 2]
        sides = sides[np.isfinite(sides)]
        if not len(sides):
            return np.zeros(0)
        inside = np.round(np.linspace(sides[0], sides[-1], _AT_ONCE))
        return np.setdiff1d(inside, self.when)

    def best(self) -> BestStop:
        """The best of each output."""
        places = np.argmin(self.found[0], axis=0)
        chosen = self.found[:, places, np.arange(self.outputs)]
        return BestStop(self.when[places], *chosen)
