"""Solutions along the real axis, each a start of Newton's method at neighbouring points.

`KnownSolutions` interpolates between solutions, and `AxisSolver` solves along the axis with them and with the folds
at the ends of a spectrum. `ChebyshevCache` holds the resolvent as Chebyshev series:
thousands of points for the price of a few hundred.
"""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from reshuffle.free.checks import Complex, Real
from reshuffle.free.measure import GRID, NODES, TO_COEFFICIENTS
from reshuffle.free.solver.continuation import Solution, follow, land
from reshuffle.free.solver.system import PencilSystem, find_folds

# Known solutions
NEIGHBOURS = 6
"""Through which a polynomial is laid."""
PROMISING = 0.05
"""Largest difference of two predictions, in units of the neighbours' differences, for Newton to start from one."""

# Solutions along the axis
SPARSE = 12
"""One in this number of points is followed down the whole path, before the others start from it."""
ENDS = np.array([0, 1, 2, 4])
FEWEST = 24
"""Points that are worth the detour: fewer cost the path little more than one."""
SURE = 1e-8
"""Error of what neighbours led to, in units in which the spectrum has size one, beyond which it does not count."""
LARGEST = 1_000_000
"""The largest amount of numbers in memory."""
DARK = 1e-9
"""Imaginary part of the trace, in the same units, of what is outside of the spectrum."""
NEAR_FOLD, ALIKE = 1e-3, 0.3
"""Of the way to a fold, and of what is left of it: where solutions are compared, and how far they may differ."""

# Chebyshev series
MANY = 600
"""Points from which on series are made for them."""
CROWD = 2 * NODES
"""Points on a piece that are worth one; fewer are solved one by one."""
TAIL, NOISE = 1e-13, 1e-11
"""Last coefficients, and errors at the nodes, relative to the largest value, up to which a series is accepted."""

Solve = Callable[[Real], tuple[Complex, Real]]


class KnownSolutions:
    """Solutions at points of the real axis, sorted, and the ends of the spectrum as far as they are known.

    Near one of the ``edges`` the unknowns are analytic in the root of the distance to it; ``folds`` are those at
    which the unknowns are known: there the Jacobian is singular.
    """

    def __init__(self, unknowns: int):
        self.points, self.unknowns = np.zeros(0), np.zeros((0, unknowns), dtype=complex)
        self.edges, self.folds, self.fold_unknowns = self.points, self.points, self.unknowns
        self._all = self.points, self.unknowns

    def add(self, points: Real, unknowns: Complex) -> NDArray[np.int_]:
        """Remember solutions at new points; return the order that sorts them together with those before."""
        merged = np.concatenate([self.points, points])
        order = np.argsort(merged)
        self.points, self.unknowns = merged[order], np.concatenate([self.unknowns, unknowns])[order]
        self._merge()
        return order

    def mark(self, edges: Real) -> None:
        """Interpolate near these points in the root of the distance to them."""
        self.edges = np.unique(np.concatenate([self.edges, edges]))

    def add_folds(self, edges: Real, unknowns: Complex) -> None:
        """Mark edges at which the unknowns (edges, unknowns) are known."""
        fresh = ~np.isin(edges, self.folds)
        self.folds = np.concatenate([self.folds, edges[fresh]])
        self.fold_unknowns = np.concatenate([self.fold_unknowns, unknowns[fresh]])
        self.mark(edges)
        self._merge()

    def remove(self, edges: Real) -> None:
        """Forget these edges and folds."""
        kept = ~np.isin(self.folds, edges)
        self.folds, self.fold_unknowns = self.folds[kept], self.fold_unknowns[kept]
        self.edges = self.edges[~np.isin(self.edges, edges)]
        self._merge()

    def _merge(self) -> None:
        points, order = np.unique(np.concatenate([self.points, self.folds]), return_index=True)
        self._all = points, np.concatenate([self.unknowns, self.fold_unknowns])[order]

    def predicted(self, x: Real) -> tuple[Complex, Real, NDArray[np.bool_]]:
        """Return unknowns interpolated at x, how much those of the two nearest points differ, and where to try.

        A point is worth a try where polynomials through six neighbours and through the inner four of them agree. At
        least six points must be known.
        """
        points, unknowns = self._all
        place = np.searchsorted(points, x)
        # The neighbours are between the same edges as the point itself, if those are enough.
        first = np.clip(place - NEIGHBOURS // 2, 0, len(points) - NEIGHBOURS)
        if len(self.edges):
            gap = np.searchsorted(self.edges, x)
            starts = np.concatenate([[0], np.searchsorted(points, self.edges)])[gap]
            ends = np.concatenate([np.searchsorted(points, self.edges, side="right"), [len(points)]])[gap]
            inside = np.clip(first, starts, np.maximum(ends - NEIGHBOURS, starts))
            first = np.where(ends - starts >= NEIGHBOURS, inside, first)
        index = first[:, None] + np.arange(NEIGHBOURS)
        target, nodes, regular = x, points[index], np.zeros(len(x), dtype=bool)
        if len(self.edges):
            # Roots of distances to an edge, if all are on one side of it.
            after = np.clip(np.searchsorted(self.edges, x), 1, max(len(self.edges) - 1, 1))
            left, right = self.edges[after - 1], self.edges[np.minimum(after, len(self.edges) - 1)]
            edge = np.where(np.abs(x - left) < np.abs(x - right), left, right)
            away = nodes - edge[:, None]
            regular = (away * (x - edge)[:, None] >= 0).all(axis=1) & (x != edge)
            # Two neighbours that meet in the root would divide by nothing.
            roots = np.sqrt(np.abs(away))
            regular &= np.abs(np.diff(roots, axis=1)).min(axis=1) > 0
            target = np.where(regular, np.sqrt(np.abs(x - edge)), x)
            nodes = np.where(regular[:, None], roots, nodes)
        high = interpolated(target, nodes, unknowns[index])
        low = interpolated(target, nodes[:, 1:-1], unknowns[index[:, 1:-1]])
        after = np.clip(place, 1, len(points) - 1)
        spread = np.linalg.norm(unknowns[after] - unknowns[after - 1], axis=1)
        between = ((place > 0) & (place < len(points))) | regular
        size = 1 + np.linalg.norm(high, axis=1)
        doubt = np.linalg.norm(high - low, axis=1)
        return high, spread, between & (doubt <= PROMISING * np.maximum(spread, 1e-10 * size))


def interpolated(x: Real, nodes: Real, values: Complex) -> Complex:
    """Return the polynomials through ``nodes`` (n, k) with ``values`` (n, k, unknowns), at x (n,).

    >>> nodes = np.array([[0.0, 1.0, 3.0]])
    >>> interpolated(np.array([2.0]), nodes, nodes[..., None] ** 2).tolist()
    [[4.0]]
    """
    count = nodes.shape[1]
    weights = np.ones(nodes.shape)
    for k in range(count):
        for other in range(count):
            if other != k:
                weights[:, k] *= (x - nodes[:, other]) / (nodes[:, k] - nodes[:, other])
    return np.asarray(np.einsum("nk,nku->nu", weights, values))


class AxisSolution:
    """Values of the resolvent's corner, their errors and unknowns, and the Newton steps they took.

    What has no answer, or none yet, is nan with an infinite error.
    """

    def __init__(self, count: int, corner: int, unknowns: int):
        self.unknowns = np.full((count, unknowns), np.nan, dtype=complex)
        self.values = np.full((count, corner, corner), np.nan, dtype=complex)
        self.errors, self.steps = np.full(count, np.inf), 0


class AxisSolver:
    """The solution on the real axis, a sheet of an analytic function, by as few paths as its points allow.

    One point in a few is followed from above. Between them the unknowns are interpolated, and Newton's method ends
    what interpolation began. A point is taken from its neighbours only where two interpolants of different degree
    agree and Newton's method then moves them by no more than they differ: near an edge, a gap or a singularity
    they do not. Regular edges are then found as folds, near which the unknowns are analytic in the root of the
    distance; near all others the path is followed.

    ``corner`` is the number of rows of the resolvent that are returned.
    """

    def __init__(self, system: PencilSystem, corner: int):
        self.system, self.corner = system, corner
        self.known = KnownSolutions(system.unknowns)
        self.values = np.zeros((0, corner, corner), dtype=complex)
        self.errors = np.zeros(0)
        self.steps = 0

    @property
    def points(self) -> Real:
        """The points with known solutions, sorted."""
        return self.known.points

    def solve(self, x: Real) -> AxisSolution:
        """Return the resolvent's corner at real points (n,); points solved before are remembered."""
        before, result = self.steps, AxisSolution(len(x), self.corner, self.system.unknowns)
        place = np.minimum(np.searchsorted(self.points, x), len(self.points) - 1)
        known = self.points[place] == x if len(self.points) else np.zeros(len(x), dtype=bool)
        result.values[known], result.errors[known] = self.values[place[known]], self.errors[place[known]]
        result.unknowns[known] = self.known.unknowns[place[known]]
        rest = np.flatnonzero(~known)
        waiting = rest[np.argsort(x[rest], kind="stable")]
        if len(waiting) and len(self.points) + len(waiting) >= FEWEST:
            for stride in (SPARSE, 2):
                waiting = self._from_neighbours(x, waiting, result)
                if stride < SPARSE and len(waiting) >= FEWEST:
                    self._find_folds(x[waiting])
                    waiting = self._from_neighbours(x, waiting, result)
                if len(waiting) < FEWEST:
                    break
                chosen = np.zeros(len(waiting), dtype=bool)
                chosen[::stride] = True
                # The ends are where an edge is most likely to be near, and have neighbours on one side only.
                chosen[ENDS] = chosen[-1 - ENDS] = True
                self._from_above(x, waiting[chosen], result)
                waiting = waiting[~chosen]
            waiting = self._from_neighbours(x, waiting, result)
        self._from_above(x, waiting, result)
        result.steps = self.steps - before
        return result

    def ends(self, outside: Real, inside: Real) -> Real:
        """Return where the spectrum ends between points (n,) outside and inside of it, nan where it is no fold.

        A fold counts if the solution that leaves it is the spectrum's own, which comes from above.
        """
        low, high = np.minimum(outside, inside), np.maximum(outside, inside)
        ends = np.sort(self.known.folds)
        found = np.full(len(inside), np.nan)
        if len(ends):
            next_ = ends[np.minimum(np.searchsorted(ends, low), len(ends) - 1)]
            found = np.where((next_ >= low) & (next_ <= high), next_, np.nan)
        unknown = np.flatnonzero(np.isnan(found))
        if len(unknown) and self.system.direct and self.system.unknowns:
            found[unknown] = self._new_ends(outside[unknown], inside[unknown])
        return found

    def _new_ends(self, outside: Real, inside: Real) -> Real:
        unknowns, known = self._known(inside)
        places = np.full(len(inside), np.nan)
        if not known.any():
            return places
        with np.errstate(all="ignore"):
            found = find_folds(self.system, inside[known], outside[known], unknowns[known])
        self.steps += found.steps
        places[known] = found.places
        good = np.isfinite(places)
        unknowns, leaving = found.unknowns[good[known]], found.leaving[good[known]]
        self.known.add_folds(places[good], unknowns)
        near = NEAR_FOLD * (inside - places)[good]
        truth, solved = self._known(places[good] + near)
        moved = np.sqrt(near.astype(complex))[:, None] * leaving
        misfit = [np.linalg.norm(truth - unknowns - sign * moved, axis=1) for sign in (-1, 1)]
        false = ~(solved & (np.minimum(*misfit) <= ALIKE * np.linalg.norm(moved, axis=1)))
        wrong = np.flatnonzero(good)[false]
        self.known.remove(places[wrong])
        places[wrong] = np.nan
        return places

    def _known(self, x: Real) -> tuple[Complex, NDArray[np.bool_]]:
        """Return the unknowns (n, unknowns) at real points, and where they are known."""
        unknowns = self.solve(x).unknowns
        return unknowns, np.asarray(np.isfinite(unknowns).all(axis=1))

    def _find_folds(self, near: Real) -> None:
        """Find the folds between known points where the spectrum starts or stops, if one of ``near`` is there."""
        dark = np.abs(np.trace(self.values, axis1=1, axis2=2).imag) <= DARK * self.corner
        change = np.flatnonzero(dark[1:] != dark[:-1])
        low, high = self.points[change], self.points[change + 1]
        open_ = np.searchsorted(near, high) > np.searchsorted(near, low)
        change, low, high = change[open_], low[open_], high[open_]
        self.ends(np.where(dark[change], low, high), np.where(dark[change], high, low))

    def _from_above(self, x: Real, index: NDArray[np.int_], result: AxisSolution) -> None:
        if len(index):
            self._take(x, index, follow(self.system, x[index].astype(complex), self.corner), result)

    def _from_neighbours(self, x: Real, index: NDArray[np.int_], result: AxisSolution) -> NDArray[np.int_]:
        """Solve what neighbours lead to, and return the rest in order."""
        if len(self.points) < NEIGHBOURS or not len(index):
            return index
        guess, spread, promising = self.known.predicted(x[index])
        tried = index[promising]
        if not len(tried):
            return index
        solution = land(
            self.system, x[tried].astype(complex), guess[promising], spread[promising], self.corner
        )
        # At an edge two solutions meet, and Newton's method stalls between them: the path comes closer.
        solution = solution._replace(converged=solution.converged & (solution.error <= SURE))
        self._take(x, tried, solution, result)
        promising[promising] = solution.converged
        return index[~promising]

    def _take(self, x: Real, index: NDArray[np.int_], solution: Solution, result: AxisSolution) -> None:
        """Write a solution to the answer, and remember it."""
        good = solution.converged
        corner = solution.resolvent[good, : self.corner, : self.corner]
        result.values[index[good]], result.errors[index[good]] = corner, solution.error[good]
        result.unknowns[index[good]] = solution.unknowns[good]
        self.steps += solution.steps
        fresh, which = np.unique(x[index[good]], return_index=True)
        new = ~np.isin(fresh, self.points)
        if (len(self.points) + len(fresh)) * max(self.system.unknowns, 1) > LARGEST:
            return
        chosen = which[new]
        order = self.known.add(fresh[new], solution.unknowns[good][chosen])
        self.values = np.concatenate([self.values, corner[chosen]])[order]
        self.errors = np.concatenate([self.errors, solution.error[good][chosen]])[order]


class ChebyshevCache:
    """Values of a function that is analytic almost everywhere on the axis: from series where it is.

    The range of the points is halved until a series of 20 terms has converged on a piece, or too few points are
    left on it to be worth one: near edges, atoms and singularities nothing is interpolated. From points (n,),
    ``solve`` makes values (n, k, k) and errors (n,), inf where they failed.

    >>> calls = []
    >>> def inverse(x):
    ...     calls.append(len(x))
    ...     return (1 / (x + 2j))[:, None, None], np.zeros(len(x))
    >>> cache, x = ChebyshevCache(inverse), np.linspace(-1, 1, 10_000)
    >>> bool(np.abs(cache.solve(x)[0][:, 0, 0] - 1 / (x + 2j)).max() < 1e-13), sum(calls) < 200
    (True, True)
    """

    def __init__(self, solve: Solve):
        self._solve = solve
        self.low, self.high = np.zeros(0), np.zeros(0)
        self.series: Complex = np.zeros((0, NODES, 1), dtype=complex)
        self.error = np.zeros(0)

    def solve(self, x: Real) -> tuple[Complex, Real]:
        """Return values (n, k, k) and errors at points (n,)."""
        index = self._covering(x)
        if np.sum(index < 0) >= MANY:
            self._add_pieces(np.sort(x[index < 0]))
            index = self._covering(x)
        missing = index < 0
        values, errors = self._solve(x[missing])
        if missing.all():
            return values, errors
        whole = np.empty((len(x), *values.shape[1:]), dtype=complex)
        bounds = np.empty(len(x))
        whole[missing], bounds[missing] = values, errors
        there = index[~missing]
        whole[~missing] = self._evaluated(there, x[~missing]).reshape(-1, *values.shape[1:])
        bounds[~missing] = self.error[there]
        return whole, bounds

    def _covering(self, x: Real) -> NDArray[np.int_]:
        """Return the piece that each point lies on, -1 for none."""
        if not len(self.low):
            return np.full(len(x), -1)
        index = np.searchsorted(self.low, x, side="right") - 1
        return np.where((index >= 0) & (x <= self.high[np.maximum(index, 0)]), index, -1)

    def _evaluated(self, index: NDArray[np.int_], x: Real) -> Complex:
        low, high = self.low[index], self.high[index]
        local = np.clip((2 * x - low - high) / (high - low), -1, 1)
        basis = chebyshev.chebvander(local, NODES - 1)
        values = np.empty((len(x), self.series.shape[2]), dtype=complex)
        for piece in np.unique(index):
            here = index == piece
            values[here] = basis[here] @ self.series[piece]
        return values

    def _add_pieces(self, x: Real) -> None:
        """Add pieces for sorted points."""
        low, high = x[:1], x[-1:]
        while len(low):
            crowd = np.searchsorted(x, high, side="right") - np.searchsorted(x, low)
            low, high = low[crowd >= CROWD], high[crowd >= CROWD]
            if not len(low):
                return
            nodes = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * GRID
            values, errors = self._solve(nodes.ravel())
            flat = np.nan_to_num(values.reshape(len(low), NODES, -1))
            series = np.einsum("kn,pni->pki", TO_COEFFICIENTS, flat)
            size = np.abs(flat).max(axis=(1, 2))
            noise = errors.reshape(len(low), NODES).max(axis=1)
            tail = np.abs(series[:, -3:]).max(axis=(1, 2))
            good = (tail <= TAIL * size + noise) & (noise <= NOISE * size)
            # A polynomial through 20 such nodes multiplies their errors by less than three.
            fresh = (low, high, series, 3 * noise + 10 * tail)
            if good.any():
                known = (self.low, self.high, self.series, self.error)
                # The number of values per point is known with the first piece.
                pieces = [
                    np.concatenate([a, b[good]]) if len(a) else b[good]
                    for a, b in zip(known, fresh, strict=True)
                ]
                order = np.argsort(pieces[0])
                self.low, self.high, self.series, self.error = (piece[order] for piece in pieces)
            middle = (low + high)[~good] / 2
            low, high = np.concatenate([low[~good], middle]), np.concatenate([middle, high[~good]])
