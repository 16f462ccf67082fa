"""Proven bounds: on a Cauchy transform off the real axis, and from it on the distribution function.

They exist for polynomials of semicircular and free Poisson variables.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from reshuffle.free import progress
from reshuffle.free.certified_system import (
    Unfolded,
    as_array,
    certifiable,
    cumulants_of,
    exact_pencil,
    units_of,
)
from reshuffle.free.checks import Complex, ConvergenceError, Real
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

LEVELS = 3.0 ** -np.arange(11)
ACROSS = np.array([-1.0, 0.0, 1.0])
LARGEST = 1e3, 30.0
"""Of the coefficients, over the heights of their points; what is larger would lift roundings too high.

At an atom the larger ones make functions that swing between the points of a program.
"""
PATIENCE = 5
"""Programs without a better bound after which no other is tried."""
SHORT = 0.01
"""What a function may be lifted by without another attempt."""
PROGRAMS = 12
"""Linear programs, each with the points at which the last one's answer fell short."""


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


@dataclass(frozen=True)
class CdfBounds:
    """Two numbers that are proven to enclose the mass of ``(-inf, t]``.

    Attributes
    ----------
    t, lower, upper : float
    """

    t: float
    lower: float
    upper: float

    def __repr__(self) -> str:
        return f"CdfBounds({self.lower:.6f} <= cdf({self.t:.6g}) <= {self.upper:.6f}, proven)"


@progress.working("bounds on a distribution function")
def cdf_bounds(prover: Prover, t: float) -> CdfBounds:
    """Return bounds on the mass of ``(-inf, t]``.

    A combination of real and imaginary parts of ``1/(z_k - x)`` that is nowhere below the indicator of
    ``x <= t`` has an integral that is known from ``G(z_k)`` and is an upper bound; one that is nowhere above
    it gives a lower bound. The combinations with the best bounds on a grid come from a linear program, and
    are then lifted by as much as they can fall short between its points.
    """
    given, t = t, prover.units.point(complex(t)).real
    norm = prover.norm()
    if abs(t) > norm:
        return CdfBounds(given, float(t > 0), float(t > 0))
    reach = norm + abs(t)
    nodes = np.array([t + reach * level * (across + 0.7j) for level in LEVELS for across in ACROSS])
    proven = []
    for z in nodes:
        progress.step()
        proven.append(prover.in_units(complex(z)))
    upper = _majorant(nodes, proven, t, norm, reach)
    # What is above t: the same question, seen from the other side.
    mirrored = [Certificate(c.z, -c.value.conjugate(), c.radius) for c in proven]
    above = _majorant(-nodes.conj(), mirrored, -t, norm, reach)
    return CdfBounds(given, max(0.0, 1 - above), min(1.0, upper))


def _majorant(nodes: Real, proven: list[Certificate], t: float, norm: float, reach: float) -> float:
    """Return the integral of the best function above the indicator of ``x <= t``."""
    best = 1.0
    for largest in LARGEST:
        found, short = _program(nodes, proven, t, norm, reach, largest)
        best = min(best, found)
        if short < SHORT:
            break
    return best


def _program(
    nodes: Real, proven: list[Certificate], t: float, norm: float, reach: float, largest: float
) -> tuple[float, float]:
    """Return the same with coefficients up to ``largest``, and by how much the last function had to be lifted."""
    near = np.geomspace(1e-7, 1.0, 3000) * reach
    fine = _inside(np.concatenate([t - near, t + near, np.linspace(-norm, norm, 1500)]), t, norm)
    values = np.array([c.value for c in proven])
    moments = np.concatenate([values.real, values.imag, [1.0]])
    rows = np.concatenate([_table(nodes, fine), np.ones((len(fine), 1))], axis=1)
    wanted = (fine <= t).astype(float)
    # Functions of size one, whatever the height of their points: an atom would make others as large as it is near.
    heights = np.concatenate([np.tile(np.abs(nodes.imag), 2), [1.0]])
    limits = [(-largest, largest)] * (len(heights) - 1) + [(-10.0, 10.0)]
    # A few points decide: those at which the last function fell short join them until none falls short by much.
    chosen = np.zeros(len(fine), dtype=bool)
    chosen[::20] = True
    # Every function on the way is above the indicator once it is lifted, and the constant one is: the best counts.
    radii = np.tile([c.radius for c in proven], 2)
    best, lifted, stale = 1.0, math.inf, 0
    for _ in range(PROGRAMS):
        progress.step()
        solved = linprog(
            moments * heights,
            A_ub=-rows[chosen] * heights,
            b_ub=-wanted[chosen],
            bounds=limits,
            method="highs",
        )
        # A program that could not be solved leaves the best answer before it: weaker, and as true.
        if solved.x is None:
            break
        weights = solved.x * heights
        slack = float(np.abs(weights[:-1]) @ radii)
        slack += 1e-14 * float(np.abs(weights) @ np.abs(moments)) * len(weights)
        lifted = _shortfall(nodes, weights, t, norm, reach)
        found = float(weights @ moments) + lifted + slack
        stale = 0 if found < best else stale + 1
        best = found if found < best else best
        if stale > PATIENCE:
            break
        short = wanted - rows @ weights
        lowest = np.r_[True, short[1:] >= short[:-1]] & np.r_[short[:-1] >= short[1:], True]
        worst = lowest & (short > 1e-5) & ~chosen
        if not worst.any():
            break
        chosen |= worst
    return best, lifted


def _shortfall(nodes: Real, weights: Real, t: float, norm: float, reach: float) -> float:
    """Return how far the function can be below the indicator anywhere on ``[-norm, norm]``.

    Between neighbouring points it is no lower than the lower of them, less ``h^2/8`` times a bound on its second
    derivative; what rounding does to its values is bounded by the sum of its terms' sizes.
    """
    near = np.concatenate([[0.0], np.geomspace(1e-8, 1.0, 12000)]) * reach
    x = _inside(np.concatenate([t - near, t + near, np.linspace(-norm, norm, 4000)]), t, norm)
    values = _table(nodes, x) @ weights[:-1] + weights[-1]
    size = np.abs(weights[: len(nodes)]) + np.abs(weights[len(nodes) : -1])
    low, high = x[:-1], x[1:]
    gap = np.maximum(np.maximum(low[:, None] - nodes.real, nodes.real - high[:, None]), 0.0)
    bent = (2 * size / np.hypot(gap, nodes.imag) ** 3).sum(axis=1)
    floor = np.minimum(values[:-1], values[1:]) - (high - low) ** 2 / 8 * bent
    # Beyond the range of numbers nothing is known: a maximum would pass over what is no number.
    if not (np.isfinite(floor).all() and (bent > 0).all()):
        return math.inf
    rounding = 1e-14 * len(weights) * (float((size / nodes.imag).sum()) + abs(float(weights[-1])))
    wanted = (high <= t).astype(float)
    return max(0.0, float((wanted - floor).max())) + rounding


def _inside(x: Real, t: float, norm: float) -> Real:
    """Return the points of the interval, its ends and t, sorted; outside of ``[-norm, norm]`` there is no mass."""
    ends = [-norm, norm] + ([t] if abs(t) <= norm else [])
    return np.unique(np.concatenate([x[np.abs(x) <= norm], ends]))


def _table(nodes: Real, x: Real) -> Real:
    """Return real and imaginary parts of ``1/(z_k - x)``, (points, 2 nodes)."""
    inverse = 1 / (nodes - x[:, None])
    return np.concatenate([inverse.real, inverse.imag], axis=1)
