"""The polynomial method: G is a root of a polynomial P(z, G) that someone has to derive, found point by point.

Which of the roots is the right one has to be known at the first point; from there the nearest one of the right sign
is taken, which works inside one interval of the spectrum. Source: Rao and Edelman (2008), the idea of their RMTool.
"""

import numpy as np
from numpy.polynomial import polynomial


def two_batch(points, curve):
    """Return the density of w1 + w2 - (w1 w2 + w2 w1)/2 from its curve ``z(s)``, ``G = -g(s)``."""
    width = max(len(curve.numerator), len(curve.denominator))
    values = []
    last = curve.root(points[:1])[0]
    for x in points:
        coefficients = np.zeros(width)
        coefficients[: len(curve.numerator)] += curve.numerator
        coefficients[: len(curve.denominator)] -= x * curve.denominator
        roots = polynomial.polyroots(coefficients)
        above = roots[curve.g(roots).imag > 0]
        last = above[np.argmin(np.abs(above - last))]
        values.append(curve.g(last).imag / np.pi)
    return np.array(values)


def anticommutator(points):
    """Return the density of s1 s2 + s2 s1 for semicirculars: ``z G^3 + G^2 - z G + 1 = 0``."""
    return np.array([-min(np.roots([x, 1, -x, 1]).imag) / np.pi for x in points])
