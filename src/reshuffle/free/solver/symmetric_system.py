"""The joint system of variables that may be exchanged: one unknown block per class, split by symmetry."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.checks import Complex, Real
from reshuffle.free.laws import Law
from reshuffle.free.solver.exchange import Exchange
from reshuffle.free.solver.isotypic import isotypic
from reshuffle.free.solver.transforms import Transform, inverse, transform_of

RANK = 1e-10


@dataclass(frozen=True)
class SymmetricState:
    """One evaluation of the map: the resolvent, whole and in blocks, the next unknowns, what tangents need."""

    resolvent: Complex
    image: Complex
    blocks: list[Complex]
    known: tuple[Any, ...]


@dataclass(frozen=True)
class _Block:
    """One type of one class's own rows: the transform there, and which unknowns fill it."""

    transform: Transform
    index: NDArray[np.int_]
    rows: NDArray[np.int_]
    columns: NDArray[np.int_]


class SymmetricSystem:
    """The system of `System` for a pencil that permutations of its variables keep.

    The resolvent commutes with them, so in each type of rows it is one small matrix; the subordination terms of the
    variables of a class are images of each other, and that of the last one commutes with the permutations of the
    others. The symmetrised product of B variables has about B^2/4 rows instead of 2^B. Restricting the resolvent to
    the range of one coefficient, and summing the terms of all variables, are constant matrices.

    Parameters
    ----------
    exchange : Exchange
        Of a real pencil.
    laws : of all variables.
    direction : diagonal of the matrix that z multiplies, shape (k,), zero outside of the first block.
    corner : rows of the first block.
    """

    direct = True

    def __init__(self, exchange: Exchange, laws: Sequence[Law], direction: Any, corner: int):
        b = exchange.coefficients
        types = isotypic(lambda x: exchange.average(x, exchange.swaps), b.shape[1])
        if types is None:
            raise ArithmeticError("the types of the rows are blurred by rounding")
        types = _corner_first(types, corner)
        ends = np.cumsum([0, *(u.shape[2] for u in types)])
        self.slices = [slice(int(a), int(z)) for a, z in itertools.pairwise(ends)]
        self.size = int(ends[-1])
        self.norm = float(sum(np.linalg.norm(x, 2) for x in b)) or 1.0
        self.constant, self.direction = np.zeros((self.size, self.size)), np.zeros((self.size, self.size))
        for where, u in zip(self.slices, types, strict=True):
            self.constant[where, where] = u[0].T @ b[0] @ u[0]
        self.direction[:corner, :corner] = np.diag(np.asarray(direction, dtype=float)[:corner])
        self._join(exchange, laws, types)

    def _join(self, exchange: Exchange, laws: Sequence[Law], types: list[Real]) -> None:
        """Lay out the unknowns of all classes, and how they enter the resolvent and come out of it."""
        self.blocks: list[_Block] = []
        spread: list[list[Real]] = [[] for _ in types]
        restrict: list[list[Real]] = [[] for _ in types]
        start = 0
        for members in exchange.classes:
            frame, inner = _own_rows(exchange, members[-1])
            core = frame.T @ exchange.coefficients[members[-1] + 1] @ frame
            for v in inner:
                rows, columns = np.triu_indices(v.shape[2])
                index = np.zeros((v.shape[2],) * 2, dtype=np.int_)
                index[rows, columns] = index[columns, rows] = start + np.arange(len(rows))
                start += len(rows)
                coefficient = (v[0].T @ core @ v[0]).astype(complex)
                self.blocks.append(_Block(transform_of(laws[members[-1]], coefficient), index, rows, columns))
                for number, u in enumerate(types):
                    both = _overlap(u, frame @ v)
                    # Unknowns fill two entries, and of what comes out the upper triangle tells all.
                    twice = both.reshape(*both.shape[:2], *index.shape)
                    twice = twice[..., rows, columns] + np.where(
                        rows != columns, twice[..., columns, rows], 0.0
                    )
                    spread[number].append(np.moveaxis(twice, 2, 0) * (len(members) / u.shape[0]))
                    restrict[number].append(
                        both.reshape(*both.shape[:2], *index.shape)[..., rows, columns] / v.shape[0]
                    )
        self.unknowns = start
        self.spread = [np.concatenate(part).astype(complex) for part in spread]
        self.triangles = [np.triu_indices(u.shape[2]) for u in types]
        self.restrict = [
            _folded(np.concatenate(part, axis=2), triangle)
            for part, triangle in zip(restrict, self.triangles, strict=True)
        ]

    def base(self, z: Complex, height: Complex) -> Complex:
        """Return ``z direction + i height - b_0``, shape (points, k, k)."""
        return np.asarray(
            z[:, None, None] * self.direction + 1j * height[:, None, None] * np.eye(self.size) - self.constant
        )

    def start(self, points: int) -> Complex:
        """Return the unknowns far up in the half-plane, where every H vanishes to first order."""
        return np.zeros((points, self.unknowns), dtype=complex)

    def evaluate(self, base: Complex, unknowns: Complex) -> SymmetricState:
        """Return the map at ``unknowns`` (points, unknowns) for ``base`` (points, k, k)."""
        blocks = [
            inverse(base[:, where, where] + np.tensordot(unknowns, spread, axes=1))
            for where, spread in zip(self.slices, self.spread, strict=True)
        ]
        inner = self._restricted(blocks)
        images, known = [], []
        for block in self.blocks:
            image, extra = block.transform.apply(inner[:, block.index], unknowns[:, block.index])
            images.append(image[:, block.rows, block.columns])
            known.append(extra)
        return SymmetricState(self._assembled(blocks), np.concatenate(images, axis=1), blocks, tuple(known))

    def _restricted(self, blocks: Sequence[Complex]) -> Complex:
        """Return upper triangles of the resolvent on the classes' own rows, (..., unknowns), from its blocks."""
        total: Any = 0
        for block, (rows, columns), matrix in zip(blocks, self.triangles, self.restrict, strict=True):
            total = total + block[..., rows, columns] @ matrix
        return np.asarray(total)

    def _assembled(self, blocks: Sequence[Complex]) -> Complex:
        total = np.zeros((*blocks[0].shape[:-2], self.size, self.size), dtype=complex)
        for where, block in zip(self.slices, blocks, strict=True):
            total[..., where, where] = block
        return total

    def _moved(self, state: SymmetricState, moves: Sequence[Complex], unknowns: Complex) -> Complex:
        """Return the derivative of the map as blocks of ``G^-1``, (points, count, ...), and unknowns move."""
        inner = self._restricted(
            [-(g[:, None] @ move @ g[:, None]) for g, move in zip(state.blocks, moves, strict=True)]
        )
        images = []
        for block, known in zip(self.blocks, state.known, strict=True):
            dg, dh = inner[..., block.index], unknowns[..., block.index]
            image = block.transform.tangent(known, dg, np.broadcast_to(dh, dg.shape))
            images.append(image[..., block.rows, block.columns])
        return np.concatenate(images, axis=-1)

    def tangent(self, state: SymmetricState, directions: Complex) -> Complex:
        """Return the derivative of the map along ``directions``, shape (points, count, unknowns)."""
        moves = [np.tensordot(directions, spread, axes=1) for spread in self.spread]
        return self._moved(state, moves, directions)

    def jacobian(self, state: SymmetricState) -> Complex:
        """Return the derivative of the map as matrices, shape (points, unknowns, unknowns)."""
        units = np.eye(self.unknowns, dtype=complex)[None]
        return self._moved(state, [spread[None] for spread in self.spread], units).transpose(0, 2, 1)

    def shift_tangent(self, state: SymmetricState, direction: Complex) -> Complex:
        """Return the derivative of the map when ``base`` moves along a matrix, shape (points, unknowns)."""
        whole = np.broadcast_to(direction, state.resolvent.shape)
        moves = [whole[:, None, where, where] for where in self.slices]
        return self._moved(state, moves, np.zeros((1, 1, self.unknowns), dtype=complex))[:, 0]

    def mirrored(self, unknowns: Complex) -> Complex:
        """Return the unknowns of the adjoint solution, which is that of the conjugate base."""
        return np.conj(unknowns)

    def resolvent_tangent(self, state: SymmetricState, direction: Any, unknowns: Complex) -> Complex:
        """Return the derivative of G as ``base`` moves along ``direction`` and the unknowns along theirs."""
        whole = np.broadcast_to(np.asarray(direction, dtype=complex), state.resolvent.shape)
        blocks = [
            -(g @ (whole[:, where, where] + np.tensordot(unknowns, spread, axes=1)) @ g)
            for g, where, spread in zip(state.blocks, self.slices, self.spread, strict=True)
        ]
        return self._assembled(blocks)


def _own_rows(exchange: Exchange, number: int) -> tuple[Real, list[Real]]:
    """Return a frame of the range of one variable's coefficient, and its types under what keeps the variable."""
    values, vectors = np.linalg.eigh(exchange.coefficients[number + 1])
    frame = vectors[:, np.abs(values) > RANK * max(float(np.abs(values).max()), 1e-300)]
    swaps = {pair: frame.T @ swap @ frame for pair, swap in exchange.swaps.items() if number not in pair}
    types = isotypic(lambda x: exchange.average(x, swaps, number), frame.shape[1], seed=1)
    if types is None:
        raise ArithmeticError("the types of a coefficient's rows are blurred by rounding")
    return frame, types


def _overlap(outer: Real, inner: Real) -> Real:
    """Return the sum over vectors a, b of ``J_ab (x) J_ab``, ``J_ab = outer_a' inner_b``, as (m, m, n^2)."""
    links = np.einsum("aki,bkj->abij", outer, inner, optimize=True).reshape(
        -1, outer.shape[2], inner.shape[2]
    )
    m, n = links.shape[1:]
    flat = links.reshape(len(links), m * n)
    whole = (flat.T @ flat).reshape(m, n, m, n).transpose(0, 2, 1, 3)
    return np.asarray(whole.reshape(m, m, n * n))


def _folded(matrix: Real, triangle: tuple[NDArray[np.int_], NDArray[np.int_]]) -> Complex:
    """Return a map from all entries of symmetric matrices (m, m, count) as one from their upper triangles."""
    rows, columns = triangle
    whole = matrix[rows, columns] + np.where((rows != columns)[:, None], matrix[columns, rows], 0.0)
    return np.asarray(whole.astype(complex))


def _corner_first(types: list[Real], corner: int) -> list[Real]:
    """Return the types with that of the first block at the front, and the rows of that block first in it."""
    weights = [float(np.abs(u[:, :corner]).max()) if u.shape[0] == 1 else 0.0 for u in types]
    trivial = types.pop(int(np.argmax(weights)))[0]
    first = np.eye(trivial.shape[0])[:, :corner]
    rest = trivial - first @ (first.T @ trivial)
    left, _, _ = np.linalg.svd(rest, full_matrices=False)
    basis = np.concatenate([first, left[:, : trivial.shape[1] - corner]], axis=1)
    return [basis[None], *types]
