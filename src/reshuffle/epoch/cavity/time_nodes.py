"""Functions of the visits of an epoch, known from their values at a few of the visits.

What the visits of an epoch do to a mode is close to a power of what one visit does to it. So the functions that
arise, of how many visits were made, all but lie in the span of a few: the leading singular vectors of those powers,
and of powers times time, which is what a small change makes of them. A function of that span is known from its
values at as many visits, which a pivoted QR decomposition chooses.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from reshuffle._arrays import FloatArray, IntArray


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
