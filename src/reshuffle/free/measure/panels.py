"""Pieces of a measure as Chebyshev interpolants, and their Cauchy transform up to the real axis itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev, legendre
from numpy.typing import NDArray

from reshuffle.free.checks import Complex, Real

NODES = 20
"""Of each panel."""
GRID = -np.cos((np.arange(NODES) + 0.5) * np.pi / NODES)
"""Where they are on [-1, 1]."""
TO_COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(GRID, NODES - 1))
"""From values at the nodes to those of a Chebyshev series."""
INTEGRALS = np.array([2 / (1 - k * k) if k % 2 == 0 else 0.0 for k in range(NODES)])
"""Of the Chebyshev polynomials over [-1, 1]."""
# Replacing a value amplifies the errors of the others, so only clearly worse ones are replaced.
VISIBLE = 1e-7
_GAUSS, _GAUSS_WEIGHTS = legendre.leggauss(48)
_TO_GAUSS = chebyshev.chebvander(_GAUSS, NODES - 1)


@dataclass(frozen=True)
class Panels:
    """Pieces ``x = anchor + direction s^power``, ``low <= s <= high``, with the series of density dx/ds."""

    anchor: Real
    direction: Real
    power: Real
    low: Real
    high: Real
    series: Real

    def nodes(self) -> tuple[Real, Real]:
        """Return the local parameter s and the point x at each node, shape (panels, NODES)."""
        s = (self.low + self.high)[:, None] / 2 + (self.high - self.low)[:, None] / 2 * GRID
        return s, self.anchor[:, None] + self.direction[:, None] * s ** self.power[:, None]

    def take(self, index: NDArray[Any]) -> "Panels":
        """Return the panels at ``index``."""
        return Panels(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    def ends(self) -> tuple[Real, Real]:
        """Return the smaller and the larger end of each panel."""
        first = self.anchor + self.direction * self.low**self.power
        last = self.anchor + self.direction * self.high**self.power
        return np.minimum(first, last), np.maximum(first, last)


def repaired(values: Real, errors: Real) -> tuple[Real, Real]:
    """Return panels' values with the few bad ones of each replaced by the polynomial through the others.

    Next to a strong singularity the first nodes lie closer to it than the density can be computed, although
    ``density dx/ds`` is smooth there. The noise of a replaced value is that of the others, amplified.
    """
    bad = ~(errors <= VISIBLE * np.abs(values).max(axis=1, initial=0.0)[:, None])
    values, errors = values.copy(), np.where(bad, 0.0, errors)
    for row in np.flatnonzero(bad.any(axis=1) & (bad.sum(axis=1) <= NODES // 3)):
        kept, lost = GRID[~bad[row]], GRID[bad[row]]
        degree = len(kept) - 1
        through = chebyshev.chebvander(lost, degree) @ np.linalg.inv(chebyshev.chebvander(kept, degree))
        values[row, bad[row]] = through @ values[row, ~bad[row]]
        errors[row, bad[row]] = np.abs(through) @ errors[row, ~bad[row]]
    return values, errors.max(axis=1, initial=0.0)


def halved(panels: Panels) -> Panels:
    """Return the two halves of each panel; their series are yet to be computed."""
    middle = (panels.low + panels.high) / 2
    left = Panels(panels.anchor, panels.direction, panels.power, panels.low, middle, panels.series)
    right = Panels(panels.anchor, panels.direction, panels.power, middle, panels.high, panels.series)
    return Panels(
        *(np.concatenate([getattr(left, name), getattr(right, name)]) for name in Panels.__dataclass_fields__)
    )


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
    values = panels.series @ _TO_GAUSS.T
    for k in range(len(panels.low)):
        power = int(panels.power[k])
        direction = panels.direction[k]
        ratio = (above - panels.anchor[k]) / direction
        first = ratio ** (1 / power)
        middle, half = (panels.low[k] + panels.high[k]) / 2, (panels.high[k] - panels.low[k]) / 2
        for r in range(power):
            root = first * np.exp(2j * np.pi * r / power)
            inner = _of_polynomial(panels.series[k], values[k], (root - middle) / half)
            total += direction * root ** (1 - power) / power * inner
    return total


def _of_polynomial(series: Real, values: Real, zeta: Complex) -> Complex:
    """Return the integral over [-1, 1] of ``p(u)/(zeta - u)`` for the Chebyshev series p, given its values."""
    size = np.abs(zeta + np.sqrt(zeta - 1) * np.sqrt(zeta + 1))
    near = np.maximum(size, 1 / np.maximum(size, 1e-300)) < 2.5
    result = np.empty(zeta.shape, dtype=complex)
    result[~near] = (1 / (zeta[~near, None] - _GAUSS)) @ (_GAUSS_WEIGHTS * values)
    if near.any():
        # Take p(zeta) out; what is left is a polynomial in u and Gauss integrates it exactly.
        point = zeta[near]
        at_point = chebyshev.chebval(point, series)
        quotient = (values - at_point[:, None]) / (point[:, None] - _GAUSS)
        result[near] = quotient @ _GAUSS_WEIGHTS + at_point * (np.log(point + 1) - np.log(point - 1))
    return result
