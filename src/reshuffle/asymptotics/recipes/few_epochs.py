"""The best step for few epochs: risks at a handful of steps, interpolated, and the best one looked at again."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from reshuffle._arrays import FloatArray
from reshuffle.asymptotics.curves.contour_curve import ContourCurve
from reshuffle.asymptotics.laws.epoch_law import EpochLaw
from reshuffle.asymptotics.laws.two_batch_law import TwoBatchLaw
from reshuffle.asymptotics.recipes.limiting_setting import Setting

_NODES = 20
"""Steps at which curves are computed."""
_FINE = 400
"""Steps at which their interpolants are looked at."""
_AROUND, _FLAT = 3, 3.0
"""Neighbours on either side through which a spline goes, and how much larger their logarithms may be."""
_APART, _TRIED = 0.05, 3
"""How far apart, in the logarithm, steps are that are looked at again, and how many of them."""
_NEARBY = 0.01
"""Relative distance of the steps by which the best one is judged."""
_ROUNDS = 4


class Parts(NamedTuple):
    """Bias and variance, at signal and noise one, after each of some epochs and for each of some steps.

    Attributes
    ----------
    alphas : (m,)
    epochs : (k,)
    bias, variance : (m, k)
        The bias with the cross term and what is frozen.
    """

    alphas: FloatArray
    epochs: FloatArray
    bias: FloatArray
    variance: FloatArray

    def risk(self, signal: float, noise: float) -> FloatArray:
        """The risk, (m, k)."""
        return signal**2 * self.bias + noise**2 * self.variance


class Found(NamedTuple):
    """The best step and number of epochs, the risk there, and by how much another could be better."""

    alpha: float
    epochs: float
    risk: float
    error: float


@dataclass(frozen=True, eq=False)
class FewEpochs:
    """All recipes of B batches with at most some number of epochs."""

    setting: Setting
    batches: int
    epochs: FloatArray

    def _law(self, alpha: float) -> EpochLaw:
        setting = self.setting
        if self.batches == 2 and setting.population.is_identity and TwoBatchLaw.serves(setting.aspect, alpha):
            return TwoBatchLaw(setting.aspect, alpha)
        return setting.law(self.batches, alpha)

    def parts(self, alphas: FloatArray) -> Parts:
        """Bias and variance for each of the steps (m,)."""
        found = [ContourCurve(self._law(float(alpha))).converging_parts(self.epochs) for alpha in alphas]
        bias, variance = np.array(found).transpose(1, 0, 2)
        return Parts(alphas, self.epochs, bias, variance)

    def best(self, low: float, high: float) -> Found:
        """The best step between two, looked at again wherever the curves through the others have their minimum."""
        logarithms = (math.log(low) + math.log(high)) / 2 + (math.log(high) - math.log(low)) / 2 * _chebyshev
        parts = self.parts(np.exp(logarithms))
        promising = interpolated(parts, self.setting.signal, self.setting.noise)
        # Curves of different epochs may be equally low at steps far apart.
        alphas: list[float] = []
        for alpha, _ in promising:
            if all(abs(math.log(alpha / other)) > _APART for other in alphas):
                alphas.append(alpha)
        return min((self._confirmed(alpha) for alpha in alphas[:_TRIED]), key=lambda found: found.risk)

    def _confirmed(self, alpha: float) -> Found:
        """Parabolas through three steps in the logarithm, until they no longer move."""
        spread = _NEARBY
        for _ in range(_ROUNDS):
            near = self.parts(alpha * np.exp(spread * np.array([-1.0, 0.0, 1.0])))
            risks = near.risk(self.setting.signal, self.setting.noise)
            column = int(np.unravel_index(risks.argmin(), risks.shape)[1])
            left, middle, right = risks[:, column]
            bend, slope = left - 2 * middle + right, (right - left) / 2
            move = -slope / bend if bend > 0 else -math.copysign(2.0, slope)
            if abs(move) < 0.1:
                break
            alpha *= math.exp(spread * min(max(move, -5.0), 5.0))
        best = int(risks[:, column].argmin())
        # What the parabola has to gain, and what its cubic neighbour could.
        gain = slope**2 / (2 * bend) + spread**2 * bend if bend > 0 else abs(slope)
        return Found(
            float(near.alphas[best]), float(self.epochs[column]), float(risks[best, column]), float(gain)
        )


_chebyshev = -np.cos((np.arange(_NODES) + 0.5) * math.pi / _NODES)


def interpolated(parts: Parts, signal: float, noise: float) -> list[tuple[float, float]]:
    """The best step of each number of epochs and the risk there, best first, from neighbours in log alpha.

    A large step explodes within few epochs, so that no polynomial goes through all of them: each curve is a
    spline around its smallest value, where it is flat.
    """
    logarithms = np.log(parts.alphas)
    with np.errstate(divide="ignore"):
        values = np.log(parts.risk(signal, noise))
    found = []
    for curve in np.where(np.isfinite(values), values, np.inf).T:
        place = int(curve.argmin())
        near = slice(max(0, place - _AROUND), place + _AROUND + 1)
        usable = curve[near] <= curve[place] + _FLAT
        spline = CubicSpline(logarithms[near][usable], curve[near][usable])
        low, high = logarithms[[max(0, place - 1), min(place + 1, len(curve) - 1)]].tolist()
        fine = np.linspace(low, high, _FINE)
        fine = fine[(fine >= spline.x[0]) & (fine <= spline.x[-1])]
        best = int(spline(fine).argmin())
        found.append((math.exp(float(fine[best])), math.exp(float(spline(fine[best])))))
    return sorted(found, key=lambda pair: pair[1])
