"""The setting of a question about recipes: the shape of the data, Sigma, the signal and the noise."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.optimize

from reshuffle._arrays import FloatArray
from reshuffle.asymptotics.arguments import Population
from reshuffle.asymptotics.curves.spectral_contour import Contour
from reshuffle.asymptotics.curves.spectral_risk import SpectralRisk
from reshuffle.asymptotics.laws.batch_law import BatchLaw
from reshuffle.asymptotics.laws.batch_spectrum import FullBatchLaw
from reshuffle.asymptotics.laws.epoch_law import EpochLaw
from reshuffle.free.checks import Complex

_GRID = 240
"""Points of a logarithmic grid on which a smooth curve is looked at before its minimum is narrowed down."""
_SETTLED = 60.0
_LONGEST = 1e8
"""In units of the fastest mode, how long flow is followed where its slowest mode never settles."""


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
        if self.population.is_identity:
            return FullBatchLaw(self.aspect, self.alpha)
        return self.law(1, self.alpha)

    def law(self, batches: int, alpha: float) -> BatchLaw:
        """The law of alpha Z(alpha/B), by its system of equations."""
        return BatchLaw.of(self.aspect, alpha, batches, self.population)

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
    """By when flow has settled, in units of `alpha`."""
    low = setting.full_batch.ends[0]
    return min(_SETTLED / low, _LONGEST**2) if low > 0 else _LONGEST
