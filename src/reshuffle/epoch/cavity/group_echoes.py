"""The same echoes where a sample is several rows that are visited together, such as the outputs of a network.

Sample i is a matrix U_i (m, k) of m rows, and all that is a number for a single row is a matrix (m, m):

    rho_i(0) = I,   rho_i(t+1) = e sum_{s<=t} g_i(t-s) rho_i(s),   g_i(t) = sum_{s<=t} rho_i(t-s) gamma_i(s),

with gamma_i(t) = U_i Gamma_t U_i'. Samples speak to each other through sum_i U_i'rho_i(t) U_i alone. Since the
generating function of rho is (I - e z g(z))^-1, it is the same from either side, whether or not the g_i commute.
"""

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.epoch.cavity.echoes import echo_of, leading
from reshuffle.epoch.cavity.time_nodes import TimeNodes

_CHUNK = 1 << 24
"""Numbers that are held at a time beside the echoes themselves."""


class GroupEchoes:
    """The echoes of samples of `size` consecutive rows each, at the nodes.

    Parameters
    ----------
    rows : (n * size, k)
    size : int
        m, the rows of a sample.
    nodes, exclusion, tolerance
        As in `Echoes`.
    """

    def __init__(self, rows: FloatArray, size: int, nodes: TimeNodes, exclusion: float, tolerance: float):
        self._nodes, self._exclusion, self._tolerance = nodes, exclusion, tolerance
        self._samples = rows.reshape(-1, size, rows.shape[1])

    @property
    def alone(self) -> FloatArray:
        """rho(0) of every sample, (n, m, m)."""
        n, size, _ = self._samples.shape
        return np.broadcast_to(np.eye(size), (n, size, size))

    def follow(self, influence: FloatArray) -> FloatArray:
        """The echoes r_i (q, n, m, m) that matrices Gamma (q, k, k) make."""
        meeting = self._meeting(influence)
        q, n, size, _ = meeting.shape
        height = max(1, _CHUNK // (q * q * size * size))
        parts = [
            echo_of(self._nodes.convolve_samples, self._exclusion, meeting[:, start : start + height])
            for start in range(0, n, height)
        ]
        return np.concatenate(parts, axis=1)

    def _meeting(self, influence: FloatArray) -> FloatArray:
        """gamma (q, n, m, m): the diagonals of Gamma, and the few matrices of which all else consists."""
        diagonals = np.einsum("qkk->qk", influence)
        gamma = np.stack([self._between(self._samples * diagonal) for diagonal in diagonals])
        off = influence.copy()
        np.einsum("qkk->qk", off)[:] = 0.0
        flat = off.reshape(len(off), -1)
        for shape, matrix in leading(flat, self._tolerance * float(np.abs(gamma).max(initial=0.0))):
            along = self._between(self._samples @ matrix.reshape(influence.shape[1:]))
            gamma += np.multiply.outer(shape, along)
        return np.asarray(gamma)

    def _between(self, seen: FloatArray) -> FloatArray:
        """Each sample's rows (n, m, k) with its own, (n, m, m)."""
        return np.asarray(seen @ self._samples.swapaxes(1, 2))

    def weighted_grams(self, echo: FloatArray) -> FloatArray:
        """sum_i U_i'r_i U_i (q, k, k) at every node, of weights (q, n, m, m)."""
        k = self._samples.shape[2]
        rows = self._samples.reshape(-1, k)
        total = np.zeros((len(echo), k * k))
        flat = echo.reshape(len(echo), -1)
        size = float(np.linalg.norm(flat, axis=1).max(initial=0.0))
        for shape, weights in leading(flat, self._tolerance * size):
            weighed = (weights.reshape(echo.shape[1:]) @ self._samples).reshape(-1, k)
            total += np.multiply.outer(shape, (rows.T @ weighed).ravel())
        return total.reshape(-1, k, k)

    def weighted_images(self, weights: FloatArray, maps: FloatArray, tolerance: float) -> FloatArray:
        """The columns of sum_q maps[q] U_i'weights[q, i] for every sample, as rows (n m, d), for maps (q, d, k)."""
        k = self._samples.shape[2]
        flat = weights.reshape(len(weights), -1)
        images = np.zeros((self._samples.shape[0] * self._samples.shape[1], maps.shape[1]))
        threshold = tolerance * float(np.linalg.norm(flat, axis=1).max(initial=0.0))
        for shape, own in leading(flat, threshold):
            weighed = own.reshape(weights.shape[1:]).swapaxes(1, 2) @ self._samples
            images += weighed.reshape(-1, k) @ np.tensordot(shape, maps, 1).T
        return images
