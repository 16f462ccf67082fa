"""Gradient flow, its running average, ridge regression and the Bayes optimum in the proportional limit."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.optimize

from reshuffle._arrays import FloatArray
from reshuffle.asymptotics.batch_law import batch_spectrum
from reshuffle.asymptotics.contour import Contour, SpectralRisk
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.asymptotics.spectra import Population
from reshuffle.free.checks import Complex

_GRID = 240
"""Points of a logarithmic grid on which a smooth curve is evaluated before its minimum is refined."""
_SETTLED = 60.0
_LONGEST = 1e8
"""The longest time of flow, in units of the fastest mode, where its slowest mode does not converge."""


@dataclass(frozen=True, eq=False)
class Setting:
    """Gaussian data with p/n -> aspect; a signal and a noise of given sizes; Sigma and source as a `Population`."""

    aspect: float
    population: Population
    noise: float
    signal: float

    @property
    def alpha(self) -> float:
        """A step for which the spectrum of alpha W is about [0, 1]: the unit of all times here."""
        return 1 / (float(self.population.eigenvalues.max()) * (1 + math.sqrt(self.aspect)) ** 2)

    @cached_property
    def full_batch(self) -> EpochLaw:
        """The law of alpha W."""
        return batch_spectrum(self.aspect, self.alpha, 1, self.population)

    @property
    def frozen(self) -> float:
        """The risk of what no number of epochs learns."""
        return self.signal**2 * self.population.frozen(self.aspect)[1]

    def around(self, left: float) -> SpectralRisk:
        """Functions of alpha W that are analytic right of `left` < 0."""
        low, high = self.full_batch.ends
        left = 0.0 if low > 0 and self.full_batch.frozen[0] > 0 else left
        right = high + max(1.0, high)
        return SpectralRisk(
            self.full_batch, Contour.between(low, high, (left + right) / 2, (right - left) / 2)
        )

    def total(self, risk: SpectralRisk, decay: Complex, drift: Complex) -> FloatArray:
        """The risk of decays and drifts (k, n) at the points of a contour."""
        bias = risk.bias(decay) - risk.counted_twice
        return self.frozen + self.signal**2 * bias + self.noise**2 * risk.variance(drift)


def smallest(curve: object, low: float, high: float) -> tuple[float, float]:
    """The place in [low, high] and the value of the smallest of a smooth function of arrays, positive places."""
    assert callable(curve)
    places = np.geomspace(low, high, _GRID)
    values = curve(places)
    best = int(np.argmin(values))
    start, end = places[max(best - 1, 0)], places[min(best + 1, _GRID - 1)]
    found = scipy.optimize.minimize_scalar(
        lambda logarithm: float(curve(np.exp([logarithm]))[0]),
        bounds=(math.log(start), math.log(end)),
        method="bounded",
        options={"xatol": 1e-9},
    )
    if float(found.fun) < float(values[best]):
        return math.exp(float(found.x)), float(found.fun)
    return float(places[best]), float(values[best])


def longest_time(setting: Setting) -> float:
    """The time by which flow has converged, in units of `alpha`."""
    low = setting.full_batch.ends[0]
    return min(_SETTLED / low, _LONGEST**2) if low > 0 else _LONGEST


_SMALLEST, _LARGEST = 1e-10, 1e6
"""Penalties that are tried, in units of the largest eigenvalue of W."""


class BestRidge(NamedTuple):
    """The best penalty of (W + penalty)^-1 X'y/n, and the risk there."""

    penalty: float
    risk: float


def bayes_penalty(setting: Setting) -> float:
    """noise^2 aspect / signal^2: with it ridge is the posterior mean of a Gaussian signal without a direction."""
    return setting.noise**2 * setting.aspect / setting.signal**2


def best_ridge(setting: Setting) -> BestRidge:
    """The penalty with the smallest risk: that of Bayes for a signal without a direction, else by search."""
    if not setting.noise:
        return BestRidge(0.0, setting.frozen)
    if not setting.signal:
        return BestRidge(math.inf, 0.0)
    if setting.population.source_is_even:
        return BestRidge(bayes_penalty(setting), bayes_risk(setting))
    unit, low = setting.alpha, setting.full_batch.ends[0]
    least = _SMALLEST if low > 0 else 1e-7
    risk = setting.around(-0.5 * least)

    def curve(penalties: FloatArray) -> FloatArray:
        scaled = penalties[:, np.newaxis] * unit
        return setting.total(risk, scaled / (risk.points + scaled), unit / (risk.points + scaled))

    return BestRidge(*smallest(curve, least / unit, _LARGEST / unit))


def bayes_risk(setting: Setting) -> float:
    """The smallest risk of any estimator, for a Gaussian signal with the variances of the source.

    In units of the signal's standard deviations the prior has no direction, and Sigma the eigenvalues lambda s.
    There the posterior mean is ridge with penalty l = noise^2 aspect / signal^2, and its risk
    noise^2 (1/(l v) - 1), 1/v = l + aspect tau(lambda s/(1 + lambda s v)) (Dobriban and Wager, 2018).
    """
    if not setting.signal:
        return 0.0
    population, aspect = setting.population, setting.aspect
    spread = population.eigenvalues * population.source
    if not setting.noise:
        if population.source_is_even:
            return setting.frozen
        merged, owner = np.unique(spread, return_inverse=True)
        weights: FloatArray = np.bincount(owner, population.weights).astype(np.float64)
        even = replace(population, eigenvalues=merged, weights=weights, source=np.ones(len(merged)))
        return setting.signal**2 * even.frozen(aspect)[1]
    penalty = bayes_penalty(setting)

    def excess(logarithm: float) -> float:
        v = math.exp(logarithm)
        return penalty * v + aspect * float(population.weights @ (spread * v / (1 + spread * v))) - 1

    high = -math.log(penalty)
    low = -math.log(penalty + aspect * float(population.weights @ spread)) - 1e-9
    v = math.exp(scipy.optimize.brentq(excess, low - 1.0, high + 1e-9, xtol=1e-15, rtol=8.9e-16))
    # 1/(l v) - 1 without cancellation: by the equation it is aspect tau(.../(1 + ...)) over l v.
    taken = aspect * float(population.weights @ (spread * v / (1 + spread * v)))
    return setting.noise**2 * taken / (penalty * v)


_GROWTH = 3.0
"""Largest logarithm of exp(-t z) on the circle around a contour."""


class BestTime(NamedTuple):
    """The best time to stop flow, alpha times the epochs (inf if the risk falls for ever), and the risk there."""

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
        """The risk of flow after times (k,), which may be infinite."""
        setting, forever = self.setting, np.isinf(times)
        x = self._exponents(np.minimum(times, longest_time(setting) * setting.alpha))
        decay = np.where(forever[:, np.newaxis], 0.0, np.exp(-x))
        risk = setting.total(self._contour, decay, -setting.alpha * np.expm1(-x) / self._contour.points)
        # Where the spectrum starts at zero, flow never ends.
        grows = forever & (setting.noise > 0 and setting.full_batch.ends[0] == 0)
        return np.where(grows, math.inf, np.maximum(risk, 0.0))

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
        """The best time to stop flow."""
        return self._best(self.risk)

    @cached_property
    def best_average(self) -> BestTime:
        """The best time to stop the mean of flow over time."""
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
