"""Convolutions of matrices that depend on the visit, where these are nearly diagonal.

In the coordinates of the modes all that an epoch does is diagonal but for what is particular to samples. So a path
is split into its diagonal and the few matrices of which, times functions of the visit, all else consists: diagonals
cost no products, and where two of the others meet, which is of second order, a product is taken only if it counts.
"""

from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.epoch.cavity.echoes import leading
from reshuffle.epoch.cavity.time_nodes import TimeNodes


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


def convolve(nodes: TimeNodes, first: FloatArray, second: FloatArray, tolerance: float) -> FloatArray:
    """The convolution at the nodes, (q, k, k), of paths (q, k, k), to a tolerance relative to its largest entry.

    >>> nodes = TimeNodes.spanning(0.9 ** np.outer(np.arange(20), [1.0, 2.0]), 1e-12)
    >>> path = np.array([[[1.0, 0.1], [0.1, 0.5]], [[0.8, 0.0], [0.2, 0.4]]])
    >>> bool(np.allclose(convolve(nodes, path, path, 1e-12), nodes.convolve(path, path)))
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
