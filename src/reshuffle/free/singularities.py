"""Places where a density is a fractional power of the distance: how strong, and exactly where."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from reshuffle.free.checks import Real

TERMS = 7
SECTIONS = 25
# Largest change of a logarithmic slope from one decade to the next that counts as none.
STEADY = 0.02
# Relative misfit of a series of powers that needs no others.
FITS = 1e-9
_REACH = np.geomspace(1e-7, 1e-5, 24)

Density = Callable[[Real], Any]


def exponent(density: Density, place: float, inward: float) -> tuple[int, int] | None:
    """Return whole numbers (j, m) for which the density is ``d^(j/m)`` at distance d of ``place``.

    The smallest m that fits is taken; None where the density vanishes or failed.

    Parameters
    ----------
    density : callable, array -> array; place : the singular point.
    inward : width of the interval on the side to look at, with its sign.

    >>> exponent(lambda x: x ** (-2 / 3), 0.0, 1.0)
    (-2, 3)
    """
    return exponents(density, np.array([place]), np.array([inward]))[0]


def exponents(density: Density, places: Real, inward: Real) -> list[tuple[int, int] | None]:
    """Return the same for many places, whose densities are asked for together.

    The closest ones cost most: they are asked for only where the others do not tell.
    """
    # The nearest probe stays above the rounding of the place itself, or the slope would be noise.
    distances = np.abs(inward)[:, None] * 10.0 ** -np.arange(5, 12) + 1e-9 * np.abs(places)[:, None]
    points = places[:, None] + np.sign(inward)[:, None] * distances
    values = np.full(points.shape, np.nan)
    slopes: list[float | None] = [None] * len(places)
    for asked in (slice(0, 3), slice(3, 5), slice(5, 7)):
        open_ = [k for k, slope in enumerate(slopes) if slope is None]
        if open_:
            values[open_, asked] = np.reshape(density(points[open_, asked].ravel()), (len(open_), -1))
        for k in open_:
            slopes[k] = _settled_slope(distances[k], values[k])
    return [_fraction(slope) for slope in slopes]


def _fraction(slope: float | None) -> tuple[int, int] | None:
    if slope is None:
        return None
    fits = [m for m in (2, 3, 4, 5, 6) if abs(m * slope - round(m * slope)) < 0.03 * m]
    return (round(fits[0] * slope), fits[0]) if fits else None


def _settled_slope(distance: Real, values: Real) -> float | None:
    """Return the logarithmic slope of a density once a closer look no longer changes it.

    Behind a soft edge that nearly touches a hard one the slope turns from 1/2 to -1/2 at a distance of its own.
    """
    last = np.inf
    for far, near in itertools.pairwise(range(len(distance))):
        if not (0 < values[far] < np.inf and 0 < values[near] < np.inf):
            return None
        if distance[far] < 5 * distance[near]:
            return float(last) if np.isfinite(last) else None
        slope = np.log(values[far] / values[near]) / np.log(distance[far] / distance[near])
        if abs(slope - last) < STEADY:
            return float(slope)
        last = slope
    return None


def locate(density: Density, place: float, inward: float, scale: float) -> float | None:
    """Return the singular point near ``place`` to rounding, or None if there is none.

    With ``density = sum_k c_k d^((j + k)/m)`` a point that is off by e adds ``-(j/m) e c_0 d^(j/m - 1)``,
    which no other term can imitate: a linear fit reads e off, from densities far enough away to be exact.

    >>> round(locate(lambda x: np.abs(x - 1) ** (-2 / 3) + x, 1 + 1e-10, 1.0, 1.0), 13)
    1.0
    """
    power = exponent(density, place, inward)
    if power is None or power[0] % power[1] == 0:
        return None
    start, reach = place, inward
    for _ in range(6):
        values = np.asarray(density(place + reach * _REACH), dtype=float)
        if not np.all((values > 0) & np.isfinite(values)):
            return None
        power = _finer(values, *power)
        moved, misfit = _shift(values, *power)
        if abs(moved) > 0.5 * _REACH[0]:
            return None
        place += reach * moved
        if abs(reach * moved) < 1e-15 * scale:
            break
    settled = misfit < 1e-6 and abs(reach * moved) < 1e-11 * scale and abs(place - start) < 1e-6 * scale
    return float(place) if settled else None


def all_powers(density: Density, place: float, inward: float, power: tuple[int, int]) -> tuple[int, int]:
    """Return the leading power with the denominator that all powers of the density at a place have in common.

    Two parts of a spectrum may end in one point, like ``d^(-2/3)`` and like ``d^(-1/2)``.

    >>> all_powers(lambda x: x ** (-2 / 3) + x ** (-1 / 2), 0.0, 1.0, (-2, 3))
    (-4, 6)
    """
    values = np.asarray(density(place + inward * _REACH), dtype=float)
    return _finer(values, *power) if np.all((values > 0) & np.isfinite(values)) else power


def _finer(values: Real, over: int, under: int) -> tuple[int, int]:
    """Return the power over a multiple of its denominator, where a series in that one fits clearly better."""
    misfits = [_shift(values, multiple * over, multiple * under)[1] for multiple in (1, 2)]
    better = misfits[0] > FITS and misfits[1] < 0.01 * misfits[0] and under % 2 == 1
    return (2 * over, 2 * under) if better else (over, under)


def _shift(values: Real, over: int, under: int) -> tuple[float, float]:
    """Return how far inward of the assumed point the singular one lies, and the largest relative misfit."""
    powers = np.concatenate([[over / under - 1], (over + np.arange(TERMS)) / under])
    relative = (_REACH / _REACH[-1])[:, None] ** powers / values[:, None]
    sizes = np.abs(relative).max(axis=0)
    weights = np.linalg.lstsq(relative / sizes, np.ones(len(values)), rcond=None)[0]
    misfit = float(np.abs(relative / sizes @ weights - 1).max())
    weights = weights / sizes
    return float(-weights[0] / weights[1] * under / over * _REACH[-1]), misfit


def peaks(density: Density, grid: Real, values: Real, threshold: float, ends: Real) -> Real:
    """Return the places inside the grid where the density grows without bound, each to about 1e-8.

    Every local maximum is looked at closer and closer; a smooth one soon looks flat. One beside a known end is not
    looked at: a hard end is one.
    """
    middle = values[1:-1]
    top = np.flatnonzero((middle >= values[:-2]) & (middle > values[2:]) & (middle > threshold)) + 1
    low, high = grid[top - 1], grid[top + 1]
    ends = np.sort(ends)
    free = np.searchsorted(ends, low) == np.searchsorted(ends, high, side="right")
    low, high = low[free], high[free]
    width = grid[-1] - grid[0]
    found: list[float] = []
    # Where words vanish on a kernel the place is zero itself: a search would take many steps to see that.
    at_zero = (low <= 0) & (high >= 0)
    if at_zero.any() and _grows(density, 0.0, width):
        found, low, high = [0.0], low[~at_zero], high[~at_zero]
    while len(low):
        low, high = _closer(density, low, high)
        near = high - low < 2e-8 * width
        found += list((low + high)[near] / 2)
        low, high = low[~near], high[~near]
    return np.array(found)


def _grows(density: Density, place: float, width: float) -> bool:
    """Return whether the density grows towards a place, on one of its sides, as close as a search would go."""
    points = place + width * np.multiply.outer([-1.0, 1.0], [1e-5, 1e-7, 1e-9])
    values = np.nan_to_num(np.asarray(density(points.ravel()), dtype=float)).reshape(points.shape)
    return bool(((values[:, 1] > 1.2 * values[:, 0]) & (values[:, 2] > 1.2 * values[:, 1])).any())


def _closer(density: Density, low: Real, high: Real) -> tuple[Real, Real]:
    """Return brackets 12 times narrower around the largest density, of those where it is not flat."""
    points = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, SECTIONS + 1)
    values = np.nan_to_num(np.asarray(density(points.ravel()), dtype=float)).reshape(points.shape)
    pick, rows = np.argmax(values, axis=1), np.arange(len(low))
    left, right = points[rows, np.maximum(pick - 1, 0)], points[rows, np.minimum(pick + 1, SECTIONS)]
    steep = values[rows, pick] > 1.2 * np.maximum(values[:, 0], values[:, -1])
    return left[steep], right[steep]
