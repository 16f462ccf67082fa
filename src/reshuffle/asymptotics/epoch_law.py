"""What every limiting spectrum of alpha Z offers: the law itself, and the measures that the risk is made of."""

from abc import abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.arrays import FloatArray
from reshuffle.asymptotics.population import Population
from reshuffle.asymptotics.spectral_grid import SpectralGrid
from reshuffle.free.checks import Complex, Real, real_points
from reshuffle.free.laws import Law
from reshuffle.free.measure import Measure


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
    def transforms(self, z: Complex) -> Complex:
        """The Cauchy transforms of law, signal and noise, (3, points), at z (points,) with Im z >= 0."""

    @property
    @abstractmethod
    def frozen(self) -> tuple[float, float]:
        """The masses that law and signal have at zero; the noise has none, for Xtilde' has no part there."""

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """The atom 1 - 1/aspect at zero, if the problem is overparameterized."""
        return ((0.0, self.frozen[0]),) if self.frozen[0] > 0 else ()

    @cached_property
    def grid(self) -> SpectralGrid:
        """The three measures as quadrature rules."""
        return SpectralGrid.of(self.densities, self.support)

    @cached_property
    def measure(self) -> Measure:
        """The law as quadrature panels."""
        return Measure(self.grid.density, self.support, self.atoms)

    def densities(self, t: ArrayLike) -> FloatArray:
        """The densities of law, signal and noise, (3, points), at t (points,) off zero."""
        return np.asarray(-self.transforms(real_points("t", t) + 0j).imag / np.pi)

    def _cauchy(self, z: Complex) -> Complex:
        flat = z.ravel()
        mirrored = flat.imag < 0
        values = self.transforms(np.where(mirrored, flat.conj(), flat))[0]
        return np.asarray(np.where(mirrored, values.conj(), values).reshape(z.shape))

    def _density(self, t: Real) -> Real:
        return np.asarray(np.maximum(self.densities(t.ravel())[0], 0.0).reshape(t.shape))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(aspect={self.aspect:g}, alpha={self.alpha:g}, batches={self.batches})"
