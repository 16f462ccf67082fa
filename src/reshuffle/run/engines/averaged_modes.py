"""The engine of symmetric epochs where an average of the iterates takes the place of the last one."""

from dataclasses import replace

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._linalg import moving_mean, power_and_sum, tail_mean
from reshuffle.epoch.epoch import Epoch
from reshuffle.recipe import Average
from reshuffle.run import stopping
from reshuffle.run.engines.modes_engine import ModesEngine
from reshuffle.run.stopping import BestEpoch


class AveragedModes(ModesEngine):
    """The mean over orders of an average of the iterates after each epoch.

    Mode by mode decay(k) and drift(k) are replaced by their averages. For the tail of epochs k0 + 1, ..., k with
    L = k - k0 and l = 1 - x the decay is l^(k0 + 1) (1 - l^L) / (L (1 - l)); for an EMA with decay d it is
    d^k + (1 - d) l (l^k - d^k) / (l - d).

    Attributes
    ----------
    epoch : Epoch
    average : Average
        Per epoch.
    """

    def __init__(self, epoch: Epoch, start: FloatArray, average: Average):
        super().__init__(epoch, start)
        self.average = average

    def _with_epoch(self, epoch: Epoch) -> ModesEngine:
        return AveragedModes(epoch, self.start, self.average)

    def motion(self, epochs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What is left of each mode's start in the average, and what the pull on it is multiplied by."""
        decay, drift = super().motion(epochs)
        finite = np.isfinite(epochs)
        # An epoch may be several equal steps: it takes the share x S of a mode, S the sum over its steps.
        _, steps = power_and_sum(self.epoch.paces, np.asarray(float(self.epoch.mean.repeats)))
        paces, average = self.epoch.paces * steps, self.average
        if average.begins_with_iterate:
            powers, sums = moving_mean(paces, average.kept, epochs[finite])
        else:
            powers, sums = tail_mean(paces, average.earliest, epochs[finite])
        with np.errstate(over="ignore", invalid="ignore"):
            for whole, part in ((decay, powers), (drift, sums * steps)):
                # What leaves the range of numbers in two directions at once still grows.
                whole[finite] = np.where(np.isnan(part), np.inf, part)
        return decay, drift

    def best_epoch(self) -> BestEpoch:
        """The epoch with the smallest risk of the average: certified, unless some modes change their sign.

        An average of what falls falls, so that between two epochs every mode is between its values there. Where the
        sign of a mode alternates epochs are looked at one by one, until the risk has settled or 20,000 of them.
        """
        first, paces, repeats = self.average.earliest, self.epoch.paces, self.epoch.mean.repeats
        if ((paces > 1) & (repeats % 2 == 1)).any():
            end = float(self._risk(np.asarray(np.inf)).total)
            found = stopping.search_one_by_one(lambda late: self._risk(late + first).total, end, np.inf)
        else:
            found = stopping.best_epoch(
                lambda late: self.motion(late + first), self.risk_forms, paces, repeats
            )
        found = replace(found, epoch=found.epoch + first)
        return found.with_error_of(self.risk) if self.error_kind != "exact" else found
