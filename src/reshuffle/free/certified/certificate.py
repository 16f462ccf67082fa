"""A proven bound on the error of a Cauchy transform, off the real axis."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle.free.certified.binary_units import units_of
from reshuffle.free.certified.exact_pencil import certifiable, cumulants_of, exact_pencil
from reshuffle.free.certified.unfolded import Unfolded, as_array
from reshuffle.free.checks import Complex, ConvergenceError
from reshuffle.free.expression import Expression, Variable
from reshuffle.free.solver.continuation import follow
from reshuffle.free.solver.system import System

PRECISION = 320
LIFT = 2.0**-180
ROUNDS = 80
CLIMB = 20
"""Doublings of the height in which a point is looked for that double precision can solve."""
SMALL = 1e-25
"""Residual on the way down from there at which a solution is good for the next step."""
NARROWEST = 1.01
"""Smallest ratio of heights that is still tried."""
FAR = 2.0**100
"""Beyond which ``1/z`` is all there is to know, in units in which the expression has size one."""


@dataclass(frozen=True)
class Certificate:
    """A number that is proven to be close to ``G(z)``.

    Attributes
    ----------
    z : complex
    value : complex
    radius : float
        ``|G(z) - value| <= radius``, in ball arithmetic, rounding included.
    """

    z: complex
    value: complex
    radius: float

    def __repr__(self) -> str:
        return f"Certificate(G({self.z:.6g}) = {self.value:.15g} within {self.radius:.2g}, proven)"


def python_flint() -> Any:
    """Return the module, or say that it is missing."""
    try:
        import flint
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "certificates need python-flint, for balls that hold every rounding: install python-flint."
        ) from None
    return flint


class Prover:
    """Proves values of one expression's Cauchy transform; what it shares between points is made once.

    Parameters
    ----------
    expression : self-adjoint polynomial in semicircular and free Poisson variables.
    """

    def __init__(self, expression: Expression):
        self.flint = python_flint()
        expression = certifiable(expression)
        laws = expression.family.laws if expression.family else ()
        self.units = units_of(expression, [law.scale for law in laws])
        self.expression = self.units.expression(expression)
        self.pencil = exact_pencil(self.expression)
        with self.flint.ctx.workprec(PRECISION):
            scaled_laws = [
                cumulants_of(law).times(-exponent)
                for law, exponent in zip(laws, self.units.variables, strict=True)
            ]
            self.equation = Unfolded(self.flint, self.pencil, scaled_laws)
        direction = np.zeros(self.pencil.size)
        direction[0] = 1.0
        sized = [law / 2.0**exponent for law, exponent in zip(laws, self.units.variables, strict=True)]
        self._system = System(self.pencil.array(), sized, direction)

    def certify(self, z: complex) -> Certificate:
        """Return the certificate at z, with ``Im z != 0``."""
        if z.imag == 0:
            raise ValueError(
                f"z must be off the real axis, but it is {z}; on it there are error estimates, from resolve(t)"
            )
        found = self.in_units(self.units.point(z))
        value, radius, whole = found.value, found.radius, self.units.whole
        scaled_value = complex(math.ldexp(value.real, -whole), math.ldexp(value.imag, -whole))
        with self.flint.ctx.workprec(PRECISION):
            # What was lost below the smallest doubles belongs to the radius.
            ball = self.flint.acb(value.real, value.imag) * self.flint.acb(2) ** -whole
            lost = abs(ball - self.flint.acb(scaled_value.real, scaled_value.imag))
            bound = self.flint.arb(radius) * self.flint.arb(2) ** -whole + lost
            return Certificate(z, scaled_value, float(np.nextafter(float(bound.upper()), np.inf)))

    def in_units(self, z: complex) -> Certificate:
        """Return the certificate of the scaled expression at z, off the axis, in its own units."""
        if z.imag < 0:
            mirrored = self.in_units(z.conjugate())
            return Certificate(z, mirrored.value.conjugate(), mirrored.radius)
        with self.flint.ctx.workprec(PRECISION):
            if abs(z) > FAR:
                return self._from_afar(z)
            try:
                return self._proven(z)
            except (ZeroDivisionError, np.linalg.LinAlgError):
                raise ConvergenceError(self._refusal(z, "the equation is singular there")) from None

    def _from_afar(self, z: complex) -> Certificate:
        """Return the certificate of ``1/z``, from which G differs by at most ``n/(|z| (|z| - n))``, n the norm."""
        point, norm, value = self.flint.acb(z.real, z.imag), self.flint.arb(self.norm()), 1 / z
        distance = abs(1 / point - self.flint.acb(value.real, value.imag))
        bound = distance + norm / (abs(point) * (abs(point) - norm))
        return Certificate(z, value, float(np.nextafter(float(bound.upper()), np.inf)))

    def _refusal(self, z: complex, why: str) -> str:
        """Return the message for a point, which is shown in the units of the expression that was given."""
        return f"no certificate at {z * 2.0**self.units.whole}: {why}; take z further from the axis"

    def norm(self) -> float:
        """Return a number that the norm of the scaled expression does not exceed."""
        with self.flint.ctx.workprec(PRECISION):
            total = self.flint.arb(0)
            for word, value in self.expression.terms.items():
                size = abs(self.equation.number(value))
                for letter in word:
                    assert isinstance(letter, Variable)
                    size = size * self.equation.norms[letter.index]
                total = total + size
            return float(np.nextafter(float(total.upper()), np.inf))

    def _proven(self, z: complex) -> Certificate:
        arb = self.flint.arb
        lift = arb(LIFT)
        g = self._refined(z, self._start(z), lift)
        moved = self.equation.residual(g, z, lift)
        base = self.equation.base(z, lift)
        if not (_positive(_imaginary(base + moved), arb) and _positive(-_imaginary(g), arb)):
            raise ConvergenceError(self._refusal(z, "the solution could not be told apart"))
        distance = _size(moved, arb) + lift
        norm = self.equation.inverse_norm(z)
        inside = norm * distance
        if not inside < arb("0.5"):
            raise ConvergenceError(self._refusal(z, "the bound is too weak"))
        value = complex(g[0, 0].mid())
        bound = norm * inside / (1 - inside) + abs(g[0, 0] - self.flint.acb(value.real, value.imag))
        return Certificate(z, value, float(np.nextafter(float(bound.upper()), np.inf)))

    def _start(self, z: complex) -> Complex:
        solved = follow(self._system, np.array([z]), 1)
        return np.asarray(solved.resolvent[0]) if solved.converged[0] else self._continued(z)

    def _continued(self, z: complex) -> Complex:
        """Return a start from a point above z that double precision can solve, on the way down in balls.

        Where words differ by many orders of size, the rows of the pencil do so too. How a start was found does not
        matter to the proof.
        """
        heights = z.imag * 2.0 ** np.arange(1, CLIMB + 1)
        solved = follow(self._system, z.real + 1j * heights, 1)
        if not solved.converged.any():
            raise ConvergenceError(self._refusal(z, "the equation could not be solved there"))
        lowest = int(np.argmax(solved.converged))
        height, start, ratio = float(heights[lowest]), solved.resolvent[lowest], 2.0
        lift = self.flint.arb(LIFT)
        while height > z.imag:
            point = complex(z.real, max(z.imag, height / ratio))
            # Once more, with the slope at what was found.
            found = self._refined(point, as_array(self._refined(point, start, lift)), lift)
            if float(np.abs(as_array(self.equation.residual(found, point, lift))).max()) < SMALL:
                height, start, ratio = point.imag, as_array(found), min(2.0, ratio**1.5)
                continue
            ratio = ratio**0.5
            if ratio < NARROWEST:
                raise ConvergenceError(self._refusal(z, "the equation could not be solved there"))
        return np.asarray(start)

    def _refined(self, z: complex, start: Complex, lift: Any) -> Any:
        """Return the solution to many digits: residuals in balls, corrections in double precision."""
        flint, size = self.flint, self.pencil.size
        factor = np.linalg.inv(self.equation.slope(start))
        g = flint.acb_mat([[flint.acb(v.real, v.imag) for v in row] for row in start])
        last = np.inf
        for _ in range(ROUNDS):
            residual = as_array(self.equation.residual(g, z, lift))
            length = float(np.abs(residual).max())
            if not np.isfinite(length) or (length < 1e-60 or length >= last):
                break
            last = length
            # In units of its own size: no number is too small for a double.
            change = -(factor @ (residual / length).ravel()).reshape(size, size)
            step = flint.acb_mat([[flint.acb(v.real, v.imag) for v in row] for row in change])
            g = _middle(g + step * flint.acb(flint.arb(length).mid()), flint)
        return g


def _middle(matrix: Any, flint: Any) -> Any:
    rows, columns = matrix.nrows(), matrix.ncols()
    return flint.acb_mat([[matrix[i, j].mid() for j in range(columns)] for i in range(rows)])


def _imaginary(matrix: Any) -> Any:
    """Return ``(A - A*)/2i``."""
    return (matrix - matrix.conjugate().transpose()) * _unit(matrix)


def _unit(matrix: Any) -> Any:
    # -i/2, made of the matrix's own kind of numbers.
    number = matrix[0, 0] * 0 + 1
    return number * type(number)(0, -0.5)


def _positive(matrix: Any, arb: Any) -> bool:
    """Return whether a Hermitian ball matrix is certainly positive definite: all pivots of its elimination are."""
    rows = [[matrix[i, j] for j in range(matrix.ncols())] for i in range(matrix.nrows())]
    for k in range(len(rows)):
        pivot = rows[k][k].real
        if not pivot > 0:
            return False
        for i in range(k + 1, len(rows)):
            share = rows[i][k] / pivot
            for j in range(k + 1, len(rows)):
                rows[i][j] = rows[i][j] - share * rows[k][j]
    return True


def _size(matrix: Any, arb: Any) -> Any:
    """Return the Frobenius norm, which bounds the operator norm."""
    total = arb(0)
    for i in range(matrix.nrows()):
        for j in range(matrix.ncols()):
            total = total + abs(matrix[i, j]) ** 2
    return arb(total.upper()).sqrt()
