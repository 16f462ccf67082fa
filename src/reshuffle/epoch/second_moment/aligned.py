"""Coordinates in which the rows of two batches are as sparse as they can be made.

With C_1 = U_1 [diag(s), 0] V' the largest batch is diagonal in the coordinates V. Those that it does not see are
still free: a second singular value decomposition makes the part of the second batch there diagonal, so that half of
its products, or more, are spared. Rows may be turned too, if what enters through them is turned with them.
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from reshuffle._core.arrays import FloatArray
from reshuffle.problem.blocks import Blocks


@dataclass(frozen=True, eq=False)
class Rows:
    """C = [dense, diag] (m, r): `dense` (m, k), then a diagonal of length c in the next columns, then zeros."""

    dense: FloatArray
    diagonal: FloatArray
    columns: int

    @property
    def _beside(self) -> slice:
        return slice(self.dense.shape[1], self.dense.shape[1] + len(self.diagonal))

    def __len__(self) -> int:
        return len(self.dense)

    def times(self, matrix: FloatArray, out: FloatArray) -> None:
        """Write C M (m, c) into `out`, for M (r, c)."""
        np.matmul(self.dense, matrix[: self.dense.shape[1]], out=out)
        if len(self.diagonal):
            out[: len(self.diagonal)] += self.diagonal[:, np.newaxis] * matrix[self._beside]

    def right_of(self, matrix: FloatArray) -> FloatArray:
        """M C' (q, m), for M (q, r)."""
        product = matrix[:, : self.dense.shape[1]] @ self.dense.T
        if len(self.diagonal):
            product[:, : len(self.diagonal)] += matrix[:, self._beside] * self.diagonal
        return np.asarray(product)

    def subtract(self, matrix: FloatArray, out: FloatArray) -> None:
        """Subtract M C from `out` (q, r), for M (q, m)."""
        out[:, : self.dense.shape[1]] -= matrix @ self.dense
        if len(self.diagonal):
            out[:, self._beside] -= matrix[:, : len(self.diagonal)] * self.diagonal

    def scaled(self, factor: float) -> "Rows":
        """The rows times a number."""
        return Rows(factor * self.dense, factor * self.diagonal, self.columns)

    def add_transposed(self, matrix: FloatArray, out: FloatArray) -> None:
        """Add C'M to `out` (r, c), for M (m, c)."""
        out[: self.dense.shape[1]] += self.dense.T @ matrix
        if len(self.diagonal):
            out[self._beside] += self.diagonal[:, np.newaxis] * matrix[: len(self.diagonal)]


class Alignment:
    """The coordinates and the rows of all batches in them.

    Attributes
    ----------
    first : int
        The batch that is diagonal: C = [diag(singular), 0].
    basis : (r, r)
        The coordinates, orthonormal.
    turns : dict of (m, m)
        For the batches whose rows were turned, the transposed turn U': their noise is to be turned by it as well.
    rows : list of Rows
        Of all batches but the first, which has none.
    """

    def __init__(self, blocks: Blocks):
        sizes = np.asarray(blocks.sizes)
        self.first, *others = np.argsort(-sizes, kind="stable").tolist()
        left, self.singular, right = scipy.linalg.svd(blocks.rows[blocks.of(self.first)], check_finite=False)
        self.basis, kept = right.T, len(self.singular)
        self.turns = {self.first: left.T}
        diagonal = np.zeros(0)
        if others and kept < len(right):
            second = blocks.rows[blocks.of(others[0])] @ self.basis[:, kept:]
            turn, diagonal, remaining = scipy.linalg.svd(second, check_finite=False)
            self.basis = np.hstack([self.basis[:, :kept], self.basis[:, kept:] @ remaining.T])
            self.turns[others[0]] = turn.T
        self.rows = [self._in_basis(blocks, batch, diagonal, kept) for batch in range(blocks.batches)]

    def _in_basis(self, blocks: Blocks, batch: int, diagonal: FloatArray, kept: int) -> Rows:
        turned = blocks.rows[blocks.of(batch)] @ self.basis
        if batch in self.turns and batch != self.first:
            turned = self.turns[batch] @ turned[:, :kept]
            return Rows(np.ascontiguousarray(turned), diagonal, len(self.basis))
        return Rows(np.ascontiguousarray(turned), np.zeros(0), len(self.basis))
