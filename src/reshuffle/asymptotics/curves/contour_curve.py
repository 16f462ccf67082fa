"""Learning curves as sums over contours: for any number of batches, any Sigma and any signal."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.asymptotics.curves.certified_stop import best_epoch
from reshuffle.asymptotics.curves.spectral_contour import Contour
from reshuffle.asymptotics.curves.spectral_risk import SpectralRisk
from reshuffle.asymptotics.laws.epoch_law import EpochLaw
from reshuffle.free.checks import Complex
from reshuffle.run.stopping import BestEpoch

_GROWTH = 3.0
"""Largest logarithm of ((1 - z) / spectral radius)^k within the circle."""
_FADED = 80.0
"""Logarithm of what the slowest mode has fallen by when nothing is left to search."""
_NOTHING_MISSING = 1e-10
"""Mass that rounding and the trapezoidal rule may leave outside a contour that holds the whole spectrum."""
_LAST = 2.0**53


@dataclass(frozen=True, eq=False)
class ContourCurve:
    """Frozen, bias, cross term and variance after k epochs, for signal and noise of size one.

    The error after k epochs is (1 - alpha Z)^k e_0 + alpha sum_{j<k} (1 - alpha Z)^j Xtilde' eta / n: polynomials,
    so that any curve around the spectrum will do, and one between it and a circle on which (1 - z)^k has not grown
    integrates every epoch up to k. The limit has a pole at zero, and a circle through it.
    """

    law: EpochLaw

    @cached_property
    def _kept(self) -> dict[tuple[float, bool], SpectralRisk]:
        return {}

    def around(self, epochs: float, closely: bool = False) -> SpectralRisk:
        """The contour that serves every k up to `epochs`, or the limit alone if that is infinite.

        A close one follows the fading of the slowest mode, so that even what is left of the bias has its digits.
        """
        # Powers of two, so that a search asks for few contours.
        last = epochs if math.isinf(epochs) else 2.0 ** math.ceil(math.log2(max(1.0, epochs)))
        if (last, closely) not in self._kept:
            self._kept[last, closely] = SpectralRisk(self.law, self._contour(last, closely))
        return self._kept[last, closely]

    def _contour(self, epochs: float, closely: bool) -> Contour:
        low, high = self.law.ends
        if math.isinf(epochs):
            # 1/z is singular at zero alone: any circle through it will do.
            return Contour.between(low, high, max(1.0, high), max(1.0, high))
        radius = (self.rate if closely else max(1.0, self.rate)) * math.exp(_GROWTH / epochs)
        left, right = 1 - radius, 1 + radius
        if low > 0 and self.law.frozen[0] > 0:
            # What is frozen is an atom at zero, and stays outside.
            left = max(left, 0.0)
        return Contour.between(low, high, (left + right) / 2, (right - left) / 2)

    @property
    def rate(self) -> float:
        """What the slowest mode is multiplied by in an epoch."""
        low, high = self.law.ends
        return max(abs(1 - low), abs(1 - high))

    def parts(self, epochs: FloatArray, noisy: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bias, cross term and variance after epochs (k,); if not noisy, the bias with all its digits."""
        risk = self.around(float(epochs.max()), closely=not noisy)
        growth = max(0.0, math.log(self.rate)) if noisy else math.log(max(self.rate, 1e-300))
        bias, cross, variance = np.zeros((3, len(epochs)))
        decay, drift = self._functions(risk.points, epochs, growth)
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.exp(growth * epochs)
            linear = risk.bias.linear
            cross = size * 2 * (decay @ linear).real
            bias = size**2 * risk.bias.bilinear(decay, decay) - risk.counted_twice
            if noisy:
                variance = size**2 * risk.variance(drift)
        if self.law.population.source_is_even or not risk.counted_twice:
            # With zero inside, the bias has the cross term too, which may be negative.
            bias = np.maximum(bias, 0.0)
        return bias, cross, np.maximum(variance, 0.0)

    def converging_parts(self, epochs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bias, cross term and frozen risk together, and the variance, after few epochs (k,).

        Where descent converges the spectrum is inside [0, 2], and few epochs do not grow much around that: its own
        ends, which cost more than all the rest, are looked for only if a mass is missing there.
        """
        radius = math.exp(_GROWTH / float(epochs.max()))
        risk = SpectralRisk(self.law, Contour.between(0.0, 2.0, 1.0, radius), holds_zero=True)
        if not abs(risk.missing) < _NOTHING_MISSING:
            bias, cross, variance = self.parts(epochs, noisy=True)
            return bias + cross + self.law.frozen[1], variance
        decay, drift = self._functions(risk.points, epochs, 0.0)
        return np.maximum(risk.bias.bilinear(decay, decay), 0.0), np.maximum(risk.variance(drift), 0.0)

    def _functions(self, z: Complex, epochs: FloatArray, growth: float) -> tuple[Complex, Complex]:
        """(1 - z)^k and alpha (1 - (1 - z)^k)/z over exp(growth k), without which they may overflow."""
        powers = np.outer(epochs, np.log(1 - z) - growth)
        if growth:
            decay = np.exp(powers)
            return decay, self.law.alpha * (np.exp(-growth * epochs)[:, np.newaxis] - decay) / z
        return np.exp(powers), -self.law.alpha * np.expm1(powers) / z

    def limiting_variance(self) -> float:
        """The variance after infinitely many epochs, where they converge and the spectrum starts above zero."""
        risk = self.around(math.inf)
        drift = (self.law.alpha / risk.points)[np.newaxis]
        return float(risk.variance(drift)[0])

    def best_epoch(self, signal: float, noise: float) -> BestEpoch:
        """The epoch with the smallest risk, with proof where the end of the curve is known."""
        frozen = signal**2 * self.law.frozen[1]

        def risk(epochs: FloatArray) -> FloatArray:
            bias, cross, variance = self.parts(epochs, noisy=True)
            with np.errstate(over="ignore", invalid="ignore"):
                return frozen + signal**2 * (bias + cross) + noise**2 * variance

        last, after = self._horizon(signal, noise, frozen)
        contour = self.around(last)
        return best_epoch(
            risk,
            lambda low, high: self._bend(contour, low, high, signal, noise),
            last,
            after,
        )

    def _horizon(self, signal: float, noise: float, frozen: float) -> tuple[float, float]:
        """An epoch, and the risk that is left beyond it: inf if nothing is better there, nan if it is not known."""
        low, high = self.law.ends
        if low > 0 and high < 2:
            last = _power_of_two(_FADED / -math.log(max(self.rate, 1e-300)))
            return last, frozen + noise**2 * self.limiting_variance()
        if not (low < 0 or high > 2):
            return 2.0**30, math.nan
        # Squared powers of each mode are convex in the epochs: once their sum has grown, it grows for ever.
        last = 2.0
        while signal and self.law.population.source_is_even and last < _LAST:
            bias = self.parts(np.array([last / 2, last]), noisy=True)[0]
            if bias[0] < bias[1] and bias[1] > self.law.population.signal:
                return last, math.inf
            last *= 2
        return _power_of_two(_FADED / math.log(self.rate)), math.nan

    def _bend(
        self, risk: SpectralRisk, low: FloatArray, high: FloatArray, signal: float, noise: float
    ) -> FloatArray:
        """A bound of the second derivative of the risk in k, between pairs of epochs (k,): that of each term."""
        z, alpha = risk.points, self.law.alpha
        logs = np.log(1 - z)
        size = np.abs(logs)
        with np.errstate(over="ignore", invalid="ignore"):
            ends = np.exp(np.maximum(np.outer(low, logs.real), np.outer(high, logs.real)))
            bias = risk.bias.bound(ends, size**2 * ends) + risk.bias.bound(size * ends, size * ends)
            pace = alpha * size / np.abs(z) * ends
            start = alpha * np.abs(np.expm1(np.outer(low, logs)) / z)
            drift = start + (high - low)[:, np.newaxis] * pace
            variance = risk.variance.bound(drift, size * pace) + risk.variance.bound(pace, pace)
            return np.asarray(2 * signal**2 * bias + 2 * noise**2 * variance)


def _power_of_two(number: float) -> float:
    return 2.0 ** math.ceil(math.log2(min(max(number, 2.0), _LAST)))
