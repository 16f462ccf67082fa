"""The joint system of variables that may be exchanged: one unknown block per class, split by symmetry.

`exchange` finds the variables that a pencil does not tell apart, and how exchanging two of them acts on its rows;
`isotypic` splits a space on which a finite group acts into copies of what the group cannot split further.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from reshuffle.free.checks import Complex, Real
from reshuffle.free.laws import Law
from reshuffle.free.laws.law import Affine
from reshuffle.free.solver.transforms import Transform, inverse, transform_of

APART = 1e-7
ALIKE = 1e-5

SAME = 1e-9
"""Of the pencil's size: how far an exchanged one may be off."""
INDEPENDENT = 1e-7
POINTS = (0.0, 0.37, -0.61, 0.93)

Pair = tuple[int, int]

RANK = 1e-10


def isotypic(average: Callable[[Real], Real], size: int, seed: int = 0) -> list[Real] | None:
    """Return an orthonormal basis in which all that the group leaves alone is block-diagonal, by type.

    The eigenspaces of a random invariant symmetric matrix are irreducible; a second one tells which of them are
    copies of the same type, and turns their bases into each other (Schur's lemma).

    Parameters
    ----------
    average : (size, size) -> (size, size)
        The mean of ``S' X S`` over an orthogonal group.

    Returns
    -------
    list of (dimension, size, copies), one per type
        An invariant X is ``sum_a U_a X_0 U_a'`` over the types with ``X_0 = U_0' X U_0``. None if rounding
        blurs it.

    >>> flip = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> [u.shape for u in isotypic(lambda x: (x + flip @ x @ flip) / 2, 2)]
    [(1, 2, 1), (1, 2, 1)]
    """
    generator = np.random.default_rng(seed)
    first, second = (average(x + x.T) for x in generator.standard_normal((2, size, size)))
    values, vectors = np.linalg.eigh((first + first.T) / 2)
    cuts = np.flatnonzero(np.diff(values) > APART * max(float(np.abs(values).max()), 1e-300)) + 1
    spaces = np.split(vectors, cuts, axis=1)
    types: list[list[Real]] = []
    for space in spaces:
        for copies in types:
            link = copies[0].T @ second @ space
            if link.shape[0] != link.shape[1] or np.abs(link).max() < ALIKE:
                continue
            left, sizes, right = np.linalg.svd(link)
            if sizes[0] - sizes[-1] > ALIKE * sizes[0]:
                return None
            copies.append(space @ (left @ right).T)
            break
        else:
            types.append([space])
    # Axes: which of the vectors of a copy, rows, which copy.
    return [np.array(copies).transpose(2, 1, 0) for copies in types]


@dataclass(frozen=True)
class Exchange:
    """Classes of variables that may be exchanged, in rows where doing so is orthogonal.

    Attributes
    ----------
    coefficients : (m + 1, k, k)
        The pencil in these rows; those of the first block are as they were.
    classes : lists of variables, numbered from 0; each variable is in one.
    swaps : pair (i, j), i < j, of one class -> (k, k)
        The orthogonal matrix S with ``S' b_i S = b_j``, ``S' b_j S = b_i``, which keeps all others.
    """

    coefficients: Real
    classes: tuple[tuple[int, ...], ...]
    swaps: dict[Pair, Real]

    def average(self, matrix: Real, swaps: dict[Pair, Real], fixed: int | None = None) -> Real:
        """Return the mean of ``S' matrix S`` over all permutations that keep the variable ``fixed``.

        Every permutation of n variables is one of n - 1 of them and one exchange with the last, so that n (n - 1)/2
        products make the mean over n! of them. ``swaps`` are those of the same pairs, in any rows.
        """
        for members in self.classes:
            others = [member for member in members if member != fixed]
            for count in range(1, len(others)):
                last = others[count]
                total = matrix.copy()
                for member in others[:count]:
                    swap = swaps[min(member, last), max(member, last)]
                    total += swap.T @ matrix @ swap
                matrix = total / (count + 1)
        return matrix


def exchange(coefficients: Real, corner: int, laws: Sequence[Law]) -> Exchange | None:
    """Return what can be exchanged in a minimal pencil, or None if nothing can.

    A minimal pencil is unique but for a change of its rows (Schuetzenberger, 1961): where an expression is the same
    after an exchange of two variables there is one such change, and it is found from what the two pencils make of
    the same words.

    Parameters
    ----------
    coefficients : real symmetric ``[b_0, ..., b_m]``, (m + 1, k, k); corner : rows of the first block.
    laws : of the m variables.
    """
    words = _Words.of(coefficients, corner)
    if words is None:
        return None
    found: list[list[int]] = []
    swaps: dict[Pair, Real] = {}
    for number, law in enumerate(laws):
        for members in found:
            first = members[0]
            if not _same_law(laws[first], law):
                continue
            swap = words.swap(first, number)
            if swap is not None:
                swaps[first, number] = swap
                members.append(number)
                break
        else:
            found.append([number])
    if all(len(members) == 1 for members in found):
        return None
    for members in found:
        for i, j in itertools.combinations(members[1:], 2):
            # (i j) = (1 i)(1 j)(1 i).
            outer = swaps[members[0], i]
            swaps[i, j] = outer @ swaps[members[0], j] @ outer
    plain = Exchange(words.coefficients, tuple(tuple(members) for members in found), swaps)
    return _orthogonal(plain)


def _orthogonal(plain: Exchange) -> Exchange | None:
    """Return the same in rows in which every exchange is orthogonal: those of an invariant form."""
    form = plain.average(np.eye(plain.coefficients.shape[1]), plain.swaps)
    values, vectors = np.linalg.eigh((form + form.T) / 2)
    if values[0] < 1e-8 * values[-1]:
        return None
    root, inverse = (vectors * values**0.5) @ vectors.T, (vectors * values**-0.5) @ vectors.T
    coefficients = inverse @ plain.coefficients @ inverse
    swaps = {}
    for pair, swap in plain.swaps.items():
        turned = root @ swap @ inverse
        turned = (turned + turned.T) / 2
        # Its own inverse: one step of Newton's method for that takes the rounding out.
        swaps[pair] = (3 * turned - turned @ turned @ turned) / 2
    return Exchange((coefficients + coefficients.transpose(0, 2, 1)) / 2, plain.classes, swaps)


def _same_law(left: Law, right: Law) -> bool:
    """Return whether two laws are surely the same."""
    if isinstance(left, Affine) and isinstance(right, Affine):
        return (left.factor, left.shift) == (right.factor, right.shift) and _same_law(left.base, right.base)
    if left is right:
        return True
    if left.rational_r is not None:
        return left.rational_r == right.rational_r
    return not left.support and not right.support and left.atoms == right.atoms


@dataclass(frozen=True)
class _Words:
    """Words that reach every row of the pencil: each is a letter before an earlier one."""

    coefficients: Real
    corner: int
    starts: Real
    maps: Real
    letters: list[int]
    parents: list[int]
    sizes: list[float]
    reached: Real

    @staticmethod
    def of(coefficients: Real, corner: int) -> "_Words | None":
        states = coefficients.shape[1] - corner
        if states == 0:
            return None
        # All variables at one number, which no exchange changes.
        values = [coefficients[0] + point * coefficients[1:].sum(axis=0) for point in POINTS]
        conditions = [float(np.linalg.cond(value[corner:, corner:])) for value in values]
        best = int(np.argmin(conditions))
        if conditions[best] > 1e6:
            return None
        middle = values[best][corner:, corner:]
        # Rows may also be shifted by those of the first block; the shift that parts them there is one of a kind.
        shift = np.eye(len(values[best]))
        shift[corner:, :corner] = -np.linalg.solve(middle, values[best][corner:, :corner])
        coefficients = shift.T @ coefficients @ shift
        images = np.linalg.solve(middle, coefficients[:, corner:, :])
        return _Words._spanning(coefficients, corner, images[:, :, :corner], images[1:, :, corner:])

    @staticmethod
    def _spanning(coefficients: Real, corner: int, starts: Real, maps: Real) -> "_Words | None":
        letters: list[int] = []
        parents: list[int] = []
        sizes: list[float] = []
        states = maps.shape[1]
        basis = np.zeros((states, 0))
        columns: list[Real] = []
        trials = [
            (letter, -1 - c, starts[letter][:, c]) for letter in range(len(starts)) for c in range(corner)
        ]
        while trials:
            vectors = np.array([vector for _, _, vector in trials]).T
            norms = np.linalg.norm(vectors, axis=0)
            # What cancels leaves rounding behind, which has a direction too.
            vectors = np.where(
                norms > 1e-10 * np.abs(maps).max(), vectors / np.where(norms > 0, norms, 1.0), 0.0
            )
            residual = vectors.copy()
            for _ in range(2):
                residual = residual - basis @ (basis.T @ residual)
            q, r, order = qr(residual, mode="economic", pivoting=True)
            rank = int(np.sum(np.abs(np.diag(r)) > INDEPENDENT))
            first = len(columns)
            for place in order[:rank]:
                letter, parent, _ = trials[place]
                letters.append(letter)
                parents.append(parent)
                sizes.append(float(norms[place]))
                columns.append(vectors[:, place])
            basis = np.concatenate([basis, q[:, :rank]], axis=1)
            new = range(first, len(columns))
            trials = [(j + 1, i, maps[j] @ columns[i]) for i in new for j in range(len(maps))]
        if len(columns) < states:
            return None
        return _Words(coefficients, corner, starts, maps, letters, parents, sizes, np.array(columns).T)

    def swap(self, first: int, second: int) -> Real | None:
        """Return S for the exchange of two variables, or None if the pencil is not the same after it."""
        renamed = np.arange(len(self.starts))
        renamed[[first + 1, second + 1]] = second + 1, first + 1
        moved = np.zeros_like(self.reached)
        for number, (letter, parent, size) in enumerate(
            zip(self.letters, self.parents, self.sizes, strict=True)
        ):
            target = renamed[letter]
            vector = (
                self.starts[target][:, -1 - parent]
                if parent < 0
                else self.maps[target - 1] @ moved[:, parent]
            )
            moved[:, number] = vector / size
        whole = np.eye(self.coefficients.shape[1])
        states = slice(self.corner, None)
        # All words of one more letter: so many equations tell S with less rounding than the chosen ones alone.
        after = self._longer(moved, renamed)
        whole[states, states] = np.linalg.solve(self._factors[1], self._factors[0].T @ after.T).T
        exchanged = whole.T @ self.coefficients @ whole
        off = np.abs(exchanged - self.coefficients[renamed]).max()
        return whole if off <= SAME * np.abs(self.coefficients).max() else None

    def _longer(self, vectors: Real, renamed: NDArray[np.int_]) -> Real:
        maps = self.maps[renamed[1:] - 1]
        first = self.starts[renamed].transpose(1, 0, 2).reshape(len(vectors), -1)
        return np.concatenate([first, *(a @ vectors for a in maps)], axis=1)

    @cached_property
    def _factors(self) -> tuple[Real, Real]:
        """Orthogonal and triangular factors of all words of one more letter, as rows."""
        q, r = np.linalg.qr(self._longer(self.reached, np.arange(len(self.starts))).T)
        return q, r


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
