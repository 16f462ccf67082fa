"""A measure on the line as panels of Chebyshev interpolants, aware of how its density behaves at the edges.

The Cauchy transform of a panel is exact up to the real axis itself. Nothing here knows where a density comes from:
a function of points is all that is needed.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev, legendre
from numpy.typing import ArrayLike, NDArray

from reshuffle.free.checks import Complex, ConvergenceError, Real, probabilities, real_points

NODES = 20
"""Nodes of each panel."""
GRID = -np.cos((np.arange(NODES) + 0.5) * np.pi / NODES)
"""The nodes on [-1, 1]."""
TO_COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(GRID, NODES - 1))
"""From values at the nodes to those of a Chebyshev series."""
INTEGRALS = np.array([2 / (1 - k * k) if k % 2 == 0 else 0.0 for k in range(NODES)])
"""Integrals of the Chebyshev polynomials over [-1, 1]."""
# Replacing a value amplifies the errors of the others, so only clearly worse ones are replaced.
VISIBLE = 1e-7
_GAUSS, _GAUSS_WEIGHTS = legendre.leggauss(48)
_TO_GAUSS = chebyshev.chebvander(_GAUSS, NODES - 1)

DEEPEST = 40
# Of those that still wait; laws of the survey in benchmarks.free_survey have some hundred in all.
MOST_PANELS = 20_000
# Of half an interval: an end that is closer to 0 has a density that turns where no node of a whole panel sees it.
CLOSE = 1e-12
_WEIGHTS = INTEGRALS @ TO_COEFFICIENTS


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

    @classmethod
    def joined(cls, parts: "Sequence[Panels]") -> "Panels":
        """Return the panels of all parts, one after the other."""
        return cls(*(np.concatenate([getattr(p, name) for p in parts]) for name in cls.__dataclass_fields__))

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
    return Panels.joined([replace(panels, high=middle), replace(panels, low=middle)])


def panel_cauchy(panels: Panels, z: Complex) -> Complex:
    """Return the integral of ``f(s)/(z - x(s)) ds`` over all panels, at points z with ``Im z >= 0``.

    With ``x = anchor + d s^m`` the kernel splits into m simple poles,
    ``1/(z - x) = sum_r s_r^(1-m)/(m d (s_r - s))`` over the roots ``s_r^m = (z - anchor)/d``, so each panel
    needs only the transform of a polynomial on [-1, 1]. ``z`` and the answer have shape (points,).
    """
    # On the cut the side is "above"; a shift far below rounding of z selects that side in the roots.
    spread = float(np.max(np.abs(panels.ends()), initial=0.0))
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


def edge_powers(density: Callable[[Real], Any], edges: Real, inward: Real) -> list[int]:
    """Return the smallest m for which ``x = edge + s^m`` makes the density a power series in s, for each edge.

    A density like ``d^a`` at distance d needs ``m a`` to be an integer: 2 for square-root edges, 3 for cubic ones.
    """
    found = []
    for power, edge, width in zip(exponents(density, edges, inward), edges, inward, strict=True):
        # The usual ends are square roots alone: where they are not, other powers may hide behind the largest.
        if power is not None and power[1] > 2:
            power = all_powers(density, float(edge), float(width), power)
        found.append(2 if power is None else power[1])
    return found


class Measure:
    """A probability measure given by a density on intervals, and atoms.

    The panels halve until the last Chebyshev coefficients of ``density dx/ds`` are below ``tolerance``.
    The density may return a pair: values and error estimates. Where known, ``powers`` has the m of an edge that
    `edge_powers` finds for all others.

    >>> square = Measure(lambda x: np.sqrt(4 - x**2) / (2 * np.pi), [(-2.0, 2.0)], [])
    >>> round(float(square.expectation(lambda x: x**2)), 12), round(float(square.cdf(0.0)), 12)
    (1.0, 0.5)
    """

    def __init__(
        self,
        density: Callable[[Real], Any],
        intervals: Sequence[tuple[float, float]],
        atoms: Sequence[tuple[float, float]],
        tolerance: float = 1e-12,
        powers: Mapping[float, float] | None = None,
    ):
        self.density, self.powers, self.tolerance = density, dict(powers or {}), tolerance
        self.intervals, self.atoms = tuple(intervals), tuple(sorted(atoms))

    @cached_property
    def panels(self) -> Panels:
        """The accepted panels, sorted from left to right."""
        rows: list[tuple[float, ...]] = []
        edges = np.array(self.intervals, dtype=float).ravel()
        halves = np.repeat(np.diff(edges)[::2] / 2, 2)
        signs = np.tile([1.0, -1.0], len(self.intervals))
        powers = np.array([self.powers.get(float(edge), np.nan) for edge in edges])
        open_ = np.isnan(powers)
        if open_.any():
            inward = (signs * halves)[open_]
            powers[open_] = edge_powers(lambda x: self.sampled(x)[0], edges[open_], inward)
        for edge, sign, half, power in zip(edges, signs, halves, powers, strict=True):
            cuts = _cuts(float(edge), float(half), power)
            rows += [(edge, sign, power, *pair) for pair in itertools.pairwise(cuts)]
        table = np.array(rows, dtype=float).reshape(-1, 5)
        anchor, direction, power, start, end = table.T
        waiting = Panels(anchor, direction, power, start, end, np.zeros((len(rows), NODES)))
        done = [waiting.take(np.arange(0))]
        for _ in range(DEEPEST):
            if not len(waiting.low):
                break
            waiting, noise = self._interpolate(waiting)
            width = (waiting.high - waiting.low)[:, None]
            tail = np.abs(waiting.series[:, -3:] * width).max(axis=1)
            scale = 1 + np.abs(waiting.series * width).max(axis=1)
            # Halving cannot help where the coefficients are already at the level of the density's own errors.
            good = tail <= self.tolerance * scale + noise * width[:, 0]
            done.append(waiting.take(np.flatnonzero(good)))
            waiting = halved(waiting.take(np.flatnonzero(~good)))
            if len(waiting.low) > MOST_PANELS:
                raise ConvergenceError(
                    f"the density near {waiting.ends()[0][0]:.6g} is rougher than {MOST_PANELS} panels resolve;"
                    " use density(t) at chosen points"
                )
        # What still waits after DEEPEST halvings is narrower than any double can resolve; its mass is negligible.
        merged = Panels.joined([*done, self._interpolate(waiting)[0]] if len(waiting.low) else done)
        return merged.take(np.argsort(merged.ends()[0]))

    def _interpolate(self, panels: Panels) -> tuple[Panels, Real]:
        s, x = panels.nodes()
        speed = panels.power[:, None] * s ** (panels.power[:, None] - 1)
        values, errors = (array.reshape(x.shape) * speed for array in self.sampled(x.ravel()))
        values, noise = repaired(values, errors)
        return replace(panels, series=values @ TO_COEFFICIENTS.T), noise

    def sampled(self, x: Real) -> tuple[Real, Real]:
        """Return the density and its error estimates, which are 0 for a density that does not give any."""
        answer = self.density(x)
        values, errors = answer if isinstance(answer, tuple) else (answer, np.zeros(x.shape))
        return np.asarray(values, dtype=float), np.asarray(errors, dtype=float)

    @cached_property
    def quadrature(self) -> tuple[Real, Real]:
        """Points and weights of the continuous part, each of shape (points,)."""
        _s, x = self.panels.nodes()
        values = self.panels.series @ chebyshev.chebvander(GRID, NODES - 1).T
        half = (self.panels.high - self.panels.low)[:, None] / 2
        return x.ravel(), (values * _WEIGHTS * half).ravel()

    @cached_property
    def _masses(self) -> Real:
        half = (self.panels.high - self.panels.low) / 2
        return np.asarray(self.panels.series @ INTEGRALS * half)

    @cached_property
    def _primitives(self) -> Real:
        return np.asarray(chebyshev.chebint(self.panels.series, lbnd=-1, axis=1))

    @property
    def mass(self) -> float:
        """The total mass, atoms included; 1 for a probability measure whose density is right."""
        return float(self._masses.sum() + sum(mass for _, mass in self.atoms))

    def expectation(self, function: Callable[[Real], Any]) -> Any:
        """Return the integral of ``function`` (vectorised, real or complex) against the measure."""
        x, w = self.quadrature
        places = np.array([place for place, _ in self.atoms])
        total = np.asarray(function(x)) @ w if len(x) else 0.0
        if len(places):
            total = total + np.asarray(function(places)) @ np.array([mass for _, mass in self.atoms])
        return total

    def cauchy(self, z: Complex) -> Complex:
        """Return the integral of ``1/(z - x)``, with the shape of ``z``; real points mean the limit from above.

        As accurate as the panels are: nothing but their interpolants is integrated.

        >>> square = Measure(lambda x: np.sqrt(4 - x**2) / (2 * np.pi), [(-2.0, 2.0)], [])
        >>> square.cauchy(np.array([3.0 + 0j])).real.round(9), square.cauchy(np.array([1j])).imag.round(9)
        (array([0.38196601]), array([-0.61803399]))
        """
        flat = np.where(z.imag < 0, np.conj(z), z).ravel()
        total = panel_cauchy(self.panels, flat)
        with np.errstate(divide="ignore", invalid="ignore"):
            for place, mass in self.atoms:
                total = total + mass / (flat - place)
        values = total.reshape(z.shape)
        return np.where(z.imag < 0, np.conj(values), values)

    def cdf(self, t: ArrayLike) -> Real:
        """Return the mass of ``(-inf, t]``, with the shape of ``t``."""
        points = real_points("t", t)
        flat = points.ravel()
        total = np.zeros(flat.shape)
        for place, mass in self.atoms:
            total += mass * (flat >= place)
        if len(self.panels.low):
            low, high = self.panels.ends()
            before = np.concatenate([[0.0], np.cumsum(self._masses)])
            index = np.clip(np.searchsorted(low, flat, side="right") - 1, 0, len(low) - 1)
            panels, inside = self.panels.take(index), np.clip(flat, low[index], high[index])
            s = np.abs(inside - panels.anchor) ** (1 / panels.power)
            local = np.clip(2 * (s - panels.low) / (panels.high - panels.low) - 1, -1, 1)
            basis, half = chebyshev.chebvander(local, NODES), (panels.high - panels.low) / 2
            partial = np.einsum("pk,pk->p", basis, self._primitives[index]) * half
            # The series runs in s, which falls as x grows on the right half of an interval.
            partial = np.where(panels.direction > 0, partial, self._masses[index] - partial)
            total += np.where(flat < low[0], 0.0, before[index] + partial)
        return total.reshape(points.shape)

    def quantile(self, q: ArrayLike) -> Real:
        """Return the smallest x with ``cdf(x) >= q``, with the shape of ``q``."""
        levels = probabilities("q", q)
        flat = levels.ravel()
        low, high = self.panels.ends()
        places = np.array([place for place, _ in self.atoms])
        low, high = np.concatenate([low, places]), np.concatenate([high, places])
        order = np.lexsort((high, low))
        low, high = low[order], high[order]
        masses = dict(self.atoms)
        below = self.cdf(low) - np.array([masses.get(float(x), 0.0) for x in low])
        up_to = self.cdf(high)
        index = np.clip(np.searchsorted(up_to - 1e-13, flat), 0, len(low) - 1)
        a, b = low[index].copy(), high[index].copy()
        b = np.where(flat <= below[index], a, b)
        for _ in range(60):
            middle = (a + b) / 2
            enough = self.cdf(middle) >= flat
            a, b = np.where(enough, a, middle), np.where(enough, middle, b)
        return np.asarray(b).reshape(levels.shape)


def _cuts(edge: float, half: float, power: float) -> list[float]:
    """Return where the panels of half an interval start and end, in s: one, unless its edge nearly touches 0.

    At a distance that soft edge resembles a hard one at 0, and its own scale is missed by any panel that starts
    at it and ends far beyond: panels then grow geometrically from that scale on.

    >>> _cuts(0.0, 1.0, 2), len(_cuts(1e-16, 1.0, 2))
    ([0.0, 1.0], 11)
    """
    last = half ** (1 / power)
    if not 0 < abs(edge) < CLOSE * half:
        return [0.0, last]
    first = abs(edge) ** (1 / power)
    count = int(np.ceil(np.log(last / first) / np.log(8)))
    return [0.0, *np.geomspace(first, last, count + 1).tolist()]


# Fractional powers at edges and singular points
TERMS = 7
SEARCHED = 25
# Largest change of a logarithmic slope from one decade to the next that counts as none.
STEADY = 0.02
# Relative misfit of a series of powers that needs no others.
FITS = 1e-9
_REACH = np.geomspace(1e-7, 1e-5, 24)

Density = Callable[[Real], Any]


def exponent(density: Density, place: float, inward: float) -> tuple[int, int] | None:
    """Return whole numbers (j, m) for which the density is ``d^(j/m)`` at distance d of ``place``.

    The smallest m that fits is taken; None where the density vanishes or failed. ``inward`` is the signed width of
    the interval on the side of the density.

    >>> exponent(lambda x: x ** (-2 / 3), 0.0, 1.0)
    (-2, 3)
    """
    return exponents(density, np.array([place]), np.array([inward]))[0]


def exponents(density: Density, places: Real, inward: Real) -> list[tuple[int, int] | None]:
    """Return the exponents at many places, whose densities are computed together.

    The closest ones cost most: they are computed only where the others do not decide.
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
    found: list[tuple[int, int] | None] = []
    for slope in slopes:
        trials = [] if slope is None else [(m * slope, m) for m in (2, 3, 4, 5, 6)]
        fits = [(round(product), m) for product, m in trials if abs(product - round(product)) < 0.03 * m]
        found.append(fits[0] if fits else None)
    return found


def _settled_slope(distance: Real, values: Real) -> float | None:
    """Return the logarithmic slope of a density once nearer points no longer change it.

    Behind a soft edge that nearly touches a hard one the slope turns from 1/2 to -1/2 at some distance.
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

    Every local maximum is resolved on ever smaller scales, on which a smooth one becomes flat. One next to a known
    end is left out: a hard end is one.
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
    sides = width * np.multiply.outer([-1.0, 1.0], [1e-5, 1e-7, 1e-9])
    if at_zero.any() and _grows(density, sides):
        found, low, high = [0.0], low[~at_zero], high[~at_zero]
    while len(low):
        # Brackets 12 times narrower around the largest density, of those where it is not flat.
        points = low[:, None] + (high - low)[:, None] * np.linspace(0, 1, SEARCHED + 1)
        inside = np.nan_to_num(np.asarray(density(points.ravel()), dtype=float)).reshape(points.shape)
        pick, rows = np.argmax(inside, axis=1), np.arange(len(low))
        steep = inside[rows, pick] > 1.2 * np.maximum(inside[:, 0], inside[:, -1])
        low = points[rows, np.maximum(pick - 1, 0)][steep]
        high = points[rows, np.minimum(pick + 1, SEARCHED)][steep]
        near = high - low < 2e-8 * width
        found += list((low + high)[near] / 2)
        low, high = low[~near], high[~near]
    return np.array(found)


def _grows(density: Density, points: Real) -> bool:
    """Return whether the density grows along a row of three points towards a place, on one of its sides."""
    values = np.nan_to_num(np.asarray(density(points.ravel()), dtype=float)).reshape(points.shape)
    return bool(((values[:, 1] > 1.2 * values[:, 0]) & (values[:, 2] > 1.2 * values[:, 1])).any())
