"""Full batch against B batches at equal alpha: spectra quantile by quantile, and learning curves."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import significant
from reshuffle.asymptotics.batch_law import batch_spectrum
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.asymptotics.learning_curve import LearningCurve, learning_curve
from reshuffle.asymptotics.spectra import Covariance
from reshuffle.free.checks import probabilities
from reshuffle.run.stopping import BestEpoch


@dataclass(frozen=True, eq=False)
class SpectrumComparison:
    """The spectra of alpha W and alpha Z(alpha/B) side by side, frozen modes aside.

    Attributes
    ----------
    levels : (m,)
        The levels of the quantiles.
    full, batched : (m,)
        The quantiles of the two spectra.
    """

    levels: FloatArray
    full: FloatArray
    batched: FloatArray

    @property
    def ratio(self) -> FloatArray:
        """Quantiles for B batches over those for full batch: below one where the spectrum shrinks."""
        return self.batched / self.full

    def __repr__(self) -> str:
        if not len(self.levels):
            return "SpectrumComparison(no quantiles)"
        return (
            f"SpectrumComparison({len(self.levels)} quantiles, ratio from {significant(self.ratio.min(), 4)}"
            f" to {significant(self.ratio.max(), 4)})"
        )


def compare_spectra(
    aspect: float, alpha: float, batches: int, levels: ArrayLike | None = None, covariance: Covariance = None
) -> SpectrumComparison:
    """Compare quantiles of the limiting spectra of alpha W and alpha Z(alpha/B): batching shrinks the spectrum.

    Parameters
    ----------
    aspect, alpha, batches, covariance
        As in `batch_spectrum`.
    levels : (m,) in [0, 1], optional
        Levels in the spectrum without its atom at zero; 0.01, ..., 0.99 by default.

    Returns
    -------
    SpectrumComparison
        Quantiles of both, of the shape of `levels`.

    >>> compare_spectra(0.25, 0.4, 2, levels=[0.1, 0.5, 0.9]).ratio.round(4)
    array([0.9841, 0.9328, 0.8506])
    """
    chosen = np.arange(1, 100) / 100 if levels is None else np.atleast_1d(probabilities("levels", levels))
    full = batch_spectrum(aspect, alpha, 1, covariance)
    batched = batch_spectrum(aspect, alpha, batches, covariance)
    return SpectrumComparison(chosen, _moving(full, chosen), _moving(batched, chosen))


@dataclass(frozen=True, eq=False)
class CurveComparison:
    """The learning curves of full batch and of B batches at equal alpha.

    Attributes
    ----------
    full, batched : LearningCurve
    """

    full: LearningCurve
    batched: LearningCurve

    @cached_property
    def best(self) -> tuple[BestEpoch, BestEpoch]:
        """The best epochs of full batch and of B batches."""
        return self.full.best_epoch(), self.batched.best_epoch()

    @cached_property
    def price(self) -> float:
        """The limiting risk of the batches less that of full batch; infinite if one diverges, nan if both do."""
        with np.errstate(invalid="ignore"):
            return float(self.batched.limit().total - self.full.limit().total)

    def __repr__(self) -> str:
        full, batched = self.best
        return (
            f"CurveComparison(best epoch {full.epoch:g} and {batched.epoch:g}, risk there {full.risk:.6g} and"
            f" {batched.risk:.6g}, price in the limit {significant(self.price, 3)})"
        )


def compare_curves(
    aspect: float,
    alpha: float,
    batches: int,
    *,
    covariance: Covariance = None,
    noise: float = 1.0,
    signal: float = 1.0,
) -> CurveComparison:
    """Full batch against B batches at equal alpha: when to stop, the risk there, and in the limit.

    Parameters
    ----------
    aspect, alpha, batches, noise, signal, covariance
        As in `learning_curve`.

    Returns
    -------
    CurveComparison

    >>> compare_curves(0.25, 0.4, 2)
    CurveComparison(best epoch 4 and 4, risk there 0.247411 and 0.245908, price in the limit 0.000662)
    """
    full, batched = (
        learning_curve(aspect, alpha, number, noise=noise, signal=signal, covariance=covariance)
        for number in (1, batches)
    )
    return CurveComparison(full, batched)


def _moving(law: EpochLaw, levels: FloatArray) -> FloatArray:
    """The quantiles of the part that moves: those below zero come before the mass at zero, the others after."""
    frozen = law.frozen[0]
    below = float(law.cdf(0.0)) - frozen
    moving = (1 - frozen) * levels
    return law.quantile(np.minimum(np.where(moving <= below, moving, moving + frozen), 1.0))
