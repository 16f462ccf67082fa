"""The polynomial method: G is a root of a polynomial P(z, G) that someone has to derive, found point by point.

Of all roots the one with the most negative imaginary part is taken, which is right on the spectrum of these two
laws; in general branches have to be told apart. Source: Rao and Edelman (2008), the idea of their RMTool.
"""

import numpy as np
from numpy.polynomial import polynomial


def two_batch(points, curve):
    """Return the density of w1 + w2 - (w1 w2 + w2 w1)/2 from its curve ``z(s)``, ``G = -g(s)``."""
    width = max(len(curve.numerator), len(curve.denominator))
    values = []
    for x in points:
        coefficients = np.zeros(width)
        coefficients[: len(curve.numerator)] += curve.numerator
        coefficients[: len(curve.denominator)] -= x * curve.denominator
        values.append(np.max(curve.g(polynomial.polyroots(coefficients)).imag) / np.pi)
    return np.array(values)


def anticommutator(points):
    """Return the density of s1 s2 + s2 s1 for semicirculars: ``z G^3 + G^2 - z G + 1 = 0``."""
    return np.array([-min(np.roots([x, 1, -x, 1]).imag) / np.pi for x in points])
