"""Control variates of drawn orders: parts of an order's pull whose mean over all orders is known.

What is left to chance is the difference. Each follows an order from its last visit to its first beside the pull
itself: with M = L^-1 prod (I - step W) L what happens after a visit, the pull of the visit is M o, and transposes
are kept, so that rows stay rows.
"""

from typing import Protocol

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.epoch.averaging import low_degrees
from reshuffle.epoch.averaging.low_degrees import Whitened


class Part(Protocol):
    """A part of the pull of each of c orders."""

    def visit(self, own: FloatArray, weighted: FloatArray) -> FloatArray:
        """What it is for the rows of a visit (c, m, k), which are `own`, and X times them (c, k, m); then go on."""


class Control(Protocol):
    """A control variate.

    Attributes
    ----------
    mean : (q, k)
        Over all orders and their reverses.
    """

    mean: FloatArray

    def begin(self, orders: int) -> Part:
        """The part of so many orders, before the last of their visits."""


class LowDegrees:
    """The pull up to second degree in the step: most of it if an epoch does little."""

    def __init__(self, whitened: Whitened, coefficients: FloatArray):
        self.mean = low_degrees.up_to_two(whitened, coefficients)
        self._modes = len(whitened.paces)

    def begin(self, orders: int) -> Part:
        """Nothing happens after the last visit."""
        return _LowDegreesPart(orders, self._modes)


class _LowDegreesPart:
    def __init__(self, orders: int, modes: int):
        self._linear, self._quadratic = np.zeros((2, orders, modes, modes))

    def visit(self, own: FloatArray, weighted: FloatArray) -> FloatArray:
        first = own @ self._linear
        part = own + first + own @ self._quadratic
        self._quadratic -= weighted @ first
        self._linear -= weighted @ own
        return np.asarray(part)


class LinearPart:
    """What is linear in the deviations of each visit from the mean visit, however much an epoch does.

    It pays where a last batch is cut short: the few samples that happen to be in it weigh more than others. Where
    all visits weigh the same, the linear parts of an epoch all but cancel.

    If every visit were the mean one, M would be a power of the diagonal I - X / B. Given that a sample is visited
    at t, a visit at t' is to any of the others: its mean deviates from the mean visit by
    X (I - s' (I - P) n / (n - 1)) / B, where s' is its share and P the sample's own o o'.

    Parameters
    ----------
    whitened : Whitened
        Of single rows.
    shares : (B,)
        What each visit weighs.
    """

    def __init__(self, whitened: Whitened, shares: FloatArray):
        self._left = 1 - whitened.paces / len(shares)
        self.mean = np.asarray((self._mean(whitened, shares) + self._mean(whitened, shares[::-1])) / 2)

    def begin(self, orders: int) -> Part:
        """Nothing happens after the last visit."""
        return _LinearPartOfSome(orders, self._left)

    def _mean(self, whitened: Whitened, shares: FloatArray) -> FloatArray:
        x, rows, n, steps = whitened.paces, whitened.orthonormal, whitened.atoms, len(shares)
        after = self._left ** np.arange(steps)[::-1, np.newaxis]
        # earlier[t'] = sum over t < t' of s_t left^(t'-1-t), by Horner's rule.
        earlier = np.zeros((steps, len(x)))
        for visit in range(1, steps):
            earlier[visit] = self._left * earlier[visit - 1] + shares[visit - 1]
        others = shares[:, np.newaxis] * n / max(n - 1, 1)
        own = (others * earlier).T @ after * x[:, np.newaxis] / steps
        rest = ((others - 1) * earlier * after).sum(axis=0) * x / steps
        return np.asarray(rows * (shares @ after - rest + np.square(rows) @ own) / steps)


class _LinearPartOfSome:
    def __init__(self, orders: int, left: FloatArray):
        self._left, self._alike = left, np.ones(len(left))
        self._deviation = np.zeros((orders, len(left), len(left)))

    def visit(self, own: FloatArray, weighted: FloatArray) -> FloatArray:
        zeroth = own * self._alike
        part = zeroth + own @ self._deviation
        self._deviation *= self._left[:, np.newaxis]
        self._deviation -= weighted @ zeroth
        diagonals = np.einsum("oii->oi", self._deviation)
        diagonals += (1 - self._left) * self._alike
        self._alike = self._alike * self._left
        return np.asarray(part)
