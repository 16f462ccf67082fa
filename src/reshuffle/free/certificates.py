"""Proven values of Cauchy transforms off the real axis, with balls for all roundings.

An approximate solution of the matrix equation is the exact one at a base point nearby, the equation has one
solution in the half-plane (Helton, Rashidi Far and Speicher, 2007), and the resolvent moves no faster than its norm
squared (Hoffmann, Mai and Speicher, 2024). A free Poisson variable is a product of two rectangular circular ones,
so that everything is one operator-valued semicircular element. The extra `reshuffle[certified]` installs
python-flint, which has the balls.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.checks import LARGEST, Complex, ConvergenceError
from reshuffle.free.expression import Expression, Variable
from reshuffle.free.laws import Affine, FreePoisson, Law, MarchenkoPastur, Semicircle
from reshuffle.free.linearization import generated
from reshuffle.free.moments import is_polynomial
from reshuffle.free.solver.continuation import follow
from reshuffle.free.solver.system import System

PRECISION = 320
LIFT = 2.0**-180
ROUNDS = 80
MOST_ROWS = 31
"""Rows of a pencil; its Newton steps have the square of that many unknowns."""
_ROUNDING = 1e-15


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


class Prover:
    """Proves values of one expression's Cauchy transform; what it shares between points is made once.

    Parameters
    ----------
    expression : self-adjoint polynomial in semicircular and free Poisson variables.
    """

    def __init__(self, expression: Expression):
        try:
            import flint
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "certificates need python-flint, for balls that hold every rounding: install reshuffle[certified]."
            ) from None
        self.flint = flint
        expression = certifiable(expression)
        laws = expression.family.laws if expression.family else ()
        self.pencil = exact_pencil(expression)
        with flint.ctx.workprec(PRECISION):
            self.equation = Unfolded(flint, self.pencil, laws)
        direction = np.zeros(self.pencil.size)
        direction[0] = 1.0
        self._system = System(self.pencil.array(), laws, direction)

    def certify(self, z: complex) -> Certificate:
        """Return the certificate at z, with ``Im z != 0``."""
        if z.imag == 0:
            raise ValueError(
                f"z must be off the real axis, but it is {z}; on it there are error estimates, from resolve(t)"
            )
        if abs(z) > LARGEST:
            raise ValueError(f"z must have a size of at most {LARGEST:g}, but it is {z}; beyond, G(z) is 1/z")
        if z.imag < 0:
            mirrored = self.certify(z.conjugate())
            return Certificate(z, mirrored.value.conjugate(), mirrored.radius)
        with self.flint.ctx.workprec(PRECISION):
            try:
                return self._proven(z)
            except (ZeroDivisionError, np.linalg.LinAlgError):
                raise self._refusal(z, "the equation is singular there") from None

    def _refusal(self, z: complex, why: str) -> ConvergenceError:
        return ConvergenceError(f"no certificate at {z}: {why}; take z further from the axis")

    def _proven(self, z: complex) -> Certificate:
        arb = self.flint.arb
        lift = arb(LIFT)
        g = self._refined(z, self._start(z), lift)
        moved = self.equation.residual(g, z, lift)
        base = self.equation.base(z, lift)
        if not (_positive(_imaginary(base + moved), arb) and _positive(-_imaginary(g), arb)):
            raise self._refusal(z, "the solution could not be told apart")
        distance = _size(moved, arb) + lift
        norm = self.equation.inverse_norm(z)
        inside = norm * distance
        if not inside < arb("0.5"):
            raise self._refusal(z, "the bound is too weak")
        value = complex(g[0, 0].mid())
        bound = norm * inside / (1 - inside) + abs(g[0, 0] - self.flint.acb(value.real, value.imag))
        return Certificate(z, value, float(np.nextafter(float(bound.upper()), np.inf)))

    def _start(self, z: complex) -> Complex:
        solved = follow(self._system, np.array([z]), 1)
        if not solved.converged[0]:
            raise self._refusal(z, "the equation could not be solved there")
        return np.asarray(solved.resolvent[0])

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
    ``[[a, u/2, v*], [u*/2, 0, Q*], [v, Q, 0]]``; halves of numbers are exact.

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

    for word, value in expression.terms.items():
        if len(word) < 2:
            entries[_slot(word)][0, 0] = value.real if isinstance(value, complex) else value
        else:
            put(_slot(word[:1]), 0, 1 + states[word[1:]], value / 2)
    for word, state in states.items():
        put(0, 1 + count + state, 1 + state, -1)
        column = 0 if len(word) == 1 else 1 + states[word[1:]]
        put(_slot(word[:1]), 1 + count + state, column, Fraction(1))
    return ExactPencil(tuple(entries), size, max((len(word) for word in expression.terms), default=0))


def _slot(word: Any) -> int:
    if not word:
        return 0
    assert isinstance(word[0], Variable)
    return word[0].index + 1


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

    Parameters
    ----------
    flint : the module python-flint; pencil : exact; laws : of its variables.
    """

    def __init__(self, flint: Any, pencil: ExactPencil, laws: tuple[Law, ...]):
        self.flint, self.size, self.pencil = flint, pencil.size, pencil
        self.constant = self._matrix(pencil.entries[0])
        self.semicirculars: list[Semicircular] = []
        self.poissons: list[Poisson] = []
        self.norms: list[Any] = []
        for entries, law in zip(pencil.entries[1:], laws, strict=True):
            self._add(entries, law)

    def _add(self, entries: dict[tuple[int, int], Any], law: Law) -> None:
        """Add the term of one variable, ``factor x + shift`` for x of a simple kind."""
        arb = self.flint.arb
        factor, shift, coefficient = arb(1), arb(0), self._matrix(entries)
        if isinstance(law, Affine):
            factor, shift, law = arb(law.factor), arb(law.shift), law.base
        if isinstance(law, Semicircle):
            shift = factor * arb(law.mean) + shift
            variance = factor * factor * arb(law.variance)
            self.norms.append(abs(shift) + 2 * variance.sqrt())
            self.semicirculars.append(Semicircular(coefficient, variance))
        elif isinstance(law, FreePoisson | MarchenkoPastur):
            if isinstance(law, FreePoisson):
                rate, jump = arb(law.rate), factor * arb(law.jump)
            else:
                rate, jump = 1 / arb(law.ratio), factor * arb(law.ratio) * arb(law.variance)
            self.norms.append(abs(shift) + abs(jump) * (1 + rate.sqrt()) ** 2)
            if entries:
                self.poissons.append(self._poisson(entries, rate, jump))
        else:
            raise ValueError(
                f"a certificate needs variables with the law Semicircle, MarchenkoPastur or FreePoisson, or affine"
                f" images of these, but one is {law!r}; of other laws there are error estimates, from resolve(t)"
            )
        self.constant = self.constant + coefficient * self.flint.acb(shift)

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
