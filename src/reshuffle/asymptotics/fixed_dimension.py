"""Fixed dimension, many rows: what batching does to each eigenvalue of Sigma, to trajectories and to the risk."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._linalg import power_and_sum
from reshuffle.asymptotics import spectra
from reshuffle.problem import checked_problem, checked_start
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run.modes import RiskForms, times_finite
from reshuffle.run.trajectory import Risk


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
        """Coefficients of lambda, ..., lambda^B: (-1)^i binom(B - 1, i)/(i + 1) (alpha/B)^i, i = 0, ..., B - 1."""
        return np.array([float(value) for value in self._exact_coefficients])

    @cached_property
    def _exact_coefficients(self) -> list[Fraction]:
        step = Fraction(self.alpha) / self.batches
        return [(-step) ** i * math.comb(self.batches - 1, i) / (i + 1) for i in range(self.batches)]

    def polynomial(self, eigenvalues: ArrayLike) -> FloatArray:
        """Evaluate the map of `eigenvalues` as a sum of powers, in rational arithmetic: terms cancel without loss.

        >>> Shrinkage(batches=2, alpha=0.4).polynomial(1.0)
        array(0.9)
        """
        values = _arrays.real_array("eigenvalues", eigenvalues)
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


@dataclass(frozen=True, eq=False)
class FixedDimension:
    r"""Mini-batch descent as n grows with p fixed, on a problem's own W (Proposition fixedp_error_limit).

    Each Pi_b tends to I - p(W), p the polynomial of `shrinkage`, so in the eigenbasis V of W = V diag(lambda) V'

    .. math::
        [V'(\beta_k - \beta_*)]_i = d_i^k [V'(\beta_0 - \beta_*)]_i + (1 - d_i^k) [U' \eta]_i / s_i, \\
        d_i = 1 - \alpha \lambda_i (1 - p(\lambda_i)) = (1 - \alpha \lambda_i / B)^B,

    with s_i = (n lambda_i)^(1/2) the singular values of X. Full batch is B = 1.

    Parameters
    ----------
    problem : LeastSquares
        With rank p.
    map : Shrinkage
    start : (p,)
    """

    problem: LeastSquares
    map: Shrinkage
    start: FloatArray

    @cached_property
    def _decomposition(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Singular values s (p,), right vectors V (p, p), and U'y (p,)."""
        reduction = self.problem.reduction
        left, values, right = scipy.linalg.svd(reduction.rows, full_matrices=False, check_finite=False)
        vectors = reduction.space.lift(right.T)
        return values * reduction.space.scale, vectors, left.T @ self.problem.squeezed(reduction.response)

    @cached_property
    def paces(self) -> FloatArray:
        """Decay rates of the modes per epoch, 1 - d_i (p,)."""
        values, _, _ = self._decomposition
        return self.map.alpha * self.map(values**2 / self.problem.n)

    def iterate(self, epochs: ArrayLike) -> FloatArray:
        """The limiting mean iterate, of shape epochs.shape + (p,)."""
        clock = _arrays.epochs(epochs)
        values, vectors, responses = self._decomposition
        decay, _ = power_and_sum(self.paces, clock)
        least_squares = responses / values
        modes = least_squares + times_finite(decay, vectors.T @ self.start - least_squares)
        grows = np.isinf(modes)
        parameters = np.where(grows, 0.0, modes) @ vectors.T
        reached = grows.astype(np.float64) @ (np.abs(vectors) > 0).T > 0
        return np.where(reached, np.inf, parameters)

    def risk(self, epochs: ArrayLike) -> Risk:
        """The limiting risk of the mean iterate for any Sigma, of the shape of `epochs`."""
        clock = _arrays.epochs(epochs)
        beta_star, covariance, noise = self.problem.truth("the risk")
        values, vectors, _ = self._decomposition
        space = self.problem.row_space
        decay, drift = power_and_sum(self.paces, clock.ravel())
        forms = RiskForms.of(
            space=space,
            modes=space.coordinates(vectors),
            frozen_modes=np.zeros(len(values), dtype=bool),
            error=self.start - beta_star,
            input_map=np.diag(self.paces / values),
            covariance=covariance,
            noise=noise,
        )
        frozen, bias, cross, variance = forms.parts(decay, drift).reshape(4, *clock.shape)
        return Risk(clock, frozen, bias, cross, variance, np.zeros(clock.shape))


def fixed_dimension(
    problem: LeastSquares, batches: int, alpha: float, start: ArrayLike | None = None
) -> FixedDimension:
    """The limit of mini-batch descent on a problem as its rows become many and its dimension is fixed.

    The exact answer of `descend` differs from it by O(1/n): the batches' covariances are n^(-1/2) away from W, but
    these distances sum to zero.

    Parameters
    ----------
    problem : LeastSquares
        With n >= p rows that span all directions.
    batches : int >= 1
        1 gives full batch, exactly.
    alpha : float > 0
    start : (p,), optional

    Returns
    -------
    FixedDimension
        Its `iterate` and `risk` take epochs of any shape.

    >>> import reshuffle as rs
    >>> problem = rs.gaussian(n=4000, p=3, noise=1.0, seed=0)
    >>> limit = fixed_dimension(problem, batches=4, alpha=0.5)
    >>> exact = rs.descend(problem, rs.RandomReshuffling(batches=4), alpha=0.5)
    >>> bool(abs(limit.risk(5).total / exact.risk(5).total - 1) < 1e-3)
    True
    """
    problem = checked_problem(problem)
    if problem.rank < problem.p:
        raise ValueError(
            f"problem must have rank p = {problem.p} in the limit of many rows, but its rank is {problem.rank};"
            " the proportional limit, learning_curve(aspect=p/n, ...), has no such condition."
        )
    return FixedDimension(problem, shrinkage(batches, alpha), checked_start(start, problem))
