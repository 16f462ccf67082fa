"""The variance when Sigma does not commute with Z: an integral over two spectral variables, along contours."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.special

from reshuffle._core import FloatArray, IntArray
from reshuffle._core.progress import track
from reshuffle.asymptotics.laws.batch_law import BatchLaw
from reshuffle.asymptotics.laws.batch_system import BatchSystem, State
from reshuffle.free.checks import Complex, ConvergenceError

_GROWTH = 3.0
"""Largest logarithm of ((1 - z) / spectral radius)^k within the circle."""
_PAIRS = 2_000
"""Of points, taken at a time."""
_DIGITS = 30.0
"""Of the natural logarithm, that the trapezoidal rule is taken to."""
_NARROWEST = 1e-9
"""Smallest distance of the mapped interval from the mapped circle at which elliptic functions keep their digits."""
_TINY = 0.05
"""Hyperbolic half-length of an interval that is small and far from the circle."""


@dataclass(frozen=True, eq=False)
class Contour:
    """The upper half of a closed curve around an interval: points (n,), and dz / (2 pi i) there.

    >>> contour = Contour.between(0.1, 1.5, 1.0, 1.0)
    >>> bool(abs(2 * (contour.weights / (contour.points - 0.7)).sum().real - 1) < 1e-12), len(contour.points)
    (True, 38)
    """

    points: Complex
    weights: Complex

    @classmethod
    def between(cls, low: float, high: float, centre: float, radius: float) -> "Contour":
        """The middle curve between [low, high] and the circle of a given centre and radius around it.

        A Moebius map makes the disc the unit disc and the interval [-l, l]; k^(1/2) sn(u; k) with k = l^2 takes
        the strip 0 < Im u < K'/2 to what is between them. On the line half way up, the trapezoidal rule in u
        converges geometrically, at a rate that falls with the logarithm of the gap alone. Source: Hale, Higham and
        Trefethen (2008), for the same domain.
        """
        starts, ends = (_hyperbolic(place, centre, radius) for place in (high, low))
        middle, half = (starts + ends) / 2, (ends - starts) / 2
        if half < _TINY:
            # A nearer circle does as well, and keeps the elliptic functions away from their degenerate limit.
            return cls.between(low, high, (low + high) / 2, 5 * (high - low) / 2)
        # 1 - l for l = tanh(half), with all its digits.
        gap = 2 / (math.exp(2 * half) + 1)
        if not gap > _NARROWEST:
            raise ConvergenceError(
                f"no contour fits between the spectrum [{low:.3g}, {high:.3g}] and the circle of radius"
                f" {radius:.9g} around {centre:.3g}; ask for fewer epochs"
            )
        length = 1 - gap
        complement = gap * (1 + length) * (1 + length * length)
        real_period = float(scipy.special.ellipkm1(complement))
        imaginary_period = float(scipy.special.ellipk(complement))
        count = 4 + math.ceil(_DIGITS * 4 * real_period / (math.pi * imaginary_period))
        x = real_period * (2 * (np.arange(count) + 0.5) / count - 1)
        t, slope = _elliptic(x, imaginary_period / 4, complement)
        t, slope = length * t, length * slope
        # y = (m + t)/(1 + m t) in the unit disc, z = centre - radius y, from 1 - y: small where z is.
        m = math.tanh(middle)
        rest = 2 / (math.exp(2 * middle) + 1) * (1 - t) / (1 + m * t)
        z = centre - radius + radius * rest
        speed = -radius * (1 - m * m) / (1 + m * t) ** 2 * slope
        weights = -speed * (2 * real_period / count) / (2j * math.pi)
        return cls(z.conj(), weights.conj())


def _hyperbolic(place: float, centre: float, radius: float) -> float:
    """The hyperbolic coordinate artanh((centre - place) / radius), with the digits of both distances."""
    return 0.5 * math.log((radius + (centre - place)) / (radius - centre + place))


def _elliptic(x: FloatArray, height: float, complement: float) -> tuple[Complex, Complex]:
    """sn(x + i height) of parameter m = 1 - complement, and its derivative cn dn."""
    m = 1 - complement
    s, c, d, _ = scipy.special.ellipj(x, m)
    s1, c1, d1, _ = scipy.special.ellipj(height, complement)
    below = c1 * c1 + m * (s * s1) ** 2
    sine = (s * d1 + 1j * c * d * s1 * c1) / below
    cosine = (c * c1 - 1j * s * d * s1 * d1) / below
    delta = (d * c1 * d1 - 1j * m * s * c * s1) / below
    return sine, cosine * delta


@dataclass(frozen=True, eq=False)
class TwoResolvents:
    """The pair transform T(z, z') = tau((z - alpha Z)^-1 Sigma (z' - alpha Z)^-1 M) at solved points.

    The block matrix [[A(z), -E (x) Sigma], [0, A(z')]] has A(z)^-1 E Sigma A(z')^-1 as the corner of its inverse,
    and is a linearization like A itself. Its fixed point is triangular: given the solutions at z and z', the corner
    solves one small linear system.

    Parameters
    ----------
    system : BatchSystem
    state : State
        Evaluated at the solutions of all points.
    """

    system: BatchSystem
    state: State

    def pairs(self, first: IntArray, second: IntArray) -> Complex:
        """T at pairs of points, given by two index arrays (pairs,)."""
        system, state = self.system, self.state
        left, right = ([block[index] for block in state.blocks] for index in (first, second))
        before, after = ([block[index] for block in state.factors] for index in (first, second))
        maps = system.between(left, right, 2)
        source, through = system.from_corner(maps), system.through(maps)
        matrix = np.eye(system.entries) - system.weigh(before, after, through)
        solved = np.linalg.solve(matrix, -system.weigh(before, after, source))
        corner = (source - through @ solved)[..., 0]
        vectors = system.noise_vectors(state)
        size = vectors.shape[1]
        inner = corner[:, : size * size].reshape(-1, size, size)
        return np.asarray(np.einsum("pi,pij,pj->p", vectors[first], inner, vectors[second]) / system.unit)


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
