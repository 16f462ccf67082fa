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
- shuffled samples: the left and right vectors of the cavity equation (`shuffled_samples`), or drawn orders of them.

Coordinates are those of `Visits`, divided by (L / R)^1/2: then maps of plain steps in random order are symmetric.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray, IntArray
from reshuffle._budget import A_SECOND, CALL
from reshuffle._linalg import each, power_and_sum
from reshuffle._progress import track
from reshuffle.epoch.averaging.lattice import MOST_BATCHES, layer, prefix_weights
from reshuffle.epoch.visits import MeanVisits, ScaledBlocks, Visits, graded
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.problem.outputs import beside
from reshuffle.problem.row_space import RowSpace
from reshuffle.recipe import Hyperparameters
from reshuffle.schemes.base import Scheme
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
_CHUNK = 1 << 22
"""Numbers that are worked on at a time."""


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
    is_rotated : bool
        Whether coordinates are those of the singular vectors of the features, as the cavity equation needs them.
    """

    problem: LeastSquares
    scheme: Scheme
    hyperparameters: Hyperparameters
    start: FloatArray
    factors: FloatArray
    is_rotated: bool = False

    @cached_property
    def visited_problem(self) -> LeastSquares:
        """The problem without rows that are never visited: only a penalty moves what they alone see."""
        count = sum(map(len, self.scheme.partition(self.problem.n)))
        whole = count == self.problem.n or self.hyperparameters.penalty > 0
        return self.problem if whole else self.problem.of_first(count)

    @cached_property
    def _scaled_data(self) -> tuple[RowSpace, ScaledBlocks]:
        n, problem = self.problem.n, self.visited_problem
        blocks = problem.blocks(self.scheme.partition(n), self.scheme.divisors(n))
        if self.is_rotated:
            return graded(problem.row_space, blocks)
        ones = np.ones(problem.row_space.dimension)
        plain = ScaledBlocks(blocks.rows, blocks.response, blocks.offsets, blocks.divisors, blocks.rows, ones)
        return problem.row_space, plain

    @property
    def blocks(self) -> ScaledBlocks:
        """Statistics of the batches."""
        return self._scaled_data[1]

    @cached_property
    def visits(self) -> Visits:
        """Visits to the batches."""
        return Visits(self.blocks, self.hyperparameters.scaled(self.visited_problem.row_space))

    @property
    def is_symmetric(self) -> bool:
        """True if means over reversible orders are symmetric maps."""
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
        space = self._scaled_data[0]
        inside = beside(space.scale * space.coordinates(self.start))
        return np.broadcast_to(inside, (space.dimension, self.outputs))

    @cached_property
    def missing(self) -> FloatArray:
        """The rest of the responses of the blocks (rows, t) at the start."""
        return np.asarray(beside(self.blocks.response) - self.blocks.rows @ self.origin)

    @cached_property
    def force(self) -> FloatArray:
        """What a penalty adds in every visit (d, t)."""
        pushed = [self.visits.pushed(self.visits.unit_force(column), 0) for column in self.origin.T]
        return np.column_stack(pushed)

    def rows(self, members: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rows (m, r) in the coordinates of the state, and what is left of their responses (m, t) at the start."""
        space = self._scaled_data[0]
        if self.visited_problem is not self.problem:
            inside = space.coordinates(self.problem.X[members].T).T / space.scale
        else:
            inside = self.problem.rows_inside(members)
            inside = inside if space.rotation is None else inside @ space.rotation
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
        """True for the visited rows that alone see some direction (n,): none where a penalty does, too."""
        if self.visits.penalty:
            return np.zeros(self.problem.n, dtype=bool)
        return self.problem.rows_alone(besides_mean=self.leaves_means) & np.isfinite(self.divisors)

    @property
    def leaves_means(self) -> bool:
        """True if rows are left out of the mean by which all were centred, which batches feel on average alone."""
        return bool((self.factors != 1).any())

    @cached_property
    def divisors(self) -> FloatArray:
        """Divisor of the gradient of each row in its visit (n,); infinity if it is not visited."""
        found, n = np.full(self.problem.n, np.inf), self.problem.n
        for members, divisor in zip(self.scheme.partition(n), self.scheme.divisors(n), strict=True):
            found[members] = divisor
        return found

    def visited(self, batch: int, states: FloatArray) -> FloatArray:
        """[K, E] (..., d, d + t) after one more visit: maps are I - L K R, and L E is what they have learned."""
        visits, d = self.visits, len(self.roots)
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
        # Before the first visit nothing has moved.
        seen = [
            modes.seen(one[:r]) if state.any() else modes.basis[:r]
            for one, state in zip(before, states, strict=True)
        ]
        self.right = np.stack(seen, axis=1).reshape(r, -1)
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
    # K_0 + P U'U, with no product of square matrices.
    entry, still = visits.rank_one_parts()
    kernel = np.block([[np.diag(block) for block in line] for line in still])
    kernel[:, : visits.rank] += np.concatenate([part * visits.gram for part in entry])
    learned = training.force + visits.unit_entry(0, 0) @ training.missing
    lost, gained = training.map_of(np.hstack([kernel, learned]))
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
        yield _mean([order.residuals(rows, epochs) for order in self.orders])

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows and their residuals (rows, 1, t) in the limit."""
        yield _mean([order.limits(rows) for order in self.orders])


def _mean(orders: list[Iterator[tuple[IntArray, FloatArray]]]) -> tuple[IntArray, FloatArray]:
    """Rows, and the mean of their residuals (..., rows, 1, t), which each order gives some at a time."""
    total: FloatArray | float = 0.0
    for order in orders:
        members, parts = zip(*order, strict=True)
        rows = np.concatenate(members)
        total = total + np.concatenate(parts, axis=-3)[..., np.argsort(rows), :, :]
    return np.sort(rows), np.asarray(total / len(orders))


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
        """True if each subset is looked at by itself: they are few, or a second will do."""
        price = min(self.dense_operations, self.contour_operations)
        return self._batches <= MOST_BATCHES and (self._subsets <= _FEW_SUBSETS or price <= A_SECOND)

    @property
    def walk_operations(self) -> float:
        """Operations of the lattice."""
        rows, rank = self.training.blocks.rows.shape
        columns = self._d + self.training.outputs
        visit = 4.0 * rows / self._batches * rank * columns + 6.0 * self._d * columns + _CALLS * CALL
        return float(self._batches * self._subsets * visit)

    @property
    def dense_operations(self) -> float:
        """Operations of a matrix without each row, from all subsets; infinite if it is not symmetric."""
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
        """Operations of the contours of all rows through all subsets."""
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
