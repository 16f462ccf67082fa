"""Powers of two that bring variables, expressions and points to size one: exactly, or not at all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from reshuffle.free.checks import ConvergenceError
from reshuffle.free.expression import Expression, Variable


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
