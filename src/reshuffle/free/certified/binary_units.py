"""Powers of two that bring variables, expressions and points to size one, with no rounding."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from reshuffle.free.algebra.expression import Expression, Variable
from reshuffle.free.certified.exact_pencil import Cumulants
from reshuffle.free.certified.powers_of_two import log2, scaled, scaled_float


@dataclass(frozen=True)
class Units:
    """Exponents of two: variables are ``2^k_j y_j``, the expression is ``2^whole`` times another one of the y_j."""

    variables: tuple[int, ...]
    whole: int

    def expression(self, given: Expression) -> Expression:
        """Return the expression of the y_j."""
        terms = {word: scaled(value, self._of(word) - self.whole) for word, value in given.terms.items()}
        return Expression(terms, given.family)

    def law(self, number: int, given: Cumulants) -> Cumulants:
        """Return the law of y_j."""
        exponent = -self.variables[number]
        return Cumulants(
            given.kind,
            given.parameters,
            scaled_float(given.factor, exponent),
            scaled_float(given.shift, exponent),
        )

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
