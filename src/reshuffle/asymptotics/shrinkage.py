"""Fixed dimension, many rows: what batching does to each eigenvalue of Sigma."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from reshuffle._core import checks
from reshuffle._core.arrays import FloatArray
from reshuffle.asymptotics import door


@dataclass(frozen=True)
class Shrinkage:
    """The limiting eigenvalue map of Z(alpha/B) as n grows: lambda -> (1 - (1 - alpha lambda/B)^B)/alpha.

    It is lambda (1 - p(lambda)) with p(lambda) = sum_{i=1}^{B-1} (-1)^(i+1) binom(B-1, i)/(i+1) (alpha lambda/B)^i
    (Proposition fixedp_Z_limit, whose printed coefficient is right only for B <= 3).
    """

    batches: int
    alpha: float

    def __call__(self, eigenvalues: Any) -> FloatArray:
        """The limit of each eigenvalue, from the closed form; any shape.

        >>> Shrinkage(batches=2, alpha=0.4)([0.0, 1.0]).round(12)
        array([0. , 0.9])
        """
        scaled = self.alpha * checks.real_array("eigenvalues", eigenvalues) / self.batches
        return self._lost(scaled) / self.alpha

    def _lost(self, scaled: FloatArray) -> FloatArray:
        """1 - (1 - t)^B, without losing digits at small t."""
        with np.errstate(over="ignore", divide="ignore"):
            power = (1 - scaled) ** self.batches
            # 1 - t and t - 2 are exact where the power is near one.
            near = np.where(
                scaled < 0.5, np.log1p(-np.minimum(scaled, 0.5)), np.log1p(np.maximum(scaled, 1.5) - 2)
            )
            rest = -np.expm1(self.batches * near)
        close = (np.abs(scaled) < 0.5) | ((scaled > 1.5) & (self.batches % 2 == 0))
        return np.where(close, rest, 1 - power)

    @property
    def coefficients(self) -> FloatArray:
        """Of lambda, lambda^2, ..., lambda^B: (-1)^i binom(B - 1, i)/(i + 1) (alpha/B)^i, i = 0, ..., B - 1."""
        return np.array([float(value) for value in self._exact_coefficients])

    @cached_property
    def _exact_coefficients(self) -> list[Fraction]:
        step = Fraction(self.alpha) / self.batches
        return [(-step) ** i * math.comb(self.batches - 1, i) / (i + 1) for i in range(self.batches)]

    def polynomial(self, eigenvalues: Any) -> FloatArray:
        """The same map as the sum of its powers, in rational arithmetic: its terms cancel without loss.

        >>> Shrinkage(batches=2, alpha=0.4).polynomial(1.0)
        array(0.9)
        """
        values = checks.real_array("eigenvalues", eigenvalues)
        return np.array([self._exactly(Fraction(float(value))) for value in values.flat]).reshape(
            values.shape
        )

    def _exactly(self, eigenvalue: Fraction) -> float:
        total = Fraction(0)
        for coefficient in reversed(self._exact_coefficients):
            total = (total + coefficient) * eigenvalue
        try:
            return float(total)
        except OverflowError:
            return math.inf if total > 0 else -math.inf


def shrinkage(batches: int, alpha: float) -> Shrinkage:
    """How batching shrinks the spectrum, n large and p fixed: Z(alpha/B) -> (1 - (1 - alpha Sigma/B)^B)/alpha.

    Parameters
    ----------
    batches : int >= 1
    alpha : float > 0
        The full-batch step; each batch is visited with alpha/B.

    >>> shrinkage(batches=4, alpha=0.5)([0.5, 1.0, 2.0]).round(6)
    array([0.455048, 0.827637, 1.367188])
    """
    return Shrinkage(door.batches(batches), door.alpha(alpha))
