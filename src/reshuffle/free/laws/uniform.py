"""The uniform law on an interval."""

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.free.checks import (
    Complex,
    Real,
    complex_points,
    location,
    number,
    probabilities,
    real_points,
    require_width,
)
from reshuffle.free.laws.law import Law, Pairs


class Uniform(Law):
    """The uniform law on ``[low, high]``, ``G(z) = (log(z - low) - log(z - high))/(high - low)``.

    >>> [round(x, 12) for x in Uniform(-1.0, 1.0).moments(4).tolist()]
    [0.0, 0.333333333333, 0.0, 0.2]
    """

    def __init__(self, low: float = -1.0, high: float = 1.0):
        self.low = location("low", low)
        self.high = number("high", location("high", high), low=self.low, open_low=True)
        require_width(repr(self), self.low, self.high)

    @property
    def support(self) -> Pairs:
        """The one interval."""
        return ((self.low, self.high),)

    @property
    def atoms(self) -> Pairs:
        """No atoms."""
        return ()

    def _cauchy(self, z: Complex) -> Complex:
        # log((z - low)/(z - high)) through atanh of the reciprocal: exact decay far away, cut on
        # [low, high] alone.
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            near = (np.log(z - self.low) - np.log(z - self.high)) / (2 * half)
            far = np.arctanh(half / (z - middle)) / half
        return np.where(np.abs(z - middle) > 2 * half, far, near)

    def _cauchy_derivative(self, z: Complex) -> Complex:
        return np.asarray(-1 / ((z - self.low) * (z - self.high)))

    def _density(self, t: Real) -> Real:
        return np.where((t >= self.low) & (t <= self.high), 1 / (self.high - self.low), 0.0)

    def cdf(self, t: ArrayLike) -> Real:
        """Return the mass of ``(-inf, t]``, with the shape of ``t``."""
        return np.asarray(np.clip((real_points("t", t) - self.low) / (self.high - self.low), 0.0, 1.0))

    def quantile(self, q: ArrayLike) -> Real:
        """Return ``low + q (high - low)``."""
        return np.asarray(self.low + probabilities("q", q) * (self.high - self.low))

    def recurrence(self, depth: int) -> tuple[list[float], list[float]]:
        """Return the recurrence of the Legendre polynomials on the interval."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return [middle] * depth, [half**2 * n * n / (4 * n * n - 1) for n in range(depth + 1)]

    def r_transform(self, g: ArrayLike) -> Complex:
        """Return ``R(g) = middle + half coth(half g) - 1/g`` near 0; ``g`` has any shape."""
        points = complex_points("g", g)
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        u = half * points
        small = np.abs(u) < 1e-2
        safe = np.where(small, 1.0, u)
        series = u / 3 - u**3 / 45 + 2 * u**5 / 945 - u**7 / 4725
        return np.asarray(middle + half * np.where(small, series, 1 / np.tanh(safe) - 1 / safe))

    def __repr__(self) -> str:
        return f"Uniform({self.low:g}, {self.high:g})"
