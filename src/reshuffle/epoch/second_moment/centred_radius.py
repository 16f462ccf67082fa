"""Spectral radii of the positive maps that centred maps make, and how far they may be off.

A radius is not linear in what was drawn: a few draws make it too large. The radius from each half of the draws
has twice that bias, to leading order, and what it is larger by is taken off once.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigs

from reshuffle._arrays import AnyArray, FloatArray
from reshuffle._uncertainty import error_of_mean
from reshuffle.epoch.second_moment.centred_course import MeanSum
from reshuffle.epoch.second_moment.centred_maps import CentredMaps

Map = Callable[[FloatArray], FloatArray]

_WRITTEN_OUT = 200
"""Entries of a symmetric matrix up to which a map of them is written out."""
_KRYLOV = 24


@dataclass(frozen=True)
class Radius:
    """A spectral radius, and how far it may be off."""

    value: float
    error: float


def rate(maps: CentredMaps) -> Radius:
    """The spectral radius of M -> Abar M Abar' + E[D M D']."""
    return _unbiased(maps, _of_rate)


def gain(maps: CentredMaps) -> Radius:
    """That of M -> the sum of Abar^j E[D M D'] Abar'^j over all j: how much the spread feeds itself.

    Infinite where the mean diverges.
    """
    return _unbiased(maps, _of_gain)


def _unbiased(maps: CentredMaps, of: Callable[[CentredMaps], tuple[float, FloatArray]]) -> Radius:
    value, moved = of(maps)
    if not np.isfinite(value):
        return Radius(np.inf, 0.0)
    half = maps.groups // 2
    halves = [of(maps.some(slice(half)))[0], of(maps.some(slice(half, None)))[0]]
    bias = float(np.mean(halves)) - value
    return Radius(max(value - bias, 0.0), float(error_of_mean(moved)) + abs(bias))


def _of_rate(maps: CentredMaps) -> tuple[float, FloatArray]:
    """The radius, and what each group would make of it to first order (groups,)."""
    mean = maps.mean

    def forth(matrix: FloatArray) -> FloatArray:
        return np.asarray(mean @ matrix @ mean.T + maps.of_groups(matrix).mean(axis=0))

    def back(matrix: FloatArray) -> FloatArray:
        return mean.T @ matrix @ mean + maps.weighed(matrix)

    value, right, left = perron(forth, back, maps.dimension)
    return value, _moved(maps, right, left, float(np.vdot(left, right)))


def _of_gain(maps: CentredMaps) -> tuple[float, FloatArray]:
    through = MeanSum.of(maps.mean)
    if through is None:
        return np.inf, np.zeros(maps.groups)

    def forth(matrix: FloatArray) -> FloatArray:
        return through.solve(maps.of_groups(matrix).mean(axis=0))

    def back(matrix: FloatArray) -> FloatArray:
        return maps.weighed(through.adjoint(matrix))

    value, right, left = perron(forth, back, maps.dimension)
    return value, _moved(maps, right, through.adjoint(left), float(np.vdot(left, right)))


def _moved(maps: CentredMaps, right: FloatArray, left: FloatArray, size: float) -> FloatArray:
    """A radius moves by <left, dE(right)> / <left, right>."""
    added = maps.of_groups(right).reshape(maps.groups, -1) @ left.ravel()
    return np.asarray(added / size) if size else np.zeros(maps.groups)


def perron(forth: Map, back: Map, dimension: int) -> tuple[float, FloatArray, FloatArray]:
    """The spectral radius of a positive map of symmetric matrices (d, d), and its right and left eigenmatrices.

    It is the eigenvalue with the largest real part. `back` is the adjoint of `forth` for the trace of products.

    >>> value, right, left = perron(lambda M: M / 2, lambda M: M / 2, 1)
    >>> value, abs(right).item(), abs(left).item()
    (0.5, 1.0, 1.0)
    """
    upper = np.triu_indices(dimension)
    # Entries off the diagonal count twice in the trace of a product.
    weights = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))

    def unpacked(packed: FloatArray) -> FloatArray:
        matrix = np.zeros((dimension, dimension))
        matrix[upper] = packed / weights
        return matrix + np.triu(matrix, 1).T

    def packing(of: Map) -> Map:
        return lambda packed: of(unpacked(packed))[upper] * weights

    size = len(weights)
    if size <= _WRITTEN_OUT:
        written = np.array([packing(forth)(unit) for unit in np.eye(size)]).T
        values, lefts, rights = scipy.linalg.eig(written, left=True, check_finite=False)
        place = int(np.argmax(values.real))
        return float(values[place].real), unpacked(rights[:, place].real), unpacked(lefts[:, place].real)
    start = np.eye(dimension)[upper]
    value, right = _largest(packing(forth), start)
    _, left = _largest(packing(back), start)
    return value, unpacked(right), unpacked(left)


def _largest(of: Map, start: FloatArray) -> tuple[float, FloatArray]:
    operator = LinearOperator((len(start), len(start)), matvec=of, dtype=np.float64)
    try:
        values: AnyArray
        vectors: AnyArray
        values, vectors = eigs(operator, k=1, which="LR", v0=start, ncv=_KRYLOV, tol=1e-9, maxiter=50)
    except ArpackNoConvergence as unfinished:
        values, vectors = np.asarray(unfinished.eigenvalues), np.asarray(unfinished.eigenvectors)
        if not len(values):
            raise ArithmeticError(
                "the spectral radius of the second moments did not settle; try a smaller step, or a penalty."
            ) from None
    return float(values[0].real), np.asarray(vectors[:, 0].real)
