"""Known solutions along the real axis, and what they predict between them."""

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.checks import Complex, Real

NEIGHBOURS = 6
"""Through which a polynomial is laid."""
PROMISING = 0.05
"""How far two predictions may differ, in units of the neighbours' differences, for Newton to start from one."""


class Guides:
    """Solutions at points of the real axis, and the ends of the spectrum as far as they are known.

    Attributes
    ----------
    points, unknowns : (n,) and (n, unknowns)
        Sorted.
    edges : (m,)
        Where the spectrum ends, sorted. Beside one the unknowns are analytic in the root of the distance to it.
    turns : (k,)
        Those edges at which the unknowns are known too: there the Jacobian is singular.
    """

    def __init__(self, unknowns: int):
        self.points, self.unknowns = np.zeros(0), np.zeros((0, unknowns), dtype=complex)
        self.edges, self.turns, self.turned = self.points, self.points, self.unknowns
        self._all = self.points, self.unknowns

    def add(self, points: Real, unknowns: Complex) -> NDArray[np.int_]:
        """Remember solutions at new points; return the order that sorts them together with those before."""
        merged = np.concatenate([self.points, points])
        order = np.argsort(merged)
        self.points, self.unknowns = merged[order], np.concatenate([self.unknowns, unknowns])[order]
        self._merge()
        return order

    def mark(self, edges: Real) -> None:
        """Interpolate beside these points in the root of the distance to them."""
        self.edges = np.unique(np.concatenate([self.edges, edges]))

    def turn(self, edges: Real, unknowns: Complex) -> None:
        """Mark edges at which the unknowns (edges, unknowns) are known."""
        fresh = ~np.isin(edges, self.turns)
        self.turns = np.concatenate([self.turns, edges[fresh]])
        self.turned = np.concatenate([self.turned, unknowns[fresh]])
        self.mark(edges)
        self._merge()

    def forget(self, edges: Real) -> None:
        """Take back what was marked."""
        kept = ~np.isin(self.turns, edges)
        self.turns, self.turned = self.turns[kept], self.turned[kept]
        self.edges = self.edges[~np.isin(self.edges, edges)]
        self._merge()

    def _merge(self) -> None:
        points, order = np.unique(np.concatenate([self.points, self.turns]), return_index=True)
        self._all = points, np.concatenate([self.unknowns, self.turned])[order]

    def predicted(self, x: Real) -> tuple[Complex, Real, NDArray[np.bool_]]:
        """Return unknowns interpolated at x, how much those of the two nearest points differ, and where to try.

        A point is worth a try where polynomials through six neighbours and through the inner four of them agree. At
        least six points must be known.
        """
        points, unknowns = self._all
        place = np.searchsorted(points, x)
        index = self._first(x, place)[:, None] + np.arange(NEIGHBOURS)
        target, nodes, regular = self._coordinates(x, points[index])
        high = interpolated(target, nodes, unknowns[index])
        low = interpolated(target, nodes[:, 1:-1], unknowns[index[:, 1:-1]])
        right = np.clip(place, 1, len(points) - 1)
        spread = np.linalg.norm(unknowns[right] - unknowns[right - 1], axis=1)
        between = ((place > 0) & (place < len(points))) | regular
        size = 1 + np.linalg.norm(high, axis=1)
        doubt = np.linalg.norm(high - low, axis=1)
        return high, spread, between & (doubt <= PROMISING * np.maximum(spread, 1e-10 * size))

    def _first(self, x: Real, place: NDArray[np.int_]) -> NDArray[np.int_]:
        """Return where the neighbours of each point begin: between the same edges as itself, if they are enough."""
        points = self._all[0]
        first = np.clip(place - NEIGHBOURS // 2, 0, len(points) - NEIGHBOURS)
        if not len(self.edges):
            return first
        gap = np.searchsorted(self.edges, x)
        starts = np.concatenate([[0], np.searchsorted(points, self.edges)])[gap]
        ends = np.concatenate([np.searchsorted(points, self.edges, side="right"), [len(points)]])[gap]
        inside = np.clip(first, starts, np.maximum(ends - NEIGHBOURS, starts))
        return np.where(ends - starts >= NEIGHBOURS, inside, first)

    def _coordinates(self, x: Real, nodes: Real) -> tuple[Real, Real, NDArray[np.bool_]]:
        """Return points and their neighbours as roots of distances to an edge, if all are on one side of it."""
        if not len(self.edges):
            return x, nodes, np.zeros(len(x), dtype=bool)
        after = np.clip(np.searchsorted(self.edges, x), 1, max(len(self.edges) - 1, 1))
        left, right = self.edges[after - 1], self.edges[np.minimum(after, len(self.edges) - 1)]
        edge = np.where(np.abs(x - left) < np.abs(x - right), left, right)
        away = nodes - edge[:, None]
        one_side = (away * (x - edge)[:, None] >= 0).all(axis=1) & (x != edge)
        # Two neighbours that meet in the root would divide by nothing.
        roots = np.sqrt(np.abs(away))
        one_side &= np.abs(np.diff(roots, axis=1)).min(axis=1) > 0
        target = np.where(one_side, np.sqrt(np.abs(x - edge)), x)
        return target, np.where(one_side[:, None], roots, nodes), one_side


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
