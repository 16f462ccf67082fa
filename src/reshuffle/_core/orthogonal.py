"""QR and singular value decompositions, as this package uses them."""

from typing import cast

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from reshuffle._core.arrays import FloatArray

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
