"""Fixed dimension, many rows: what batching does to each eigenvalue of Sigma."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.asymptotics import spectra


@dataclass(frozen=True)
class Shrinkage:
    """The limiting eigenvalue map of Z(alpha/B) as n grows: lambda -> (1 - (1 - alpha lambda/B)^B)/alpha.

    It is lambda (1 - p(lambda)) with p(lambda) = sum_{i=1}^{B-1} (-1)^(i+1) binom(B-1, i)/(i+1) (alpha lambda/B)^i
    (Proposition fixedp_Z_limit, whose printed coefficient is right only for B <= 3).

    Attributes
    ----------
    batches : int
    alpha : float
        The full-batch step.
    """

    batches: int
    alpha: float

    def __call__(self, eigenvalues: ArrayLike) -> FloatArray:
        """The limit of each eigenvalue, from the closed form; any shape.

        >>> Shrinkage(batches=2, alpha=0.4)([0.0, 1.0]).round(12)
        array([0. , 0.9])
        """
        scaled = self.alpha * _arrays.real_array("eigenvalues", eigenvalues) / self.batches
        with np.errstate(over="ignore", divide="ignore"):
            power = (1 - scaled) ** self.batches
            # 1 - t and t - 2 are exact where the power is near one.
            near = np.where(
                scaled < 0.5, np.log1p(-np.minimum(scaled, 0.5)), np.log1p(np.maximum(scaled, 1.5) - 2)
            )
            rest = -np.expm1(self.batches * near)
        close = (np.abs(scaled) < 0.5) | ((scaled > 1.5) & (self.batches % 2 == 0))
        return np.where(close, rest, 1 - power) / self.alpha

    @property
    def coefficients(self) -> FloatArray:
        """Coefficients of lambda, ..., lambda^B: (-1)^i binom(B - 1, i)/(i + 1) (alpha/B)^i, i = 0, ..., B - 1."""
        step, others = self.alpha / self.batches, self.batches - 1
        return np.array([(-step) ** i * math.comb(others, i) / (i + 1) for i in range(self.batches)])


def shrinkage(batches: int, alpha: float) -> Shrinkage:
    """The map of eigenvalues by batching, n large and p fixed: Z(alpha/B) -> (1 - (1 - alpha Sigma/B)^B)/alpha.

    Parameters
    ----------
    batches : int >= 1
    alpha : float > 0
        The full-batch step; each batch is visited with alpha/B.

    Returns
    -------
    Shrinkage
        A function of eigenvalues, of any shape.

    >>> shrinkage(batches=4, alpha=0.5)([0.5, 1.0, 2.0]).round(6)
    array([0.455048, 0.827637, 1.367188])
    """
    return Shrinkage(spectra.batches(batches), spectra.alpha(alpha))
