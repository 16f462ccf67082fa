"""The hermitised resolvent of an expression that is not self-adjoint, solved up to the plane itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.free import progress
from reshuffle.free.checks import Complex, Real
from reshuffle.free.expression import Expression, block
from reshuffle.free.moments import is_polynomial
from reshuffle.free.solver.continuation import ROUNDING, follow
from reshuffle.free.solver.resolvent import Engine
from reshuffle.free.solver.system import State, System

HEIGHT = 1e-3
"""Above the plane, in units of the pencil: where the path ends and the last steps begin."""
STEPS = 14
TOGETHER = 512
LOWEST = 1e-4
"""Above the plane, in the same units: where points are solved whose unknowns are infinite on the plane."""


def _joined(parts: list["Plane"]) -> "Plane":
    return Plane(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in Plane.__dataclass_fields__)
    )


def _hermitised(p: Expression) -> Expression:
    """Return ``-[[0, p], [p*, 0]]``."""
    if p.dimension == 1:
        return block([[0, -p], [-p.adjoint(), 0]])
    if not is_polynomial(p):
        raise ValueError(
            f"a Brown measure with matrices as coefficients needs a polynomial, but it is {p!r}; write the"
            f" inverse entry by entry"
        )
    corner = np.array([[0.0, 1.0], [0.0, 0.0]])
    one = np.eye(p.dimension)
    upper = {
        word: np.kron(corner, -value * one if not np.ndim(value) else -value)
        for word, value in p.terms.items()
    }
    whole = Expression(upper, p.family)
    return whole + whole.adjoint()


@dataclass(frozen=True)
class Plane:
    """What is known of points z of the plane, each of shape (points,).

    Attributes
    ----------
    potential : complex
        ``g(z) = d/dz`` of the logarithmic potential, ``tau((z - p)^-1)`` outside the spectrum.
    density : of the Brown measure; error : its estimate, inf where it failed.
    depth : the imaginary part of the hermitised resolvent, zero outside the support.
    converged : flags.
    """

    potential: Complex
    density: Real
    depth: Real
    error: Real
    converged: NDArray[np.bool_]


class Hermitised(System):
    """The joint system of ``(i e - [[0, z - p], [(z - p)*, 0]])^-1``, with z in the place of a base point.

    Parameters
    ----------
    expression : p, of any kind.
    """

    def __init__(self, expression: Expression):
        engine = Engine(_hermitised(expression))
        self.expression, self.factor = engine.expression, engine.pencil.factor
        self.corner, self.height = engine.pencil.corner, HEIGHT
        family = self.expression.family
        laws = (
            [law / scale for law, scale in zip(family.laws, engine.pencil.scales, strict=True)]
            if family
            else []
        )
        super().__init__(engine.pencil.coefficients, laws, engine.direction)
        # Where z is complex, the words of z - p and those of its adjoint are told apart: no block is symmetric.
        half = self.corner // 2
        self.above, self.below = (np.zeros((self.size, self.size)) for _ in range(2))
        self.above[:half, half : self.corner] = np.eye(half)
        self.below[half : self.corner, :half] = np.eye(half)
        self.sides = np.zeros(self.size)
        self.sides[:half], self.sides[half : self.corner] = 1.0, -1.0

    def _layout(self, ranks: Any) -> None:
        self.symmetric = False
        super()._layout(ranks)

    def base(self, z: Complex, height: Complex) -> Complex:
        """Return ``i (e + height) - b_0 - [[0, z], [z*, 0]]`` in units of the pencil."""
        scaled = (z / self.factor)[:, None, None]
        lifted = 1j * (height[:, None, None] * np.eye(self.size) + self.height * self.direction)
        return np.asarray(lifted - self.constant - scaled * self.above - scaled.conj() * self.below)

    def imbalance(self, state: State) -> tuple[Complex, Complex]:
        """Return the difference of the two halves' traces, zero for a trace, and its gradient in the unknowns."""
        resolvent = state.resolvent
        value = np.einsum("nii,i->n", resolvent, self.sides)
        weighted = resolvent @ (self.sides[:, None] * resolvent)
        inner = self.frame.conj().T @ weighted @ self.frame
        pieces = [
            -inner[:, part, part][:, columns, rows]
            for part, rows, columns in zip(self.blocks, self.rows, self.columns, strict=True)
        ]
        return value, np.concatenate(pieces, axis=1)

    def solve(self, state: State, right: Complex, value: Complex, gradient: Complex) -> Complex:
        """Return x with ``(1 - D) x = right`` and ``gradient . x = -value``: on the plane itself 1 - D is singular.

        There the two diagonal blocks may be scaled by inverse numbers; that their traces are equal picks
        one solution.
        ``right`` has shape (points, sides, unknowns), ``value`` (points, sides).
        """
        size = np.maximum(np.linalg.norm(gradient, axis=1), 1e-300)[:, None]
        row = gradient / size
        column = row.conj()
        matrix = np.eye(self.unknowns) - self.jacobian(state) + column[:, :, None] * row[:, None, :]
        sides = right - (value / size)[:, :, None] * column[:, None, :]
        failed = np.asarray(~(np.isfinite(matrix).all(axis=(1, 2)) & np.isfinite(sides).all(axis=(1, 2))))
        matrix[failed], sides[failed] = np.eye(self.unknowns), np.nan
        columns = sides.transpose(0, 2, 1)
        try:
            answer = np.linalg.solve(matrix, columns)
        except np.linalg.LinAlgError:
            answer = np.linalg.pinv(matrix) @ columns
        return np.asarray(answer.transpose(0, 2, 1))

    def points(self, z: Complex) -> Plane:
        """Return what is known of points z (points,)."""
        with progress.working(f"the Brown measure by {self.expression!r}"):
            parts = [self._points(z[k : k + TOGETHER]) for k in range(0, max(len(z), 1), TOGETHER)]
            found = _joined(parts)
            lost = np.flatnonzero(~found.converged)
            if len(lost):
                again = self._lifted(z[lost])
                for name in Plane.__dataclass_fields__:
                    getattr(found, name)[lost] = getattr(again, name)
        return found

    def _lifted(self, z: Complex) -> Plane:
        """Return what two heights above the plane tell, where it cannot be reached.

        In a hole all of the resolvent vanishes, and the unknowns are infinite. The error is the difference
        of the two; the answer is extrapolated, and is closer.
        """
        near, far = (self._at(z, height) for height in (LOWEST, 2 * LOWEST))
        # Outside the support the depth is in proportion to the height, and the rest moves with its square.
        outside = np.abs(near.depth / far.depth - 0.5) < 0.1
        weight = np.where(outside, 1 / 3, 1.0)
        density, potential = (
            a + weight * (a - b) for a, b in ((near.density, far.density), (near.potential, far.potential))
        )
        error = np.abs(near.density - far.density) + near.error
        good = near.converged & far.converged & (error < 1e-3 / self.factor**2)
        density = np.where(good, np.where(density > error, density, 0.0), np.nan)
        potential = np.where(good, potential, complex(np.nan, np.nan))
        depth = np.where(good, np.where(outside, 0.0, 2 * near.depth - far.depth), np.nan)
        return Plane(potential, density, depth, np.where(good, error, np.inf), good)

    def _at(self, z: Complex, height: float) -> Plane:
        self.height = height
        solved = follow(self, z, self.corner)
        return self._differentiated(z, solved.unknowns, solved.converged)

    def _points(self, z: Complex) -> Plane:
        self.height = HEIGHT
        start = follow(self, z, self.corner)
        lifted = self._differentiated(z, start.unknowns, start.converged)
        self.height = 0.0
        unknowns, moved = self._landed(z, start.unknowns)
        landed = self._differentiated(z, unknowns, start.converged & np.isfinite(moved))
        # The path to the plane is short: what is far from where it started is another solution.
        near = np.abs(landed.potential - lifted.potential) < 0.1 * (
            np.abs(lifted.potential) + 1 / self.factor
        )
        good = (
            start.converged & landed.converged & near & (moved < 1e-6) & (landed.depth > -1e-6 / self.factor)
        )
        error = landed.error + np.where(good, moved, np.inf) * (np.abs(landed.density) + 1 / self.factor**2)
        density = np.where(good, np.where(landed.density > error, landed.density, 0.0), np.nan)
        potential = np.where(good, landed.potential, complex(np.nan, np.nan))
        return Plane(
            potential, density, np.where(good, landed.depth, np.nan), np.where(good, error, np.inf), good
        )

    def _landed(self, z: Complex, unknowns: Complex) -> tuple[Complex, Real]:
        """Return the unknowns on the plane, by Newton's method, and how far its last step went."""
        base = self.base(z, np.zeros(len(z)))
        x = np.where(np.isfinite(unknowns), unknowns, 0.0)
        last = np.full(len(z), np.inf)
        with np.errstate(all="ignore"):
            for _ in range(STEPS):
                progress.step()
                state = self.evaluate(base, x)
                value, gradient = self.imbalance(state)
                finite = np.isfinite(state.image).all(axis=1) & np.isfinite(gradient).all(axis=1)
                if not finite.any():
                    break
                change = self.solve(state, (state.image - x)[:, None], value[:, None], gradient)[:, 0]
                x = x + np.where(np.isfinite(change), change, 0.0)
                last = np.linalg.norm(change, axis=1) / (1 + np.linalg.norm(x, axis=1))
                if np.nanmax(last, initial=0.0) < 1e-13:
                    break
        return x, np.where(np.isfinite(last), last, np.inf)

    def _differentiated(self, z: Complex, unknowns: Complex, good: NDArray[np.bool_]) -> Plane:
        """Return potential and density, whose derivatives in z are those of an implicit function."""
        with np.errstate(all="ignore"):
            state = self.evaluate(self.base(z, np.zeros(len(z))), unknowns)
            _, gradient = self.imbalance(state)
            moved = []
            for direction in (self.above + self.below, 1j * (self.above - self.below)):
                step = np.broadcast_to(-direction / self.factor, state.resolvent.shape)
                right = self.shift_tangent(state, step)[:, None]
                shift = -np.einsum("nij,njk,nki,i->n", state.resolvent, step, state.resolvent, self.sides)
                change = self.solve(state, right, shift[:, None], gradient)[:, 0]
                moved.append(self._entry(self.resolvent_tangent(state, step, change)))
            density = (moved[0] + 1j * moved[1]).real / (2 * np.pi)
        half = self.corner // 2
        depth = -np.einsum("nii->n", state.resolvent[:, :half, :half]).imag / half / self.factor
        size = np.abs(state.resolvent[:, : self.corner, : self.corner]).max(axis=(1, 2)) / self.factor
        finite = np.isfinite(density) & good
        error = 10 * ROUNDING * (np.abs(density) + size**2)
        return Plane(self._entry(state.resolvent), density, depth, np.where(finite, error, np.inf), finite)

    def _entry(self, resolvent: Complex) -> Complex:
        """Return ``-tau(G_21)``, which is ``tau((z - p)* ((z - p)(z - p)* + e^2)^-1)``."""
        half = self.corner // 2
        return np.asarray(-np.einsum("nii->n", resolvent[:, half : self.corner, :half]) / half / self.factor)
