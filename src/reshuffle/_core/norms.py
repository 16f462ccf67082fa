"""Euclidean norms without squares that leave the range of numbers."""

import numpy as np

from reshuffle._core.arrays import FloatArray

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
    """The norm of all entries together, of a matrix that of Frobenius.

    >>> norm(np.array([[3e200], [4e200]]))
    5e+200
    """
    return float(norms(values.ravel()))


def row_norms(matrix: FloatArray) -> FloatArray:
    """The norms of the rows, at the price of one pass where their squares are numbers."""
    with np.errstate(over="ignore", under="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix)
    smallest, largest = squares.min(initial=np.inf), squares.max(initial=0.0)
    if smallest > _ROOT_OF_RANGE**-2 and largest < _ROOT_OF_RANGE**2:
        return np.asarray(np.sqrt(squares))
    return norms(matrix)
