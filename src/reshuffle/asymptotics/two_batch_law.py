"""The two-batch law in closed form: one rational curve carries the spectrum and the noise."""

import itertools
from functools import cached_property
from typing import Any

import numpy as np
import scipy.fft
from numpy.polynomial import chebyshev, polynomial

from reshuffle._arrays import FloatArray
from reshuffle.asymptotics import spectra
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.asymptotics.spectra import IDENTITY
from reshuffle.free.checks import Complex, ConvergenceError, Real

_STEPS = 40
"""Newton steps; from the starts it is given here Newton's method takes three to six."""


class RationalCurve:
    """The spectral curve of w_1 + w_2 - (w_1 w_2 + w_2 w_1)/2 for free Marchenko-Pastur w_1, w_2.

    With free cumulants kappa_n(w) = v c^(n - 1), K = (v + q)(4 - q^2) + c q^2 and R = (z - alpha Z)^-1,

        z(q) = K (2c + (4 + c - 2v) q + v q^2 - q^3) / (q (1 + q)^2 (2 - q)^2 (2 + q)),
        tau(R) = q (1 + q)(4 - q^2) / (c K).

    c = alpha aspect, v = alpha / 2. Derived in docs/price_of_batches.md.
    """

    def __init__(self, aspect: float, alpha: float):
        self.c, self.v = alpha * aspect, alpha / 2
        c, v = self.c, self.v
        self.factors = [4 * v, 4.0, c - v, -1.0], [2 * c, 4 + c - 2 * v, v, -1.0]
        self.upper = polynomial.polymul(*self.factors)
        self.lower = polynomial.polyfromroots([0.0, -1.0, -1.0, 2.0, 2.0, -2.0])

    def z(self, q: Any) -> Any:
        """The point of the spectral plane that q belongs to."""
        # In factors: at aspect 1 both vanish at the lower end of the spectrum, and their product would cancel.
        first, second = (polynomial.polyval(q, factor) for factor in self.factors)
        return first * second / polynomial.polyval(q, self.lower)

    def slope(self, q: Any) -> Any:
        """dz/dq."""
        first, second = (polynomial.polyval(q, factor) for factor in self.factors)
        rises = [polynomial.polyval(q, polynomial.polyder(factor)) for factor in self.factors]
        lower = polynomial.polyval(q, self.lower)
        falls = polynomial.polyval(q, polynomial.polyder(self.lower))
        return (rises[0] * second + first * rises[1] - first * second / lower * falls) / lower

    def cauchy(self, q: Any) -> Any:
        """tau(R), the Cauchy transform at z(q)."""
        c, v = self.c, self.v
        return q * (1 + q) * (4 - q * q) / (c * ((v + q) * (4 - q * q) + c * q * q))

    def cauchy_at(self, q: Any, z: Any) -> Any:
        """The Cauchy transform where z = z(q) is known, with all its digits close to zero too.

        K vanishes at an atom at zero, and the other factor S of z where the spectrum begins there. Since
        z = K S / (q (1 + q)^2 (2 - q)^2 (2 + q)), the transform is S / (c z (1 + q)(2 - q)) as well: the factor is
        taken that has lost fewer digits.
        """
        first, second = (polynomial.polyval(q, factor) for factor in self.factors)
        sizes = [polynomial.polyval(np.abs(q), np.abs(factor)) for factor in self.factors]
        by_second = second / (self.c * z * (1 + q) * (2 - q))
        return np.where(np.abs(first) * sizes[1] >= np.abs(second) * sizes[0], self.cauchy(q), by_second)

    def noise(self, q: Any) -> Any:
        """tau(R M), the Cauchy transform of the noise at z(q)."""
        c, v = self.c, self.v
        numerator = [
            8 * (4 - 4 * v + c * v + v * v),
            4 * (4 + 4 * c + c * v - v * v),
            2 * (c * c + 4 * c - 8 + 8 * v - v * v),
            (c - v) ** 2 - 4 * c - 8,
            2 * (1 - c - v), 1.0,
        ]  # fmt: skip
        denominator = 4 * c * v * (1 + q) ** 2 * (2 - q) ** 2 * (2 + q)
        return q * polynomial.polyval(q, numerator) / denominator

    def critical_points(self) -> FloatArray:
        """The real q at which dz/dq = 0, from left to right."""
        # dz/dq = upper/lower (upper'/upper - lower'/lower); over q(1+q)(2-q)(2+q) no pole of z is left as a root.
        radical = polynomial.polyfromroots([0.0, -1.0, 2.0, -2.0])
        weights = ((0.0, 1.0), (-1.0, 2.0), (2.0, 2.0), (-2.0, 1.0))
        without = {
            pole: polynomial.polyfromroots([q for q, _ in weights if q != pole]) for pole, _ in weights
        }
        pieces = [multiplicity * without[pole] for pole, multiplicity in weights]
        product = polynomial.polymul(self.upper, np.sum(pieces, axis=0))
        equation = polynomial.polysub(polynomial.polymul(polynomial.polyder(self.upper), radical), product)
        # The leading terms cancel: q = infinity is an ordinary point of the curve.
        roots = polynomial.polyroots(equation[:9])
        real = roots[np.abs(roots.imag) < 1e-7 * np.abs(roots)].real
        return np.sort([self._polish_critical(float(q)) for q in real])

    def _polish_critical(self, q: float) -> float:
        for _ in range(_STEPS):
            bend = float(self.slope(q + 1e-30j).imag / 1e-30)
            move = float(self.slope(q)) / bend if bend else 0.0
            if not abs(move) > 4e-16 * abs(q) or abs(move) > 1e-3 * abs(q):
                break
            q -= move
        return q

    def roots(self, z: Complex) -> Complex:
        """All six q with z(q) = z, (points, 6)."""
        # In u = c/q the leading coefficient is constant; in q it vanishes at z = 1.
        powers = self.c ** np.arange(7.0)
        coefficients = (self.upper - np.asarray(z)[:, np.newaxis] * self.lower) * powers
        companion = np.zeros((len(z), 6, 6), dtype=complex)
        companion[:, np.arange(1, 6), np.arange(5)] = 1.0
        companion[:, 0, :] = -coefficients[:, 1:] / coefficients[:, :1]
        u = np.linalg.eigvals(companion)
        # The root at infinity, at z = 1, is replaced by a large finite number.
        return np.asarray(self.c / np.where(u == 0, 1e-100, u))

    def newton(self, q: Complex, z: Complex) -> Complex:
        """The root of z(q) = z that Newton's method finds from q; both of one shape."""
        # In u = 1/q, in which z is nearly linear far out: z is near c v u.
        u, last = 1 / q, np.inf
        with np.errstate(all="ignore"):
            for _ in range(_STEPS):
                q = 1 / u
                move = (self.z(q) - z) / (-q * q * self.slope(q))
                move = np.where(np.isfinite(move), move, 0.0)
                u = u - move
                size = float(np.abs(move / u).max(initial=0.0))
                if size <= 1e-15 or (size < 1e-9 and size > 0.1 * last):
                    break
                last = size
        return np.asarray(1 / u)

    def margin(self, q: Complex) -> FloatArray:
        """A number that is positive for the right root of z(q) = z, Im z > 0, and for no other.

        The matrix of tau(R a a') over a = (1, (1 - w_2)/2, (1 - w_1)/2) has a negative imaginary part only there:
        Im q < 0, Im G < 0 and 2 |G|^2 (Im r)^2 < Im G Im q / |2 + q|^2, with r = tau(R (1 - w_1)) / (2 G). What is
        returned is 1 minus the ratio of the two sides of the last, and -inf where the others fail.
        """
        c, v = self.c, self.v
        with np.errstate(all="ignore"):
            g = self.cauchy(q)
            # 1 - 2r = K / ((1 + q)(4 - q^2)), in a form whose imaginary part does not cancel.
            turn = (v - 1) / (1 + q) + c * q * q / ((1 + q) * (4 - q * q))
            ratio = np.abs(g * (2 + q) * turn.imag) ** 2 / (2 * g.imag * q.imag)
            right = (q.imag < 0) & (g.imag < 0) & np.isfinite(ratio)
        return np.where(right, 1 - ratio, -np.inf)


_FIRST, _LARGEST = 16, 16 * 3**6
"""Points of the tables of the parameter."""
_ROUNDING = 1e-8
"""Margins of the right root are positive, but at small alpha of the order of alpha^2."""
SMALLEST_STEP = 1e-9
"""Below this the roots of the curve are too close together; the system of equations has no such limit."""
_REAL = 1e-6
"""Relative imaginary parts below this may be rounding."""
_SAFE_START = 1e-4
"""Accuracy of the tabulated branch on the support, from which Newton's method goes on."""


class TwoBatchLaw(EpochLaw):
    """The limiting law of alpha Z(alpha/2) for isotropic Gaussian data, p/n -> aspect.

    It is the law of w_1 + w_2 - (w_1 w_2 + w_2 w_1)/2 for free Marchenko-Pastur variables of ratio 2 aspect
    and variance alpha/2, and lies on a rational curve: see `RationalCurve` for the formulas and
    docs/price_of_batches.md for their derivation.

    The parameter q(z) maps the upper half-plane to the lower one and is alpha^2 aspect / (2z) far away, so it is
    real and falling wherever there is no spectrum. The support ends where dz/dq = 0.

    >>> law = TwoBatchLaw(aspect=1.5, alpha=0.2)
    >>> [(round(low, 8), round(high, 8)) for low, high in law.support], law.atoms
    ([(0.01079049, 0.82682557)], ((0.0, 0.33333333333333337),))
    >>> law.density([0.1, 0.5]).round(6)
    array([1.499377, 0.599396])
    """

    batches = 2
    population = IDENTITY

    def __init__(self, aspect: float, alpha: float):
        self.aspect, self.alpha = spectra.aspect(aspect), spectra.alpha(alpha)
        if not self.serves(self.aspect, self.alpha):
            raise ValueError(
                f"alpha and alpha aspect must be at least {SMALLEST_STEP:g} for the closed form, which cancels"
                f" below, but alpha is {self.alpha:g} and aspect {self.aspect:g};"
                " try batch_spectrum(aspect, alpha, 2)."
            )
        self.curve = RationalCurve(self.aspect, self.alpha)

    @staticmethod
    def serves(aspect: float, alpha: float) -> bool:
        """True if the closed form is accurate at this aspect and alpha."""
        return alpha * min(1.0, aspect) >= SMALLEST_STEP

    @cached_property
    def _edges(self) -> list[tuple[float, float]]:
        """Pairs (x, q) of the ends of the support's intervals, from left to right."""
        critical = self.curve.critical_points()
        # From infinity inwards q is real until z(q) first turns back, on either side.
        outer = [critical[critical < 0].max(), critical[critical > 0].min()]
        low, high = (float(self.curve.z(q)) for q in outer)
        places = [(float(self.curve.z(q)), float(q)) for q in critical if q not in outer]
        inside = sorted(pair for pair in places if low < pair[0] < high)
        pairs = [(low, float(outer[0])), *inside, (high, float(outer[1]))]
        # At aspect 1 the lower end is 0 exactly, up to rounding in units of the whole spectrum.
        pairs = [(0.0 if self.aspect == 1 and abs(x) < 1e-13 * high else x, q) for x, q in pairs]
        return self._without_mere_crossings(pairs)

    def _without_mere_crossings(self, pairs: list[tuple[float, float]]) -> list[tuple[float, float]]:
        """Keep the ends of intervals: critical values of other sheets lie inside the support or a gap."""
        narrow = 1e-9 * (pairs[-1][0] - pairs[0][0])
        middles = np.array([(a[0] + b[0]) / 2 for a, b in itertools.pairwise(pairs)])
        filled = self.curve.margin(self._physical_root(middles + 0j)) > -_ROUNDING
        wide = np.array([b[0] - a[0] > narrow for a, b in itertools.pairwise(pairs)])
        has_mass = [False, *(filled | ~wide).tolist(), False]
        return [
            pair
            for pair, before, after in zip(pairs, has_mass, has_mass[1:], strict=False)
            if before != after
        ]

    @property
    def support(self) -> tuple[tuple[float, float], ...]:
        """The intervals of the continuous part: one, or at steps far beyond convergence two."""
        places = [x for x, _ in self._edges]
        return tuple(zip(places[::2], places[1::2], strict=True))

    def _physical_root(self, z: Complex) -> Complex:
        """The parameter at z (points,) with Im z >= 0, as the one root with Im G <= 0 as a matrix."""
        roots = self.curve.roots(z)
        polished = self.curve.newton(roots, np.broadcast_to(z[:, np.newaxis], roots.shape))
        # Newton's method must not leave the root it was given for another one.
        strayed = ~(np.abs(polished - roots) < 0.1 * np.abs(roots))
        candidates = np.where(strayed, roots, polished)
        allowed = self.curve.margin(candidates) > -_ROUNDING
        # A real root whose imaginary part is rounding may pass for the right one.
        complex_ones = allowed & (np.abs(candidates.imag) > _REAL * np.abs(candidates))
        allowed = np.where(complex_ones.any(axis=1, keepdims=True), complex_ones, allowed)
        # At small alpha all margins are within rounding of zero, and the right root is far smaller than the others.
        best = np.argmin(np.where(allowed, np.abs(candidates), np.inf), axis=1)
        return np.asarray(candidates[np.arange(len(z)), best])

    @cached_property
    def _tables(self) -> list[FloatArray]:
        """For each interval the Chebyshev series (degrees, 2) of Re q and Im q / sin(angle), both smooth."""
        return [self._table(low, high) for low, high in self.support]

    def _table(self, low: float, high: float) -> FloatArray:
        count = _FIRST
        while True:
            angles = (np.arange(count) + 0.5) * np.pi / count
            # Twice the square of a sine: the distance from an end keeps its digits however small it is.
            near, far = (
                low + (high - low) * np.sin(angles / 2) ** 2,
                high - (high - low) * np.cos(angles / 2) ** 2,
            )
            q = self._physical_root(np.where(angles < np.pi / 2, near, far) + 0j)
            series = (
                scipy.fft.dct(np.stack([q.real, q.imag / np.sin(angles)], axis=1), type=2, axis=0) / count
            )
            series[0] /= 2
            # cos(angle) falls from left to right, so that the odd coefficients change sign.
            series[1::2] *= -1
            tail = float((np.abs(series[-count // 4 :]).max(axis=0) / np.abs(series).max(axis=0)).max())
            if tail <= _SAFE_START:
                return np.asarray(series)
            if count == _LARGEST:
                raise ConvergenceError(
                    f"a density on [{low:.6g}, {high:.6g}] is not resolved by {count} points (the last of its"
                    f" coefficients is {tail:.1g} of the first): it is nearly singular there, or the end of an"
                    " interval was missed"
                )
            count *= 3

    def _parameter_inside(self, x: FloatArray, number: int) -> Complex:
        """The parameter on the real axis within an interval of the support."""
        low, high = self.support[number]
        sines = 2 * np.sqrt(x - low) * np.sqrt(high - x) / (high - low)
        unit = np.clip((2 * x - low - high) / (high - low), -1.0, 1.0)
        real, imaginary = chebyshev.chebval(unit, self._tables[number])
        return self.curve.newton(real + 1j * imaginary * sines, x + 0j)

    def _parameter_outside(self, x: FloatArray) -> Complex:
        """The parameter on the real axis off the support, where 1/q rises with x between its values at edges."""
        edges = self._edges
        is_right = np.arange(len(edges)) % 2 == 1
        places = np.array([place for place, _ in edges])
        passed = (x[:, np.newaxis] > places) | ((x[:, np.newaxis] == places) & is_right)
        component = passed.sum(axis=1)
        starts = np.array([-np.inf, *(1 / q for _, q in edges)])
        ends = np.array([*(1 / q for _, q in edges), np.inf])
        inverse = 1 / self.curve.roots(x + 0j)
        below = starts[component][:, np.newaxis] - inverse.real
        above = inverse.real - ends[component][:, np.newaxis]
        size = np.abs(inverse)
        misfit = np.maximum(np.maximum(below, above), 0.0) / size + np.abs(inverse.imag) / size
        best = np.argmin(misfit, axis=1)
        return self.curve.newton((1 / inverse[np.arange(len(x)), best]).real + 0j, x + 0j)

    def _parameter_on_axis(self, x: FloatArray) -> Complex:
        q = np.zeros(len(x), dtype=complex)
        outside = np.ones(len(x), dtype=bool)
        for number, (low, high) in enumerate(self.support):
            inside = (x > low) & (x < high)
            outside &= ~inside
            if inside.any():
                q[inside] = self._parameter_inside(x[inside], number)
        if outside.any():
            q[outside] = self._parameter_outside(x[outside])
        return q

    def parameter(self, z: Complex) -> Complex:
        """q(z) for z (points,) with Im z >= 0; real z means the limit from above."""
        places = np.array([x for x, _ in self._edges])
        from_edge = np.abs(z.real[:, np.newaxis] - places).min(axis=1)
        # Close above the axis Im q is too small to tell roots apart, except at an edge, where it is a square root.
        near = (z.imag < 1e-6 * (places[-1] - places[0])) & (z.imag <= 0.1 * from_edge)
        q = np.zeros(len(z), dtype=complex)
        if near.any():
            q[near] = self._parameter_on_axis(z.real[near])
            above = near & (z.imag > 0)
            q[above] = self.curve.newton(q[above], z[above])
        if not near.all():
            q[~near] = self._physical_root(z[~near])
        return q

    def _transforms(self, z: Complex) -> Complex:
        q = self.parameter(z)
        with np.errstate(divide="ignore", invalid="ignore"):
            g = self.curve.cauchy_at(q, z)
            return np.array([g, g, self.curve.noise(q)])

    def _density(self, t: Real) -> Real:
        flat = t.ravel()
        result = np.zeros(len(flat))
        for number, (low, high) in enumerate(self.support):
            inside = (flat > low) & (flat < high)
            q = self._parameter_inside(flat[inside], number)
            result[inside] = np.maximum(-self.curve.cauchy_at(q, flat[inside]).imag / np.pi, 0.0)
        return result.reshape(t.shape)
