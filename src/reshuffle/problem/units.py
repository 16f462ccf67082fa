"""Units in which squares of errors and noise are numbers.

The risk is homogeneous: with y, beta_star, the noise and the start divided by a unit it is divided by the square of
the unit. Second moments are squares throughout, and leave the range of float64 long before the risk they lead to.
"""

import math

import numpy as np

from reshuffle._core.arrays import FloatArray
from reshuffle.problem.least_squares import LeastSquares

_ORDINARY = 1e100
"""Sizes between this and its inverse need no other unit than one: their squares are numbers, times others too."""


def unit(problem: LeastSquares, start: FloatArray) -> float:
    """A power of two that makes what the responses are made of of ordinary size; 1 where it is."""
    scale = problem.row_space.scale
    sizes = [float(np.abs(problem.y).max()), scale * float(np.abs(start).max())]
    if problem.beta_star is not None:
        sizes.append(scale * float(np.abs(problem.beta_star).max()))
    if problem.noise is not None:
        sizes.append(problem.noise)
    largest = max(sizes)
    if largest == 0 or math.isinf(largest) or 1 / _ORDINARY < largest < _ORDINARY:
        return 1.0
    # Large numbers stay as large as they may: beside the noise an error may be small, and its square a number.
    return math.ldexp(1.0, math.frexp(largest / _ORDINARY if largest > 1 else largest)[1])


def divided(problem: LeastSquares, size: float) -> LeastSquares:
    """The same problem with responses, truth and noise in another unit."""
    return LeastSquares(
        problem.X,
        problem.y / size,
        beta_star=None if problem.beta_star is None else problem.beta_star / size,
        covariance=problem.covariance.value,
        noise=None if problem.noise is None else problem.noise / size,
    )
