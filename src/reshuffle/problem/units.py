"""Units in which squares of errors and noise are numbers.

The risk is homogeneous: with y, beta_star, the noise and the start divided by a unit it is divided by the square of
the unit, and with Sigma divided by one by that itself. Second moments are squares throughout, and leave the range
of float64 long before the risk they lead to.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse.linalg import LinearOperator

from reshuffle._arrays import FloatArray
from reshuffle.problem.covariance import Covariance
from reshuffle.problem.least_squares import LeastSquares

_ORDINARY = 1e100
"""Sizes between this and its inverse need no other unit than one: their squares are numbers, times others too."""


@dataclass(frozen=True)
class Units:
    """Powers of two: 2^parameters for all that parameters and responses are made of, 2^covariance for Sigma."""

    parameters: int
    covariance: int

    @property
    def are_one(self) -> bool:
        """Whether nothing is measured in another unit."""
        return self.parameters == 0 and self.covariance == 0

    @property
    def of_risk(self) -> int:
        """The power of two that a risk in these units is multiplied by."""
        return 2 * self.parameters + self.covariance

    def divided(self, problem: LeastSquares, given_responses: bool) -> LeastSquares:
        """The same problem in these units, of responses and noise only what the expected risk depends on."""
        beta_star, noise = problem.beta_star, problem.noise
        kept = problem.kept
        return LeastSquares.of_kept(
            replace(kept, y=self.vector(kept.y) if given_responses else np.zeros(len(kept.X))),
            beta_star=None if beta_star is None else self.vector(beta_star),
            covariance=_divided(problem.covariance, self.covariance),
            noise=None if noise is None or given_responses else math.ldexp(noise, -self.parameters),
        )

    def vector(self, values: FloatArray) -> FloatArray:
        """Responses or parameters in these units."""
        return np.ldexp(values, -self.parameters)


def units(problem: LeastSquares, start: FloatArray, given_responses: bool) -> Units:
    """Units that make what enters the expected risk of ordinary size; one where it is."""
    scale = problem.row_space.scale
    sizes = [scale * float(np.abs(start).max())]
    if problem.beta_star is not None:
        sizes.append(scale * float(np.abs(problem.beta_star).max()))
    if given_responses:
        sizes.append(float(np.abs(problem.kept.y).max()))
    elif problem.noise is not None:
        sizes.append(float(problem.noise))
    parameters, covariance = _exponent(max(sizes)), _exponent(_size(problem.covariance))
    if covariance < 0 and parameters == 0:
        # What a small Sigma makes of large errors may be a number where their squares are not: they get room.
        parameters = -covariance // 2
    return Units(parameters, covariance)


def _size(covariance: Covariance) -> float:
    """The largest entry of Sigma, where it has entries."""
    value = covariance.value
    return 1.0 if isinstance(value, LinearOperator) else float(np.abs(value).max())


def _divided(covariance: Covariance, exponent: int) -> float | FloatArray | LinearOperator:
    value = covariance.value
    return value if isinstance(value, LinearOperator) or not exponent else np.ldexp(value, -exponent)


def _exponent(largest: float) -> int:
    """Of the unit in which a size is ordinary."""
    if largest == 0 or math.isinf(largest) or 1 / _ORDINARY < largest < _ORDINARY:
        return 0
    # Large numbers stay as large as they may: beside the noise an error may be small, and its square a number.
    return math.frexp(largest / _ORDINARY if largest > 1 else largest)[1]
