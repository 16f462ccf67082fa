"""The mean map of an epoch from drawn orders, many of them at once.

An order is followed from its last visit to its first: with P the product of the later visits, a batch enters as
P L E_b and P -> P (I - L K_b R). So the rows of a batch meet a (d, d) matrix, and never the entries of other rows.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from reshuffle._core.arrays import FloatArray, IntArray
from reshuffle._core.confidence import further_rounds, number_of_groups, quantile
from reshuffle._core.norms import norms
from reshuffle._core.progress import track
from reshuffle.epoch.accuracy import A_SECOND, AT_ONCE, CALL, Accuracy, require_affordable, warn_out_of_reach
from reshuffle.epoch.affine.affine_map import AffineMap
from reshuffle.epoch.affine.visits import Visits

_STACKED_BYTES = 2e7
_MOST_STACKED = 256


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders side by side: row indices (k, steps, m), padded with the number of rows, and divisors (k, steps)."""

    rows: IntArray
    divisors: FloatArray


DrawPairs = Callable[[np.random.Generator, int], Orders]
"""Draws as many pairs of an order and its reverse."""


def group_maps(visits: Visits, force: FloatArray, draw: DrawPairs, wanted: Accuracy) -> list[AffineMap]:
    """The mean maps of the groups of draws, until the rates of all modes are known to rtol or the budget is spent.

    Parameters
    ----------
    visits : Visits
        Which rows there are, and what a visit does with some of them.
    force : (d,)
        What enters at every visit with the constant input 1, without the factor L.
    draw : callable
    wanted : Accuracy
    """
    tally = _Tally(visits, force, draw, wanted)
    require_affordable(
        tally.expense, wanted.budget, "the mean over a few drawn orders",
        "try a larger budget, or fewer rows or features",
    )  # fmt: skip
    left = wanted.budget - tally.more(1)
    while wanted.rtol < tally.error < np.inf and left >= tally.expense:
        excess = tally.error / wanted.rtol
        left -= tally.more(further_rounds(tally.rounds, excess, left / tally.expense))
    if wanted.rtol < tally.error < np.inf:
        advice = "try a larger budget, a larger rtol or a smaller step"
        warn_out_of_reach(tally.error, "sampling", wanted.rtol, advice)
    return tally.maps


class _Tally:
    """The sums of the maps of each group."""

    def __init__(self, visits: Visits, force: FloatArray, draw: DrawPairs, wanted: Accuracy):
        self._visits, self._force, self._draw = visits, force, draw
        self._rng = np.random.default_rng(wanted.seed)
        d, rows = visits.dimension, len(visits.blocks.rows)
        self._steps = draw(np.random.default_rng(0), 1).rows.shape[1]
        self._pairs = 1
        # One pair for each group is followed in any case, and its map is kept twice.
        size = 2 * 8.0 * d * (d + 1 + rows)
        self._groups = number_of_groups(self._stack_flops, size, max(wanted.budget, A_SECOND))
        # Of features that are all zero nothing is stacked.
        each = max(8.0 * d * (4 * d + 2 * rows), 1.0)
        self._pairs = max(1, int(min(_STACKED_BYTES / each, _MOST_STACKED) / 2))
        while self._pairs > 1 and self.expense > max(wanted.budget, AT_ONCE):
            self._pairs //= 2
        self._kernel, self._entries = np.zeros((self._groups, d, d)), np.zeros((self._groups, d, 1 + rows))
        self.rounds, self.error = 0, np.inf

    @property
    def _stack_flops(self) -> float:
        d, (rows, rank) = self._visits.dimension, self._visits.blocks.rows.shape
        each = 4.0 * rows * d * rank + 10.0 * self._steps * d * d
        return float(2 * self._pairs * each + 8 * CALL * self._steps)

    @property
    def expense(self) -> float:
        """Operations of a round: a stack of pairs for every group."""
        return self._groups * self._stack_flops

    @property
    def maps(self) -> list[AffineMap]:
        """The mean of each group."""
        visits = self._visits
        weight, sizes = visits.sizes_of(self._steps, self._force)
        return [
            AffineMap(visits.left, visits.right, kernel / self.rounds, entries / self.rounds, weight, sizes)
            for kernel, entries in zip(self._kernel, self._entries, strict=True)
        ]

    def more(self, rounds: int) -> float:
        """Add so many rounds, and return what they cost."""
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in track(range(rounds), rounds, "drawing orders"):
                for group in range(self._groups):
                    kernel, entries = follow(self._visits, self._force, self._draw(self._rng, self._pairs))
                    self._kernel[group] += kernel
                    self._entries[group] += entries
            self.rounds += rounds
            self.error = rate_error(np.array([one.graded for one in self.maps]))
        return rounds * self.expense


def follow(visits: Visits, force: FloatArray, orders: Orders) -> tuple[FloatArray, FloatArray]:
    """K (d, d) and E (d, 1 + rows) of `AffineMap`, averaged over the orders."""
    rank, d, grades = visits.rank, visits.dimension, visits.left * visits.right
    count, steps, _ = orders.rows.shape
    padded = np.vstack([visits.unit, np.zeros(rank)])
    kernel, constant = np.zeros((count, d, d)), np.zeros((count, d))
    entries = np.zeros((count, len(padded), d))
    every = np.arange(count)[:, np.newaxis]
    for visit in reversed(range(steps)):
        index = orders.rows[:, visit]
        rows = padded[index]
        # K -> K + (I - K L R) K_b: what was visited later stands to the left.
        kept = np.eye(d) - kernel * grades
        # A gradient moves the parameters by -1 and the buffer by 1, in their units.
        pushed = kept[:, :, :rank].copy()
        if visits.momentum:
            pushed -= kept[:, :, rank:]
        entry = pushed @ rows.transpose(0, 2, 1) / orders.divisors[:, visit, np.newaxis, np.newaxis]
        entries[every, index] = entry.transpose(0, 2, 1)
        constant += kept @ force
        kernel[:, :, :rank] += entry @ rows
        if visits.penalty:
            kernel[:, :, :rank] += pushed * visits.held
        if visits.momentum:
            stays = (1 - visits.momentum) * kept[:, :, rank:]
            kernel[:, :, rank:] += visits.momentum * kept[:, :, :rank] + stays
    inputs = [constant.mean(axis=0)[:, np.newaxis], entries[:, :-1].mean(axis=0).T]
    return kernel.mean(axis=0), np.hstack(inputs)


def rate_error(losses: FloatArray) -> float:
    """How far the rates x of D = mean of `losses` (groups, d, d) may be off, relative to x, for the worst.

    To first order a rate moves by l'(dD) r / l'r, with l and r its eigenvectors. A mode counts by |1 - x|, what an
    epoch leaves of it: the buffers of momentum make many that fade at once, with eigenvectors that are nearly
    parallel. Infinite if anything is.
    """
    mean = losses.mean(axis=0)
    if not np.isfinite(mean).all():
        return np.inf
    if not mean.any():
        return 0.0
    values, left, right = scipy.linalg.eig(mean, left=True, right=True, check_finite=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        along = np.einsum("ij,gik,kj->gj", left.conj(), losses, right, optimize=True)
        rates = along.mean(axis=0)
        groups = len(losses)
        spread = norms(np.abs(along - rates).T) / np.sqrt(groups * (groups - 1))
        shares = spread / np.abs(rates) * np.minimum(np.abs(1 - values), 1.0)
    return quantile(groups) * float(np.where(spread == 0, 0.0, shares).max())
