"""Steps that norms alone tell, without a search: up to which every visit shrinks what it sees, and 2 / |W|."""

import math

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from reshuffle._arrays import FloatArray
from reshuffle._linalg import eigenvalue
from reshuffle.problem.batches import Blocks
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes.base import Scheme, Shuffle, Unit

_SMALL = 400
"""Up to this many rows or columns the eigenvalue of their Gram matrix costs no more than a few iterations."""
_KRYLOV = 40
"""Vectors of an iteration: more than is usual, since singular values lie close together at the top."""
_CHUNK = 1 << 21
"""Entries of X that are copied at a time."""


def linear_critical_step(problem: LeastSquares, scheme: Scheme) -> float:
    """2 / |W| where the mean of a visit is I - step W: of all of X only the largest singular value is needed."""
    X, scale = problem.compressed.X, problem.compressed.scale
    parts, divisors = scheme.partition(problem.n), scheme.divisors(problem.n)
    weights = np.zeros(len(X))
    for part, divisor in zip(parts, divisors, strict=True):
        # Of samples that are cut into batches anew the divisor is one, however many rows each has.
        weights[part] = 1 / (len(parts) * divisor * scheme.rows_per_unit)
    top = largest_eigenvalue(X, weights, scale)
    return 2 / top / scale / scale if top else math.inf


def contracting_step(scheme: Scheme, n: int, blocks: Blocks, longest: float | None = None) -> float:
    """A step below 2 / |W_b| for every batch that may be visited: each visit then shrinks what it sees.

    A batch of drawn samples has |W_b| at most the largest |x|^2 times m_b / divisor_b, and at most |X'X| over
    divisor_b. That |x|^2 is `longest`, where other rows stand for the samples.
    """
    if scheme.unit is Unit.BATCH:
        norms = [
            float(scipy.linalg.svdvals(blocks.rows[blocks.of(batch)])[0]) ** 2 / float(divisor)
            for batch, divisor in enumerate(blocks.divisors)
        ]
        return 2 / max(norms)
    divisors = scheme.step_divisors(n)
    if longest is None:
        longest = float(np.square(blocks.rows).sum(axis=1).max())
    by_rows = longest * float((scheme.sizes(n) / divisors).max())
    if scheme.shuffle is Shuffle.EVERY_STEP:
        # The same row may be drawn again and again.
        return 2 / by_rows if by_rows else math.inf
    by_sum = float(scipy.linalg.svdvals(blocks.rows)[0]) ** 2 / float(divisors.min())
    return 2 / min(by_rows, by_sum)


def largest_eigenvalue(X: FloatArray, weights: FloatArray, scale: float) -> float:
    """The largest eigenvalue of X'diag(weights) X / scale^2, to about twelve digits, for X (n, p).

    By Lanczos' iteration from a start that is always the same, or from the Gram matrix of whichever is fewer, rows
    or columns. Both find the largest singular value of X as well as any decomposition would, however badly X is
    conditioned: what is lost in a Gram matrix are the small ones.

    >>> largest_eigenvalue(np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 1.0]]), np.full(3, 0.5), 2.0)
    0.625
    """
    size = min(X.shape)
    if size <= _SMALL:
        return _of_gram(X, weights, scale)
    rows_are_fewer = X.shape[0] < X.shape[1]
    roots = np.sqrt(weights)

    def apply(vector: FloatArray) -> FloatArray:
        if rows_are_fewer:
            return np.asarray(roots * ((X @ ((X.T @ (roots * vector)) / scale)) / scale))
        return np.asarray((X.T @ (weights * ((X @ vector) / scale))) / scale)

    start = np.random.default_rng(0).standard_normal(size)
    if not apply(start).any():
        return 0.0
    operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    try:
        found = eigsh(operator, k=1, which="LA", v0=start, ncv=_KRYLOV, return_eigenvectors=False)
    except ArpackNoConvergence:
        return _of_gram(X, weights, scale)
    return float(found[0])


def _of_gram(X: FloatArray, weights: FloatArray, scale: float) -> float:
    tall, along = (X, weights) if X.shape[0] >= X.shape[1] else (X.T, None)
    gram = np.zeros((tall.shape[1],) * 2)
    height = max(1, _CHUNK // tall.shape[1])
    for first in range(0, len(tall), height):
        part = tall[first : first + height] / scale
        gram += part.T @ (part if along is None else along[first : first + height, np.newaxis] * part)
    if along is None:
        roots = np.sqrt(weights)
        gram = roots[:, np.newaxis] * gram * roots
    return max(eigenvalue((gram + gram.T) / 2, -1), 0.0)
