"""Small numerics: norms, orthogonal factors, powers and their sums, averages of these over epochs, threads of BLAS.

A mode with eigenvalue x has the power (1 - x)^j and the geometric sum G_j = 1 + (1 - x) + ... + (1 - x)^(j - 1)
after j epochs. `tail_mean` and `moving_mean` are their means with the weights of an average, without differences of
nearly equal numbers.

BLAS and LAPACK wait for all of their threads many times in one call. Where another process has one of the cores
such a wait lasts a time slice of the system, and a decomposition of 100 x 100 takes a hundred times as long. Work
on many matrices is spread over threads of our own instead, which never wait for each other; and since each product
is then done by one thread, its last bit does not depend on how many there are.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, cached_property, wraps
from threading import Lock, local
from typing import Any, TypeVar, cast

import numpy as np
import scipy.linalg
import threadpoolctl
from numpy.polynomial import chebyshev
from scipy.linalg import lapack

from reshuffle._arrays import FloatArray

Item = TypeVar("Item")
Result = TypeVar("Result")
Question = TypeVar("Question", bound=Callable[..., Any])

_ROOT_OF_RANGE = 1e140
"""Numbers below this have squares, and sums of many of them, within the range of float64."""
_LOG_OF_ZERO = -1e250
"""In place of log(0): its exponential is 0, and 0 times it is 0."""
_NO_EXPONENTIAL = -750.0
"""Exponents below have an exponential of zero."""
_NEAR = 0.5
"""Exponents nearer to zero than this need expm1; beyond, 1 - exp(e) loses at most a bit."""
_ANY_METHOD_IS_ACCURATE = 1e-3
"""Ratio of extreme singular values above which the small ones have thirteen digits by any method."""
_FULL_PIVOTING = 2
"""LAPACK's JOBA = 'F'."""
_NEAR_ZERO = 0.5
"""Eigenvalue times epochs below which a sum is expanded; beyond, its closed form loses a few bits at most."""
_TERMS = 16
"""Terms of that expansion: the m-th is below (m + 1) 2^-m / (m + 2)!."""
_LARGE = 512
"""The side of a matrix from which the threads of BLAS are worth their waiting."""
_SPREAD = 48
"""The side of a matrix below which a call lasts no longer than it takes to hand it to a thread."""


def norms(values: FloatArray) -> FloatArray:
    """The norms along the last axis; inf where an entry is.

    >>> norms(np.array([[3e200, 4e200], [3e-200, 4e-200], [0.0, 0.0]]))
    array([5.e+200, 5.e-200, 0.e+000])
    """
    sizes = np.abs(values).max(axis=-1, initial=0.0)
    units = np.where((sizes == 0) | np.isinf(sizes), 1.0, sizes)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        lengths = sizes * np.sqrt(np.square(values / units[..., np.newaxis]).sum(axis=-1))
    return np.where(np.isinf(sizes), np.inf, lengths)


def norm(values: FloatArray) -> float:
    """The norm of all entries together, of a matrix that of Frobenius."""
    return float(norms(values.ravel()))


def overflow_is_inf(function: Question) -> Question:
    """Decorate what may overflow, and then has answers that are infinite."""

    @wraps(function)
    def quiet(*positional: Any, **named: Any) -> Any:
        with np.errstate(over="ignore", invalid="ignore"):
            return function(*positional, **named)

    return cast(Question, quiet)


def finite_or_inf(values: FloatArray) -> FloatArray:
    """The values, with inf for nan and -inf: what overflows is inf."""
    return np.where(np.isfinite(values), values, np.inf)


def times_finite(factor: FloatArray, amount: FloatArray) -> FloatArray:
    """`factor * amount`, where nothing times infinity is nothing: what is absent cannot diverge."""
    return np.where(amount == 0, 0.0, factor * amount)


def row_norms(matrix: FloatArray) -> FloatArray:
    """The norms of the rows, at the price of one pass where their squares are numbers."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix)
    smallest, largest = squares.min(initial=np.inf), squares.max(initial=0.0)
    if smallest > _ROOT_OF_RANGE**-2 and largest < _ROOT_OF_RANGE**2:
        return np.asarray(np.sqrt(squares))
    return norms(matrix)


def power_and_sum(x: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(1 - x)^k and 1 + (1 - x) + ... + (1 - x)^(k - 1), count.shape + (r,), of x (r,) and whole counts k or inf.

    For x = 0 the sum is k itself: the k P_0 term of Lemma geometric_series_pinv. Where the powers have no
    limit (x < 0 or x >= 2) the infinite ones are +inf: divergence is an answer.

    >>> power, total = power_and_sum(np.array([0.0, 1e-300, 0.5, 2.5]), np.array([4.0, np.inf]))
    >>> print(power)
    [[1.     1.     0.0625 5.0625]
     [1.     0.     0.        inf]]
    >>> print(total)
    [[ 4.000e+000  4.000e+000  1.875e+000 -1.625e+000]
     [        inf  1.000e+300  2.000e+000         inf]]
    """
    forever = np.isinf(count)
    terms = np.where(forever, 0.0, count)
    with np.errstate(divide="ignore"):
        # x - 2 and 1 - x are exact where their logarithms are near zero.
        logarithm = np.where(x < 1, np.log1p(-np.minimum(x, 1.0)), np.log1p(np.maximum(x, 1.0) - 2))
    logarithm = np.maximum(logarithm, _LOG_OF_ZERO)
    power, rest = np.zeros(count.shape + x.shape), np.ones(count.shape + x.shape)
    # Modes that are zero before the first count are not worth an exponential, a slow one at that.
    alive = logarithm * terms.min(initial=np.inf if terms.size else 0.0) > _NO_EXPONENTIAL
    exponent = terms[..., np.newaxis] * logarithm[alive]
    with np.errstate(over="ignore", under="ignore"):
        powers = np.exp(exponent)
    rests, near = 1 - powers, np.abs(exponent) < _NEAR
    rests[near] = -np.expm1(exponent[near])
    # Above 1 the base is negative, and so are its odd powers.
    below = x[alive] > 1
    if below.any():
        is_odd = (np.mod(terms, 2) == 1)[..., np.newaxis] & below
        rests[is_odd] = 1 + powers[is_odd]
        powers[is_odd] *= -1
    power[..., alive], rest[..., alive] = powers, rests
    with np.errstate(over="ignore"):
        total = rest / np.where(x == 0, 1.0, x)
    total[..., x == 0] = terms[..., np.newaxis]
    converges = (x > 0) & (x < 2)
    with np.errstate(divide="ignore", over="ignore"):
        power[forever] = np.where(x == 0, 1.0, np.where(converges, 0.0, np.inf))
        total[forever] = np.where(converges, 1 / np.where(x == 0, 1.0, x), np.inf)
    return power, total


def thin_qr(matrix: FloatArray, *, overwrite: bool = False) -> tuple[FloatArray, FloatArray]:
    """U with orthonormal columns and R upper triangular, matrix = U R."""
    factors = scipy.linalg.qr(matrix, mode="economic", overwrite_a=overwrite, check_finite=False)
    return cast("tuple[FloatArray, FloatArray]", factors)


def graded_svd(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """U (m, k), s (k,) descending and V (r, k) with matrix (m, r) = U diag(s) V', for k the smaller of m and r.

    The usual algorithm knows small singular values up to eps times the largest. Where they are small because a
    row or a column is, in other units for example, Jacobi's method has all their digits, in a few times the time.

    >>> _, values, _ = graded_svd(np.array([[3.0, 4e-20], [4.0, -3e-20]]))
    >>> print(values)
    [5.e+00 5.e-20]
    """
    if not matrix.shape[1]:
        return matrix, np.zeros(0), np.zeros((0, 0))
    if len(matrix) < matrix.shape[1]:
        right, values, left = graded_svd(matrix.T)
        return left, values, right
    left, values, right = scipy.linalg.svd(matrix, full_matrices=False, check_finite=False)
    if values[-1] >= _ANY_METHOD_IS_ACCURATE * values[0]:
        return left, values, right.T
    values, left, right, scales, _, info = lapack.dgejsv(matrix, joba=_FULL_PIVOTING)
    if info != 0:
        raise ArithmeticError(f"the singular values of the features did not settle (LAPACK says {info}).")
    return left, np.asarray(values * (scales[0] / scales[1])), right


def spectral_norm(matrix: FloatArray) -> float:
    """The largest singular value of a matrix; 0 if it is empty.

    >>> spectral_norm(np.diag([3.0, -4.0]))
    4.0
    """
    with few_threads(math.sqrt(matrix.size)):
        return float(scipy.linalg.svdvals(matrix).max(initial=0.0)) if matrix.size else 0.0


def eigenvalue(matrix: FloatArray, number: int) -> float:
    """One eigenvalue of a symmetric matrix, counted from the smallest, or from the largest if negative.

    All of them are computed: LAPACK's bisection for a single one, `subset_by_index`, takes four fifths of the time,
    but fails where eigenvalues coincide up to rounding ("Internal Error", for 110 of 4000 such matrices).
    """
    return float(scipy.linalg.eigvalsh(matrix, driver="evd")[number])


def root_mean_square(values: FloatArray) -> float:
    """The square root of the mean square; 0 of nothing."""
    return norm(values) / len(values) ** 0.5 if len(values) else 0.0


def chebyshev_transform(count: int) -> FloatArray:
    """Coefficients of Chebyshev's polynomials from values at `count` of his nodes, (m, m).

    At the nodes they are orthogonal: m / 2 is the sum of squares of each, m that of the first.
    """
    transform = chebyshev.chebvander(chebyshev.chebpts1(count), count - 1).T * (2 / count)
    transform[0] /= 2
    return np.asarray(transform)


def tail_mean(x: FloatArray, first: int, last: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The means of (1 - x)^j and of G_j over j = first, ..., last, last.shape + (r,), of x (r,) and finite last.

    >>> power, total = tail_mean(np.array([0.0, 0.5]), 1, np.array([2.0]))
    >>> print(power, total)
    [[1.    0.375]] [[1.5  1.25]]
    """
    count = np.asarray(last - first + 1)
    power, before = power_and_sum(x, np.asarray(float(first)))
    _, total = power_and_sum(x, count)
    terms = count[..., np.newaxis]
    with np.errstate(over="ignore", invalid="ignore"):
        # G_(first + i) = G_first + (1 - x)^first G_i, and of the first G_i, i < count, the mean is the ramp.
        return power * (total / terms), before + power * _ramp(x, terms, total)


def _ramp(x: FloatArray, count: FloatArray, total: FloatArray) -> FloatArray:
    """(G_0 + ... + G_(count - 1)) / count = (1 - G_count / count) / x, of which `total` is G_count."""
    with np.errstate(over="ignore", invalid="ignore"):
        value = (1 - total / count) / np.where(x == 0, 1.0, x)
        near = np.abs(x * count) < _NEAR_ZERO
        # G_L = sum over m of binom(L, m + 1) (-x)^m.
        series, term = np.zeros(near.shape), (count - 1) / 2 * np.ones(near.shape)
        for m in range(_TERMS):
            series = series + term
            term = term * (-x) * (count - 2 - m) / (m + 3)
    return np.where(near, series, value)


def moving_mean(x: FloatArray, decay: float, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The exponential moving averages of (1 - x)^j and of G_j after k = `count` epochs.

    With d the decay, the weights are (1 - d) d^(k - j) for j = 1, ..., k and d^k for j = 0. The averages are

        d^(k + 1) + (1 - d) h_k(1 - x, d)   and   (1 - d) h_(k - 1)(1, 1 - x, d),

    where h_m is the sum of all products of m of its arguments, with repetition: a divided difference of a power.

    >>> power, total = moving_mean(np.array([0.0, 0.5]), 0.5, np.array([2.0]))
    >>> print(power, total)
    [[1.  0.5]] [[1.25 1.  ]]
    """
    gap = 1 - decay
    # d^(k + 1) and h_k(1, d), (..., 1).
    left, total = power_and_sum(np.array([gap]), count + 1)
    mixed = _mixed(x, decay, count)
    _, plain = power_and_sum(x, count + 1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        power = left + gap * mixed
        # The two of the three arguments that are farthest apart are divided by.
        apart = np.where(np.abs(x) > gap, gap * (total - mixed) / np.where(x == 0, 1.0, x), plain - mixed)
        near = count[..., np.newaxis] * np.maximum(np.abs(x), gap) < _NEAR_ZERO
    return power, np.where(near, gap * _all_near_one(x, gap, count), apart)


def _mixed(x: FloatArray, decay: float, count: FloatArray) -> FloatArray:
    """h_k(1 - x, d) = ((1 - x)^(k + 1) - d^(k + 1)) / (1 - x - d)."""
    rate, gap = 1 - x, 1 - decay
    # With a the larger of the two it is a^k times a geometric sum in the smaller over the larger.
    larger = np.abs(rate) > decay
    highest = np.where(larger, x, gap)
    size = np.where(larger, rate, decay)
    lost = np.where(larger, gap - x, x - gap) / np.where(size == 0, 1.0, size)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(power_and_sum(highest, count)[0] * power_and_sum(lost, count + 1)[1])


def _all_near_one(x: FloatArray, gap: float, count: FloatArray) -> FloatArray:
    """h_(k - 1)(1, 1 - x, 1 - gap) = sum over m of binom(k + 1, m + 2) (-1)^m h_m(x, gap)."""
    terms = count[..., np.newaxis]
    series = np.zeros(count.shape + x.shape)
    binomial, both, power = terms * (terms + 1) / 2, np.ones(x.shape), np.ones(x.shape)
    with np.errstate(over="ignore", invalid="ignore"):
        for m in range(_TERMS):
            series = series + binomial * both
            binomial = -binomial * (terms - 1 - m) / (m + 3)
            power = power * x
            both = gap * both + power
    return series


def moving_power(decay: float, updates: float) -> tuple[float, float]:
    """decay^m and 1 - decay^(2 m) after m updates, the second without a difference of nearly equal numbers."""
    if decay == 0:
        return (0.0, 1.0) if updates else (1.0, 0.0)
    exponent = updates * math.log(decay)
    return math.exp(exponent), -math.expm1(2 * exponent)


@cache
def libraries() -> list[threadpoolctl.LibController]:
    """The BLAS libraries of numpy and scipy, found at the first call: looking for them takes a millisecond."""
    return list(threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers)


class _Limit:
    """One thread per library for as long as anyone asks for it; entered and left by any threads in any order."""

    def __init__(self, of_each_thread: bool = False) -> None:
        self._lock, self._depth, self._of_each_thread = Lock(), 0, of_each_thread
        self._before: list[int] = []

    @cached_property
    def libraries(self) -> list[threadpoolctl.LibController]:
        """Libraries whose number of threads is everyone's, or each thread's own, as OpenMP has it."""
        by_openmp = [getattr(library, "threading_layer", "") == "openmp" for library in libraries()]
        return [one for one, own in zip(libraries(), by_openmp, strict=True) if own is self._of_each_thread]

    def enter(self) -> None:
        """Limit the libraries to one thread, unless they are limited already."""
        with self._lock:
            if self._depth == 0:
                self._before = [library.get_num_threads() for library in self.libraries]
                self._set([1] * len(self._before))
            self._depth += 1

    def leave(self) -> None:
        """Restore the number of threads, unless another caller still limits it."""
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._set(self._before)

    def _set(self, counts: list[int]) -> None:
        for library, before, count in zip(self.libraries, self._before, counts, strict=True):
            if before > 1:
                # Newer versions listen to one thread alone, but any of ours may be the last to leave.
                release = getattr(library, "clear_controlling_thread", lambda force: None)
                release(force=True)
                library.set_num_threads(count)
                release(force=True)

    def threads(self) -> int:
        """The number of threads before the limit."""
        with self._lock:
            limited = self._depth > 0
            return max(
                self._before if limited else [lib.get_num_threads() for lib in self.libraries], default=1
            )


class _LimitOfEachThread(_Limit, local):
    """One thread per library, for libraries in which every thread starts more threads."""


_LIMITS = (_Limit(), _LimitOfEachThread(True))


class _Held:
    """BLAS with one thread while it is open; may be nested and entered from several threads."""

    def __enter__(self) -> None:
        for limit in _limits():
            limit.enter()

    def __exit__(self, *error: object) -> None:
        for limit in _limits():
            limit.leave()


@cache
def _limits() -> tuple[_Limit, ...]:
    """The limits that there are libraries for."""
    return tuple(limit for limit in _LIMITS if limit.libraries)


_HELD, _FREE = _Held(), nullcontext()


def one_thread() -> AbstractContextManager[None]:
    """Limit BLAS to one thread; a few microseconds, and one where it is limited already."""
    return _HELD


def few_threads(size: float) -> AbstractContextManager[None]:
    """Limit BLAS to one thread if `size`, the side of a square matrix of as much work, is small."""
    return _FREE if size >= _LARGE else _HELD


def workers() -> int:
    """The number of threads of BLAS before the limit to one."""
    return max(limit.threads() for limit in _LIMITS)


@contextmanager
def _reporting(failure: Callable[[], None]) -> Iterator[None]:
    """Call `failure` as soon as there is one: after all of the items is too late."""
    try:
        yield
    except BaseException:
        failure()
        raise


def each(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    size: float,
    abandon: Callable[[], None] = lambda: None,
) -> list[Result]:
    """function(item) for each of many independent items, side by side: what BLAS has for threads are ours here.

    `size` is the side of a square matrix of as much work as an item makes. Where one of the items fails, or the
    caller is interrupted, the others are waited for, and may learn it from `abandon`, which is called then.

    >>> each(lambda number: number**2, [1, 2, 3], size=100)
    [1, 4, 9]
    """
    items, allowed = list(items), workers()
    if len(items) < allowed and size >= _LARGE:
        return [function(item) for item in items]
    with one_thread():
        if min(allowed, len(items)) < 2 or size < _SPREAD:
            return [function(item) for item in items]
        handling = np.geterr()

        def guarded(item: Item) -> Result:
            # What is done about overflow belongs to a thread and is not inherited, as the number of threads may be.
            with one_thread(), np.errstate(**handling), _reporting(abandon):
                return function(item)

        with ThreadPoolExecutor(min(allowed, len(items))) as pool, _reporting(abandon):
            return list(pool.map(guarded, items))
