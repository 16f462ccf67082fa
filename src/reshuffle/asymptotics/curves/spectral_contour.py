"""Closed curves around a spectrum, on which few points integrate to all digits."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.special

from reshuffle._arrays import FloatArray
from reshuffle.free.checks import Complex, ConvergenceError

_DIGITS = 30.0
"""Of the natural logarithm, that the trapezoidal rule is taken to."""
_NARROWEST = 1e-150
"""Smallest distance of the mapped interval from the mapped circle whose square is a number."""
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
        gap = 2 / (math.exp(2 * half) + 1) if half < 300 else 0.0
        if not gap > _NARROWEST:
            raise ConvergenceError(
                f"no contour fits between the spectrum [{low:.3g}, {high:.3g}] and the circle of radius"
                f" {radius:.9g} around {centre:.3g}; ask for fewer epochs"
            )
        length = 1 - gap
        complement = gap * (1 + length) * (1 + length * length)
        periods = math.pi * float(scipy.special.ellipkm1(complement) / scipy.special.ellipk(complement))
        count = 4 + math.ceil(_DIGITS * 4 * periods / math.pi**2)
        v = periods * ((np.arange(count) + 0.5) / count - 0.5) + 0.125j * math.pi
        below, above, slope = _elliptic(v, periods)
        # y = (m + t)/(1 + m t) in the unit disc, z = centre - radius y, from 1 - y: small where z is.
        m, t = math.tanh(middle), (above - below) / 2
        rest, other = 2 / (math.exp(2 * middle) + 1), 2 / (math.exp(-2 * middle) + 1)
        denominator = above - rest * t if m >= 0 else below + other * t
        z = centre - radius + radius * rest * below / denominator
        weights = radius * rest * other * slope / denominator**2 * (periods / count) / (2j * math.pi)
        return cls(z.conj(), weights.conj())

    @classmethod
    def circle(cls, radius: float, count: int = 16) -> "Contour":
        """A circle around zero, for a pole there."""
        points = radius * np.exp(1j * math.pi * (np.arange(count) + 0.5) / count)
        return cls(points, points / (2 * count))


def _hyperbolic(place: float, centre: float, radius: float) -> float:
    """The hyperbolic coordinate artanh((centre - place) / radius), with the digits of both distances."""
    return 0.5 * math.log((radius + (centre - place)) / (radius - centre + place))


def _elliptic(v: Complex, periods: float) -> tuple[Complex, Complex, Complex]:
    """1 - t, 1 + t and dt/dv for t = k^(1/2) sn(2 K' v / pi; k), where pi K / K' is `periods`.

    t is a ratio of theta functions of the nome q = exp(-pi K / K'), which is small where k is close to one, and its
    derivative is a product of the two others: no term cancels another, however close t is to one.
    """
    numbers = np.arange(2 + math.ceil(math.sqrt(40 / periods)))[:, np.newaxis]
    odd = 2 * numbers + 1
    # q^(n (n + 1)) exp(+-(2n + 1) v) in one exponential: each may be far out of range by itself.
    down, up = (np.exp(-periods * numbers * (numbers + 1) + sign * odd * v) for sign in (-1, 1))
    even = numbers % 2 == 0
    whole = (down + up).sum(axis=0) / 2
    below, above = np.where(even, down, up).sum(axis=0), np.where(even, up, down).sum(axis=0)
    signs = (-1.0) ** numbers[1:]
    cosines = sum(np.exp(-periods * numbers[1:] ** 2 + sign * 2 * numbers[1:] * v) for sign in (-1, 1))
    product = (1 + cosines.sum(axis=0)) * (1 + (signs * cosines).sum(axis=0))
    nome = np.exp(-periods * np.arange(1, len(numbers)) ** 2)
    weights = np.exp(-periods * numbers * (numbers + 1))[:, 0]
    at_zero = (1 + 2 * nome.sum()) * (1 + 2 * (signs[:, 0] * nome).sum())
    speed = ((-1.0) ** numbers[:, 0] * odd[:, 0] * weights).sum() * weights.sum() / at_zero
    return below / whole, above / whole, speed * product / whole**2


def symmetric_sum(weights: Complex, values: Complex) -> FloatArray:
    """2 Re sum w f along the last axis: the integral of what is conjugate on conjugate points."""
    return np.asarray(2 * (values @ weights).real)
