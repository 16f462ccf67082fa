"""One visit to a batch as an affine map on the state: parameters, momentum buffer, average per visit.

Features of any condition number keep their digits in scaled coordinates: with X V / scale = U diag(s) Q' every
batch is C_b Q = U_b diag(s), so that small directions are small columns, not differences of large ones.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import few_threads, graded_svd, norms
from reshuffle.epoch.averaging.lattice import (
    Layer,
    Visit,
    follow,
    prefix_weights,
    subsets_by_size,
)
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.problem.row_space import Blocks, RowSpace
from reshuffle.recipe import Average, Hyperparameters

_WELL_CONDITIONED = 1e-3
"""Smallest eigenvalue of rows and penalty, in units in which they are one on the diagonal."""


@dataclass(frozen=True, eq=False)
class ScaledBlocks(Blocks):
    """Blocks whose rows are U diag(s): `unit` (rows, r), with orthonormal columns, and `singular` (r,).

    `penalty_matrix` (r, r) is P'P of a penalty that leaves parameters out, divided by s from both sides; then s
    knows of it, and U'U and P'P are together of ordinary size. `members` are the rows of each batch, if batches are
    any of the rows.
    """

    unit: FloatArray
    singular: FloatArray
    penalty_matrix: FloatArray | None = None
    members: tuple[IntArray, ...] | None = None

    def of(self, batch: int) -> slice | IntArray:
        """The place of one batch's rows."""
        return super().of(batch) if self.members is None else self.members[batch]

    def with_batches(self, members: Sequence[IntArray], divisors: FloatArray) -> "ScaledBlocks":
        """Other batches of the same rows, which are not compressed."""
        offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in members])]).astype(np.intp)
        return replace(self, offsets=offsets, divisors=divisors, members=tuple(members))


def scaled_blocks(
    space: RowSpace, blocks: Blocks, penalty_rows: FloatArray | None = None
) -> tuple[RowSpace, ScaledBlocks]:
    """Turn the row space and the blocks in it to the singular vectors of the rows, with those of a penalty P'P."""
    unit, singular, rotation, penalty_matrix = _factors(blocks.rows, penalty_rows)
    rotated = replace(space, rotation=rotation if space.rotation is None else space.rotation @ rotation)
    rows = np.ascontiguousarray(unit * singular)
    return rotated, ScaledBlocks(
        rows, blocks.response, blocks.offsets, blocks.divisors, unit, singular, penalty_matrix
    )


def _factors(
    rows: FloatArray, penalty_rows: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None]:
    """U, s and Q with rows = U diag(s) Q', and what P'P is in the same units."""
    stacked = rows if penalty_rows is None else np.vstack([rows, penalty_rows])
    with few_threads(math.sqrt(stacked.size)):
        if len(rows) >= rows.shape[1]:
            unit, singular, rotation = graded_svd(rows)
            if penalty_rows is None:
                return unit, singular, rotation, None
            # Rows that are small relative to the penalty keep their digits only if they are rotated without it.
            rotated = penalty_rows @ rotation
            sizes = np.hypot(singular, norms(rotated.T))
            unit, penalty_matrix = unit * (singular / sizes), (rotated / sizes).T @ (rotated / sizes)
            if np.linalg.eigvalsh(unit.T @ unit + penalty_matrix).min(initial=1.0) > _WELL_CONDITIONED:
                return unit, sizes, rotation, penalty_matrix
        unit, singular, rotation = graded_svd(stacked)
    of_penalty = unit[len(rows) :]
    return unit[: len(rows)], singular, rotation, of_penalty.T @ of_penalty


class Visits:
    """The visits to the batches of `blocks`, in scaled row-space coordinates u = scale Q'V'beta.

    The state z is u (r,), or (u, v / g) with momentum, where g^2 = s^2 + penalty are the sizes of the gradient's
    coordinates. A visit sends it to z - L K_b R z + L E_b y_b with L = (step g, 1), R = (g, 1),

        K_b = [[H, momentum], [-H, 1 - momentum]], E_b = [[U_b'], [-U_b']] / m_b, H = U_b'U_b / m_b + penalty / g^2,

    where U_b are the rows of the batch divided by g: K_b knows neither the step nor how X is conditioned. Where a
    penalty leaves parameters out g = s, which knows of it, and `penalty_matrix` is in place of penalty / g^2.
    In the error u - u_star the visit is z - L K_b R z + L (E_b eta_b + f), where only a penalty makes a force f.

    With Nesterov's momentum the first rows are [(1 + momentum) H, momentum^2] and (1 + momentum) U_b' / m_b; where
    the steps of an epoch differ, L has the largest, and the first rows are multiplied by what each is of it. So a
    visit depends on its batch and on its slot: how many visits of the epoch were before it.

    An average a -> kept a + taken u after every visit is one more block of the state, in the units 1/g of L and g
    of R, so that nothing in its kernel depends on how the features are conditioned, either:

        a -> a - (1/g) [ (1 - kept) g a - taken g u + taken g L (K R z - E y)_u ].

    The hyperparameters are `scaled`: for features divided by their scale.
    """

    def __init__(self, blocks: ScaledBlocks, scaled: Hyperparameters, average: Average | None = None):
        self.blocks, self.hyperparameters, self.average = blocks, scaled, average
        self.step, self.penalty, self.momentum = scaled.step, scaled.penalty, scaled.momentum
        self.rank: int = blocks.rows.shape[1]
        self.plain_dimension = self.rank if self.momentum == 0 else 2 * self.rank
        root = 0.0 if blocks.penalty_matrix is not None else math.sqrt(self.penalty)
        self.sizes = np.hypot(blocks.singular, root)
        self.unit = blocks.unit * (blocks.singular / self.sizes)
        self.penalty_matrix = (
            np.square(root / self.sizes) if blocks.penalty_matrix is None else blocks.penalty_matrix
        )
        self._force = root * (root / self.sizes)
        buffers = np.ones(self.plain_dimension - self.rank)
        self.left = np.concatenate([self.step * self.sizes, buffers])
        self.right = np.concatenate([self.sizes, buffers])
        if average is not None:
            self.shares = (average.taken * (self.left * self.right)[: self.rank])[:, np.newaxis]
            self.left = np.concatenate([self.left, 1 / self.sizes])
            self.right = np.concatenate([self.right, self.sizes])

    @property
    def dimension(self) -> int:
        """The length of the state, with the average."""
        return len(self.left)

    def sizes_of(self, steps: int, force: FloatArray) -> tuple[float, FloatArray]:
        """Bounds on K and on the columns (1 + rows,) of E after so many visits, before anything cancels in them."""
        most = 1 + self.momentum if self.hyperparameters.nesterov else 1.0
        of_penalty = float(np.abs(self.penalty_matrix).max(initial=0.0))
        weight = most * (1 / float(self.blocks.divisors.min()) + of_penalty)
        weight = max(weight, 1.0 if self.momentum else 0.0)
        if self.average is not None:
            of_average = self.average.taken + float(self.shares.max(initial=0.0)) * weight
            weight = max(weight, of_average, 1 - self.average.kept)
        sizes = np.full(1 + len(self.blocks.rows), weight)
        sizes[0] = most * float(np.abs(force).max(initial=0.0))
        return steps * weight, steps * sizes

    @cached_property
    def _batches(self) -> list[tuple[FloatArray, FloatArray]]:
        """U_b (m, r) of each batch, and the weights (m,) of its rows in the gradient."""
        parts = [self.unit[self.blocks.of(batch)] for batch in range(self.blocks.batches)]
        return [
            (np.ascontiguousarray(part), np.full(len(part), 1 / divisor))
            for part, divisor in zip(parts, self.blocks.divisors, strict=True)
        ]

    def weighted_rows(self, batch: int) -> tuple[FloatArray, FloatArray]:
        """U_b (m, r), and the weights (m,) of its rows in the gradient."""
        return self._batches[batch]

    def columns(self, batch: int) -> IntArray:
        """The places of the responses of the batch among those of the blocks."""
        return np.arange(len(self.blocks.rows))[self.blocks.of(batch)]

    def kernel(self, batch: int, columns: FloatArray, slot: int) -> FloatArray:
        """K_b M (..., d, c) for M (..., d, c), in the visit after `slot` others of the epoch."""
        position = columns[..., : self.rank, :]
        gradient = self.gradient(batch, position)
        if self.penalty:
            gradient += self.penalty_gradient(position)
        of_gradient = self.hyperparameters.of_gradient(slot)
        moved = gradient if of_gradient == 1 else of_gradient * gradient
        if self.momentum == 0 and self.average is None:
            return moved
        parts = [moved]
        if self.momentum:
            buffer = columns[..., self.rank : self.plain_dimension, :]
            parts[0] = moved + self.hyperparameters.of_buffer(slot) * buffer
            parts.append((1 - self.momentum) * buffer - gradient)
        if self.average is not None:
            own = (1 - self.average.kept) * columns[..., self.plain_dimension :, :]
            parts.append(own - self.average.taken * position + self.shares * parts[0])
        return np.concatenate(parts, axis=-2)

    def penalty_gradient(self, position: FloatArray) -> FloatArray:
        """The gradient of the penalty at M (..., r, c)."""
        penalty = self.penalty_matrix
        return penalty @ position if penalty.ndim == 2 else penalty[:, np.newaxis] * position

    def rank_one_parts(self) -> tuple[FloatArray, FloatArray]:
        """P (parts,) and K_0 (parts, parts, r) of K_b = K_0 + P (x) U_b'U_b / m_b, if all slots are alike."""
        if self.momentum == 0:
            return np.ones(1), self.penalty_matrix.reshape(1, 1, -1)
        ones, penalty = np.ones(self.rank), self.penalty_matrix
        ahead, of_buffer = self.hyperparameters.of_gradient(0), self.hyperparameters.of_buffer(0)
        blocks = [[ahead * penalty, of_buffer * ones], [-penalty, (1 - self.momentum) * ones]]
        return np.array([ahead, -1.0]), np.array(blocks)

    @cached_property
    def _grams(self) -> list[FloatArray | None]:
        """U_b'U_b / m_b (r, r) of each batch, where products with it take less than two with its rows."""
        return [
            rows.T @ (weights[:, np.newaxis] * rows) if 2 * len(rows) > self.rank else None
            for rows, weights in self._batches
        ]

    def gradient(self, batch: int, position: FloatArray) -> FloatArray:
        """U_b'U_b M / m_b for M (..., r, c)."""
        gram = self._grams[batch]
        if gram is not None:
            return np.asarray(gram @ position)
        rows, weights = self._batches[batch]
        return np.asarray(rows.T @ ((rows @ position) * weights[:, np.newaxis]))

    def unit_entry(self, batch: int, slot: int) -> FloatArray:
        """E_b (d, m_b)."""
        rows, weights = self._batches[batch]
        return self.pushed(rows.T * weights, slot)

    def unit_force(self, truth: FloatArray) -> FloatArray:
        """Minus the gradient (r,) of the penalty at u_star, which acts on the error: `pushed`, it is f."""
        if self.penalty_matrix.ndim == 1:
            return -self._force * truth
        return -self.penalty_matrix @ (self.sizes * truth)

    def pushed(self, minus_gradient: FloatArray, slot: int) -> FloatArray:
        """The change (d, ...) of the state by a given gradient (r, ...), without the factor L."""
        parts = [self.hyperparameters.of_gradient(slot) * minus_gradient]
        if self.momentum:
            parts.append(-minus_gradient)
        if self.average is not None:
            parts.append((self.shares if minus_gradient.ndim > 1 else self.shares[:, 0]) * parts[0])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class MeanVisits(Visits):
    """The mean over the batches of a visit to one of them, each as likely as the others: all visits are equal."""

    @cached_property
    def _batches(self) -> list[tuple[FloatArray, FloatArray]]:
        weights = np.zeros(len(self.blocks.rows))
        for batch, divisor in enumerate(self.blocks.divisors):
            weights[self.blocks.of(batch)] = 1 / (self.blocks.batches * divisor)
        return [(self.unit, weights)] * self.blocks.batches

    @cached_property
    def gram(self) -> FloatArray:
        """The mean of U_b'U_b / m_b (r, r)."""
        rows, weights = self._batches[0]
        return np.asarray(rows.T @ (weights[:, np.newaxis] * rows))

    @property
    def _grams(self) -> list[FloatArray | None]:
        return [self.gram] * self.blocks.batches

    def columns(self, batch: int) -> IntArray:
        """All rows."""
        return np.arange(len(self.blocks.rows))


def mean_map(
    layers: Sequence[Layer], visits: Visits, force: FloatArray, *, of_subsets: bool = False
) -> EpochMap:
    """The mean over the orders of an epoch, with inputs zeta = (1, y of the rows of the blocks).

    The `force` (r,) enters at every visit with the input 1. The layers may be those `of_subsets` of the batches.
    """
    d, rows = visits.dimension, len(visits.blocks.rows)
    with few_threads(d):
        if of_subsets and not visits.hyperparameters.shares:
            columns = _over_subsets(layers, visits, force)
        else:
            visit = visit_of(visits, force, d + 1 + rows)
            # Only the last states are stored.
            (end,) = deque(follow(layers, visit, np.zeros((d, d + 1 + rows)), d), maxlen=1)
            columns = end.mean(axis=0)
    return _of_columns(visits, columns, *visits.sizes_of(len(layers), force))


def _over_subsets(layers: Sequence[Layer], visits: Visits, force: FloatArray) -> FloatArray:
    """[K, E] (d, d + 1 + rows) from the kernels of all subsets of the batches, without a column per row in each.

    Where all visits are alike, the batches after a visit to b are any j of the others with the same chance, and
    their mean map is that of the subset: E_b enters as the mean of (I - K(S) L R) E_b over subsets S without b.
    """
    d, batches, grades = visits.dimension, len(layers), visits.left * visits.right
    visit = visit_of(visits, force, d, np.zeros((1 + len(visits.blocks.rows), 0)))
    after, constant = np.zeros((batches, d, d)), np.zeros(d)
    climb = follow(layers, visit, np.zeros((d, d)), d)
    for weight, subsets, kernels in zip(
        prefix_weights(batches), subsets_by_size(batches), climb, strict=False
    ):
        for batch in range(batches):
            after[batch] += weight * kernels[(subsets >> batch & 1) == 0].sum(axis=0)
        pushed = visits.pushed(force, 0)
        constant += pushed - kernels.mean(axis=0) @ (grades * pushed)
    (end,) = next(climb)
    entries = np.zeros((d, 1 + len(visits.blocks.rows)))
    entries[:, 0] = constant
    for batch, kernel in enumerate(after):
        entry = visits.unit_entry(batch, 0)
        entries[:, 1 + visits.columns(batch)] = entry - kernel @ (grades[:, np.newaxis] * entry)
    return np.hstack([end, entries])


def maps_of_orders(
    visits: Visits, force: FloatArray, orders: IntArray, inputs: FloatArray | None = None
) -> EpochMap:
    """The maps of many orders (c, steps) of visits; orders that begin alike share their first visits.

    Where the inputs (1 + rows, t) are known a column enters for each output.
    """
    d, rows = visits.dimension, len(visits.blocks.rows)
    width = d + (1 + rows if inputs is None else inputs.shape[1])
    visit = visit_of(visits, force, width, inputs)
    states, places = np.zeros((1, d, width)), np.zeros(len(orders), dtype=np.intp)
    with few_threads(d):
        for slot, visited in enumerate(orders.T):
            prefixes, places = np.unique(np.stack([places, visited], axis=1), axis=0, return_inverse=True)
            places = places.ravel()  # numpy 2.0 gives a column
            following = np.empty((len(prefixes), d, width))
            for batch in np.unique(visited):
                here = prefixes[:, 1] == batch
                following[here] = visit(int(batch), states[prefixes[here, 0]], slot)
            states = following
        states = states[places]
    weight, sizes = visits.sizes_of(orders.shape[1], force)
    if inputs is not None:
        sizes = np.max(np.abs(inputs) * sizes[:, np.newaxis], axis=0)
    return _of_columns(visits, states, weight, sizes)


def visit_of(visits: Visits, force: FloatArray, width: int, given: FloatArray | None = None) -> Visit:
    """A visit as it changes [K, E] (..., d, width), with an input per row or with given inputs (1 + rows, t).

    With these the force is (r,), or (r, t) if each output has its own.
    """
    d, grades = visits.dimension, (visits.left * visits.right)[:, np.newaxis]
    begin = np.eye(d, width)

    def visit(batch: int, before: FloatArray, slot: int) -> FloatArray:
        # [K, E] -> [K + K_b (I - R L K), E - K_b R L E + E_b].
        following = before + visits.kernel(batch, begin - grades * before, slot) if d else before.copy()
        entry, columns = visits.unit_entry(batch, slot), visits.columns(batch)
        constant = visits.pushed(force, slot)
        if given is None:
            following[..., d] += constant
            following[..., d + 1 + columns] += entry
        else:
            constant = constant if constant.ndim == 2 else constant[:, np.newaxis]
            following[..., d:] += constant * given[0] + entry @ given[1 + columns]
        return np.asarray(following)

    return visit


def _of_columns(visits: Visits, columns: FloatArray, weight: float, sizes: FloatArray) -> EpochMap:
    """The map of [K, E] (..., d, d + z)."""
    kernel, entries = np.split(columns, [visits.dimension], axis=-1)
    kernel, entries = np.ascontiguousarray(kernel), np.ascontiguousarray(entries)
    return EpochMap(visits.left, visits.right, kernel, entries, weight, sizes)


@dataclass(frozen=True, eq=False)
class Inputs:
    """White inputs zeta, E zeta zeta' = I, of which the first is the constant 1.

    The force of a penalty acts at the truth u_star (r,). The others are independent noise of standard deviation
    `noise`, one per row of the blocks; or the noise itself is `given` (rows,), y - X beta_star, if only the orders
    are random: then the constant is the only input.
    """

    truth: FloatArray
    noise: float = 0.0
    given: FloatArray | None = None

    @property
    def constant(self) -> float:
        """The first input: 0 for parameters, on which the force of a penalty at the truth does not act."""
        return 1.0 if self.truth.any() else 0.0

    def count(self, visits: Visits) -> int:
        """The number of inputs."""
        return 1 if self.given is not None else 1 + len(visits.blocks.rows)
