"""Expectations with two resolvents of alpha Z and Sigma between them, given the solutions at single points."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._progress import track
from reshuffle.asymptotics.laws.batch_system import BatchSystem, State
from reshuffle.asymptotics.laws.symmetric_blocks import Blocks
from reshuffle.free.checks import Complex

_ENTRIES = 3_000_000
"""Numbers that the linear systems solved together may hold."""


class PairTables(NamedTuple):
    """Transforms at pairs of the n points of the upper half of a contour.

    Attributes
    ----------
    noise, signal : (n, 2n)
        tau(R Sigma R' M) and tau(R Sigma R' S), R = (z - alpha Z)^-1 at a point of the upper half and R' at one of
        the whole contour, M the noise and S the squared signal.
    """

    noise: Complex
    signal: Complex


@dataclass(frozen=True, eq=False)
class TwoResolvents:
    """The pair transforms tau((z - alpha Z)^-1 Sigma (z' - alpha Z)^-1 Q), Q the noise or the signal.

    The block matrix [[A(z), -E (x) Sigma], [0, A(z')]] has A(z)^-1 E Sigma A(z')^-1 as the corner of its inverse,
    and is a linearization like A itself. Its fixed point is triangular: given the solutions at z and z', the corner
    solves one small linear system.

    Parameters
    ----------
    system : BatchSystem
    state : State
        Evaluated at the solutions of the upper half of a contour.
    source : (m,)
        S at each eigenvalue of Sigma; 1 for a signal that knows no direction.
    """

    system: BatchSystem
    state: State
    source: FloatArray

    def tables(self) -> PairTables:
        """Both transforms at all pairs; they do not change when the two points are exchanged."""
        count = len(self.state.resolvent)
        noise, signal = np.zeros((2, count, 2 * count), dtype=complex)
        parts = list(self._parts())
        for row, columns in track(parts, len(parts), "pairs"):
            found = self._pairs(row, columns)
            for table, values in zip((noise, signal), found, strict=True):
                table[row, columns] = values
                # T(z, z') = T(z', z), and conjugate points have conjugate values.
                lower = columns >= count
                table[columns[~lower], row] = values[~lower]
                table[columns[lower] - count, row + count] = values[lower].conj()
        return PairTables(noise, signal)

    def _parts(self) -> Iterator[tuple[int, IntArray]]:
        """A row each, and as many of the columns from its own on as are worked on together."""
        count = len(self.state.resolvent)
        entries = self.system.entries**2 + 2 * sum(len(sizes) ** 4 for sizes in self.system.symmetry.sizes)
        width = max(1, _ENTRIES // entries)
        for row in range(count):
            columns = np.concatenate([np.arange(row, count), np.arange(row, count) + count])
            for start in range(0, len(columns), width):
                yield row, columns[start : start + width]

    @cached_property
    def _whole(self) -> State:
        return self.state.with_conjugates()

    @cached_property
    def _vectors(self) -> Complex:
        return self.system.noise_vectors(self._whole)

    @cached_property
    def _flat(self) -> list[Complex]:
        """G of each type as (eigenvalues, points, sizes^2): one product serves many pairs."""
        return [
            np.ascontiguousarray(block.reshape(*block.shape[:2], -1).transpose(1, 0, 2))
            for block in self._whole.blocks
        ]

    def _maps(self, row: int, columns: IntArray) -> Blocks:
        """The maps move -> mean of lambda^2 G(lambda) move G'(lambda) for each type, all at once."""
        weights = (self.system.weights * self.system.eigenvalues**2)[:, np.newaxis]
        maps = []
        for flat, sizes in zip(self._flat, self.system.symmetry.sizes, strict=True):
            size = len(sizes)
            left, right = weights * flat[:, row], flat[:, columns].reshape(len(flat), -1)
            whole = (left.T @ right).reshape(size, size, len(columns), size, size)
            maps.append(whole.transpose(2, 0, 3, 1, 4).reshape(len(columns), size * size, size * size))
        return maps

    def _pairs(self, row: int, columns: IntArray) -> tuple[Complex, Complex]:
        system, state = self.system, self._whole
        before = [np.broadcast_to(block[row], (len(columns), *block.shape[1:])) for block in state.factors]
        after = [block[columns] for block in state.factors]
        maps = self._maps(row, columns)
        source, through = system.from_corner(maps), system.through(maps)
        matrix = np.eye(system.entries) - system.weigh(before, after, through)
        solved = np.linalg.solve(matrix, -system.weigh(before, after, source))
        corner = (source - through @ solved)[..., 0]
        size = self._vectors.shape[1]
        inner = corner[:, : size * size].reshape(-1, size, size)
        noise = np.einsum("i,pij,pj->p", self._vectors[row], inner, self._vectors[columns]) / system.unit
        return np.asarray(noise), self._signal(row, columns, solved[..., 0])

    def _signal(self, row: int, columns: IntArray, solved: Complex) -> Complex:
        """The mean over lambda of S lambda [G (E - spread) G']_00, with what couples the two points in between."""
        inner: Blocks = []
        start = 0
        for index in self.system.indices:
            inner.append(solved[:, start : start + index.size].reshape(-1, *index.shape))
            start += index.size
        between = -self.system.spread(inner)[0]
        between[:, 0, 0] += 1.0
        weights = (self.system.weights * self.source * self.system.eigenvalues)[:, np.newaxis]
        size = between.shape[1]
        # The first row of the one G, the first column of the other.
        left, right = weights * self._flat[0][:, row, :size], self._flat[0][:, columns, :size]
        rows = (left.T @ right.reshape(len(right), -1)).reshape(size, len(columns), size)
        return np.asarray(np.einsum("pab,apb->p", between, rows) / self.system.unit**2)
