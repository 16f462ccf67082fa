"""The covariance Sigma of a feature vector, in whichever form the user has it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._linalg import eigenvalue

CovarianceLike: TypeAlias = ArrayLike | LinearOperator | None
"""None (identity), a number, a vector (diagonal), a matrix or a scipy LinearOperator."""

_PROBES = 4


@dataclass(frozen=True, eq=False)
class Covariance:
    """Sigma as the map v -> Sigma v, on R^p.

    `value` is a number (a multiple of the identity), a vector (a diagonal), a dense matrix or a
    LinearOperator; nothing of size p x p is made unless the user brought it.
    """

    p: int
    value: float | FloatArray | LinearOperator

    @property
    def is_isotropic(self) -> bool:
        """True if Sigma is a multiple of the identity, so that every quadratic form in it is diagonal."""
        return isinstance(self.value, float)

    def apply(self, vectors: FloatArray) -> FloatArray:
        """Sigma v for a vector (p,) or for the columns of a matrix (p, m)."""
        if isinstance(self.value, float):
            return np.multiply(self.value, vectors)
        if isinstance(self.value, LinearOperator):
            return np.asarray(self.value @ vectors, dtype=np.float64)
        if self.value.ndim == 1:
            return np.asarray((self.value * vectors.T).T)
        return np.asarray(self.value @ vectors)

    def norm_squared(self, vector: FloatArray) -> float:
        """|v|_Sigma^2 = v' Sigma v."""
        # Dividing by the largest entry keeps the squares of very large and very small vectors in range.
        size = float(np.abs(vector).max(initial=0.0))
        if size == 0.0:
            return 0.0
        unit = vector / size
        with np.errstate(over="ignore"):
            return float(np.float64(size) * (size * max(float(unit @ self.apply(unit)), 0.0)))

    def gram(self, vectors: FloatArray) -> FloatArray:
        """V' Sigma V for the columns of V (p, m), made exactly symmetric."""
        product = vectors.T @ self.apply(vectors)
        return product / 2 + product.T / 2

    def norm(self, vectors: FloatArray) -> float:
        """The largest v'Sigma v over unit vectors v in the span of orthonormal columns (p, m)."""
        if isinstance(self.value, float):
            return self.value
        if not vectors.shape[1]:
            return 0.0
        return eigenvalue(self.gram(vectors), -1)

    def colour(self, white: FloatArray) -> FloatArray:
        """Rows with covariance Sigma from rows (n, p) of independent standard entries."""
        return self.root()(white)

    def root(self) -> Callable[[FloatArray], FloatArray]:
        """The map of rows (n, p) by the symmetric root of Sigma, which is taken once."""
        value = self.value
        if isinstance(value, float):
            size = math.sqrt(value)
            return lambda rows: rows if size == 1.0 else size * rows
        if isinstance(value, LinearOperator):
            raise TypeError(
                "covariance must be a number, a vector or a matrix to draw features from it, "
                "but it is a LinearOperator, whose square root is not known; "
                "draw X yourself and pass the operator to LeastSquares."
            )
        if value.ndim == 1:
            sizes = np.sqrt(value)
            return lambda rows: rows * sizes
        values, vectors = scipy.linalg.eigh(value)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        return lambda rows: np.asarray(rows @ root)


def covariance(value: CovarianceLike, p: int) -> Covariance:
    """Check a covariance of p features and wrap it.

    >>> covariance([1.0, 4.0], p=2).apply(np.array([1.0, 1.0]))
    array([1., 4.])
    >>> covariance([1.0, -4.0], p=2)
    Traceback (most recent call last):
    ...
    ValueError: covariance must be positive semidefinite, but its diagonal holds -4.0.
    """
    if value is None:
        return Covariance(p, 1.0)
    if isinstance(value, LinearOperator):
        return Covariance(p, _checked_operator(value, p))
    array = _arrays.real_array("covariance", value)
    if array.ndim == 0:
        return Covariance(p, _arrays.nonnegative("covariance", float(array)))
    if array.shape not in ((p,), (p, p)):
        raise ValueError(
            f"covariance must be a number, of shape ({p},) or of shape ({p}, {p}) for p = {p} features, "
            f"but its shape is {array.shape}."
        )
    if array.ndim == 1:
        if array.min() < 0:
            raise ValueError(
                f"covariance must be positive semidefinite, but its diagonal holds {float(array.min())}."
            )
        return Covariance(p, array)
    return Covariance(p, _arrays.semidefinite("covariance", array))


def _checked_operator(operator: LinearOperator, p: int) -> LinearOperator:
    """Probe an operator with a few random vectors; that is evidence of symmetry and definiteness, not proof."""
    if operator.shape != (p, p):
        raise ValueError(
            f"covariance must map R^{p} to itself for p = {p} features, but its shape is {operator.shape}."
        )
    probes = np.random.default_rng(0).standard_normal((p, _PROBES))
    image = np.asarray(operator @ probes, dtype=np.float64)
    if not np.isfinite(image).all():
        raise ValueError("covariance must map finite vectors to finite vectors, but it does not.")
    gram = probes.T @ image
    size = float(np.abs(gram).max())
    if np.abs(gram - gram.T).max() > 1e-8 * size:
        raise ValueError(
            "covariance must be symmetric, but u' Sigma v and v' Sigma u differ on random vectors."
        )
    smallest = float(scipy.linalg.eigvalsh((gram + gram.T) / 2)[0])
    if smallest < -1e-8 * size:
        raise ValueError(
            f"covariance must be positive semidefinite, but v' Sigma v is {smallest:.6g} for some vector v."
        )
    return operator
