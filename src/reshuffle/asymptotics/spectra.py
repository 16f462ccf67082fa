"""Which limiting spectrum belongs to which recipe."""

from typing import Any

from reshuffle.asymptotics import door
from reshuffle.asymptotics.batch_law import BatchLaw
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.asymptotics.full_batch_law import FullBatchLaw
from reshuffle.asymptotics.population import population
from reshuffle.asymptotics.two_batch_law import TwoBatchLaw
from reshuffle.free.effort import BUDGET


def marchenko_pastur(aspect: float, alpha: float) -> FullBatchLaw:
    """The limiting law of alpha W, the spectrum of full-batch descent with step alpha.

    Parameters
    ----------
    aspect : float > 0
        The limit of p/n.
    alpha : float > 0

    >>> marchenko_pastur(0.25, 0.4).support
    ((0.1, 0.9),)
    """
    return FullBatchLaw(aspect, alpha)


def batch_spectrum(
    aspect: float, alpha: float, batches: int, covariance: Any = None, budget: float = BUDGET
) -> EpochLaw:
    """The limiting law of alpha Z(alpha/B) for Gaussian data, p/n -> aspect, and any number of batches.

    One and two batches of isotropic data have closed forms; everything else is followed by `reshuffle.free`.

    Parameters
    ----------
    aspect : float > 0
        The limit of p/n.
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
    door.aspect(aspect), door.alpha(alpha)
    number = door.batches(batches)
    if population(covariance).is_identity:
        if number == 1:
            return FullBatchLaw(aspect, alpha)
        if number == 2 and TwoBatchLaw.serves(aspect, alpha):
            return TwoBatchLaw(aspect, alpha)
    return BatchLaw(aspect, alpha, number, covariance, budget)
