"""The variance when Sigma does not commute with Z: an integral over two spectral variables."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reshuffle.arrays import FloatArray
from reshuffle.asymptotics.batch_law import BatchLaw
from reshuffle.asymptotics.two_resolvents import TwoResolvents
from reshuffle.free.checks import Complex, ConvergenceError

_DIGITS = 30.0
"""Of the natural logarithm, that the trapezoidal rule is taken to."""
_GROWTH = 3.0
"""Largest logarithm of (1 - z)^k on the contour."""
_LARGEST = 3000
_PAIRS = 20_000


@dataclass(frozen=True, eq=False)
class Contour:
    """Half of an ellipse around the spectrum: points (n,) in the upper half-plane, and dz / (2 pi i)."""

    points: Complex
    weights: Complex

    @classmethod
    def around(cls, low: float, high: float, radius: float, count: int) -> "Contour":
        """The ellipse with foci low and high that is the image of a circle of the given radius > 1."""
        w = radius * np.exp(1j * np.pi * (np.arange(count) + 0.5) / count)
        half = (high - low) / 2
        return cls((low + high) / 2 + half * (w + 1 / w) / 2, half * (w - 1 / w) / 2 / (2 * count))


@dataclass(frozen=True, eq=False)
class CrossVariance:
    """aspect tau(D_k Sigma D_k M), D_k = alpha sum_{j<k} (1 - alpha Z)^j, as a double contour integral.

    Written with two resolvents it is the integral of f_k(z) f_k(z') T(z, z') over two ellipses around the
    spectrum, f_k(z) = alpha (1 - (1 - z)^k) / z. The ellipses leave zero outside wherever the spectrum does, so
    that the limit of infinitely many epochs is no harder than any other.
    """

    law: BatchLaw

    @cached_property
    def _ends(self) -> tuple[float, float]:
        return self.law.support[0][0], self.law.support[-1][1]

    def variance(self, epochs: FloatArray) -> FloatArray:
        """The variance at noise one after each of the epochs (n,)."""
        result = np.full(len(epochs), np.inf)
        finite = np.isfinite(epochs)
        low, high = self._ends
        if low > 0 and high < 2:
            result[~finite] = self._integral(epochs[~finite], _radius_at(0.0, low, high))
        if finite.any():
            result[finite] = self._integral(epochs[finite], self._reach(float(epochs[finite].max())))
        return result

    def _reach(self, epochs: float) -> float:
        """The largest radius up to 9 within which no (1 - z)^k is large: how far out f_k is tame."""
        smaller, larger = 1.0, 9.0
        for _ in range(60):
            middle = (smaller + larger) / 2
            if epochs * _growth(*self._ends, middle) <= _GROWTH:
                smaller = middle
            else:
                larger = middle
        return smaller

    def _integral(self, epochs: FloatArray, reach: float) -> FloatArray:
        # Half way, in the logarithm, from the spectrum to where f_k ends: there the rule's two errors are equal.
        radius = math.sqrt(reach)
        count = 8 + math.ceil(_DIGITS / math.log(radius) / 2)
        if not len(epochs):
            return np.zeros(0)
        if count > _LARGEST:
            raise ConvergenceError(
                f"the variance after {epochs.max():g} epochs needs a contour of {count} points, more than"
                f" {_LARGEST}: the spectrum starts at {self._ends[0]:.3g}; ask for fewer epochs"
            )
        points, weights, table = self._table(radius, count)
        factors = np.array([self._drift(points, k) for k in epochs]) * weights
        # Rows are the upper half of the contour alone; the lower half adds the conjugate.
        upper = factors[:, :count]
        total = np.einsum("ki,ij,kj->k", upper, table, factors)
        return np.asarray(2 * self.law.aspect * total.real)

    def _drift(self, points: Complex, epochs: float) -> Complex:
        alpha = self.law.alpha
        if math.isinf(epochs):
            return alpha / points
        return np.asarray(-alpha * np.expm1(epochs * np.log(1 - points)) / points)

    def _table(self, radius: float, count: int) -> tuple[Complex, Complex, Complex]:
        """The whole contour (2n,), its weights, and T at (upper half, whole)."""
        contour = Contour.around(*self._ends, radius, count)
        states = self.law.states(contour.points)
        points = np.concatenate([contour.points, contour.points.conj()])
        weights = np.concatenate([contour.weights, contour.weights.conj()])
        resolvents = TwoResolvents(self.law.system, states.with_conjugates())
        first, second = np.divmod(np.arange(count * 2 * count), 2 * count)
        values = [
            resolvents.pairs(first[start : start + _PAIRS], second[start : start + _PAIRS])
            for start in range(0, len(first), _PAIRS)
        ]
        return points, weights, np.concatenate(values).reshape(count, 2 * count)


def _radius_at(place: float, low: float, high: float) -> float:
    """The radius of the circle whose ellipse passes through a real place outside [low, high]."""
    unit = abs(2 * place - low - high) / (high - low)
    return unit + math.sqrt(unit * unit - 1)


def _growth(low: float, high: float, radius: float) -> float:
    """The largest logarithm of |1 - z| on an ellipse."""
    w = radius * np.exp(1j * np.linspace(0, np.pi, 181))
    z = (low + high) / 2 + (high - low) / 4 * (w + 1 / w)
    return float(np.log(np.abs(1 - z).max()))
