"""A linearization with no rounding in it, and what is known of its inverse's norm."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.certified.binary_units import log2, scaled, scaled_float
from reshuffle.free.expression import Expression, Variable
from reshuffle.free.functions import generated
from reshuffle.free.laws import Affine, FreePoisson, Law, MarchenkoPastur, Semicircle
from reshuffle.free.moments import is_polynomial

_ROUNDING = 1e-15
LARGEST = 31
"""Rows of a pencil; its Newton steps have the square of that many unknowns."""


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
