"""The rational curve of the two-batch law: everything about two batches as a function of one parameter q."""

from typing import Any

import numpy as np
from numpy.polynomial import polynomial

from reshuffle._arrays import FloatArray
from reshuffle.free.checks import Complex

_STEPS = 40
"""Newton steps; from the starts it is given here Newton's method takes three to six."""


class RationalCurve:
    """The spectral curve of w_1 + w_2 - (w_1 w_2 + w_2 w_1)/2 for free Marchenko-Pastur w_1, w_2.

    With free cumulants kappa_n(w) = v c^(n - 1), K = (v + q)(4 - q^2) + c q^2 and R = (z - alpha Z)^-1,

        z(q) = K (2c + (4 + c - 2v) q + v q^2 - q^3) / (q (1 + q)^2 (2 - q)^2 (2 + q)),
        tau(R) = q (1 + q)(4 - q^2) / (c K).

    Derived in docs/price_of_batches.md.

    Parameters
    ----------
    aspect, alpha : float
        c = alpha aspect, v = alpha / 2.
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
        """The same where z = z(q) is known, with all its digits close to zero too.

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

    def noise_slope_at_zero(self) -> float:
        """The derivative of `noise` along z at z = 0, for aspect < 1."""
        c, v, cubic = self.c, self.v, self.factors[1]
        # Of three real roots the one nearest to zero, near -c/2, lies on the right branch.
        roots = polynomial.polyroots(cubic)
        q = float(roots[np.argmin(np.abs(roots))].real)
        # The cubic is a factor of z, so that only its own slope counts where it vanishes.
        rest = ((v + q) * (4 - q * q) + c * q * q) / polynomial.polyval(q, self.lower)
        slope = rest * polynomial.polyval(q, polynomial.polyder(cubic))
        # A complex step differentiates a rational function to the last digit.
        return float(self.noise(q + 1e-30j).imag / 1e-30 / slope)

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
        # The root at infinity, at z = 1, is kept as a number.
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
