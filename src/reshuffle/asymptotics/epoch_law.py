"""Base class of the limiting spectra of alpha Z: the law, and the measures of the risk on the same spectrum."""

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._arrays import FloatArray
from reshuffle.asymptotics.spectra import Population
from reshuffle.free.checks import Complex, Real, complex_points, count, real_points
from reshuffle.free.laws import Law
from reshuffle.free.measure import Measure

_ROUNDING = 1e-14
_TOLERANCE = 1e-12
"""Relative size of what a panel may leave out."""


class EpochLaw(Law):
    """The limiting law of alpha Z(alpha/B), with the two measures on the same spectrum that make up the risk.

    Of a function f(alpha Z) the risk needs tau(f) = law, tau(f Sigma) = signal and tau(f M) = noise, where
    M = Xtilde' Xtilde / n. Their Cauchy transforms are the rows of `transforms`.

    Attributes
    ----------
    aspect, alpha : float
        The limit of p/n, and the full-batch step.
    batches : int
    population : Population
        The spectrum of Sigma.
    """

    aspect: float
    alpha: float
    batches: int
    population: Population

    @abstractmethod
    def _transforms(self, z: Complex) -> Complex:
        """The Cauchy transforms of law, signal and noise, (3, points), at z (points,) with Im z >= 0."""

    def transforms(self, z: ArrayLike) -> Complex:
        """The Cauchy transforms of law, signal and noise, (3,) + z.shape; real z means the limit from above."""
        points = complex_points("z", z)
        flat = points.ravel()
        mirrored = flat.imag < 0
        values = self._transforms(np.where(mirrored, flat.conj(), flat))
        return np.where(mirrored, values.conj(), values).reshape(3, *points.shape)

    def outside(self, z: Complex) -> Complex:
        """The Cauchy transforms (3, n) at points z (n,) above the axis and away from the spectrum."""
        return self._transforms(z)

    @cached_property
    def frozen(self) -> tuple[float, float]:
        """The masses that law and signal have at zero; the noise has none, for Xtilde' has no part there."""
        return self.population.frozen(self.aspect)

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """The atom 1 - 1/aspect at zero, if the problem is overparameterized."""
        return ((0.0, self.frozen[0]),) if self.frozen[0] > 0 else ()

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest point of the continuous part."""
        return self.support[0][0], self.support[-1][1]

    @cached_property
    def measure(self) -> Measure:
        """The law as quadrature panels, cut at zero, where it may be infinite inside its support."""
        return self._measure_on(self.support)

    def _measure_on(self, support: Sequence[tuple[float, float]]) -> Measure:
        cuts = [
            (a, b)
            for low, high in support
            for a, b in itertools.pairwise([low, 0.0, high] if low < 0 < high else [low, high])
        ]

        def density(t: FloatArray) -> tuple[FloatArray, FloatArray]:
            g = self.transforms(t + 0j)[0]
            # Close to an atom |G| is large, and rounding with it.
            error = np.nan_to_num(_ROUNDING * np.abs(g), nan=np.inf)
            return np.nan_to_num(np.maximum(-g.imag / np.pi, 0.0)), error

        return Measure(density, cuts, self.atoms, tolerance=_TOLERANCE)

    def moments(self, order: int) -> Real:
        x, weights = self.measure.quadrature
        return np.array([weights @ x**k for k in range(1, count("order", order) + 1)])

    def densities(self, t: ArrayLike) -> FloatArray:
        """The densities of law, signal and noise, (3,) + t.shape, off zero."""
        return np.asarray(-self.transforms(real_points("t", t) + 0j).imag / np.pi)

    def _cauchy(self, z: Complex) -> Complex:
        return np.asarray(self.transforms(z)[0])

    def _density(self, t: Real) -> Real:
        return np.asarray(np.maximum(self.densities(t)[0], 0.0))

    def __repr__(self) -> str:
        covariance = "" if self.population.is_identity else f", covariance of {self.population}"
        return (
            f"{type(self).__name__}(aspect={self.aspect:g}, alpha={self.alpha:g}, batches={self.batches}"
            f"{covariance})"
        )
