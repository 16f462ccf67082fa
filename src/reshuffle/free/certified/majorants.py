"""Proven bounds on a distribution function, from certified values of the Cauchy transform above the axis."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from reshuffle.free import progress
from reshuffle.free.certified.certificate import Certificate, Prover
from reshuffle.free.checks import Real

LEVELS = 3.0 ** -np.arange(11)
ACROSS = np.array([-1.0, 0.0, 1.0])
LARGEST = 1e3, 30.0
"""Of the coefficients, over the heights of their points; what is larger would lift roundings too high.

At an atom the larger ones make functions that swing between the points of a program.
"""
PATIENCE = 5
"""Programs without a better bound after which no other is tried."""
SHORT = 0.01
"""What a function may be lifted by without another attempt."""
ROUNDS = 12
"""Linear programs, each with the points at which the last one's answer fell short."""


@dataclass(frozen=True)
class CdfBounds:
    """Two numbers that are proven to enclose the mass of ``(-inf, t]``.

    Attributes
    ----------
    t, lower, upper : float
    """

    t: float
    lower: float
    upper: float

    def __repr__(self) -> str:
        return f"CdfBounds({self.lower:.6f} <= cdf({self.t:.6g}) <= {self.upper:.6f}, proven)"


@progress.working("bounds on a distribution function")
def cdf_bounds(prover: Prover, t: float) -> CdfBounds:
    """Return bounds on the mass of ``(-inf, t]``.

    A combination of real and imaginary parts of ``1/(z_k - x)`` that is nowhere below the indicator of
    ``x <= t`` has an integral that is known from ``G(z_k)`` and is an upper bound; one that is nowhere above
    it gives a lower bound. The combinations with the best bounds on a grid come from a linear program, and
    are then lifted by as much as they can fall short between its points.
    """
    given, t = t, prover.units.point(complex(t)).real
    norm = prover.norm()
    if abs(t) > norm:
        return CdfBounds(given, float(t > 0), float(t > 0))
    reach = norm + abs(t)
    nodes = np.array([t + reach * level * (across + 0.7j) for level in LEVELS for across in ACROSS])
    proven = []
    for z in nodes:
        progress.step()
        proven.append(prover.in_units(complex(z)))
    upper = _majorant(nodes, proven, t, norm, reach)
    # What is above t: the same question, seen from the other side.
    mirrored = [Certificate(c.z, -c.value.conjugate(), c.radius) for c in proven]
    above = _majorant(-nodes.conj(), mirrored, -t, norm, reach)
    return CdfBounds(given, max(0.0, 1 - above), min(1.0, upper))


def _majorant(nodes: Real, proven: list[Certificate], t: float, norm: float, reach: float) -> float:
    """Return the integral of the best function above the indicator of ``x <= t``."""
    best = 1.0
    for largest in LARGEST:
        found, short = _program(nodes, proven, t, norm, reach, largest)
        best = min(best, found)
        if short < SHORT:
            break
    return best


def _program(
    nodes: Real, proven: list[Certificate], t: float, norm: float, reach: float, largest: float
) -> tuple[float, float]:
    """Return the same with coefficients up to ``largest``, and by how much the last function had to be lifted."""
    near = np.geomspace(1e-7, 1.0, 3000) * reach
    fine = _inside(np.concatenate([t - near, t + near, np.linspace(-norm, norm, 1500)]), t, norm)
    values = np.array([c.value for c in proven])
    moments = np.concatenate([values.real, values.imag, [1.0]])
    rows = np.concatenate([_table(nodes, fine), np.ones((len(fine), 1))], axis=1)
    wanted = (fine <= t).astype(float)
    # Functions of size one, whatever the height of their points: an atom would make others as large as it is near.
    heights = np.concatenate([np.tile(np.abs(nodes.imag), 2), [1.0]])
    limits = [(-largest, largest)] * (len(heights) - 1) + [(-10.0, 10.0)]
    # A few points decide: those at which the last function fell short join them until none falls short by much.
    chosen = np.zeros(len(fine), dtype=bool)
    chosen[::20] = True
    # Every function on the way is above the indicator once it is lifted, and the constant one is: the best counts.
    radii = np.tile([c.radius for c in proven], 2)
    best, lifted, stale = 1.0, math.inf, 0
    for _ in range(ROUNDS):
        progress.step()
        solved = linprog(
            moments * heights,
            A_ub=-rows[chosen] * heights,
            b_ub=-wanted[chosen],
            bounds=limits,
            method="highs",
        )
        # A program that could not be solved leaves the best answer before it: weaker, and as true.
        if solved.x is None:
            break
        weights = solved.x * heights
        slack = float(np.abs(weights[:-1]) @ radii)
        slack += 1e-14 * float(np.abs(weights) @ np.abs(moments)) * len(weights)
        lifted = _shortfall(nodes, weights, t, norm, reach)
        found = float(weights @ moments) + lifted + slack
        stale = 0 if found < best else stale + 1
        best = found if found < best else best
        if stale > PATIENCE:
            break
        short = wanted - rows @ weights
        lowest = np.r_[True, short[1:] >= short[:-1]] & np.r_[short[:-1] >= short[1:], True]
        worst = lowest & (short > 1e-5) & ~chosen
        if not worst.any():
            break
        chosen |= worst
    return best, lifted


def _shortfall(nodes: Real, weights: Real, t: float, norm: float, reach: float) -> float:
    """Return how far the function can be below the indicator anywhere on ``[-norm, norm]``.

    Between neighbouring points it is no lower than the lower of them, less ``h^2/8`` times a bound on its second
    derivative; what rounding does to its values is bounded by the sum of its terms' sizes.
    """
    near = np.concatenate([[0.0], np.geomspace(1e-8, 1.0, 12000)]) * reach
    x = _inside(np.concatenate([t - near, t + near, np.linspace(-norm, norm, 4000)]), t, norm)
    values = _table(nodes, x) @ weights[:-1] + weights[-1]
    size = np.abs(weights[: len(nodes)]) + np.abs(weights[len(nodes) : -1])
    low, high = x[:-1], x[1:]
    gap = np.maximum(np.maximum(low[:, None] - nodes.real, nodes.real - high[:, None]), 0.0)
    bent = (2 * size / np.hypot(gap, nodes.imag) ** 3).sum(axis=1)
    floor = np.minimum(values[:-1], values[1:]) - (high - low) ** 2 / 8 * bent
    # Beyond the range of numbers nothing is known: a maximum would pass over what is no number.
    if not (np.isfinite(floor).all() and (bent > 0).all()):
        return math.inf
    rounding = 1e-14 * len(weights) * (float((size / nodes.imag).sum()) + abs(float(weights[-1])))
    wanted = (high <= t).astype(float)
    return max(0.0, float((wanted - floor).max())) + rounding


def _inside(x: Real, t: float, norm: float) -> Real:
    """Return the points of the interval, its ends and t, sorted; outside of ``[-norm, norm]`` there is no mass."""
    ends = [-norm, norm] + ([t] if abs(t) <= norm else [])
    return np.unique(np.concatenate([x[np.abs(x) <= norm], ends]))


def _table(nodes: Real, x: Real) -> Real:
    """Return real and imaginary parts of ``1/(z_k - x)``, (points, 2 nodes)."""
    inverse = 1 / (nodes - x[:, None])
    return np.concatenate([inverse.real, inverse.imag], axis=1)
