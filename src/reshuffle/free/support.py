"""Find every interval of the support by where the density is positive.

Brackets are intervals in which a density starts or stops, made narrower; ends that are known to be regular come
with them.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import NDArray

from reshuffle.free.checks import Real
from reshuffle.free.measure import STEADY, Density, exponent, locate, peaks

SECTIONS = 25

# Of the scale: near enough for the square of the density to lead to the end.
ROUGH = 1e-7
# Of the scale: near enough for any fractional power.
CLOSE = 1e-9
REACHES = (2e-4, 1e-4, 3e-5, 1e-5)
# Of the scale: how far inside an edge the density must be positive.
INSIDE = 2e-12
ATTEMPTS, DEEP = 3, 5
"""To find a fold where the density falls to its end, and where nothing else explains the end."""
# Times its estimated error: what a density must exceed to be seen. Near the atoms of commutators of projections
# (464 points, six pairs of ranks) noise was up to 8.3 times its estimate.
HIDDEN = 16.0
# Over the width: densities below are rounding.
VANISHING = 1e-9

Pairs = tuple[tuple[float, float], ...]
Folds = Callable[[Real, Real], Real]
"""From points outside and inside to the regular ends between them, nan for all others."""


class Brackets(NamedTuple):
    """Intervals in each of which the density starts or stops; `rising` says which."""

    low: Real
    high: Real
    rising: NDArray[np.bool_]

    def take(self, index: NDArray[Any]) -> "Brackets":
        """Return the intervals at ``index``."""
        return Brackets(*(array[index] for array in self))

    @property
    def edges(self) -> Real:
        """The end of each that lies inside the support."""
        return np.asarray(np.where(self.rising, self.high, self.low))

    @property
    def outside(self) -> Real:
        """The other end of each."""
        return np.asarray(np.where(self.rising, self.low, self.high))


def cut(
    density: Density, brackets: Brackets, threshold: float, precision: float, rounds: int = 12
) -> Brackets:
    """Return brackets cut into sections until they are no wider than ``precision``, or for so many rounds.

    >>> found = cut(lambda x: np.sqrt(np.maximum(x - 1, 0)), Brackets(*np.array([[0.0], [2.0], [1]])), 0.0, 1e-6)
    >>> bool(found.low[0] <= 1.0 <= found.high[0] <= found.low[0] + 1e-6)
    True
    """
    low, high, rising = brackets.low, brackets.high, brackets.rising
    fractions = np.arange(1, SECTIONS) / SECTIONS
    for _ in range(rounds):
        if not len(low) or np.max(high - low) <= precision:
            break
        points = low[:, None] + (high - low)[:, None] * fractions
        # A point that failed sits on an atom or at an edge; it must not count as continuous mass.
        values = np.nan_to_num(np.asarray(density(points.ravel()), dtype=float), nan=0.0)
        inside = values.reshape(points.shape) > threshold
        # The first section whose right end is on the far side of the change.
        crossed = np.concatenate([inside == rising[:, None], np.ones((len(low), 1), dtype=bool)], axis=1)
        section = np.argmax(crossed, axis=1)
        ends = np.concatenate([low[:, None], points, high[:, None]], axis=1)
        pick = np.arange(len(low))
        low, high = ends[pick, section], ends[pick, section + 1]
    return Brackets(low, high, rising)


def regular_ends(
    density: Density, brackets: Brackets, folds: Folds | None, threshold: float, attempts: NDArray[np.int_]
) -> tuple[Real, Brackets]:
    """Return the ends that ``folds`` finds in brackets (n,), nan for the others, and how narrow the brackets got.

    It may take several ``attempts`` (n,), each from 25 times closer.
    """
    ends = np.full(len(brackets.low), np.nan)
    if folds is None:
        return ends, brackets
    low, high = brackets.low.copy(), brackets.high.copy()
    for attempt in range(int(attempts.max(initial=0))):
        waiting = np.flatnonzero(np.isnan(ends) & (attempts > attempt))
        if not len(waiting):
            break
        part = Brackets(low[waiting], high[waiting], brackets.rising[waiting])
        if attempt:
            part = cut(density, part, threshold, 0.0, rounds=1)
            low[waiting], high[waiting] = part.low, part.high
        found = np.asarray(folds(part.outside, part.edges))
        ends[waiting] = np.where((found >= part.low) & (found <= part.high), found, np.nan)
    return ends, Brackets(low, high, brackets.rising)


@dataclass(frozen=True)
class Support:
    """The set on which a density is positive.

    Attributes
    ----------
    intervals : pairs (low, high); pieces : the same, cut where the density is infinite inside them.
    powers : end -> 2 where it is known that ``x = end + s^2`` makes the density a power series in s.
    """

    intervals: Pairs
    pieces: Pairs
    powers: dict[float, float]


def support(
    density: Density,
    seeds: Real,
    resolution: int,
    mark: Callable[[Real], None] = lambda edges: None,
    folds: Folds | None = None,
    errors: Callable[[Real], Real] | None = None,
) -> Support:
    """Return the intervals on which ``density`` is positive, their ends to rounding.

    A grid through ``seeds`` (sampled eigenvalues) and between them finds the sign changes, and dips of the grid
    are looked into for narrow gaps. The square of the density leads from the grid to the usual ends; where it does
    not, the change is cut into sections until the end follows from the densities inside.

    Parameters
    ----------
    density : callable, array -> array, nan where it failed.
    seeds : points near the spectrum, shape (n,); resolution : extra grid points.
    mark : called with the approximate ends as soon as they are known; may speed up ``density``.
    folds : points outside and inside -> the ends between them at which the density is a root; nan for all others.
    errors : points -> error estimates of the densities, if there are any. Points at which they hide the density, as
        near an atom, are ignored: those around them decide.
    """
    low, high = float(seeds.min()), float(seeds.max())
    margin = 0.3 * (high - low) + 1e-3 * max(abs(low), abs(high)) + 1e-300
    scale = max(abs(low), abs(high), high - low)
    inner = np.linspace(low - margin, high + margin, resolution)
    # Kernels make gaps next to zero that are narrower than any grid.
    near_zero = (high - low) * np.array([-1e-4, -1e-5, 1e-5, 1e-4])
    grid = np.unique(
        np.concatenate([inner, seeds, near_zero[(near_zero > inner[0]) & (near_zero < inner[-1])]])
    )
    grid, values = _widened(density, grid, _values(density, grid), margin, VANISHING / (high - low + margin))
    for _ in range(2):
        grid, values = _look_into_dips(density, grid, values)
    threshold = VANISHING / (high - low + margin)
    positive = values > threshold
    if errors is not None and positive.any():
        visible = ~positive
        visible[positive] = values[positive] > HIDDEN * errors(grid[positive])
        grid, values, positive = grid[visible], values[visible], positive[visible]
    change = np.flatnonzero(positive[1:] != positive[:-1])
    brackets = Brackets(grid[change], grid[change + 1], positive[change + 1])
    # Folds are known at once, other square roots soon; all others by cutting on, which may show a fold from nearby.
    inside = np.where(brackets.rising, change + 1, change)
    soft = values[inside] <= values[inside + np.where(brackets.rising, 1, -1)]
    ends, _ = regular_ends(density, brackets, folds, threshold, np.where(soft, ATTEMPTS, 1))
    regular = np.isfinite(ends)
    mark(ends[regular])
    widths = np.repeat(np.diff(brackets.edges)[::2], 2) * np.tile([1.0, -1.0], len(change) // 2)
    for k in np.flatnonzero(~regular & (brackets.low < 0) & (brackets.high > 0)):
        if _ends_at_zero(density, float(widths[k]), float(brackets.outside[k]), scale):
            ends[k] = 0.0
    rest = np.flatnonzero(np.isnan(ends))
    guesses = [_from_grid(grid, values, int(change[k]), bool(brackets.rising[k])) for k in rest]
    closer = _nearer(density, brackets.take(rest), np.array(guesses), widths[rest], mark)
    known = np.isfinite(closer)
    ends[rest[known]] = square_root_ends(density, closer[known], widths[rest[known]], scale)
    rest = np.flatnonzero(np.isnan(ends))
    deep = np.full(len(rest), DEEP)
    ends[rest], narrow = regular_ends(density, brackets.take(rest), folds, threshold, deep)
    regular[rest] = np.isfinite(ends[rest])
    open_ = np.isnan(ends[rest])
    rest, narrow = rest[open_], cut(density, narrow.take(open_), threshold, ROUGH * scale)
    ends[rest] = square_root_ends(density, narrow.edges, widths[rest], scale)
    missed = np.isnan(ends[rest])
    rest, narrow = rest[missed], cut(density, narrow.take(missed), threshold, CLOSE * scale)
    for k, edge in zip(rest, narrow.edges.tolist(), strict=True):
        # Where the density is another fractional power.
        inward = float(widths[k])
        located = locate(density, edge, inward, scale)
        if located is not None and not _misses(density, edge, located, inward, scale):
            ends[k] = located
    missed = np.isnan(ends[rest])
    fine = cut(density, narrow.take(missed), threshold, 4e-15 * scale).edges
    for k, edge in zip(rest[missed], fine.tolist(), strict=True):
        ends[k] = polish(density, edge, float(widths[k]), scale)
    ends[np.abs(ends) < 1e-11 * scale] = 0.0
    # A single point is noise: no density is positive that far inside of both its ends.
    found = tuple(
        (float(a), float(b)) for a, b in zip(ends[::2], ends[1::2], strict=True) if b - a > 2 * INSIDE * scale
    )
    near = peaks(density, grid, values, threshold, ends)
    pieces: list[tuple[float, float]] = []
    for low, high in found:
        # The interval is cut at singular points, each located from the side on which the density is larger.
        width, size, cuts = high - low, max(abs(low), abs(high), high - low), [low]
        for peak in np.sort(near[(near > low + 1e-7 * width) & (near < high - 1e-7 * width)]):
            sides = _values(density, peak + 1e-6 * width * np.array([-1.0, 1.0]))
            place = locate(density, peak, width if sides[1] > sides[0] else -width, size)
            if place is not None:
                cuts.append(0.0 if abs(place) < 1e-11 * size else place)
        pieces += list(itertools.pairwise([*cuts, high]))
    return Support(found, tuple(pieces), {float(end): 2.0 for end in ends[regular]})


def _ends_at_zero(density: Density, inward: float, outside: float, scale: float) -> bool:
    """Return whether the density has its end at zero, where words that vanish on a kernel have theirs.

    It is a power of the distance to zero, down to the closest points at which it is known, and vanishes beyond.
    """
    beyond = np.asarray(density(outside * np.array([0.1, 1e-2, 1e-3])), dtype=float)
    if not (beyond[:2] <= VANISHING / scale).all() or (beyond > VANISHING / scale).any():
        return False
    power = exponent(density, 0.0, inward)
    if power is None or power[0] % power[1] == 0:
        return False
    far, near = (float(value) for value in np.asarray(density(inward * np.array([1e-7, 1e-8])), dtype=float))
    if not (0 < far < np.inf and 0 < near < np.inf):
        return False
    # A soft end may be that close to zero.
    if (np.asarray(density(inward * np.array([1e-10, 1e-11])), dtype=float) <= VANISHING / scale).any():
        return False
    return bool(abs(np.log10(far / near) - power[0] / power[1]) < STEADY)


def _from_grid(grid: Real, values: Real, place: int, rising: bool) -> float:
    """Return the zero next to a change to which the square of the density, or its inverse, extrapolates; or nan."""
    inside = place + 1 + np.arange(4) if rising else place - np.arange(4)
    if inside.min() < 0 or inside.max() >= len(grid) or values[inside].min() <= 0:
        return np.nan
    # Seeds may agree up to rounding, and what is put between them then is no new point.
    if grid[inside[0]] == grid[inside[1]]:
        return np.nan
    x, y = grid[inside] - grid[inside[0]], values[inside]
    unit = abs(x[-1])
    sign = 2.0 if y[1] > y[0] else -2.0
    slope, level = np.polyfit(x[:2] / unit, (y[:2] / y[0]) ** sign, 1)
    found = float(grid[inside[0]] - unit * level / slope) if slope else np.nan
    return (
        found if min(grid[place], grid[place + 1]) <= found <= max(grid[place], grid[place + 1]) else np.nan
    )


def _nearer(
    density: Density, brackets: Brackets, near: Real, widths: Real, mark: Callable[[Real], None]
) -> Real:
    """Return ends from densities close to guesses, or nan where they lead out of their brackets."""
    cells = brackets.high - brackets.low
    for part in (0.5, 0.02):
        known = np.isfinite(near)
        if not known.any():
            return near
        reach = np.copysign(part * cells[known], widths[known])
        near = near.copy()
        near[known] = _zeros_of_squares(density, near[known], reach)
        inside = (near >= brackets.low) & (near <= brackets.high)
        near = np.where(inside, near, np.nan)
    mark(near[np.isfinite(near)])
    return near


def square_root_ends(density: Density, edges: Real, inward: Real, scale: float) -> Real:
    """Return each of the edges to rounding, from densities that are far enough inside to be exact, or nan.

    At such an edge ``density^2`` (or ``density^-2`` at a hard one) is analytic with a simple zero: a
    polynomial through twelve points at a ten-thousandth of the interval finds it, or closer where a pole of
    the density lies just outside. Two reaches have to agree. All edges are computed together: to a solver a
    dozen points cost little more than one.

    >>> square_root_ends(lambda x: np.sqrt(x - 1.0), np.array([1.0 + 1e-7]), np.array([1.0]), 1.0).round(12)
    array([1.])
    """
    ends = np.full(len(edges), np.nan)
    if not len(edges):
        return ends
    first, second, *closer = np.multiply.outer(REACHES, inward)
    last, found = _zeros_of_squares(density, np.tile(edges, (2, 1)), np.array([first, second]))
    while True:
        agree = (np.abs(found - last) < 1e-10 * scale) & (np.abs(found - edges) < 1e-5 * scale)
        if agree.any():
            # Nothing must speak against an edge: just inside of it the density is positive, or failed. A soft edge
            # closer to a hard one than the fit is narrow cannot be distinguished from the hard one.
            inside = found[agree] + np.copysign(INSIDE * scale, inward[agree])
            agree[agree] = ~_vanishes(density, inside, scale)
            ends[agree] = found[agree]
        open_ = np.isnan(ends)
        if not closer or not open_.any():
            return ends
        last, found = found, np.full(len(edges), np.nan)
        found[open_] = _zeros_of_squares(density, edges[open_], closer.pop(0)[open_])


def _misses(density: Density, edge: float, found: float, inward: float, scale: float) -> bool:
    """Return whether ``found`` is outside of ``edge`` and the density, unless it rises slowly, has a gap there."""
    if (edge - found) * inward <= 0:
        return False
    power = exponent(density, edge, inward)
    if power is not None and power[0] > power[1] / 2:
        return False
    return bool(_vanishes(density, found + (edge - found) * np.array([0.25, 0.5, 0.75]), scale).any())


def _vanishes(density: Density, points: Real, scale: float) -> NDArray[np.bool_]:
    """Return where the density is known to be zero; nan is not known."""
    return np.asarray(np.asarray(density(points), dtype=float) <= VANISHING / scale)


def polish(density: Density, edge: float, inward: float, scale: float) -> float:
    """Return an edge to rounding: a square root, or another fractional power fitted by `locate`.

    An edge of neither kind is returned unchanged.
    """
    (root,) = square_root_ends(density, np.array([edge]), np.array([inward]), scale)
    found = locate(density, edge, inward, scale) if np.isnan(root) else float(root)
    return edge if found is None or _misses(density, edge, found, inward, scale) else found


def _zeros_of_squares(density: Density, edges: Real, reaches: Real) -> Real:
    """Return where the square of the density, or its inverse, is zero near each edge; nan where it is not."""
    nodes = 2 - np.cos(np.pi * (np.arange(12) + 0.5) / 12)
    points = edges[..., None] + reaches[..., None] * nodes
    values = _values(density, points.ravel()).reshape(-1, len(nodes))
    roots = np.full(len(values), np.nan)
    for k, row in enumerate(values):
        slope = np.log(row[-1] / row[0]) / np.log(nodes[-1] / nodes[0]) if row.min() > 0 else np.nan
        if abs(abs(slope) - 0.5) <= 0.1:
            # Degree four: higher ones multiply the densities' rounding by more than they gain this close.
            series = Chebyshev.fit(nodes, row ** (2 * np.sign(slope)), 4, domain=[1, 3])
            derivative, root = series.deriv(), 0.0
            for _ in range(6):
                root -= float(series(root) / derivative(root))
            roots[k] = root
    return np.asarray(edges + reaches * roots.reshape(edges.shape))


def _values(density: Density, points: Real) -> Real:
    # A point that failed sits on an atom or at an edge; it must not count as continuous mass.
    return np.asarray(np.nan_to_num(np.asarray(density(points), dtype=float), nan=0.0))


def _widened(
    density: Density, grid: Real, values: Real, margin: float, threshold: float
) -> tuple[Real, Real]:
    """Return the grid with points beyond either end, as far as the density is positive there.

    The eigenvalues of a small matrix need not reach the ends of the spectrum.
    """
    for _ in range(8):
        positive = values[[0, -1]] > threshold
        if not positive.any():
            break
        steps = margin * np.linspace(0, 1, 14)[1:]
        before = (grid[0] - steps)[::-1] if positive[0] else steps[:0]
        after = grid[-1] + steps if positive[1] else steps[:0]
        values = np.concatenate([_values(density, before), values, _values(density, after)])
        grid, margin = np.concatenate([before, grid, after]), 2 * margin
    return grid, values


def _look_into_dips(density: Density, grid: Real, values: Real) -> tuple[Real, Real]:
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
