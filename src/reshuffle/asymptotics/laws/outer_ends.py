"""The ends of a spectrum, by following the real solution inwards from both sides until it turns."""

import math

import numpy as np

from reshuffle.asymptotics.laws.batch_system import BatchSystem, State
from reshuffle.free.checks import Complex, ConvergenceError
from reshuffle.free.solver.fixed_point import solve

_PRECISION = 1e-15
"""Distance from an end at zero, relative to the size of the spectrum, at which it is taken to be there."""
_NEAR = 1e-8
"""Relative distance at which the end has been seen well enough to extrapolate to it."""
_FARTHEST = 1e12
"""How far outside the way may begin, in units of the system."""
_STEPS = 100
_CORRECTIONS = 8
_DENSE = 150
"""Unknowns up to which the Jacobian of a single point is made and factored."""
_SHARE = 0.97
"""Of the estimated distance that is stepped at a time."""


def outer_ends(system: BatchSystem) -> tuple[float, float]:
    """The lowest and the highest point of the continuous spectrum of alpha Z.

    Outside the spectrum the unknowns H(z) are real. At the end e that is approached they turn like a square root,
    and far away they fall like 1/z: dH/dz is about (z - e)^(-1/2) (z - a)^(-3/2), with a the other end, and the
    change of its logarithm from step to step tells how far e is. An atom at zero is no end: H has no pole there.

    Parameters
    ----------
    system : BatchSystem

    Returns
    -------
    low, high : float

    >>> import numpy as np
    >>> low, high = outer_ends(BatchSystem(0.25, 0.4, 1, np.ones(1), np.ones(1)))
    >>> round(low, 12), round(high, 12)
    (0.1, 0.9)
    """
    far = 2 * system.norm
    high = _Approach(system, far, 0.0).end()
    return _Approach(system, -far, high).end() * system.unit, high * system.unit


class _Approach:
    """Steps along the real axis from a point far outside towards the spectrum, in units of the system."""

    def __init__(self, system: BatchSystem, start: float, other: float):
        self.system, self.place, self.other = system, start, other
        found = None
        # Far beyond convergence a product of steps is much larger than they are.
        while found is None and abs(self.place) < _FARTHEST * system.norm:
            unknowns = system.start(1)
            for _ in range(4):
                unknowns = system.evaluate(self._base(self.place), unknowns).image.real + 0j
            found = self._corrected(self.place, unknowns)
            self.place *= 1 if found else 8
        if found is None:
            raise ConvergenceError(
                f"the ends of the spectrum were not found within {abs(self.place) * system.unit:.4g}: alpha is so "
                "large that products of visits leave the precision of numbers, and descent diverges at once; try "
                "an alpha near critical_alpha(aspect, batches)."
            )
        self.far, (self.unknowns, self.slope) = abs(self.place), found

    def _base(self, z: float) -> Complex:
        return self.system.base(np.array([z + 0j]), np.zeros(1))

    def end(self) -> float:
        """Where the solution turns."""
        step = -self.place / 4
        for _ in range(_STEPS):
            before, steepness = self.place, self._steepness
            if not self._move(step):
                step /= 2
                if abs(step) < _PRECISION * self.far:
                    return self.place
                continue
            distance = self._distance(before, steepness)
            end = self.place + distance
            if abs(distance) < _NEAR * abs(end):
                return end
            if abs(end) < _PRECISION * self.far and abs(self.place) < 4 * _PRECISION * self.far:
                return 0.0
            step = _SHARE * distance
        raise ConvergenceError(
            f"an end of the spectrum near {self.place * self.system.unit:.6g} was not reached"
        )

    @property
    def _steepness(self) -> float:
        return float(np.log(np.linalg.norm(self.slope)))

    def _distance(self, before: float, steepness: float) -> float:
        """What is left to the end, from how much steeper the solution has become since the last step."""
        # The distances d and d + step satisfy 2 change = log((d + step)/d) + 3 log(...), the second known.
        step = before - self.place
        ratio = (before - self.other) / (self.place - self.other)
        growth = math.expm1(max(2 * (self._steepness - steepness) - 3 * math.log(ratio), 1e-3))
        return -step / growth

    def _move(self, step: float) -> bool:
        place = self.place + step
        # Exactly at an atom there is no resolvent.
        place = place if place else 1e-3 * step
        found = self._corrected(place, self.unknowns + step * self.slope)
        if found is None:
            return False
        unknowns, slope = found
        # Beyond the end Newton's method may land on the other sheet, where the slope is reversed.
        if float(np.vdot(slope, self.slope).real) <= 0 or np.linalg.norm(slope) <= np.linalg.norm(self.slope):
            return False
        self.place, self.unknowns, self.slope = place, unknowns, slope
        return True

    def _corrected(self, place: float, unknowns: Complex) -> tuple[Complex, Complex] | None:
        """Newton's method from a prediction, and the slope dH/dz there; None if it does not converge."""
        base, last = self._base(place), math.inf
        with np.errstate(all="ignore"):
            for _ in range(_CORRECTIONS):
                state = self.system.evaluate(base, unknowns)
                move = self._solved(state, state.image - unknowns)
                size = float(np.linalg.norm(move)) / float(np.linalg.norm(unknowns + move))
                if not size < 1:
                    return None
                unknowns = unknowns + move
                if size < 1e-9 or (size < 1e-7 and size > 0.3 * last):
                    return unknowns, self._slope(self.system.evaluate(base, unknowns))
                last = size
        return None

    def _slope(self, state: State) -> Complex:
        direction = np.zeros((self.system.size, self.system.size), dtype=complex)
        direction[0, 0] = 1.0
        return self._solved(state, self.system.shift_tangent(state, direction)) + 0j

    def _solved(self, state: State, right: Complex) -> Complex:
        """The solution of (1 - D) x = right, (1, unknowns), D the derivative of the map."""
        if self.system.unknowns > _DENSE:
            return np.asarray(solve(self.system, state, right[:, np.newaxis])[:, 0].real)
        matrix = np.eye(self.system.unknowns) - self.system.jacobian(state).real
        try:
            return np.asarray(np.linalg.solve(matrix, right.real[..., np.newaxis])[..., 0])
        except np.linalg.LinAlgError:
            return np.full(right.shape, np.nan)
