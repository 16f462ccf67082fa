"""Limiting spectra of alpha Z: Marchenko-Pastur for one batch, a rational curve for two, a fixed point for any."""

from reshuffle.asymptotics.laws.batch_law import BatchLaw
from reshuffle.asymptotics.laws.batch_spectrum import FullBatchLaw, batch_spectrum, marchenko_pastur
from reshuffle.asymptotics.laws.epoch_law import EpochLaw
from reshuffle.asymptotics.laws.two_batch_law import TwoBatchLaw

__all__ = ["BatchLaw", "EpochLaw", "FullBatchLaw", "TwoBatchLaw", "batch_spectrum", "marchenko_pastur"]
