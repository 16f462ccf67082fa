"""The Cauchy transform of a measure given as Chebyshev panels, accurate up to the real axis itself."""

import numpy as np
from numpy.polynomial import chebyshev, legendre

from reshuffle.free.checks import Complex, Real
from reshuffle.free.measure import Panels

_NODES, _WEIGHTS = legendre.leggauss(48)


def panel_cauchy(panels: Panels, z: Complex) -> Complex:
    """Return the integral of ``f(s)/(z - x(s)) ds`` over all panels, at points z with ``Im z >= 0``.

    With ``x = anchor + d s^m`` the kernel splits into m simple poles,
    ``1/(z - x) = sum_r s_r^(1-m)/(m d (s_r - s))`` over the roots ``s_r^m = (z - anchor)/d``, so each panel
    needs only the transform of a polynomial on [-1, 1]. ``z`` and the answer have shape (points,).
    """
    # On the cut the side is "above"; a shift far below rounding of z tells the roots so.
    spread = float(np.max(np.abs(panels.ends())))
    above = z + 1j * np.where(z.imag == 0, 1e-15 * spread, 0.0)
    total = np.zeros(z.shape, dtype=complex)
    for k in range(len(panels.low)):
        power = int(panels.power[k])
        direction = panels.direction[k]
        ratio = (above - panels.anchor[k]) / direction
        first = ratio ** (1 / power)
        middle, half = (panels.low[k] + panels.high[k]) / 2, (panels.high[k] - panels.low[k]) / 2
        for r in range(power):
            root = first * np.exp(2j * np.pi * r / power)
            total += (
                direction
                * root ** (1 - power)
                / power
                * _of_polynomial(panels.series[k], (root - middle) / half)
            )
    return total


def _of_polynomial(series: Real, zeta: Complex) -> Complex:
    """Return the integral over [-1, 1] of ``p(u)/(zeta - u)`` for the Chebyshev series p."""
    values = chebyshev.chebval(_NODES, series)
    size = np.abs(zeta + np.sqrt(zeta - 1) * np.sqrt(zeta + 1))
    near = np.maximum(size, 1 / np.maximum(size, 1e-300)) < 2.5
    result = np.empty(zeta.shape, dtype=complex)
    result[~near] = (1 / (zeta[~near, None] - _NODES)) @ (_WEIGHTS * values)
    # Near the interval take p(zeta) out; what is left is a polynomial in u and Gauss integrates it exactly.
    point = zeta[near]
    at_point = chebyshev.chebval(point, series)
    quotient = (values - at_point[:, None]) / (point[:, None] - _NODES)
    result[near] = quotient @ _WEIGHTS + at_point * (np.log(point + 1) - np.log(point - 1))
    return result
