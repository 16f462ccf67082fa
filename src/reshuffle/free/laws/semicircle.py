"""Wigner's semicircle: the Gaussian of free probability."""

import numpy as np

from reshuffle.free.checks import LARGEST, SMALLEST, location, size
from reshuffle.free.laws.meixner import FreeMeixner


class Semicircle(FreeMeixner):
    """The semicircle law, density ``sqrt(4 v - (t - m)^2) / (2 pi v)``.

    ``G(z) = 2/(z - m + sqrt(z - m - 2 sqrt v) sqrt(z - m + 2 sqrt v))``, ``R(g) = m + v g``. Source: Wigner
    (1955).

    >>> Semicircle(variance=1.0).moments(6).tolist()
    [0.0, 1.0, 0.0, 2.0, 0.0, 5.0]
    """

    def __init__(self, variance: float = 1.0, mean: float = 0.0):
        v = size("variance", variance, SMALLEST**2, LARGEST**2)
        m = location("mean", mean)
        self.variance, self.mean = v, m
        radius = 2 * np.sqrt(v)
        super().__init__(first=(m, v), tail=(m, v), edges=(m - radius, m + radius), roots=(v * v, ()))

    def __repr__(self) -> str:
        return f"Semicircle(variance={self.variance:g}, mean={self.mean:g})"
