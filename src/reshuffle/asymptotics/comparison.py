"""Full batch against B batches at equal alpha, quantile by quantile."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle.arrays import FloatArray
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.asymptotics.spectra import batch_spectrum
from reshuffle.free.checks import probabilities


@dataclass(frozen=True, eq=False)
class SpectrumComparison:
    """The spectra of alpha W and alpha Z(alpha/B) side by side, frozen modes aside.

    Attributes
    ----------
    levels : (m,)
        Of the quantiles.
    full, batched : (m,)
        The quantiles of the two spectra.
    """

    levels: FloatArray
    full: FloatArray
    batched: FloatArray

    @property
    def ratio(self) -> FloatArray:
        """What each quantile is multiplied by when one batch becomes B: below one where the spectrum shrinks."""
        return self.batched / self.full

    def __repr__(self) -> str:
        if not len(self.levels):
            return "SpectrumComparison(no quantiles)"
        return (
            f"SpectrumComparison({len(self.levels)} quantiles, ratio from {self.ratio.min():.4g}"
            f" to {self.ratio.max():.4g})"
        )


def compare_spectra(
    aspect: float, alpha: float, batches: int, levels: Any = None, covariance: Any = None
) -> SpectrumComparison:
    """How batching shrinks the limiting spectrum: quantiles of alpha Z(alpha/B) beside those of alpha W.

    Parameters
    ----------
    aspect, alpha, batches, covariance
        As in `batch_spectrum`.
    levels : (m,) in [0, 1], optional
        Of the spectrum without its atom at zero; 0.01, ..., 0.99 by default.

    >>> compare_spectra(0.25, 0.4, 2, levels=[0.1, 0.5, 0.9]).ratio.round(4)
    array([0.9841, 0.9328, 0.8506])
    """
    chosen = np.arange(1, 100) / 100 if levels is None else np.atleast_1d(probabilities("levels", levels))
    full = batch_spectrum(aspect, alpha, 1, covariance)
    batched = batch_spectrum(aspect, alpha, batches, covariance)
    return SpectrumComparison(chosen, _moving(full, chosen), _moving(batched, chosen))


def _moving(law: EpochLaw, levels: FloatArray) -> FloatArray:
    """The quantiles of the part that moves: those below zero come before the mass at zero, the others after."""
    frozen = law.frozen[0]
    below = float(law.cdf(0.0)) - frozen
    moving = (1 - frozen) * levels
    return law.quantile(np.minimum(np.where(moving <= below, moving, moving + frozen), 1.0))
