"""Solutions along the real axis: what is solved there starts Newton's method at the points beside it."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.checks import Complex, Real
from reshuffle.free.solver.continuation import Solution, follow, land
from reshuffle.free.solver.fixed_point import FixedPoint

SPARSE = 12
"""Of how many points one is followed down the whole path, before the others start from it."""
ENDS = np.array([0, 1, 2, 4])
FEWEST = 24
"""Points that are worth the detour: fewer cost the path little more than one."""
NEIGHBOURS = 6
PROMISING = 0.05
"""How far two predictions may differ, in units of the neighbours' differences, for Newton to start from one."""
SURE = 1e-8
"""Error of what neighbours led to, in units in which the spectrum has size one, beyond which it does not count."""
LARGEST = 1_000_000
"""Numbers that are kept."""


@dataclass(frozen=True)
class Landings:
    """Values of the resolvent's corner, their errors (inf where a point failed) and the Newton steps they took."""

    values: Complex
    errors: Real
    steps: int


class Sheet:
    """The solution on the real axis, a sheet of an analytic function, by as few paths as its points allow.

    One point in a few is followed from above. Between them the unknowns are interpolated, and Newton's method ends
    what interpolation began. A point is taken from its neighbours only where two interpolants of different degree
    agree and Newton's method then moves them by no more than they differ: beside an edge, a gap or a singularity
    they do not, and the path is followed there.

    Parameters
    ----------
    system : FixedPoint
    corner : int
        Rows of the resolvent that are asked for.
    """

    def __init__(self, system: FixedPoint, corner: int):
        self.system, self.corner = system, corner
        self.points = np.zeros(0)
        self.unknowns = np.zeros((0, system.unknowns), dtype=complex)
        self.values = np.zeros((0, corner, corner), dtype=complex)
        self.errors = np.zeros(0)
        self.edges = np.zeros(0)

    def mark(self, edges: Real) -> None:
        """Interpolate beside these points in the root of the distance to them, in which an edge is regular."""
        self.edges = np.unique(np.concatenate([self.edges, edges]))

    def solve(self, x: Real) -> Landings:
        """Return the resolvent's corner at real points (n,); points that were asked for before are remembered."""
        result = _Gathered(len(x), self.corner)
        waiting = self._remembered(x, result)
        if len(waiting) and len(self.points) + len(waiting) >= FEWEST:
            for stride in (SPARSE, 2):
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
        return Landings(result.values, result.errors, result.steps)

    def _remembered(self, x: Real, result: "_Gathered") -> NDArray[np.int_]:
        """Fill in what is known, and return the rest in order."""
        place = np.minimum(np.searchsorted(self.points, x), len(self.points) - 1)
        known = self.points[place] == x if len(self.points) else np.zeros(len(x), dtype=bool)
        result.values[known], result.errors[known] = self.values[place[known]], self.errors[place[known]]
        rest = np.flatnonzero(~known)
        return rest[np.argsort(x[rest], kind="stable")]

    def _from_above(self, x: Real, index: NDArray[np.int_], result: "_Gathered") -> None:
        if len(index):
            self._take(x, index, follow(self.system, x[index].astype(complex), self.corner), result)

    def _from_neighbours(self, x: Real, index: NDArray[np.int_], result: "_Gathered") -> NDArray[np.int_]:
        """Solve what neighbours lead to, and return the rest."""
        if len(self.points) < NEIGHBOURS or not len(index):
            return index
        guess, spread, promising = self._predicted(x[index])
        tried = index[promising]
        if not len(tried):
            return index
        solution = land(
            self.system, x[tried].astype(complex), guess[promising], spread[promising], self.corner
        )
        # At an edge two solutions meet, and Newton's method stalls between them: the path comes closer.
        solution = replace(solution, converged=solution.converged & (solution.error <= SURE))
        self._take(x, tried, solution, result)
        return np.concatenate([index[~promising], tried[~solution.converged]])

    def _predicted(self, x: Real) -> tuple[Complex, Real, NDArray[np.bool_]]:
        """Return unknowns interpolated at x, how much those of the two nearest points differ, and where to try."""
        place = np.searchsorted(self.points, x)
        first = np.clip(place - NEIGHBOURS // 2, 0, len(self.points) - NEIGHBOURS)
        index = first[:, None] + np.arange(NEIGHBOURS)
        target, nodes, regular = self._coordinates(x, self.points[index])
        inner = index[:, 1:-1]
        high = _interpolated(target, nodes, self.unknowns[index])
        low = _interpolated(target, nodes[:, 1:-1], self.unknowns[inner])
        right = np.clip(place, 1, len(self.points) - 1)
        spread = np.linalg.norm(self.unknowns[right] - self.unknowns[right - 1], axis=1)
        between = ((place > 0) & (place < len(self.points))) | regular
        size = 1 + np.linalg.norm(high, axis=1)
        doubt = np.linalg.norm(high - low, axis=1)
        return high, spread, between & (doubt <= PROMISING * np.maximum(spread, 1e-10 * size))

    def _coordinates(self, x: Real, nodes: Real) -> tuple[Real, Real, NDArray[np.bool_]]:
        """Return points and their neighbours as roots of distances to an edge, if all are on one side of it."""
        if not len(self.edges):
            return x, nodes, np.zeros(len(x), dtype=bool)
        after = np.clip(np.searchsorted(self.edges, x), 1, max(len(self.edges) - 1, 1))
        left, right = self.edges[after - 1], self.edges[np.minimum(after, len(self.edges) - 1)]
        edge = np.where(np.abs(x - left) < np.abs(x - right), left, right)
        away = nodes - edge[:, None]
        one_side = (np.sign(away) == np.sign(x - edge)[:, None]).all(axis=1) & (x != edge)
        # A point at the edge itself, or two neighbours that meet in the root, would divide by nothing.
        roots = np.sqrt(np.abs(away))
        one_side &= np.abs(np.diff(roots, axis=1)).min(axis=1) > 0
        target = np.where(one_side, np.sqrt(np.abs(x - edge)), x)
        return target, np.where(one_side[:, None], roots, nodes), one_side

    def _take(self, x: Real, index: NDArray[np.int_], solution: Solution, result: "_Gathered") -> None:
        """Write a solution to the answer, and remember it."""
        good = solution.converged
        corner = solution.resolvent[good, : self.corner, : self.corner]
        result.values[index[good]], result.errors[index[good]] = corner, solution.error[good]
        result.steps += solution.steps
        fresh, which = np.unique(x[index[good]], return_index=True)
        new = ~np.isin(fresh, self.points)
        if (len(self.points) + len(fresh)) * max(self.system.unknowns, 1) > LARGEST:
            return
        points = np.concatenate([self.points, fresh[new]])
        order, chosen = np.argsort(points), which[new]
        unknowns = np.concatenate([self.unknowns, solution.unknowns[good][chosen]])
        values = np.concatenate([self.values, corner[chosen]])
        errors = np.concatenate([self.errors, solution.error[good][chosen]])
        self.points, self.unknowns = points[order], unknowns[order]
        self.values, self.errors = values[order], errors[order]


class _Gathered:
    """Answers as they come; what has none is nan, with an infinite error."""

    def __init__(self, count: int, corner: int):
        self.values = np.full((count, corner, corner), np.nan, dtype=complex)
        self.errors = np.full(count, np.inf)
        self.steps = 0


def _interpolated(x: Real, nodes: Real, values: Complex) -> Complex:
    """Return the polynomials through ``nodes`` (n, k) with ``values`` (n, k, unknowns), at x (n,).

    >>> nodes = np.array([[0.0, 1.0, 3.0]])
    >>> _interpolated(np.array([2.0]), nodes, nodes[..., None] ** 2).tolist()
    [[4.0]]
    """
    count = nodes.shape[1]
    weights = np.ones(nodes.shape)
    for k in range(count):
        for other in range(count):
            if other != k:
                weights[:, k] *= (x - nodes[:, other]) / (nodes[:, k] - nodes[:, other])
    return np.asarray(np.einsum("nk,nku->nu", weights, values))
