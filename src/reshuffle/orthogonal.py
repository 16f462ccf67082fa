"""QR decompositions, as this package uses them."""

from typing import cast

import scipy.linalg

from reshuffle.arrays import FloatArray


def thin_qr(matrix: FloatArray, *, overwrite: bool = False) -> tuple[FloatArray, FloatArray]:
    """U with orthonormal columns and R upper triangular, matrix = U R."""
    factors = scipy.linalg.qr(matrix, mode="economic", overwrite_a=overwrite, check_finite=False)
    return cast("tuple[FloatArray, FloatArray]", factors)


def triangle(matrix: FloatArray) -> FloatArray:
    """R alone, with no more rows than columns."""
    (upper,) = scipy.linalg.qr(matrix, mode="r", check_finite=False)
    return cast("FloatArray", upper)[: matrix.shape[1]]
