"""Powers of a variable that are multiples of lower ones: a projection is its own square."""

from typing import Any

import numpy as np

from reshuffle.free.algebra.expression import Expression, Inverse, Word
from reshuffle.free.laws import Law

FEW = 4
"""Largest number of values that is looked at; a power of as many letters is rare."""

Rule = tuple[int, int, float]
"""Whole numbers k > j and a factor c with x^k = c x^j."""


def reduced(expression: Expression) -> Expression:
    """Return the same operator with every power x^k replaced by c x^j where the values of x allow it.

    A projection is its own square, a symmetry squares to one, a constant is a number. The pencil becomes smaller,
    and less singular where variables meet their own powers. Rules of several terms, such as
    ``x^2 = (a + b) x - a b`` for two values a and b, are not used: they lengthen most expressions.

    >>> from reshuffle import free
    >>> p, s = free.variables(free.Projection(0.5), free.Bernoulli())
    >>> reduced(p * s * s * s * p + p**3)
    x1 + x1 x2 x1
    """
    laws = expression.family.laws if expression.family else ()
    rules = [_rule(law) for law in laws]
    total = Expression({}, expression.family)
    for word, value in expression.terms.items():
        short, factor = _word(word, rules)
        total = total + Expression({short: value * factor}, total.family)
    return total


def _rule(law: Law) -> Rule | None:
    """Return how the powers of a variable end, if it has few values and their polynomial has two terms."""
    if law.support or len(law.atoms) > FEW:
        return None
    coefficients = -np.poly([place for place, _ in law.atoms])[:0:-1]
    (powers,) = np.nonzero(coefficients)
    if len(powers) > 1:
        return None
    power = int(powers[0]) if len(powers) else 0
    return len(coefficients), power, float(coefficients[power])


def _word(word: Word, rules: list[Rule | None]) -> tuple[Word, Any]:
    """Return a word without high powers, built up letter by letter, and its factor."""
    short: Word = ()
    factor = 1.0
    for letter in word:
        if isinstance(letter, Inverse):
            short = (*short, Inverse(reduced(letter.of)))
            continue
        short, rule = (*short, letter), rules[letter.index]
        if rule is not None and short[-rule[0] :] == (letter,) * rule[0]:
            short = short[: len(short) - rule[0]] + (letter,) * rule[1]
            factor *= rule[2]
    return short, factor
