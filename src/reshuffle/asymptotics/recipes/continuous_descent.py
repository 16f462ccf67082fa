"""Gradient flow and its running average in the limit, and what a step that is not infinitely small costs."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.asymptotics.curves.spectral_risk import SpectralRisk
from reshuffle.asymptotics.recipes.limiting_setting import Setting, longest_time, smallest
from reshuffle.free.checks import Complex

_GROWTH = 3.0
"""Largest logarithm of exp(-t z) on the circle around a contour."""


@dataclass(frozen=True)
class BestTime:
    """The best moment to stop flow.

    Attributes
    ----------
    time : float
        alpha times the epochs; inf if the risk falls for ever.
    risk : float
    """

    time: float
    risk: float


@dataclass(frozen=True, eq=False)
class Flow:
    """Gradient flow: after time t the decay is exp(-t W) and the drift (1 - exp(-t W))/W.

    The average over [0, t] has the decay (1 - exp(-t W))/(t W). Both are entire functions of W.
    """

    setting: Setting

    @cached_property
    def _contour(self) -> SpectralRisk:
        return self.setting.around(-_GROWTH / longest_time(self.setting))

    def _exponents(self, times: FloatArray) -> Complex:
        return np.outer(times / self.setting.alpha, self._contour.points)

    def risk(self, times: FloatArray) -> FloatArray:
        """The risk of flow after times (k,)."""
        x = self._exponents(times)
        drift = -self.setting.alpha * np.expm1(-x) / self._contour.points
        return self.setting.total(self._contour, np.exp(-x), drift)

    def averaged_risk(self, times: FloatArray) -> FloatArray:
        """The risk of the mean of flow over [0, t], t (k,)."""
        x = self._exponents(times)
        # Where x is small (1 - exp(-x))/x is one, up to x/2, and the series keeps the digits of the rest.
        series = x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5)))
        with np.errstate(invalid="ignore", divide="ignore"):
            rest = np.where(np.abs(x) < 1e-3, series, 1 + np.expm1(-x) / x)
        return self.setting.total(self._contour, 1 - rest, self.setting.alpha * rest / self._contour.points)

    @cached_property
    def best(self) -> BestTime:
        """When to stop."""
        return self._best(self.risk)

    @cached_property
    def best_average(self) -> BestTime:
        """When to stop if the mean over time is what counts."""
        return self._best(self.averaged_risk)

    def _best(self, curve: object) -> BestTime:
        setting = self.setting
        if not setting.noise:
            return BestTime(math.inf, setting.frozen)
        if not setting.signal:
            return BestTime(0.0, 0.0)
        return BestTime(*smallest(curve, 1e-4 * setting.alpha, longest_time(setting) * setting.alpha))

    @cached_property
    def slope(self) -> float:
        """c_1 of docs/price_of_batches.md: min over k of the risk is that of flow + (alpha/B) c_1 + O(alpha^2).

        To first order B batches follow flow of W + (alpha/2B) W^2, up to a change of time, which costs nothing at
        the best one. So c_1 is half the derivative of the risk along exp(-t W) -> -t W^2 exp(-t W).
        """
        setting, time = self.setting, self.best.time
        if not 0 < time < math.inf:
            return math.nan
        risk = self._contour
        w = risk.points / setting.alpha
        decay = np.exp(-time * w)[np.newaxis]
        drift = (-np.expm1(-time * w) / w)[np.newaxis]
        move = -time * w**2 * decay
        bias = 2 * risk.bias.bilinear(decay, move) + 2 * (move @ risk.bias.linear).real
        variance = 2 * risk.variance.bilinear(drift, time * w * decay)
        return float(setting.signal**2 * bias[0] + setting.noise**2 * variance[0]) / 2
