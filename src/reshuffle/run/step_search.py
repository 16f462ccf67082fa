"""The search for the largest step that converges: with proof where Z(step) is a polynomial, else by trying."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import count

import numpy as np
import scipy.linalg
from numpy.polynomial import chebyshev
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from reshuffle._core import FloatArray
from reshuffle._core.progress import track
from reshuffle._core.threads import few_threads
from reshuffle.epoch import mean_map
from reshuffle.epoch.accuracy import require_affordable
from reshuffle.epoch.tasks import Task, task
from reshuffle.problem.blocks import Blocks
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes.base import Scheme, Shuffle, Unit

_SMALL = 400
"""Up to this many rows or columns the eigenvalue of their Gram matrix costs no more than a few iterations."""
_KRYLOV = 40
"""Vectors of an iteration: more than is usual, since singular values lie close together at the top."""
_CHUNK = 1 << 21
"""Entries of X that are copied at a time."""


def largest_eigenvalue(X: FloatArray, weights: FloatArray, scale: float) -> float:
    """The largest eigenvalue of X'diag(weights) X / scale^2, to about twelve digits, for X (n, p).

    By Lanczos' iteration from a start that is always the same, or from the Gram matrix of whichever is fewer, rows
    or columns. Both find the largest singular value of X as well as any decomposition would, however badly X is
    conditioned: what is lost in a Gram matrix are the small ones.

    >>> largest_eigenvalue(np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 1.0]]), np.full(3, 0.5), 2.0)
    0.625
    """
    size = min(X.shape)
    if size <= _SMALL:
        return _of_gram(X, weights, scale)
    rows_are_fewer = X.shape[0] < X.shape[1]
    roots = np.sqrt(weights)

    def apply(vector: FloatArray) -> FloatArray:
        if rows_are_fewer:
            return np.asarray(roots * ((X @ ((X.T @ (roots * vector)) / scale)) / scale))
        return np.asarray((X.T @ (weights * ((X @ vector) / scale))) / scale)

    start = np.random.default_rng(0).standard_normal(size)
    if not apply(start).any():
        return 0.0
    operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    try:
        found = eigsh(operator, k=1, which="LA", v0=start, ncv=_KRYLOV, return_eigenvectors=False)
    except ArpackNoConvergence:
        return _of_gram(X, weights, scale)
    return float(found[0])


def _of_gram(X: FloatArray, weights: FloatArray, scale: float) -> float:
    tall, along = (X, weights) if X.shape[0] >= X.shape[1] else (X.T, None)
    gram = np.zeros((tall.shape[1],) * 2)
    height = max(1, _CHUNK // tall.shape[1])
    for first in range(0, len(tall), height):
        part = tall[first : first + height] / scale
        gram += part.T @ (part if along is None else along[first : first + height, np.newaxis] * part)
    if along is None:
        roots = np.sqrt(weights)
        gram = roots[:, np.newaxis] * gram * roots
    last = len(gram) - 1
    top = float(scipy.linalg.eigvalsh((gram + gram.T) / 2, subset_by_index=[last, last])[0])
    return max(top, 0.0)


_PRECISION = 1e-9
"""Relative width to which the critical step is enclosed."""
_WINDOW, _REACH, _STRETCH = 1.25, 4.0, 1e3
"""Up to which multiple of a step bounds of derivatives are sharp; up to which the mean is interpolated, at most; by
how far it may stretch there."""
_WIDE, _APART = 1e-3, 1e-5
"""Relative distances: within which a touch is looked for, and of the points whose values are compared there."""
_ROUNDING = 1e-13
"""Of a function, relative to what its slope makes of the step."""
BUDGET = 1e13
"""Operations that may be spent on a critical step: ten minutes or so."""


def is_certified(problem: LeastSquares, scheme: Scheme) -> bool:
    """Whether `certified_step` knows the mean at all steps it needs, within its budget."""
    if scheme.steps(problem.n) == 1 or scheme.shuffle is not Shuffle.EVERY_EPOCH:
        return True
    blocks = problem.blocks(scheme.partition(problem.n), scheme.divisors(problem.n))
    price = task(scheme, problem.n, blocks, 1.0)
    return (price.degree + 1) * price.exact_flops <= BUDGET


def certified_step(problem: LeastSquares, scheme: Scheme) -> float:
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
    if scheme.steps(problem.n) == 1 or scheme.shuffle is Shuffle.EVERY_STEP:
        return _linear_critical_step(problem, scheme)
    visited = sum(len(part) for part in scheme.partition(problem.n))
    if visited < len(problem.kept.X):
        # Rows that are never visited must not count as directions to be learned. Those that are come first.
        problem = problem.of_first(visited)
    blocks = problem.blocks(scheme.partition(problem.n), scheme.divisors(problem.n))
    if problem.rank == 0:
        return math.inf

    def at(step: float) -> Task:
        return task(scheme, problem.n, blocks, step)

    price = at(1.0)
    if math.isfinite(price.exact_flops):
        require_affordable(
            (price.degree + 1) * price.exact_flops, BUDGET, f"the critical step of {price.steps} batches",
            "try fewer batches, or stability() of descend(...) at the steps of interest",
        )  # fmt: skip
    with few_threads(math.sqrt(blocks.rows.size)):
        scaled = _critical_scaled_step(contracting_step(scheme, problem.n, blocks), at)
    return scaled / problem.row_space.scale / problem.row_space.scale


def _linear_critical_step(problem: LeastSquares, scheme: Scheme) -> float:
    """2 / |W| where the mean of a visit is I - step W: of all of X only the largest singular value is needed."""
    X, scale = problem.kept.X, problem.kept.scale
    parts, divisors = scheme.partition(problem.n), scheme.divisors(problem.n)
    weights = np.zeros(len(X))
    for part, divisor in zip(parts, divisors, strict=True):
        # Of samples that are cut into batches anew the divisor is one, however many rows each has.
        weights[part] = 1 / (len(parts) * divisor * scheme.rows_per_unit)
    top = largest_eigenvalue(X, weights, scale)
    return 2 / top / scale / scale if top else math.inf


def contracting_step(scheme: Scheme, n: int, blocks: Blocks, longest: float | None = None) -> float:
    """A step below 2 / |W_b| for every batch that may be visited: each visit then shrinks what it sees.

    A batch of drawn samples has |W_b| at most the largest |x|^2 times m_b / divisor_b, and at most |X'X| over
    divisor_b. That |x|^2 is `longest`, where other rows stand for the samples.
    """
    if scheme.unit is Unit.BATCH:
        norms = [
            float(scipy.linalg.svdvals(blocks.rows[blocks.of(batch)])[0]) ** 2 / float(divisor)
            for batch, divisor in enumerate(blocks.divisors)
        ]
        return 2 / max(norms)
    divisors = scheme.step_divisors(n)
    if longest is None:
        longest = float(np.square(blocks.rows).sum(axis=1).max())
    by_rows = longest * float((scheme.sizes(n) / divisors).max())
    if scheme.shuffle is Shuffle.EVERY_STEP:
        # The same row may be drawn again and again.
        return 2 / by_rows if by_rows else math.inf
    by_sum = float(scipy.linalg.svdvals(blocks.rows)[0]) ** 2 / float(divisors.min())
    return 2 / min(by_rows, by_sum)


def _critical_scaled_step(low: float, at: Callable[[float], Task]) -> float:
    while True:
        # The visits at a step f times the contracting one stretch by 2 f - 1 at most: their product is kept near
        # enough to 1 that what its size costs in rounding is a fraction of the precision.
        reach = low * float(np.clip((1 + _STRETCH ** (1 / (at(low).degree + 1))) / 2, _WINDOW, _REACH))
        mean = _Interpolated(at, low, reach)
        while low < reach:
            high = min(_WINDOW * low, reach)
            crossing = _Window(mean, low, high).first_crossing()
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

    @cached_property
    def _norms(self) -> FloatArray:
        return np.array([np.abs(scipy.linalg.eigvalsh(matrix)).max() for matrix in self.coefficients])

    @staticmethod
    def nodes(count: int, low: float, high: float) -> FloatArray:
        """The steps at which to give values."""
        return low + (high - low) * (chebyshev.chebpts1(count) + 1) / 2

    def eigenvalue(self, step: float, number: int) -> float:
        """One eigenvalue at a step, counted from the smallest, or from the largest if negative."""
        matrix = self._at(step)
        index = number % len(matrix)
        return float(scipy.linalg.eigvalsh(matrix, subset_by_index=[index, index])[0])

    def _at(self, step: float) -> FloatArray:
        node = 2 * (step - self.low) / (self.high - self.low) - 1
        return _combination(chebyshev.chebvander(node, len(self.coefficients) - 1)[0], self.coefficients)

    def within(self, low: float, high: float) -> "_MatrixPolynomial":
        """The same matrix on a part of the interval, where its bounds are sharper."""
        values = [self._at(float(step)) for step in self.nodes(len(self.coefficients), low, high)]
        return _MatrixPolynomial(values, low, high)

    @property
    def bound(self) -> float:
        """A bound on the norm in the interval, from |T_j| <= 1."""
        return float(self._norms.sum())

    @property
    def derivative_bound(self) -> float:
        """A bound on the norm of the derivative in the interval, from |T_j'| <= j^2."""
        return float(np.arange(len(self._norms)) ** 2 @ self._norms) * 2 / (self.high - self.low)

    @property
    def curvature_bound(self) -> float:
        """A bound on the norm of the second derivative in the interval, from |T_j''| <= j^2 (j^2 - 1) / 3."""
        squares = np.arange(len(self._norms)) ** 2
        return float(squares * (squares - 1) / 3 @ self._norms) * (2 / (self.high - self.low)) ** 2


def _combination(weights: FloatArray, matrices: list[FloatArray]) -> FloatArray:
    total = np.zeros_like(matrices[0])
    for weight, matrix in zip(weights, matrices, strict=True):
        total += weight * matrix
    return total


class _Interpolated:
    """The whitened kernel of Z, and Z in the coordinates of its factor, exactly at all steps from few of them."""

    def __init__(self, at: Callable[[float], Task], low: float, high: float):
        steps = _MatrixPolynomial.nodes(at(low).degree + 1, low, high)
        means = [at(float(step)).exact() for step in track(steps, len(steps), "interpolating in the step")]
        self.batches = means[0].stride / float(steps[0])
        # The factor does not depend on the step, and neither does its QR decomposition.
        whitened = [mean_map.whitened(mean) for mean in means]
        kernels = [kernel for *_, kernel in whitened]
        triangle = whitened[0][1]
        self.kernel = _MatrixPolynomial(kernels, low, high)
        self.Z = _MatrixPolynomial([triangle.T @ kernel @ triangle for kernel in kernels], low, high)


class _Window:
    """Steps from `low` to `high`, in which convergence is decided.

    It means that two symmetric matrices are positive definite: the kernel, which has the signs of
    the eigenvalues of Z however badly X is conditioned, and 2 I - B step Z.
    """

    def __init__(self, mean: _Interpolated, low: float, high: float):
        self.low, self.high, self.batches = low, high, mean.batches
        self.kernel, self.Z = mean.kernel.within(low, high), mean.Z.within(low, high)

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
        curvatures = (
            self.kernel.curvature_bound,
            self.batches * (2 * self.Z.derivative_bound + self.high * self.Z.curvature_bound),
        )
        return _first_zero(gaps, slopes, curvatures, self.low, self.high)


def _first_zero(
    functions: Sequence[Callable[[float], float]],
    slopes: Sequence[float],
    curvatures: Sequence[float],
    low: float,
    high: float,
) -> float | None:
    """The first zero of any of several functions, by certified bisection.

    Each is the smallest eigenvalue of a symmetric matrix whose derivatives are at most `slope` and `curvature` in
    norm. Between two points that matrix is its chord, whose smallest eigenvalue is concave, up to what the
    curvature allows: so the way to a zero that is only touched is passed in steps that shrink with the distance.
    """

    def is_free(i: int, at_left: float, at_right: float, width: float, right: float) -> bool:
        least = _least_above_chord(at_left, at_right, curvatures[i] * width * width / 2)
        # Two values whose sum exceeds what the slope could undo leave no room for a zero between them, either.
        return least > _ROUNDING * slopes[i] * right or at_left + at_right > slopes[i] * width

    def values(point: float, chosen: Iterable[int]) -> dict[int, float]:
        return {number: functions[number](point) for number in chosen}

    every = range(len(functions))
    waiting = [(low, values(low, every), high, values(high, every))]
    while waiting:
        left, at_left, right, at_right = waiting.pop()
        if min(at_left.values()) <= 0:
            return left
        unsure = [i for i in at_left if not is_free(i, at_left[i], at_right[i], right - left, right)]
        if not unsure:
            continue
        middle = (left + right) / 2
        # Bounds of slopes are several times too large, and so is what they leave unsure.
        if right - left <= _PRECISION / 16 * right:
            # A function that has not crossed but is this near to it has, to the promised precision.
            nearest = min(unsure, key=lambda i: at_right[i])
            return middle if at_right[nearest] <= 0 else _touch(functions[nearest], slopes[nearest], left)
        at_middle = values(middle, unsure)
        if min(at_middle.values()) > 0:
            waiting.append((middle, at_middle, right, {i: at_right[i] for i in unsure}))
        # The left half is looked at first, and alone if it holds a crossing.
        waiting.append((left, {i: at_left[i] for i in unsure}, middle, at_middle))
    return None


def _least_above_chord(left: float, right: float, bend: float) -> float:
    """The least value of left (1 - s) + right s - bend s (1 - s) for s from 0 to 1.

    >>> _least_above_chord(1.0, 1.0, 4.0), _least_above_chord(1.0, 3.0, 1.0)
    (0.0, 1.0)
    """
    if bend <= abs(right - left):
        return min(left, right)
    place = 0.5 - (right - left) / (2 * bend)
    return left + place * (right - left) - bend * place * (1 - place)


def _touch(function: Callable[[float], float], slope: float, start: float) -> float:
    """Where a positive function that nearly vanishes right of the start touches zero; the start if it does not.

    Beside such a point it is like a parabola, and near zero long before: the root of its differences is sharp.
    """
    apart, end = _APART * start, start * (1 + _WIDE)

    def difference(point: float) -> float:
        return function(point + apart) - function(point - apart)

    if not difference(start) < 0 < difference(end):
        return start
    low, high = start, end
    while high - low > _PRECISION * start / 10:
        middle = (low + high) / 2
        low, high = (middle, high) if difference(middle) < 0 else (low, middle)
    # One that comes out clearly below zero has crossed, and did so at the start.
    return low if abs(function(low)) <= _ROUNDING * slope * start else start


GROWTH = 1.02
"""Steps are first tried on a grid this fine."""
_HALVINGS = 40
"""How often a start that is not stable is halved."""


def first_failure(is_stable: Callable[[float], bool], start: float, precision: float) -> float:
    """The last step that was found stable, before the first that was not."""
    low = _stable_step(is_stable, start)
    high = low * GROWTH
    for _ in track(count(), None, "trying steps"):
        if not is_stable(high):
            break
        low, high = high, high * GROWTH
    while high - low > precision * high:
        middle = (low + high) / 2
        low, high = (middle, high) if is_stable(middle) else (low, middle)
    return low


def _stable_step(is_stable: Callable[[float], bool], start: float) -> float:
    """A step that was found stable: the start, or the first of its halves that is."""
    for halvings in range(_HALVINGS):
        step = math.ldexp(start, -halvings)
        if is_stable(step):
            return step
    raise ArithmeticError(
        f"no step between {step:.3g} and {start:.3g} is stable up to rounding; try a smaller momentum or penalty."
    )
