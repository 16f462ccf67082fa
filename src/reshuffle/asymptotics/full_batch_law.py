"""The spectrum of full-batch descent: the Marchenko-Pastur law of alpha W."""

from functools import cached_property

import numpy as np

from reshuffle.asymptotics import door
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.asymptotics.population import IDENTITY
from reshuffle.free.checks import Complex, Real
from reshuffle.free.laws import MarchenkoPastur


class FullBatchLaw(EpochLaw):
    """The limiting law of alpha W for isotropic Gaussian data, p/n -> aspect (Section 3.3.2).

    Its density is ((x_+ - x)(x - x_-))^(1/2) / (2 pi alpha aspect x) between x_-+ = alpha (1 -+ aspect^(1/2))^2,
    with an atom 1 - 1/aspect at zero when aspect > 1. The noise is M = W, so its transform is (z G - 1) / alpha.

    Parameters
    ----------
    aspect, alpha : float > 0

    >>> FullBatchLaw(aspect=4.0, alpha=0.5).support, FullBatchLaw(aspect=4.0, alpha=0.5).atoms
    (((0.5, 4.5),), ((0.0, 0.75),))
    """

    batches = 1
    population = IDENTITY

    def __init__(self, aspect: float, alpha: float):
        self.aspect, self.alpha = door.aspect(aspect), door.alpha(alpha)

    @cached_property
    def marchenko_pastur(self) -> MarchenkoPastur:
        """The law as a variable of `reshuffle.free`."""
        return MarchenkoPastur(self.aspect, self.alpha)

    @property
    def frozen(self) -> tuple[float, float]:
        """The masses of law and signal at zero."""
        return IDENTITY.frozen(self.aspect)

    @property
    def support(self) -> tuple[tuple[float, float], ...]:
        """The one interval of the continuous part."""
        return self.marchenko_pastur.support

    def _transforms(self, z: Complex) -> Complex:
        """The Cauchy transforms of law, signal and noise, (3, points)."""
        g = self.marchenko_pastur.cauchy(z)
        # (z G - 1)/alpha = G / (1 - alpha aspect G) keeps its digits far out.
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.array([g, g, g / (1 - self.alpha * self.aspect * g)])

    def _limiting_noise(self) -> float:
        return 1 / (self.alpha**2 * (1 - self.aspect))

    def _density(self, t: Real) -> Real:
        return self.marchenko_pastur.density(t)
