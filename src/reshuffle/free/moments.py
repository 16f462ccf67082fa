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
    action = _Action(expression, degrees[0] * order + degrees[1])
    vector: Vector = {(): 1 if expression.dimension == 1 else np.eye(expression.dimension)}
    moments = []
    if weight is not None:
        vector = action.apply(weight, vector, degrees[0] * order)
        moments.append(action.trace(vector))
    for step in range(order):
        # What is longer than the letters still to come cannot return to the empty product.
        vector = action.apply(expression, vector, degrees[0] * (order - 1 - step))
        moments.append(action.trace(vector))
    return moments


class _Action:
    """Left multiplication by words on vectors of the alternating basis."""

    def __init__(self, expression: Expression, depth: int):
        laws = expression.family.laws if expression.family else ()
        self.recurrences = [law.recurrence(depth // 2 + 2) for law in laws]
        self.dimension = expression.dimension

    def apply(self, expression: Expression, vector: Vector, keep: int) -> Vector:
        """Return ``expression * vector``, without basis elements of degree above ``keep``."""
        total: Vector = {}
        for word, value in expression.terms.items():
            image = vector
            for letter in reversed(word):
                assert isinstance(letter, Variable)
                image = self._letter(letter.index, image)
            for basis, weight in image.items():
                if sum(degree for _, degree in basis) <= keep:
                    product = np.asarray(value) @ weight if np.ndim(value) else value * weight
                    total[basis] = total[basis] + product if basis in total else product
        return total

    def _letter(self, variable: int, vector: Vector) -> Vector:
        alpha, beta = self.recurrences[variable]
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

    def trace(self, vector: Vector) -> Any:
        """Return the normalised trace of the coefficient of the empty product."""
        value = vector.get((), 0)
        return np.trace(value) / self.dimension if np.ndim(value) else value


def _add(total: Vector, basis: Basis, weight: Any) -> None:
    total[basis] = total[basis] + weight if basis in total else weight
