"""Row updates: the change of the mean epoch map when the gradient of one row is left out.

With z the state of a run seen from its start (the parameters, and the momentum buffer if there is one), a visit to
batch b is z -> G_b z + P_b (y_b - X_b z). Row i enters by p_i x_i' alone, once per epoch, so that leaving it out is

    A_i = A + E[after p_i x_i' before],   g_i = g - E[after p_i (y_i - x_i'learned before)],

the mean over what is visited before and after its own visit. This is L C R' with R' = x_i'before, L = after p_i and
C the probabilities of what comes before and after:

- one batch, or independent draws: nothing is before or after, rank one (`mean_visits`);
- a single order: one product each (`single_order`);
- few batches in random order: F(S) for all subsets S of the other batches, with probability
  1 / (B binom(B-1, |S|)), exactly; or the mean of F(S) over |S| = j, of rank B, which neglects the covariance of
  before and after (`Lattice`);
- shuffled samples: the left and right vectors of the cavity equation (`Cavity`), or drawn orders (`DrawnOrders`).

Coordinates are those of `Visits`, divided by (L / R)^1/2: then maps of plain steps in random order are symmetric.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Protocol

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._blas import each
from reshuffle._linalg import power_and_sum, root_mean_square, thin_qr
from reshuffle._progress import track
from reshuffle._uncertainty import MOST_GROUPS, jackknife, quantile
from reshuffle.epoch.accuracy import A_SECOND, CALL
from reshuffle.epoch.averaging import cavity_maps
from reshuffle.epoch.averaging.cavity import Visiting, are_alike, solve
from reshuffle.epoch.averaging.lattice import MOST_BATCHES, available_bytes, layer, prefix_weights
from reshuffle.epoch.visits import GradedBlocks, MeanVisits, Visits, graded
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.outputs import beside
from reshuffle.problem.row_space import RowSpace
from reshuffle.recipe import Hyperparameters
from reshuffle.schemes.base import Scheme, permutations
from reshuffle.validation.contour import FARTHEST, LeftOutRows, Modes, RowUpdate, require_resolved

_STACKED = 1 << 18
"""Numbers in the visits to one batch that are multiplied at a time: 14 batches in 10 modes take a twentieth of the
time that they take one subset after the other."""
_FEW_SUBSETS = 8
"""Up to this many subsets of the other batches updates are exact, whatever they cost."""
_CALLS = 3.0
"""Calls with small matrices that a visit takes."""
_NODES = 150.0
"""Of a contour, about, real and imaginary parts."""
_TOLERANCE, _TOLERANCE_OF_MOMENTUM = 1e-9, 1e-7
"""To which the cavity equation is solved; with momentum it takes four times as long."""
_SMALL, _OVERSHOOTS = 0.1, 1.0
"""Shares up to which errors hold to first order, and the self response of a row from which on they say nothing.

Without drawn orders, on 540 problems like those of `python -m benchmarks.cavity_coverage rows`: below a self
response of one no answer is off by more than half its error, at 1.2 one of 212 is off by 1.3 times its error, and
from 2 on some are by any factor.
"""
_LEVERAGE = 1e-6
"""What is left of the leverage of groups of rows that can be told from groups that alone see some direction."""
_CHUNK = 1 << 22
"""Numbers that are worked on at a time."""
_ORDERS_AT_A_TIME = 256
"""Orders that are followed together, so that calls with small matrices do not take most of the time."""
_FEWEST_ORDERS, _MOST_ORDERS = 1 << 9, 1 << 15
"""Orders, each with its reverse, below which errors tell nothing, and beyond which nobody waits."""
_PER_NUMBER = 60.0
"""Operations that fit in the time of a number in a visit, 4 ns."""
_DIRECTIONS = 4
"""Epochs at which the direction is sought that changes an answer most."""


class LeavesOut(Protocol):
    """Source of the residuals of rows, or groups of s rows, that are left out one by one."""

    @property
    def outputs(self) -> int:
        """t."""

    def residuals(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and y_i - x_i'b_i (epochs, rows, s, t) after each of the finite epochs (k,)."""

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and their residuals (rows, s, t) in the limit."""


Maps = tuple[IntArray, FloatArray, FloatArray, FloatArray, FloatArray]
Residuals = Callable[[LeavesOut], FloatArray]
"""Source -> residuals (epochs, m, t) of the rows from which an error is told."""


@dataclass(frozen=True, eq=False)
class Training:
    """Epochs of a constant recipe, seen from their start.

    Attributes
    ----------
    problem : LeastSquares
    scheme : Scheme
    hyperparameters : Hyperparameters
        For the features as they are.
    start : (p,) or (p, t)
    factors : (n,)
        What leaving out each row is multiplied by: more than one where it is left out of the mean too by which all
        were centred.
    """

    problem: LeastSquares
    scheme: Scheme
    hyperparameters: Hyperparameters
    start: FloatArray
    factors: FloatArray

    @cached_property
    def visited_problem(self) -> LeastSquares:
        """The problem without rows that are never visited: only a penalty moves what they alone see."""
        count = sum(map(len, self.scheme.partition(self.problem.n)))
        whole = count == self.problem.n or self.hyperparameters.penalty > 0
        return self.problem if whole else self.problem.of_first(count)

    @cached_property
    def _graded(self) -> tuple[RowSpace, GradedBlocks]:
        n, problem = self.problem.n, self.visited_problem
        partition, space = self.scheme.partition(n), problem.row_space
        held = None
        if sum(map(len, partition)) < problem.n:
            held = math.sqrt(self.hyperparameters.penalty) / space.scale * np.eye(space.dimension)
        return graded(space, problem.blocks(partition, self.scheme.divisors(n)), held)

    @property
    def blocks(self) -> GradedBlocks:
        """Statistics of the batches."""
        return self._graded[1]

    @cached_property
    def visits(self) -> Visits:
        """Visits to the batches."""
        return Visits(self.blocks, self.hyperparameters.scaled(self.visited_problem.row_space))

    @property
    def is_symmetric(self) -> bool:
        """Whether means over reversible orders are symmetric maps."""
        return self.hyperparameters.momentum == 0

    @property
    def step(self) -> float:
        """Step of features of size one, summed over all visits that a gradient is felt in."""
        return self.visits.step / (1 - self.hyperparameters.momentum)

    @property
    def outputs(self) -> int:
        """t."""
        return int(beside(self.problem.y).shape[1])

    @cached_property
    def roots(self) -> FloatArray:
        """(L R)^1/2 (d,)."""
        return np.asarray(np.sqrt(self.visits.left * self.visits.right))

    @cached_property
    def origin(self) -> FloatArray:
        """The start (r, t)."""
        space = self._graded[0]
        inside = beside(space.scale * space.coordinates(self.start))
        return np.broadcast_to(inside, (space.dimension, self.outputs))

    @cached_property
    def missing(self) -> FloatArray:
        """What is left of the responses of the blocks (rows, t) at the start."""
        return np.asarray(beside(self.blocks.response) - self.blocks.rows @ self.origin)

    @cached_property
    def force(self) -> FloatArray:
        """What a penalty adds in every visit (d, t)."""
        pushed = [self.visits.pushed(self.visits.unit_force(column), 0) for column in self.origin.T]
        return np.column_stack(pushed)

    def rows(self, members: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rows (m, r) in the coordinates of the state, and what is left of their responses (m, t) at the start."""
        space = self._graded[0]
        if self.visited_problem is self.problem and space.rotation is not None:
            inside = self.problem.rows_inside(members) @ space.rotation
        else:
            inside = space.coordinates(self.problem.X[members].T).T / space.scale
        responses = beside(self.problem.y[members]) - self.problem.X[members] @ beside(self.start)
        return math.sqrt(self.visits.step) * inside, responses

    @cached_property
    def entry(self) -> FloatArray:
        """Matrix (d, r) that takes x_i to how its gradient enters the state, p_i."""
        r, by = self.visits.rank, self.hyperparameters
        into_buffer = [-np.diag(1 / self.roots[:r])] if by.momentum else []
        return np.vstack([by.of_gradient(0) * np.eye(r), *into_buffer])

    @cached_property
    def alone(self) -> BoolArray:
        """Which of the visited rows alone see some direction (n,): none where a penalty does, too."""
        if self.visits.penalty:
            return np.zeros(self.problem.n, dtype=bool)
        return self.problem.rows_alone(besides_mean=self.leaves_means) & np.isfinite(self.divisors)

    @property
    def groups_alone(self) -> bool:
        """Whether some group of rows alone sees some direction that no penalty acts on."""
        basis, _ = thin_qr(self.problem.rows_inside(np.arange(self.problem.n)))
        groups = basis.reshape(-1, self.scheme.rows_per_unit, basis.shape[1])
        largest = np.linalg.norm(groups, 2, axis=(1, 2)).max(initial=0.0)
        return not self.visits.penalty and bool(largest > 1 - _LEVERAGE)

    @property
    def leaves_means(self) -> bool:
        """Whether rows are left out of the mean by which all were centred, which batches feel on average alone."""
        return bool((self.factors != 1).any())

    @cached_property
    def divisors(self) -> FloatArray:
        """Divisor of the gradient of each row in its visit (n,); infinity if it is not visited."""
        found, n = np.full(self.problem.n, np.inf), self.problem.n
        for members, divisor in zip(self.scheme.partition(n), self.scheme.divisors(n), strict=True):
            found[members] = divisor
        return found

    def visited(self, batch: int, states: FloatArray, visits: Visits | None = None) -> FloatArray:
        """[K, E] (..., d, d + t) after one more visit: maps are I - L K R, and L E is what they have learned."""
        visits, d = visits or self.visits, len(self.roots)
        begin = np.zeros((d, d + self.outputs))
        begin[:, :d] = np.eye(d)
        following = states + visits.kernel(batch, begin - np.square(self.roots)[:, np.newaxis] * states, 0)
        following[..., d:] += self.force + visits.unit_entry(batch, 0) @ self.missing[visits.columns(batch)]
        return following

    def map_of(self, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """I - A (d, d) and g (d, t) of [K, E] (d, d + t)."""
        d, roots = len(self.roots), self.roots[:, np.newaxis]
        return roots * state[:, :d] * self.roots, roots * state[:, d:]


class Views:
    """R', L and alpha of rows that see the same maps before and after their visit.

    Parameters
    ----------
    training : Training
    modes : Modes
    states : list of (d, d + t)
        [K, E] of what is visited before, first of all nothing; or after, in another order.
    coupling : (l, q)
    after : list of (d, d), optional
        Maps after the visit where they are not those of `states`.
    """

    def __init__(
        self,
        training: Training,
        modes: Modes,
        states: Sequence[FloatArray],
        coupling: FloatArray,
        after: Sequence[FloatArray] | None = None,
    ):
        self._training, self.coupling = training, coupling
        r, maps = training.visits.rank, [training.map_of(state) for state in states]
        identity = np.eye(len(training.roots))
        before = np.stack([identity - lost for lost, _ in maps])
        self.learned = np.stack([gained[:r] for _, gained in maps], axis=1).reshape(r, -1)
        self.right = np.stack([modes.seen(one[:r]) for one in before], axis=1).reshape(r, -1)
        self.left = None
        if not modes.is_symmetric:
            images = [modes.entered(one @ training.entry) for one in (before if after is None else after)]
            self.left = np.stack(images, axis=1).reshape(r, -1)

    def update(self, members: IntArray) -> RowUpdate:
        """The updates of some rows."""
        rows, responses = self._training.rows(members)
        count, q = len(members), self.coupling.shape[1]
        right = (rows @ self.right).reshape(count, q, -1)
        left = None if self.left is None else (rows @ self.left).reshape(count, len(self.coupling), -1)
        alpha = responses[:, np.newaxis] - (rows @ self.learned).reshape(count, q, -1)
        factors = self._training.factors[members] / self._training.divisors[members]
        coupling = factors[:, np.newaxis, np.newaxis] * self.coupling
        return RowUpdate(members, right, left, coupling, alpha, np.eye(q, 1))


def _left_out(
    training: Training, modes: Modes, gains: FloatArray, groups: list[tuple[IntArray, Views]],
    *, applications: int = 1, is_monotone: bool = False, is_exact: bool = True, scale: float = 1.0,
) -> LeftOutRows:  # fmt: skip
    """Updates of groups of rows, each with its views; C is multiplied by `scale`."""
    unmoved = not training.visits.penalty and not (is_exact and not training.leaves_means)

    def updates(rows: IntArray, height: int) -> Iterator[RowUpdate]:
        for members, views in groups:
            mine = rows[np.isin(rows, members)]
            starts = range(0, len(mine), height)
            for start in track(starts, len(starts), "leaving out rows, part"):
                update = views.update(mine[start : start + height])
                update.coupling[...] *= scale
                yield found.unmoved(update) if unmoved else update

    coupling = groups[0][1].coupling
    found = LeftOutRows(
        modes, gains, updates, (coupling.shape[1], len(coupling), 1), applications, is_monotone,
        lambda: training.alone,
    )  # fmt: skip
    return found


def mean_visits(training: Training) -> LeftOutRows:
    """Updates where an epoch repeats one mean visit: the full batch, and all that is drawn with replacement."""
    visits = MeanVisits(training.blocks, training.visits.hyperparameters)
    nothing = np.zeros((len(training.roots), len(training.roots) + training.outputs))
    lost, gained = training.map_of(training.visited(0, nothing, visits))
    modes = Modes(lost, is_symmetric=training.is_symmetric)
    views = Views(training, modes, [nothing], np.full((1, 1), 1 / training.blocks.batches))
    return _left_out(
        training, modes, modes.entered(gained), [(np.arange(training.problem.n), views)],
        applications=training.scheme.steps(training.problem.n), is_monotone=training.is_symmetric,
    )  # fmt: skip


def single_order(training: Training) -> LeftOutRows:
    """Updates where batches are always visited in the same order."""
    n, d = training.problem.n, len(training.roots)
    order = training.scheme.order(n).tolist()
    state = nothing = np.zeros((d, d + training.outputs))
    before = {}
    for batch in order:
        before[batch], state = state, training.visited(batch, state)
    lost, gained = training.map_of(state)
    modes = Modes(lost, is_symmetric=False)
    after, following = {}, np.eye(d)
    for batch in reversed(order):
        after[batch] = following
        own = training.visits.kernel(batch, np.diag(training.roots), 0)
        following = following - (following * training.roots) @ own
    partition = training.scheme.partition(n)
    # The row itself is seen too, at the start of an epoch.
    coupling = np.array([[0.0, 1.0]])
    groups = [
        (partition[batch], Views(training, modes, [nothing, before[batch]], coupling, [after[batch]]))
        for batch in order
    ]
    groups.append(_unvisited(training, modes, nothing, coupling))
    return _left_out(training, modes, modes.entered(gained), groups)


def _unvisited(
    training: Training, modes: Modes, nothing: FloatArray, coupling: FloatArray
) -> tuple[IntArray, Views]:
    """Rows that are in no batch: leaving them out changes nothing."""
    n = training.problem.n
    rest = np.setdiff1d(np.arange(n), np.concatenate(training.scheme.partition(n)))
    after = [np.eye(len(training.roots))] * len(coupling)
    return rest, Views(training, modes, [nothing] * coupling.shape[1], 0 * coupling, after)


@dataclass(frozen=True, eq=False)
class MeanOverOrders:
    """Mean over equally likely orders, of which a run keeps one: that of their residuals."""

    orders: list[LeftOutRows]

    @property
    def outputs(self) -> int:
        """t."""
        return self.orders[0].outputs

    def residuals(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows and y_i - x_i'b_i (epochs, rows, 1, t) after each of the finite epochs (k,)."""
        yield rows, self._mean(rows, lambda order: order.residuals(rows, epochs), (len(epochs),))

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows and their residuals (rows, 1, t) in the limit."""
        yield rows, self._mean(rows, lambda order: order.limits(rows), ())

    def _mean(
        self,
        rows: IntArray,
        ask: Callable[[LeftOutRows], Iterator[tuple[IntArray, FloatArray]]],
        epochs: tuple[int, ...],
    ) -> FloatArray:
        places = np.zeros(int(rows.max()) + 1, dtype=np.int64)
        places[rows] = np.arange(len(rows))
        total = np.zeros((*epochs, len(rows), 1, self.outputs))
        for order in self.orders:
            for members, found in ask(order):
                total[..., places[members], :, :] += found / len(self.orders)
        return total


class Lattice:
    """Updates of fixed batches in random order, from the lattice of their subsets."""

    def __init__(self, training: Training):
        self.training = training
        self._batches = training.blocks.batches
        self._d = len(training.roots)

    @property
    def _subsets(self) -> float:
        """Subsets of the other batches."""
        return 2.0 ** (self._batches - 1)

    @property
    def is_exact(self) -> bool:
        """Whether each subset is looked at by itself: they are few, or a second will do."""
        price = min(self.dense_operations, self.contour_operations)
        return self._batches <= MOST_BATCHES and (self._subsets <= _FEW_SUBSETS or price <= A_SECOND)

    @property
    def walk_operations(self) -> float:
        """About what the lattice costs."""
        rows, rank = self.training.blocks.rows.shape
        columns = self._d + self.training.outputs
        visit = 4.0 * rows / self._batches * rank * columns + 6.0 * self._d * columns + _CALLS * CALL
        return float(self._batches * self._subsets * visit)

    @property
    def dense_operations(self) -> float:
        """About what a matrix without each row costs, from all subsets; infinite if it is not symmetric."""
        if not self.training.is_symmetric:
            return math.inf
        n, d = self.training.problem.n, self._d
        numbers = 2.0 * self._subsets * d * (d + self.training.outputs)
        looks = self._subsets * d * (4.0 * d + 40.0)
        # In memory: a number takes 30 ns on its way up the lattice of 20 rows of one column.
        climbed = 250.0 * numbers * self._batches
        return climbed + self._batches**2 * CALL + n * (looks + 10.0 * d**3)

    @property
    def contour_operations(self) -> float:
        """About what the contours of all rows through all subsets cost."""
        each = self._subsets**2 * (2.0 * self._d + 8.0 * self._subsets)
        return float(self.training.problem.n * _NODES * each)

    def _layers(self) -> Iterator[tuple[IntArray, FloatArray]]:
        """Subsets of the batches (c,), ascending, one size after the other, and mean [K, E] over their orders."""
        training, batches = self.training, list(range(self._batches))
        subsets = np.zeros(1, dtype=np.int64)
        states = np.zeros((1, self._d, self._d + training.outputs))
        yield subsets, states
        width = self._d * (self._d + int(training.blocks.sizes.max()))
        height = max(1, _STACKED // max(width, 1))
        for size in track(batches, len(batches), "averaging orders"):
            following = np.sort(np.fromiter(layer(batches, size + 1), dtype=np.int64))
            parts = [following[start : start + height] for start in range(0, len(following), height)]
            made = each(partial(self._means, subsets, states), parts, float(self._d))
            subsets, states = following, np.concatenate(made)
            yield subsets, states

    def _means(self, known: IntArray, before: FloatArray, subsets: IntArray) -> FloatArray:
        """Mean [K, E] over the orders of some subsets (m,), from those that have one batch less."""
        states = np.zeros((len(subsets), *before.shape[1:]))
        for batch in range(self._batches):
            here = np.flatnonzero(subsets >> batch & 1)
            if len(here):
                at = np.searchsorted(known, subsets[here] ^ (1 << batch))
                states[here] += self.training.visited(batch, before[at])
        return states / int(subsets[0]).bit_count()

    @cached_property
    def _all(self) -> FloatArray:
        """[K, E] of all subsets, which are bit masks (2^B, d, d + t)."""
        subsets, states = zip(*self._layers(), strict=True)
        found = np.empty((1 << self._batches, *states[0].shape[1:]))
        found[np.concatenate(subsets)] = np.concatenate(states)
        return found

    def _without(self, batch: int) -> tuple[IntArray, FloatArray]:
        """Subsets of the other batches, which read backwards are their complements, and their chances."""
        subsets = np.arange(1 << self._batches)
        subsets = subsets[(subsets >> batch & 1) == 0]
        sizes = sum(subsets >> other & 1 for other in range(self._batches))
        return subsets, np.array(prefix_weights(self._batches))[sizes]

    def by_subset(self) -> LeftOutRows:
        """Exact updates, of rank 2^(B-1)."""

        def views(modes: Modes, batch: int) -> Views:
            subsets, chances = self._without(batch)
            return Views(self.training, modes, list(self._all[subsets]), np.diag(chances)[::-1])

        return self._made(self._all[-1], views)

    def dense(self) -> "LeftOutMaps":
        """Exact matrices A_i of plain steps."""
        training, d = self.training, self._d
        partition = training.scheme.partition(training.problem.n)
        lost, gained = training.map_of(self._all[-1])

        def maps(members: IntArray) -> Maps:
            rows, responses = training.rows(members)
            shape = len(members), d, d
            without, learned = np.broadcast_to(lost, shape).copy(), np.tile(gained, (len(members), 1, 1))
            for batch, part in enumerate(partition):
                mine = np.flatnonzero(np.isin(members, part))
                if not len(mine):
                    continue
                subsets, chances = self._without(batch)
                states = (training.roots[:, np.newaxis] * self._all[subsets]).transpose(1, 0, 2)
                seen = (rows[mine] @ states.reshape(d, -1)).reshape(len(mine), len(subsets), -1)
                right = rows[mine][:, np.newaxis] - seen[..., :d] * training.roots
                alpha = responses[mine][:, np.newaxis] - seen[..., d:]
                factors = (training.factors / training.divisors)[members[mine]]
                left = np.swapaxes(
                    factors[:, np.newaxis, np.newaxis] * chances[:, np.newaxis] * right[:, ::-1], 1, 2
                )
                without[mine] -= left @ right
                learned[mine] -= left @ alpha
            return members, rows, responses, without, learned

        return LeftOutMaps(maps, (d, training.outputs), training.alone)

    def by_size(self) -> Callable[[float], LeftOutRows]:
        """Updates of rank B, from the means over subsets of one size; C is multiplied by a number."""
        shape = self._batches, self._batches, self._d, self._d + self.training.outputs
        means, state = np.zeros(shape), np.zeros(shape[2:])
        for size, (subsets, states) in enumerate(self._layers()):
            state = states[0]
            for batch in range(self._batches) if size < self._batches else ():
                means[batch, size] = states[(subsets >> batch & 1) == 0].mean(axis=0)
        coupling = np.eye(self._batches)[::-1] / self._batches

        def views(modes: Modes, batch: int) -> Views:
            return Views(self.training, modes, list(means[batch]), coupling)

        return lambda scale: self._made(state, views, is_exact=False, scale=scale)

    def _made(
        self,
        state: FloatArray,
        views: Callable[[Modes, int], Views],
        *,
        is_exact: bool = True,
        scale: float = 1.0,
    ) -> LeftOutRows:
        training = self.training
        lost, gained = training.map_of(state)
        modes = Modes(lost, is_symmetric=training.is_symmetric)
        partition = training.scheme.partition(training.problem.n)
        groups = [(members, views(modes, batch)) for batch, members in enumerate(partition)]
        groups.append(_unvisited(training, modes, np.zeros_like(state), groups[0][1].coupling))
        return _left_out(training, modes, modes.entered(gained), groups, is_exact=is_exact, scale=scale)

    @cached_property
    def neglected(self) -> float:
        """Covariance of before and after among subsets of one size, relative to what a row does.

        To second order in the step it is step^2 Var_S sum_{b in S} W_b x_i, on average over sizes and rows.
        """
        blocks, batches = self.training.blocks, self._batches
        parts = [blocks.rows[blocks.of(b)] for b in range(batches)]
        grams = [part.T @ part / divisor for part, divisor in zip(parts, blocks.divisors, strict=True)]
        total, mean = sum(grams), sum(grams) / batches
        spread = sum(np.sum(total * ((gram - mean) @ (gram - mean))) for gram in grams) / batches
        sizes = sum(size * (batches - 1 - size) / max(batches - 2, 1) for size in range(batches)) / batches
        share = self.training.step**2 * sizes * spread / max(float(np.trace(total)), 1e-300)
        return float(min(share, 1.0))

    def error_by_size(self, made: Callable[[float], LeftOutRows]) -> "ErrorOfMeanSquare":
        """Error of a mean square by sizes: the sum over the rows, of which none makes up for another."""

        def error(residuals: Residuals, weights: FloatArray) -> FloatArray:
            here = np.square(residuals(made(1.0)))
            shares = (self.neglected, -self.neglected)
            apart = [np.abs(np.square(residuals(made(1 + share))) - here) for share in shares]
            return np.asarray(np.max([weighted_sum(one, weights) for one in apart], axis=0))

        return error


ErrorOfMeanSquare = Callable[[Residuals, FloatArray], FloatArray]
"""Residuals, and weights (m,) of their squares -> error (epochs, t) of the sum of the squares."""


def weighted_sum(squares: FloatArray, weights: FloatArray) -> FloatArray:
    """Sum (epochs, t) of squares of residuals (epochs, m, t), with weights (m,); inf if that is not known."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.einsum("kmt,m->kt", squares, weights)
    return np.where(np.isnan(found), np.inf, found)


class Cavity:
    """Updates of shuffled units, samples or batches of equally many rows, by the cavity equation.

    With a_i(t) = x_i'E[first t visits | unit i not among them] and b_i(t) = E[t visits | not i] p_i, left and right
    vectors of `epoch.cavity`, and unit i as likely at one visit as at any other,

        A_i = A + (w / B) sum_t b_i(B-1-t) a_i(t)',   g_i = g - (w / B) sum_t b_i(B-1-t) alpha_i(t),

    where alpha_i(t) = y_i - x_i'E[learned in t visits | not i] obeys the equation of a_i. The mean over all units
    is N_t = w sum_{s<t} sum_j b_j(s) y_j; with another unit in the place of i that is, as in the closure of a_i,
    H_t = N_t + (1 / (n-1)) sum_{s<t} E[t-1-s visits] (what visit s adds by its rows).

    ArithmeticError if the equation has no solution.

    Parameters
    ----------
    training : Training
        Units of a scheme that cuts them into batches are left out as a whole, rows of fixed batches one by one.
    """

    def __init__(self, training: Training):
        self.training, self.whole = training, training.scheme.unit.is_cut
        visits, n = training.visits, training.problem.n
        shares = _visit_shares(training)
        entry, still = visits.rank_one_parts()
        self.visiting = Visiting(
            rows=visits.unit, grades=np.square(training.roots).reshape(len(entry), -1), still=still, entry=entry,
            weight=float(shares[0]) / len(visits.unit), last=1.0, steps=len(shares),
            size=n // len(training.scheme.partition(n)),
        )  # fmt: skip
        tolerance = _TOLERANCE if training.is_symmetric else _TOLERANCE_OF_MOMENTUM
        found = solve(self.visiting, tolerance)
        if found is None:
            raise ArithmeticError("the cavity equation has no solution.")
        self.found, self._nodes = found, found.nodes
        self._off = cavity_maps.neglected(self.visiting, found.entries, tolerance)
        missing = training.missing
        self._pull = found.entries.T @ missing
        self._pull += np.column_stack([found.pushed(force) for force in training.force.T])
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(missing), 1))
        self._put_off_pull = (signs * self._off).T @ missing
        self._echo = found.echo.reshape(len(found.echo), -1, self.visiting.size, self.visiting.size)
        self._learned = training.roots[:, np.newaxis] * self._learned_without()

    def _learned_without(self) -> FloatArray:
        """H_t (q, d, t) at the nodes, without the factor L R."""
        visiting, nodes, found, force = self.visiting, self._nodes, self.found, self.training.force
        grades, weight = visiting.grades.ravel()[:, np.newaxis], visiting.weight
        units, size = visiting.samples, visiting.size
        missing = self.training.missing.reshape(units, size, -1)
        identity, rows = np.eye(len(grades)), visiting.rows
        # sum_j b_j(t) y_j, with the echoes of the units.
        after = visiting.seen(identity - found.inner * grades.T)
        plain = rows.T @ missing.reshape(len(rows), -1)
        returned = np.stack([rows.T @ (echo @ missing).reshape(len(rows), -1) for echo in self._echo])
        together = np.einsum("tab,akc->tbkc", nodes.convolution, returned)
        added = weight * (after @ plain + np.einsum("bdk,tbkc->tdc", after, together, optimize=True))
        lost = found.path @ (grades * force)
        sums = np.cumsum(nodes.rule, axis=0)
        before = np.vstack([np.zeros((1, sums.shape[1])), sums[:-1]])[nodes.nodes]
        learned = np.tensordot(before, added + force - lost, 1)
        rest = np.stack([visiting.rest(grades * one) for one in learned])
        by_rows = added - lost + rest
        return np.asarray(
            learned + nodes.convolve(identity - found.path * grades.T, by_rows) / max(units - 1, 1)
        )

    @cached_property
    def shares(self) -> FloatArray:
        """Covariance of the visits before and after each row, relative to what the row does (n,), at most.

        Every other unit is before or after, never both. With W_j = X_j'X_j and W their mean, to second order in the
        step over the divisor, s, it is the trace of

            s^2 sum_j (W_j - W) x_i x_i'(W_j - W) (B - 1)(B - 2) / (6 B^2),

        nothing for units that are alike, nor for two batches.
        """
        rows, units, divisor = self._rows
        factor = 1 / (1 - self.training.hyperparameters.momentum) / divisor
        mean, squares = rows.T @ rows / len(units), np.square(rows).sum(axis=1)
        fourth = np.einsum("uir,uij,ujs->rs", units, units @ units.swapaxes(1, 2), units, optimize=True)
        both = np.einsum("ir,rs,is->i", rows, fourth - len(units) * mean @ mean, rows, optimize=True)
        batches = self.visiting.steps
        of_visits = (batches - 1) * (batches - 2) / (6.0 * batches**2)
        return np.asarray(
            of_visits * factor**2 * np.maximum(both, 0.0) / np.where(squares == 0, 1.0, squares)
        )

    @cached_property
    def _rows(self) -> tuple[FloatArray, FloatArray, float]:
        """Rows (n, r), by units (units, size, r), and the divisor of a visit."""
        rows, _ = self.training.rows(np.arange(self.training.problem.n))
        divisor = float(self.training.scheme.step_divisors(self.training.problem.n)[0])
        return rows, rows.reshape(-1, self.visiting.size, rows.shape[1]), divisor

    @cached_property
    def overshoots(self) -> bool:
        """Whether some unit has a self response x_i'E[t visits | not i] p_i above one: its error is not known.

        Such a visit does more to it than to fit it. Of two batches nothing is neglected, however large the step.
        """
        (_, units, divisor), r = self._rows, self.training.visits.rank
        met = np.eye(len(self.training.roots)) - self.training.roots[:, np.newaxis] * (
            self.found.inner * self.training.roots
        )
        responses = [
            np.einsum("uir,rs,uis->u", units, (one @ self.training.entry)[:r], units, optimize=True)
            for one in met
        ]
        return self.visiting.steps > 2 and bool(np.abs(responses).max(initial=0.0) / divisor > _OVERSHOOTS)

    @cached_property
    def of_mean(self) -> float:
        """What the decay rates of the mean map may be off by, relative to them."""
        return root_mean_square(cavity_maps.shares_of(self.visiting.rows, self.found.entries, self._off))

    @property
    def is_small(self) -> bool:
        """Whether what is neglected is small beside what is not: errors are told to first order in it."""
        return bool(max(self.of_mean, float(self.shares.max(initial=0.0))) <= _SMALL)

    def left_out(
        self, *, shares: FloatArray | None = None, of_rates: FloatArray | float = 0.0, entering: bool = False
    ) -> LeftOutRows:
        """Updates; put off where each row (n,) or decay rate (r,) is off by a share, or how samples enter is."""
        training, size, nodes = self.training, self.visiting.size, self._nodes
        r, d = training.visits.rank, len(training.roots)
        # As if features were larger by a root: what is learned in the end stays, and directions that other rows do
        # not see stay unmoved.
        root = np.ones(d)
        root[:r] = np.sqrt(np.maximum(1 + np.broadcast_to(of_rates, (r,)), 0.0))
        roots = (root * training.roots)[:, np.newaxis]
        modes = Modes(roots * self.found.kernel * roots.T, is_symmetric=training.is_symmetric)
        gains = modes.entered(roots * (self._pull + self._put_off_pull if entering else self._pull))
        met = np.eye(d) - roots * self.found.inner * roots.T
        q = len(met)
        right = np.stack([modes.seen(root[:r, np.newaxis] * one[:r]) for one in met], axis=1).reshape(r, -1)
        left = np.zeros((r, 0))
        if not modes.is_symmetric:
            entry = root[:, np.newaxis] * training.entry
            left = np.stack([modes.entered(one @ entry) for one in met], axis=1).reshape(r, -1)
        learned = np.moveaxis(self._learned[:, :r], 0, 1).reshape(r, -1)
        among = np.eye(size if self.whole else 1)
        conv = np.kron(self.visiting.weight * nodes.convolution_at(self.visiting.steps), among)
        picks = np.kron(nodes.rule[0][:, np.newaxis], among)

        def update(members: IntArray) -> RowUpdate:
            units = members if self.whole else members // size
            rows, responses = training.rows((units[:, np.newaxis] * size + np.arange(size)).ravel())
            echo = self._echo[:, units]

            def returned(plain: FloatArray, echoes: FloatArray) -> FloatArray:
                """F_i(t) + sum_{s<t} rho_i(t-s) f_i(s) at the nodes, for f (units, size, q, any)."""
                flat = plain.swapaxes(1, 2).reshape(len(units), q * size, -1)
                mixing = np.einsum("tab,amij->mtibj", nodes.convolution, echoes, optimize=True)
                full = flat + mixing.reshape(len(units), q * size, q * size) @ flat
                if self.whole or size == 1:
                    return np.asarray(full)
                return np.asarray(
                    full.reshape(len(units), q, size, -1)[np.arange(len(units)), :, members % size]
                )

            shape = len(units), size, q, -1
            factors = training.factors[members * size if self.whole else members]
            factors = factors * (
                1 if shares is None else 1 + shares[members * size if self.whole else members]
            )
            made = RowUpdate(
                members,
                returned((rows @ right).reshape(shape), echo),
                None if modes.is_symmetric else returned((rows @ left).reshape(shape), echo.swapaxes(2, 3)),
                factors[:, np.newaxis, np.newaxis] * conv,
                returned(
                    (responses[:, np.newaxis] - (rows @ learned).reshape(len(rows), q, -1)).reshape(shape),
                    echo,
                ),
                picks,
            )
            # A penalty moves every direction, whoever sees it.
            return made if training.visits.penalty else found.unmoved(made)

        def updates(chosen: IntArray, height: int) -> Iterator[RowUpdate]:
            starts = range(0, len(chosen), height)
            for start in track(starts, len(starts), "leaving out rows, part"):
                yield update(chosen[start : start + height])

        sizes = len(picks), len(conv), picks.shape[1]
        if sizes[2] > 1 and training.groups_alone:
            raise ArithmeticError("groups of rows that alone see some direction are not told apart.")
        found = LeftOutRows(
            modes, gains, updates, sizes, 1, False, lambda: training.alone[:: size if self.whole else 1]
        )
        return found

    def error(self, residuals: Residuals, weights: FloatArray) -> FloatArray:
        """Error of a mean square.

        Rows do less than the product of means says, by their shares: changes add up, and none makes up for another.
        The mean map may be off in the decay rates of all modes alike, in those of every other one, and in how
        samples enter, by chance: these add up like independent ones.
        """
        here = np.square(residuals(self.left_out()))
        if self.overshoots:
            return np.full((len(here), here.shape[2]), np.inf)
        less = np.square(residuals(self.left_out(shares=-self.shares)))
        by_rows = weighted_sum(np.abs(less - here), weights)
        by_mean = np.zeros_like(by_rows)
        every_other = np.where(np.arange(self.training.visits.rank) % 2, self.of_mean, -self.of_mean)
        for put_off in (
            self.left_out(of_rates=self.of_mean),
            self.left_out(of_rates=every_other),
            self.left_out(entering=True),
        ):
            apart = weighted_sum(np.square(residuals(put_off)) - here, weights)
            with np.errstate(over="ignore"):
                by_mean = by_mean + np.square(apart)
        return np.asarray(by_rows + np.sqrt(by_mean))


def _visit_shares(training: Training) -> FloatArray:
    """Rows of each visit over its divisor (B,)."""
    n = training.problem.n
    return np.asarray(training.scheme.sizes(n) / training.scheme.step_divisors(n))


def has_cavity(training: Training) -> bool:
    """Whether all visits weigh the same and all units have equally many rows, which are at hand one by one."""
    shares, partition = _visit_shares(training), training.scheme.partition(training.problem.n)
    alike = are_alike(shares) and bool(shares[-1] == shares[0]) and len({*map(len, partition)}) == 1
    return alike and len(training.blocks.rows) == training.problem.n


@dataclass(frozen=True, eq=False)
class LeftOutMaps:
    """Rows of symmetric maps that are left out where the map without each of them is known: a matrix per row.

    Unlike a contour, which must know where the eigenvalues are, this holds for maps that diverge.

    Attributes
    ----------
    maps : callable
        Rows (m,) -> themselves, their features (m, d), responses (m, t), and without each I - A_i (m, d, d) and g_i
        (m, d, t).
    sizes : (d, t)
    alone : (n,)
        Which of all rows alone see some direction.
    """

    maps: Callable[[IntArray], Maps]
    sizes: tuple[int, int]
    alone: BoolArray

    @property
    def outputs(self) -> int:
        """t."""
        return self.sizes[1]

    def residuals(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and y_i - x_i'b_i (epochs, rows, 1, t) after each of the finite epochs (k,)."""
        if float(epochs.max(initial=0.0)) > FARTHEST:
            raise ArithmeticError("so late what is left of slow modes is not known by their decay rates.")
        yield from self._after(rows, epochs)

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and their residuals (rows, 1, t) in the limit; inf without a limit."""
        for members, found in self._after(rows, np.array([np.inf])):
            yield members, found[0]

    def _after(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        side, outputs = self.sizes
        height = max(1, _CHUNK // max(1, side * (side + outputs) * (1 + len(epochs))))
        for start in range(0, len(rows), height):
            members, features, responses, lost, gained = self.maps(rows[start : start + height])
            if not np.isfinite(lost).all() or not np.isfinite(gained).all():
                yield members, np.full((len(epochs), len(members), 1, outputs), np.inf)
                continue
            values, vectors = np.linalg.eigh((lost + np.swapaxes(lost, 1, 2)) / 2)
            gained = np.swapaxes(vectors, 1, 2) @ gained
            # Without a row that alone sees a direction nothing moves there, which rounding hides.
            saturated = np.flatnonzero(self.alone[members])
            still = np.argmin(np.abs(values), axis=1)[saturated]
            values[saturated, still], gained[saturated, still] = 0.0, 0.0
            if np.isinf(epochs).any():
                moving = np.abs(values)
                moving[saturated, still] = moving.max(initial=0.0)
                require_resolved(moving)
            _, sums = power_and_sum(values.ravel(), epochs)
            seen = np.einsum("mr,mrk->mk", features, vectors)[..., np.newaxis] * gained
            with np.errstate(over="ignore", invalid="ignore"):
                parts = seen[np.newaxis] * sums.reshape(-1, *values.shape, 1)
                # Zero times infinity: a direction in which nothing is learned.
                found = responses - np.where((seen == 0)[np.newaxis], 0.0, parts).sum(axis=2)
            yield members, np.where(np.isfinite(found), found, np.inf)[:, :, np.newaxis]


def affordable_orders(training: Training, budget: float) -> int:
    """Drawn orders that take a second or so, or the fewest that tell anything if a budget allows them; 0 if not."""
    n, rank, outputs = training.problem.n, training.visits.rank, training.outputs
    side = rank * (rank + outputs)
    if (
        not training.is_symmetric
        or 8.0 * MOST_GROUPS * (n + _ORDERS_AT_A_TIME) * side > available_bytes() / 8
    ):
        return 0
    visits = training.scheme.steps(n)
    each = n * (8.0 * side + _PER_NUMBER * (rank + outputs))
    each += visits * (_PER_NUMBER * side + _CALLS * CALL / _ORDERS_AT_A_TIME)
    # Matrices per row are decomposed for the answer, and for each direction in which it may be off.
    decomposed = (n + (MOST_GROUPS + 2 * _DIRECTIONS) * min(n, 128)) * (10.0 * rank**3 + 10 * rank)
    if decomposed + 2 * _FEWEST_ORDERS * each > max(budget, A_SECOND):
        return 0
    return int(min(max((A_SECOND - decomposed) / (2 * each), _FEWEST_ORDERS), _MOST_ORDERS))


class DrawnOrders:
    """Mean maps without each row of plain steps, from drawn orders of samples: no closure, whatever rows do.

    In an order in which row i is visited after the visits F and before the visits H,

        A_i = A + H x_i x_i'F / m,   g_i = g - H x_i alpha_i / m,   alpha_i = y_i - x_i'N,

    with N what was learned before. Read backwards, the order is as likely and has the transposed maps, so that two
    passes, one in each direction, give both: x_i'F and alpha_i of the one are x_i'H' and alpha_i of the other.

    Parameters
    ----------
    training : Training
    orders, seed : int
    """

    def __init__(self, training: Training, orders: int, seed: int):
        self._training, n = training, training.problem.n
        self._rows, responses = training.rows(np.arange(n))
        self._targets = np.hstack([self._rows, responses])
        self.sizes = np.square(self._rows).sum(axis=1)
        self._rank, self.outputs = training.visits.rank, training.outputs
        ends = np.concatenate([[0], np.cumsum(training.scheme.sizes(n))])
        places = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self._visits = list(zip(places, training.scheme.step_divisors(n), strict=True))
        shape = self._rank, self._rank + self.outputs
        rng, count = np.random.default_rng(seed), -(-orders // MOST_GROUPS)
        # Of each group of orders, [lost, gained] of the whole map, and of each row's part.
        self._common, self._own = np.zeros((MOST_GROUPS, 1, *shape)), np.zeros((MOST_GROUPS, n, *shape))
        with np.errstate(over="ignore", invalid="ignore"):
            for group in track(range(MOST_GROUPS), MOST_GROUPS, "drawing orders"):
                for start in range(0, count, _ORDERS_AT_A_TIME):
                    drawn = permutations(rng, min(_ORDERS_AT_A_TIME, count - start), n)
                    whole, parts = self._followed(drawn)
                    self._common[group, 0] += whole / count
                    self._own[group] += parts / count

    def residuals(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and y_i - x_i'b_i (epochs, rows, 1, t) after each of the finite epochs (k,)."""
        return self._mean.residuals(rows, epochs)

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and their residuals (rows, 1, t) in the limit."""
        return self._mean.limits(rows)

    @cached_property
    def _mean(self) -> LeftOutMaps:
        return self._weighted(np.full(MOST_GROUPS, 1 / MOST_GROUPS))

    def _weighted(self, weights: FloatArray) -> LeftOutMaps:
        """Maps with weights (groups,) of the groups of orders."""
        with np.errstate(over="ignore", invalid="ignore"):
            made = np.tensordot(weights, self._common, 1) - np.tensordot(weights, self._own, 1)

        def maps(members: IntArray) -> Maps:
            lost, gained = np.split(made[members], [self._rank], axis=2)
            return members, self._rows[members], self._targets[members, self._rank :], lost, gained

        return LeftOutMaps(maps, (self._rank, self.outputs), self._training.alone)

    def error(self, residuals: Residuals, weights: FloatArray) -> FloatArray:
        """Error of a mean square.

        By the answers without each group in turn. Powers are not linear in what was drawn: so the answer is also
        computed where the map is off by as many standard errors, in the directions that change it most.
        """

        def mean_square(leaving: LeftOutMaps) -> FloatArray:
            with np.errstate(over="ignore"):
                return weighted_sum(np.square(residuals(leaving)), weights)

        here, groups = mean_square(self._mean), MOST_GROUPS
        left_out = (1 - np.eye(groups)) / (groups - 1)
        without = np.array([mean_square(self._weighted(each)) for each in left_out])
        found = jackknife(here, without)
        with np.errstate(divide="ignore", invalid="ignore"):
            changes = np.nan_to_num(np.log(without) - np.log(here), nan=0.0, posinf=0.0, neginf=0.0)
        flat = changes.reshape(groups, -1)
        for column in np.unique(np.linspace(0, flat.shape[1] - 1, _DIRECTIONS).round().astype(int)):
            direction = flat[:, column] - flat[:, column].mean()
            size = np.linalg.norm(direction)
            if size == 0:
                continue
            moved = quantile(groups) / math.sqrt(groups * (groups - 1)) * direction / size
            for sign in (1.0, -1.0):
                with np.errstate(invalid="ignore"):
                    off = np.abs(mean_square(self._weighted(1 / groups + sign * moved)) - here)
                found = np.maximum(found, np.where(np.isnan(off), np.inf, off))
        return found

    def _followed(self, orders: IntArray) -> tuple[FloatArray, FloatArray]:
        """Sums over orders and their reverses: [lost, gained] (r, r + t), and each row's own part (n, r, r + t)."""
        rank = self._rank
        first, seen = self._passed(orders, backwards=False)
        second, back = self._passed(orders, backwards=True)
        # Of every sample in every order one over the divisor of its visit; 0 if it has none.
        each = np.zeros(orders.shape[1])
        for places, divisor in self._visits:
            each[places] = 1 / divisor
        weights = np.empty(orders.shape)
        np.put_along_axis(weights, orders, np.broadcast_to(each, orders.shape), axis=1)
        # Samples first, so that a row's own part is one product over all orders.
        before, after = seen.transpose(1, 0, 2), back.transpose(1, 0, 2)
        scaled = weights.T[..., np.newaxis]
        one = np.swapaxes(after[..., :rank], 1, 2) @ (scaled * before)
        other = np.swapaxes(before[..., :rank], 1, 2) @ (scaled * after)
        return (first + second) / 2, self._training.factors[:, np.newaxis, np.newaxis] * (one + other) / 2

    def _passed(self, orders: IntArray, *, backwards: bool) -> tuple[FloatArray, FloatArray]:
        """Follow orders: the sum of [lost, gained], and [x_i'F, alpha_i] (orders, n, r + t) of every sample i."""
        training, rows = self._training, self._rows
        shrinkage = training.visits.step * training.visits.penalty
        rest = np.hstack([np.eye(self._rank), -training.origin / math.sqrt(training.visits.step)])
        states = np.zeros((len(orders), self._rank, self._targets.shape[1]))
        seen = np.zeros((len(orders), *self._targets.shape))
        which = np.arange(len(orders))[:, np.newaxis]
        for places, divisor in reversed(self._visits) if backwards else self._visits:
            samples = orders[:, places]
            here = rows[samples]
            met = self._targets[samples] - here @ states
            seen[which, samples] = met
            moved = np.swapaxes(here, 1, 2) @ met / divisor
            states = states + moved + shrinkage * (rest - states) if shrinkage else states + moved
        return states.sum(axis=0), seen
