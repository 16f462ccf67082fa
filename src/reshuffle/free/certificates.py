"""Proven bounds: on a Cauchy transform off the real axis, and from it on the distribution function.

They exist for polynomials of semicircular and free Poisson variables.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from reshuffle.free import progress
from reshuffle.free.checks import Complex, ConvergenceError, Real
from reshuffle.free.expression import Expression, Variable
from reshuffle.free.laws import Affine, FreePoisson, Law, MarchenkoPastur, Semicircle
from reshuffle.free.linearization import generated
from reshuffle.free.moments import is_polynomial
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


_ROUNDING = 1e-15
MOST_ROWS = 31
"""Rows of a pencil; its Newton steps have the square of that many unknowns."""


def log2(value: Fraction | complex) -> float:
    """Return the logarithm of a coefficient's size, also where the size itself is no double.

    >>> log2(Fraction(1, 2**2000))
    -2000.0
    """
    if isinstance(value, Fraction):
        return math.log2(abs(value.numerator)) - math.log2(value.denominator)
    return math.log2(abs(value))


def scaled(value: Fraction | complex, exponent: int) -> Fraction | complex:
    """Return ``value 2^exponent``, exactly."""
    if isinstance(value, Fraction):
        return value * Fraction(2) ** exponent
    return complex(scaled_float(value.real, exponent), scaled_float(value.imag, exponent))


def scaled_float(value: float, exponent: int) -> float:
    """Return ``value 2^exponent``, or refuse what is then no double any more.

    >>> scaled_float(3.0, -1)
    1.5
    """
    try:
        moved = math.ldexp(value, exponent)
    except OverflowError:
        moved = math.inf
    if math.isinf(moved) or math.ldexp(moved, -exponent) != value:
        raise ConvergenceError(
            f"no certificate: {value!r} is too far from the size of the expression, 2^{-exponent}, to be a number"
            " beside it; take z closer to that size, or coefficients closer to each other"
        )
    return moved


@dataclass(frozen=True)
class Units:
    """Exponents of two: variables are ``2^k_j y_j``, the expression is ``2^whole`` times another one of the y_j."""

    variables: tuple[int, ...]
    whole: int

    def expression(self, given: Expression) -> Expression:
        """Return the expression of the y_j."""
        terms = {word: scaled(value, self._of(word) - self.whole) for word, value in given.terms.items()}
        return Expression(terms, given.family)

    def point(self, z: complex) -> complex:
        """Return ``z / 2^whole``."""
        return complex(scaled_float(z.real, -self.whole), scaled_float(z.imag, -self.whole))

    def _of(self, word: Sequence[Any]) -> int:
        return sum(self.variables[letter.index] for letter in word if isinstance(letter, Variable))


def units_of(expression: Expression, sizes: Sequence[float]) -> Units:
    """Return the units in which variables of these sizes, and the sum of all words' sizes, are at most about one.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> units_of(1024 * x * y + 1024 * y * x, [4.0, 1.0])
    Units(variables=(2, 0), whole=13)
    """
    variables = tuple(round(math.log2(size)) for size in sizes)
    raw = Units(variables, 0)
    logs = [log2(value) + raw._of(word) for word, value in expression.terms.items() if value != 0]
    top = max(logs, default=0.0)
    whole = math.ceil(top + math.log2(sum(2.0 ** (log - top) for log in logs))) if logs else 0
    return Units(variables, whole)


@dataclass(frozen=True)
class ExactPencil:
    """``L = b_0 + sum_j b_j (x) x_j`` with ``p = L_00 - L_01 L_11^-1 L_10``, every entry as it was given.

    Attributes
    ----------
    entries : one dictionary (row, column) -> number for ``b_0`` and for each variable.
    size : rows; depth : letters of the longest word.
    """

    entries: tuple[dict[tuple[int, int], Any], ...]
    size: int
    depth: int

    def array(self) -> NDArray[Any]:
        """Return the coefficients in double precision, (variables + 1, size, size)."""
        result = np.zeros((len(self.entries), self.size, self.size), dtype=complex)
        for matrix, given in zip(result, self.entries, strict=True):
            for place, value in given.items():
                matrix[place] = complex(value)
        return result


def exact_pencil(expression: Expression) -> ExactPencil:
    """Return the pencil of a self-adjoint polynomial, whose states are the ends of its words, each twice.

    With ``p = a + u (1 - N)^-1 v`` read from the left and ``Q = N - 1``, the pencil is
    ``[[a, u/2, v*], [u*/2, 0, Q*], [v, Q, 0]]``; halves of numbers are exact. Powers of two on the
    states share the size of a coefficient among the letters of its word, so that none is alone with a small number.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> exact_pencil(x * y + y * x).size
    5
    """
    words = sorted(
        {word[i:] for word in expression.terms for i in range(1, len(word))}, key=lambda w: (len(w), repr(w))
    )
    states = {word: i for i, word in enumerate(words)}
    count = len(words)
    size = 1 + 2 * count
    if size > MOST_ROWS:
        raise ValueError(
            f"a certificate takes a pencil of at most {MOST_ROWS} rows, but it has {size} for {expression!r}; it"
            f" has too many different words"
        )
    variables = len(expression.family.laws) if expression.family else 0
    entries: list[dict[tuple[int, int], Any]] = [{} for _ in range(variables + 1)]

    def put(slot: int, row: int, column: int, value: Any) -> None:
        for place, number in (((row, column), value), ((column, row), value.conjugate())):
            entries[slot][place] = entries[slot].get(place, 0) + number
            if row == column:
                break

    levels = _levels(expression)
    for word, value in expression.terms.items():
        if len(word) < 2:
            entries[_slot(word)][0, 0] = value.real if isinstance(value, complex) else value
        else:
            put(_slot(word[:1]), 0, 1 + states[word[1:]], scaled(value, -1 - levels[word[1:]]))
    for word, state in states.items():
        put(0, 1 + count + state, 1 + state, -1)
        if len(word) == 1:
            put(_slot(word), 1 + count + state, 0, Fraction(2) ** levels[word])
        else:
            rest = word[1:]
            put(
                _slot(word[:1]),
                1 + count + state,
                1 + states[rest],
                Fraction(2) ** (levels[word] - levels[rest]),
            )
    return ExactPencil(tuple(entries), size, max((len(word) for word in expression.terms), default=0))


def _levels(expression: Expression) -> dict[Any, int]:
    """Return for each end of a word the exponent of two that is left to it of the largest coefficient."""
    found: dict[Any, int] = {}
    for word, value in expression.terms.items():
        for i in range(1, len(word)):
            level = round(log2(value) * (len(word) - i) / len(word))
            found[word[i:]] = max(found.get(word[i:], level), level)
    return found


def _slot(word: Any) -> int:
    if not word:
        return 0
    assert isinstance(word[0], Variable)
    return word[0].index + 1


@dataclass(frozen=True)
class Cumulants:
    """A law by its free cumulants, as numbers that were given: ``factor x + shift`` for x of a simple kind.

    Attributes
    ----------
    kind : "semicircle" with parameters (variance, mean), or "poisson" with (rate, jump), or "marchenko-pastur" with
        (ratio, variance).
    parameters, factor, shift : as given.
    """

    kind: str
    parameters: tuple[float, float]
    factor: float
    shift: float

    def times(self, exponent: int) -> "Cumulants":
        """Return the law of the variable times ``2^exponent``."""
        factor, shift = (scaled_float(value, exponent) for value in (self.factor, self.shift))
        return Cumulants(self.kind, self.parameters, factor, shift)


def cumulants_of(law: Law) -> Cumulants:
    """Return the law's kind and numbers, or refuse all but semicircles and free Poisson laws."""
    if isinstance(law, Affine):
        inner = cumulants_of(law.base)
        return Cumulants(inner.kind, inner.parameters, law.factor, law.shift)
    if isinstance(law, Semicircle):
        return Cumulants("semicircle", (law.variance, law.mean), 1.0, 0.0)
    if isinstance(law, FreePoisson):
        return Cumulants("poisson", (law.rate, law.jump), 1.0, 0.0)
    if isinstance(law, MarchenkoPastur):
        return Cumulants("marchenko-pastur", (law.ratio, law.variance), 1.0, 0.0)
    raise ValueError(
        f"a certificate needs variables with the law Semicircle, MarchenkoPastur or FreePoisson, or"
        f" affine images of these, but one is {law!r};"
        " of other laws there are error estimates, from resolve(t)"
    )


def certifiable(expression: Expression) -> Expression:
    """Return the expression with exact coefficients, or refuse what no certificate is known for.

    Coefficients of a word and of its reverse may differ by the rounding of their own computation; what is certified
    is the Hermitian part, ``(p + p*)/2``.
    """
    expression = generated(expression)
    if expression.dimension > 1:
        raise ValueError(
            f"a certificate needs numbers as coefficients, but they are matrices of size {expression.dimension} in"
            f" {expression!r}"
        )
    if not is_polynomial(expression):
        raise ValueError(
            f"a certificate needs a polynomial, but it is the rational expression {expression!r}"
        )
    terms = {word: exact_number(value) for word, value in expression.terms.items()}
    for word, value in terms.items():
        away = abs(complex(value) - complex(terms.get(word[::-1], 0)).conjugate())
        if away > _ROUNDING * abs(complex(value)):
            raise ValueError(
                f"a certificate needs an expression that is self-adjoint up to rounding, "
                f"but it is {expression!r}, in"
                f" which a word and its reverse differ by {away:.2g}; take (p + p.adjoint())/2"
            )
    return Expression(terms, expression.family)


def exact_number(value: Any) -> Fraction | complex:
    """Return a coefficient as a number that halves and sums of it keep: a fraction, or a complex double.

    >>> exact_number(np.float32(0.5)), exact_number(3), exact_number(1j)
    (Fraction(1, 2), Fraction(3, 1), 1j)
    """
    if hasattr(value, "numerator") and hasattr(value, "denominator"):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, float) or (isinstance(value, np.floating) and value.itemsize <= 8):
        return Fraction(float(value))
    if isinstance(value, complex) or (isinstance(value, np.complexfloating) and value.itemsize <= 16):
        number = complex(value)
        if number.imag == 0:
            return Fraction(number.real)
        # Halves of numbers at the end of the range are rounded.
        if 2 * (number / 2) == number:
            return number
    raise ValueError(
        f"a certificate needs coefficients that are fractions, floats or complex numbers, "
        f"but one is {value!r} of type"
        f" {type(value).__name__}; take fractions.Fraction for numbers with more digits"
    )


@dataclass(frozen=True)
class Semicircular:
    """A variable that enters by ``variance b G b``."""

    coefficient: Any
    variance: Any


@dataclass(frozen=True)
class Poisson:
    """A variable that enters by ``rate V* K V``, ``K = (J^-1/jump - V G V*)^-1``, where ``b = V* J V``.

    Attributes
    ----------
    rows : which row of the pencil each row of V picks.
    inverse : ``J^-1/jump``, a ball matrix; rate : a ball.
    strength : a bound on ``|jump J|``; norm : a bound on that of the factor W with ``W* (jump J) W = b (x) x``.
    """

    rows: tuple[int, ...]
    inverse: Any
    rate: Any
    strength: Any
    norm: Any


class Unfolded:
    """``G^-1 = b - sum_j R_j(G)`` for a pencil, in ball arithmetic.

    A free Poisson variable is a product of two rectangular circular ones, so that everything is one operator-valued
    semicircular element. Its equation has one solution with ``Im G < 0`` for every b with ``Im b > 0``
    (Helton, Rashidi Far
    and Speicher, 2007).

    Parameters
    ----------
    flint : the module python-flint; pencil : exact; laws : of its variables.
    """

    def __init__(self, flint: Any, pencil: ExactPencil, laws: list[Cumulants]):
        self.flint, self.size = flint, pencil.size
        self.constant = self._matrix(pencil.entries[0])
        self.semicirculars: list[Semicircular] = []
        self.poissons: list[Poisson] = []
        arb = flint.arb
        norms = []
        for entries, law in zip(pencil.entries[1:], laws, strict=True):
            factor, shift = arb(law.factor), arb(law.shift)
            coefficient = self._matrix(entries)
            first, second = (arb(value) for value in law.parameters)
            if law.kind == "semicircle":
                shift = factor * second + shift
                variance = factor * factor * first
                norms.append(abs(shift) + 2 * variance.sqrt())
                self.semicirculars.append(Semicircular(coefficient, variance))
            else:
                rate, jump = (first, second) if law.kind == "poisson" else (1 / first, first * second)
                jump = factor * jump
                norms.append(abs(shift) + abs(jump) * (1 + rate.sqrt()) ** 2)
                if entries:
                    self.poissons.append(self._poisson(entries, rate, jump))
            self.constant = self.constant + coefficient * flint.acb(shift)
        self.norms, self.pencil = norms, pencil

    def _matrix(self, entries: dict[tuple[int, int], Any]) -> Any:
        result = self.flint.acb_mat(self.size, self.size)
        for (row, column), value in entries.items():
            result[row, column] = self.number(value)
        return result

    def number(self, value: Any) -> Any:
        """Return a coefficient, a fraction or a complex double, as a ball that holds it."""
        if isinstance(value, complex | np.complexfloating):
            return self.flint.acb(float(value.real), float(value.imag))
        if hasattr(value, "numerator") and hasattr(value, "denominator"):
            return self.flint.acb(self.flint.fmpq(int(value.numerator), int(value.denominator)))
        return self.flint.acb(float(value))

    def _poisson(self, entries: dict[tuple[int, int], Any], rate: Any, jump: Any) -> Poisson:
        """Return the variable's block: two rows of V for each pair of entries, one for each on the diagonal."""
        pairs = [
            (place, value) for place, value in sorted(entries.items()) if place[0] <= place[1] and value != 0
        ]
        rows: list[int] = []
        for (row, column), _ in pairs:
            rows += [row] if row == column else [row, column]
        inverse = self.flint.acb_mat(len(rows), len(rows))
        strength = self.flint.arb(0)
        at = 0
        for (row, column), value in pairs:
            number = self.number(value) * self.flint.acb(jump)
            strength = strength.max(abs(number))
            if row == column:
                inverse[at, at] = 1 / number
                at += 1
            else:
                # The inverse of [[0, v], [v*, 0]] is [[0, 1/v*], [1/v, 0]].
                inverse[at, at + 1], inverse[at + 1, at] = 1 / number.conjugate(), 1 / number
                at += 2
        repeats = max(rows.count(row) for row in rows)
        norm = (1 + rate.sqrt()) * self.flint.arb(repeats).sqrt()
        return Poisson(tuple(rows), inverse, rate, strength, norm)

    def base(self, z: complex, lift: Any) -> Any:
        """Return ``z`` in the corner, less ``b_0``, plus i times the lift everywhere."""
        result = -self.constant
        for i in range(self.size):
            result[i, i] = result[i, i] + self.flint.acb(0, lift)
        result[0, 0] = result[0, 0] + self.number(complex(z))
        return result

    def kernels(self, g: Any, lift: Any) -> list[Any]:
        """Return the blocks K of the Poisson variables, lifted by i times the same."""
        found = []
        for part in self.poissons:
            inner = part.inverse - self._picked(g, part.rows)
            for i in range(len(part.rows)):
                inner[i, i] = inner[i, i] + self.flint.acb(0, lift)
            found.append(inner.inv())
        return found

    def _picked(self, g: Any, rows: tuple[int, ...]) -> Any:
        return self.flint.acb_mat([[g[i, j] for j in rows] for i in rows])

    def residual(self, g: Any, z: complex, lift: Any) -> Any:
        """Return ``G^-1 + sum_j R_j(G) - b``, by which b would have to be moved for g to be its solution."""
        total = g.inv() - self.base(z, lift)
        for term in self.semicirculars:
            total = total + term.coefficient * g * term.coefficient * self.flint.acb(term.variance)
        for part, kernel in zip(self.poissons, self.kernels(g, lift), strict=True):
            for i, row in enumerate(part.rows):
                for j, column in enumerate(part.rows):
                    total[row, column] = total[row, column] + kernel[i, j] * part.rate
        return total

    def slope(self, g: NDArray[Any]) -> NDArray[Any]:
        """Return the derivative of the residual in double precision, a matrix over the entries of g."""
        inverse = np.linalg.inv(g)
        total: Any = -1.0 * np.kron(inverse, inverse.T)
        for term in self.semicirculars:
            b = as_array(term.coefficient)
            total = total + float(term.variance) * np.kron(b, b.T)
        for part in self.poissons:
            pick = np.eye(self.size)[list(part.rows)]
            kernel = np.linalg.inv(as_array(part.inverse) - pick @ g @ pick.T)
            x = pick.T @ kernel @ pick
            total = total + float(part.rate) * np.kron(x, x.T)
        return np.asarray(total)

    def inverse_norm(self, z: complex) -> Any:
        """Return a bound on the norm of ``(b - L)^-1`` unfolded, from norms of the variables alone.

        ``T = z E - L`` has ``|T^-1| <= (1 + |L_11^-1| |L_10|)^2/Im z + |L_11^-1|``, where L_11 is made of Q
        and its adjoint, Q is unipotent, and the Poisson factors W are put around it.
        """
        arb = self.flint.arb
        states = (self.size - 1) // 2
        # Sums of absolute values of entries bound norms of every part.
        inner, outer = arb(0), arb(0)
        for slot, entries in enumerate(self.pencil.entries):
            norm = arb(1) if slot == 0 else self.norms[slot - 1]
            for (row, column), value in entries.items():
                size = abs(self.number(value)) * norm
                if row == 0 and column > 0:
                    outer = outer + size
                elif row > states and 0 < column <= states and slot > 0:
                    inner = inner + size
        total, power = arb(0), arb(1)
        for _ in range(max(self.pencil.depth, 1)):
            total, power = total + power, power * inner
        pencil = (1 + total * outer) ** 2 / arb(float(z.imag)) + total
        around, strength = arb(1), arb(0)
        for part in self.poissons:
            around, strength = around + part.strength * part.norm, strength.max(part.strength)
        return pencil * around**2 + strength


def as_array(matrix: Any) -> NDArray[Any]:
    """Return the middles of a ball matrix, in double precision."""
    return np.array(
        [[complex(matrix[i, j].mid()) for j in range(matrix.ncols())] for i in range(matrix.nrows())]
    )
