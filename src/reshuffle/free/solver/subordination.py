"""The joint fixed-point system of all variables, reduced to the ranges of their coefficients."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle.free.checks import Complex
from reshuffle.free.laws import Law
from reshuffle.free.solver.transforms import inverse, transform_of

DENSE = 60
"""Unknowns up to which their Jacobian is made; beyond, its products with vectors cost less."""


@dataclass(frozen=True)
class State:
    """One evaluation of the map: the resolvent G, its compression, the next unknowns, what tangents need."""

    resolvent: Complex
    compressed: Complex
    image: Complex
    known: tuple[Any, ...]


class System:
    """The joint system of all variables' subordination terms.

    ``G = (b + sum_j U_j H_j U_j*)^-1`` with ``H_j = G_j(omega_j)^-1 - omega_j`` on the range of
    ``b_j = U_j C_j U_j*``. The unknowns are the blocks H_j alone. When the pencil is real they are symmetric,
    since a free family has the same law when all words are reversed, and only upper triangles are unknown.

    Parameters
    ----------
    coefficients : Hermitian ``[b_0, b_1, ...]``, shape (m + 1, k, k); laws : of the m variables.
    direction : diagonal of the matrix that z multiplies, shape (k,).
    """

    def __init__(self, coefficients: Complex, laws: Sequence[Law], direction: Any):
        self.constant = coefficients[0]
        self.direction = np.diag(np.asarray(direction, dtype=float))
        self.size = len(self.constant)
        self.symmetric = not np.any(coefficients.imag)
        self.frames, self.transforms = [], []
        for b, law in zip(coefficients[1:], laws, strict=True):
            frame, core = _range(b)
            if frame.shape[1]:
                self.frames.append(frame)
                self.transforms.append(transform_of(law, core))
        ranks = [frame.shape[1] for frame in self.frames]
        self.frame = np.concatenate([*self.frames, np.zeros((self.size, 0))], axis=1)
        ends = np.cumsum([0, *ranks])
        self.blocks = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        self.norm = float(sum(np.linalg.norm(b, 2) for b in coefficients)) or 1.0
        self._layout(ranks)

    def _layout(self, ranks: Sequence[int]) -> None:
        """Lay out the unknowns: for each the block and entry it fills, and for each entry its unknown."""
        self.indices, self.rows, self.columns = [], [], []
        start = 0
        for rank in ranks:
            index = np.zeros((rank, rank), dtype=int)
            rows, columns = (
                np.triu_indices(rank) if self.symmetric else np.indices((rank, rank)).reshape(2, -1)
            )
            index[rows, columns] = start + np.arange(len(rows))
            if self.symmetric:
                index[columns, rows] = index[rows, columns]
            self.indices.append(index)
            self.rows.append(rows)
            self.columns.append(columns)
            start += len(rows)
        self.unknowns = start
        self.direct = start <= DENSE
        if self.direct:
            self._tabulate()

    def _tabulate(self) -> None:
        """Write as constant matrices how unknowns enter ``G^-1``, and how G is seen from each coefficient's range.

        A small system would otherwise spend its time on calls instead of numbers.
        """
        units = self.unpack(np.eye(self.unknowns, dtype=complex))
        moves = np.zeros((self.unknowns, self.size, self.size), dtype=complex)
        for frame, unit in zip(self.frames, units, strict=True):
            moves += frame @ unit @ frame.conj().T
        self.moves = moves
        seen = [
            np.einsum("pa,qb->pqab", frame.conj(), frame).reshape(self.size**2, -1) for frame in self.frames
        ]
        self.seen = np.concatenate([*seen, np.zeros((self.size**2, 0))], axis=1).astype(complex)
        ends = np.cumsum([0, *(len(index) ** 2 for index in self.indices)])
        self.entries = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
        # Entries of a block that are unknowns, and the block as its own unknowns move.
        self.upper = [
            rows * len(index) + columns
            for rows, columns, index in zip(self.rows, self.columns, self.indices, strict=True)
        ]
        self.own = [unit.reshape(self.unknowns, -1).T.copy() for unit in units]

    def unpack(self, vector: Complex) -> list[Complex]:
        """Return the blocks H_j, shapes (..., rank, rank), from vectors of shape (..., unknowns)."""
        return [vector[..., index] for index in self.indices]

    def pack(self, blocks: Sequence[Complex]) -> Complex:
        """Return the vectors of unknowns from blocks; the inverse of `unpack`."""
        pieces = [h[..., r, c] for h, r, c in zip(blocks, self.rows, self.columns, strict=True)]
        return np.concatenate(pieces, axis=-1)

    def base(self, z: Complex, height: Complex) -> Complex:
        """Return ``b = z direction + i height - b_0``, shape (points, k, k)."""
        identity = np.eye(self.size)
        return np.asarray(
            z[:, None, None] * self.direction + 1j * height[:, None, None] * identity - self.constant
        )

    def start(self, points: int) -> Complex:
        """Return the unknowns far up in the half-plane, where every H vanishes to first order."""
        return np.zeros((points, self.unknowns), dtype=complex)

    def evaluate(self, base: Complex, unknowns: Complex) -> State:
        """Return the map at ``unknowns`` (points, unknowns) for ``base`` (points, k, k)."""
        blocks = self.unpack(unknowns)
        if self.direct:
            total = base + (unknowns @ self.moves.reshape(self.unknowns, self.size**2)).reshape(base.shape)
            resolvent = inverse(total)
            flat = resolvent.reshape(len(base), -1) @ self.seen
            inner = [
                flat[:, entries].reshape(h.shape) for entries, h in zip(self.entries, blocks, strict=True)
            ]
            compressed = flat
        else:
            total = base.copy()
            for frame, h in zip(self.frames, blocks, strict=True):
                total += frame @ h @ frame.conj().T
            resolvent = inverse(total)
            compressed = self.frame.conj().T @ resolvent @ self.frame
            inner = [compressed[:, block, block] for block in self.blocks]
        images, known = [], []
        for g, transform, h in zip(inner, self.transforms, blocks, strict=True):
            image, extra = transform.apply(g, h)
            images.append(image)
            known.append(extra)
        image = self.pack(images) if images else np.zeros_like(unknowns)
        return State(resolvent, compressed, image, tuple(known))

    def tangent(self, state: State, directions: Complex) -> Complex:
        """Return the derivative of the map along ``directions``, shape (points, count, unknowns)."""
        blocks, seen = self.unpack(directions), state.compressed
        # A small system keeps no more of G than its diagonal blocks.
        seen = (self.frame.conj().T @ state.resolvent @ self.frame if self.direct else seen)[:, None]
        images = []
        for i, row in enumerate(self.blocks):
            dg: Any = 0
            for column, dh in zip(self.blocks, blocks, strict=True):
                dg = dg - seen[..., row, column] @ dh @ seen[..., column, row]
            images.append(self.transforms[i].tangent(state.known[i], dg, blocks[i]))
        return self.pack(images)

    def jacobian(self, state: State) -> Complex:
        """Return the derivative of the map as matrices, shape (points, unknowns, unknowns)."""
        points = len(state.resolvent)
        if not self.frames:
            return np.zeros((points, 0, 0), dtype=complex)
        g = state.resolvent[:, None]
        seen = (g @ self.moves @ g).reshape(points, self.unknowns, -1) @ self.seen
        rows = []
        for i, (entries, upper) in enumerate(zip(self.entries, self.upper, strict=True)):
            along_g, along_h = self.transforms[i].derivatives(state.known[i], points, len(self.indices[i]))
            part = -(along_g[:, upper] @ seen[:, :, entries].transpose(0, 2, 1))
            rows.append(part if along_h is None else part + along_h[:, upper] @ self.own[i])
        return np.concatenate(rows, axis=1)

    def shift_tangent(self, state: State, direction: Complex) -> Complex:
        """Return the derivative of the map when ``base`` moves along a matrix, shape (points, unknowns)."""
        moved = -(state.resolvent @ direction @ state.resolvent)
        if self.direct:
            flat = moved.reshape(len(moved), -1) @ self.seen
            inner = [
                flat[:, entries].reshape(-1, *index.shape)
                for entries, index in zip(self.entries, self.indices, strict=True)
            ]
        else:
            moved = self.frame.conj().T @ moved @ self.frame
            inner = [moved[:, block, block] for block in self.blocks]
        images = []
        for part, transform, known in zip(inner, self.transforms, state.known, strict=True):
            dg = part[:, None]
            images.append(transform.tangent(known, dg, np.zeros_like(dg)))
        return self.pack(images)[:, 0] if images else np.zeros((len(moved), 0), dtype=complex)

    def mirrored(self, unknowns: Complex) -> Complex:
        """Return the unknowns of the adjoint solution, which is that of the conjugate base."""
        return self.pack([h.conj().swapaxes(-1, -2) for h in self.unpack(unknowns)])

    def resolvent_tangent(self, state: State, direction: Any, unknowns: Complex) -> Complex:
        """Return the derivative of G as ``base`` moves along ``direction`` and the unknowns along theirs."""
        if self.direct:
            moves = (unknowns @ self.moves.reshape(self.unknowns, self.size**2)).reshape(
                state.resolvent.shape
            )
            return np.asarray(-(state.resolvent @ (direction + moves) @ state.resolvent))
        total = np.zeros_like(state.resolvent) + direction
        for frame, h in zip(self.frames, self.unpack(unknowns), strict=True):
            total = total + frame @ h @ frame.conj().T
        return np.asarray(-(state.resolvent @ total @ state.resolvent))


def _range(b: Complex) -> tuple[Complex, Complex]:
    """Return an orthonormal frame U of the range of a Hermitian b, and the core C with ``b = U C U*``."""
    occupied = np.flatnonzero(np.abs(b).sum(axis=1) > 0)
    core = b[np.ix_(occupied, occupied)]
    values, vectors = np.linalg.eigh(core.real if not np.any(core.imag) else core)
    kept = np.abs(values) > 1e-12 * max(float(np.abs(values).max(initial=0.0)), 1e-300)
    frame = np.zeros((len(b), len(occupied)))
    frame[occupied, np.arange(len(occupied))] = 1.0
    # Unit vectors as a frame keep entries of different size apart; a rotation would mix them.
    if kept.all():
        return frame, core
    return frame @ vectors[:, kept], np.diag(values[kept]).astype(complex)
