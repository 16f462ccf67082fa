"""Elementary symmetric means of numbers of both signs, and their derivatives in the step, without cancellation.

e_J(1 - step a) / binom(n, J) is the coefficient of z^J in a product of n factors 1 + (1 - step a) z, over
binom(n, J): an integral over a circle, which is taken through the saddle point. There no integrand is much larger
than the sum.
"""

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.run.step_search.real_zeros import Local

ComplexArray: TypeAlias = NDArray[np.complex128]

_ROUNDING, _OF_ONE = 1e-13, 1e-15
"""Of f, relative to the largest integrand: in any case, and for each of its factors."""
_NEGLIGIBLE = 45.0
"""Integrands smaller than exp(-45) times the largest one are left out."""
_FIRST_NODES = 64
_BESIDE = 8
"""Factors that are multiplied before a logarithm is taken: far too few to overflow."""
_SECTIONS, _ROUNDS = 15, 3
"""An angle is located by so many points at a time, so many times: to a thousandth."""
_HALVINGS = 8
"""A radius is known to a few thousandths."""
_CLOSE, _SLIGHT = 1e-3, 1e-2
"""How close Newton's iteration comes to a saddle point, and how far that must be from the real numbers."""


class SymmetricMean:
    """f of samples with squares a (n,): the mean of e_J / binom(n, J) over the number J of visits (chances)."""

    def __init__(self, squares: FloatArray, visits: IntArray, chances: FloatArray):
        n = len(squares)
        self._squares, self._visits = squares, visits
        self._rounding = _ROUNDING + _OF_ONE * n
        self._logs = np.log(chances) - _log_binomial(n, visits)
        self._usual = int(self._visits[np.argmax(chances)])
        self._is_product = self._visits[0] == n
        # As many nodes as leave no other coefficient in their sum.
        self._enough = 2 * (int(max(self._visits[-1], n - self._visits[0])) // 2 + 1)
        self._nodes, self._radius, self._angle = _FIRST_NODES, 0.0, 0.0

    def at(self, step: float) -> Local:
        """f at a step, as the coefficient of z^J in the product of all 1 + (1 - step a) z."""
        factors = 1 - step * self._squares
        if self._is_product:
            return self._of_product(factors)
        if np.count_nonzero(factors) < self._usual:
            return Local(-math.inf, 0.0, 0.0, 0.0)
        if not self._follow(factors):
            self._search(factors)
        nodes, last = self._nodes, math.inf
        while True:
            sums, size = self._sums(factors, min(nodes, self._enough))
            if nodes >= self._enough or abs(sums[0] - last) <= self._rounding:
                break
            self._nodes, nodes, last = nodes, 2 * nodes, float(sums[0])
        if not sums[0]:
            return Local(-math.inf, 0.0, 0.0, size)
        slope = float(sums[1] / sums[0])
        square = max(slope * slope - float(sums[2] / sums[0]), slope * slope / self._visits[-1])
        return Local(math.log(abs(sums[0])) + size, slope, square, size, self._rounding)

    def _of_product(self, factors: FloatArray) -> Local:
        if not factors.all():
            return Local(-math.inf, 0.0, 0.0, 0.0)
        inverse = self._squares / factors
        log = float(np.log(np.abs(factors)).sum())
        return Local(log, -float(inverse.sum()), float(inverse @ inverse), log, self._rounding)

    def _sums(self, factors: FloatArray, nodes: int) -> tuple[FloatArray, float]:
        """f, f' and f'' over the largest integrand, and the logarithm of that, by the trapezoidal rule.

        On a circle |z| = r the product is concave in cos(angle), so that its maximum is the only one; the radius is
        that for which it is least. Sums are then of the size of f, but for phases that differ: nothing is lost.
        """
        first, last = self._span(factors)
        angles = 2 * math.pi * (np.arange(nodes // 2) + 0.5) / nodes
        angles = angles[(angles >= first) & (angles <= last)]
        z = math.exp(self._radius) * np.exp(1j * angles)
        ones = 1 + z[:, np.newaxis] * factors
        parts = z[:, np.newaxis] * self._squares / ones
        to_first = -parts.sum(axis=1)
        to_second = to_first**2 - np.square(parts, out=parts).sum(axis=1)
        logs = _log_of_product(ones)
        orders = self._logs - self._visits * self._radius
        shares = np.exp(orders - orders.max())
        size = float(orders.max()) + self._largest(factors) + math.log(float(shares.sum()))
        weights = np.exp(-1j * np.outer(angles, self._visits)) @ (shares / shares.sum())
        integrand = 2 / nodes * np.exp(logs - self._largest(factors)) * weights
        return np.array([(integrand * each).real.sum() for each in (1.0, to_first, to_second)]), size

    def _largest(self, factors: FloatArray) -> float:
        """log of the absolute product at the angle at which it is largest."""
        return float(self._sizes(factors, np.array([math.cos(self._angle)]))[0])

    def _sizes(self, factors: FloatArray, cosines: FloatArray) -> FloatArray:
        """log of the absolute product at angles of these cosines."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._moduli(factors, cosines)).sum(axis=1) / 2)

    def _moduli(self, factors: FloatArray, cosines: FloatArray) -> FloatArray:
        """|1 + factor z|^2 (angles, factors)."""
        scaled = math.exp(self._radius) * factors
        sines = np.sqrt(np.maximum(1 - cosines * cosines, 0.0))[:, np.newaxis]
        return np.asarray((1 + cosines[:, np.newaxis] * scaled) ** 2 + (sines * scaled) ** 2)

    def _follow(self, factors: FloatArray) -> bool:
        """Put radius and angle at the saddle point nearest to the last one, by Newton's iteration.

        There the derivative of log product - J log z is zero. Of its zeros at most two are not real, and through
        these the integral is taken. False where the iteration fails, or ends at a real one.
        """
        place = complex(self._radius, self._angle)
        for _ in range(_HALVINGS):
            if not (abs(place.real - self._radius) < 1 and _SLIGHT < place.imag < math.pi - _SLIGHT):
                return False
            ones = 1 + np.exp(place) * factors
            # z p'/p and its derivative in log z, for the product p.
            slope, bend = len(ones) - complex((1 / ones).sum()), complex((1 / ones - 1 / ones**2).sum())
            change = (slope - self._usual) / bend
            place -= change
            if abs(change) <= _CLOSE:
                break
        else:
            return False
        if not _SLIGHT < place.imag < math.pi - _SLIGHT:
            return False
        self._radius, self._angle = place.real, place.imag
        return True

    def _search(self, factors: FloatArray) -> None:
        """Put the radius where the largest integrand is least, and the angle to that one."""

        def grows(radius: float) -> bool:
            self._radius = radius
            cosine = self._highest(factors)
            scaled = math.exp(radius) * factors
            along = (scaled * cosine + scaled * scaled) / self._moduli(factors, np.array([cosine]))[0]
            return float(along.sum()) > self._usual

        low = high = self._radius
        width = 0.01
        if grows(low):
            while grows(low):
                high, low, width = low, low - width, 2 * width
        else:
            while not grows(high):
                low, high, width = high, high + width, 2 * width
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if grows(middle) else (middle, high)
        self._radius = (low + high) / 2
        self._angle = math.acos(self._highest(factors))

    def _highest(self, factors: FloatArray) -> float:
        """The cosine of the angle at which the product is largest, where its derivative changes its sign."""
        low, high = -1.0, 1.0
        scaled = math.exp(self._radius) * factors
        for _ in range(_ROUNDS):
            cosines = np.linspace(low, high, _SECTIONS + 2)
            slopes = (scaled / self._moduli(factors, cosines[1:-1])).sum(axis=1)
            passed = int((slopes > 0).sum())
            low, high = float(cosines[passed]), float(cosines[passed + 1])
        return (low + high) / 2

    def _span(self, factors: FloatArray) -> tuple[float, float]:
        """Angles between which the product is not negligible beside its maximum."""
        least = self._largest(factors) - _NEGLIGIBLE
        inner, outer = np.full(2, self._angle), np.array([0.0, math.pi])
        for _ in range(_HALVINGS):
            middle = (inner + outer) / 2
            counts = self._sizes(factors, np.cos(middle)) > least
            inner, outer = np.where(counts, middle, inner), np.where(counts, outer, middle)
        return float(outer[0]), float(outer[1])


def _log_of_product(factors: ComplexArray) -> ComplexArray:
    """The logarithm of the product along the last axis, of which only few are taken: they cost most."""
    nodes, count = factors.shape
    together = np.multiply.reduce(factors[:, : count - count % _BESIDE].reshape(nodes, -1, _BESIDE), axis=2)
    rest = np.log(factors[:, count - count % _BESIDE :]).sum(axis=1)
    return np.asarray(np.log(together).sum(axis=1) + rest)


def _log_binomial(n: int, chosen: IntArray) -> FloatArray:
    return np.asarray(gammaln(n + 1) - gammaln(chosen + 1) - gammaln(n - chosen + 1))
