"""Contours around a spectrum: between the interval that holds it and the disc in which functions of it are tame."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.special

from reshuffle._core.arrays import FloatArray
from reshuffle.free.checks import Complex, ConvergenceError

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
