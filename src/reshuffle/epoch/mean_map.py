"""The symmetric mean map of an epoch as the small matrices that determine it, and its modes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Literal

import numpy as np
import scipy.linalg

from reshuffle._arrays import BoolArray, FloatArray
from reshuffle._linalg import graded_svd, thin_qr

_EPS = float(np.finfo(np.float64).eps)
_ROUNDING = 4
LEVEL = 1e-6
"""Eigenvalues above this ratio to the largest of their level have at least nine digits."""
_NINE_DIGITS = 1e-9
"""Of a map that is not known that well itself, eigenvalues need no more."""
_MARGIN = 1e3
"""How much better than the map its eigenvalues are to be known, in units of rounding."""


@dataclass(frozen=True, eq=False)
class MeanMap:
    """The affine map c -> c - stride (F'K F c - F'A y), in row-space coordinates, `repeats` times per epoch.

    Every word in Z begins and ends with features, so Z = F'K F with a small symmetric kernel K in between
    that stays well conditioned however badly X is; the eigenvalues of Z inherit that accuracy.

    Parameters
    ----------
    factor : (q, r)
        F, the features or their triangular factor.
    kernel : (q, q) or (q,)
        K, symmetric; a vector stands for a diagonal.
    input_map : (q, rows) or (q,)
        A, through which the responses of the (compressed) rows enter: Xtilde' = n F'A; a vector for a diagonal.
    stride : float
        The factor of Z in one application: B step for an epoch of random reshuffling.
    repeats : int
        Applications in an epoch.
    weight : float
        The largest weight of a row in the gradient: the size of K at small steps, before anything cancels.
    modifier : callable
        b -> Pi_b (r, r).
    method : str
        "exact", "cavity" or "sampling".
    error : float
        The error of the decay rate of the worst mode, relative to that rate: for the cavity an estimate, for
        sampling so many standard errors.
    typical_error : float, optional
        The same in root mean square over the modes; by default that of the worst.
    make_replicas : callable
        () -> the replicas.
    products : (r, r) and (r, rows), optional
        F'K F and F'A, where they are known already.
    """

    factor: FloatArray
    kernel: FloatArray
    input_map: FloatArray
    stride: float
    repeats: int
    weight: float
    modifier: Callable[[int], FloatArray]
    method: str = "exact"
    error: float = 0.0
    make_replicas: Callable[[], tuple["MeanMap", ...]] = tuple
    typical_error: float = math.nan
    products: tuple[FloatArray, FloatArray] | None = None

    @cached_property
    def replicas(self) -> tuple["MeanMap", ...]:
        """The map without each group of draws in turn, or perturbed by what the cavity equation neglects."""
        return self.make_replicas()

    @property
    def missed(self) -> float:
        """The error in root mean square over the modes, which is compared with rtol."""
        return self.error if math.isnan(self.typical_error) else self.typical_error

    def require_finite(self, steps: int) -> "MeanMap":
        """Return the map itself; refuse a step at which a product over so many batches overflows."""
        if not (np.isfinite(self.kernel).all() and np.isfinite(self.input_map).all()):
            raise OverflowError(
                f"step is so large for these data that products over {steps} batches leave the range of "
                "floating-point numbers; the iterates diverge. Try a step near critical_step(problem, scheme)."
            )
        return self

    def weigh(self, matrix: FloatArray) -> FloatArray:
        """K M, for M of shape (q, m)."""
        return np.asarray(
            self.kernel @ matrix if self.kernel.ndim == 2 else self.kernel[:, np.newaxis] * matrix
        )

    def mapped_inputs(self, images: FloatArray) -> FloatArray:
        """M'A (m, rows), for M of shape (q, m)."""
        return np.asarray(
            images.T @ self.input_map if self.input_map.ndim == 2 else images.T * self.input_map
        )


@dataclass(frozen=True, eq=False)
class Modes:
    """Z = Q diag(values) Q' on the row space: values (r,) ascending, those of the null space zero; Q (r, r).

    The product of `factors` is the input map Q'F'A. For ill-conditioned features that of F'A itself would lose the
    digits of the small modes.
    """

    values: FloatArray
    vectors: FloatArray
    factors: tuple[FloatArray, ...]

    @cached_property
    def input_map(self) -> FloatArray:
        """Q'F'A (r, rows), through which responses enter the modes."""
        return reduce(np.matmul, self.factors)

    def entering(self, responses: FloatArray) -> FloatArray:
        """Q'F'A y for responses (rows,) or (rows, t), at less than the price of the input map if these are few."""
        if "input_map" in self.__dict__:
            return np.asarray(self.input_map @ responses)
        return reduce(lambda entered, factor: factor @ entered, reversed(self.factors), responses)

    @property
    def frozen(self) -> BoolArray:
        """The modes in which nothing moves."""
        return np.equal(self.values, 0.0)


def modes(mean: MeanMap) -> Modes:
    """Decompose Z = F'K F.

    The eigenvalues of Z are known to about eps |Z|, which is nothing for those of ill-conditioned features: they
    may come out negative, and a converging mode would look divergent. Then the factors are used: with
    F = U R and U'K U = L L', the eigenvalues are the squares of the singular values of L'R, as accurate as the
    singular values of X itself.
    """
    Z, entry = products(mean) if mean.products is None else mean.products
    values, vectors = _eigh((Z + Z.T) / 2)
    # Where visits cancel each other Z is all rounding, so its size is not read off its eigenvalues alone.
    mean_size = mean.weight * float(np.square(mean.factor).sum()) / max(1, len(values))
    size = float(np.abs(values).max(initial=mean_size))
    # Digits that the map itself has not got are not computed.
    level = min(LEVEL, _MARGIN * _EPS / mean.error) if mean.error > _NINE_DIGITS else LEVEL
    if np.abs(values).min(initial=np.inf) < level * size:
        sizes = _diagonal_of(mean.factor)
        if sizes is None or mean.error <= _NINE_DIGITS or not _is_definite(mean):
            return _from_factors(mean, values, vectors, _EPS * len(mean.factor) * size)
        values, vectors = refined(values, vectors, sizes, mean.kernel, level)
    return Modes(values, vectors, (vectors.T, entry))


def _eigh(matrix: FloatArray, driver: Literal["ev", "evd"] = "evd") -> tuple[FloatArray, FloatArray]:
    values, vectors = scipy.linalg.eigh(matrix, driver=driver, check_finite=False)
    return values, vectors


def refined(
    values: FloatArray, vectors: FloatArray, sizes: FloatArray, kernel: FloatArray, level: float = LEVEL
) -> tuple[FloatArray, FloatArray]:
    """The eigenvalues (r,), ascending, and eigenvectors (r, r) of diag(s) K diag(s), level by level.

    The eigenvalues are as far apart as the squares of s (r,), and those that are found at once are known up to eps
    times the largest. The eigenvectors of all that is small span their space just as well, though. In that space
    the form is small itself, so that it is made anew, of S q, and decomposed anew. K (r, r) is positive definite.

    >>> sizes, kernel = np.array([1.0, 1e-9]), np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> found, _ = refined(*np.linalg.eigh(sizes[:, np.newaxis] * kernel * sizes), sizes, kernel)
    >>> print(found / [0.75e-18, 1.0])
    [1. 1.]
    """
    count, values, vectors = len(values), values.copy(), vectors.copy()
    while count > 1 and values[0] < level * values[count - 1]:
        count = int(np.searchsorted(values[:count], level * values[count - 1]))
        images = sizes[:, np.newaxis] * vectors[:, :count]
        form = images.T @ (kernel @ images)
        values[:count], rotation = _eigh((form + form.T) / 2)
        vectors[:, :count] = vectors[:, :count] @ rotation
    return values, vectors


def _diagonal_of(factor: FloatArray) -> FloatArray | None:
    """The diagonal of a matrix (q, r) that has nothing else, and nothing that is zero in it; otherwise None."""
    if factor.shape[0] != factor.shape[1]:
        return None
    diagonal = np.diagonal(factor)
    return diagonal if diagonal.all() and np.count_nonzero(factor) == len(factor) else None


def _is_definite(mean: MeanMap) -> bool:
    """True if K is positive definite beyond rounding."""
    if mean.kernel.ndim == 1:
        return False
    shifted = np.array(mean.kernel, order="F")
    diagonal = np.einsum("kk->k", shifted)
    diagonal -= _EPS * len(mean.factor) * max(mean.weight, float(diagonal.max()))
    _, info = scipy.linalg.lapack.dpotrf(shifted, lower=True, overwrite_a=True)
    return bool(info == 0)


def grows(mean: MeanMap) -> bool:
    """True if some mode grows from epoch to epoch, beyond the error of the map."""
    if not np.isfinite(mean.kernel).all():
        return True
    decay_rates = mean.stride * modes(mean).values
    return bool((np.abs(1 - decay_rates) > 1 + mean.error * np.abs(decay_rates)).any())


def products(mean: MeanMap) -> tuple[FloatArray, FloatArray]:
    """F'K F (r, r) and F'A (r, rows)."""
    sizes = _diagonal_of(mean.factor)
    if sizes is not None and mean.kernel.ndim == mean.input_map.ndim == 2:
        return sizes[:, np.newaxis] * mean.kernel * sizes, sizes[:, np.newaxis] * mean.input_map
    weighed = mean.weigh(mean.factor)
    entry = weighed.T if mean.input_map is mean.kernel else mean.mapped_inputs(mean.factor)
    return mean.factor.T @ weighed, entry


def whitened(mean: MeanMap) -> tuple[FloatArray, FloatArray, FloatArray]:
    """U (q, r), R (r, r) and the kernel U'K U (r, r), for F = U R; by Sylvester's law it has the signs of Z."""
    orthonormal, triangle = thin_qr(mean.factor)
    kernel = orthonormal.T @ mean.weigh(orthonormal)
    return orthonormal, triangle, (kernel + kernel.T) / 2


def _from_factors(mean: MeanMap, values: FloatArray, vectors: FloatArray, blur: float) -> Modes:
    """The modes of a Z whose own eigenvalues are only known up to `blur`."""
    orthonormal, triangle, kernel = whitened(mean)
    spread = scipy.linalg.eigvalsh(kernel, check_finite=False)
    tolerance = _EPS * len(mean.factor) * max(mean.weight, float(np.abs(spread).max()))
    sizes = scipy.linalg.svdvals(triangle, check_finite=False)
    # Rows are known up to the rounding of the basis that they are in; some may never be visited.
    rank = int((sizes > _ROUNDING * _EPS * max(triangle.shape) * sizes[0]).sum())
    if spread[0] < 0 and float(np.abs(spread).min()) > tolerance and rank == triangle.shape[1]:
        return _indefinite(mean, orthonormal, triangle, kernel)
    if spread[0] <= tolerance:
        # How fast modes of negative eigenvalues of K grow is lost in rounding; that they do is not.
        signed = np.where(np.abs(values) <= blur, 0.0, values)
        growing = np.arange(len(values)) < int((spread < -tolerance).sum())
        signed = np.where(growing & (signed == 0), -np.finfo(np.float64).tiny, signed)
        return Modes(signed, vectors, (mean.mapped_inputs(mean.factor @ vectors),))
    lower = scipy.linalg.cholesky(kernel, lower=True, check_finite=False)
    product = lower.T @ triangle
    if product.shape[0] == product.shape[1]:
        left, singular, right = graded_svd(product)
    else:
        left, singular, transposed = scipy.linalg.svd(product, check_finite=False)
        right = transposed.T
    singular[rank:] = 0.0
    # F q = s U L^-T u for each singular triple (u, s, q), without a difference of large numbers.
    images = orthonormal @ scipy.linalg.solve_triangular(lower, left, lower=True, trans="T") * singular
    missing = len(right) - len(singular)
    values, images = np.pad(singular**2, (0, missing)), np.pad(images, ((0, 0), (0, missing)))
    return Modes(values[::-1], right[:, ::-1], (mean.mapped_inputs(images[:, ::-1]),))


def _indefinite(mean: MeanMap, orthonormal: FloatArray, triangle: FloatArray, kernel: FloatArray) -> Modes:
    """The modes where some grow, from a kernel that is neither definite nor singular.

    With R = P diag(s) T' they are those of diag(s) H diag(s), H = P'K P, whose entries are as small as the modes
    they belong to.
    """
    left, singular, right = graded_svd(triangle)
    inner = left.T @ kernel @ left
    inner = (inner + inner.T) / 2
    # Digits of what is small survive the reduction to a tridiagonal matrix if it comes last, in the lower triangle.
    values, turned = _eigh(singular[:, np.newaxis] * inner * singular, driver="ev")
    images = singular[:, np.newaxis] * turned
    # H diag(s) q = x diag(s)^-1 q for every mode q: slow ones are known better by the right side.
    inverse = scipy.linalg.inv(inner, check_finite=False)
    slow = np.abs(values) * np.linalg.norm(inverse) < singular[0] * singular[-1]
    images[:, slow] = inverse @ (turned[:, slow] / singular[:, np.newaxis]) * values[slow]
    return Modes(values, right @ turned, (mean.mapped_inputs(orthonormal @ (left @ images)),))
