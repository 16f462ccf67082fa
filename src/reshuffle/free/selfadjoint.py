"""Refuse expressions that are not self-adjoint, and show the part that is in the way."""

import numpy as np

from reshuffle.free.checks import Complex
from reshuffle.free.expression import Expression
from reshuffle.free.moments import is_polynomial


def require(expression: Expression) -> None:
    """Raise unless the expression equals its adjoint.

    Polynomials are compared word by word. Rational expressions have many forms, ``x (1 + y x)^-1 = (1 + x
    y)^-1 x``, and are compared at random Hermitian matrices, where different ones differ.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> require(x * y + y * x)
    """
    difference = (expression - expression.adjoint()) / 2
    if not difference.terms:
        return
    values = [difference.evaluate(_point(expression, seed)) for seed in (1, 2)]
    sizes = [np.abs(expression.evaluate(_point(expression, seed))).max() for seed in (1, 2)]
    if all(np.abs(value).max() <= 1e-12 * size for value, size in zip(values, sizes, strict=True)):
        return
    shown = difference if not is_polynomial(expression) else _without_rounding(difference)
    raise ValueError(
        f"expression must be self-adjoint, got {expression!r} whose anti-self-adjoint part is {shown!r};"
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


def _without_rounding(difference: Expression) -> Expression:
    largest = max(float(np.abs(value).max()) for value in difference.terms.values())
    kept = {word: value for word, value in difference.terms.items() if np.abs(value).max() > 1e-12 * largest}
    return Expression(kept, difference.family)
