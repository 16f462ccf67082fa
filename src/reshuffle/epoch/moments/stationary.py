"""Second moments in the long run: the fixed point, and whether there is one.

T(M) = E[A M A'] is a positive map, and so are both parts of T(M) = Abar M Abar' + E(M), where
E(M) = E[(A - Abar) M (A - Abar)'] is what the spread of the orders adds. Where the mean converges,
M - Abar M Abar' = R is solved directly, and I - T = (I - Abar . Abar') - E is a regular splitting: by the theorem
of Varga the mean square converges exactly when the *gain* of the spread, the spectral radius of
(I - Abar . Abar')^-1 E, is below one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

from reshuffle._arrays import AnyArray, FloatArray
from reshuffle._linalg import few_threads
from reshuffle._progress import track
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.moments.lattice import epoch_moments
from reshuffle.epoch.timeline import Timeline
from reshuffle.epoch.visits import Inputs

Map = Callable[[FloatArray], FloatArray]

ROUNDS = 500
"""Applications of an epoch after which a fixed point or a spectral radius is reported as far as it is known."""
_TIGHT = 1e-8  # relative width of bounds on a spectral radius that are not improved any more
_CONVERGED = 1e-14
_CYCLE = 12
"""Rounds over which growth is measured: a multiple of the periods with which increments may come and go."""
_GROWN = 1e100  # growth over the first increment from which no gain below one would return
_KEPT = 0.25
"""Share of the matrix before in that after a round, without which a power iteration may cycle for ever."""
_DOUBLINGS = 1100
_NEGLIGIBLE = 1e-9  # size of a power of A whose square changes no digit any more
_LOST = 1e100  # size of a power of A that does not return
_NOTHING = 1e-12  # relative size of what rounding makes of nothing
_WRITTEN_OUT = 200  # entries of a symmetric matrix up to which all eigenvalues of a map of them are found
_KRYLOV, _FEWEST_VECTORS = 24, 6  # vectors of a Krylov space at a tolerance of 1e-9, and at the largest


class Lyapunov:
    """M - A M A' = R, A = I - D, by doubling (Smith): the sum of A^j R A'^j over j < 2k from that over j < k.

    Rows of D that are small keep their digits, since those of I - A^(2^j) = D_j are as small: D_2j = 2 D_j - D_j^2.

    >>> float(Lyapunov(np.array([[0.5]])).solve(np.array([[3.0]]))[0, 0])
    4.0
    """

    def __init__(self, loss: FloatArray):
        self.loss = loss

    @cached_property
    def _losses(self) -> list[FloatArray] | None:
        """I - A^(2^j) until A^(2^j) is negligible; None if it never is."""
        losses, identity = [self.loss], np.eye(len(self.loss))
        for _ in range(_DOUBLINGS):
            last = losses[-1]
            left = float(np.abs(identity - last).max(initial=0.0))
            if left < _NEGLIGIBLE:
                return losses
            following = 2 * last - last @ last
            moved, eps = np.abs(following - last).max(axis=1), np.finfo(np.float64).eps
            if not left < _LOST or (moved <= eps * np.abs(last).max(axis=1)).all():
                return None
            losses.append(following)
        return None

    @property
    def exists(self) -> bool:
        """True if A contracts, so that there is a solution."""
        return self._losses is not None

    def solve(self, right: FloatArray) -> FloatArray:
        """The solution, symmetric as R is."""
        for loss in self._losses or []:
            half = right - loss @ right
            right = right + half - half @ loss.T
        # An epoch makes everything symmetric: what is not would be taken for a residual, and grow.
        return _symmetric(right)


class MeanPart:
    """M -> A M A' (d, d) for the mean A of an epoch that contracts.

    In the coordinates `units` (d,), multiplied from both sides, all parts of a second moment are of ordinary size;
    `speeds` (d, d) is how much of each part an epoch changes there.
    """

    def __init__(self, once: EpochMap):
        self.units = once.right
        self.speeds = np.add.outer(once.grades, once.grades)
        self._scales = np.outer(self.units, self.units)
        self._solver = Lyapunov(once.grades[:, np.newaxis] * once.kernel)
        self._loss = once.loss

    def change(self, matrix: FloatArray) -> FloatArray:
        """A M A' - M, for symmetric M, without a difference of nearly equal numbers."""
        lost = self._loss @ matrix
        return -lost - (self._loss @ (matrix - lost).T).T

    def solve(self, right: FloatArray) -> FloatArray:
        """M with M - A M A' = R."""
        return self._solver.solve(self._scales * right) / self._scales


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)


def fixed_point(change: Map, mean: MeanPart, start: FloatArray) -> tuple[FloatArray, float]:
    """The limit of M -> T(M) + R from M_0 (d, d), and its relative error; inf if it grows.

    change(M) = T(M) + R - M.

    M -> M + (I - Abar . Abar')^-1 change(M) climbs from below, with increments that shrink by the gain: not in
    every round (with two batches the map of the gain has -gain among its eigenvalues too), but over a cycle. A
    fixed point that is positive definite attracts everything. Another may be one which what starts elsewhere
    leaves: it is an end only if all T^k(M_0) have a sum, which is another fixed point.
    """
    with few_threads(len(mean.units)):
        matrix, error = limit_of(lambda seen: seen + mean.solve(change(seen)), mean.units)
        if not np.isfinite(matrix).all() or _is_definite(mean.units, matrix) or not start.any():
            return matrix, error
        # What counts is whether there is a sum, not its size.
        size = float(np.abs(start).max())
        total, _ = limit_of(lambda seen: seen + mean.solve(change(seen) + start / size), mean.units)
        return (matrix, error) if np.isfinite(total).all() else (np.full_like(matrix, np.inf), 0.0)


def _is_definite(units: FloatArray, matrix: FloatArray) -> bool:
    """True if M is positive in all directions by more than rounding, in units in which it is of ordinary size."""
    values = scipy.linalg.eigvalsh(_symmetric(np.outer(units, units) * matrix), check_finite=False)
    return len(values) == 0 or bool(values[0] > _NOTHING * values[-1])


def stationary(
    timeline: Timeline, inputs: Inputs, begin: FloatArray, centred: bool = False
) -> tuple[FloatArray, FloatArray, float]:
    """The limits of M or V (d, d) and of C or m from [M, C] or [V, m], and the error of the first; inf if none."""
    d = len(begin)
    if not timeline.converges:
        return np.full((d, d), np.inf), np.full((d, begin.shape[1] - d), np.inf), 0.0
    once, start = timeline.map(0), begin[:, :d]
    if inputs.given is not None:
        once = once.with_inputs(np.concatenate([[inputs.constant], inputs.given])[:, np.newaxis])
    cross = once.fixed_point()
    cross[:, 1:] *= inputs.noise
    if centred:
        # What orders do to the way there is what they would do to a covariance.
        apart = begin[:, d:] - cross
        start = start + apart @ apart.T
    change = epoch_moments(timeline, inputs).change_beside(cross, centred)
    matrix, error = fixed_point(change, MeanPart(once), start)
    return matrix, cross, error


def limit_of(once: Map, units: FloatArray, tolerance: float = _CONVERGED) -> tuple[FloatArray, float]:
    """The limit of an affine map of matrices (d, d) from zero, and its relative error; inf if it grows."""
    matrix, scales = np.zeros((len(units), len(units))), np.outer(units, units)
    changes: list[float] = []
    for _ in track(range(ROUNDS), ROUNDS, "stationary second moments"):
        following = once(matrix)
        changes.append(float(np.abs(scales * (following - matrix)).max(initial=0.0)))
        matrix, size = following, float(np.abs(scales * following).max(initial=0.0))
        if not np.isfinite(size) or size > _GROWN * changes[0]:
            return np.full_like(matrix, np.inf), 0.0
        if changes[-1] <= tolerance * size:
            return matrix, max(tolerance, changes[-1] / max(size, np.finfo(float).tiny))
    growth = changes[-1] / changes[-1 - _CYCLE]
    if growth >= 1 - _CYCLE * 1e-9:
        return np.full_like(matrix, np.inf), 0.0
    left = sum(changes[-_CYCLE:]) * growth / (1 - growth)
    return matrix, float(left / max(size, np.finfo(float).tiny))


@dataclass(frozen=True)
class Enclosure:
    """Bounds on a spectral radius, and the best estimate of it.

    `matrix` (d, d) is the definite matrix that gave the last bounds: a good start for a map nearby.
    """

    lower: float
    estimate: float
    upper: float
    matrix: FloatArray | None = field(default=None, repr=False, compare=False)

    def is_below(self, number: float) -> bool | None:
        """True if the radius is below a number, if the bounds say so."""
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

    It starts from any definite matrix, and stops when the radius is known to be on one side of `decided`, after so
    many `rounds`, or when the bounds are tight relative to the larger of the radius and `unit`.
    """
    matrix = np.eye(dimension) / dimension if start is None else start
    lower, upper, estimate = 0.0, np.inf, 0.0
    with few_threads(dimension):
        for _ in track(range(rounds), rounds, "second moments in the long run"):
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


def perron(
    of: Map, dimension: int, tolerance: float = 1e-9, start: FloatArray | None = None
) -> tuple[float, FloatArray]:
    """The spectral radius of a positive map of symmetric matrices (d, d), and its eigenmatrix.

    It is the eigenvalue with the largest real part (Krein and Rutman), to the relative `tolerance`; a `start` near
    the eigenmatrix saves time.

    >>> value, matrix = perron(lambda M: M / 2, 1)
    >>> value, abs(matrix).item()
    (0.5, 1.0)
    """
    # Entries off the diagonal count twice in the trace of a product.
    packing = Packing(np.sqrt(2 - np.eye(dimension)))

    def packed(entries: FloatArray) -> FloatArray:
        return packing.packed(of(packing.unpacked(entries)))

    if packing.size <= _WRITTEN_OUT:
        written = np.array([packed(unit) for unit in np.eye(packing.size)]).T
        values, vectors = scipy.linalg.eig(written, check_finite=False)
        place = int(np.argmax(values.real))
        return float(values[place].real), packing.unpacked(vectors[:, place].real)
    operator = LinearOperator((packing.size, packing.size), matvec=packed, dtype=np.float64)
    begin = packing.packed(np.eye(dimension) if start is None else start)
    vectors_at_once = max(_FEWEST_VECTORS, int(_KRYLOV * np.log(tolerance) / np.log(1e-9)))
    found: AnyArray
    try:
        values, found = eigs(
            operator, k=1, which="LR", v0=begin, ncv=vectors_at_once, tol=tolerance, maxiter=50
        )
    except ArpackNoConvergence as unfinished:
        values, found = np.asarray(unfinished.eigenvalues), np.asarray(unfinished.eigenvectors)
        if not len(values):
            raise ArithmeticError(
                "the spectral radius of the second moments did not converge; try a smaller step, or a penalty."
            ) from None
    return float(values[0].real), packing.unpacked(np.asarray(found[:, 0].real))


class Packing:
    """The upper half of a symmetric matrix (d, d) as a vector, its entries times `scales` (d, d)."""

    def __init__(self, scales: FloatArray):
        self._scales, self.upper = scales, np.triu_indices(len(scales))
        self.size = len(self.upper[0])

    def packed(self, matrix: FloatArray) -> FloatArray:
        """The entries (d (d + 1) / 2,)."""
        return np.asarray((matrix * self._scales)[self.upper])

    def unpacked(self, entries: FloatArray) -> FloatArray:
        """The matrix of these entries.

        >>> Packing(np.ones((2, 2))).unpacked(np.array([1.0, 2.0, 3.0]))
        array([[1., 2.],
               [2., 3.]])
        """
        matrix = np.zeros_like(self._scales)
        matrix[self.upper] = entries
        return np.asarray((matrix + np.triu(matrix, 1).T) / self._scales)


def eigenmatrix(positive: Map, dimension: int) -> FloatArray:
    """A definite matrix (d, d) next to one that a positive map multiplies by its spectral radius; for small ones.

    >>> eigenmatrix(lambda matrix: np.diag([4.0, 1.0]) @ matrix @ np.diag([4.0, 1.0]), 2).round(6)
    array([[1., 0.],
           [0., 0.]])
    """
    _, matrix = perron(positive, dimension)
    return _definite(matrix if np.trace(matrix) > 0 else -matrix)


def _definite(image: FloatArray) -> FloatArray:
    """An image of trace one that is definite where the map, or rounding, does not keep it so.

    The bounds of Collatz and Wielandt hold for any definite matrix.
    """
    values, vectors = scipy.linalg.eigh(image, check_finite=False)
    values = np.maximum(values, _NOTHING * values[-1])
    return np.asarray((vectors * (values / values.sum())) @ vectors.T)
