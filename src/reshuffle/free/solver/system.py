"""The joint fixed-point system of all variables, reduced to the ranges of their coefficients.

`FixedPoint` and `PencilSystem` are the protocols of such systems; `solve` is the linear system of Newton's method.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from reshuffle.free.checks import Complex, Real
from reshuffle.free.laws import Law
from reshuffle.free.solver.transforms import inverse, transform_of

KRYLOV = 40
"""Directions after which GMRES ends."""

DENSE = 60
"""Unknowns up to which their Jacobian is made; beyond, its products with vectors cost less."""


class FixedPoint(Protocol):
    """The unknowns of a resolvent: its solution is where ``evaluate(base, unknowns).image`` is ``unknowns``.

    Attributes
    ----------
    size : k, the rows of the resolvent; unknowns : their number; norm : of everything that is added to z.
    direct : whether the Jacobian is cheap enough to be made and factored.
    """

    size: int
    unknowns: int
    norm: float
    direct: bool

    def base(self, z: Complex, height: Complex) -> Complex:
        """Return what z and the height above the axis are to the resolvent, shape (points, k, k)."""

    def start(self, points: int) -> Complex:
        """Return the unknowns far up in the half-plane."""

    def evaluate(self, base: Complex, unknowns: Complex) -> Any:
        """Return the map at ``unknowns``, in the form that the tangents need.

        It has a ``resolvent`` (points, k, k) and an ``image``, the next unknowns (points, unknowns).
        """

    def tangent(self, state: Any, directions: Complex) -> Complex:
        """Return the derivative of the map along ``directions``, shape (points, count, unknowns)."""

    def jacobian(self, state: Any) -> Complex:
        """Return the derivative of the map as matrices, shape (points, unknowns, unknowns)."""

    def shift_tangent(self, state: Any, direction: Complex) -> Complex:
        """Return the derivative of the map when ``base`` moves along a matrix, shape (points, unknowns)."""

    def resolvent_tangent(self, state: Any, direction: Any, unknowns: Complex) -> Complex:
        """Return the derivative of G as ``base`` moves along ``direction`` and the unknowns along theirs."""


class PencilSystem(FixedPoint, Protocol):
    """The system of a pencil, whose ends are folds.

    Attributes
    ----------
    direction : the matrix that z multiplies, (k, k).
    """

    direction: Real

    def mirrored(self, unknowns: Complex) -> Complex:
        """Return the unknowns of the adjoint solution, which is that of the conjugate base."""


def solve(system: FixedPoint, state: Any, right: Complex) -> Complex:
    """Return x with ``(1 - D) x = right``, D the derivative of the map at ``state``.

    ``right`` and the answer have shape (points, sides, unknowns): several right-hand sides share the work.
    """
    if system.direct:
        return _dense(system, state, right)
    return np.stack([krylov_solve(system, state, right[:, side]) for side in range(right.shape[1])], axis=1)


def _dense(system: FixedPoint, state: Any, right: Complex) -> Complex:
    identity = np.eye(system.unknowns, dtype=complex)
    matrix = identity - system.jacobian(state)
    finite = np.isfinite(matrix).all(axis=(1, 2))
    if not finite.all():
        matrix[~finite] = identity
    columns = right.transpose(0, 2, 1)
    try:
        answer = np.linalg.solve(matrix, columns)
    except np.linalg.LinAlgError:
        # One exactly singular point must not stop the others; the least-norm step is as good as any there.
        answer = np.linalg.pinv(matrix) @ columns
    if not finite.all():
        answer[~finite] = np.nan
    return np.asarray(answer.transpose(0, 2, 1))


def krylov_solve(system: FixedPoint, state: Any, right: Complex) -> Complex:
    """Return x with ``(1 - D) x = right`` (points, unknowns) by GMRES, from products with D alone.

    Arnoldi for all points together; D contracts, so a few dozen directions are enough.
    """
    norm = np.linalg.norm(right, axis=1)
    safe = np.where(norm > 0, norm, 1.0)
    basis = [right / safe[:, None]]
    hessenberg = np.zeros((len(right), KRYLOV + 1, KRYLOV), dtype=complex)
    for k in range(KRYLOV):
        image = basis[k] - system.tangent(state, basis[k][:, None])[:, 0]
        for _ in range(2):
            for i, vector in enumerate(basis):
                overlap = np.einsum("nu,nu->n", vector.conj(), image)
                hessenberg[:, i, k] += overlap
                image = image - overlap[:, None] * vector
        size = np.linalg.norm(image, axis=1)
        hessenberg[:, k + 1, k] = size
        basis.append(image / np.where(size > 0, size, 1.0)[:, None])
        if k % 5 == 4 or k == KRYLOV - 1:
            weights, residual = _least_squares(hessenberg[:, : k + 2, : k + 1], norm)
            if np.nanmax(residual / safe, initial=0.0) < 1e-9:
                break
    return np.asarray(np.einsum("nk,knu->nu", weights, np.array(basis[:-1])))


def _least_squares(hessenberg: Complex, norm: Complex) -> tuple[Complex, Complex]:
    finite = np.asarray(np.isfinite(hessenberg).all(axis=(1, 2)))
    safe = np.where(finite[:, None, None], hessenberg, 0)
    target = np.zeros(hessenberg.shape[:2], dtype=complex)
    target[:, 0] = norm
    weights = (np.linalg.pinv(safe) @ target[..., None])[..., 0]
    weights[~finite] = np.nan
    residual = np.linalg.norm((safe @ weights[..., None])[..., 0] - target, axis=1)
    return weights, np.asarray(residual)


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
