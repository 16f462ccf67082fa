"""The variance when Sigma does not commute with Z: an integral over two spectral variables."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reshuffle._core.arrays import FloatArray
from reshuffle._core.progress import track
from reshuffle.asymptotics.batch_law import BatchLaw
from reshuffle.asymptotics.contour import Contour
from reshuffle.asymptotics.two_resolvents import TwoResolvents
from reshuffle.free.checks import Complex

_GROWTH = 3.0
"""Largest logarithm of ((1 - z) / spectral radius)^k within the circle."""
_PAIRS = 2_000


@dataclass(frozen=True, eq=False)
class CrossVariance:
    """aspect tau(D_k Sigma D_k M), D_k = alpha sum_{j<k} (1 - alpha Z)^j, as a double contour integral.

    Written with two resolvents it is the integral of f_k(z) f_k(z') T(z, z') over two contours around the
    spectrum, f_k(z) = alpha (1 - (1 - z)^k) / z. They run between the spectrum and a circle: around 1 for k epochs,
    through 0 for infinitely many, which are no harder than any others.
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
            result[~finite] = self._integral(epochs[~finite], math.inf)
        if finite.any():
            # Powers of two, so that a search asks for few contours.
            last = 2.0 ** math.ceil(math.log2(max(1.0, float(epochs[finite].max()))))
            result[finite] = self._integral(epochs[finite], last)
        return result

    def _contour(self, epochs: float) -> Contour:
        """The contour that serves every k up to `epochs`, or the limit alone if that is infinite."""
        low, high = self._ends
        if math.isinf(epochs):
            # 1/z is singular at zero alone: any circle through it will do.
            return Contour.between(low, high, max(1.0, high), max(1.0, high))
        radius = max(1.0, abs(1 - low), abs(1 - high)) * math.exp(_GROWTH / epochs)
        return Contour.between(low, high, 1.0, radius)

    def _integral(self, epochs: FloatArray, last: float) -> FloatArray:
        if not len(epochs):
            return np.zeros(0)
        points, weights, table = self._table(last)
        low, high = self._ends
        growth = max(0.0, math.log(max(abs(1 - low), abs(1 - high), 1e-300)))
        factors = np.array([self._drift(points, k, growth) for k in epochs]) * weights
        # Rows are the upper half of the contour alone; the lower half adds the conjugate.
        upper = factors[:, : len(table)]
        total = ((upper @ table) * factors).sum(axis=1)
        with np.errstate(over="ignore"):
            size = np.exp(2 * growth * epochs) if growth else np.ones(len(epochs))
            return np.asarray(2 * self.law.aspect * total.real * size)

    def _drift(self, points: Complex, epochs: float, growth: float) -> Complex:
        """f_k over exp(growth k), which a diverging mode would overflow without."""
        alpha = self.law.alpha
        if math.isinf(epochs):
            return alpha / points
        powers = epochs * np.log(1 - points)
        if not growth:
            return np.asarray(-alpha * np.expm1(powers) / points)
        return np.asarray(alpha * (math.exp(-growth * epochs) - np.exp(powers - growth * epochs)) / points)

    @cached_property
    def _tables(self) -> dict[float, tuple[Complex, Complex, Complex]]:
        return {}

    def _table(self, last: float) -> tuple[Complex, Complex, Complex]:
        """The whole contour (2n,), its weights, and T at (upper half, whole)."""
        if last not in self._tables:
            contour = self._contour(last)
            count = len(contour.points)
            states = self.law.states(contour.points)
            points = np.concatenate([contour.points, contour.points.conj()])
            weights = np.concatenate([contour.weights, contour.weights.conj()])
            resolvents = TwoResolvents(self.law.system, states.with_conjugates())
            first, second = np.divmod(np.arange(count * 2 * count), 2 * count)
            starts = range(0, len(first), _PAIRS)
            values = [
                resolvents.pairs(first[start : start + _PAIRS], second[start : start + _PAIRS])
                for start in track(starts, len(starts), "variance")
            ]
            self._tables[last] = points, weights, np.concatenate(values).reshape(count, 2 * count)
        return self._tables[last]
