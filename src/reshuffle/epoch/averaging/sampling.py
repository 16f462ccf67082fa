"""The mean over orders that are too many for a lattice, with momentum, a penalty or a schedule: from drawn orders.

Orders are drawn once, in pairs with their reverses, and an epoch's map is the mean of theirs; they are spread
over a few groups, and the answers without each group in turn tell the error of whatever is asked.

An order is followed from its last visit to its first, many orders at once: with P the product of the later
visits, a batch enters as P L E_b and P -> P (I - L K_b R). So the rows of a batch meet a (d, d) matrix, and
never the entries of other rows.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import norms
from reshuffle._progress import track
from reshuffle._uncertainty import further_rounds, number_of_groups, quantile
from reshuffle.epoch.accuracy import A_SECOND, AT_ONCE, CALL, Accuracy, require_affordable, warn_out_of_reach
from reshuffle.epoch.course import Course
from reshuffle.epoch.epoch_map import EpochMap, mean_of
from reshuffle.epoch.visits import Visits
from reshuffle.errors import BudgetError
from reshuffle.recipe import Hyperparameters
from reshuffle.schemes.base import permutations, rows_of

_SMALLEST_ROOT = 1e-5
_STACKED_BYTES = 2e7
_MOST_STACKED = 256
_REMEMBERED_BYTES = 4e9


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders side by side: row indices (k, steps, m), padded with the number of rows, and divisors (k, steps)."""

    rows: IntArray
    divisors: FloatArray


DrawPairs = Callable[[np.random.Generator, int], Orders]
"""Draws as many pairs of an order and its reverse."""


def group_maps(visits: Visits, force: FloatArray, draw: DrawPairs, wanted: Accuracy) -> list[EpochMap]:
    """The mean maps of the groups of draws, until the paces are known to rtol or the budget is spent.

    Parameters
    ----------
    visits : Visits
        Which rows there are, and what a visit does with some of them.
    force : (r,)
        Minus the gradient that enters at every visit with the constant input 1, without the factor L.
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
    def maps(self) -> list[EpochMap]:
        """The mean of each group."""
        visits = self._visits
        weight, sizes = visits.sizes_of(self._steps, self._force)
        return [
            EpochMap(visits.left, visits.right, kernel / self.rounds, entries / self.rounds, weight, sizes)
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
            # An average has no pace of its own.
            state = np.arange(self._visits.plain_dimension)
            losses = np.array([_loss(one.part(state)) for one in self.maps])
            self.error = pace_error(losses, self._visits.rank)
        return rounds * self.expense


def follow(visits: Visits, force: FloatArray, orders: Orders) -> tuple[FloatArray, FloatArray]:
    """K (d, d) and E (d, 1 + rows) of `EpochMap`, averaged over the orders."""
    kernel, constant, entries = follow_each(visits, force, orders)
    inputs = [constant.mean(axis=0)[:, np.newaxis], entries.mean(axis=0).T]
    return kernel.mean(axis=0), np.hstack(inputs)


def follow_each(
    visits: Visits, force: FloatArray, orders: Orders
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """K (k, d, d) of each of the orders, and E: what the constant (k, d) and what the rows (k, rows, d) do."""
    rank, d, grades = visits.rank, visits.dimension, visits.left * visits.right
    plain = visits.plain_dimension
    count, steps, _ = orders.rows.shape
    padded = np.vstack([visits.unit, np.zeros(rank)])
    kernel, constant = np.zeros((count, d, d)), np.zeros((count, d))
    entries = np.zeros((count, len(padded), d))
    every = np.arange(count)[:, np.newaxis]
    for visit in reversed(range(steps)):
        index = orders.rows[:, visit]
        rows = padded[index]
        # K -> K + (I - K L R) K_b: what was visited later stands to the left.
        product = np.eye(d) - kernel * grades
        kept = visits.folded(product)
        # A gradient moves the parameters by -1 (if not Nesterov's) and the buffer by 1, in their units.
        pushed = visits.hyperparameters.of_gradient(visit) * kept[:, :, :rank]
        if visits.momentum:
            pushed -= kept[:, :, rank:]
        entry = pushed @ rows.transpose(0, 2, 1) / orders.divisors[:, visit, np.newaxis, np.newaxis]
        entries[every, index] = entry.transpose(0, 2, 1)
        constant += product @ visits.pushed(force, visit)
        kernel[:, :, :rank] += entry @ rows
        if visits.penalty:
            kernel[:, :, :rank] += visits.hold(pushed.swapaxes(1, 2)).swapaxes(1, 2)
        if visits.momentum:
            stays = (1 - visits.momentum) * kept[:, :, rank:]
            kernel[:, :, rank:plain] += visits.hyperparameters.of_buffer(visit) * kept[:, :, :rank] + stays
        visits.add_of_average(product, kernel)
    return kernel, constant, entries[:, :-1]


def _loss(once: EpochMap) -> FloatArray:
    """The graded D, but that no grade is so small beside the largest that its eigenvalues are lost to rounding.

    The share of error of a slow mode does not depend on how slow it is.
    """
    roots = np.sqrt(once.left) * np.sqrt(once.right)
    roots = np.maximum(roots, _SMALLEST_ROOT * roots.max(initial=0.0) * (once.left > 0))
    return np.asarray(roots[:, np.newaxis] * once.kernel * roots)


def pace_error(losses: FloatArray, modes: int) -> float:
    """How far the paces x of D = mean of `losses` (groups, d, d) may be off, relative to x, in root mean square.

    To first order a pace moves by l'(dD) r / l'r, with l and r its eigenvectors. A mode counts by |1 - x|, what an
    epoch leaves of it: the buffers of momentum make many that fade at once, with eigenvectors that are nearly
    parallel, so the mean is over as many `modes` as there are parameters. Infinite if anything is.
    """
    mean = losses.mean(axis=0)
    if not np.isfinite(mean).all():
        return np.inf
    if not mean.any():
        return 0.0
    values, left, right = scipy.linalg.eig(mean, left=True, right=True, check_finite=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        along = np.einsum("ij,gik,kj->gj", left.conj(), losses, right, optimize=True)
        paces = along.mean(axis=0)
        groups = len(losses)
        spread = norms(np.abs(along - paces).T) / np.sqrt(groups * (groups - 1))
        counts = np.minimum(np.abs(1 - values), 1.0)
        shares = np.where(spread == 0, 0.0, counts * spread / np.abs(paces))
    return quantile(groups) * float(norms(shares)) / math.sqrt(modes)


@dataclass(eq=False, kw_only=True)
class SampledCourse(Course):
    """A `Course` whose mean is that of drawn orders, in groups.

    Parameters
    ----------
    scheme : Scheme
        That draws a fresh order in every epoch.
    n, blocks, space, recipe, truth
        As in `Course`; the blocks are the batches, or single rows if samples are shuffled.
    accuracy : Accuracy
    kept : dict
        Where the maps of the groups are kept, by the hyperparameters of the epoch, for all courses that share them.
    left_out : int, optional
        The group that is not counted.
    """

    accuracy: Accuracy
    kept: dict[Hyperparameters, list[EpochMap]]
    left_out: int | None = None

    def map(self, epoch: int) -> EpochMap:
        """The mean over the orders of the groups that count."""
        visits = self.visits(epoch)
        groups = self._of_groups(epoch)
        if visits.hyperparameters not in self._maps:
            counted = [m for g, m in enumerate(groups) if g != self.left_out]
            with np.errstate(over="ignore", invalid="ignore"):
                self._maps[visits.hyperparameters] = mean_of(counted)
        return self._maps[visits.hyperparameters]

    def onward(
        self, begin: FloatArray, epochs: FloatArray, inputs: FloatArray | None = None
    ) -> Iterator[FloatArray]:
        """As in `Course`, if the maps of all epochs that are unlike fit into memory."""
        if not self.recipe.is_constant and len(epochs):
            self._require_room(int(epochs[-1]))
        return super().onward(begin, epochs, inputs)

    def _require_room(self, last: int) -> None:
        """Refuse a schedule whose maps, which all replicas share, do not fit."""
        unlike = len({self.recipe.at(epoch) for epoch in range(last)})
        needed = unlike * sum(8.0 * (one.kernel.size + one.entries.size) for one in self._of_groups(0))
        if needed > _REMEMBERED_BYTES:
            raise BudgetError(
                f"the drawn orders of {unlike} epochs with steps of their own take {needed:.1g} bytes, but at most "
                f"{_REMEMBERED_BYTES:.1g} are kept; try fewer epochs, steps that change less often, fixed batches "
                "that are few (RandomReshuffling), or simulate(...)."
            )

    @property
    def replicas(self) -> int:
        """How many groups there are, in every epoch."""
        return len(self._of_groups(0))

    def _of_groups(self, epoch: int) -> list[EpochMap]:
        visits = self.visits(epoch)
        if visits.hyperparameters not in self.kept:
            truth = np.zeros(visits.rank) if self.truth is None else self.truth
            force = visits.unit_force(truth)
            self.kept[visits.hyperparameters] = group_maps(visits, force, self.draw_pairs, self.accuracy)
        return self.kept[visits.hyperparameters]

    def draw_pairs(self, rng: np.random.Generator, pairs: int) -> Orders:
        """So many orders, and then their reverses."""
        if self.scheme.unit.is_cut:
            rows = self.scheme.rows_per_unit
            samples = rows_of(permutations(rng, pairs, self.n // rows), rows)
            divisors = np.tile(self.scheme.step_divisors(self.n), (2 * pairs, 1))
            both = np.concatenate([samples, samples[:, ::-1]])
            return Orders(_cut(both, self.scheme.sizes(self.n), self.n), divisors)
        blocks = self.blocks
        batches = permutations(rng, pairs, blocks.batches)
        batches = np.concatenate([batches, batches[:, ::-1]])
        members = _cut(
            np.concatenate([blocks.columns(batch) for batch in range(blocks.batches)])[np.newaxis],
            np.asarray(blocks.sizes),
            len(blocks.rows),
        )[0]
        return Orders(members[batches], np.asarray(blocks.divisors)[batches])


def _cut(samples: IntArray, sizes: IntArray, padding: int) -> IntArray:
    """Cut each of the orders (k, n) into pieces of the given sizes, (k, steps, m), padded to the longest."""
    places = np.full((len(sizes), int(sizes.max())), samples.shape[1])
    inside = np.arange(places.shape[1]) < sizes[:, np.newaxis]
    places[inside] = np.arange(sizes.sum())
    padded = np.hstack([samples, np.full((len(samples), 1), padding)])
    return np.asarray(padded[:, places])
