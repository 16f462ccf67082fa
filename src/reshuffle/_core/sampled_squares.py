"""Test errors of linear predictions on Gaussian samples, drawn from their law without drawing the samples."""

import numpy as np
import scipy.linalg

from reshuffle._core import FloatArray
from reshuffle._core.numerics import norms


def mean_squares(
    directions: FloatArray, samples: int, rng: np.random.Generator, draws: int = 1
) -> FloatArray:
    """The means of (z'd)^2 over samples z ~ N(0, I), the same ones for all directions d: (draws, k).

    They are d'S d with S = Z'Z / samples, so that their joint law depends on the products of the directions alone.
    With D = R'R the Gram matrix of the directions, Z d has the law of Z_r R for a white Z_r with as many columns as
    R has rows, and the triangular factor of Z_r is known in law: independent entries, normal above the diagonal,
    and on it chi with samples, samples - 1, ... degrees of freedom (Bartlett, 1933). That takes r^2 / 2 random
    numbers instead of samples times p.

    Parameters
    ----------
    directions : (k, p)
    samples : int
        At least 1.
    rng : Generator
    draws : int
        How many times to draw, each with samples of its own.

    >>> rng = np.random.default_rng(0)
    >>> directions = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 4.0]])
    >>> found = mean_squares(directions, 10_000, rng)
    >>> bool(abs(found[0, 0] - 1) < 0.1), float(found[0, 1] / found[0, 0])
    (True, 4.0)
    """
    lengths = norms(directions)
    # An error that is no number any more is infinite at every sample, and one without length is 0.
    usable = np.isfinite(lengths) & (lengths > 0)
    units = directions[usable] / lengths[usable, np.newaxis]
    squares = np.ones((draws, len(lengths)))
    if len(units):
        factor = _factor(units @ units.T)
        for drawn in squares:
            drawn[usable] = _drawn(factor, samples, rng) / samples
    with np.errstate(over="ignore", under="ignore"):
        # Not the square of the length first: that may be out of range where the product is not.
        return np.where(np.isnan(lengths), np.inf, lengths * (lengths * squares))


def _factor(gram: FloatArray) -> FloatArray:
    """R (r, k) with R'R = gram, of unit diagonal, to rounding."""
    factor, order, rank, _ = scipy.linalg.lapack.dpstrf(gram)
    triangle = np.triu(factor)[:rank]
    columns = np.empty((rank, len(gram)))
    columns[:, order - 1] = triangle
    return columns


def _drawn(factor: FloatArray, samples: int, rng: np.random.Generator) -> FloatArray:
    """The squared lengths of the columns of Z R, for a white Z with `samples` rows."""
    rank = len(factor)
    height = min(rank, samples)
    triangle = np.triu(rng.standard_normal((height, rank)))
    np.fill_diagonal(triangle, np.sqrt(rng.chisquare(samples - np.arange(height))))
    product = triangle @ factor
    return np.asarray(np.einsum("ij,ij->j", product, product))
