"""Powers of a variable with few values: x^n is a polynomial of a degree below their number."""

from typing import Any

import numpy as np

from reshuffle.free.checks import Real
from reshuffle.free.expression import Expression, Inverse, Letter, Word
from reshuffle.free.laws import Law

_MOST_LETTERS = 60
"""Length up to which an expression may grow: the pencils of longer ones take longer than their powers cost."""
FEW = 4
"""Largest number of values that is used; a power of as many letters is rare."""


def reduced(expression: Expression) -> Expression:
    """Return the same operator with every power of a few-valued variable below the number of its values.

    A projection is its own square, a symmetry squares to one, and in general ``prod_k (x - x_k) = 0``. The pencil
    becomes smaller, and less singular where variables meet their own powers. Where words would multiply instead,
    since a square becomes a sum, the expression is returned as it is.

    >>> from reshuffle import free
    >>> p, s = free.variables(free.Projection(0.5), free.Bernoulli())
    >>> reduced(p * s * s * s * p + p**3)
    x1 + x1 x2 x1
    """
    laws = expression.family.laws if expression.family else ()
    rules = [_highest_power(law) for law in laws]
    total = Expression({}, expression.family)
    for word, value in expression.terms.items():
        weights = _word(word, rules)
        total = total + Expression({short: value * weight for short, weight in weights.items()}, total.family)
    return total if _length(total) <= max(_length(expression), _MOST_LETTERS) else expression


def _length(expression: Expression) -> int:
    """The number of letters of all words together."""
    return sum(1 + len(word) for word in expression.terms)


def _highest_power(law: Law) -> Real | None:
    """Return the coefficients of x^0, ..., x^(k-1) in x^k for a law of k values, or None if it has many."""
    if law.support or len(law.atoms) > FEW:
        return None
    return np.asarray(-np.poly([place for place, _ in law.atoms])[:0:-1])


def _word(word: Word, rules: list[Real | None]) -> dict[Word, Any]:
    """Return a word as a combination of words without high powers, built up letter by letter."""
    found: dict[Word, Any] = {(): 1.0}
    for letter in word:
        longer: dict[Word, Any] = {}
        rule = None if isinstance(letter, Inverse) else rules[letter.index]
        added = Inverse(reduced(letter.of)) if isinstance(letter, Inverse) else letter
        for prefix, weight in found.items():
            for short, share in _appended(prefix, added, rule):
                if share:
                    longer[short] = longer.get(short, 0.0) + weight * share
        found = longer
    return found


def _appended(prefix: Word, letter: Letter, rule: Real | None) -> list[tuple[Word, float]]:
    degree = 0 if rule is None else len(rule)
    if (
        rule is None
        or prefix[len(prefix) - degree + 1 :] != (letter,) * (degree - 1)
        or len(prefix) < degree - 1
    ):
        return [((*prefix, letter), 1.0)]
    rest = prefix[: len(prefix) - degree + 1]
    return [(rest + (letter,) * power, float(share)) for power, share in enumerate(rule)]
