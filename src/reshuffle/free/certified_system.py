"""The equation of a certificate, with no rounding in it.

Powers of two bring variables, expressions and points to size one: exactly, or not at all. `ExactPencil` is a
linearization with a bound on its inverse's norm; `Unfolded` is its semicircular system with balls for numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.checks import ConvergenceError
from reshuffle.free.expression import Expression, Variable
from reshuffle.free.functions import generated
from reshuffle.free.laws import Affine, FreePoisson, Law, MarchenkoPastur, Semicircle
from reshuffle.free.moments import is_polynomial

_ROUNDING = 1e-15
LARGEST = 31
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
    if size > LARGEST:
        raise ValueError(
            f"a certificate takes a pencil of at most {LARGEST} rows, but it has {size} for {expression!r}; it"
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
