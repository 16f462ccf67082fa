"""The cavity equation: the mean over orders of shuffled samples, in polynomial time.

Every epoch visits the n samples in a uniformly random order, cut into B batches (`Visiting` has the visit). Let
G_t = I - Y K_t be the mean of the first t visits, and a_i(t) = u_i'Q E[first t visits | sample i not among them].
A sample is visited once per epoch, so what it meets on its turn is the work of the others:

    K_{t+1} = K_t + K_0 G_t + w P S_t,   S_t = sum_i u_i a_i(t)                                      (exact).

Take sample i out of the first t visits, and some other sample is in its place, each as likely as any. What i did
itself, w a_i(t-1-s) Y P u_i a_i(s) at visit s, is given back, and what the others do on average is taken:

    a_i(t) = u_i'Q H_t + e sum_{s<t} g_i(t-1-s) a_i(s),   g_i(t) = a_i(t) Y P u_i,   e = w n / (n-1),
    H_t    = G_t - e sum_{s<t} mean_j E[t-1-s visits | not j] Y P u_j u_j'Q E[s visits | not j].

The closure: in the last mean a sample is left out of one side at a time, E' E - mean E' mean E where both would
be, plus each side's own mean. All that is neglected is of samples that meet each other crosswise, i, j, i, j; it is
of order 1/n^2, and nothing if there are two batches. The equation for a_i is solved by numbers per sample,
a_i(t) = sum_{s<=t} rho_i(t-s) u_i'Q H_s (`SelfResponses`), so that samples act on each other through the k x k
matrices M_t = sum_i rho_i(t) u_i u_i' alone. All functions of the visits are computed at few of them (`TimeNodes`),
and the path is found by iteration: each round takes a few weighted Gram matrices and products of small matrices.
A sample may also be a matrix U_i of m rows that are visited together: then rho_i(t) is m x m.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._progress import track

_MOST_MODES, _DEGREES, _FEWEST_SHAPES = 200, 4, 24
"""Modes and powers of time whose functions of the visits the nodes are chosen for, and their least number."""
_FINEST_SPAN, _COARSEST_SPAN = 1e-9, 1e-6
"""Functions of the visits that are smaller than that, relative to the largest, are left out."""
_COARSEST_RESPONSE = 1e-3  # the largest tolerance of self responses, relative to the largest of them
_MOST_ROUNDS, _MOST_RESPONSE_ROUNDS = 60, 200  # rounds of the equation, and of self responses
_FIRST_RESPONSE = 1e-3
"""Tolerance of the self responses of groups in the first round, whose influence is not known any better."""
_MARGIN = 10.0
"""Rounds end where the next is expected to change the mean map by so much less than the tolerance."""
_RUNS_AWAY = 1e4
"""The self response of a sample over an epoch from which on it explodes; others reach a hundred."""
_CHUNK, _GROUP_CHUNK = 1 << 14, 1 << 24
"""Samples of one row, or numbers of samples of several rows, whose self responses are computed at a time."""
_MANY_MODES = 100
"""Modes from which on products of matrices take longer than to find what can be left out of them."""
_OF_TOLERANCE = 0.1  # the share of the tolerance that may be left out of a product


@dataclass(frozen=True, eq=False)
class TimeNodes:
    """A few of the visits 0 .. B-1, from which functions of the visits are interpolated.

    The visits of an epoch act on a mode nearly like a power of one visit. So the functions that arise nearly lie in
    the span of few: the leading singular vectors of those powers, and of powers times time, which small changes
    make of them. A function of that span is known from its values at as many visits, chosen by a pivoted QR.
    """

    nodes: IntArray  # (q,), ascending
    rule: FloatArray  # (B, q): f(t) = sum_a rule[t, a] f(nodes[a])

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
        nodes = np.sort(pivots[:count]).astype(np.intp)
        rule = scipy.linalg.solve(basis[nodes].T, basis.T, check_finite=False).T
        rule[nodes] = np.eye(count)
        return cls(nodes, rule)

    @cached_property
    def convolution(self) -> FloatArray:
        """C (q, q, q): sum_{u<t} f(t-1-u) g(u) at node t is sum_ab C[t, a, b] f_a g_b."""
        return np.array([self.convolution_at(t) for t in self.nodes.tolist()])

    def convolution_at(self, t: int) -> FloatArray:
        """C (q, q) of the convolution at any t from 0 to B."""
        return np.asarray(self.rule[:t][::-1].T @ self.rule[:t])

    def summed_convolution(self, until: int) -> FloatArray:
        """R (q, q): sum_{t<until} sum_{s<t} r(t-1-s) h(s) is sum_ab R[a, b] h_a r_b."""
        # Summed over t, each h(s) meets the sums of r up to what is left after s.
        sums = np.cumsum(self.rule, axis=0)
        weights = np.zeros((until, len(self.nodes)))
        weights[: until - 1] = sums[: until - 1][::-1]
        return np.asarray(self.rule[:until].T @ weights)

    def convolve(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """The convolution (q, a, c) of paths (q, a, b) and (q, b, c) of matrices."""
        visits, shared, columns = second.shape
        side = np.ascontiguousarray(first.swapaxes(0, 1)).reshape(first.shape[1], visits * shared)
        flat = second.reshape(visits, shared * columns)
        return np.array([side @ (at @ flat).reshape(visits * shared, columns) for at in self.convolution])

    def convolve_scalars(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """The convolution of numbers (q, samples), of each sample by itself."""
        return np.array([np.einsum("an,an->n", first, at @ second) for at in self.convolution])

    def convolve_samples(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """The convolution of matrices (samples, q, m, m), of each sample by itself."""
        samples, q, size, _ = first.shape
        side = first.swapaxes(1, 2).reshape(samples, 1, size, q * size)
        # Samples come first, so that no copy is made of the largest array.
        at = self.convolution.reshape(q * q, q) @ second.reshape(samples, q, size * size)
        return np.asarray(side @ at.reshape(samples, q, q * size, size))

    def convolve_nearly_diagonal(self, first: FloatArray, second: FloatArray, tolerance: float) -> FloatArray:
        """The convolution of paths (q, k, k), to a tolerance relative to its largest entry.

        In the coordinates of the modes a path is diagonal but for what is particular to samples. So it is split
        into its diagonal and few matrices times functions of the visit: diagonals cost no products, and where two
        of the others meet, which is of second order, a product is taken only if it counts.

        >>> nodes = TimeNodes.spanning(0.9 ** np.outer(np.arange(20), [1.0, 2.0]), 1e-12)
        >>> path = np.array([[[1.0, 0.1], [0.1, 0.5]], [[0.8, 0.0], [0.2, 0.4]]])
        >>> bool(np.allclose(nodes.convolve_nearly_diagonal(path, path, 1e-12), nodes.convolve(path, path)))
        True
        """
        parts = [
            split_path(path, tolerance * float(np.abs(path).max(initial=0.0))) for path in (first, second)
        ]
        (diagonal, shapes, matrices), (other_diagonal, other_shapes, others) = parts
        q, k = diagonal.shape
        # What each term meets on the diagonal of the other path, (q, terms, k).
        on_right = np.einsum("tab,ap,bk->tpk", self.convolution, shapes, other_diagonal, optimize=True)
        on_left = np.einsum("tab,ak,bp->tpk", self.convolution, diagonal, other_shapes, optimize=True)
        made = np.ascontiguousarray(
            (on_right.transpose(2, 0, 1) @ matrices.transpose(2, 0, 1)).transpose(1, 2, 0)
            + (on_left.transpose(2, 0, 1) @ others.transpose(1, 0, 2)).transpose(1, 0, 2)
        )
        np.einsum("qkk->qk", made)[:] += self.convolve_scalars(diagonal, other_diagonal)
        threshold = tolerance * float(np.abs(made).max(initial=0.0))
        weights = np.einsum("tab,ap,br->ptr", self.convolution, shapes, other_shapes, optimize=True)
        # The entries of a product are at most the norms of a row and a column.
        rows, columns = (
            np.sqrt(np.square(each).sum(axis=axis).max(axis=1, initial=0.0))
            for each, axis in ((matrices, 2), (others, 1))
        )
        counts = np.abs(weights).max(axis=1) * np.multiply.outer(rows, columns) > threshold
        for matrix, weight, chosen in zip(matrices, weights, counts, strict=True):
            if chosen.any():
                products = (matrix @ others[chosen]).reshape(-1, k * k)
                made += (weight[:, chosen] @ products).reshape(q, k, k)
        return made


def leading(matrix: FloatArray, threshold: float) -> tuple[FloatArray, FloatArray]:
    """The terms of a singular value decomposition of (q, n) that are above a threshold, (q, m) and (m, n).

    From the Gram matrix of the rows: singular values below 1e-8 of the largest are rounding, and left out.
    """
    values, vectors = scipy.linalg.eigh(matrix @ matrix.T, check_finite=False)
    floor = max(threshold * threshold, 1e-15 * float(values.max(initial=0.0)))
    shapes = vectors[:, values > floor][:, ::-1]
    return shapes, shapes.T @ matrix


def split_path(path: FloatArray, threshold: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The diagonals (q, k) of a path (q, k, k), and the leading terms of all else: (q, m) and (m, k, k)."""
    off = path.copy()
    np.einsum("qkk->qk", off)[:] = 0.0
    shapes, matrices = leading(off.reshape(len(off), -1), threshold)
    return np.einsum("qkk->qk", path), shapes, matrices.reshape(len(matrices), *path.shape[1:])


@dataclass(frozen=True, eq=False)
class Visiting:
    """An epoch of shuffled samples on states of d = parts * k coordinates.

    A visit to the samples of a batch sends v to v - Y (K_0 + (w n / m) sum_i P u_i u_i'Q) v.
    """

    rows: FloatArray  # u_i (n, k); U'U is diagonal
    grades: FloatArray  # Y (parts, k)
    still: FloatArray  # K_0 (parts, parts, k), made of diagonal blocks
    entry: FloatArray  # (parts,): P = entry (x) I; Q takes the first part
    weight: float  # w, of a sample in the mean of a visit
    last: float  # weight of the last visit relative to the others: less than one if its batch alone is cut short
    steps: int  # B
    size: int = 1  # rows of a sample, which are always visited together: then u_i is a matrix U_i of them

    @cached_property
    def squares(self) -> FloatArray:
        """The diagonal of U'U (k,)."""
        return np.asarray(np.einsum("ij,ij->j", self.rows, self.rows))

    @property
    def samples(self) -> int:
        """n."""
        return len(self.rows) // self.size

    @property
    def exclusion(self) -> float:
        """The weight w n / (n - 1) of a sample in the mean over all samples but one."""
        return self.weight * self.samples / max(self.samples - 1, 1)

    def push(self, matrix: FloatArray) -> FloatArray:
        """P M (..., d, m) for M (..., k, m)."""
        return np.concatenate([part * matrix for part in self.entry], axis=-2)

    def seen(self, matrix: FloatArray) -> FloatArray:
        """M P (..., m, k) for M (..., m, d)."""
        parts = np.split(matrix, len(self.entry), axis=-1)
        return np.asarray(sum(part * block for part, block in zip(self.entry, parts, strict=True)))

    def rest(self, matrix: FloatArray) -> FloatArray:
        """K_0 M (d, m) for M (d, m)."""
        blocks = matrix.reshape(*self.grades.shape, matrix.shape[1])
        return np.asarray(np.einsum("abk,bkm->akm", self.still, blocks).reshape(matrix.shape))

    @property
    def self_responses(self) -> FloatArray:
        """Self responses (n,) of the rows to one visit of their own: above one they overshoot."""
        return np.asarray(np.square(self.rows) @ (self.weight * self.steps * self.entry[0] * self.grades[0]))

    @cached_property
    def kernel(self) -> FloatArray:
        """The kernel K of the mean visit of each mode, (k, parts, parts)."""
        kernel = np.moveaxis(self.still, 2, 0).copy()
        kernel[:, :, 0] += self.weight * np.multiply.outer(self.squares, self.entry)
        return kernel

    def powers(self, maps: FloatArray) -> FloatArray:
        """The powers 0 .. B-1 of maps (k, parts, parts) of the modes, (B, k, parts, parts)."""
        found = np.empty((self.steps, *maps.shape))
        found[0] = np.eye(maps.shape[1])
        for visit in range(1, self.steps):
            found[visit] = maps @ found[visit - 1]
        return found

    @cached_property
    def independent(self) -> FloatArray:
        """Powers (B, k, parts, parts) of the mean visit I - Y K of each mode, as if visits were independent."""
        return self.powers(np.eye(len(self.entry)) - self.grades.T[:, :, np.newaxis] * self.kernel)

    @cached_property
    def along(self) -> FloatArray:
        """u'Q G_t Y P u per mode (B, k), were visits independent."""
        return np.asarray(np.einsum("tkb,bk,b->tk", self.independent[:, :, 0], self.grades, self.entry))

    @cached_property
    def strength(self) -> FloatArray:
        """w sum_t |u'Q G_t Y P u| (k,), the total effect of an epoch on each mode, were visits independent."""
        return np.asarray(self.weight * np.abs(self.along).sum(axis=0))

    @cached_property
    def strengths(self) -> FloatArray:
        """Bounds on the self response of each sample over an epoch, (n,)."""
        if self.size == 1:
            return self.strengths_of(self.rows)
        return np.asarray(np.linalg.norm(self.own_strengths(self.rows), axis=(1, 2)))

    def own_strengths(self, rows: FloatArray) -> FloatArray:
        """Effects of the rows of each of some samples (m * size, k) on each other, (m, size, size)."""
        samples = rows.reshape(len(rows) // self.size, self.size, rows.shape[1])
        return np.asarray((samples * self.strength) @ samples.swapaxes(1, 2))

    def strengths_of(self, rows: FloatArray) -> FloatArray:
        """Bounds on the self responses of some samples (m, k), (m,)."""
        return np.asarray(np.square(rows) @ self.strength)

    def tolerances(self, tolerance: float) -> tuple[float, float]:
        """Tolerances of the self responses and of the span of the functions of the visits."""
        # Samples change the map by no more than the strongest acts on itself: fewer digits of that suffice.
        strength = min(1.0, float(self.strengths.max(initial=0.0)))
        of_responses = min(tolerance / max(strength, 1e-300), _COARSEST_RESPONSE)
        return of_responses, min(max(1e-2 * of_responses, _FINEST_SPAN), _COARSEST_SPAN)

    def nodes(self, tolerance: float) -> TimeNodes | None:
        """The visits at which functions of the visits are computed; None where these overflow.

        For the powers of single modes times powers of time, which is what small changes of the modes make of them:
        self responses differ from their span by less than the equation neglects.
        """
        if not np.isfinite(self.along).all():
            return None
        functions = self.along if len(self.entry) == 1 else self.independent.reshape(self.steps, -1)
        order = np.argsort(np.abs(functions).sum(axis=0))
        spread = np.linspace(0, len(order) - 1, min(len(order), _MOST_MODES)).round().astype(np.intp)
        functions = functions[:, order[np.unique(spread)]]
        time, degrees = np.linspace(0, 1, self.steps)[:, np.newaxis], _FEWEST_SHAPES // max(len(spread), 1)
        shapes = [time**degree * functions for degree in range(max(_DEGREES, degrees))]
        # Constants are among them in any case: at step zero there is nothing else.
        together = np.hstack([np.ones((self.steps, 1)), *shapes])
        if not np.isfinite(together).all():
            return None
        together = together[:, together.any(axis=0)]
        return TimeNodes.spanning(together / np.abs(together).max(axis=0), tolerance)


class SelfResponses:
    """The self responses of samples of m rows each, at the nodes: numbers where m is 1, otherwise matrices.

    The influence of sample i on what it meets returns to it through the others,

        rho_i(0) = I,   rho_i(t+1) = e sum_{s<=t} g_i(t-s) rho_i(s),   g_i(t) = sum_{s<=t} rho_i(t-s) gamma_i(s),

    with gamma_i(t) = U_i Gamma_t U_i' for matrices Gamma_t that all samples share. With r(t) = rho(t+1) these are
    two convolutions, r = e (g + g * r) and g = gamma + r * gamma, solved at the nodes by iteration. The generating
    function of rho is (I - e z g(z))^-1: the same from either side, whether or not the g_i commute.

    Rows are (n m, k); sums over samples have a tolerance relative to the largest of the functions that they are.
    """

    def __init__(self, rows: FloatArray, size: int, nodes: TimeNodes, exclusion: float, tolerance: float):
        self._rows, self._size, self._nodes = rows, size, nodes
        self._samples = rows.reshape(len(rows) // size, size, rows.shape[1])
        self._exclusion, self._tolerance = exclusion, tolerance
        self._last: FloatArray | None = None

    @property
    def first(self) -> FloatArray:
        """rho(0) of every sample, (n,) or (n, m, m)."""
        n, size = len(self._samples), self._size
        return np.ones(n) if size == 1 else np.broadcast_to(np.eye(size), (n, size, size))

    @cached_property
    def _squares(self) -> FloatArray:
        return np.square(self._rows)

    def of_influence(self, influence: FloatArray) -> FloatArray:
        """The self responses r_i (q, n) or (q, n, m, m) that matrices Gamma (q, k, k) make."""
        diagonals = np.einsum("qkk->qk", influence)
        if self._size == 1:
            gamma = diagonals @ self._squares.T
        else:
            gamma = np.stack([self._own(self._samples * diagonal) for diagonal in diagonals])
        # Off its diagonal Gamma consists of few matrices, times functions of the visit.
        _, shapes, matrices = split_path(influence, self._tolerance * float(np.abs(gamma).max(initial=0.0)))
        for shape, matrix in zip(shapes.T, matrices, strict=True):
            gamma += np.multiply.outer(shape, self._own(self._samples @ matrix))
        return self.of_meeting(gamma)

    def _own(self, images: FloatArray) -> FloatArray:
        """Products of images (n, m, k) of the rows of each sample with its own rows, (n,) or (n, m, m)."""
        if self._size == 1:
            return np.asarray(np.einsum("ijk,ijk->i", images, self._samples))
        return np.asarray(images @ self._samples.swapaxes(1, 2))

    def of_meeting(self, gamma: FloatArray) -> FloatArray:
        """The self responses r_i of what each sample meets of its own influence, gamma_i, of the same shape."""
        q, n = gamma.shape[:2]
        if self._size == 1:
            parts = (gamma[:, start : start + _CHUNK] for start in range(0, n, _CHUNK))
            return np.hstack([self._solved(self._nodes.convolve_scalars, part) for part in parts])
        gamma = np.ascontiguousarray(gamma.swapaxes(0, 1))
        convolve, found = self._nodes.convolve_samples, []
        height = max(1, _GROUP_CHUNK // (q * q * self._size**2))
        for chunk in (slice(start, start + height) for start in range(0, n, height)):
            begin = None if self._last is None else self._last[chunk]
            found.append(self._solved(convolve, gamma[chunk], _FIRST_RESPONSE, begin))
        self._last = np.concatenate(found)
        return np.ascontiguousarray(self._last.swapaxes(0, 1))

    def _solved(
        self,
        convolve: Callable[[FloatArray, FloatArray], FloatArray],
        gamma: FloatArray,
        tolerance: float = 1e-12,
        begin: FloatArray | None = None,
    ) -> FloatArray:
        """Iterate until the largest entry of r stays as it is; infinite where it runs away.

        One round is enough from those of the last influence on: the equation takes as many rounds as with more.
        """
        rho = self._exclusion * gamma if begin is None else begin
        for _ in range(_MOST_RESPONSE_ROUNDS if begin is None else 1):
            met = gamma + convolve(rho, gamma)
            following = self._exclusion * (met + convolve(met, rho))
            change = float(np.abs(following - rho).max(initial=0.0))
            rho, size = following, float(np.abs(following).max(initial=0.0))
            if not change > tolerance * size:
                break
            if not len(self._nodes.rule) * size < _RUNS_AWAY:
                return np.full_like(rho, np.inf)
        return np.asarray(rho)

    def _weighted(self, weights: FloatArray, *, transposed: bool = False) -> FloatArray:
        """The rows (n m, k), those of each sample multiplied by its number or matrix in weights (n m m,)."""
        if self._size == 1:
            return weights[:, np.newaxis] * self._rows
        matrices = weights.reshape(-1, self._size, self._size)
        matrices = matrices.swapaxes(1, 2) if transposed else matrices
        return np.asarray((matrices @ self._samples).reshape(self._rows.shape))

    def weighted_grams(self, rho: FloatArray) -> FloatArray:
        """sum_i U_i'r_i U_i (q, k, k) at every node, of weights (q, n) or (q, n, m, m)."""
        flat, k = rho.reshape(len(rho), -1), self._rows.shape[1]
        total = np.zeros((len(rho), k * k))
        size = float(np.linalg.norm(flat, axis=1).max(initial=0.0))
        shapes, terms = leading(flat, self._tolerance * size)
        for shape, weights in zip(shapes.T, terms, strict=True):
            total += np.multiply.outer(shape, (self._rows.T @ self._weighted(weights)).ravel())
        return total.reshape(len(rho), k, k)

    def weighted_images(self, weights: FloatArray, maps: FloatArray, tolerance: float) -> FloatArray:
        """The columns of sum_q maps[q] U_i'weights[q, i] for every sample, as rows (n m, d), for maps (q, d, k)."""
        flat = weights.reshape(len(weights), -1)
        images = np.zeros((len(self._rows), maps.shape[1]))
        # What all samples have in common is the larger part, and costs one product whatever the tolerance.
        threshold = tolerance * float(np.linalg.norm(flat, axis=1).max(initial=0.0))
        shapes, terms = leading(flat, threshold)
        for shape, own in zip(shapes.T, terms, strict=True):
            images += self._weighted(own, transposed=True) @ np.tensordot(shape, maps, 1).T
        return images


class Cavity:
    """The cavity equation at the nodes; solved, the mean of an epoch v -> v - Y K v + Y E y.

    Both sides of products are needed: with H_t = I - Y N_t, what comes after is I - N_t Y.
    """

    kernel: FloatArray  # K (d, d)
    path: FloatArray  # K_t (q, d, d) at the nodes
    inner: FloatArray  # N_t (q, d, d) at the nodes
    influence: FloatArray  # Gamma_t (q, k, k) of the last round
    self_response: FloatArray  # rho_i(t + 1) at the nodes, (q, n), or (q, n, m, m) where a sample has m rows
    entries: FloatArray  # the columns of E, the input map of the response of each sample, as rows (n, d)

    def __init__(self, visiting: Visiting, tolerance: float, response_tolerance: float, nodes: TimeNodes):
        self.visiting, self.tolerance, self.nodes = visiting, tolerance, nodes
        self.k, self.response_tolerance = visiting.rows.shape[1], response_tolerance
        self._grades = visiting.grades.ravel()
        self._squares = visiting.squares[:, np.newaxis]

    @classmethod
    def of(cls, visiting: Visiting, tolerance: float) -> "Cavity | None":
        """The equation at the nodes that a tolerance needs; None where functions of the visits overflow."""
        response_tolerance, span = visiting.tolerances(tolerance)
        nodes = visiting.nodes(span)
        return None if nodes is None else cls(visiting, tolerance, response_tolerance, nodes)

    def _before(self, kernels: FloatArray) -> FloatArray:
        """I - Y K (..., d, d)."""
        return np.asarray(np.eye(len(self._grades)) - self._grades[:, np.newaxis] * kernels)

    def _after(self, kernels: FloatArray) -> FloatArray:
        """(I - K Y) P (..., d, k)."""
        return self.visiting.seen(np.eye(len(self._grades)) - kernels * self._grades)

    def responses_of(self, rows: FloatArray) -> SelfResponses:
        """The solver for the self responses of some samples."""
        visiting = self.visiting
        return SelfResponses(rows, visiting.size, self.nodes, visiting.exclusion, self.response_tolerance)

    def iterate(self, grams: Callable[[FloatArray], FloatArray | None]) -> bool:
        """Iterate from independent visits on, until the mean map stays as it is; False if there is no solution.

        `grams` gives sum_i U_i'r_i U_i (q, k, k) for Gamma_t (q, k, k); None if these are no numbers.
        """
        kernels, end = self._integrate(np.zeros((len(self.nodes.nodes), self.k, len(self._grades))))
        inner, share, changes = kernels, 1 / self.visiting.samples, list[float]()
        for _ in track(range(_MOST_ROUNDS), None, "solving the cavity equation"):
            before, after = self._before(inner)[:, : self.k], self._after(inner)
            influence = self.visiting.seen(before * self._grades)
            weighted = grams(influence)
            if weighted is None:
                return False
            met = self._squares * before + self._convolve(weighted, before)
            left = after * self._squares.T + self._convolve(after, weighted)
            kernels, following = self._integrate(met - self._squares * self._before(kernels)[:, : self.k])
            # The mean effect of the others in the place of a sample: each side in turn leaves it out.
            before, after = self._before(kernels)[:, : self.k], self._after(kernels)
            others = self._convolve(after, share * (met - self._squares * before))
            inner = kernels + self.visiting.exclusion * (others + self._convolve(share * left, before))
            change = float(np.abs(following - end).max(initial=0.0) / np.abs(following).max(initial=1e-300))
            end, changes = following, [*changes[-2:], change]
            # The next change is about this one times the mean ratio of the last two.
            coming = change * np.sqrt(change / changes[0]) if len(changes) == 3 else np.inf
            if change <= self.tolerance or _MARGIN * coming <= self.tolerance:
                self.kernel, self.path, self.inner, self.influence = end, kernels, inner, influence
                return True
        return False

    def _integrate(self, sources: FloatArray) -> tuple[FloatArray, FloatArray]:
        """K_t at the nodes and K_B, where S_t is U'U Q G_t plus sources (q, k, d).

        Modes act on each other through the sources alone: K_t is the convolution of the powers of what a visit does
        to each mode by itself with all that is added per visit.
        """
        visiting, nodes = self.visiting, self.nodes
        parts, k = visiting.grades.shape
        identity = np.eye(parts * k)
        constant = visiting.rest(identity) + visiting.weight * visiting.push(self._squares * identity[:k])
        added = constant + visiting.weight * visiting.push(sources)
        # A product for every mode, of all times at once: (times a, visits b) with (visits b, columns). Shapes are
        # written out: features that are all zero have no modes, and of an empty array -1 is not known.
        visits = len(added) * parts
        apart = added.reshape(len(added), parts, k, parts * k).transpose(2, 0, 1, 3)
        times = len(nodes.nodes) + 1
        met = self._rules.reshape(k, times * parts, visits) @ apart.reshape(k, visits, parts * k)
        by_time = met.reshape(k, times, parts, parts * k).transpose(1, 2, 0, 3)
        found = by_time.reshape(times, parts * k, parts * k)
        kernels, end = found[:-1], found[-1]
        if visiting.last != 1:
            state = self._before(end)
            of_rows = self._squares * state[:k] + np.tensordot(nodes.rule[-1], sources, 1)
            end = end + visiting.rest(state) + visiting.weight * visiting.last * visiting.push(of_rows)
        return kernels, end

    @cached_property
    def _rules(self) -> FloatArray:
        """Weights (k, times, parts, q, parts) of what is added at the nodes, in K at the nodes and at the end."""
        visiting, nodes = self.visiting, self.nodes
        after = np.eye(len(visiting.entry)) - visiting.kernel * visiting.grades.T[:, np.newaxis, :]
        powers = visiting.powers(after)[nodes.nodes]
        times = [*nodes.nodes.tolist(), visiting.steps if visiting.last == 1 else visiting.steps - 1]
        return np.stack([np.einsum("pq,pkab->kaqb", nodes.convolution_at(t), powers) for t in times], axis=1)

    def _convolve(self, first: FloatArray, second: FloatArray) -> FloatArray:
        if self.k >= _MANY_MODES and first.shape == second.shape:
            return self.nodes.convolve_nearly_diagonal(first, second, _OF_TOLERANCE * self.tolerance)
        return self.nodes.convolve(first, second)

    def entries_of(self, responses: SelfResponses, rho: FloatArray) -> FloatArray:
        """The mean over its visits of what comes after a sample's own, w sum_t E[visits after t | not i] P u_i.

        The last visit is affine in its weight: what is cut short lies between a whole visit and none.
        """
        visiting, nodes, after = self.visiting, self.nodes, self._after(self.inner)

        def images(steps: int) -> FloatArray:
            """Images (n, d) of the rows by sum_{t<steps} sum_{s<=t} rho_i(t-s) H_s."""
            weights = np.multiply.outer(nodes.rule[:steps].sum(axis=0), responses.first)
            weights = weights + np.tensordot(nodes.summed_convolution(steps), rho, 1)
            return responses.weighted_images(weights, after, self.tolerance)

        whole = images(visiting.steps)
        if visiting.last != 1:
            short = images(visiting.steps - 1).T
            none = short - visiting.rest(self._grades[:, np.newaxis] * short)
            whole = visiting.last * whole + (1 - visiting.last) * none.T
        return np.asarray(visiting.weight * whole)

    def modifier(self, sample: int) -> FloatArray:
        """The mean over the visits t at which a sample may be of K (d, d) in E[t visits | not i] = I - Y K."""
        nodes, visiting, size = self.nodes, self.visiting, self.visiting.size
        rows = visiting.rows[size * sample : size * (sample + 1)]
        rho = self.self_response[:, sample].reshape(-1, size, size)
        after, before = self._after(self.inner) @ rows.T, rows @ self._before(self.inner)[:, : self.k]
        after, before = after + nodes.convolve(after, rho), before + nodes.convolve(rho, before)
        kernels = self.inner - visiting.exclusion * nodes.convolve(after, before)
        weights = np.ones(visiting.steps)
        weights[-1] = visiting.last
        return np.asarray(np.tensordot(weights @ nodes.rule / weights.sum(), kernels, 1))

    def pushed(self, force: FloatArray) -> FloatArray:
        """The entries (d, m) of what enters as f (d, m) at every visit: like that of a sample, but of no sample."""
        steps, last, rule = self.visiting.steps, self.visiting.last, self.nodes.rule
        lost = self.path @ (self._grades[:, np.newaxis] * force)
        whole = steps * force - np.tensordot(rule.sum(axis=0), lost, 1)
        if last == 1:
            return np.asarray(whole)
        short = (steps - 1) * force - np.tensordot(rule[:-1].sum(axis=0), lost, 1)
        none = short - self.visiting.rest(self._grades[:, np.newaxis] * short)
        return np.asarray(last * whole + (1 - last) * (force + none))


def solve(visiting: Visiting, tolerance: float) -> Cavity | None:
    """Solve the cavity equation, until rounds change the mean map by less than a share `tolerance` of itself.

    None if it has no solution: steps so large that samples' influence on themselves grows without bound.
    """
    found = Cavity.of(visiting, tolerance)
    if found is None:
        return None
    responses, rho = found.responses_of(visiting.rows), np.zeros(0)

    def grams(influence: FloatArray) -> FloatArray | None:
        nonlocal rho
        rho = responses.of_influence(influence)
        return responses.weighted_grams(rho) if np.isfinite(rho).all() else None

    if not found.iterate(grams):
        return None
    found.self_response, found.entries = rho, found.entries_of(responses, rho)
    return found
