"""The mean over orders that are too many for a lattice, with momentum, a penalty or a schedule: from drawn orders.

Orders are drawn once, in pairs with their reverses, and an epoch's map is the mean of theirs; they are spread
over a few groups, and the answers without each group in turn tell the error of whatever is asked.

An order is followed from its last visit to its first, many orders at once: with P the product of the later
visits, a batch enters as P L E_b and P -> P (I - L K_b R). So the rows of a batch meet a (d, d) matrix, and
never the entries of other rows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._budget import A_SECOND, AT_ONCE, CALL, require_affordable, warn_out_of_reach
from reshuffle._linalg import graded_svd, norms
from reshuffle._progress import track
from reshuffle._uncertainty import error_of_mean, further_rounds, number_of_groups, quantile
from reshuffle.epoch.epoch_map import EpochMap, mean_of
from reshuffle.epoch.mean_map import MeanMap
from reshuffle.epoch.visits import ScaledBlocks, Visits
from reshuffle.problem.batches import Blocks
from reshuffle.recipe import Hyperparameters
from reshuffle.schemes.base import Scheme, permutations, rows_of

if TYPE_CHECKING:
    from reshuffle.epoch.select import Accuracy

_SMALLEST_ROOT = 1e-5
_STACKED_BYTES = 2e7
_MOST_STACKED = 256
_AT_ONCE = 32
"""Pairs of orders that are followed at once for the modifier of a batch."""
_EXPLODES = 2.0
"""A growth per epoch beyond which nobody waits for digits."""
_STANDS = 1e-14
"""Singular values that are rounding, relative to the largest."""
_UNKNOWN, _IN_VAIN = 1.0, 20
"""A relative error at which not even a sign is known, and the part of the budget after which it ends the search.

Beyond the critical step the mean hangs on a few of all orders. On 442 x 10 rows in 56 batches, at twice the safe
step, errors of 5 to 60 after 64 orders were 6 to 140 after 20,000."""


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders side by side: row indices (k, steps, m), padded with the number of rows, and divisors (k, steps)."""

    rows: IntArray
    divisors: FloatArray


DrawPairs = Callable[[np.random.Generator, int], Orders]
"""Draws as many pairs of an order and its reverse."""


def group_maps(visits: Visits, force: FloatArray, draw: DrawPairs, wanted: "Accuracy") -> list[EpochMap]:
    """The mean maps of the groups of draws, until the decay rates are known to rtol or the budget is spent.

    Parameters
    ----------
    visits : Visits
        Which rows there are, and what a visit does with some of them.
    force : (r,)
        Minus the gradient that enters at every visit with the constant input 1, without the factor L.
    draw : callable
    wanted : "Accuracy"
    """
    tally = _drawn(visits, force, draw, wanted)
    if wanted.rtol < tally.error < np.inf and not tally.explodes:
        advice = "try a larger budget, a larger rtol or a smaller step"
        warn_out_of_reach(tally.error, "sampling", wanted.rtol, advice)
    return tally.maps


def _drawn(visits: Visits, force: FloatArray, draw: DrawPairs, wanted: "Accuracy") -> "_Tally":
    """Draw until the decay rates are known to rtol or the budget is spent; only once what surely explodes.

    Only a twentieth of the budget is spent where the relative error stays above one: more orders do not help there.
    """
    tally = _Tally(visits, force, draw, wanted)
    require_affordable(
        tally.expense, wanted.budget, "the mean over a few drawn orders",
        "try a larger budget, or fewer rows or features",
    )  # fmt: skip
    left = wanted.budget - tally.more(1)
    while wanted.rtol < tally.error < np.inf and not tally.explodes:
        affordable = left if tally.error <= _UNKNOWN else left - (1 - 1 / _IN_VAIN) * wanted.budget
        if affordable < tally.expense:
            break
        excess = tally.error / wanted.rtol
        left -= tally.more(further_rounds(tally.rounds, excess, affordable / tally.expense))
    return tally


class _Tally:
    """The sums of the maps of each group."""

    def __init__(self, visits: Visits, force: FloatArray, draw: DrawPairs, wanted: "Accuracy"):
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
    def explodes(self) -> bool:
        """True if an epoch more than doubles something in each of the groups."""
        return all(one.radius > _EXPLODES for one in self.maps)

    @property
    def pairs(self) -> int:
        """The number of orders drawn, each with its reverse."""
        return self._groups * self._pairs * self.rounds

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
            # An average has no decay rate of its own.
            state = np.arange(self._visits.plain_dimension)
            losses = np.array([_loss(one.part(state)) for one in self.maps])
            self.error = drawn_rate_error(losses, self._visits.rank)
        return rounds * self.expense


def follow(visits: Visits, force: FloatArray, orders: Orders) -> tuple[FloatArray, FloatArray]:
    """K (d, d) and E (d, 1 + rows) of `EpochMap`, averaged over the orders."""
    kernel, constant, entries = follow_each(visits, force, orders)
    inputs = [constant.mean(axis=0)[:, np.newaxis], entries.mean(axis=0).T]
    return kernel.mean(axis=0), np.hstack(inputs)


def follow_each(
    visits: Visits, force: FloatArray, orders: Orders, watch: Callable[[int, FloatArray], None] | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """K (k, d, d) of each of the orders, and E: what the constant (k, d) and what the rows (k, rows, d) do.

    `watch` sees the number of each visit, and K of all that comes after it.
    """
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
        if watch is not None:
            watch(visit, kernel)
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
            kernel[:, :, :rank] += visits.penalty_gradient(pushed.swapaxes(1, 2)).swapaxes(1, 2)
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


def drawn_rate_error(losses: FloatArray, modes: int) -> float:
    """Relative error of the eigenvalues x of D = mean of `losses` (groups, d, d), in root mean square.

    To first order a rate moves by l'(dD) r / l'r, with l and r its eigenvectors. A mode counts by |1 - x|, what an
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
        decay_rates = along.mean(axis=0)
        groups = len(losses)
        spread = norms(np.abs(along - decay_rates).T) / np.sqrt(groups * (groups - 1))
        counts = np.minimum(np.abs(1 - values), 1.0)
        shares = np.where(spread == 0, 0.0, counts * spread / np.abs(decay_rates))
    return quantile(groups) * float(norms(shares)) / math.sqrt(modes)


def _cut(samples: IntArray, sizes: IntArray, padding: int) -> IntArray:
    """Cut each of the orders (k, n) into pieces of the given sizes, (k, steps, m), padded to the longest."""
    places = np.full((len(sizes), int(sizes.max())), samples.shape[1])
    inside = np.arange(places.shape[1]) < sizes[:, np.newaxis]
    places[inside] = np.arange(sizes.sum())
    padded = np.hstack([samples, np.full((len(samples), 1), padding)])
    return np.asarray(padded[:, places])


def pairs_of_orders(scheme: Scheme, n: int, blocks: Blocks) -> DrawPairs:
    """Draw so many orders, and their reverses: of the rows of all samples, or of the batches."""
    sizes, divisors = (
        (scheme.sizes(n), scheme.step_divisors(n)) if scheme.unit.is_cut else (blocks.sizes, blocks.divisors)
    )
    members = _cut(np.arange(len(blocks.rows))[np.newaxis], np.asarray(blocks.sizes), len(blocks.rows))[0]

    def draw(rng: np.random.Generator, pairs: int) -> Orders:
        if not scheme.unit.is_cut:
            batches = permutations(rng, pairs, blocks.batches)
            batches = np.concatenate([batches, batches[:, ::-1]])
            return Orders(members[batches], np.asarray(divisors)[batches])
        kept = len(blocks.rows) // blocks.batches
        samples = rows_of(permutations(rng, pairs, blocks.batches), kept)
        both = np.concatenate([samples, samples[:, ::-1]])
        taken = sizes // scheme.rows_per_unit * kept
        return Orders(_cut(both, taken, len(blocks.rows)), np.tile(divisors, (2 * pairs, 1)))

    return draw


def mean_map(scheme: Scheme, n: int, blocks: Blocks, step: float, accuracy: "Accuracy") -> MeanMap:
    """The mean of a symmetric epoch from drawn orders, with a replica without each group of draws."""
    unit, singular, turn = graded_svd(blocks.rows)
    # Rows that are never visited leave directions in which nothing moves.
    moves = singular > _STANDS * singular.max(initial=0.0)
    unit, singular, turn = unit[:, moves], singular[moves], turn[:, moves]
    rows = np.ascontiguousarray(unit * singular)
    scaled = ScaledBlocks(rows, blocks.response, blocks.offsets, blocks.divisors, unit, singular)
    visits, steps = Visits(scaled, Hyperparameters(step)), scheme.steps(n)
    force, draw = np.zeros(len(singular)), pairs_of_orders(scheme, n, scaled)
    tally = _drawn(visits, force, draw, accuracy)
    groups = tally.maps
    decay = np.array([np.diagonal(group.kernel) for group in groups])
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.nan_to_num(error_of_mean(decay) / np.abs(decay.mean(axis=0)), posinf=np.inf)
    factor = singular[:, np.newaxis] * turn.T

    def modifier(batch: int) -> FloatArray:
        # By symmetry what comes after a visit is what comes before it in the order that is reversed.
        total, weight, row = np.zeros((len(singular), len(singular))), 0.0, int(blocks.offsets[batch])
        rng = np.random.default_rng(accuracy.seed)

        def watch(visit: int, kernels: FloatArray) -> None:
            nonlocal total, weight
            here = (orders.rows[:, visit] == row).any(axis=1)
            shares = 1 / orders.divisors[here, visit]
            total, weight = total + np.tensordot(shares, kernels[here], 1), weight + float(shares.sum())

        for _ in range(-(-tally.pairs // _AT_ONCE)):
            orders = draw(rng, _AT_ONCE)
            follow_each(visits, force, orders, watch)
        inside = visits.left[:, np.newaxis] * (total / (weight or 1.0)) * visits.right
        return np.asarray(np.eye(len(turn)) - turn @ inside @ turn.T)

    def made(counted: list[EpochMap], replicas: Callable[[], tuple[MeanMap, ...]] = tuple) -> MeanMap:
        mean = mean_of(counted)
        kernel, inputs = mean.kernel / steps, mean.entries[:, 1:] / steps
        return MeanMap(
            factor, (kernel + kernel.T) / 2, inputs, steps * step, 1, 1.0, modifier, method="sampling",
            error=float(shares.max(initial=0.0)), typical_error=tally.error, make_replicas=replicas,
        )  # fmt: skip

    def without_each() -> tuple[MeanMap, ...]:
        return tuple(made(groups[:number] + groups[number + 1 :]) for number in range(len(groups)))

    return made(groups, without_each)
