"""One visit to a batch as an affine map on the state: the parameters, and the momentum buffer if there is one."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reshuffle.arrays import FloatArray, IntArray
from reshuffle.blocks import Blocks
from reshuffle.row_space import RowSpace


@dataclass(frozen=True)
class Hyperparameters:
    """What one visit is done with: torch's `lr`, `weight_decay` and `momentum`.

    With g the gradient of the batch's mean loss plus penalty * beta, the buffer v starts at zero and
    v -> momentum v + g, beta -> beta - step v.
    """

    step: float
    penalty: float = 0.0
    momentum: float = 0.0

    def scaled(self, space: RowSpace) -> "Hyperparameters":
        """The same for features divided by their scale."""
        return Hyperparameters(
            self.step * space.scale * space.scale, self.penalty / space.scale / space.scale, self.momentum
        )


class Visits:
    """The visits to the batches of `blocks`, in row-space coordinates u = scale V'beta.

    The state z is u (r,), or (u, v) with momentum, and a visit sends it to G_b z + H_b y_b. In the error u - u_star
    the same visit is G_b z + H_b eta_b + f, where only a penalty makes a force f.

    Parameters
    ----------
    blocks : Blocks
    scaled : Hyperparameters
        For features divided by their scale.
    """

    def __init__(self, blocks: Blocks, scaled: Hyperparameters):
        self.blocks = blocks
        self.step, self.penalty, self.momentum = scaled.step, scaled.penalty, scaled.momentum
        self.rank: int = blocks.rows.shape[1]

    @property
    def dimension(self) -> int:
        """The length of the state."""
        return self.rank if self.momentum == 0 else 2 * self.rank

    @cached_property
    def _batches(self) -> list[tuple[FloatArray, float]]:
        parts = [self.blocks.rows[self.blocks.of(batch)] for batch in range(self.blocks.batches)]
        return [
            (np.ascontiguousarray(part), float(divisor))
            for part, divisor in zip(parts, self.blocks.divisors, strict=True)
        ]

    def loss(self, batch: int, columns: FloatArray) -> FloatArray:
        """(I - G_b) M for M (d, c): what a visit takes away, small when the step is."""
        position = columns[: self.rank]
        gradient = self.gradient(batch, position)
        if self.penalty:
            gradient += self.penalty * position
        if self.momentum == 0:
            return np.asarray(self.step * gradient)
        buffer = columns[self.rank :]
        return np.concatenate(
            [self.step * (self.momentum * buffer + gradient), (1 - self.momentum) * buffer - gradient]
        )

    def gradient(self, batch: int, position: FloatArray) -> FloatArray:
        """X_b'X_b u / m_b for u (r, c)."""
        rows, divisor = self._batches[batch]
        return np.asarray(rows.T @ ((rows @ position) / divisor))

    def move(self, batch: int, columns: FloatArray) -> FloatArray:
        """G_b M for M (d, c)."""
        return columns - self.loss(batch, columns)

    def entry(self, batch: int) -> FloatArray:
        """H_b (d, m_b), how the responses of the batch enter."""
        rows, divisor = self._batches[batch]
        return self._pushed(rows.T / divisor)

    def force(self, truth: FloatArray) -> FloatArray:
        """The force f (d,) of the penalty, which pulls the error towards -u_star."""
        return self._pushed(-self.penalty * truth)

    def _pushed(self, minus_gradient: FloatArray) -> FloatArray:
        if self.momentum == 0:
            return np.asarray(self.step * minus_gradient)
        return np.concatenate([self.step * minus_gradient, -minus_gradient])

    def columns(self, batch: int) -> IntArray:
        """Where the responses of the batch are among those of the blocks."""
        return np.arange(self.blocks.offsets[batch], self.blocks.offsets[batch + 1])


class DrawnVisits(Visits):
    """The mean of steps that draw their rows from one block of all rows: the same for every step."""

    @cached_property
    def gram(self) -> FloatArray:
        """W (r, r), of the mean loss of all rows: smaller than the rows where n > r."""
        rows, divisor = self._batches[0]
        return np.asarray(rows.T @ rows / divisor)

    def gradient(self, batch: int, position: FloatArray) -> FloatArray:
        """W u for u (r, c)."""
        return np.asarray(self.gram @ position)

    def entry(self, batch: int) -> FloatArray:
        """The mean of H (d, n)."""
        return super().entry(0)

    def columns(self, batch: int) -> IntArray:
        """All rows."""
        return super().columns(0)


class MeanVisits(DrawnVisits):
    """The mean over the batches of a visit to one of them, each as likely as the others."""

    @cached_property
    def _weights(self) -> FloatArray:
        return np.repeat(1 / (self.blocks.batches * self.blocks.divisors), self.blocks.sizes)

    @cached_property
    def gram(self) -> FloatArray:
        """The mean of W_b (r, r)."""
        rows = self.blocks.rows
        return np.asarray(rows.T @ (self._weights[:, np.newaxis] * rows))

    def entry(self, batch: int) -> FloatArray:
        """The mean of H_b (d, rows)."""
        return self._pushed(self.blocks.rows.T * self._weights)

    def columns(self, batch: int) -> IntArray:
        """All rows."""
        return np.arange(len(self.blocks.rows))
