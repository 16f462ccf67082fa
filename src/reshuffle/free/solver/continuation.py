"""Follow the right solution from high above the real axis down to the point that was asked for."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reshuffle.free import progress
from reshuffle.free.checks import Complex, Real
from reshuffle.free.single_thread import SINGLE_THREAD
from reshuffle.free.solver.fixed_point import FixedPoint, solve

LOWEST = 1e-14
ON_THE_WAY = 1e-4
AT_THE_END = 1e-13
ITERATIONS = 12
# From a good guess: Newton's method either converges at once, or the guess was not good.
QUICK = 6
# Of the distance to the known neighbours: a solution that is further from its guess may be another one.
ASTRAY = 0.1
# What one evaluation of the map loses, in units of its own size; set so that no known law exceeds it.
ROUNDING = 32 * 2.2e-16


@dataclass(frozen=True)
class Solution:
    """The resolvent at each point, its error estimate and whether the point was reached.

    Attributes
    ----------
    resolvent : shape (points, k, k), nan where not converged.
    error : absolute, shape (points,); converged : flags, shape (points,).
    unknowns : of the system, where they ended, shape (points, unknowns).
    steps : of Newton's method, over all points.
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


@dataclass
class _Corrected:
    """What Newton found: unknowns, their slope along the path, resolvents, errors and success."""

    unknowns: Complex
    slope: Complex
    resolvent: Complex
    error: Real
    good: NDArray[np.bool_]

    def take(self, index: NDArray[np.bool_]) -> "_Corrected":
        """Return the points at ``index``."""
        return _Corrected(*(getattr(self, name)[index] for name in self.__dataclass_fields__))


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
        """Correct guesses on the axis itself, and settle what stays close to them."""
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
        self._reject(index[~good], landing[~good])

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
        ahead.error = ahead.error + left * np.abs(ahead.resolvent).max(axis=(1, 2), initial=0.0) ** 2
        self._settle(going[low], ahead.take(low))

    def _reject(self, index: NDArray[np.int_], landing: NDArray[np.bool_]) -> None:
        self.trust[index] = False
        self.factor[index] = np.where(landing, 0.1, np.sqrt(self.factor[index]))
        self.active[index] &= self.factor[index] < 0.97

    def _settle(self, index: NDArray[np.int_], found: _Corrected) -> None:
        self.active[index], self.reached[index] = False, True
        self.unknowns[index] = found.unknowns
        self.resolvent[index], self.error[index] = found.resolvent, found.error

    def _correct(
        self,
        index: NDArray[np.int_],
        height: Real,
        guess: Complex,
        moved: Real,
        iterations: int = ITERATIONS,
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
        """Return what was reached; the rest stays nan with its flag down."""
        index = np.flatnonzero(self.reached)
        if len(index):
            self.error[index] += self._rounding(index)
        return Solution(self.resolvent, self.error, self.reached, self.unknowns, self.steps)

    def _rounding(self, index: NDArray[np.int_]) -> Real:
        """Return how far G moves when every number that enters the last step is rounded.

        Each entry is moved in proportion to itself, since those of one pencil differ by many orders near a
        strong singularity, and the joint system carries the moves on.
        """
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
        return inner + self._largest(self.system.resolvent_tangent(state, shaken, solved[:, 1]))


def _points_down(resolvent: Complex) -> NDArray[np.bool_]:
    """Return whether ``Im G <= 0`` as a matrix, up to rounding."""
    finite = np.asarray(np.isfinite(resolvent).all(axis=(1, 2)))
    safe = np.where(finite[:, None, None], resolvent, 0)
    imaginary = (safe - safe.conj().transpose(0, 2, 1)) / 2j
    largest = np.linalg.eigvalsh(imaginary)[:, -1]
    return np.asarray(finite & (largest <= 1e-9 * (1 + np.abs(safe).max(axis=(1, 2)))))
