"""Exact moments by freeness, with no resolvent and no density."""

from typing import Any

import numpy as np

from reshuffle.free.expression import Expression, Inverse, Variable

Basis = tuple[tuple[int, int], ...]
Vector = dict[Basis, Any]


def is_polynomial(expression: Expression) -> bool:
    """Return whether no inverse occurs."""
    return not any(isinstance(letter, Inverse) for word in expression.terms for letter in word)


def polynomial_moments(expression: Expression, order: int, weight: Expression | None = None) -> list[Any]:
    """Return ``[tau(p), ..., tau(p^order)]``, or ``[tau(w), tau(p w), ..., tau(p^order w)]`` with a weight w.

    Alternating products ``P_n1(x_j1) P_n2(x_j2) ...`` of orthogonal polynomials of free variables,
    neighbouring indices different and all degrees >= 1, are orthogonal: that is the definition of freeness.
    In this basis a variable acts by its three-term recurrence on the first factor, and tau reads off the
    coefficient of the empty product.

    >>> from reshuffle import free
    >>> x, y = free.variables(free.Semicircle(), free.Semicircle())
    >>> polynomial_moments(x * y + y * x, 4)
    [0.0, 2.0, 0.0, 10.0]
    """
    start = Expression({(): 1}, expression.family)
    degrees = [max((len(word) for word in e.terms), default=0) for e in (expression, weight or start)]
    laws = expression.family.laws if expression.family else ()
    recurrences = [law.recurrence((degrees[0] * order + degrees[1]) // 2 + 2) for law in laws]
    vector: Vector = {(): 1 if expression.dimension == 1 else np.eye(expression.dimension)}
    factors = [expression] * order if weight is None else [weight, *[expression] * order]
    moments = []
    for later, factor in zip(reversed(range(len(factors))), factors, strict=True):
        # What is longer than the letters still to come cannot return to the empty product.
        vector = _multiplied(factor, vector, recurrences, degrees[0] * later)
        value = vector.get((), 0)
        moments.append(np.trace(value) / expression.dimension if np.ndim(value) else value)
    return moments


def _multiplied(
    expression: Expression, vector: Vector, recurrences: list[tuple[list[Any], list[Any]]], keep: int
) -> Vector:
    """Return ``expression * vector``, without basis elements of degree above ``keep``."""
    total: Vector = {}
    for word, value in expression.terms.items():
        image = vector
        for letter in reversed(word):
            assert isinstance(letter, Variable)
            image = _shifted(letter.index, image, *recurrences[letter.index])
        for basis, weight in image.items():
            if sum(degree for _, degree in basis) <= keep:
                _add(total, basis, np.asarray(value) @ weight if np.ndim(value) else value * weight)
    return total


def _shifted(variable: int, vector: Vector, alpha: list[Any], beta: list[Any]) -> Vector:
    """Return ``x * vector`` for a variable with this recurrence."""
    total: Vector = {}
    for basis, weight in vector.items():
        here = basis[0][1] if basis and basis[0][0] == variable else 0
        rest = basis[1:] if here else basis
        # A recurrence that ended (beta = 0) has no higher polynomial: its norm is zero.
        if here >= len(alpha):
            continue
        _add(total, ((variable, here + 1), *rest), weight)
        _add(total, ((variable, here), *rest) if here else rest, alpha[here] * weight)
        if here:
            _add(total, ((variable, here - 1), *rest) if here > 1 else rest, beta[here] * weight)
    return total


def _add(total: Vector, basis: Basis, weight: Any) -> None:
    total[basis] = total[basis] + weight if basis in total else weight
