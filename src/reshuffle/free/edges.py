"""Find every interval of the support by where the density is positive."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev

from reshuffle.free.checks import Real
from reshuffle.free.singularities import locate, peaks

SECTIONS = 25

Pairs = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Support:
    """Where a density is positive.

    Attributes
    ----------
    intervals : pairs (low, high); pieces : the same, cut where the density is infinite inside them.
    """

    intervals: Pairs
    pieces: Pairs


def support(density: Callable[[Real], Any], seeds: Real, resolution: int) -> Support:
    """Return the intervals on which ``density`` is positive, their ends to rounding.

    A grid through ``seeds`` (sampled eigenvalues) and between them finds the sign changes, dips of the grid
    are looked into for narrow gaps, and each change is cut into sections until it is as narrow as doubles
    allow.

    Parameters
    ----------
    density : callable, array -> array; seeds : points near the spectrum, shape (n,); resolution : extra
        grid points.
    """
    low, high = float(seeds.min()), float(seeds.max())
    margin = 0.3 * (high - low) + 1e-3 * max(abs(low), abs(high)) + 1e-300
    scale = max(abs(low), abs(high), high - low)
    inner = np.linspace(low - margin, high + margin, resolution)
    grid = np.unique(np.concatenate([inner, seeds]))
    values = _values(density, grid)
    for _ in range(2):
        grid, values = _look_into_dips(density, grid, values)
    threshold = 1e-9 / (high - low + margin)
    positive = values > threshold
    edges = _cut(density, grid, positive, threshold, scale)
    widths = np.repeat(np.diff(edges)[::2], 2) * np.tile([1.0, -1.0], len(edges) // 2)
    ends = [
        polish(density, float(edge), float(width), scale) for edge, width in zip(edges, widths, strict=True)
    ]
    ends = [0.0 if abs(edge) < 1e-11 * scale else edge for edge in ends]
    found = tuple(zip(ends[::2], ends[1::2], strict=True))
    return Support(found, _pieces(density, found, peaks(density, grid, values, threshold)))


def _pieces(density: Callable[[Real], Any], found: Pairs, near: Real) -> Pairs:
    """Return the intervals cut at the singular points close to ``near``."""
    pieces: list[tuple[float, float]] = []
    for low, high in found:
        inside = near[(near > low + 1e-7 * (high - low)) & (near < high - 1e-7 * (high - low))]
        places = [_singular(density, place, low, high) for place in np.sort(inside)]
        cuts = [low, *(place for place in places if place is not None), high]
        pieces += list(itertools.pairwise(cuts))
    return tuple(pieces)


def _singular(density: Callable[[Real], Any], near: float, low: float, high: float) -> float | None:
    """Return the singular point close to ``near``, from the side on which the density is larger."""
    width, scale = high - low, max(abs(low), abs(high), high - low)
    sides = _values(density, near + 1e-6 * width * np.array([-1.0, 1.0]))
    place = locate(density, near, width if sides[1] > sides[0] else -width, scale)
    return 0.0 if place is not None and abs(place) < 1e-11 * scale else place


def polish(density: Callable[[Real], Any], edge: float, inward: float, scale: float) -> float:
    """Return an edge to rounding, from densities that are far enough inside to be exact.

    At such an edge ``density^2`` (or ``density^-2`` at a hard one) is analytic with a simple zero: a
    polynomial through twelve points at a ten-thousandth of the interval finds it. Other fractional powers are
    fitted by `locate`, and what neither explains is returned as it came.

    >>> round(polish(lambda x: np.sqrt(x - 1.0), 1.0 + 1e-9, 1.0, 1.0), 12)
    1.0
    """
    found = [_zero_of_square(density, edge, inward * step) for step in (2e-4, 1e-4)]
    agree = abs(found[0] - found[1]) < 1e-10 * scale and abs(found[1] - edge) < 1e-5 * scale
    if agree:
        return found[1]
    located = locate(density, edge, inward, scale)
    return edge if located is None else located


def _zero_of_square(density: Callable[[Real], Any], edge: float, reach: float) -> float:
    nodes = 2 - np.cos(np.pi * (np.arange(12) + 0.5) / 12)
    values = _values(density, edge + reach * nodes)
    if values.min() <= 0:
        return np.inf
    slope = np.log(values[-1] / values[0]) / np.log(nodes[-1] / nodes[0])
    if abs(abs(slope) - 0.5) > 0.1:
        return np.inf
    # Degree four: higher ones multiply the densities' rounding by more than they gain this close to the edge.
    series = Chebyshev.fit(nodes, values ** (2 * np.sign(slope)), 4, domain=[1, 3])
    derivative, root = series.deriv(), 0.0
    for _ in range(6):
        root -= float(series(root) / derivative(root))
    return edge + reach * root


def _values(density: Callable[[Real], Any], points: Real) -> Real:
    # A point that failed sits on an atom or at an edge; it must not count as continuous mass.
    return np.asarray(np.nan_to_num(np.asarray(density(points), dtype=float), nan=0.0))


def _look_into_dips(density: Callable[[Real], Any], grid: Real, values: Real) -> tuple[Real, Real]:
    middle = values[1:-1]
    dip = (middle <= values[:-2]) & (middle <= values[2:]) & (middle > 0) & (middle < 0.7 * values.max())
    places = np.flatnonzero(dip) + 1
    if not len(places):
        return grid, values
    inside = np.linspace(0, 1, 14)[1:-1]
    left, right = grid[places - 1], grid[places + 1]
    extra = (left[:, None] + (right - left)[:, None] * inside).ravel()
    merged = np.concatenate([grid, extra])
    order = np.argsort(merged, kind="stable")
    return merged[order], np.concatenate([values, _values(density, extra)])[order]


def _cut(density: Callable[[Real], Any], grid: Real, positive: Any, threshold: float, scale: float) -> Real:
    change = np.flatnonzero(positive[1:] != positive[:-1])
    low, high, rising = grid[change], grid[change + 1], positive[change + 1]
    fractions = np.arange(1, SECTIONS) / SECTIONS
    for _ in range(12):
        if not len(low) or np.max(high - low) <= 4e-15 * scale:
            break
        points = low[:, None] + (high - low)[:, None] * fractions
        inside = _values(density, points.ravel()).reshape(points.shape) > threshold
        # The first section whose right end is on the far side of the change.
        crossed = np.concatenate([inside == rising[:, None], np.ones((len(low), 1), dtype=bool)], axis=1)
        section = np.argmax(crossed, axis=1)
        ends = np.concatenate([low[:, None], points, high[:, None]], axis=1)
        pick = np.arange(len(low))
        low, high = ends[pick, section], ends[pick, section + 1]
    return np.asarray(np.where(rising, high, low))
