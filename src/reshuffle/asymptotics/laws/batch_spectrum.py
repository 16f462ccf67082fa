"""Which limiting spectrum belongs to which recipe, and the simplest: the Marchenko-Pastur law of alpha W."""

from functools import cached_property

import numpy as np

from reshuffle.asymptotics import arguments
from reshuffle.asymptotics.arguments import IDENTITY, Covariance, population
from reshuffle.asymptotics.laws.batch_law import BatchLaw
from reshuffle.asymptotics.laws.epoch_law import EpochLaw
from reshuffle.asymptotics.laws.two_batch_law import TwoBatchLaw
from reshuffle.free.checks import Complex, Real
from reshuffle.free.laws import MarchenkoPastur
from reshuffle.free.solver.effort import BUDGET


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
        self.aspect, self.alpha = arguments.aspect(aspect), arguments.alpha(alpha)

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


def marchenko_pastur(aspect: float, alpha: float) -> FullBatchLaw:
    """The limiting law of alpha W, the spectrum of full-batch descent with step alpha.

    Parameters
    ----------
    aspect : float > 0
        The limit of p/n, of all rows: see "Aspect and ratio" in docs/asymptotics.md.
    alpha : float > 0

    >>> marchenko_pastur(0.25, 0.4).support
    ((0.1, 0.9),)
    """
    return FullBatchLaw(aspect, alpha)


def batch_spectrum(
    aspect: float, alpha: float, batches: int, covariance: Covariance = None, budget: float = BUDGET
) -> EpochLaw:
    """The limiting law of alpha Z(alpha/B) for Gaussian data, p/n -> aspect, and any number of batches.

    One and two batches of isotropic data have closed forms; everything else is followed by `reshuffle.free`.

    Parameters
    ----------
    aspect : float > 0
        The limit of p/n, of all rows: see "Aspect and ratio" in docs/asymptotics.md.
    alpha : float > 0
        The full-batch step under linear scaling: each batch is visited with alpha/B.
    batches : int >= 1
    covariance : None, free.Discrete or (m,)
        The spectrum of Sigma: the identity by default, a discrete law, or eigenvalues of equal shares.
    budget : float > 0
        Seconds of one core that finding the support may cost, as estimated beforehand; see `BatchLaw`.

    >>> law = batch_spectrum(aspect=1.5, alpha=0.2, batches=3)
    >>> law.atoms[0][1].__round__(6), [(round(low, 6), round(high, 6)) for low, high in law.support]
    (0.333333, [(0.011047, 0.782981)])
    """
    arguments.aspect(aspect), arguments.alpha(alpha)
    number = arguments.batches(batches)
    if population(covariance).is_identity:
        if number == 1:
            return FullBatchLaw(aspect, alpha)
        if number == 2 and TwoBatchLaw.serves(aspect, alpha):
            return TwoBatchLaw(aspect, alpha)
    return BatchLaw(aspect, alpha, number, covariance, budget)
