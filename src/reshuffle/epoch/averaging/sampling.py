"""The mean over orders that are too many for a lattice, from drawn orders.

Orders are drawn once, in pairs with their reverses, and the map of an epoch is the mean of theirs. They are spread
over a few groups: the answers without each group in turn give the error of any answer.

An order is followed from its last visit to its first, many orders at once: with P the product of the later
visits, a batch enters as P L E_b and P -> P (I - L K_b R). So the rows of a batch meet a (d, d) matrix, and
never the entries of other rows.

`DrawnBlocks` cuts an order of B visits into L blocks of consecutive visits. Every order of the blocks is as likely
as that drawn, so the mean over all L! of them has the same expectation. It takes about L 2^(L-2) products,

    F(S) = mean over blocks b in S of A_b F(S - b),    mean = mean over S of L / 2 blocks of F(all - S) F(S),

and has a fraction of the variance. Measured against single orders of Gaussian rows, at steps at which single rows
overshoot 2 to 8 times: 10 (L = 4), 60 to 400 (L = 6), 200 to 1e4 (L = 8), 300 to 4e5 (L = 10) times less.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._budget import A_SECOND, AT_ONCE, CALL, require_affordable
from reshuffle._linalg import few_threads, graded_svd, norms
from reshuffle._progress import track
from reshuffle._uncertainty import MOST_GROUPS, error_of_mean, further_rounds, number_of_groups, quantile
from reshuffle.epoch.averaging.lattice import subset_layers
from reshuffle.epoch.epoch_map import EpochMap, MeanMap, mean_of
from reshuffle.epoch.visits import ScaledBlocks, Visits
from reshuffle.problem.row_space import Blocks
from reshuffle.recipe import Hyperparameters
from reshuffle.schemes.base import Scheme, permutations, rows_of

if TYPE_CHECKING:
    from reshuffle.epoch.select import Accuracy
    from reshuffle.epoch.timeline import Timeline

_SMALLEST_ROOT = 1e-5
_STACKED_BYTES = 2e7
_MOST_STACKED = 256
_AT_ONCE = 32  # pairs of orders that are followed at once for the modifier of a batch
_MOST_BLOCKS = 12
_STACKED_ENTRIES, _VISITED_ENTRIES = 1 << 16, 1 << 20
"""Numbers of the largest layer of subsets (what leaves the cache takes three times as long), and of the kernels of
blocks, at a time."""
_OF_A_PRODUCT = 300.0  # overhead of a product of small matrices, in operations
_EXPLODES = 2.0  # a growth per epoch beyond which nobody waits for digits
_ROUNDING = 1e-14  # singular values that are rounding, relative to the largest
_UNKNOWN, _IN_VAIN = 1.0, 20
"""A relative error at which not even a sign is known, and the part of the budget after which it ends the search.

Beyond the critical step the mean hangs on a few of all orders. On 442 x 10 rows in 56 batches, at twice the safe
step, errors of 5 to 60 after 64 orders were 6 to 140 after 20,000."""


@dataclass(frozen=True, eq=False)
class Orders:
    """Orders side by side: row indices (k, steps, m), padded with the number of rows, and divisors (k, steps)."""

    rows: IntArray
    divisors: FloatArray


def without_each(groups: list[EpochMap]) -> list[list[EpochMap]]:
    """The groups without each of them in turn."""
    return [groups[:number] + groups[number + 1 :] for number in range(len(groups))]


DrawPairs: TypeAlias = Callable[..., Orders]
"""(rng, pairs, alone=False) -> so many pairs of an order and its reverse, or as many orders `alone`."""


def epoch_map(visits: Visits, force: FloatArray, draw: DrawPairs, wanted: "Accuracy") -> EpochMap:
    """The mean map of drawn orders, with a replica without each group of draws.

    The `force` (r,) is minus the gradient that enters at every visit with the constant input 1.
    """
    groups, missed, _ = _drawn_groups(visits, force, draw, wanted)
    # Nobody waits for digits of what explodes.
    mean = replace(mean_of(groups), method="sampling", missed=math.inf if _explode(groups) else missed)
    replicas = tuple(map(mean_of, without_each(groups)))
    return replace(mean, make_replicas=lambda: replicas)


def stacked_pairs(dimension: int, rows: int) -> int:
    """The number of pairs of orders that are followed at once."""
    # Of features that are all zero nothing is stacked.
    each = max(8.0 * dimension * (4 * dimension + 2 * rows), 1.0)
    return max(1, int(min(_STACKED_BYTES / each, _MOST_STACKED) / 2))


def _explode(maps: list[EpochMap]) -> bool:
    """True if an epoch more than doubles something in each of the groups."""
    return all(one.radius > _EXPLODES for one in maps)


def _drawn_groups(
    visits: Visits, force: FloatArray, draw: DrawPairs, wanted: "Accuracy"
) -> tuple[list[EpochMap], float, int]:
    """Mean maps of groups of orders, the error of their decay rates, and the number of pairs drawn.

    Until the decay rates are known to rtol or the budget is spent; only once what surely explodes, and for a
    twentieth of the budget where the relative error stays above one: more orders do not help there.
    """
    (rows, rank), d, rng = visits.blocks.rows.shape, visits.dimension, np.random.default_rng(wanted.seed)
    steps = draw(np.random.default_rng(0), 1).rows.shape[1]

    def stack_flops(pairs: int) -> float:
        each = 4.0 * rows * d * rank + 10.0 * steps * d * d
        return float(2 * pairs * each + 8 * CALL * steps)

    # One pair for each group is followed in any case, and its map is stored twice.
    groups = number_of_groups(stack_flops(1), 16.0 * d * (d + 1 + rows), max(wanted.budget, A_SECOND))
    pairs = stacked_pairs(d, rows)
    while pairs > 1 and groups * stack_flops(pairs) > max(wanted.budget, AT_ONCE):
        pairs //= 2
    expense = groups * stack_flops(pairs)
    require_affordable(
        expense, wanted.budget, "the mean over a few drawn orders",
        ("a larger {budget}", "fewer rows or features"),
    )  # fmt: skip
    kernels, entries = np.zeros((groups, d, d)), np.zeros((groups, d, 1 + rows))
    weight, sizes = visits.sizes_of(steps, force)
    # An average has no decay rate.
    state = np.arange(visits.plain_dimension)
    done, left, rounds = 0, wanted.budget, 1
    while rounds:
        for _ in track(range(rounds), rounds, "drawing orders"):
            for kernel, entry in zip(kernels, entries, strict=True):
                orders = draw(rng, pairs)
                of_orders, constant, of_rows = follow_each(visits, force, orders)
                kernel += of_orders.mean(axis=0)
                entry[:, 0] += constant.mean(axis=0)
                entry[:, 1:] += of_rows.mean(axis=0).T
        done, left = done + rounds, left - rounds * expense
        maps = [
            EpochMap(visits.left, visits.right, kernel / done, entry / done, weight, sizes)
            for kernel, entry in zip(kernels, entries, strict=True)
        ]
        parts = [one.part(state) for one in maps]
        losses = np.array([scaled_losses(one.left, one.right, one.kernel) for one in parts])
        error = drawn_rate_error(losses, rank)
        affordable = left if error <= _UNKNOWN else left - (1 - 1 / _IN_VAIN) * wanted.budget
        if not wanted.rtol < error < np.inf or _explode(maps) or affordable < expense:
            break
        rounds = further_rounds(done, error / wanted.rtol, affordable / expense)
    return maps, error, groups * pairs * done


def follow_each(
    visits: Visits, force: FloatArray, orders: Orders, watch: Callable[[int, FloatArray], None] | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """K (k, d, d) of each of the orders, and E of the constant (k, d) and of the rows (k, rows, d).

    `watch` sees the number of each visit, and K of all that comes after it.
    """
    count, d = len(orders.rows), visits.dimension
    constant, entries = np.zeros((count, d)), np.zeros((count, len(visits.unit) + 1, d))
    every = np.arange(count)[:, np.newaxis]

    def see(visit: int, kernel: FloatArray, product: FloatArray, entry: FloatArray) -> None:
        if watch is not None:
            watch(visit, kernel)
        entries[every, orders.rows[:, visit]] = entry.transpose(0, 2, 1)
        np.add(constant, product @ visits.pushed(force, visit), out=constant)

    kernel = _backwards(visits, orders, 0, orders.rows.shape[1], see)
    return kernel, constant, entries[:, :-1]


def follow_given(visits: Visits, given: FloatArray, orders: Orders) -> tuple[FloatArray, FloatArray]:
    """K (k, d, d) of each of the orders, and E y (k, d) for given responses y (rows,)."""
    pushed, padded = np.zeros((len(orders.rows), visits.dimension)), np.append(given, 0.0)

    def see(visit: int, kernel: FloatArray, product: FloatArray, entry: FloatArray) -> None:
        np.add(pushed, (entry @ padded[orders.rows[:, visit], np.newaxis])[:, :, 0], out=pushed)

    return _backwards(visits, orders, 0, orders.rows.shape[1], see), pushed


def _backwards(
    visits: Visits,
    orders: Orders,
    first: int,
    last: int,
    see: Callable[[int, FloatArray, FloatArray, FloatArray], None] | None = None,
) -> FloatArray:
    """K (k, d, d) of the visits of each order from slot `first` to `last`, the last of them first.

    K -> K + P K_b, P = I - K L R: what was visited later is to the left. `see` is given the slot of each visit,
    K of all that comes after it, P and P E_b (k, d, m).
    """
    rank, d, grades = visits.rank, visits.dimension, visits.left * visits.right
    padded = np.vstack([visits.unit, np.zeros(rank)])
    kernel = np.zeros((len(orders.rows), d, d))
    for visit in reversed(range(first, last)):
        rows = padded[orders.rows[:, visit]]
        product = np.eye(d) - kernel * grades
        folded = product
        if visits.average is not None:
            # The average takes part at once in what a visit does to the parameters.
            own, folded = (
                product[:, :, visits.plain_dimension :],
                product[:, :, : visits.plain_dimension].copy(),
            )
            folded[:, :, :rank] += visits.shares[:, 0] * own
        # A gradient moves the parameters by -1 (if not Nesterov's) and the buffer by 1, in their units.
        pushed = visits.hyperparameters.of_gradient(visit) * folded[:, :, :rank]
        if visits.momentum:
            pushed -= folded[:, :, rank:]
        entry = pushed @ rows.swapaxes(1, 2) / orders.divisors[:, visit, np.newaxis, np.newaxis]
        if see is not None:
            see(visit, kernel, product, entry)
        kernel[:, :, :rank] += entry @ rows
        if visits.penalty:
            kernel[:, :, :rank] += visits.penalty_gradient(pushed.swapaxes(1, 2)).swapaxes(1, 2)
        if visits.momentum:
            stays = (1 - visits.momentum) * folded[:, :, rank:]
            of_buffer = visits.hyperparameters.of_buffer(visit)
            kernel[:, :, rank : visits.plain_dimension] += of_buffer * folded[:, :, :rank] + stays
        if visits.average is not None:
            kernel[:, :, :rank] -= visits.average.taken * own
            kernel[:, :, visits.plain_dimension :] += (1 - visits.average.kept) * own
    return kernel


def scaled_losses(left: FloatArray, right: FloatArray, kernels: FloatArray) -> FloatArray:
    """D = L K R for kernels (..., d, d), as small to the right as to the left.

    No mode is so slow relative to the fastest that its eigenvalue is lost to rounding: the relative error of a
    slow mode does not depend on its decay rate.
    """
    roots = np.sqrt(left) * np.sqrt(right)
    roots = np.maximum(roots, _SMALLEST_ROOT * roots.max(initial=0.0) * (left > 0))
    return np.asarray(roots[:, np.newaxis] * kernels * roots)


def drawn_rate_error(losses: FloatArray, modes: int) -> float:
    """Relative error of the eigenvalues x of D = mean of `losses` (groups, d, d), in root mean square.

    To first order a rate moves by l'(dD) r / l'r, with l and r its eigenvectors. A mode counts by |1 - x|, what an
    epoch leaves of it: the buffers of momentum make many that decay at once, with eigenvectors that are nearly
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
    """Draw so many orders, and unless they are `alone` their reverses: of the rows of samples, or of batches."""
    padding, is_cut = len(blocks.rows), scheme.unit.is_cut
    members = _cut(np.arange(padding)[np.newaxis], np.asarray(blocks.sizes), padding)[0]
    rows_each = padding // blocks.batches

    def draw(rng: np.random.Generator, pairs: int, alone: bool = False) -> Orders:
        drawn = permutations(rng, pairs, blocks.batches)
        drawn = rows_of(drawn, rows_each) if is_cut else drawn
        drawn = drawn if alone else np.concatenate([drawn, drawn[:, ::-1]])
        if not is_cut:
            return Orders(members[drawn], np.asarray(blocks.divisors)[drawn])
        taken = scheme.sizes(n) // scheme.rows_per_unit * rows_each
        return Orders(_cut(drawn, taken, padding), np.tile(scheme.step_divisors(n), (len(drawn), 1)))

    return draw


def mean_map(scheme: Scheme, n: int, blocks: Blocks, step: float, accuracy: "Accuracy") -> MeanMap:
    """The mean of a symmetric epoch from drawn orders, with a replica without each group of draws."""
    unit, singular, rotation = graded_svd(blocks.rows)
    # Rows that are never visited leave directions in which nothing moves.
    moves = singular > _ROUNDING * singular.max(initial=0.0)
    unit, singular, rotation = unit[:, moves], singular[moves], rotation[:, moves]
    rows = np.ascontiguousarray(unit * singular)
    scaled = ScaledBlocks(rows, blocks.response, blocks.offsets, blocks.divisors, unit, singular)
    visits, steps = Visits(scaled, Hyperparameters(step)), scheme.steps(n)
    force, draw = np.zeros(len(singular)), pairs_of_orders(scheme, n, scaled)
    groups, missed, pairs = _drawn_groups(visits, force, draw, accuracy)
    decay = np.array([np.diagonal(group.kernel) for group in groups])
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.nan_to_num(error_of_mean(decay) / np.abs(decay.mean(axis=0)), posinf=np.inf)
    factor = singular[:, np.newaxis] * rotation.T

    def modifier(batch: int) -> FloatArray:
        # By symmetry what comes after a visit is what comes before it in the order that is reversed.
        total, weight, row = np.zeros((len(singular), len(singular))), 0.0, int(blocks.offsets[batch])
        rng = np.random.default_rng(accuracy.seed)

        def watch(visit: int, kernels: FloatArray) -> None:
            nonlocal total, weight
            here = (orders.rows[:, visit] == row).any(axis=1)
            shares = 1 / orders.divisors[here, visit]
            total, weight = total + np.tensordot(shares, kernels[here], 1), weight + float(shares.sum())

        for _ in range(-(-pairs // _AT_ONCE)):
            orders = draw(rng, _AT_ONCE)
            follow_each(visits, force, orders, watch)
        inside = visits.left[:, np.newaxis] * (total / (weight or 1.0)) * visits.right
        return np.asarray(np.eye(len(rotation)) - rotation @ inside @ rotation.T)

    def made(counted: list[EpochMap]) -> MeanMap:
        mean = mean_of(counted)
        kernel, inputs = mean.kernel / steps, mean.entries[:, 1:] / steps
        return MeanMap(
            factor, (kernel + kernel.T) / 2, inputs, steps * step, 1, 1.0, modifier, method="sampling",
            error=float(shares.max(initial=0.0)), missed=missed,
        )  # fmt: skip

    return replace(made(groups), make_replicas=lambda: tuple(map(made, without_each(groups))))


class DrawnBlocks:
    """Drawn orders of the epochs of a run, cut into blocks; the same orders whatever the step.

    The timeline draws orders, and says what a visit does. Blocks are as many as one draw for each group may have of
    the budget; `flops` are the operations of that.
    """

    def __init__(self, timeline: "Timeline", budget: float):
        self._timeline, self.visits = timeline, timeline.visits(0)
        self._steps = timeline.scheme.steps(timeline.n)
        (rows, rank), d = self.visits.blocks.rows.shape, self.visits.dimension

        def lattice_flops(blocks: int) -> float:
            half = (blocks + 1) // 2
            products = sum(size * math.comb(blocks, size) for size in range(1, half + 1))
            return float(products + math.comb(blocks, half)) * (2.0 * d**3 + _OF_A_PRODUCT)

        numbers = range(min(_MOST_BLOCKS, self._steps), 1, -1)
        affordable = (blocks for blocks in numbers if MOST_GROUPS * lattice_flops(blocks) <= budget)
        self._blocks = next(affordable, 1)
        of_visits = 4.0 * rows * rank * d + self._steps * (10.0 * d**2 + _OF_A_PRODUCT)
        self.flops = float(MOST_GROUPS * (of_visits + lattice_flops(self._blocks)))
        self._rng = np.random.default_rng(timeline.accuracy.seed)
        self._drawn = np.zeros((0, MOST_GROUPS, d, d))

    def kernels(self, rounds: int) -> FloatArray:
        """Mean kernels K (groups, d, d) of `EpochMap`, over so many draws each: all earlier ones, and more."""
        d, missing = self.visits.dimension, MOST_GROUPS * (rounds - len(self._drawn))
        stacked = max(1, int(_VISITED_ENTRIES / max(self._blocks * d**2, 1)))
        found = [self._drawn.reshape(-1, d, d)]
        with few_threads(d):
            for first in range(0, missing, stacked):
                drawn = self._timeline.draw_pairs(self._rng, min(stacked, missing - first), alone=True)
                found.append(self._over_blocks(drawn))
            self._drawn = np.concatenate(found).reshape(rounds, MOST_GROUPS, d, d)
            kernels = self._drawn.mean(axis=0)
            symmetric = self._timeline.scheme.is_symmetric and not self.visits.momentum
            return np.asarray((kernels + kernels.swapaxes(1, 2)) / 2 if symmetric else kernels)

    def single(self, pairs: int) -> FloatArray:
        """Kernels K (groups, 2 pairs, d, d) of so many orders and their reverses in each group."""
        d, seed = self.visits.dimension, self._timeline.accuracy.seed
        rngs = [np.random.default_rng([seed, group]) for group in range(MOST_GROUPS)]
        drawn = [self._timeline.draw_pairs(rng, pairs) for rng in rngs]
        rows, divisors = (
            np.concatenate(parts) for parts in zip(*((one.rows, one.divisors) for one in drawn), strict=True)
        )
        size = max(1, int(_STACKED_ENTRIES / max(d**2, 1)))
        pieces = [slice(at, at + size) for at in range(0, len(rows), size)]
        with few_threads(d):
            found = [
                _backwards(self.visits, Orders(rows[some], divisors[some]), 0, self._steps) for some in pieces
            ]
        return np.concatenate(found).reshape(MOST_GROUPS, 2 * pairs, d, d)

    def _over_blocks(self, orders: Orders) -> FloatArray:
        """K (k, d, d) of drawn orders, averaged over the orders of their blocks."""
        scheme, n, visits = self._timeline.scheme, self._timeline.n, self.visits
        # A last visit that weighs less than the others stays the last.
        sizes = scheme.sizes(n) / scheme.step_divisors(n)
        whole = self._steps - (scheme.unit.is_cut and bool(sizes[-1] < sizes[0]))
        cuts = np.linspace(0, whole, min(self._blocks, whole) + 1).astype(int)
        grades = visits.left * visits.right
        kernels = np.array([_backwards(visits, orders, *ends) for ends in pairwise(cuts.tolist())])
        largest = math.comb(len(kernels), len(kernels) // 2) * visits.dimension**2
        size = max(1, int(_STACKED_ENTRIES / max(largest, 1)))
        some = [over_orders(kernels[:, at : at + size], grades) for at in range(0, kernels.shape[1], size)]
        mean = np.concatenate(some)
        if whole < self._steps:
            last = _backwards(visits, orders, whole, self._steps)
            mean = mean + last - (last * grades) @ mean
        return mean


def over_orders(kernels: FloatArray, grades: FloatArray) -> FloatArray:
    """K (..., d, d) of the mean over all orders of a product of L maps I - L K_i R, kernels (L, ..., d, d).

    >>> over_orders(np.array([[[1.0]], [[2.0]]]), np.array([0.5]))  # 1 - (1 - 0.5) (1 - 1) = 0.5 K
    array([[2.]])
    """
    blocks = len(kernels)
    # Blocks in the later half of an order: any subset of so many follows on its complement.
    *_, layer, later = subset_means(kernels, grades, (blocks + 1) // 2)
    # The complements of ascending subsets descend.
    earlier = (later if blocks % 2 == 0 else layer)[::-1]
    return np.asarray((later + earlier - (later * grades) @ earlier).mean(axis=0))


def subset_means(kernels: FloatArray, grades: FloatArray, most: int) -> Iterator[FloatArray]:
    """K (subsets, ..., d, d) of the mean over orders of all subsets of 0, 1, ..., most of the maps I - L K_i R.

    Kernels are (L, ..., d, d), with grades L R (d,). Subsets are ascending binary numbers.
    """
    after, means = np.eye(len(grades)) - kernels * grades, np.zeros((1, *kernels.shape[1:]))
    yield means
    for layer in subset_layers(len(kernels), most):
        members = np.zeros((layer.nodes, len(kernels)))
        for number, _, places in layer.visits:
            members[places, number] = 1 / layer.ways
        following = np.tensordot(members, kernels, 1)
        for (_, before, places), one in zip(layer.visits, after / layer.ways, strict=True):
            following[places] += one @ means[before]
        means = following
        yield means
