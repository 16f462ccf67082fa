"""The joint fixed-point system of all variables, reduced to the ranges of their coefficients.

`FixedPoint` and `PencilSystem` are the protocols of such systems; `solve` is the linear system of Newton's method,
and `find_folds` finds the ends of a spectrum, where two solutions meet.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from reshuffle.free import progress
from reshuffle.free.checks import Complex, Real
from reshuffle.free.laws import Law

KRYLOV = 40
"""Directions after which GMRES ends."""

DENSE = 60
"""Unknowns up to which their Jacobian is made; beyond, its products with vectors cost less."""

FEW_POINTS = 24
"""Points of a discrete law up to which it is a sum over them."""

# Folds
ROUNDS = 10
"""Steps along the curve of solutions."""
RETURNS = 6
"""Steps of Newton's method back to the curve, after each of them."""
EXACT = 1e-15
"""Largest change of an end by the next step, relative to the size of the spectrum."""
ASTRAY = 2.0
"""Distance up to which a fold is followed beyond the two points around it, relative to their distance."""
LEVEL = 1e-9
"""Imaginary part that a fold on the real axis may have, in the same units."""


class Derivative(Protocol):
    """The derivative of a map at its states.

    Attributes
    ----------
    unknowns : their number; direct : True if the Jacobian is cheap enough to be made and factored.
    """

    unknowns: int
    direct: bool

    def tangent(self, state: Any, directions: Complex) -> Complex:
        """Return the derivative of the map along ``directions``, shape (points, count, unknowns)."""
        return np.asarray(directions @ self.jacobian(state).transpose(0, 2, 1))

    def jacobian(self, state: Any) -> Complex:
        """Return the derivative of the map as matrices, shape (points, unknowns, unknowns)."""


class FixedPoint(Derivative, Protocol):
    """The unknowns of a resolvent: its solution is where ``evaluate(base, unknowns).image`` is ``unknowns``.

    Attributes
    ----------
    size : k, the rows of the resolvent; norm : of everything that is added to z.
    """

    size: int
    norm: float

    def base(self, z: Complex, height: Complex) -> Complex:
        """Return what z and the height above the axis are to the resolvent, shape (points, k, k)."""

    def start(self, points: int) -> Complex:
        """Return the unknowns far up in the half-plane."""

    def evaluate(self, base: Complex, unknowns: Complex) -> Any:
        """Return its ``resolvent`` (points, k, k), its ``image`` (points, unknowns), and what tangents need."""

    def shift_tangent(self, state: Any, direction: Complex) -> Complex:
        """Return the derivative of the map when ``base`` moves along a matrix, shape (points, unknowns)."""

    def resolvent_tangent(self, state: Any, direction: Any, unknowns: Complex) -> Complex:
        """Return the derivative of G as ``base`` moves along ``direction`` and the unknowns along theirs."""


class PencilSystem(FixedPoint, Protocol):
    """The system of a pencil, whose ends are folds; z multiplies the matrix ``direction`` (k, k)."""

    direction: Real

    def mirrored(self, unknowns: Complex) -> Complex:
        """Return the unknowns of the adjoint solution, which is that of the conjugate base."""


def solve(system: Derivative, state: Any, right: Complex) -> Complex:
    """Return x with ``(1 - D) x = right``, D the derivative of the map at ``state``.

    ``right`` and the answer have shape (points, sides, unknowns): several right-hand sides share the work.
    """
    if not system.direct:
        sides = range(right.shape[1])
        return np.stack([krylov_solve(system, state, right[:, side]) for side in sides], axis=1)
    return dense_solve(np.eye(system.unknowns) - system.jacobian(state), right)


def dense_solve(matrix: Complex, right: Complex) -> Complex:
    """Return the solutions (points, sides, unknowns) of linear systems, nan where a matrix is not finite."""
    finite = np.isfinite(matrix).all(axis=(1, 2))
    if not finite.all():
        matrix[~finite] = np.eye(matrix.shape[1])
    columns = right.transpose(0, 2, 1)
    try:
        answer = np.linalg.solve(matrix, columns)
    except np.linalg.LinAlgError:
        # One exactly singular point must not stop the others; the least-norm step is as good as any there.
        answer = np.linalg.pinv(matrix) @ columns
    if not finite.all():
        answer[~finite] = np.nan
    return np.asarray(answer.transpose(0, 2, 1))


def krylov_solve(system: Derivative, state: Any, right: Complex) -> Complex:
    """Return x with ``(1 - D) x = right`` (points, unknowns) by GMRES, from products with D alone.

    Arnoldi for all points together; D contracts, so a few dozen directions are enough.
    """
    norm = np.linalg.norm(right, axis=1)
    safe = np.where(norm > 0, norm, 1.0)
    basis = [right / safe[:, None]]
    hessenberg = np.zeros((len(right), KRYLOV + 1, KRYLOV), dtype=right.dtype)
    for k in range(KRYLOV):
        image = basis[k] - system.tangent(state, basis[k][:, None])[:, 0]
        image = image if np.iscomplexobj(right) else image.real
        for _ in range(2):
            for i, vector in enumerate(basis):
                overlap = np.einsum("nu,nu->n", vector.conj(), image)
                hessenberg[:, i, k] += overlap
                image = image - overlap[:, None] * vector
        size = np.linalg.norm(image, axis=1)
        hessenberg[:, k + 1, k] = size
        basis.append(image / np.where(size > 0, size, 1.0)[:, None])
        if k % 5 == 4 or k == KRYLOV - 1:
            small = hessenberg[:, : k + 2, : k + 1]
            finite = np.asarray(np.isfinite(small).all(axis=(1, 2)))
            small = np.where(finite[:, None, None], small, 0)
            target = np.zeros(small.shape[:2], dtype=right.dtype)
            target[:, 0] = norm
            weights = (np.linalg.pinv(small) @ target[..., None])[..., 0]
            weights[~finite] = np.nan
            residual = np.linalg.norm((small @ weights[..., None])[..., 0] - target, axis=1)
            if np.nanmax(residual / safe, initial=0.0) < 1e-9:
                break
    return np.asarray(np.einsum("nk,knu->nu", weights, np.array(basis[:-1])))


class Folds(NamedTuple):
    """Points (n,) of the real axis at which two solutions meet, nan where none was found.

    At a point x close by the unknowns are ``unknowns + sqrt(x - place) leaving``, with either root; ``steps`` are
    those of Newton's method, over all curves.
    """

    places: Real
    unknowns: Complex
    leaving: Complex
    steps: int


class _Curve(Derivative):
    """The derivative of a system with x as one unknown more, and the parameter s, along ``row``, as one equation.

    The states are pairs: that of the system, and how the map moves with x.
    """

    def __init__(self, system: PencilSystem, row: Complex):
        self.system, self.row = system, row
        self.unknowns, self.direct = system.unknowns + 1, system.direct

    def jacobian(self, state: tuple[Any, Complex]) -> Complex:
        inner, moved = state
        total = np.zeros((len(moved), self.unknowns, self.unknowns), dtype=moved.dtype)
        total[:, :-1, :-1], total[:, :-1, -1] = self.system.jacobian(inner), moved
        total[:, -1, :-1], total[:, -1, -1] = -self.row, 1.0
        return total

    def tangent(self, state: tuple[Any, Complex], directions: Complex) -> Complex:
        inner, moved = state
        along, x = directions[..., :-1], directions[..., -1:]
        image = self.system.tangent(inner, along) + x * moved[:, None]
        return np.concatenate([image, x - along @ self.row[..., None]], axis=-1)


def find_folds(system: PencilSystem, start: Real, beyond: Real, unknowns: Complex) -> Folds:
    """Return the folds between points start (n,), at which solutions are known, and points beyond.

    At a regular end two solutions meet, conjugates of each other inside and real outside, and the Jacobian is
    singular. Unknowns and x are analytic functions of a parameter s there, the component of the unknowns along
    their own derivative, and the end is the zero of ``dx/ds``: a function without a root in it. Each of its values
    is a linear system with one row more, which the fold leaves regular (Keller, 1977). The secant method starts
    inside from the solutions (n, unknowns) and their conjugates; from real ones, outside, it starts as if the fold
    were half way. Where s is known to half of the digits, x is known to all.

    Which sheet the fold is on is not checked: solutions that are none of the spectrum's turn back too.
    """

    def differentiated(x: Complex, unknowns: Complex) -> tuple[Any, Complex]:
        """Return the map, and its derivative as x moves."""
        progress.step()
        state = system.evaluate(system.base(x, np.zeros(len(x))), unknowns)
        return state, system.shift_tangent(state, system.direction)

    count, kind, steps = len(start), unknowns.dtype, 0
    state, moved = differentiated(start.astype(kind), unknowns)
    along = solve(system, state, moved[:, None])[:, 0]
    row = along.conj() / np.linalg.norm(along, axis=1)[:, None] ** 2
    curve = _Curve(system, row)
    # Along the first solution's own derivative s is x: the slope there is one.
    parameter, turning = np.zeros(count, dtype=kind), np.ones(count, dtype=kind)
    origin, other = _inner(row, unknowns), system.mirrored(unknowns) - unknowns
    if other.any():
        distance, slope = _inner(row, other), 1 / _inner(row, system.mirrored(along))
        step, bend = distance / (1 - slope), (slope - 1) / distance
        unknowns = unknowns + (step / distance)[:, None] * other
    else:
        step = beyond - start
        bend, unknowns = -1 / step, unknowns + step[:, None] * along
    x = start + step / 2
    middle, reach = (start + beyond) / 2, ASTRAY * np.abs(start - beyond)
    settled = np.zeros(count, dtype=bool)
    last = np.zeros((count, 1, curve.unknowns), dtype=kind)
    last[:, :, -1] = 1.0
    for _ in range(ROUNDS):
        # To the parameter at which the slope dx/ds seemed to vanish, and back to the curve there.
        parameter = parameter + step
        for _ in range(RETURNS):
            state, moved = differentiated(x, unknowns)
            away = (parameter + origin - _inner(row, unknowns))[:, None]
            right = np.concatenate([state.image - unknowns, away], axis=1)
            change = solve(curve, (state, moved), right[:, None])[:, 0]
            unknowns, x = unknowns + change[:, :-1], x + change[:, -1]
            length = np.linalg.norm(change, axis=1) / (1 + np.linalg.norm(unknowns, axis=1))
            steps += count
            lost = ~(np.abs(x - middle) <= reach)
            if np.all((length <= 1e-13) | lost):
                break
        # The slope there predicts where it vanishes.
        tangent = solve(curve, (state, moved), last)[:, 0]
        along, change = tangent[:, :-1], turning - tangent[:, -1]
        bend = np.where(settled, bend, -change / step)
        turning = turning - change
        step = np.where(settled, 0.0, -turning / bend)
        settled |= (length <= 1e-11) & (np.abs(step * turning) <= EXACT)
        unknowns, x = unknowns + step[:, None] * along, x + step * turning / 2
        if np.all(settled | ~(np.abs(x - middle) <= reach)):
            break
    low, high = np.minimum(start, beyond), np.maximum(start, beyond)
    found = settled & (np.abs(x.imag) <= LEVEL) & (x.real >= low) & (x.real <= high)
    # Near the fold x is place + bend s^2/2.
    leaving = along * np.sqrt(2 / bend + 0j)[:, None]
    return Folds(np.where(found, x.real, np.nan), unknowns, leaving, steps)


def _inner(row: Complex, vectors: Complex) -> Complex:
    return np.asarray(np.einsum("nu,nu->n", row, vectors))


class State(NamedTuple):
    """One evaluation of the map: the resolvent G, its compression, the next unknowns, what tangents need."""

    resolvent: Complex
    compressed: Complex
    image: Complex
    known: tuple[Any, ...]


class System(PencilSystem):
    """The joint system of all variables' subordination terms.

    ``G = (b + sum_j U_j H_j U_j*)^-1`` with ``H_j = G_j(omega_j)^-1 - omega_j`` on the range of
    ``b_j = U_j C_j U_j*``. The unknowns are the blocks H_j alone. When the pencil is real they are symmetric,
    since a free family has the same law when all words are reversed, and only upper triangles are unknown.

    ``coefficients`` are Hermitian, ``[b_0, b_1, ...]`` of shape (m + 1, k, k), ``laws`` those of the m variables,
    and ``direction`` (k,) is the diagonal of the matrix that z multiplies.
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
        """Number the unknowns: for each the block and entry it fills, and for each entry its unknown."""
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
        self.moves = np.zeros((self.unknowns, self.size, self.size), dtype=complex)
        for frame, unit in zip(self.frames, units, strict=True):
            self.moves += frame @ unit @ frame.conj().T
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
        resolvent = inverse(base + self._moved(unknowns))
        compressed, inner = self._seen(resolvent)
        images, known = [], []
        for g, transform, h in zip(inner, self.transforms, blocks, strict=True):
            image, extra = transform.apply(g, h)
            images.append(image)
            known.append(extra)
        image = self.pack(images) if images else np.zeros_like(unknowns)
        return State(resolvent, compressed, image, tuple(known))

    def tangent(self, state: State, directions: Complex) -> Complex:
        blocks, seen = self.unpack(directions), state.compressed
        seen = (self.frame.conj().T @ state.resolvent @ self.frame if self.direct else seen)[:, None]
        images = []
        for i, row in enumerate(self.blocks):
            dg: Any = 0
            for column, dh in zip(self.blocks, blocks, strict=True):
                dg = dg - seen[..., row, column] @ dh @ seen[..., column, row]
            images.append(self.transforms[i].tangent(state.known[i], dg, blocks[i]))
        return self.pack(images)

    def jacobian(self, state: State) -> Complex:
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
        moved = -(state.resolvent @ direction @ state.resolvent)
        inner = self._seen(moved)[1]
        images = []
        for part, transform, known in zip(inner, self.transforms, state.known, strict=True):
            dg = part[:, None]
            images.append(transform.tangent(known, dg, np.zeros_like(dg)))
        return self.pack(images)[:, 0] if images else np.zeros((len(moved), 0), dtype=complex)

    def mirrored(self, unknowns: Complex) -> Complex:
        return self.pack([h.conj().swapaxes(-1, -2) for h in self.unpack(unknowns)])

    def resolvent_tangent(self, state: State, direction: Any, unknowns: Complex) -> Complex:
        total = direction + self._moved(unknowns)
        return np.asarray(-(state.resolvent @ total @ state.resolvent))

    def _moved(self, unknowns: Complex) -> Complex:
        """Return ``sum_j U_j H_j U_j*``, shape (points, k, k)."""
        if self.direct:
            flat = unknowns @ self.moves.reshape(self.unknowns, self.size**2)
            return np.asarray(flat.reshape(-1, self.size, self.size))
        total = np.zeros((len(unknowns), self.size, self.size), dtype=complex)
        for frame, h in zip(self.frames, self.unpack(unknowns), strict=True):
            total += frame @ h @ frame.conj().T
        return total

    def _seen(self, matrices: Complex) -> tuple[Complex, list[Complex]]:
        """Return G (points, k, k) compressed to the ranges of the coefficients, and its blocks ``U_j* G U_j``.

        A small system keeps no more than the diagonal blocks.
        """
        if self.direct:
            flat = matrices.reshape(len(matrices), -1) @ self.seen
            pairs = zip(self.entries, self.indices, strict=True)
            return flat, [flat[:, entries].reshape(-1, *index.shape) for entries, index in pairs]
        compressed = self.frame.conj().T @ matrices @ self.frame
        return compressed, [compressed[:, block, block] for block in self.blocks]


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


class Transform(ABC):
    """The map ``(g, H) -> H'`` of one variable; arrays have shape (points, rank, rank)."""

    @abstractmethod
    def apply(self, g: Complex, h: Complex) -> tuple[Complex, Any]:
        """Return the next H, and what `tangent` needs to know."""

    @abstractmethod
    def tangent(self, known: Any, dg: Complex, dh: Complex) -> Complex:
        """Return the derivative of the next H along ``(dg, dh)``, each (points, directions, rank, rank)."""

    def derivatives(self, known: Any, points: int, rank: int) -> tuple[Complex, Complex | None]:
        """Return the derivatives along g and H over the entries, (points, rank^2, rank^2); None means zero."""
        units = np.eye(rank * rank, dtype=complex).reshape(1, -1, rank, rank)
        units = np.broadcast_to(units, (points, *units.shape[1:]))
        none = np.zeros_like(units)
        pairs = (self.tangent(known, units, none), self.tangent(known, none, units))
        first, second = (image.reshape(points, rank**2, rank**2).transpose(0, 2, 1) for image in pairs)
        return first, second


class RationalR(Transform):
    """For ``R(t) = a + b t/(1 + c t)``: ``H' = -C R(g C) = -(a + (a c + b) C g) C (1 + c g C)^-1``.

    The semicircle (c = 0) and Marchenko-Pastur laws; no eigenvalues, no branches, one small inverse.
    """

    def __init__(self, coefficient: Complex, r: tuple[float, float, float]):
        self.coefficient = coefficient
        self.a, self.b, self.c = r
        both = self.a * self.c + self.b
        # It vanishes for Marchenko-Pastur laws; the sum a + b t/(1 + c t) would cancel at their hard edge.
        self.slope = both if abs(both) > 1e-15 * abs(self.b) else 0.0

    def apply(self, g: Complex, h: Complex) -> tuple[Complex, Any]:
        """Return the next H, and ``X = C (1 + c g C)^-1``."""
        c = self.coefficient
        factor = c @ inverse(np.eye(len(c)) + self.c * (g @ c))
        return -(self.a * factor + self.slope * (c @ g @ factor)), factor

    def tangent(self, known: Any, dg: Complex, dh: Complex) -> Complex:
        """Return ``-b X dg X``."""
        x = known[:, None]
        return np.asarray(-self.b * (x @ dg @ x))

    def derivatives(self, known: Any, points: int, rank: int) -> tuple[Complex, Complex | None]:
        """Return ``-b X (x) X``; H itself does not enter."""
        return -self.b * sandwich(known[:, None], known[:, None]), None


class _Subordinated(Transform):
    """Laws known by G: ``A = g^-1 - H``, ``Gamma = E[(A - C x)^-1]``, ``H' = Gamma^-1 - A``."""

    def __init__(self, coefficient: Complex, law: Law):
        self.coefficient, self.law = coefficient, law

    @abstractmethod
    def _resolvent(self, a: Complex) -> tuple[Complex, Any]:
        """Return ``E[(A - C x)^-1]`` and what its derivative needs."""

    @abstractmethod
    def _resolvent_tangent(self, known: Any, da: Complex) -> Complex:
        """Return the derivative of ``E[(A - C x)^-1]`` along ``da``."""

    def apply(self, g: Complex, h: Complex) -> tuple[Complex, Any]:
        g_inverse = inverse(g)
        a = g_inverse - h
        gamma, known = self._resolvent(a)
        gamma_inverse = inverse(gamma)
        return gamma_inverse - a, (g_inverse, gamma_inverse, known)

    def tangent(self, known: Any, dg: Complex, dh: Complex) -> Complex:
        """Return ``-Gamma^-1 dGamma Gamma^-1 - dA`` with ``dA = -g^-1 dg g^-1 - dH``."""
        g_inverse, gamma_inverse, inner = known
        da = -(g_inverse[:, None] @ dg @ g_inverse[:, None]) - dh
        moved = gamma_inverse[:, None] @ self._resolvent_tangent(inner, da) @ gamma_inverse[:, None]
        return np.asarray(-moved - da)


class PointSum(Transform):
    """For discrete laws, with ``Y = H + C x``: ``S = E[Y (1 - g Y)^-1]`` and ``H' = H - (1 + S g)^-1 S``.

    A finite sum that never inverts g, which is singular on the real axis when a row of the pencil serves a
    weight alone.
    """

    def __init__(self, coefficient: Complex, points: Real, weights: Real):
        self.coefficient = coefficient
        self.points, self.weights = points, weights

    def apply(self, g: Complex, h: Complex) -> tuple[Complex, Any]:
        identity = np.eye(g.shape[-1])
        y = h[:, None] + self.points[:, None, None] * self.coefficient
        right = inverse(identity - g[:, None] @ y)
        total = np.einsum("k,nkij->nij", self.weights, y @ right)
        outer = inverse(identity + total @ g)
        change = outer @ total
        left = inverse(identity - y @ g[:, None])
        return h - change, (y, left, right, outer, change, identity - g @ change)

    def tangent(self, known: Any, dg: Complex, dh: Complex) -> Complex:
        """Return ``dH - (1 + S g)^-1 dS (1 + g S)^-1 + U dg U`` with ``U = (1 + S g)^-1 S``."""
        y, left, right, outer, change, inner = known
        moved = np.zeros_like(dg)
        for k, weight in enumerate(self.weights):
            point = y[:, k][:, None]
            moved = moved + weight * (left[:, k][:, None] @ (dh + point @ dg @ point) @ right[:, k][:, None])
        bent = change[:, None] @ dg @ change[:, None]
        return np.asarray(dh - outer[:, None] @ moved @ inner[:, None] + bent)

    def derivatives(self, known: Any, points: int, rank: int) -> tuple[Complex, Complex | None]:
        """Return the two derivatives, sums over the points of the law made as products of matrices."""
        y, left, right, outer, change, inner = known
        before, after = outer[:, None] @ left, right @ inner[:, None]
        weighted = self.weights[:, None, None] * before
        along_h = np.eye(rank * rank) - sandwich(weighted, after)
        along_g = sandwich(change[:, None], change[:, None]) - sandwich(weighted @ y, y @ after)
        return along_g, along_h


class ScalarTransform(_Subordinated):
    """For a coefficient of rank one: ``E[(A - C x)^-1] = G(A/C)/C``."""

    def _resolvent(self, a: Complex) -> tuple[Complex, Any]:
        t = a / self.coefficient
        return self.law._cauchy(t) / self.coefficient, self.law._cauchy_derivative(t) / self.coefficient**2

    def _resolvent_tangent(self, known: Any, da: Complex) -> Complex:
        return np.asarray(known[:, None] * da)


class Diagonalised(_Subordinated):
    """For every other law: ``E[(A - C x)^-1] = G(T) C^-1``, with ``T = C^-1 A`` diagonalised."""

    def __init__(self, coefficient: Complex, law: Law):
        super().__init__(coefficient, law)
        self.inverse = np.linalg.inv(coefficient)

    def _resolvent(self, a: Complex) -> tuple[Complex, Any]:
        t = self.inverse @ a
        # A failed step has no eigenvalues: it stays nan, and the path takes another one.
        failed = np.asarray(~np.isfinite(t).all(axis=(1, 2)))
        if failed.any():
            t = np.where(failed[:, None, None], np.eye(t.shape[-1]), t)
        # Moved by a few roundings, so that exactly defective matrices diagonalise.
        nudge = np.diag(np.arange(t.shape[-1])) * np.abs(t).max(axis=(1, 2))[:, None, None] * 1e-15
        values, vectors = np.linalg.eig(t + nudge)
        back = inverse(vectors)
        g = self.law._cauchy(values)
        if failed.any():
            g = np.where(failed[:, None], np.nan, g)
        gamma = (vectors * g[:, None, :]) @ back @ self.inverse
        return gamma, (values, vectors, back @ self.inverse, g)

    def _resolvent_tangent(self, known: Any, da: Complex) -> Complex:
        values, vectors, right, g = known
        slopes = divided_differences(values, g, self.law._cauchy_derivative(values))
        inner = right[:, None] @ da @ vectors[:, None]
        return np.asarray(vectors[:, None] @ (slopes[:, None] * inner) @ right[:, None])

    def derivatives(self, known: Any, points: int, rank: int) -> tuple[Complex, Complex | None]:
        """Return the two derivatives as products of three matrices over the entries, the middle one diagonal."""
        g_inverse, gamma_inverse, (values, vectors, right, g) = known
        slopes = divided_differences(values, g, self.law._cauchy_derivative(values)).reshape(points, 1, -1)
        outer = sandwich((gamma_inverse @ vectors)[:, None], (right @ gamma_inverse)[:, None])
        along_h = (outer * slopes) @ sandwich(right[:, None], vectors[:, None]) + np.eye(rank * rank)
        return along_h @ sandwich(g_inverse[:, None], g_inverse[:, None]), along_h


def sandwich(left: Complex, right: Complex) -> Complex:
    """Return the maps ``X -> sum_k left_k X right_k`` as matrices over the entries of X.

    Both have shape (points, terms, rank, rank), the answer (points, rank^2, rank^2).

    >>> a, b, x = np.arange(12.0).reshape(3, 2, 2)
    >>> bool(np.allclose(sandwich(a[None, None], b[None, None])[0] @ x.ravel(), (a @ x @ b).ravel()))
    True
    """
    points, terms = left.shape[:2]
    (rows, inner), (outer, columns) = left.shape[2:], right.shape[2:]
    first = left.reshape(points, terms, rows * inner).transpose(0, 2, 1)
    product = first @ right.reshape(points, terms, outer * columns)
    whole = product.reshape(points, rows, inner, outer, columns).transpose(0, 1, 4, 2, 3)
    return np.asarray(whole.reshape(points, rows * columns, inner * outer))


def divided_differences(points: Complex, values: Complex, derivatives: Complex) -> Complex:
    """Return ``(f_i - f_j)/(x_i - x_j)``, with derivatives where points meet; shape (n, r, r).

    >>> x = np.array([[1.0, 2.0]])
    >>> divided_differences(x, x**2, 2 * x)[0].real.tolist()
    [[2.0, 3.0], [3.0, 4.0]]
    """
    gap = points[:, :, None] - points[:, None, :]
    size = np.abs(points).max(axis=1)[:, None, None]
    close = np.abs(gap) < 1e-7 * size
    slope = (values[:, :, None] - values[:, None, :]) / np.where(close, 1.0, gap)
    middle = (derivatives[:, :, None] + derivatives[:, None, :]) / 2
    return np.asarray(np.where(close, middle, slope))


def inverse(matrices: Complex) -> Complex:
    """Return stacked inverses; a singular matrix gives nan, which the path then treats as a failed step.

    Those of one and two rows are written out, for all matrices together.
    """
    if matrices.shape[-1] == 1:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(matrices == 0, np.nan, 1 / matrices))
    if matrices.shape[-1] == 2:
        a, b, c, d = matrices[..., 0, 0], matrices[..., 0, 1], matrices[..., 1, 0], matrices[..., 1, 1]
        determinant = a * d - b * c
        singular = determinant == 0
        if singular.any():
            determinant = np.where(singular, np.nan, determinant)
        result = np.empty_like(matrices)
        result[..., 0, 0], result[..., 0, 1] = d / determinant, -b / determinant
        result[..., 1, 0], result[..., 1, 1] = -c / determinant, a / determinant
        return result
    try:
        return np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        with np.errstate(invalid="ignore"):
            determinants = np.linalg.det(matrices)
        safe = np.where((determinants == 0)[..., None, None], np.eye(matrices.shape[-1]) * np.nan, matrices)
        return np.linalg.inv(safe)


def transform_of(law: Law, coefficient: Complex) -> Transform:
    """Return the cheapest exact transform of ``coefficient (x) x`` for x with this law."""
    if law.rational_r is not None:
        return RationalR(coefficient, law.rational_r)
    if not law.support and len(law.atoms) <= FEW_POINTS:
        points, weights = np.array(law.atoms).T
        return PointSum(coefficient, points, weights)
    return ScalarTransform(coefficient, law) if len(coefficient) == 1 else Diagonalised(coefficient, law)
