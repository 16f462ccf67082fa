"""Kernels as features: any K = Phi Phi' is a least-squares problem, whatever the features were."""

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.errors import ArgumentError
from reshuffle.problem.row_space import Reduction, RowSpace, scale_of

_SKEW = 1e-8
"""Largest difference of a kernel from its transpose, relative to its largest entry."""
_ROUNDING = 16.0
"""Eigenvalues that are rounding, in units of n eps times the largest: those of K are rounded too."""
_SLACK = 100.0
"""Negative ones that are still taken for it, in the same units."""


class KernelFeatures:
    """Features Phi (n, r) with Phi Phi' = K, from the eigenvectors of K; r is its numerical rank.

    With K = U diag(l) U' they are U sqrt(l), and a new point with kernel values k is seen as k'U / sqrt(l).

    Parameters
    ----------
    K : (n, n)
        Symmetric and positive semidefinite, up to rounding.

    >>> features = KernelFeatures([[2.0, 1.0], [1.0, 2.0]])
    >>> (features.rows @ features.rows.T).round(12).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    >>> (features.of(np.array([[1.0, 2.0]])) @ features.rows.T).round(12).tolist()
    [[1.0, 2.0]]
    """

    def __init__(self, K: ArrayLike):
        given = _arrays.any_array("K", K)
        square = _arrays.matrix("K", K)
        if square.shape[0] != square.shape[1]:
            allowed = "be square, a row and a column per sample"
            raise ArgumentError("K", allowed, f"its shape is {square.shape}")
        skew, size = float(np.abs(square - square.T).max()), float(np.abs(square).max())
        if skew > _SKEW * size:
            found = f"it differs from its transpose by up to {skew:.3g}"
            raise ArgumentError("K", "be symmetric", found, "try (K + K.T) / 2 if that is rounding")
        symmetric = (square + square.T) / 2
        # Kernels in float32 have the rounding of that.
        eps = float(np.finfo(given.dtype if given.dtype == np.float32 else np.float64).eps)
        # This driver keeps eigenvectors orthogonal to rounding, and finds many of them sooner.
        values, vectors = scipy.linalg.eigh(symmetric, driver="evd", overwrite_a=True, check_finite=False)
        unit = len(values) * eps * max(float(values[-1]), 0.0)
        if values[0] < -_SLACK * unit or values[-1] <= 0:
            allowed = "be positive semidefinite and not zero"
            found = f"its eigenvalues lie between {values[0]:.6g} and {values[-1]:.6g}"
            raise ArgumentError("K", allowed, found, "check that it is a kernel, K[i, j] = k(x_i, x_j)")
        kept = slice(None, -int((values > _ROUNDING * unit).sum()) - 1, -1)
        self._roots = np.sqrt(values[kept])
        self._vectors = np.ascontiguousarray(vectors[:, kept])
        self.rows: FloatArray = self._vectors * self._roots

    def of(self, K_new: ArrayLike) -> FloatArray:
        """The features (m, r) of new points, of which K_new (m, n) holds the kernel with the old ones."""
        K_new, n = _arrays.matrix("K_new", K_new), len(self._vectors)
        if K_new.shape[1] != n:
            allowed = f"have shape (new points, {n}), a column per row of K"
            raise ArgumentError("K_new", allowed, f"its shape is {K_new.shape}")
        return np.asarray((K_new @ self._vectors) / self._roots)

    def weights(self, parameters: FloatArray) -> FloatArray:
        """Weights (n,) or (n, t) of the samples, sum_i w_i k(x_i, .), of parameters (r,) or (r, t)."""
        return np.asarray((self._vectors / self._roots) @ parameters)

    def reduction(self, y: FloatArray) -> Reduction:
        """The data in their row space, which is all of R^r: nothing is left to be found."""
        scale = scale_of(self.rows)
        return Reduction(RowSpace(len(self._roots), len(self._roots), scale, None), self.rows / scale, y)


def named(
    kernel: str, X: ArrayLike | None, X_new: ArrayLike | None, parameters: dict[str, Any]
) -> tuple[FloatArray, FloatArray | None]:
    """Scikit-learn's kernel of that name between the rows of X (n, d), and of X_new (m, d) with them.

    >>> named("rbf", [[0.0], [1.0]], None, {"gamma": np.log(2)})[0].round(6).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    try:
        from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels
    except ImportError as error:
        raise ImportError("kernels by name need scikit-learn: pip install 'reshuffle[sklearn]'.") from error
    kernel = _arrays.choice("K", kernel, sorted(PAIRWISE_KERNEL_FUNCTIONS))
    if X is None:
        raise TypeError(f"X must be given with the name of a kernel, {kernel!r}, but it is None.")
    rows = _arrays.matrix("X", X)
    between = pairwise_kernels(rows, metric=kernel, **parameters)
    if X_new is None:
        return between, None
    fresh = _arrays.matrix("X_new", X_new)
    if fresh.shape[1] != rows.shape[1]:
        raise ArgumentError("X_new", f"have {rows.shape[1]} columns, as X has", f"it has {fresh.shape[1]}")
    return between, pairwise_kernels(fresh, rows, metric=kernel, **parameters)
