"""Row updates: the change of the mean epoch map when the gradient of one row is left out.

With z the state of a run seen from its start (the parameters, and the momentum buffer if there is one), a visit to
batch b is z -> G_b z + P_b (y_b - X_b z). Row i enters by p_i x_i' alone, once per epoch, so that leaving it out is

    A_i = A + E[after p_i x_i' before],   g_i = g - E[after p_i (y_i - x_i'learned before)],

the mean over what is visited before and after its own visit. This is L C R' with R' = x_i'before, L = after p_i and
C the probabilities of what comes before and after:

- one batch, or independent draws: nothing is before or after, rank one (`mean_visits`);
- a single order: one product each (`single_order`);
- few batches in random order: F(S) for all subsets S of the other batches, with probability
  1 / (B binom(B-1, |S|)), exactly (`Lattice`);
- shuffled samples and many batches: left and right vectors of the cavity equation (`shuffled_samples`), or drawn
  orders of samples.

Coordinates are those of `Visits`, divided by (L / R)^1/2: then maps of plain steps in random order are symmetric.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from reshuffle._arrays import BoolArray, FloatArray, IntArray, columns
from reshuffle._budget import CALL
from reshuffle._linalg import power_and_sum
from reshuffle._uncertainty import ErrorKind
from reshuffle.epoch.averaging.lattice import (
    MOST_BATCHES,
    Visit,
    follow,
    prefix_weights,
    subset_layers,
    subsets_by_size,
)
from reshuffle.epoch.visits import MeanVisits, ScaledBlocks, Visits, scaled_blocks, visit_of
from reshuffle.problem.row_space import Blocks
from reshuffle.schemes.base import Scheme, Shuffle, rows_of
from reshuffle.validation.contour import (
    CHUNK,
    FARTHEST,
    Eigenvectors,
    LeftOutRows,
    Seen,
    product,
    require_resolved,
)

if TYPE_CHECKING:
    from reshuffle.run.run import Run
    from reshuffle.run.streamed_samples import StreamedSamples

_FEW_SUBSETS = 8
"""Up to this many subsets of the other batches updates are exact, whatever they cost."""
_NODES = 150.0
"""Nodes of a contour, about, real and imaginary parts."""


LeavesOut: TypeAlias = "LeftOutRows | LeftOutMaps | MeanOverOrders"
"""Source of answers: rows, ascending epochs (k,) and whether the run converges -> some of the rows at a time, and
their residuals y_i - x_i'b_i (epochs, rows, s, t), for groups of s rows that are left out together; or the changes
b_i - b of the parameters (epochs, rows, r, t)."""
Ask: TypeAlias = Callable[[LeavesOut], FloatArray]
"""Source -> answers (epochs, m, any) of the rows from which an error is estimated."""
Total: TypeAlias = Callable[[FloatArray], FloatArray]
"""Answers, or changes of them -> what the error is of: their weighted sum over the rows, or they themselves."""
Maps: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class Formula:
    """A formula that leaves out rows, or units of several rows.

    `error` takes the answers of any source, and what is made of them, to the error of that; `sizes` (n,) are the
    errors of rows relative to each other.
    """

    name: str
    make: Callable[[], LeavesOut]
    training: "Training"
    error: Callable[[Ask, Total], FloatArray] | None = None
    error_kind: ErrorKind = "exact"
    sizes: FloatArray | None = None
    unit: int = 1
    is_preferred: bool = True  # over what comes next, whatever its error

    @cached_property
    def rows(self) -> LeavesOut:
        """The source of answers, made when it is first needed."""
        return self.make()

    def answers(
        self, source: LeavesOut, rows: IntArray, epochs: FloatArray, *, changes: bool = False
    ) -> Iterator[tuple[IntArray, FloatArray]]:
        """Rows, some at a time, and y_i - x_i'b_i (epochs, rows, t), or b_i - b (epochs, rows, r, t)."""
        # Maps of all rows know where they lead by themselves.
        converges = np.isinf(epochs).any() and (
            isinstance(source, LeftOutMaps) or self.training.run.converges
        )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            units = np.unique(rows // self.unit)
            for found, parts in source.answers(units, epochs, bool(converges), changes=changes):
                mine = rows_of(found, self.unit)
                wanted, size = np.isin(mine, rows), len(mine)
                # A change is that of all rows of a unit.
                flat = np.repeat(parts, self.unit, 1) if changes else parts.reshape(len(epochs), size, -1)
                yield mine[wanted], flat[:, wanted]


class Training:
    """Epochs of a constant recipe, in coordinates that are seen from the start.

    Leaving out row i is multiplied by `factors` (n,): more than one where it is left out of the mean too by which
    all rows were centred. Where samples are shuffled, or `as_units` are batches, the coordinates are those of the
    singular vectors of the features, as the cavity equation needs them.

    `read` returns rows (m, p) and responses (m, t) of some members. `like` is a trajectory with other data, steps
    and coordinates.
    """

    def __init__(
        self,
        run: "Run",
        scheme: Scheme,
        factors: FloatArray,
        read: Callable[[IntArray], tuple[FloatArray, FloatArray]],
        *,
        as_units: bool = False,
        like: "StreamedSamples | None" = None,
    ):
        self.run, self.problem, self.accuracy = run, run.problem, run.accuracy
        self.scheme, self.start, self.factors = scheme, run.start, factors
        self.n, self.hyperparameters = run.problem.n, (like or run).recipe.at(0)
        self.partition, divisors = scheme.partition(self.n), scheme.divisors(self.n)
        self._read, self.entering = read, like.entering if like else None
        self.is_symmetric = self.hyperparameters.momentum == 0
        self.leaves_means = bool((factors != 1).any())
        count = sum(map(len, self.partition))
        # Rows that are never visited: only a penalty moves what they alone see.
        whole = count == len(run.problem.compressed.X) or self.hyperparameters.penalty > 0
        visited = run.problem if whole else run.problem.of_first(count)
        blocks, self.space = visited.blocks(self.partition, divisors), visited.row_space
        is_cut = scheme.unit.is_cut or len(self.partition) == self.n or as_units
        if like is not None:
            self.space, self.blocks = like.space, like.blocks
        elif scheme.shuffle is Shuffle.EVERY_EPOCH and is_cut:
            self.space, self.blocks = scaled_blocks(self.space, _filled(blocks) if as_units else blocks)
        else:
            ones = np.ones(self.space.dimension)
            self.blocks = ScaledBlocks(
                blocks.rows, blocks.response, blocks.offsets, blocks.divisors, blocks.rows, ones
            )
        self._is_whole = whole
        self.visits = Visits(self.blocks, self.hyperparameters.scaled(visited.row_space))
        self.rank = self.visits.rank
        # (L R)^1/2 (d,).
        self.roots = np.sqrt(self.visits.left * self.visits.right)
        # Batch of each row, and divisor of its gradient there (n,); infinity if it is not visited.
        self.batch_of, self.divisors = np.zeros(self.n, dtype=np.intp), np.full(self.n, np.inf)
        for batch, members in enumerate(self.partition if run.problem.stream is None else ()):
            self.batch_of[members], self.divisors[members] = batch, divisors[batch]
        if run.problem.stream is not None:
            self.batch_of = (scheme.origin or scheme).groups(self.n).at(np.arange(self.n))
            self.divisors = np.append(divisors, np.inf)[self.batch_of]
        # The start (r, t), what responses (rows, t) miss there, and what a penalty adds in every visit (d, t).
        self.outputs = self.blocks.response.shape[1]
        self.origin = self.space.scale * self.space.coordinates(columns(self.start))
        self.missing = np.asarray(self.blocks.response - self.blocks.rows @ self.origin)
        self._unit_force = np.column_stack([self.visits.unit_force(column) for column in self.origin.T])
        self.force = self.visits.pushed(self._unit_force, 0)

    @cached_property
    def units(self) -> tuple[FloatArray, FloatArray]:
        """Rows (rows, r) of `blocks` in the coordinates of the state, and what their responses miss (rows, t)."""
        return math.sqrt(self.visits.step) * self.blocks.rows, self.missing

    def rows(self, members: IntArray) -> tuple[FloatArray, FloatArray]:
        """Rows (m, r) in the coordinates of the state, and the rest of their responses (m, t) at the start."""
        X, y = self._read(members)
        if self._is_whole and self.problem.stream is None:
            inside = self.problem.rows_inside(members)
            inside = inside if self.space.rotation is None else inside @ self.space.rotation
        else:
            inside = self.space.coordinates(X.T).T / self.space.scale
        responses = y - X @ columns(self.start)
        return math.sqrt(self.visits.step) * inside, responses

    def inside(self, features: FloatArray) -> FloatArray:
        """New rows (m, p) in the coordinates of the state, (m, r)."""
        return math.sqrt(self.visits.step) / self.space.scale * self.space.coordinates(features.T).T

    @cached_property
    def entry(self) -> FloatArray:
        """Matrix (d, r) that takes x_i to how its gradient enters the state, p_i."""
        by = self.hyperparameters
        into_buffer = [-np.diag(1 / self.roots[: self.rank])] if by.momentum else []
        return np.vstack([by.of_gradient(0) * np.eye(self.rank), *into_buffer])

    @cached_property
    def alone(self) -> BoolArray:
        """True for the visited rows that alone see some direction (n,): none where a penalty does, too.

        Of rows that are read in chunks it is not known; limits are refused where there is one.
        """
        if self.visits.penalty or self.problem.stream is not None:
            return np.zeros(self.n, dtype=bool)
        alone = self.problem.rows_alone(besides_mean=self.leaves_means)
        return np.asarray(alone & np.isfinite(self.divisors))

    @cached_property
    def visit(self) -> Visit:
        """One more visit to [K, E] (..., d, d + t): maps are I - L K R, and L E is what they have learned."""
        inputs = np.vstack([np.ones((1, self.outputs)), self.missing])
        return visit_of(self.visits, self._unit_force, len(self.roots) + self.outputs, inputs)

    def map_of(self, state: FloatArray) -> tuple[FloatArray, FloatArray]:
        """I - A (..., d, d) and g (..., d, t) of [K, E] (..., d, d + t)."""
        d, roots = len(self.roots), self.roots[:, np.newaxis]
        return roots * state[..., :d] * self.roots, roots * state[..., d:]


def _filled(blocks: Blocks) -> Blocks:
    """Batches of equally many rows, filled with zeros, and of equal divisors."""
    divisor, size = float(blocks.divisors.max()), int(blocks.sizes.max())
    places = np.arange(size) < blocks.sizes[:, np.newaxis]
    scale = np.sqrt(divisor / np.repeat(blocks.divisors, blocks.sizes))[:, np.newaxis]
    rows, response = (np.zeros((places.size, part.shape[1])) for part in (blocks.rows, blocks.response))
    rows[places.ravel()], response[places.ravel()] = scale * blocks.rows, scale * blocks.response
    offsets = size * np.arange(blocks.batches + 1)
    return Blocks(rows, response, offsets, np.full(blocks.batches, divisor))


def seen_through(
    training: Training,
    modes: Eigenvectors,
    before: FloatArray,
    learned: FloatArray,
    after: FloatArray | None = None,
    root: FloatArray | None = None,
) -> Callable[[FloatArray, FloatArray], Seen]:
    """R' (m, q, d), L' (m, l, d) and alpha (m, q, t) of rows (m, r) and responses that meet the same maps.

    These are I minus (q, d, d) before and (l, d, d) after it, by default the same in another order; `learned`
    (q, r, t) by those before. Features are multiplied by `root` (d,), and gradients enter as `training` says.
    """
    r, q = training.rank, len(before)
    larger = (np.ones(len(training.roots)) if root is None else root)[:, np.newaxis]
    seen = larger[:r] * (modes.right[:r] - product(before[:, :r], modes.right))
    right = seen.swapaxes(0, 1).reshape(r, -1)
    known, left = learned.swapaxes(0, 1).reshape(r, -1), None
    if modes.is_symmetric and training.entering is not None:
        left = right
    if not modes.is_symmetric:
        entry = larger * training.entry
        maps = before if after is None else after
        entered = product((entry - maps @ entry).swapaxes(1, 2), modes.left.T)
        left = entered.swapaxes(0, 1).reshape(r, -1)

    def views(rows: FloatArray, responses: FloatArray) -> Seen:
        shape = len(rows), q, -1
        pushing = rows if training.entering is None else training.entering(rows)
        entering = None if left is None else product(pushing, left).reshape(len(rows), -1, len(modes.rates))
        alpha = responses[:, np.newaxis] - (rows @ known).reshape(shape)
        return product(rows, right).reshape(shape), entering, alpha

    return views


def _left_out(
    training: Training,
    state: FloatArray,
    before: Sequence[Sequence[FloatArray] | FloatArray],
    coupling: FloatArray,
    after: Sequence[Sequence[FloatArray]] | None = None,
    applications: int | None = None,
) -> LeftOutRows:
    """Updates of batches, or of all rows alike, from [K, E] (d, d + t) of an epoch, and before each batch."""
    lost, gained = training.map_of(state)
    modes = Eigenvectors(lost, is_symmetric=training.is_symmetric and after is None)
    views = []
    for batch, states in enumerate(before):
        maps, learned = training.map_of(np.asarray(states))
        following = None if after is None else np.asarray(after[batch])
        views.append(seen_through(training, modes, maps, learned[:, : training.rank], following))
    return LeftOutRows(
        modes, modes.left @ gained, lambda batch, members: views[batch](*training.rows(members)),
        np.minimum(training.batch_of, len(views) - 1), coupling, training.factors / training.divisors,
        np.eye(coupling.shape[1], 1), modes.right[: training.rank], lambda: training.alone,
        is_exact=bool(training.visits.penalty) or not training.leaves_means,
        applications=applications or 1, is_monotone=modes.is_symmetric and applications is not None,
    )  # fmt: skip


def mean_visits(training: Training) -> LeftOutRows:
    """Updates where an epoch repeats one mean visit: the full batch, and all that is drawn with replacement."""
    visits = MeanVisits(training.blocks, training.visits.hyperparameters)
    # K_0 + P U'U, with no product of square matrices.
    entry, still = visits.rank_one_parts()
    kernel = np.block([[np.diag(block) for block in line] for line in still])
    kernel[:, : visits.rank] += np.concatenate([part * visits.gram for part in entry])
    state = np.hstack([kernel, training.force + visits.unit_entry(0, 0) @ training.missing])
    coupling = np.full((1, 1), 1 / training.blocks.batches)
    steps = training.scheme.steps(training.n)
    return _left_out(training, state, [[0 * state]], coupling, applications=steps)


def single_order(training: Training, order: IntArray) -> LeftOutRows:
    """Updates where batches are always visited in the same order."""
    d = len(training.roots)
    state = nothing = np.zeros((d, d + training.outputs))
    before, after, following = {}, {}, np.eye(d)
    for batch in order.tolist():
        # The row itself is seen too, at the start of an epoch.
        before[batch], state = [nothing, state], training.visit(batch, state, 0)
    for batch in reversed(before):
        after[batch] = [np.eye(d) - following]
        own = training.visits.kernel(batch, np.diag(training.roots), 0)
        following = following - (following * training.roots) @ own
    batches, coupling = range(len(before)), np.array([[0.0, 1.0]])
    parts = ([maps[batch] for batch in batches] for maps in (before, after))
    return _left_out(training, state, next(parts), coupling, next(parts))


@dataclass(frozen=True, eq=False)
class MeanOverOrders:
    """Mean of the residuals over equally likely orders, of which a run keeps one."""

    orders: list[LeftOutRows]

    def answers(
        self, rows: IntArray, epochs: FloatArray, converges: bool, *, changes: bool = False
    ) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, and the mean of the answers of `LeftOutRows`."""
        total: FloatArray | float = 0.0
        for order in self.orders:
            members, parts = zip(*order.answers(rows, epochs, converges, changes=changes), strict=True)
            places = np.argsort(np.concatenate(members))
            total = total + np.concatenate(parts, axis=1)[:, places] / len(self.orders)
        yield np.sort(rows), np.asarray(total)


class Lattice:
    """Updates of fixed batches in random order, exactly, from the lattice of their subsets."""

    def __init__(self, training: Training):
        self.training, self._batches, self._d = training, len(training.partition), len(training.roots)
        n, d, batches, subsets = training.n, self._d, self._batches, 2.0 ** (self._batches - 1)
        # Operations of the contours of all rows; of a symmetric matrix without each row. A number takes 30 ns on
        # its way up the lattice of 20 rows of one column.
        contours = n * _NODES * subsets**2 * (2.0 * d + 8.0 * subsets)
        matrices = 500.0 * subsets * d * (d + training.outputs) * batches + batches**2 * CALL
        matrices += n * (subsets * d * (4.0 * d + 40.0) + 10.0 * d**3)
        self._is_dense = training.is_symmetric and matrices < contours
        price = matrices if self._is_dense else contours
        self.operations = math.inf if batches > MOST_BATCHES else 0.0 if subsets <= _FEW_SUBSETS else price

    def updates(self) -> LeavesOut:
        """Row updates from all subsets of the other batches: matrices A_i, or updates of rank 2^(B-1)."""
        start, batches = np.zeros((self._d, self._d + self.training.outputs)), self._batches
        states = [*follow(subset_layers(batches, batches), self.training.visit, start, self._d)]
        subsets, means = np.arange(1 << batches), np.empty((1 << batches, *start.shape))
        means[np.concatenate([*subsets_by_size(batches)])] = np.concatenate(states)
        sizes = sum(subsets >> batch & 1 for batch in range(batches))
        # Subsets of the others read backwards are their complements.
        chances = np.append(prefix_weights(batches), 0.0)[sizes]
        others = [subsets[(subsets >> batch & 1) == 0] for batch in range(batches)]
        if self._is_dense:
            return self._dense(means, [(part, chances[part]) for part in others])
        coupling = np.diag(chances[others[0]])[::-1]
        return _left_out(self.training, means[-1], [means[part] for part in others], coupling)

    def _dense(self, means: FloatArray, others: list[tuple[IntArray, FloatArray]]) -> "LeftOutMaps":
        """Matrices A_i of plain steps, from [K, E] of all subsets, those without each batch and their chances."""
        training, d = self.training, self._d
        lost, gained = training.map_of(means[-1])

        def maps(members: IntArray) -> Maps:
            rows, responses = training.rows(members)
            without, learned = (np.tile(part, (len(members), 1, 1)) for part in (lost, gained))
            for batch, (subsets, chances) in enumerate(others):
                mine = np.flatnonzero(training.batch_of[members] == batch)
                if not len(mine):
                    continue
                states = (training.roots[:, np.newaxis] * means[subsets]).transpose(1, 0, 2)
                seen = (rows[mine] @ states.reshape(d, -1)).reshape(len(mine), len(subsets), -1)
                right = rows[mine][:, np.newaxis] - seen[..., :d] * training.roots
                alpha = responses[mine][:, np.newaxis] - seen[..., d:]
                factors = (training.factors / training.divisors)[members[mine], np.newaxis, np.newaxis]
                left = np.swapaxes(factors * chances[:, np.newaxis] * right[:, ::-1], 1, 2)
                without[mine] -= left @ right
                learned[mine] -= left @ alpha
            return rows, responses, without, learned

        return LeftOutMaps(maps, lambda: (lost, gained), d, training.outputs, training.alone)


@dataclass(frozen=True, eq=False)
class LeftOutMaps:
    """Rows of symmetric maps that are left out where the map without each of them is known: a matrix per row.

    Unlike a contour, which must know where the eigenvalues are, this holds for maps that diverge. `maps` takes rows
    (m,) to their features (m, d), responses (m, t), and without each I - A_i (m, d, d) and g_i (m, d, t); `whole`
    makes I - A and g of all rows; `alone` (n,) are those that alone see some direction.
    """

    maps: Callable[[IntArray], Maps]
    whole: Callable[[], tuple[FloatArray, FloatArray]]
    side: int
    outputs: int
    alone: BoolArray

    def answers(
        self, rows: IntArray, epochs: FloatArray, converges: bool = True, *, changes: bool = False
    ) -> Iterator[tuple[IntArray, FloatArray]]:
        """The answers of `LeftOutRows`, whether all runs converge or not."""
        if float(epochs[np.isfinite(epochs)].max(initial=0.0)) > FARTHEST:
            raise ArithmeticError("rounding of the decay rates of slow modes adds up in so many epochs.")
        height = max(1, CHUNK // max(1, self.side * (self.side + self.outputs) * (1 + len(epochs))))
        if changes:
            values, vectors = np.linalg.eigh(self.whole()[0])
            _, sums = power_and_sum(values, epochs)
            learned = vectors @ (sums[..., np.newaxis] * (vectors.T @ self.whole()[1]))
        for start in range(0, len(rows), height):
            members = rows[start : start + height]
            features, responses, lost, gained = self.maps(members)
            if not np.isfinite(lost).all() or not np.isfinite(gained).all():
                size = self.side if changes else 1
                yield members, np.full((len(epochs), len(members), size, self.outputs), np.inf)
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
            sums = sums.reshape(-1, *values.shape, 1)
            seen = np.einsum("mr,mrk->mk", features, vectors)[..., np.newaxis] * gained
            with np.errstate(over="ignore", invalid="ignore"):
                # Zero times infinity: a direction in which nothing is learned.
                if changes:
                    found = vectors @ np.where(gained == 0, 0.0, sums * gained) - learned[:, np.newaxis]
                else:
                    parts = np.where(seen == 0, 0.0, sums * seen)
                    found = (responses - parts.sum(axis=2))[:, :, np.newaxis]
            yield members, np.where(np.isfinite(found), found, np.inf)
