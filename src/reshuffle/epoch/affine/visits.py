"""One visit to a batch as an affine map on the state: the parameters, and the momentum buffer if there is one.

Features of any condition number keep their digits in graded coordinates: with X V / scale = U diag(s) Q' every
batch is C_b Q = U_b diag(s), so that small directions are small columns, not differences of large ones.
Whatever an epoch does then carries the factors s beside a kernel of ordinary size.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._blas import few_threads
from reshuffle._linalg import graded_svd, norms
from reshuffle.problem.batches import Blocks
from reshuffle.problem.row_space import RowSpace
from reshuffle.recipe import Hyperparameters

_WELL_CONDITIONED = 1e-3
"""Smallest eigenvalue of rows and penalty, in units in which they are one on the diagonal."""


@dataclass(frozen=True, eq=False)
class GradedBlocks(Blocks):
    """Blocks whose rows are `unit` * `singular`.

    Attributes
    ----------
    unit : (rows, r)
        U, with orthonormal columns.
    singular : (r,)
        s, descending but where there is `held`.
    held : (r, r), optional
        P'P of a penalty that leaves parameters out, divided by s from both sides; then s knows of it, and U'U and
        `held` are together of ordinary size.
    """

    unit: FloatArray
    singular: FloatArray
    held: FloatArray | None = None

    def columns(self, batch: int) -> IntArray:
        """Where the rows of a batch are."""
        return np.arange(self.offsets[batch], self.offsets[batch + 1])


def graded(
    space: RowSpace, blocks: Blocks, penalty_rows: FloatArray | None = None
) -> tuple[RowSpace, GradedBlocks]:
    """Turn the row space and the blocks in it to the singular vectors of the rows, with those of a penalty P'P."""
    unit, singular, turn, held = _factors(blocks.rows, penalty_rows)
    turned = replace(space, turn=turn if space.turn is None else space.turn @ turn)
    rows = np.ascontiguousarray(unit * singular)
    return turned, GradedBlocks(rows, blocks.response, blocks.offsets, blocks.divisors, unit, singular, held)


def _factors(
    rows: FloatArray, penalty_rows: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray | None]:
    """U, s and Q with rows = U diag(s) Q', and what P'P is in the same units."""
    stacked = rows if penalty_rows is None else np.vstack([rows, penalty_rows])
    with few_threads(math.sqrt(stacked.size)):
        if len(rows) >= rows.shape[1]:
            unit, singular, turn = graded_svd(rows)
            if penalty_rows is None:
                return unit, singular, turn, None
            # Rows that are small beside the penalty keep their digits only if they are turned without it.
            turned = penalty_rows @ turn
            sizes = np.hypot(singular, norms(turned.T))
            unit, held = unit * (singular / sizes), (turned / sizes).T @ (turned / sizes)
            if np.linalg.eigvalsh(unit.T @ unit + held).min(initial=1.0) > _WELL_CONDITIONED:
                return unit, sizes, turn, held
        unit, singular, turn = graded_svd(stacked)
    of_penalty = unit[len(rows) :]
    return unit[: len(rows)], singular, turn, of_penalty.T @ of_penalty


class Visits:
    """The visits to the batches of `blocks`, in graded row-space coordinates u = scale Q'V'beta.

    The state z is u (r,), or (u, v / g) with momentum, where g^2 = s^2 + penalty are the sizes of the gradient's
    coordinates. A visit sends it to z - L K_b R z + L E_b y_b with L = (step g, 1), R = (g, 1),

        K_b = [[H, momentum], [-H, 1 - momentum]], E_b = [[U_b'], [-U_b']] / m_b, H = U_b'U_b / m_b + penalty / g^2,

    where U_b are the rows of the batch divided by g: K_b knows neither the step nor how X is conditioned. Where a
    penalty leaves parameters out g = s, which knows of it, and it is the matrix `held` in place of penalty / g^2.
    In the error u - u_star the visit is z - L K_b R z + L (E_b eta_b + f), where only a penalty makes a force f.

    With Nesterov's momentum the first rows are [(1 + momentum) H, momentum^2] and (1 + momentum) U_b' / m_b; where
    the steps of an epoch differ, L has the largest, and the first rows are multiplied by what each is of it. So a
    visit is told by its batch and by its slot: how many visits of the epoch were before it.

    Parameters
    ----------
    blocks : GradedBlocks
    scaled : Hyperparameters
        For features divided by their scale.
    """

    def __init__(self, blocks: GradedBlocks, scaled: Hyperparameters):
        self.blocks, self.hyperparameters = blocks, scaled
        self.step, self.penalty, self.momentum = scaled.step, scaled.penalty, scaled.momentum
        self.rank: int = blocks.rows.shape[1]
        root = 0.0 if blocks.held is not None else math.sqrt(self.penalty)
        self.sizes = np.hypot(blocks.singular, root)
        self.unit = blocks.unit * (blocks.singular / self.sizes)
        self.held = np.square(root / self.sizes) if blocks.held is None else blocks.held
        self._force = root * (root / self.sizes)
        buffers = np.ones(self.dimension - self.rank)
        self.left = np.concatenate([self.step * self.sizes, buffers])
        self.right = np.concatenate([self.sizes, buffers])

    @property
    def plain(self) -> "Visits":
        """The visits without what is averaged beside them."""
        return self

    @property
    def dimension(self) -> int:
        """The length of the state."""
        return self.rank if self.momentum == 0 else 2 * self.rank

    @property
    def count(self) -> int:
        """How many batches there are to visit."""
        return self.blocks.batches

    @property
    def weight(self) -> float:
        """A bound on the entries of K_b."""
        of_rows = 1 / float(self.blocks.divisors.min())
        of_gradient = self._most * (of_rows + float(np.abs(self.held).max(initial=0.0)))
        return max(of_gradient, 1.0 if self.momentum else 0.0)

    @property
    def _most(self) -> float:
        """A bound on how many gradients a visit moves the parameters by."""
        return 1 + self.momentum if self.hyperparameters.nesterov else 1.0

    def sizes_of(self, steps: int, force: FloatArray) -> tuple[float, FloatArray]:
        """Bounds on K and on the columns (1 + rows,) of E after so many visits, before anything cancels in them."""
        constant = self._most * float(np.abs(force).max(initial=0.0))
        of_rows = np.full(len(self.blocks.rows), self.weight)
        return steps * self.weight, steps * np.concatenate([[constant], of_rows])

    @cached_property
    def _batches(self) -> list[tuple[FloatArray, float]]:
        parts = [self.unit[self.blocks.of(batch)] for batch in range(self.blocks.batches)]
        return [
            (np.ascontiguousarray(part), float(divisor))
            for part, divisor in zip(parts, self.blocks.divisors, strict=True)
        ]

    def kernel(self, batch: int, columns: FloatArray, slot: int) -> FloatArray:
        """K_b M (..., d, c) for M (..., d, c), in the visit after `slot` others of the epoch."""
        position = columns[..., : self.rank, :]
        gradient = self.gradient(batch, position)
        if self.penalty:
            gradient += self.hold(position)
        of_gradient = self.hyperparameters.of_gradient(slot)
        moved = gradient if of_gradient == 1 else of_gradient * gradient
        if self.momentum == 0:
            return moved
        buffer = columns[..., self.rank :, :]
        of_buffer = self.hyperparameters.of_buffer(slot)
        parts = moved + of_buffer * buffer, (1 - self.momentum) * buffer - gradient
        return np.concatenate(parts, axis=-2)

    def hold(self, position: FloatArray) -> FloatArray:
        """What the penalty makes of M (..., r, c)."""
        return self.held @ position if self.held.ndim == 2 else self.held[:, np.newaxis] * position

    def rank_one_parts(self) -> tuple[FloatArray, FloatArray]:
        """P (parts,) and K_0 (parts, parts, r) of K_b = K_0 + P (x) U_b'U_b / m_b, if all slots are alike."""
        ones, made = np.ones(self.rank), self.hyperparameters
        if self.momentum == 0:
            return np.ones(1), self.held.reshape(1, 1, -1)
        ahead, of_buffer = made.of_gradient(0), made.of_buffer(0)
        blocks = [[ahead * self.held, of_buffer * ones], [-self.held, (1 - self.momentum) * ones]]
        return np.array([ahead, -1.0]), np.array(blocks)

    def gradient(self, batch: int, position: FloatArray) -> FloatArray:
        """U_b'U_b M / m_b for M (..., r, c)."""
        rows, divisor = self._batches[batch]
        return np.asarray(rows.T @ ((rows @ position) / divisor))

    def loss(self, batch: int, columns: FloatArray, slot: int) -> FloatArray:
        """L K_b R M for M (d, c): what a visit takes away, small when the step is."""
        return self.left[:, np.newaxis] * self.kernel(batch, self.right[:, np.newaxis] * columns, slot)

    def move(self, batch: int, columns: FloatArray, slot: int) -> FloatArray:
        """(I - L K_b R) M for M (d, c)."""
        return columns - self.loss(batch, columns, slot)

    def unit_entry(self, batch: int, slot: int) -> FloatArray:
        """E_b (d, m_b)."""
        rows, divisor = self._batches[batch]
        return self.pushed(rows.T / divisor, slot)

    def entry(self, batch: int, slot: int) -> FloatArray:
        """L E_b (d, m_b), how the responses of the batch enter."""
        return self.left[:, np.newaxis] * self.unit_entry(batch, slot)

    def unit_force(self, truth: FloatArray) -> FloatArray:
        """Minus the gradient (r,) of the penalty at u_star, which pulls the error there: `pushed`, it is f."""
        return -self._force * truth if self.held.ndim == 1 else -self.held @ (self.sizes * truth)

    def force(self, truth: FloatArray, slot: int) -> FloatArray:
        """L f (d,)."""
        return self.left * self.pushed(self.unit_force(truth), slot)

    def pushed(self, minus_gradient: FloatArray, slot: int) -> FloatArray:
        """What a gradient (r, ...) that does not depend on the state does to it (d, ...), without the factor L."""
        of_gradient = self.hyperparameters.of_gradient(slot)
        moved = minus_gradient if of_gradient == 1 else of_gradient * minus_gradient
        return moved if self.momentum == 0 else np.concatenate([moved, -minus_gradient])

    def folded(self, product: FloatArray) -> FloatArray:
        """P (..., d) as it acts on what visits do to the plain state."""
        return product

    def add_of_average(self, product: FloatArray, kernel: FloatArray) -> None:
        """Add to a kernel (..., d) what P (..., d) makes of the average's own part of a visit: there is none."""

    def columns(self, batch: int) -> IntArray:
        """Where the responses of the batch are among those of the blocks."""
        return self.blocks.columns(batch)


class SubsetVisits(Visits):
    """Visits to some of the rows of the blocks at a time, each a block of its own.

    Parameters
    ----------
    blocks, scaled
        As in `Visits`.
    draws : list of (rows, divisor)
        The batches.
    """

    def __init__(
        self, blocks: GradedBlocks, scaled: Hyperparameters, draws: Sequence[tuple[tuple[int, ...], float]]
    ):
        super().__init__(blocks, scaled)
        self._draws = draws

    @property
    def count(self) -> int:
        """How many batches there are to visit."""
        return len(self._draws)

    @cached_property
    def _batches(self) -> list[tuple[FloatArray, float]]:
        return [(self.unit[list(rows)], divisor) for rows, divisor in self._draws]

    def columns(self, batch: int) -> IntArray:
        """Where the responses of the batch are among those of the blocks."""
        return np.array(self._draws[batch][0], dtype=np.int64)


class DrawnVisits(Visits):
    """The mean of steps that draw their rows from one block of all rows: the same for every step."""

    @cached_property
    def gram(self) -> FloatArray:
        """U'U / n (r, r), of the mean loss of all rows: smaller than the rows where n > r."""
        rows, divisor = self._batches[0]
        return np.asarray(rows.T @ rows / divisor)

    def gradient(self, batch: int, position: FloatArray) -> FloatArray:
        """U'U M / n for M (r, c)."""
        return np.asarray(self.gram @ position)

    def unit_entry(self, batch: int, slot: int) -> FloatArray:
        """The mean of E_b (d, n)."""
        return super().unit_entry(0, slot)

    def columns(self, batch: int) -> IntArray:
        """All rows."""
        return super().columns(0)


class MeanVisits(DrawnVisits):
    """The mean over the batches of a visit to one of them, each as likely as the others."""

    @cached_property
    def _weights(self) -> FloatArray:
        weights = np.zeros(len(self.blocks.rows))
        for batch, divisor in enumerate(self.blocks.divisors):
            weights[self.blocks.of(batch)] = 1 / (self.blocks.batches * divisor)
        return weights

    @cached_property
    def gram(self) -> FloatArray:
        """The mean of U_b'U_b / m_b (r, r)."""
        return np.asarray(self.unit.T @ (self._weights[:, np.newaxis] * self.unit))

    def unit_entry(self, batch: int, slot: int) -> FloatArray:
        """The mean of E_b (d, rows)."""
        return self.pushed(self.unit.T * self._weights, slot)

    def columns(self, batch: int) -> IntArray:
        """All rows."""
        return np.arange(len(self.blocks.rows))
