"""Does the mean iterate converge, how fast, and up to which step."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from numpy.polynomial import chebyshev

from reshuffle import door, modes
from reshuffle.arrays import FloatArray
from reshuffle.blocks import Blocks
from reshuffle.epoch import lattice
from reshuffle.epoch.accuracy import require_affordable
from reshuffle.largest import largest_eigenvalue
from reshuffle.problem import LeastSquares
from reshuffle.progress import track
from reshuffle.risk import with_error
from reshuffle.row_space import scale_of
from reshuffle.schemes import RandomReshuffling, Scheme
from reshuffle.threads import few_threads

_EPS = float(np.finfo(np.float64).eps)
_SLOW = 1e-8
"""Convergence that is slower than this an epoch is worth a word."""
_SCALED = 100.0
"""Columns that differ in size by less are no reason for it."""
_PRECISION = 1e-9
"""Relative width to which the critical step is enclosed."""
BUDGET = 1e13
"""Operations that may be spent on a critical step: ten minutes or so."""


@dataclass(frozen=True)
class Stability:
    """Whether the mean iterate converges from every start, and at what rate.

    Attributes
    ----------
    converges : bool
        The rate is below one, and the range assumption holds. Open where one is within `error` of the rate.
    rate : float
        The spectral radius of I - B step Z on the range of Z: what the slowest mode is multiplied by in an epoch.
    advice : str
        What to do about convergence that nobody will live to see; empty if it is faster.
    error : float
        How far the rate may be off where the mean over orders is not exact. Infinite for `ShuffleOnce` with more
        orders than can be followed: the slowest of them need not be among those drawn.
    """

    converges: bool
    rate: float
    error: float = 0.0
    advice: str = field(default="", compare=False)

    def __repr__(self) -> str:
        told = f", advice={self.advice!r}" if self.advice else ""
        return f"Stability(converges={self.converges}, rate={with_error(self.rate, self.error)}{told})"


def stability(
    rates: FloatArray, repeats: int, range_assumption: bool, X: FloatArray, share: float = 0.0
) -> Stability:
    """Read the stability off the rates x of the modes in the range of Z, each multiplied by 1 - x.

    `share` is how far each x may be off, relative to itself.
    """
    with np.errstate(over="ignore"):
        factors = np.abs(1 - rates) ** repeats
    # 1 - x rounds to one for x below eps: such a mode still converges, if slowly.
    settles = bool(((rates > 0) & (rates < 2)).all())
    converges = settles and range_assumption
    # The distance from one, which the rate itself has lost to rounding.
    gap = repeats * float(np.minimum(rates, 2 - rates).min(initial=np.inf))
    error = _rate_error(rates, repeats, share) if share else 0.0
    return Stability(converges, float(factors.max(initial=0.0)), error, slowness(X, gap) if converges else "")


def slowness(X: FloatArray, gap: float) -> str:
    """Advice where the slowest mode is multiplied by 1 - gap in an epoch and gap is tiny; nothing otherwise.

    >>> slowness(np.array([[1.0, 1e6], [2.0, -1e6]]), 1e-12)
    'a factor 1/e takes about 1e+12 epochs; the columns of X differ in size by a factor of 5e+05: scale them'
    """
    if not gap < _SLOW:
        return ""
    sizes = np.abs(X).max(axis=0)
    if not sizes.any():
        return ""
    spread = float(sizes.max() / sizes[sizes > 0].min())
    epochs = f"about {1 / gap:.0e}" if gap > 0 else f"{1 / _EPS:.0e} or more"
    cause = (
        f"the columns of X differ in size by a factor of {spread:.0e}: scale them"
        if spread > _SCALED
        else "X is ill-conditioned or the step far too small: try another step, fewer columns or a penalty"
    )
    return f"a factor 1/e takes {epochs} epochs; {cause}"


def _rate_error(rates: FloatArray, repeats: int, share: float) -> float:
    """How far the largest |1 - x|^repeats may be off if each x is known up to a share of itself."""
    with np.errstate(over="ignore", invalid="ignore"):
        ends = np.abs(1 - rates * (1 + share * np.array([[-1.0], [1.0]])))
        gaps = np.abs(1 - rates)
        # A mode for which x = 1 is possible may vanish.
        least = np.maximum(gaps - share * np.abs(rates), 0.0)
        lowest, rate, largest = (float((values**repeats).max(initial=0.0)) for values in (least, gaps, ends))
        error = max(largest - rate, rate - lowest)
    return error if np.isfinite(error) else np.inf


def critical_step(problem: LeastSquares, scheme: Scheme) -> float:
    """The step up to which the mean iterate converges, to a relative precision of 1e-9.

    For full batch and with replacement it is 2 / |W|. For reshuffling, every step below 2 / max |W_b| converges,
    since each visit then shrinks what it sees; from there on Z(step), a polynomial of degree B - 1,
    is followed exactly through its values at Chebyshev nodes until it stops being positive definite on the row
    space, or B step Z reaches 2. Intervals are passed only once a bound on the derivative excludes a crossing.

    >>> import reshuffle as rs
    >>> problem = rs.LeastSquares([[1.0], [3.0]], [0.0, 0.0])
    >>> round(rs.critical_step(problem, rs.FullBatch()), 12)  # 2 / ((1 + 9) / 2)
    0.4
    """
    problem = door.problem(problem)
    scheme = door.scheme(scheme, problem)
    if scheme.degree(problem.n) == 0:
        return _linear_critical_step(problem, scheme)
    visited = np.concatenate(scheme.partition(problem.n))
    if len(visited) < problem.n:
        # Rows that are never visited must not count as directions to be learned. Those that are come first.
        problem = LeastSquares(problem.X[visited], problem.y[visited])
    blocks = problem.blocks(scheme.partition(problem.n), scheme.divisors(problem.n))
    if problem.rank == 0:
        return math.inf
    price = lattice.flops(blocks) if isinstance(scheme, RandomReshuffling) else 0.0
    if math.isfinite(price):
        require_affordable(
            (scheme.degree(problem.n) + 1) * price, BUDGET, f"the critical step of {blocks.batches} batches",
            "try fewer batches, or stability() of descend(...) at the steps of interest",
        )  # fmt: skip
    with few_threads(math.sqrt(blocks.rows.size)):
        scaled = _critical_scaled_step(blocks, scheme, scheme.degree(problem.n))
    return scaled / problem.row_space.scale / problem.row_space.scale


def _linear_critical_step(problem: LeastSquares, scheme: Scheme) -> float:
    """2 / |W| where the mean of a visit is I - step W: of all of X only the largest singular value is needed."""
    scale = scale_of(problem.X)
    parts, divisors = scheme.partition(problem.n), scheme.divisors(problem.n)
    weights = np.zeros(problem.n)
    for part, divisor in zip(parts, divisors, strict=True):
        weights[part] = 1 / (len(parts) * divisor)
    top = largest_eigenvalue(problem.X, weights, scale)
    return 2 / top / scale / scale if top else math.inf


def _critical_scaled_step(blocks: Blocks, scheme: Scheme, degree: int) -> float:
    low = scheme.contracting_step(blocks)
    while True:
        high = 1.25 * low
        crossing = _Window(blocks, scheme, degree, low, high).first_crossing()
        if crossing is not None:
            return crossing
        low = high


class _MatrixPolynomial:
    """A symmetric matrix, polynomial in the step, from its values at the Chebyshev nodes of an interval."""

    def __init__(self, values: list[FloatArray], low: float, high: float):
        self.low, self.high = low, high
        nodes = chebyshev.chebpts1(len(values))
        transform = np.linalg.inv(chebyshev.chebvander(nodes, len(values) - 1))
        self.coefficients = [_combination(weights, values) for weights in transform]
        self._norms = np.array([np.abs(scipy.linalg.eigvalsh(matrix)).max() for matrix in self.coefficients])

    @staticmethod
    def nodes(count: int, low: float, high: float) -> FloatArray:
        """The steps at which to give values."""
        return low + (high - low) * (chebyshev.chebpts1(count) + 1) / 2

    def eigenvalue(self, step: float, number: int) -> float:
        """One eigenvalue at a step, counted from the smallest, or from the largest if negative."""
        node = 2 * (step - self.low) / (self.high - self.low) - 1
        weights = chebyshev.chebvander(node, len(self.coefficients) - 1)[0]
        matrix = _combination(weights, self.coefficients)
        index = number % len(matrix)
        return float(scipy.linalg.eigvalsh(matrix, subset_by_index=[index, index])[0])

    @property
    def bound(self) -> float:
        """A bound on the norm in the interval, from |T_j| <= 1."""
        return float(self._norms.sum())

    @property
    def derivative_bound(self) -> float:
        """A bound on the norm of the derivative in the interval, from |T_j'| <= j^2."""
        return float(np.arange(len(self._norms)) ** 2 @ self._norms) * 2 / (self.high - self.low)


def _combination(weights: FloatArray, matrices: list[FloatArray]) -> FloatArray:
    total = np.zeros_like(matrices[0])
    for weight, matrix in zip(weights, matrices, strict=True):
        total += weight * matrix
    return total


class _Window:
    """Steps from `low` to `high`, on which the whitened kernel of Z is interpolated exactly.

    Convergence means that two symmetric matrices are positive definite: the kernel, which has the signs of
    the eigenvalues of Z however badly X is conditioned, and 2 I - B step Z.
    """

    def __init__(self, blocks: Blocks, scheme: Scheme, degree: int, low: float, high: float):
        self.low, self.high = low, high
        steps = _MatrixPolynomial.nodes(degree + 1, low, high)
        means = [
            scheme.mean_map(blocks, float(step))
            for step in track(steps, len(steps), "interpolating in the step")
        ]
        self.batches = means[0].rate / float(steps[0])
        # The factor does not depend on the step, and neither does its QR decomposition.
        whitened = [modes.whitened(mean) for mean in means]
        kernels = [kernel for *_, kernel in whitened]
        triangle = whitened[0][1]
        self.kernel = _MatrixPolynomial(kernels, low, high)
        self.Z = _MatrixPolynomial([triangle.T @ kernel @ triangle for kernel in kernels], low, high)

    def first_crossing(self) -> float | None:
        """The smallest step in the window at which one of the two stops being positive definite, or None."""
        gaps = (
            lambda step: self.kernel.eigenvalue(step, 0),
            lambda step: 2 - self.batches * step * self.Z.eigenvalue(step, -1),
        )
        slopes = (
            self.kernel.derivative_bound,
            self.batches * (self.Z.bound + self.high * self.Z.derivative_bound),
        )
        return _first_zero(gaps, slopes, self.low, self.high)


def _first_zero(
    functions: Sequence[Callable[[float], float]], slopes: Sequence[float], low: float, high: float
) -> float | None:
    """The first zero of any of several functions with |derivative| <= slope, by certified bisection."""

    def values(point: float, chosen: Iterable[int]) -> dict[int, float]:
        return {number: functions[number](point) for number in chosen}

    every = range(len(functions))
    waiting = [(low, values(low, every), high, values(high, every))]
    while waiting:
        left, at_left, right, at_right = waiting.pop()
        if min(at_left.values()) <= 0:
            return left
        # Two values whose sum exceeds what the slope could undo leave no room for a zero between them.
        unsure = [i for i in at_left if at_left[i] + at_right[i] <= slopes[i] * (right - left)]
        if not unsure:
            continue
        middle = (left + right) / 2
        if right - left <= _PRECISION * right:
            # A function that has not crossed but is this near to it has, to the promised precision.
            return middle
        at_middle = values(middle, unsure)
        if min(at_middle.values()) > 0:
            waiting.append((middle, at_middle, right, {i: at_right[i] for i in unsure}))
        # The left half is looked at first, and alone if it holds a crossing.
        waiting.append((left, {i: at_left[i] for i in unsure}, middle, at_middle))
    return None
