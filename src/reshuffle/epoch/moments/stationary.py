"""Second moments in the long run: the fixed point, and whether there is one.

T(M) = E[A M A'] is a positive map, and so are both parts of T(M) = Abar M Abar' + E(M), where
E(M) = E[(A - Abar) M (A - Abar)'] is what the spread of the orders adds. Where the mean converges,
M - Abar M Abar' = R is solved directly, and I - T = (I - Abar . Abar') - E is a regular splitting: by the theorem
of Varga the mean square converges exactly when the *gain* of the spread, the spectral radius of
(I - Abar . Abar')^-1 E, is below one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray
from reshuffle._blas import few_threads
from reshuffle._linalg import graded_svd
from reshuffle._progress import track
from reshuffle.epoch.epoch_map import EpochMap

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
_DOUBLINGS = 1100
_FADED = 1e-9
"""Size of a power of Abar whose square changes no digit any more."""
_NOTHING = 1e-12
"""Relative size of what rounding makes of nothing."""


class MeanPart(ABC):
    """What an epoch does to a second moment M (d, d) through its mean alone: M -> Abar M Abar'.

    Attributes
    ----------
    loss : (d, d)
        D = I - Abar.
    units : (d,)
        In which coordinates all parts of a second moment are of ordinary size: M times them from both sides.
    speeds : (d, d)
        How much of each part, in these units, an epoch changes.
    """

    loss: FloatArray
    units: FloatArray
    speeds: FloatArray

    def change(self, matrix: FloatArray) -> FloatArray:
        """Abar M Abar' - M, for symmetric M, without a difference of nearly equal numbers."""
        lost = self.loss @ matrix
        return -lost - (self.loss @ (matrix - lost).T).T

    @abstractmethod
    def solve(self, right: FloatArray) -> FloatArray:
        """M with M - Abar M Abar' = R, symmetric as R is."""


class ModePart(MeanPart):
    """The mean part of a symmetric map with paces x (r,) and orthonormal modes Q (r, r): D = Q diag(x) Q'."""

    def __init__(self, paces: FloatArray, modes: FloatArray):
        self.loss = (modes * paces) @ modes.T
        self.units, self._modes = np.ones(len(paces)), modes
        self.speeds = np.ones_like(modes)
        # 1 - (1 - x)(1 - y) without a difference of nearly equal numbers.
        self._diagonal = paces[:, np.newaxis] + paces - np.outer(paces, paces)

    def solve(self, right: FloatArray) -> FloatArray:
        """M with M - Abar M Abar' = R."""
        inside = self._modes.T @ right @ self._modes / self._diagonal
        # An epoch makes everything symmetric: what is not would be taken for a residual, and grow.
        return _symmetric(self._modes @ inside @ self._modes.T)


class DoubledPart(MeanPart):
    """The mean part of any map that settles, by doubling: sum of A^j R A'^j over j < 2k from that over j < k.

    In the units R of `EpochMap`, D = R L K: its rows are as small as the modes are slow, and sums of
    squares grow to ordinary size from there, whatever the condition number of the features (Smith's method).
    """

    def __init__(self, once: EpochMap):
        self.loss, self.units = once.loss, once.right
        self.speeds = np.add.outer(once.grades, once.grades)
        kernels = [once.kernel]
        roots, identity = np.sqrt(once.left) * np.sqrt(once.right), np.eye(len(once.kernel))
        for _ in range(_DOUBLINGS):
            kernel = kernels[-1]
            if np.abs(identity - roots[:, np.newaxis] * kernel * roots).max(initial=0.0) < _FADED:
                break
            kernels.append(2 * kernel - (kernel * once.grades) @ kernel)
        # I - A^(2^j), with rows as small as the modes are slow: scaled once, for every R.
        self._losses = [once.grades[:, np.newaxis] * kernel for kernel in kernels]

    def solve(self, right: FloatArray) -> FloatArray:
        """M with M - Abar M Abar' = R."""
        scales = np.outer(self.units, self.units)
        total = scales * right
        for loss in self._losses:
            half = total - loss @ total
            total = total + half - half @ loss.T
        return _symmetric(total / scales)


def mean_part(once: EpochMap, symmetric: bool) -> MeanPart:
    """The mean part of a map that settles, by its modes if it is known to be symmetric."""
    if not symmetric:
        return DoubledPart(once)
    # D = T K T: with K = C C' its eigenvalues are the squared singular values of C'T, small ones included.
    lower = scipy.linalg.cholesky(_symmetric(once.kernel), lower=True, check_finite=False)
    _, singular, modes = graded_svd(lower.T * (np.sqrt(once.left) * np.sqrt(once.right)))
    return ModePart(np.square(singular), modes)


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)


def fixed_point(change: Map, mean: MeanPart, start: FloatArray) -> tuple[FloatArray, float]:
    """Where M -> T(M) + R ends from M_0 (d, d), and its relative error; inf if it grows. change(M) = T(M) + R - M.

    M -> M + (I - Abar . Abar')^-1 change(M) climbs from below, with increments that shrink by the gain: not in
    every round (with two batches the map of the gain has -gain among its eigenvalues too), but over a cycle. A
    fixed point that is positive definite attracts everything. Another may be one which what starts elsewhere
    leaves: it is an end only if all T^k(M_0) have a sum, which is another fixed point.
    """
    with few_threads(len(mean.loss)):
        matrix, error = _fixed_point(change, mean)
        if not np.isfinite(matrix).all() or _is_definite(mean.units, matrix) or not start.any():
            return matrix, error
        # What counts is whether there is a sum, not its size.
        size = float(np.abs(start).max())
        total, _ = _fixed_point(lambda seen: change(seen) + start / size, mean)
        return (matrix, error) if np.isfinite(total).all() else (np.full_like(matrix, np.inf), 0.0)


def _is_definite(units: FloatArray, matrix: FloatArray) -> bool:
    """Whether M is positive in all directions by more than rounding, in units in which it is of ordinary size."""
    values = scipy.linalg.eigvalsh(_symmetric(np.outer(units, units) * matrix), check_finite=False)
    return len(values) == 0 or bool(values[0] > _NOTHING * values[-1])


def _fixed_point(change: Map, mean: MeanPart) -> tuple[FloatArray, float]:
    matrix, scales = np.zeros_like(mean.loss), np.outer(mean.units, mean.units)
    changes: list[float] = []
    for _ in track(range(ROUNDS), ROUNDS, "stationary second moments"):
        with np.errstate(over="ignore", invalid="ignore"):
            increment = mean.solve(change(matrix))
            matrix = matrix + increment
            size = float(np.abs(scales * matrix).max(initial=0.0))
            changes.append(float(np.abs(scales * increment).max(initial=0.0)))
        if not np.isfinite(size) or size > _GROWN * changes[0]:
            return np.full_like(matrix, np.inf), 0.0
        if changes[-1] <= _SETTLED * size:
            return matrix, max(_SETTLED, changes[-1] / max(size, np.finfo(float).tiny))
    growth = changes[-1] / changes[-1 - _CYCLE]
    if growth >= 1 - _CYCLE * 1e-9:
        return np.full_like(matrix, np.inf), 0.0
    left = sum(changes[-_CYCLE:]) * growth / (1 - growth)
    return matrix, float(left / max(size, np.finfo(float).tiny))


@dataclass(frozen=True)
class Enclosure:
    """Where a spectral radius lies, and the best estimate of it.

    Attributes
    ----------
    lower, estimate, upper : float
    matrix : (d, d), optional
        The definite matrix from which bounds were read last: a good start for a map that is nearly the same.
    """

    lower: float
    estimate: float
    upper: float
    matrix: FloatArray | None = field(default=None, repr=False, compare=False)

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
    start: FloatArray | None = None,
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
    start : (d, d), optional
        Any definite matrix; the nearer to the eigenmatrix, the fewer rounds.
    """
    if dimension == 0:
        return Enclosure(0.0, 0.0, 0.0)
    with few_threads(dimension):
        begin = np.eye(dimension) / dimension if start is None else start
        return _positive_radius(positive, begin, decided, unit, rounds)


def _positive_radius(
    positive: Map, matrix: FloatArray, decided: float | None, unit: float, rounds: int
) -> Enclosure:
    dimension = len(matrix)
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
    return Enclosure(min(lower, upper), min(max(estimate, lower), upper), upper, matrix)


def eigenmatrix(positive: Map, dimension: int) -> FloatArray:
    """A definite matrix (d, d) next to one that a positive map multiplies by its spectral radius.

    From all eigenvalues of the map on the d (d + 1) / 2 entries of a symmetric matrix: meant for small ones.

    >>> eigenmatrix(lambda matrix: np.diag([4.0, 1.0]) @ matrix @ np.diag([4.0, 1.0]), 2).round(6)
    array([[1., 0.],
           [0., 0.]])
    """
    upper = np.triu_indices(dimension)
    images = []
    for row, column in zip(*upper, strict=True):
        unit = np.zeros((dimension, dimension))
        unit[row, column] = unit[column, row] = 1.0
        images.append(positive(unit)[upper])
    values, vectors = scipy.linalg.eig(np.array(images).T, check_finite=False)
    matrix = np.zeros((dimension, dimension))
    # The radius of a positive map is among its eigenvalues (Krein and Rutman).
    matrix[upper] = vectors[:, int(np.argmax(values.real))].real
    matrix += np.triu(matrix, 1).T
    return _definite(matrix if np.trace(matrix) > 0 else -matrix)


def _definite(image: FloatArray) -> FloatArray:
    """An image of trace one that is definite where the map, or rounding, does not keep it so.

    The bounds of Collatz and Wielandt hold for any definite matrix.
    """
    values, vectors = scipy.linalg.eigh(image, check_finite=False)
    values = np.maximum(values, _NOTHING * values[-1])
    return np.asarray((vectors * (values / values.sum())) @ vectors.T)
