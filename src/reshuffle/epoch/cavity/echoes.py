"""What is particular to each sample in the cavity equation: a few numbers per sample, and Gram matrices they weigh.

Sample i's own influence on what it meets returns to it through the others like an echo,

    rho_i(0) = 1,   rho_i(t+1) = e sum_{s<=t} g_i(t-s) rho_i(s),   g_i(t) = sum_{s<=t} rho_i(t-s) gamma_i(s),

with gamma_i(t) = u_i'Gamma_t u_i for matrices Gamma_t that all samples share. With r(t) = rho(t+1) these are two
convolutions, r = e (g + g * r) and g = gamma + r * gamma, solved at the nodes by iteration.
"""

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray
from reshuffle.epoch.cavity.time_nodes import TimeNodes

_CHUNK = 1 << 14
"""Samples whose echoes are followed at a time."""
_MOST_ROUNDS = 200


class Echoes:
    """The echoes of samples u_i (n, k), at the nodes.

    Parameters
    ----------
    rows : (n, k)
    nodes : TimeNodes
    exclusion : float
        The weight e of a sample in the mean over all samples but one.
    tolerance : float
        Of sums over samples, relative to the largest of the functions of the visits that they are.
    """

    def __init__(self, rows: FloatArray, nodes: TimeNodes, exclusion: float, tolerance: float):
        self._rows, self._nodes, self._exclusion, self._tolerance = rows, nodes, exclusion, tolerance

    @property
    def alone(self) -> FloatArray:
        """rho(0) of every sample, (n,)."""
        return np.ones(len(self._rows))

    @cached_property
    def _squares(self) -> FloatArray:
        return np.square(self._rows)

    def follow(self, influence: FloatArray) -> FloatArray:
        """The echoes r_i (q, n) that matrices Gamma (q, k, k) make."""
        return self.of_meeting(self._meeting(influence))

    def of_meeting(self, gamma: FloatArray) -> FloatArray:
        """The echoes r_i (q, n) of what each sample meets of its own influence (q, n)."""
        return np.hstack(
            [
                echo_of(self._nodes.convolve_scalars, self._exclusion, gamma[:, start : start + _CHUNK])
                for start in range(0, gamma.shape[1], _CHUNK)
            ]
        )

    def _meeting(self, influence: FloatArray) -> FloatArray:
        """gamma (q, n): the diagonals of Gamma, and the few matrices of which all else consists."""
        diagonals = np.einsum("qkk->qk", influence)
        gamma = diagonals @ self._squares.T
        between = influence.copy()
        np.einsum("qkk->qk", between)[:] = 0.0
        flat = between.reshape(len(between), -1)
        for shape, matrix in leading(flat, self._tolerance * float(np.abs(gamma).max(initial=0.0))):
            along = np.einsum("ij,ij->i", self._rows @ matrix.reshape(influence.shape[1:]), self._rows)
            gamma += np.multiply.outer(shape, along)
        return np.asarray(gamma)

    def weighted_grams(self, echo: FloatArray) -> FloatArray:
        """sum_i r_i u_i u_i' (q, k, k) at every node, of weights (q, n)."""
        k = self._rows.shape[1]
        total = np.zeros((len(echo), k * k))
        size = float(np.linalg.norm(echo, axis=1).max(initial=0.0))
        for shape, weights in leading(echo, self._tolerance * size):
            gram = self._rows.T @ (weights[:, np.newaxis] * self._rows)
            total += np.multiply.outer(shape, gram.ravel())
        return total.reshape(len(echo), k, k)

    def weighted_images(self, weights: FloatArray, maps: FloatArray, tolerance: float) -> FloatArray:
        """sum_q weights[q, i] maps[q] u_i for every sample, (n, m), for maps (q, m, k), to a relative tolerance."""
        flat = maps.reshape(len(maps), -1)
        images = np.zeros((len(self._rows), maps.shape[1]))
        # What all samples have in common is the larger part, and costs one product whatever the tolerance.
        size = tolerance * float(np.linalg.norm(weights, axis=1).max(initial=0.0))
        for shape, own in leading(weights, size):
            images += (own[:, np.newaxis] * self._rows) @ (shape @ flat).reshape(maps.shape[1:]).T
        return images


def echo_of(
    convolve: Callable[[FloatArray, FloatArray], FloatArray], exclusion: float, gamma: FloatArray
) -> FloatArray:
    """The solution r of r = e (g + g * r) and g = gamma + r * gamma, of numbers or of matrices per sample."""
    echo = exclusion * gamma
    for _ in range(_MOST_ROUNDS):
        met = gamma + convolve(echo, gamma)
        following = exclusion * (met + convolve(met, echo))
        change = float(np.abs(following - echo).max(initial=0.0))
        echo = following
        if not change > 1e-12 * float(np.abs(echo).max(initial=0.0)):
            break
    return np.asarray(echo)


def leading(matrix: FloatArray, threshold: float) -> Iterator[tuple[FloatArray, FloatArray]]:
    """The terms (q,), (n,) of a singular value decomposition of (q, n) that are above a threshold.

    From the Gram matrix of the rows: singular values below 1e-8 of the largest are rounding, and left out.
    """
    values, vectors = scipy.linalg.eigh(matrix @ matrix.T, check_finite=False)
    floor = max(threshold**2, 1e-15 * float(values[-1]) if len(values) else 0.0)
    for value, vector in zip(values[::-1], vectors.T[::-1], strict=True):
        if value > floor:
            yield vector, vector @ matrix
