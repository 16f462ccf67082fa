"""Second moments in the long run: the fixed point, and whether there is one.

T(M) = E[A M A'] is a positive map, and so are both parts of T(M) = Abar M Abar' + E(M), where
E(M) = E[(A - Abar) M (A - Abar)'] is what the spread of the orders adds. Where the mean converges,
M - Abar M Abar' = R is solved directly, and I - T = (I - Abar . Abar') - E is a regular splitting: by the theorem
of Varga the mean square converges exactly when the *gain* of the spread, the spectral radius of
(I - Abar . Abar')^-1 E, is below one.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from reshuffle.arrays import FloatArray
from reshuffle.progress import track

Map = Callable[[FloatArray], FloatArray]

ROUNDS = 500
"""Applications of an epoch after which a fixed point or a spectral radius is reported as far as it is known."""
_TIGHT = 1e-8
"""Relative width of bounds on a spectral radius that are not improved any more."""
_SETTLED = 1e-14
_CYCLE = 12
"""Rounds over which growth is measured: a multiple of the periods with which increments may come and go."""
_GROWN = 1e100
"""Growth over the first increment from which no gain below one would return."""
_KEPT = 0.25
"""Share of the matrix before in that after a round, without which a power iteration may cycle for ever."""
_NOTHING = 1e-12
"""Relative size of what rounding makes of nothing."""


class MeanPart:
    """(I - Abar . Abar')^-1, from D = I - Abar (d, d)."""

    def __init__(self, loss: FloatArray):
        self.loss = loss
        self._diagonal: FloatArray | None = None
        if np.array_equal(loss, loss.T):
            values, vectors = scipy.linalg.eigh(loss, check_finite=False)
            rates, self._vectors = np.asarray(values), np.asarray(vectors)
            # 1 - (1 - x)(1 - y) without a difference of nearly equal numbers.
            self._diagonal = rates[:, np.newaxis] + rates - np.outer(rates, rates)

    def congruence(self, matrix: FloatArray) -> FloatArray:
        """Abar M Abar'."""
        half = matrix - self.loss @ matrix
        return half - half @ self.loss.T

    def solve(self, right: FloatArray) -> FloatArray:
        """M with M - Abar M Abar' = R."""
        if self._diagonal is not None:
            inside = self._vectors.T @ right @ self._vectors / self._diagonal
            solution = self._vectors @ inside @ self._vectors.T
        else:
            A = np.eye(len(right)) - self.loss
            found = scipy.linalg.solve_discrete_lyapunov(A, right, method="bilinear")
            solution = np.asarray(found, dtype=np.float64)
        # An epoch makes everything symmetric: what is not would be taken for a residual, and grow.
        return np.asarray((solution + solution.T) / 2)


def fixed_point(epoch: Map, mean: MeanPart) -> tuple[FloatArray, float]:
    """M = T(M) + R for epoch(M) = T(M) + R, and its relative error; (inf, 0) if the mean square diverges.

    M -> M + (I - Abar . Abar')^-1 (epoch(M) - M) climbs from below, with increments that shrink by the gain: not in
    every round (with two batches the map of the gain has -gain among its eigenvalues too), but over a cycle.
    """
    matrix = np.zeros_like(mean.loss)
    changes: list[float] = []
    for _ in track(range(ROUNDS), ROUNDS, "stationary second moments"):
        with np.errstate(over="ignore", invalid="ignore"):
            increment = mean.solve(epoch(matrix) - matrix)
            matrix = matrix + increment
        size, change = float(np.abs(matrix).max(initial=0.0)), float(np.abs(increment).max(initial=0.0))
        changes.append(change)
        # Nearer to overflow the solver of Lyapunov scales its answer down, and seems to have settled.
        if not np.isfinite(size) or size > _GROWN * changes[0]:
            return np.full_like(matrix, np.inf), 0.0
        if change <= _SETTLED * size:
            return matrix, max(_SETTLED, change / max(size, np.finfo(float).tiny))
    growth = changes[-1] / changes[-1 - _CYCLE]
    if growth >= 1 - _CYCLE * 1e-9:
        return np.full_like(matrix, np.inf), 0.0
    left = sum(changes[-_CYCLE:]) * growth / (1 - growth)
    return matrix, float(left / max(size, np.finfo(float).tiny))


@dataclass(frozen=True)
class Enclosure:
    """Where a spectral radius lies, and the best estimate of it."""

    lower: float
    estimate: float
    upper: float

    def is_below(self, number: float) -> bool | None:
        """Whether the radius is below a number, if the bounds say so."""
        if self.upper < number:
            return True
        return False if self.lower >= number else None


def positive_radius(
    positive: Map,
    dimension: int,
    decided: float | None = None,
    *,
    unit: float = 0.0,
    rounds: int = ROUNDS,
) -> Enclosure:
    """Enclose the spectral radius of a positive map on symmetric matrices (Collatz and Wielandt).

    For any positive definite M it lies between the least and the largest c with c M touching the image of M:
    the extreme eigenvalues of M^-1/2 P(M) M^-1/2. Power iteration on a mean of I and P makes the two meet; on P
    alone it would cycle where -radius, or the radius times another root of one, is an eigenvalue too.

    Parameters
    ----------
    positive : callable
    dimension : int
    decided : float, optional
        Stop as soon as it is known to be above or below this number.
    unit : float
        What digits count against: those of a radius that is small beside it are not pursued.
    rounds : int
        Applications of the map, at most.
    """
    if dimension == 0:
        return Enclosure(0.0, 0.0, 0.0)
    matrix = np.eye(dimension) / dimension
    lower, upper, estimate = 0.0, np.inf, 0.0
    for _ in track(range(rounds), rounds, "second moments in the long run"):
        with np.errstate(over="ignore", invalid="ignore"):
            image = positive(matrix)
        if not np.isfinite(image).all():
            return Enclosure(max(lower, 1.0), np.inf, np.inf)
        estimate = float(np.trace(image) / np.trace(matrix))
        if estimate <= _NOTHING:
            return Enclosure(0.0, 0.0, min(upper, _NOTHING * dimension))
        ratios = scipy.linalg.eigh(image, matrix, eigvals_only=True, check_finite=False)
        lower, upper = max(lower, float(ratios[0])), min(upper, float(ratios[-1]))
        tight = upper - lower <= _TIGHT * max(upper, unit)
        if tight or (decided is not None and (lower > decided or upper < decided)):
            break
        matrix = _KEPT * matrix + (1 - _KEPT) * _definite(image)
    return Enclosure(min(lower, upper), min(max(estimate, lower), upper), upper)


def _definite(image: FloatArray) -> FloatArray:
    """An image of trace one that is definite where the map, or rounding, does not keep it so.

    The bounds of Collatz and Wielandt hold for any definite matrix.
    """
    values, vectors = scipy.linalg.eigh(image, check_finite=False)
    values = np.maximum(values, _NOTHING * values[-1])
    return np.asarray((vectors * (values / values.sum())) @ vectors.T)
