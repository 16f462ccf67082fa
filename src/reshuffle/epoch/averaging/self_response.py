"""What is particular to each sample in the cavity equation: a few numbers per sample, and Gram matrices they weigh.

Sample i's own influence on what it meets returns to it through the others like an echo,

    rho_i(0) = 1,   rho_i(t+1) = e sum_{s<=t} g_i(t-s) rho_i(s),   g_i(t) = sum_{s<=t} rho_i(t-s) gamma_i(s),

with gamma_i(t) = u_i'Gamma_t u_i for matrices Gamma_t that all samples share. With r(t) = rho(t+1) these are two
convolutions, r = e (g + g * r) and g = gamma + r * gamma, solved at the nodes by iteration.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray

# Functions of the visits of an epoch, known from their values at a few of the visits.
#
# What the visits of an epoch do to a mode is close to a power of what one visit does to it. So the functions
# that
# arise, of how many visits were made, all but lie in the span of a few: the leading singular vectors of those
# powers,
# and of powers times time, which is what a small change makes of them. A function of that span is known from
# its
# values at as many visits, which a pivoted QR decomposition chooses.


@dataclass(frozen=True, eq=False)
class TimeNodes:
    """Visits at which functions of the visits 0 .. B-1 are computed, and how to go on from there to all others.

    Attributes
    ----------
    nodes : (q,)
        Ascending.
    rule : (B, q)
        f(t) = sum_a rule[t, a] f(nodes[a]).
    """

    nodes: IntArray
    rule: FloatArray

    @classmethod
    def spanning(cls, shapes: FloatArray, tolerance: float) -> "TimeNodes":
        """Nodes for functions (B, any number) of the visits, to a tolerance relative to the largest.

        >>> shapes = 0.9 ** np.outer(np.arange(50), [1.0, 2.0, 3.0])
        >>> found = TimeNodes.spanning(shapes, 1e-12)
        >>> bool(np.allclose(found.rule @ shapes[found.nodes], shapes, atol=1e-10)), len(found.nodes)
        (True, 3)
        """
        left, singular, _ = scipy.linalg.svd(shapes, full_matrices=False, check_finite=False)
        count = max(1, int((singular > tolerance * singular[0]).sum()))
        basis = left[:, :count]
        _, _, pivots = scipy.linalg.qr(basis.T, mode="economic", pivoting=True, check_finite=False)
        nodes = np.sort(pivots[:count]).astype(np.int64)
        rule = scipy.linalg.solve(basis[nodes].T, basis.T, check_finite=False).T
        rule[nodes] = np.eye(count)
        return cls(nodes, rule)

    @property
    def steps(self) -> int:
        """B."""
        return len(self.rule)

    @cached_property
    def convolution(self) -> FloatArray:
        """C (q, q, q): sum_{u<t} f(t-1-u) g(u) at node t is sum_ab C[t, a, b] f_a g_b."""
        return np.array([self.convolution_at(t) for t in self.nodes.tolist()])

    def convolution_at(self, t: int) -> FloatArray:
        """The same (q, q) at any t from 0 to B."""
        return np.asarray(self.rule[:t][::-1].T @ self.rule[:t])

    def summed_convolution(self, until: int) -> FloatArray:
        """R (q, q): sum_{t<until} sum_{s<t} r(t-1-s) h(s) is sum_ab R[a, b] h_a r_b."""
        # Summed over t, each h(s) meets the sums of r up to what is left after s.
        sums = np.cumsum(self.rule, axis=0)
        weights = np.zeros((until, len(self.nodes)))
        weights[: until - 1] = sums[: until - 1][::-1]
        return np.asarray(self.rule[:until].T @ weights)

    def convolve(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """The convolution at the nodes, (q, a, c), of matrices (q, a, b) and (q, b, c) that depend on the visit."""
        visits, shared, columns = second.shape
        side = np.ascontiguousarray(first.swapaxes(0, 1)).reshape(first.shape[1], visits * shared)
        flat = second.reshape(visits, shared * columns)
        return np.array([side @ (at @ flat).reshape(visits * shared, columns) for at in self.convolution])

    def convolve_samples(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """The same for matrices (q, samples, m, m), of each sample by itself."""
        q, samples, size, _ = first.shape
        side = np.moveaxis(first, 0, 2).reshape(samples, size, q * size)
        flat = second.reshape(q, -1)
        at = ((rule @ flat).reshape(q, samples, size, size) for rule in self.convolution)
        return np.array([side @ np.moveaxis(each, 0, 1).reshape(samples, q * size, size) for each in at])

    def convolve_scalars(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """The same for numbers (q, samples), of each sample by itself."""
        return np.array([np.einsum("an,an->n", first, at @ second) for at in self.convolution])


_CHUNK = 1 << 14
"""Samples whose echoes are followed at a time."""
_MOST_ROUNDS = 200
_FEW_ROUNDS = 2
_RUNS_AWAY = 1e4
"""The response of a sample to itself, over an epoch, from which on it explodes; others reach a hundred."""


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
                echo_of(self._nodes.convolve_scalars, self._exclusion, part, self._nodes.steps)
                for part in (gamma[:, start : start + _CHUNK] for start in range(0, gamma.shape[1], _CHUNK))
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
    convolve: Callable[[FloatArray, FloatArray], FloatArray],
    exclusion: float,
    gamma: FloatArray,
    steps: int,
    begin: FloatArray | None = None,
    tolerance: float = 1e-12,
) -> FloatArray:
    """The solution r of r = e (g + g * r) and g = gamma + r * gamma, of numbers or of matrices per sample.

    By iteration from `begin` on, until the largest entry stays as it is; infinite where it runs away.
    """
    echo = exclusion * gamma if begin is None else begin
    # What is begun with is that of the round before, and the next comes soon.
    for _ in range(_MOST_ROUNDS if begin is None else _FEW_ROUNDS):
        met = gamma + convolve(echo, gamma)
        following = exclusion * (met + convolve(met, echo))
        change = float(np.abs(following - echo).max(initial=0.0))
        echo, size = following, float(np.abs(following).max(initial=0.0))
        if not change > tolerance * size:
            break
        if not steps * size < _RUNS_AWAY:
            return np.full_like(echo, np.inf)
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


# The same echoes where a sample is several rows that are visited together, such as the outputs of a network.
#
# Sample i is a matrix U_i (m, k) of m rows, and all that is a number for a single row is a matrix (m, m):
#
#     rho_i(0) = I,   rho_i(t+1) = e sum_{s<=t} g_i(t-s) rho_i(s),   g_i(t) = sum_{s<=t} rho_i(t-s) gamma_i(s),
#
# with gamma_i(t) = U_i Gamma_t U_i'. Samples speak to each other through sum_i U_i'rho_i(t) U_i alone. Since
# the
# generating function of rho is (I - e z g(z))^-1, it is the same from either side, whether or not the g_i
# commute.

_GROUP_CHUNK = 1 << 24
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
        self._last: FloatArray | None = None

    @property
    def alone(self) -> FloatArray:
        """rho(0) of every sample, (n, m, m)."""
        n, size, _ = self._samples.shape
        return np.broadcast_to(np.eye(size), (n, size, size))

    def follow(self, influence: FloatArray) -> FloatArray:
        """The echoes r_i (q, n, m, m) that matrices Gamma (q, k, k) make."""
        meeting = self._meeting(influence)
        q, n, size, _ = meeting.shape
        height = max(1, _GROUP_CHUNK // (q * q * size * size))
        parts = []
        for start in range(0, n, height):
            part = slice(start, start + height)
            # Products of matrices are dear: from the last round on, and to no more digits than are asked for.
            parts.append(
                echo_of(
                    self._nodes.convolve_samples, self._exclusion, meeting[:, part], self._nodes.steps,
                    None if self._last is None else self._last[:, part], 1e-2 * self._tolerance,
                )
            )  # fmt: skip
        self._last = np.concatenate(parts, axis=1)
        return self._last

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


# Convolutions of matrices that depend on the visit, where these are nearly diagonal.
#
# In the coordinates of the modes all that an epoch does is diagonal but for what is particular to samples. So
# a path
# is split into its diagonal and the few matrices of which, times functions of the visit, all else consists:
# diagonals
# cost no products, and where two of the others meet, which is of second order, a product is taken only if it
# counts.


@dataclass(frozen=True, eq=False)
class NearlyDiagonal:
    """A path (q, k, k) as diag(d_t) + sum_j shapes[j, t] matrices[j], to an accuracy in Frobenius norm.

    Attributes
    ----------
    diagonal : (q, k)
    shapes : list of (q,)
    matrices : list of (k, k)
        Without diagonals.
    """

    diagonal: FloatArray
    shapes: list[FloatArray]
    matrices: list[FloatArray]

    @classmethod
    def of(cls, path: FloatArray, threshold: float) -> "NearlyDiagonal":
        """Split a path (q, k, k), up to terms below a threshold."""
        diagonal = np.einsum("qkk->qk", path).copy()
        off = path.copy()
        np.einsum("qkk->qk", off)[:] = 0.0
        terms = list(leading(off.reshape(len(off), -1), threshold))
        return cls(
            diagonal, [shape for shape, _ in terms], [flat.reshape(path.shape[1:]) for _, flat in terms]
        )


def convolve_nearly_diagonal(
    nodes: TimeNodes, first: FloatArray, second: FloatArray, tolerance: float
) -> FloatArray:
    """The convolution at the nodes, (q, k, k), of paths (q, k, k), to a tolerance relative to its largest entry.

    >>> nodes = TimeNodes.spanning(0.9 ** np.outer(np.arange(20), [1.0, 2.0]), 1e-12)
    >>> path = np.array([[[1.0, 0.1], [0.1, 0.5]], [[0.8, 0.0], [0.2, 0.4]]])
    >>> bool(np.allclose(convolve_nearly_diagonal(nodes, path, path, 1e-12), nodes.convolve(path, path)))
    True
    """
    sizes = float(np.abs(first).max(initial=0.0)), float(np.abs(second).max(initial=0.0))
    left = NearlyDiagonal.of(first, tolerance * sizes[0])
    right = NearlyDiagonal.of(second, tolerance * sizes[1])
    k = first.shape[1]
    made = np.zeros((len(nodes.nodes), k, k))
    np.einsum("qkk->qk", made)[:] = nodes.convolve_scalars(left.diagonal, right.diagonal)
    for shape, matrix in zip(left.shapes, left.matrices, strict=True):
        scales = nodes.convolve_scalars(shape[:, np.newaxis], right.diagonal)
        for at, scale in zip(made, scales, strict=True):
            at += matrix * scale
    for shape, matrix in zip(right.shapes, right.matrices, strict=True):
        scales = nodes.convolve_scalars(left.diagonal, shape[:, np.newaxis])
        for at, scale in zip(made, scales, strict=True):
            at += scale[:, np.newaxis] * matrix
    _add_products(nodes, left, right, made, tolerance * float(np.abs(made).max(initial=0.0)))
    return made


def _add_products(
    nodes: TimeNodes, left: NearlyDiagonal, right: NearlyDiagonal, made: FloatArray, threshold: float
) -> None:
    """Add the products of terms with terms that are above a threshold in Frobenius norm."""
    for shape, matrix in zip(left.shapes, left.matrices, strict=True):
        for other, beside in zip(right.shapes, right.matrices, strict=True):
            weights = nodes.convolve_scalars(shape[:, np.newaxis], other[:, np.newaxis])[:, 0]
            most = np.abs(weights).max(initial=0.0) * np.linalg.norm(matrix) * np.linalg.norm(beside)
            if most > threshold:
                product = matrix @ beside
                for at, weight in zip(made, weights, strict=True):
                    at += weight * product
