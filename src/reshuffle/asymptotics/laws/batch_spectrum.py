"""Which limiting law belongs to which recipe, and the largest step for which it converges."""

import math
from functools import cached_property

import numpy as np
import scipy.optimize

from reshuffle.asymptotics import arguments
from reshuffle.asymptotics.arguments import IDENTITY, Covariance, population
from reshuffle.asymptotics.laws.batch_law import BatchLaw
from reshuffle.asymptotics.laws.epoch_law import EpochLaw
from reshuffle.asymptotics.laws.two_batch_law import TwoBatchLaw
from reshuffle.free.checks import Complex, ConvergenceError, Real
from reshuffle.free.laws import MarchenkoPastur
from reshuffle.free.measure import edges
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

    Returns
    -------
    FullBatchLaw

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
    if population(covariance).is_identity:
        if number == 1:
            return FullBatchLaw(aspect, alpha)
        if number == 2 and TwoBatchLaw.serves(aspect, alpha):
            return TwoBatchLaw(aspect, alpha)
    return BatchLaw(aspect, alpha, number, covariance, budget)


_STRIDE = 0.06
"""Relative distance of neighbouring steps at which the ends of the spectrum are looked at."""
_VISIBLE = 1e-9
"""Densities above this are not rounding."""
_ROUGH = 1e-7
"""Relative width of the bracket from which the square of the density leads to the crossing."""


def critical_alpha(aspect: float, batches: int) -> float:
    """The alpha at which the spectrum of alpha Z(alpha/B), frozen modes aside, first leaves (0, 2).

    For B = 1 it is 2 / (1 + aspect^(1/2))^2. For B = 2 the ends of the spectrum are those of the closed form.
    For more batches the density at 2, and at 0 if aspect < 1, is followed until it is first positive; beyond, its
    square grows linearly, which gives the crossing to about nine digits.

    Parameters
    ----------
    aspect : float > 0
    batches : int >= 1

    Returns
    -------
    float

    >>> critical_alpha(1.0, 1), round(critical_alpha(1.5, 2), 6)
    (0.5, 0.612366)
    """
    ratio, number = arguments.aspect(aspect), arguments.batches(batches)
    full_batch = 2 / (1 + math.sqrt(ratio)) ** 2
    if number == 1:
        return full_batch
    # With few parameters the spectrum is narrow, and leaves near 2B as fixed dimension has it.
    width = math.sqrt(number * ratio)
    start = max(full_batch, 2 * number * (1 - 8 * width))
    stride = 1 + min(_STRIDE, 0.3 * width)
    if number == 2:
        return _two_batches(ratio, start, stride)
    return _many_batches(ratio, number, start, stride)


def _two_batches(aspect: float, start: float, stride: float) -> float:
    def gaps(alpha: float) -> tuple[float, float]:
        support = TwoBatchLaw(aspect, alpha).support
        return support[0][0], 2 - support[-1][1]

    alpha = start
    while min(gaps(stride * alpha)) >= 0:
        alpha *= stride
    # At aspect 1 the lower end is zero on this side of the crossing: the smaller gap would be flat there.
    end = int(np.argmin(gaps(stride * alpha)))
    return float(scipy.optimize.brentq(lambda a: gaps(a)[end], alpha, stride * alpha, xtol=1e-15, rtol=1e-14))


def _many_batches(aspect: float, batches: int, start: float, stride: float) -> float:
    # With aspect >= 1 frozen modes sit at zero; the others have been found to leave at 2 first, for every B.
    ends = np.array([2.0] if aspect >= 1 else [0.0, 2.0])

    def density(alpha: float) -> float:
        return float(BatchLaw(aspect, alpha, batches).densities(ends)[0].max())

    low = start
    while not density(stride * low) > _VISIBLE:
        low *= stride
        if low > 4 * batches:
            raise ConvergenceError(
                f"the spectrum of {batches} batches was not seen to leave (0, 2) up to alpha = {low:.4g} at aspect"
                f" {aspect:g}, although fixed dimension ends at {2 * batches}"
            )
    width, high = (stride - 1) * low, stride * low
    while high - low > _ROUGH * high:
        middle = (low + high) / 2
        low, high = (low, middle) if density(middle) > _VISIBLE else (middle, high)
    found = edges.square_root_ends(
        lambda points: np.array([density(a) for a in points]), np.array([high]), np.array([width]), high
    )[0]
    if np.isnan(found):
        raise ConvergenceError(
            f"the spectrum of {batches} batches leaves (0, 2) between alpha = {low:.8g} and {high:.8g} at aspect"
            f" {aspect:g}, but not like a square root; use stability of learning_curve on both sides"
        )
    return float(found)
