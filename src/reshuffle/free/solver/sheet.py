"""Solutions along the real axis: what is solved there starts Newton's method at the points beside it."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from reshuffle.free.checks import Complex, Real
from reshuffle.free.solver.continuation import Solution, follow, land
from reshuffle.free.solver.fixed_point import PencilSystem
from reshuffle.free.solver.folds import folds
from reshuffle.free.solver.guides import NEIGHBOURS, Guides

SPARSE = 12
"""Of how many points one is followed down the whole path, before the others start from it."""
ENDS = np.array([0, 1, 2, 4])
FEWEST = 24
"""Points that are worth the detour: fewer cost the path little more than one."""
SURE = 1e-8
"""Error of what neighbours led to, in units in which the spectrum has size one, beyond which it does not count."""
LARGEST = 1_000_000
"""Numbers that are kept."""
DARK = 1e-9
"""Imaginary part of the trace, in the same units, of what is outside of the spectrum."""
BESIDE, ALIKE = 1e-3, 0.3
"""Of the way to a fold, and of what is left of it: where solutions are compared, and how far they may differ."""


@dataclass(frozen=True)
class Landings:
    """Values of the resolvent's corner, their errors (inf where a point failed) and the Newton steps they took.

    The unknowns (n, unknowns) belong to the values, and are nan where a point failed.
    """

    values: Complex
    errors: Real
    unknowns: Complex
    steps: int


class Sheet:
    """The solution on the real axis, a sheet of an analytic function, by as few paths as its points allow.

    One point in a few is followed from above. Between them the unknowns are interpolated, and Newton's method ends
    what interpolation began. A point is taken from its neighbours only where two interpolants of different degree
    agree and Newton's method then moves them by no more than they differ: beside an edge, a gap or a singularity
    they do not. Regular edges are found as folds then, beside which the unknowns are analytic in the root of the
    distance; beside all others the path is followed.

    Parameters
    ----------
    system : PencilSystem
    corner : int
        Rows of the resolvent that are asked for.
    """

    def __init__(self, system: PencilSystem, corner: int):
        self.system, self.corner = system, corner
        self.guides = Guides(system.unknowns)
        self.values = np.zeros((0, corner, corner), dtype=complex)
        self.errors = np.zeros(0)
        self.steps = 0

    @property
    def points(self) -> Real:
        """What is remembered, sorted."""
        return self.guides.points

    def solve(self, x: Real) -> Landings:
        """Return the resolvent's corner at real points (n,); points that were asked for before are remembered."""
        before = self.steps
        result = _Gathered(len(x), self.corner, self.system.unknowns)
        waiting = self._remembered(x, result)
        if len(waiting) and len(self.points) + len(waiting) >= FEWEST:
            for stride in (SPARSE, 2):
                waiting = self._from_neighbours(x, waiting, result)
                if stride < SPARSE and len(waiting) >= FEWEST:
                    self._look_for_folds(x[waiting])
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
        return Landings(result.values, result.errors, result.unknowns, self.steps - before)

    def ends(self, outside: Real, inside: Real) -> Real:
        """Return where the spectrum ends between points (n,) outside and inside of it, nan where it is no fold.

        A fold counts if the solution that leaves it is the spectrum's own, which comes from above.
        """
        low, high = np.minimum(outside, inside), np.maximum(outside, inside)
        turns = np.sort(self.guides.turns)
        found = np.full(len(inside), np.nan)
        if len(turns):
            next_ = turns[np.minimum(np.searchsorted(turns, low), len(turns) - 1)]
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
            found = folds(self.system, inside[known], outside[known], unknowns[known])
        self.steps += found.steps
        places[known] = found.places
        good = np.isfinite(places)
        unknowns, leaving = found.unknowns[good[known]], found.leaving[good[known]]
        self.guides.turn(places[good], unknowns)
        beside = BESIDE * (inside - places)[good]
        truth, solved = self._known(places[good] + beside)
        moved = np.sqrt(beside.astype(complex))[:, None] * leaving
        misfit = [np.linalg.norm(truth - unknowns - sign * moved, axis=1) for sign in (-1, 1)]
        false = ~(solved & (np.minimum(*misfit) <= ALIKE * np.linalg.norm(moved, axis=1)))
        wrong = np.flatnonzero(good)[false]
        self.guides.forget(places[wrong])
        places[wrong] = np.nan
        return places

    def _known(self, x: Real) -> tuple[Complex, NDArray[np.bool_]]:
        """Return the unknowns (n, unknowns) at real points, and where they are known."""
        unknowns = self.solve(x).unknowns
        return unknowns, np.asarray(np.isfinite(unknowns).all(axis=1))

    def _look_for_folds(self, near: Real) -> None:
        """Find the folds between known points where the spectrum starts or stops, if one of ``near`` is there."""
        dark = np.abs(np.trace(self.values, axis1=1, axis2=2).imag) <= DARK * self.corner
        change = np.flatnonzero(dark[1:] != dark[:-1])
        low, high = self.points[change], self.points[change + 1]
        open_ = np.searchsorted(near, high) > np.searchsorted(near, low)
        change, low, high = change[open_], low[open_], high[open_]
        self.ends(np.where(dark[change], low, high), np.where(dark[change], high, low))

    def _remembered(self, x: Real, result: "_Gathered") -> NDArray[np.int_]:
        """Fill in what is known, and return the rest in order."""
        place = np.minimum(np.searchsorted(self.points, x), len(self.points) - 1)
        known = self.points[place] == x if len(self.points) else np.zeros(len(x), dtype=bool)
        result.values[known], result.errors[known] = self.values[place[known]], self.errors[place[known]]
        result.unknowns[known] = self.guides.unknowns[place[known]]
        rest = np.flatnonzero(~known)
        return rest[np.argsort(x[rest], kind="stable")]

    def _from_above(self, x: Real, index: NDArray[np.int_], result: "_Gathered") -> None:
        if len(index):
            self._take(x, index, follow(self.system, x[index].astype(complex), self.corner), result)

    def _from_neighbours(self, x: Real, index: NDArray[np.int_], result: "_Gathered") -> NDArray[np.int_]:
        """Solve what neighbours lead to, and return the rest in order."""
        if len(self.points) < NEIGHBOURS or not len(index):
            return index
        guess, spread, promising = self.guides.predicted(x[index])
        tried = index[promising]
        if not len(tried):
            return index
        solution = land(
            self.system, x[tried].astype(complex), guess[promising], spread[promising], self.corner
        )
        # At an edge two solutions meet, and Newton's method stalls between them: the path comes closer.
        solution = replace(solution, converged=solution.converged & (solution.error <= SURE))
        self._take(x, tried, solution, result)
        promising[promising] = solution.converged
        return index[~promising]

    def _take(self, x: Real, index: NDArray[np.int_], solution: Solution, result: "_Gathered") -> None:
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
        order = self.guides.add(fresh[new], solution.unknowns[good][chosen])
        self.values = np.concatenate([self.values, corner[chosen]])[order]
        self.errors = np.concatenate([self.errors, solution.error[good][chosen]])[order]


class _Gathered:
    """Answers as they come; what has none is nan, with an infinite error."""

    def __init__(self, count: int, corner: int, unknowns: int):
        self.unknowns = np.full((count, unknowns), np.nan, dtype=complex)
        self.values = np.full((count, corner, corner), np.nan, dtype=complex)
        self.errors = np.full(count, np.inf)
