"""What is done to an expression before it is solved: refuse what has no law, reduce powers that repeat."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle.free.algebra.exact_moments import is_polynomial
from reshuffle.free.algebra.expression import (
    Expression,
    Inverse,
    Variable,
    Word,
)
from reshuffle.free.algebra.functions import generated
from reshuffle.free.checks import Complex
from reshuffle.free.laws import Law

if TYPE_CHECKING:
    from reshuffle.free.spectrum import Spectrum


def require_self_adjoint(expression: Expression) -> None:
    """Raise unless the expression equals its adjoint.

    Polynomials are compared word by word. Rational expressions have many forms, ``x (1 + y x)^-1 = (1 + x
    y)^-1 x``, and are compared at random Hermitian matrices, where different ones differ.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> require_self_adjoint(x * y + y * x)
    """
    expression = generated(expression)
    difference = (expression - expression.adjoint()) / 2
    if not difference.terms or _is_rounding(difference, expression):
        return
    values = [difference.evaluate(_point(expression, seed)) for seed in (1, 2)]
    sizes = [np.abs(expression.evaluate(_point(expression, seed))).max() for seed in (1, 2)]
    if all(np.abs(value).max() <= 1e-12 * size for value, size in zip(values, sizes, strict=True)):
        return
    shown = difference if not is_polynomial(expression) else _without_rounding(difference)
    raise ValueError(
        f"expression must be self-adjoint, but it is {expression!r}, whose anti-self-adjoint part is {shown!r};"
        " take (p + p.adjoint())/2, or p.adjoint() * p for its singular values"
    )


def _point(expression: Expression, seed: int) -> list[Complex]:
    generator = np.random.default_rng(seed)
    laws = expression.family.laws if expression.family else ()
    result = []
    for law in laws:
        a = generator.standard_normal((5, 5)) + 1j * generator.standard_normal((5, 5))
        result.append((a + a.conj().T) * law.scale / 4)
    return result or [np.eye(1)]


def _is_rounding(difference: Expression, expression: Expression) -> bool:
    """Return whether a polynomial's coefficients are rounding beside those of another."""
    if not is_polynomial(expression):
        return False
    largest, left = (
        max(float(np.abs(value).max() if np.ndim(value) else abs(value)) for value in sum_.terms.values())
        for sum_ in (expression, difference)
    )
    return left <= 1e-15 * largest


def _without_rounding(difference: Expression) -> Expression:
    largest = max(float(np.abs(value).max()) for value in difference.terms.values())
    kept = {word: value for word, value in difference.terms.items() if np.abs(value).max() > 1e-12 * largest}
    return Expression(kept, difference.family)


def require_invertible(expression: Expression, spectrum: Callable[[Expression], "Spectrum"]) -> None:
    """Raise unless every divisor in the expression is bounded away from 0.

    A self-adjoint divisor must not have 0 in its spectrum; for any other d the same is asked of ``d* d``.
    """
    for letter in {letter for word in expression.terms for letter in word if isinstance(letter, Inverse)}:
        divisor = letter.of
        law = spectrum(divisor if divisor == divisor.adjoint() else divisor.adjoint() * divisor)
        tolerance = 1e-9 * max(abs(end) for pair in _spectrum(law) for end in pair)
        for low, high in _spectrum(law):
            if low <= tolerance and high >= -tolerance:
                raise ZeroDivisionError(
                    f"division by {divisor!r}: the divisor must be invertible, but 0 lies in the"
                    f" part [{low:.6g}, {high:.6g}]"
                    " of its spectrum (or of its squared modulus); add a constant that"
                    " moves the spectrum off 0"
                )


def _spectrum(law: "Spectrum") -> list[tuple[float, float]]:
    return [*law.support, *((place, place) for place, _ in law.atoms)]


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
    if not any(rules) and not any(
        isinstance(letter, Inverse) for word in expression.terms for letter in word
    ):
        return expression
    # Words that become the same are added in as few sums as there are of them: each sum copies all words.
    layers: list[dict[Word, Any]] = [{}]
    for word, value in expression.terms.items():
        short, factor = _word(word, rules)
        layer = next((layer for layer in layers if short not in layer), None)
        if layer is None:
            layers.append(layer := {})
        layer[short] = value * factor
    return sum(
        (Expression(layer, expression.family) for layer in layers[1:]),
        Expression(layers[0], expression.family),
    )


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
        assert isinstance(letter, Variable)
        short, rule = (*short, letter), rules[letter.index]
        if rule is not None and short[-rule[0] :] == (letter,) * rule[0]:
            short = short[: len(short) - rule[0]] + (letter,) * rule[1]
            factor *= rule[2]
    return short, factor
