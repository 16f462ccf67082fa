"""Follow the right solution from high above the real axis down to the requested point.

Where the system cannot be solved, `resolved` takes the value from points around: across a point, and towards the
axis.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from reshuffle.free import progress
from reshuffle.free.checks import Complex, ConvergenceError, ErrorKind, Real
from reshuffle.free.progress import SINGLE_THREAD
from reshuffle.free.solver.system import FixedPoint, solve

LOWEST = 1e-14
ON_THE_WAY = 1e-4
AT_THE_END = 1e-13
ITERATIONS = 12
QUICK = 6
"""From a good guess: Newton's method either converges at once, or the guess was not good."""
ASTRAY = 0.1
"""Of the distance to the known neighbours: a solution that is further from its guess may be another one."""
ROUNDING = 32 * 2.2e-16
"""What one evaluation of the map loses, in units of its own size; set so that no known law exceeds it."""

RADII = np.array([0.1, 0.03, 0.01, 0.003, 0.001])
# An even rule would be blind to a pole at the point itself, where the values of both sides cancel.
_NODES = 1.15 * np.cos(np.pi * (np.arange(12) + 0.5) / 12) + 0.15
_WEIGHTS = (chebyshev.chebvander([0.0], 11) @ np.linalg.inv(chebyshev.chebvander(_NODES, 11)))[0]

RELIABLE = 1e-5
"""Error of a value, relative to its size or to one, beyond which it is not given."""
_DOUBTFUL = 1e-9
"""Error beyond which a value is checked by its neighbours: near a point at which the joint system is singular and G
is not, a value is good to 1e-13 or to 1e-9, as the last bits of a matrix product happen to be."""

Solve = Callable[[Complex], tuple[Complex, Real]]


class Solution(NamedTuple):
    """The resolvent (points, k, k) at each point, its absolute error, and whether the point was reached.

    What was not reached is nan. ``steps`` counts those of Newton's method, over all points.
    """

    resolvent: Complex
    error: Real
    converged: NDArray[np.bool_]
    unknowns: Complex
    steps: int


def follow(system: FixedPoint, z: Complex, corner: int) -> Solution:
    """Return the resolvent at z (points,) with ``Im z >= 0``; errors are those of its first ``corner`` rows.

    The path is ``b(tau) = z direction + i tau - b_0`` from large tau to 0. For tau > 0 the solution with
    ``Im G < 0`` is unique (Helton, Rashidi Far and Speicher, 2007), so each step is checked; Newton corrects
    a tangent prediction, and the last step to tau = 0 is taken only when the prediction is already good, so
    no smoothing is left in the answer.
    """
    path = _Path(system, z, corner)
    with SINGLE_THREAD:
        path.enter()
        while path.active.any():
            path.step()
        return path.finish()


def land(system: FixedPoint, z: Complex, guess: Complex, spread: Real, corner: int) -> Solution:
    """Return the resolvent at z (points,), by Newton's method from good guesses (points, unknowns).

    Where it moves them by more than a small part of ``spread`` (points,), the distance to unknowns that are known,
    or ``Im G`` has the wrong sign, another solution may have been found: the point does not count as converged.
    """
    path = _Path(system, z, corner)
    with SINGLE_THREAD:
        path.arrive(guess, spread)
        return path.finish()


class _Corrected(NamedTuple):
    """Result of Newton's method: unknowns, their slope along the path, resolvents, errors and success."""

    unknowns: Complex
    slope: Complex
    resolvent: Complex
    error: Real
    good: NDArray[np.bool_]

    def take(self, index: NDArray[np.bool_]) -> "_Corrected":
        """Return the points at ``index``."""
        return _Corrected(*(array[index] for array in self))


class _Path:
    """The points' unknowns, heights and step factors; only the active ones are worked on."""

    def __init__(self, system: FixedPoint, z: Complex, corner: int):
        self.system, self.z, self.corner = system, z, corner
        n = len(z)
        self.top = 2 * system.norm
        self.height = np.full(n, self.top)
        self.unknowns = system.start(n)
        self.slope = np.zeros((n, system.unknowns), dtype=complex)
        self.factor = np.full(n, 0.1)
        self.trust = np.zeros(n, dtype=bool)
        self.active = np.ones(n, dtype=bool)
        self.reached = np.zeros(n, dtype=bool)
        self.resolvent = np.full((n, system.size, system.size), np.nan, dtype=complex)
        self.error = np.full(n, np.inf)
        self.steps = 0

    def enter(self) -> None:
        """Solve at the top, where the plain map contracts strongly."""
        base = self.system.base(self.z, self.height)
        for _ in range(4):
            self.unknowns = self.system.evaluate(base, self.unknowns).image
        found = self._correct(np.arange(len(self.z)), self.height, self.unknowns, np.ones(len(self.z)))
        self.unknowns, self.slope = found.unknowns, found.slope
        self.active &= found.good

    def arrive(self, guess: Complex, spread: Real) -> None:
        """Correct guesses on the axis itself, and accept solutions that stay close to them."""
        index = np.arange(len(self.z))
        self.height[:], self.active[:] = 0.0, False
        found = self._correct(index, self.height, guess, spread, QUICK)
        moved = np.linalg.norm(found.unknowns - guess, axis=1)
        near = moved <= ASTRAY * spread + 1e-9 * (1 + np.linalg.norm(guess, axis=1))
        good = found.good & near & _points_down(found.resolvent)
        self._settle(index[good], found.take(good))

    def step(self) -> None:
        """Predict, correct and judge one step of every active point."""
        index = np.flatnonzero(self.active)
        old = self.height[index]
        landing = self.trust[index]
        new = np.where(landing, 0.0, old * self.factor[index])
        predicted = self.unknowns[index] + (new - old)[:, None] * self.slope[index]
        moved = np.linalg.norm(predicted - self.unknowns[index], axis=1)
        found = self._correct(index, new, predicted, moved)
        size = np.linalg.norm(found.unknowns, axis=1)
        surprise = np.linalg.norm(found.unknowns - predicted, axis=1) / np.maximum(moved, 1e-12 * (1 + size))
        good = found.good & _points_down(found.resolvent)
        # High up the sign of Im G alone singles out the solution; near the axis and on it the
        # path must be smooth too.
        high = new > 1e-6 * self.top
        good &= surprise < np.where(landing, 0.3, np.where(high, 50.0, 2.0))
        self._accept(index[good], new[good], found.take(good), surprise[good])
        failed = index[~good]
        self.trust[failed] = False
        self.factor[failed] = np.where(landing[~good], 0.1, np.sqrt(self.factor[failed]))
        self.active[failed] &= self.factor[failed] < 0.97

    def _accept(self, index: NDArray[np.int_], new: Real, found: _Corrected, surprise: Real) -> None:
        landed = new == 0
        self.height[index] = new
        self._settle(index[landed], found.take(landed))
        going, ahead = index[~landed], found.take(~landed)
        drift = np.linalg.norm(ahead.unknowns - self.unknowns[going], axis=1)
        self.unknowns[going], self.slope[going] = ahead.unknowns, ahead.slope
        self.trust[going] = surprise[~landed] < 0.15
        self.factor[going] = np.where(surprise[~landed] < 0.3, 0.1, self.factor[going])
        # At an edge the height reaches rounding level first; the last move then bounds what is left.
        low = self.height[going] < LOWEST * self.top
        left = drift + self.height[going]
        error = ahead.error + left * np.abs(ahead.resolvent).max(axis=(1, 2), initial=0.0) ** 2
        self._settle(going[low], ahead._replace(error=error).take(low))

    def _settle(self, index: NDArray[np.int_], found: _Corrected) -> None:
        self.active[index], self.reached[index] = False, True
        self.unknowns[index] = found.unknowns
        self.resolvent[index], self.error[index] = found.resolvent, found.error

    def _correct(
        self, index: NDArray[np.int_], height: Real, guess: Complex, moved: Real, iterations: int = ITERATIONS
    ) -> _Corrected:
        """Run Newton from ``guess``: to rounding where the height is 0, loosely on the way there.

        Near an edge two solutions lie as close together as the path's own steps are long, so "loosely" means
        a small part of the predicted move, never a fixed tolerance.
        """
        base = self.system.base(self.z[index], height)
        result = _Corrected(
            guess.copy(),
            np.zeros_like(guess),
            np.full((len(index), self.system.size, self.system.size), np.nan, dtype=complex),
            np.full(len(index), np.inf),
            np.zeros(len(index), dtype=bool),
        )
        working = np.arange(len(index))
        last = np.full(len(index), np.inf)
        for _ in range(iterations):
            length, step = self._newton(base, working, result, bool(height[working].any()))
            settled = (length <= AT_THE_END) & (step <= AT_THE_END)
            stalled = (length <= 1e-6) & (length + step >= 0.5 * last[working])
            loose = length <= np.clip(0.03 * moved[working], 10 * AT_THE_END, ON_THE_WAY)
            done = settled | stalled | ((height[working] > 0) & loose)
            result.good[working[done]] = True
            last[working] = length + step
            working = working[~done & np.isfinite(length)]
            if not len(working):
                break
        return result

    def _newton(
        self, base: Complex, working: NDArray[np.int_], result: _Corrected, going_on: bool
    ) -> tuple[Real, Real]:
        """Take one Newton step of the working points; return how far unknowns and resolvent moved, relatively.

        Only what is going on down the path needs its slope.
        """
        self.steps += len(working)
        progress.step()
        unknowns = result.unknowns[working]
        state = self.system.evaluate(base[working], unknowns)
        right = [state.image - unknowns]
        if going_on:
            right.append(self.system.shift_tangent(state, 1j * np.eye(self.system.size)))
        solved = solve(self.system, state, np.stack(right, axis=1))
        change = solved[:, 0]
        moved = self.system.resolvent_tangent(state, 0.0, change)
        result.unknowns[working] = unknowns + change
        if going_on:
            result.slope[working] = solved[:, 1]
        result.resolvent[working] = state.resolvent + moved
        size = np.abs(result.resolvent[working]).max(axis=(1, 2))
        step = np.abs(moved).max(axis=(1, 2))
        # Where Newton stalls its last step is one draw of the noise, and the next may be a few times larger.
        result.error[working] = 8 * self._largest(moved)
        length = np.linalg.norm(change, axis=1) / (1 + np.linalg.norm(result.unknowns[working], axis=1))
        return np.asarray(np.where(np.isfinite(length), length, np.inf)), np.asarray(step / size)

    def _largest(self, resolvent: Complex) -> Real:
        return np.asarray(np.abs(resolvent[:, : self.corner, : self.corner]).max(axis=(1, 2), initial=0.0))

    def finish(self) -> Solution:
        """Return what was reached, with how far G moves when every number that enters the last step is rounded.

        Each entry is moved in proportion to itself, since those of one pencil differ by many orders near a
        strong singularity, and the joint system carries the moves on.
        """
        answer = Solution(self.resolvent, self.error, self.reached, self.unknowns, self.steps)
        index = np.flatnonzero(self.reached)
        if not len(index):
            return answer
        base, unknowns = self.system.base(self.z[index], self.height[index]), self.unknowns[index]
        state = self.system.evaluate(base, unknowns)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(self.system.size, self.system.size))
        shaken = ROUNDING * (signs + signs.T) / 2**0.5 * np.abs(base)
        alternating = 1 - 2 * (np.arange(self.system.unknowns) % 2)
        moved = ROUNDING * (np.abs(state.image) + np.abs(unknowns)) * alternating
        right = np.stack([moved, self.system.shift_tangent(state, shaken)], axis=1)
        solved = solve(self.system, state, right)
        # Apart, since the two could cancel by chance.
        inner = self._largest(self.system.resolvent_tangent(state, 0.0, solved[:, 0]))
        self.error[index] += inner + self._largest(self.system.resolvent_tangent(state, shaken, solved[:, 1]))
        return answer


def _points_down(resolvent: Complex) -> NDArray[np.bool_]:
    """Return whether ``Im G <= 0`` as a matrix, up to rounding."""
    finite = np.asarray(np.isfinite(resolvent).all(axis=(1, 2)))
    safe = np.where(finite[:, None, None], resolvent, 0)
    imaginary = (safe - safe.conj().transpose(0, 2, 1)) / 2j
    largest = np.linalg.eigvalsh(imaginary)[:, -1]
    return np.asarray(finite & (largest <= 1e-9 * (1 + np.abs(safe).max(axis=(1, 2)))))


def bridge(solve: Solve, z: Complex) -> tuple[Complex, Real]:
    """Return values at z, and error estimates, from points on both sides of z.

    Where G is analytic across z, polynomials through 12 neighbours at falling radii agree with one another;
    at an edge, an atom or a singularity of the density they do not, and the estimate says so. The spectrum must
    have a size of about one.

    >>> inverse = lambda z: (1 / (z - 2)[:, None, None], np.zeros(len(z)))
    >>> value, error = bridge(inverse, np.array([0.5 + 0j, 2.0 + 0j]))
    >>> bool(abs(value[0, 0, 0] + 2 / 3) < 1e-13), bool(error[0] < 1e-12), bool(error[1] > 1)
    (True, True, True)
    """
    points = z[:, None, None] + RADII[:, None] * _NODES
    values, errors = solve(points.ravel())
    values = values.reshape(*points.shape, *values.shape[1:])
    middle = np.einsum("k,nrkij->nrij", _WEIGHTS, values)
    rounded = errors + ROUNDING * np.abs(values).max(axis=(3, 4)).ravel()
    noise = rounded.reshape(points.shape) @ np.abs(_WEIGHTS)
    # A singularity of the power 1/3 falls by a third from one radius to the next: a difference is no bound.
    spread = 4 * np.abs(np.diff(middle, axis=1)).max(axis=(2, 3)) + noise[:, 1:]
    spread = np.where(np.isfinite(spread), spread, np.inf)
    best, rows = np.argmin(spread, axis=1), np.arange(len(z))
    return middle[rows, best + 1], spread[rows, best]


def limit(values: Complex) -> Complex:
    """Return the limit of each row, taken at geometrically falling steps, by Wynn's epsilon algorithm.

    Of all entries of the table the one that agrees best with its neighbour is taken, so that rounding in the
    late columns is not mistaken for progress. Source: Wynn (1956).

    >>> steps = 10.0 ** -np.arange(9)
    >>> row = 0.25 + steps**0.5 + 3 * steps
    >>> bool(abs(limit(row[None])[0] - 0.25) < 1e-10)
    True
    """
    if np.isnan(values).any():
        raise ConvergenceError(
            "a limit towards the real axis did not converge; an atom lies too close to an edge"
        )
    older = np.zeros((values.shape[0], values.shape[1] + 1), dtype=complex)
    newer = np.asarray(values, dtype=complex)
    best, spread = newer[:, -1], np.abs(newer[:, -1] - newer[:, -2])
    for column in range(1, values.shape[1]):
        gaps = np.diff(newer, axis=1)
        tiny = np.abs(gaps) < 1e-300
        fresh = older[:, 1 : 1 + gaps.shape[1]] + 1 / np.where(tiny, 1e-300, gaps)
        older, newer = newer, fresh
        if column % 2 == 0 and newer.shape[1] > 1:
            distance = np.abs(np.diff(newer, axis=1))
            pick = np.argmin(distance, axis=1)
            rows = np.arange(len(newer))
            better = distance[rows, pick] < spread
            best = np.where(better, newer[rows, pick + 1], best)
            spread = np.where(better, distance[rows, pick], spread)
    return np.asarray(best)


@dataclass(frozen=True)
class Resolved:
    """An answer at each point, with what is known about it.

    Where a point failed, the value is nan, its absolute error inf, and converged False; error_kind says what the
    error means.

    >>> Resolved(np.array([0.25, np.nan]), np.array([1e-15, np.inf]), np.array([True, False]))
    Resolved(2 points, 1 of them converged, +- 1e-15 at most (estimate))
    """

    value: NDArray[Any]
    error: Real
    converged: NDArray[np.bool_]
    error_kind: ErrorKind = "estimate"

    def density(self, unit: float) -> "Resolved":
        """The density -Im G / pi of a law of size `unit`, where these are its Cauchy transform on the real axis."""
        density, error = -self.value.imag / np.pi, self.error / np.pi
        # Close to an atom |G| is large and so is its error, even where the density is small.
        trusted = self.converged & (error <= RELIABLE * np.maximum(np.abs(density), 1 / unit))
        # Outside the support the imaginary part is a rounding of either sign.
        density = np.where(trusted, np.where(density > error, density, 0.0), np.nan)
        return Resolved(density, np.where(trusted, error, np.inf), trusted)

    def __repr__(self) -> str:
        largest = float(self.error[self.converged].max(initial=0.0))
        off = f"+- {largest:.2g} at most ({self.error_kind})"
        if not self.value.ndim:
            return f"Resolved({self.value:.6g} {off})" if self.converged else "Resolved(not converged)"
        return f"Resolved({self.converged.size} points, {self.converged.sum()} of them converged, {off})"


def resolved(solve: Solve, z: Complex, strict: bool = True) -> Resolved:
    """Return matrices at points z (n,) of either half-plane, from a solver for the upper one.

    It makes values (n, k, k) and errors (n,), inf where it failed, of a spectrum of size one. A ``strict`` answer
    asks the neighbours of what cannot be trusted, and drops what still cannot.
    """
    mirrored = z.imag < 0
    upper = np.where(mirrored, z.conj(), z)
    values, errors = solve(upper)
    flags = np.isfinite(errors)
    if strict:
        lost = np.flatnonzero(~_within(_DOUBTFUL, values, errors))
        if len(lost):
            across, spread = bridge(solve, upper[lost])
            better = spread < np.where(np.isnan(errors[lost]), np.inf, errors[lost])
            values[lost[better]], errors[lost[better]] = across[better], spread[better]
        flags = _within(RELIABLE, values, errors)
    # Both parts: a density is read off the imaginary one.
    values[~flags], errors[~flags] = complex(np.nan, np.nan), np.inf
    values = np.where(mirrored[:, None, None], values.conj().transpose(0, 2, 1), values)
    return Resolved(values, errors, flags)


def _within(share: float, values: Complex, errors: Real) -> NDArray[np.bool_]:
    size = np.abs(np.nan_to_num(values)).max(axis=(1, 2), initial=0.0)
    return np.asarray(errors <= share * np.maximum(1.0, size))
