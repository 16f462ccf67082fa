"""A closed curve around the paces of all left-out runs, on which functions of their mean maps are integrals.

A polynomial f of a matrix A is the integral of f(w) (w - A)^-1 dw / (2 pi i) along any curve around the eigenvalues
of A. Those of all left-out runs lie in one slit of the real axis, and f(w) = w^k is of ordinary size in the disc of
radius 1 + 1/k. Between the two an elliptic sine is the best of all curves: the trapezoidal rule with N nodes is
off by exp(-pi N K' / (8 K)), where the complete elliptic integrals K and K' grow with the logarithm of k alone.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy.special

from reshuffle._arrays import AnyArray, FloatArray

_DIGITS = 31.0
"""The trapezoidal rule is taken so fine that it is off by exp of minus this."""
_FEWEST = 8
_FARTHEST = 4e9
"""Applications in which rounding of the paces adds up to a millionth."""
_APART = 1e-11
"""Ratio of paces below which small ones, and what enters them, are known poorly."""
_NARROW = 0.02
"""Room for the curve, relative to that around an empty slit, below which nodes would be too many."""


@dataclass(frozen=True, eq=False)
class Contour:
    """Nodes and weights in the upper half plane: the integral is twice the real part of the sum.

    Attributes
    ----------
    nodes : (N,)
        omega = 1 - w, in the plane of the paces.
    weights : (N,)
        dw / (2 pi i), counter-clockwise.
    """

    nodes: AnyArray
    weights: AnyArray

    def powers(self, epochs: FloatArray) -> AnyArray:
        """(1 - w^k) / (1 - w) (epochs, N), what k applications add up to, times the weights."""
        with np.errstate(over="ignore", invalid="ignore"):
            rest = -np.expm1(np.multiply.outer(epochs, np.log1p(-self.nodes)))
            return np.asarray(rest / self.nodes * self.weights)


def require_within_reach(paces: AnyArray, counts: FloatArray) -> None:
    """Refuse so many applications that rounding of the paces is felt, and runs that diverge."""
    if float(counts.max(initial=0.0)) > _FARTHEST:
        raise ArithmeticError("so late what is left of slow modes is not known by their paces.")
    if np.abs(1 - paces).max(initial=0.0) > 1 + 1e-9:
        raise ArithmeticError("runs that diverge may do so without some of their rows at other paces.")


def require_paces(paces: AnyArray, apart: float = _APART) -> None:
    """Refuse paces so far apart that the small ones, and what enters them, are known poorly."""
    sizes = np.abs(paces)
    if sizes.min(initial=np.inf) < apart * sizes.max(initial=0.0):
        raise ArithmeticError("paces are too far apart for their modes to be told from each other.")


def around(lowest: float, highest: float, last: float, beside: AnyArray | None = None) -> Contour:
    """The curve around paces between `lowest` and `highest`, for powers up to `last`.

    Paces beyond 2 belong to runs that diverge: the disc grows with the largest |1 - pace|. Complex ones may be
    `beside` the slit: then the curve is half-way between the farthest of them and the disc.

    >>> contour = around(0.0, 1.2, 1000.0)
    >>> sums = (contour.powers(np.array([1.0, 10.0, 1000.0])) / (0.3 - contour.nodes)).sum(axis=1)
    >>> np.allclose(2 * sums.real, (1 - 0.7 ** np.array([1, 10, 1000])) / 0.3)
    True
    """
    # Real ones are in the slit itself, where the integral has a branch cut.
    beside = np.zeros(0, dtype=complex) if beside is None else beside[beside.imag != 0]
    grown = max(1.0, abs(1 - lowest), abs(1 - highest), float(np.abs(1 - beside).max(initial=0.0)))
    # Where the disc ends beyond the slit: 1/k of its radius, and more for the first few powers.
    margin = 1 / max(last, 2.0)
    radius = grown * (1 + margin)
    low, high = _arctanh(1 - highest, radius), _arctanh(1 - lowest, radius)
    centre, half = math.tanh((low + high) / 2), max((high - low) / 2, 1e-3)
    slit = math.tanh(half)
    parameter = slit**4
    quarter, other = float(scipy.special.ellipk(parameter)), float(scipy.special.ellipkm1(parameter))
    place = (1 - beside) / radius
    far = _heights((place - centre) / (1 - centre * place) / slit, parameter).max(initial=0.0)
    room = (other / 2 - far) / 2
    if room < _NARROW * other:
        raise ArithmeticError("some paces are too near to those of runs that diverge.")
    count = max(_FEWEST, math.ceil(_DIGITS * quarter / (math.pi * room)))
    along = quarter * (2 * (np.arange(count) + 0.5) / count - 1)
    sine, slope = _sine(along, far + room, parameter)
    mapped, moved = slit * sine, 1 + centre * slit * sine
    distance = 2 / (math.exp(low + high) + 1)
    nodes = 1 - radius + radius * distance * (1 - mapped) / moved
    derivative = radius * (1 - centre**2) / moved**2 * slit * slope
    # Along the upper half from left to right is clockwise.
    weights = -derivative * (2 * quarter / count) / (2j * math.pi)
    return Contour(nodes, weights)


def _arctanh(place: float, radius: float) -> float:
    """artanh(place / radius), where both are near each other."""
    return 0.5 * math.log((radius + place) / (radius - place))


def _heights(sines: AnyArray, parameter: float) -> FloatArray:
    """How far above the slit the numbers are whose elliptic sines these are, by Carlson's form of the integral."""
    squares = np.square(sines)
    return np.asarray(np.abs((sines * scipy.special.elliprf(1 - squares, 1 - parameter * squares, 1.0)).imag))


def _sine(along: FloatArray, height: float, parameter: float) -> tuple[AnyArray, AnyArray]:
    """Sn and its derivative at along + i height."""
    s, c, d, _ = scipy.special.ellipj(along, parameter)
    s1, c1, d1, _ = scipy.special.ellipj(height, 1 - parameter)
    size = c1**2 + parameter * s**2 * s1**2
    sine = (s * d1 + 1j * c * d * s1 * c1) / size
    cosine = (c * c1 - 1j * s * d * s1 * d1) / size
    delta = (d * c1 * d1 - 1j * parameter * s * c * s1) / size
    return sine, cosine * delta
