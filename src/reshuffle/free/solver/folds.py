"""Ends of a spectrum as folds of its system: where the real solutions turn back, found by Newton's method."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.free import progress
from reshuffle.free.checks import Complex, Real
from reshuffle.free.solver.fixed_point import PencilSystem

ROUNDS = 10
"""Steps along the curve of solutions."""
RETURNS = 6
"""Steps of Newton's method back to the curve, after each of them."""
EXACT = 1e-15
"""Of the size of the spectrum: what the next step may still move an end by."""
ASTRAY = 2.0
"""Of the distance of the two points that a fold lies between: how far beyond them it is followed."""
LEVEL = 1e-9
"""Imaginary part that a fold on the real axis may have, in the same units."""


@dataclass(frozen=True)
class Folds:
    """Where curves of solutions turn back, and how they leave.

    Attributes
    ----------
    places : (n,)
        Points of the real axis, nan where none was found.
    unknowns : (n, unknowns)
        The solution there.
    leaving : (n, unknowns)
        At a point x close by it is ``unknowns + sqrt(x - place) leaving``, with either root.
    steps : of Newton's method, over all curves.
    """

    places: Real
    unknowns: Complex
    leaving: Complex
    steps: int


def folds(system: PencilSystem, inside: Real, outside: Real, unknowns: Complex) -> Folds:
    """Return the folds between points (n,) inside and outside of the spectrum, from solutions at the former.

    At a regular end two solutions meet, conjugates of each other inside and real outside, and the Jacobian is
    singular. Unknowns and x are analytic functions of a parameter s there, the component of the unknowns along
    their own derivative, and the end is the zero of ``dx/ds``: a function without a root in it. Each of its values
    is a linear system with one row more, which the fold leaves regular (Keller, 1977). The secant method starts
    from the solution and its conjugate; where s is known to half of the digits, x is known to all.

    Which sheet the fold is on is not checked: solutions that are none of the spectrum's turn back too.

    Parameters
    ----------
    system : PencilSystem
        A direct one.
    inside, outside : (n,)
    unknowns : (n, unknowns)
        At the points inside.
    """
    curve = _Curve(system, inside, outside, unknowns)
    for _ in range(ROUNDS):
        curve.advance()
        if (curve.settled | curve.lost).all():
            break
    low, high = np.minimum(inside, outside), np.maximum(inside, outside)
    x = curve.x
    found = curve.settled & (np.abs(x.imag) <= LEVEL) & (x.real >= low) & (x.real <= high)
    return Folds(np.where(found, x.real, np.nan), curve.unknowns, curve.leaving(), curve.steps)


class _Curve:
    """A point on each curve of solutions, at a parameter s: unknowns, x, and their derivatives along it."""

    def __init__(self, system: PencilSystem, inside: Real, outside: Real, unknowns: Complex):
        self.system, self.steps = system, 0
        state, moved = self._state(inside.astype(complex), unknowns)
        tangent = _solved(np.eye(system.unknowns) - system.jacobian(state), moved)
        self.row = tangent.conj() / np.linalg.norm(tangent, axis=1)[:, None] ** 2
        # Along the first solution's own derivative s is x: the slope there is one.
        self.parameter = np.zeros(len(inside), dtype=complex)
        self.turning = np.ones(len(inside), dtype=complex)
        self.origin = _inner(self.row, unknowns)
        other = system.mirrored(unknowns) - unknowns
        distance, slope = _inner(self.row, other), 1 / _inner(self.row, system.mirrored(tangent))
        self.step, self.bend = distance / (1 - slope), (slope - 1) / distance
        self.unknowns = unknowns + (self.step / distance)[:, None] * other
        self.along, self.x = tangent, inside + self.step / 2
        self.middle, self.reach = (inside + outside) / 2, ASTRAY * np.abs(inside - outside)
        self.settled = np.zeros(len(inside), dtype=bool)

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Curves that went away, or nowhere."""
        return np.asarray(~(np.abs(self.x - self.middle) <= self.reach))

    def _state(self, x: Complex, unknowns: Complex) -> tuple[Any, Complex]:
        """Return the map there, and its derivative as x moves."""
        progress.step()
        state = self.system.evaluate(self.system.base(x, np.zeros(len(x))), unknowns)
        return state, self.system.shift_tangent(state, self.system.direction)

    def advance(self) -> None:
        """Go to the parameter at which the slope seemed to vanish, and tell from the slope there where it will."""
        target = self.parameter + self.step
        back = self._back(target)
        change = self.turning - self._slopes()
        self.bend = np.where(self.settled, self.bend, -change / self.step)
        self.turning = self.turning - change
        self.parameter = target
        self.step = np.where(self.settled, 0.0, -self.turning / self.bend)
        self.settled |= back & (np.abs(self.step * self.turning) <= EXACT)
        self.unknowns = self.unknowns + self.step[:, None] * self.along
        self.x = self.x + self.step * self.turning / 2

    def _back(self, target: Complex) -> NDArray[np.bool_]:
        """Bring unknowns and x to the curve, at parameter ``target``, and return where that was reached."""
        for _ in range(RETURNS):
            state, moved = self._state(self.x, self.unknowns)
            residual = np.concatenate(
                [
                    state.image - self.unknowns,
                    (target + self.origin - _inner(self.row, self.unknowns))[:, None],
                ],
                axis=1,
            )
            self.bordered = self._bordered(state, moved)
            change = _solved(self.bordered, residual)
            self.unknowns, self.x = self.unknowns + change[:, :-1], self.x + change[:, -1]
            length = np.linalg.norm(change, axis=1) / (1 + np.linalg.norm(self.unknowns, axis=1))
            self.steps += len(length)
            if np.all((length <= 1e-13) | self.lost):
                break
        return np.asarray(length <= 1e-11)

    def _bordered(self, state: Any, moved: Complex) -> Complex:
        count = self.system.unknowns
        matrix = np.zeros((len(moved), count + 1, count + 1), dtype=complex)
        matrix[:, :count, :count] = np.eye(count) - self.system.jacobian(state)
        matrix[:, :count, count] = -moved
        matrix[:, count, :count] = self.row
        return matrix

    def _slopes(self) -> Complex:
        """Return ``dx/ds``, and keep how the unknowns move."""
        right = np.zeros(self.bordered.shape[:2], dtype=complex)
        right[:, -1] = 1.0
        tangent = _solved(self.bordered, right)
        self.along = tangent[:, :-1]
        return tangent[:, -1]

    def leaving(self) -> Complex:
        """Return how the unknowns move with the root of the distance from the fold: ``x = place + bend s^2/2``."""
        return np.asarray(self.along * np.sqrt(2 / self.bend)[:, None])


def _solved(matrices: Complex, right: Complex) -> Complex:
    """Return the solutions of linear systems, nan for what is singular or not finite."""
    whole = np.asarray(np.isfinite(matrices).all(axis=(1, 2)) & np.isfinite(right).all(axis=1))
    safe = np.where(whole[:, None, None], matrices, np.eye(matrices.shape[1]))
    try:
        answer = np.linalg.solve(safe, right[..., None])[..., 0]
    except np.linalg.LinAlgError:
        # Exactly singular, one of them: the determinant's sign then vanishes.
        whole = np.asarray(whole & (np.linalg.slogdet(safe)[0] != 0))
        safe = np.where(whole[:, None, None], matrices, np.eye(matrices.shape[1]))
        answer = np.linalg.solve(safe, right[..., None])[..., 0]
    return np.where(whole[:, None], answer, np.nan)


def _inner(row: Complex, vectors: Complex) -> Complex:
    return np.asarray(np.einsum("nu,nu->n", row, vectors))
