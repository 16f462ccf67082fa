"""Small numerical pieces: norms at the ends of the range, orthogonal factors, powers and their sums."""

from typing import cast

import numpy as np
import scipy.linalg
from numpy.polynomial import chebyshev
from scipy.linalg import lapack

from reshuffle._core import FloatArray

_ROOT_OF_RANGE = 1e140
"""Numbers below this have squares, and sums of many of them, within the range of float64."""


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


def row_norms(matrix: FloatArray) -> FloatArray:
    """The norms of the rows, at the price of one pass where their squares are numbers."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix)
    smallest, largest = squares.min(initial=np.inf), squares.max(initial=0.0)
    if smallest > _ROOT_OF_RANGE**-2 and largest < _ROOT_OF_RANGE**2:
        return np.asarray(np.sqrt(squares))
    return norms(matrix)


_LOG_OF_ZERO = -1e250
"""Stands for log(0): its exponential is 0, and 0 times it is 0."""
_FADED = -750.0
"""Exponents below have an exponential of zero."""
_NEAR = 0.5
"""Exponents nearer to zero than this need expm1; beyond, 1 - exp(e) loses at most a bit."""


def power_and_sum(x: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(1 - x)^k and 1 + (1 - x) + ... + (1 - x)^(k - 1), each of shape count.shape + x.shape.

    For x = 0 the sum is k itself: the k P_0 term of Lemma geometric_series_pinv. Where the powers have no
    limit (x < 0 or x >= 2) the infinite ones are +inf: divergence is an answer.

    Parameters
    ----------
    x : (r,)
    count : any shape
        k, whole numbers >= 0 or infinity.

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
    power, rest = _power_and_rest(x, terms)
    with np.errstate(over="ignore"):
        total = rest / np.where(x == 0, 1.0, x)
    total[..., x == 0] = terms[..., np.newaxis]
    settles = (x > 0) & (x < 2)
    with np.errstate(divide="ignore", over="ignore"):
        power[forever] = np.where(x == 0, 1.0, np.where(settles, 0.0, np.inf))
        total[forever] = np.where(settles, 1 / np.where(x == 0, 1.0, x), np.inf)
    return power, total


def _power_and_rest(x: FloatArray, count: FloatArray) -> tuple[FloatArray, FloatArray]:
    """p = (1 - x)^k and 1 - p, for finite k."""
    with np.errstate(divide="ignore"):
        # x - 2 and 1 - x are exact where their logarithms are near zero.
        logarithm = np.where(x < 1, np.log1p(-np.minimum(x, 1.0)), np.log1p(np.maximum(x, 1.0) - 2))
    logarithm = np.maximum(logarithm, _LOG_OF_ZERO)
    power, rest = np.zeros(count.shape + x.shape), np.ones(count.shape + x.shape)
    # Modes that have faded out before the first count are not worth an exponential, a slow one at that.
    alive = logarithm * count.min(initial=np.inf if count.size else 0.0) > _FADED
    power[..., alive], rest[..., alive] = _alive_power_and_rest(x[alive], logarithm[alive], count)
    return power, rest


def _alive_power_and_rest(x: FloatArray, logarithm: FloatArray, count: FloatArray) -> tuple[FloatArray, ...]:
    exponent = count[..., np.newaxis] * logarithm
    with np.errstate(over="ignore", under="ignore"):
        power = np.exp(exponent)
    rest = 1 - power
    near = np.abs(exponent) < _NEAR
    rest[near] = -np.expm1(exponent[near])
    # Above 1 the base is negative, and so are its odd powers.
    below = x > 1
    if below.any():
        is_odd = (np.mod(count, 2) == 1)[..., np.newaxis] & below
        rest[is_odd] = 1 + power[is_odd]
        power[is_odd] *= -1
    return power, rest


_ANY_METHOD_IS_ACCURATE = 1e-3
"""Ratio of extreme singular values above which the small ones have thirteen digits by any method."""
_FULL_PIVOTING = 2
"""LAPACK's JOBA = 'F'."""


def thin_qr(matrix: FloatArray, *, overwrite: bool = False) -> tuple[FloatArray, FloatArray]:
    """U with orthonormal columns and R upper triangular, matrix = U R."""
    factors = scipy.linalg.qr(matrix, mode="economic", overwrite_a=overwrite, check_finite=False)
    return cast("tuple[FloatArray, FloatArray]", factors)


def triangle(matrix: FloatArray) -> FloatArray:
    """R alone, with no more rows than columns."""
    (upper,) = scipy.linalg.qr(matrix, mode="r", check_finite=False)
    return cast("FloatArray", upper)[: matrix.shape[1]]


def graded_svd(matrix: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """U (m, r), s (r,) descending and V (r, r) with matrix = U diag(s) V', for m >= r.

    The usual algorithm knows small singular values up to eps times the largest. Where they are small because a
    row or a column is, in other units for example, Jacobi's method has all their digits, in a few times the time.

    >>> _, values, _ = graded_svd(np.array([[3.0, 4e-20], [4.0, -3e-20]]))
    >>> print(values)
    [5.e+00 5.e-20]
    """
    if not matrix.shape[1]:
        return matrix, np.zeros(0), np.zeros((0, 0))
    left, values, right = scipy.linalg.svd(matrix, full_matrices=False, check_finite=False)
    if values[-1] >= _ANY_METHOD_IS_ACCURATE * values[0]:
        return left, values, right.T
    values, left, right, scales, _, info = lapack.dgejsv(matrix, joba=_FULL_PIVOTING)
    if info != 0:
        raise ArithmeticError(f"the singular values of the features did not settle (LAPACK says {info}).")
    return left, np.asarray(values * (scales[0] / scales[1])), right


def eigenvalue(matrix: FloatArray, number: int) -> float:
    """One eigenvalue of a symmetric matrix, counted from the smallest, or from the largest if negative.

    All of them are computed: LAPACK's bisection for a single one, `subset_by_index`, takes four fifths of the time,
    but fails where eigenvalues coincide up to rounding ("Internal Error", for 110 of 4000 such matrices).

    >>> round(eigenvalue(np.array([[2.0, 1.0], [1.0, 2.0]]), -1), 12)
    3.0
    """
    return float(scipy.linalg.eigvalsh(matrix, driver="evd")[number])


def root_mean_square(values: FloatArray) -> float:
    """The square root of the mean square; 0 of nothing.

    >>> round(root_mean_square(np.array([3.0, 4.0])), 4)
    3.5355
    """
    return norm(values) / len(values) ** 0.5 if len(values) else 0.0


def chebyshev_transform(count: int) -> FloatArray:
    """Coefficients of Chebyshev's polynomials from values at `count` of his nodes, (m, m).

    At the nodes they are orthogonal: m / 2 is the sum of squares of each, m that of the first.

    >>> print(chebyshev_transform(3) @ np.square(chebyshev.chebpts1(3)))
    [0.5 0.  0.5]
    """
    transform = chebyshev.chebvander(chebyshev.chebpts1(count), count - 1).T * (2 / count)
    transform[0] /= 2
    return np.asarray(transform)
