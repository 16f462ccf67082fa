"""Which limiting law belongs to which recipe, and the largest step for which it converges."""

import math
from collections.abc import Callable
from functools import cache, cached_property

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike

from reshuffle.asymptotics import arguments
from reshuffle.asymptotics.arguments import IDENTITY, Covariance, population
from reshuffle.asymptotics.laws.batch_law import BatchLaw
from reshuffle.asymptotics.laws.epoch_law import EpochLaw
from reshuffle.asymptotics.laws.two_batch_law import TwoBatchLaw
from reshuffle.free.checks import Complex, ConvergenceError, Real
from reshuffle.free.laws import MarchenkoPastur
from reshuffle.free.progress import BUDGET, working


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

    Returns
    -------
    FullBatchLaw

    >>> marchenko_pastur(0.25, 0.4).support
    ((0.1, 0.9),)
    """
    return FullBatchLaw(aspect, alpha)


def batch_spectrum(
    aspect: float,
    alpha: float,
    batches: int,
    covariance: Covariance = None,
    budget: float = BUDGET,
    source: ArrayLike | None = None,
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
    source : (m,), optional
        Where the signal lies, which learning curves ask for; see `learning_curve`.

    Returns
    -------
    EpochLaw
        Density, cdf, quantiles, support, atoms and moments of alpha Z.

    >>> law = batch_spectrum(aspect=1.5, alpha=0.2, batches=3)
    >>> law.atoms[0][1].__round__(6), [(round(low, 6), round(high, 6)) for low, high in law.support]
    (0.333333, [(0.011047, 0.782981)])
    """
    arguments.aspect(aspect), arguments.alpha(alpha)
    number = arguments.batches(batches)
    if population(covariance, source).is_identity:
        if number == 1:
            return FullBatchLaw(aspect, alpha)
        if number == 2 and TwoBatchLaw.serves(aspect, alpha):
            return TwoBatchLaw(aspect, alpha)
    return BatchLaw(aspect, alpha, number, covariance, budget, source)


_STRIDE = 0.12
"""Relative distance of neighbouring steps at which the ends of the spectrum are looked at."""
_AT_ZERO = 1e-11
"""Relative to the spectrum, how far below zero rounding may put an end that is there."""


@working("the critical alpha")
def critical_alpha(aspect: float, batches: int, covariance: Covariance = None) -> float:
    """The alpha at which the spectrum of alpha Z(alpha/B), frozen modes aside, first leaves (0, 2).

    For B = 1 and Sigma = I it is 2 / (1 + aspect^(1/2))^2. Otherwise the ends of the spectrum are followed, by the
    closed form for B = 2 and as the points where the real solution turns for all others.

    Parameters
    ----------
    aspect : float > 0
    batches : int >= 1
    covariance : None, free.Discrete or (m,)
        The spectrum of Sigma, as in `batch_spectrum`.

    Returns
    -------
    float

    >>> critical_alpha(1.0, 1), round(critical_alpha(1.5, 2), 6)
    (0.5, 0.612366)
    >>> round(critical_alpha(0.5, 1, covariance=4.0), 6) == round(critical_alpha(0.5, 1) / 4, 6)
    True
    """
    ratio, number, spectrum = arguments.aspect(aspect), arguments.batches(batches), population(covariance)
    full_batch = 2 / (1 + math.sqrt(ratio)) ** 2
    if not spectrum.is_identity:
        unit = full_batch / (2 * float(spectrum.eigenvalues.max()))
        # The law of alpha W is that of W in other units.
        full_batch = 2 * unit / BatchLaw.of(ratio, unit, 1, spectrum).ends[1]
    if number == 1:
        return full_batch
    # With few parameters the spectrum is narrow, and leaves near 2B as fixed dimension has it.
    width = math.sqrt(number * ratio)
    start, stride = full_batch, 1 + min(_STRIDE, 0.3 * width)
    if spectrum.is_isotropic:
        # Up to here no visit makes anything longer, so that no epoch does.
        start = max(full_batch, 2 * number / (1 + width) ** 2 / float(spectrum.eigenvalues[0]))
    if number == 2 and spectrum.is_identity:
        return _leaving(lambda alpha: TwoBatchLaw(ratio, alpha), start, stride, number)
    return _leaving(lambda alpha: BatchLaw.of(ratio, alpha, number, spectrum), start, stride, number)


def _leaving(law: Callable[[float], EpochLaw], start: float, stride: float, batches: int) -> float:
    """The step at which an end of the spectrum first passes 0 or 2."""

    @cache
    def gaps(alpha: float) -> tuple[float, float]:
        low, high = law(alpha).ends
        return (0.0 if abs(low) < _AT_ZERO * high else low), 2 - high

    alpha = start
    while min(gaps(stride * alpha)) >= 0:
        alpha *= stride
        if alpha > 100 * batches * start:
            raise ConvergenceError(
                f"the spectrum of {batches} batches was not seen to leave (0, 2) up to alpha = {alpha:.4g}"
            )
    # At aspect 1 the lower end is zero on this side of the crossing: the smaller gap would be flat there.
    end = int(np.argmin(gaps(stride * alpha)))
    return float(scipy.optimize.brentq(lambda a: gaps(a)[end], alpha, stride * alpha, xtol=1e-15, rtol=1e-13))
