"""Learning curves with no data: the risk in the proportional limit at any number of epochs, and its best epoch."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log1p

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.asymptotics.batch_law import BatchLaw, batch_spectrum
from reshuffle.asymptotics.contour import Contour, SpectralRisk
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.asymptotics.spectra import Covariance
from reshuffle.free.checks import Complex, ConvergenceError, ErrorKind
from reshuffle.free.laws import Discrete
from reshuffle.free.progress import BUDGET, working
from reshuffle.run.stopping import BestEpoch
from reshuffle.run.trajectory import Risk

_TOLERANCE = 1e-11
"""Relative improvement of the risk that is not worth looking for."""
_INTERVALS = 200_000
"""Largest number of intervals before the search ends and reports the remaining gap."""
_TOGETHER = 256

Curve = Callable[[FloatArray], FloatArray]
"""The risk at epochs (k,)."""
Bend = Callable[[FloatArray, FloatArray], FloatArray]
"""A bound of the second derivative of the risk between pairs of epochs, (k,) and (k,)."""


def best_epoch(risk: Curve, bend: Bend, last: float, after: float) -> BestEpoch:
    """Minimise a smooth curve over the epochs 0, 1, ..., last, by branch and bound.

    Between two epochs a < b the curve lies above the chord less (b - a)^2 / 8 times the bound of its second
    derivative. Intervals that stay above the smallest risk seen are dropped, the others are halved until single
    epochs are left. `last` is a power of two, after which nothing but `after` is left, the risk in the limit: inf
    if what comes after the last epoch is no better, nan if it is not known.
    """
    doublings = 2.0 ** np.arange(0, round(math.log2(last)) + 1)
    ends = np.concatenate([[0.0], doublings])
    values = risk(ends)
    best, lowest = float(ends[values.argmin()]), float(values.min())
    low, high, first, second = ends[:-1], ends[1:], values[:-1], values[1:]
    looked_at, missed = 0, 0.0
    while len(low):
        parts = [slice(start, start + _TOGETHER) for start in range(0, len(low), _TOGETHER)]
        bent = np.concatenate([bend(low[part], high[part]) for part in parts])
        bounds = np.minimum(first, second) - bent * (high - low) ** 2 / 8
        bounds = np.where(np.isnan(bounds), -np.inf, bounds)
        open_ = (bounds < lowest * (1 - _TOLERANCE)) & (high - low > 1)
        looked_at += len(low)
        if looked_at > _INTERVALS:
            missed = lowest - max(0.0, float(bounds[open_].min(initial=lowest)))
            break
        low, high, first, second = low[open_], high[open_], first[open_], second[open_]
        middle = np.floor((low + high) / 2)
        if not len(middle):
            break
        between = risk(middle)
        if between.min() < lowest:
            best, lowest = float(middle[between.argmin()]), float(between.min())
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        first, second = np.concatenate([first, between]), np.concatenate([between, second])
    if after <= lowest:
        return BestEpoch(math.inf, after, missed)
    return BestEpoch(int(best), lowest, math.nan if math.isnan(after) else missed)


_GROWTH = 1.0
"""Largest logarithm of ((1 - z) / spectral radius)^k within the circle.

With 3.0, and 30 as accuracy of the rule, diverging curves of two batches are 4e-8 off after 1,000 epochs; with 1.0
and 36 they are 6e-11 off, at a third more points."""
_GROWTH_INSIDE = 3.0
"""The same for a circle around all of [0, 2]: a wide one seldom misses a spectrum that reaches a little beyond."""
_FADED = 80.0
"""Logarithm of what the slowest mode has fallen by when nothing is left to search."""
_NOTHING_MISSING = 1e-10
"""Mass that rounding and the trapezoidal rule may leave outside a contour that holds the whole spectrum."""
_LAST = 2.0**53
"""Up to which the best epoch is searched."""
_FAR_ABOVE = 4.0


@dataclass(frozen=True, eq=False)
class ContourCurve:
    """Frozen, bias, cross term and variance after k epochs, for signal and noise of size one.

    The error after k epochs is (1 - alpha Z)^k e_0 + alpha sum_{j<k} (1 - alpha Z)^j Xtilde' eta / n: polynomials,
    so that any curve around the spectrum will do, and one between it and a circle on which (1 - z)^k has not grown
    integrates every epoch up to k. The limit has a pole at zero, and a circle through it.
    """

    error_kind: ClassVar[ErrorKind] = "exact"
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

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest point of the continuous spectrum."""
        return self.law.ends

    def _contour(self, epochs: float, closely: bool) -> Contour:
        low, high = self.ends
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
        """The convergence factor of the slowest mode per epoch, max |1 - x| over the spectrum."""
        low, high = self.ends
        return max(abs(1 - low), abs(1 - high))

    def parts(self, epochs: FloatArray, noisy: bool) -> FloatArray:
        """Bias, cross term and variance after epochs (k,), as (3, k); without noise the bias has all its digits."""
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
        return np.array([bias, cross, np.maximum(variance, 0.0)])

    def parts_and_errors(self, epochs: FloatArray, noisy: bool) -> tuple[FloatArray, FloatArray]:
        """The parts after epochs (k,), and the error of each, (3, k)."""
        parts = self.parts(epochs, noisy)
        return parts, np.zeros(parts.shape)

    def converging_parts(self, epochs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bias, cross term and frozen risk together, and the variance, after few epochs (k,).

        Where descent converges the spectrum is inside [0, 2], and few epochs do not grow much around that: its own
        ends, which cost more than all the rest, are computed only if a mass is missing there.
        """
        radius = math.exp(_GROWTH_INSIDE / float(epochs.max()))
        risk = SpectralRisk(self.law, Contour.between(0.0, 2.0, 1.0, radius), holds_zero=True)
        if not abs(risk.missing) < _NOTHING_MISSING:
            bias, cross, variance = self.parts(epochs, noisy=True)
            return bias + cross + self.law.frozen[1], variance
        decay, drift = self._functions(risk.points, epochs, 0.0)
        return np.maximum(risk.bias.bilinear(decay, decay), 0.0), np.maximum(risk.variance(drift), 0.0)

    def _functions(self, z: Complex, epochs: FloatArray, growth: float) -> tuple[Complex, Complex]:
        """(1 - z)^k and alpha (1 - (1 - z)^k)/z over exp(growth k), without which they may overflow."""
        # numpy's logarithm of complex 1 - z has no digits of a small z: 6e-8 of a variance after 1e6 epochs.
        powers = np.outer(epochs, log1p(-z) - growth)
        if growth:
            decay = np.exp(powers)
            return decay, self.law.alpha * (np.exp(-growth * epochs)[:, np.newaxis] - decay) / z
        return np.exp(powers), -self.law.alpha * np.expm1(powers) / z

    def limit_and_error(self) -> tuple[float, float]:
        """The variance after infinitely many epochs, where it is finite, and its error."""
        risk = self.around(math.inf)
        drift = (self.law.alpha / risk.points)[np.newaxis]
        return float(risk.variance(drift)[0]), 0.0

    def best_epoch(self, signal: float, noise: float) -> BestEpoch:
        """The epoch with the smallest risk, with proof where the end of the curve is known."""
        frozen = signal**2 * self.law.frozen[1]

        def risk(epochs: FloatArray) -> FloatArray:
            bias, cross, variance = self.parts(epochs, noisy=True)
            with np.errstate(over="ignore", invalid="ignore"):
                return np.asarray(frozen + signal**2 * (bias + cross) + noise**2 * variance)

        last, after = self._horizon(signal, noise, frozen)
        return best_epoch(risk, self.bend(last, signal, noise), last, after)

    def _horizon(self, signal: float, noise: float, frozen: float) -> tuple[float, float]:
        """An epoch, and the risk that is left beyond it: inf if nothing is better there, nan if it is not known."""
        low, high = self.ends
        if low > 0 and high < 2:
            last = _power_of_two(_FADED / -math.log(max(self.rate, 1e-300)))
            return last, frozen + noise**2 * self.limit_and_error()[0]
        if not (low < 0 or high > 2):
            return (
                self._hard_edge_horizon(signal, noise, frozen) if low == 0 and noise else (2.0**30, math.nan)
            )
        # Squared powers of each mode are convex in the epochs: once their sum has grown, it grows for ever.
        last = 2.0
        while signal and self.law.population.source_is_even and last < _LAST:
            bias = self.parts(np.array([last / 2, last]), noisy=True)[0]
            if bias[0] < bias[1] and bias[1] > self.law.population.signal:
                return last, math.inf
            last *= 2
        return _power_of_two(_FADED / math.log(self.rate)), math.nan

    def _hard_edge_horizon(self, signal: float, noise: float, frozen: float) -> tuple[float, float]:
        """An epoch after which the variance alone is far above the best risk: at p = n it grows without end."""
        law = self.law
        best, last = math.inf, 1.0
        while last < _LAST and law.aspect * (1 - law.population.null) == 1:
            last *= 2
            bias, cross, variance = self.parts(np.array([last / 2, last]), noisy=True)
            best = min(best, float((frozen + signal**2 * (bias + cross) + noise**2 * variance).min()))
            # Of modes below one it never falls, and those above one have little of it.
            if noise**2 * variance[1] > _FAR_ABOVE * best:
                return last, math.inf
        return 2.0**30, math.nan

    def bend(self, last: float, signal: float, noise: float) -> Bend:
        """A bound of the second derivative of the risk in k up to `last`: that of each term."""
        risk, alpha = self.around(last), self.law.alpha
        z = risk.points
        logs = log1p(-z)
        size = np.abs(logs)

        def bound(low: FloatArray, high: FloatArray) -> FloatArray:
            with np.errstate(over="ignore", invalid="ignore"):
                ends = np.exp(np.maximum(np.outer(low, logs.real), np.outer(high, logs.real)))
                bias = risk.bias.bound(ends, size**2 * ends) + risk.bias.bound(size * ends, size * ends)
                slope = alpha * size / np.abs(z) * ends
                start = alpha * np.abs(np.expm1(np.outer(low, logs)) / z)
                drift = start + (high - low)[:, np.newaxis] * slope
                variance = risk.variance.bound(drift, size * slope) + risk.variance.bound(slope, slope)
                return np.asarray(2 * signal**2 * bias + 2 * noise**2 * variance)

        return bound


MOST_BATCHES = 32
"""Batches up to which the equations themselves are solved: 3 s and 0.1 GB for 32, 18 s and 0.45 GB for 64."""
_EXPANDED, _EXPANDED_SIGMA = (6, 8, 12, 16, 24), (2, 3, 4, 6, 8)
"""Batches through which the expansion goes, for Sigma = s I and for others, whose pairs of points cost more."""
_FEWEST = 2
"""Numbers of batches that an expansion needs at least; with diverging ones its error was 1e31."""
_SAFETY = 3.0
"""Factor of the difference of two expansions that is called their error. For 28 batches they are off by at most 1.0
of it; of 30 values for 32 batches from up to eight one is off by 3.2: the difference has a zero nearby."""


@dataclass(frozen=True, eq=False)
class ManyBatches(ContourCurve):
    """The curve of more batches than the equations are solved for, by an expansion in 1/B.

    Bias and variance are smooth functions of 1/B, and their limit B -> infinity is that of single rows in random
    order. A polynomial in 1/B goes through few numbers of batches; its distance to the one that leaves out the
    fewest batches is its error. Fewer batches diverge sooner: where at least two of these numbers converge, the
    others are left out.
    """

    error_kind: ClassVar[ErrorKind] = "estimate"

    @cached_property
    def _all_curves(self) -> list[ContourCurve]:
        law = self.law
        assert isinstance(law, BatchLaw)
        chosen = _EXPANDED if law.population.is_isotropic else _EXPANDED_SIGMA
        return [
            ContourCurve(BatchLaw(law.aspect, law.alpha, batches, law.population, law.budget))
            for batches in chosen
        ]

    @cached_property
    def _curves(self) -> list[ContourCurve]:
        converging = [curve for curve in self._all_curves if curve.rate <= 1]
        return converging if len(converging) >= _FEWEST else self._all_curves

    def _shares(self, curves: list[ContourCurve]) -> FloatArray:
        """The weights of the curves in the polynomial, and in the one without the fewest batches, (2, curves)."""
        x, here = np.array([1 / curve.law.batches for curve in curves]), 1 / self.law.batches
        shares = np.zeros((2, len(x)))
        for row, first in enumerate((0, 1)):
            for i in range(first, len(x)):
                others = np.delete(x[first:], i - first)
                shares[row, i] = np.prod((here - others) / (x[i] - others))
        return shares

    def _expanded(self, curves: list[ContourCurve], values: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """The value (...,) of the polynomial through one value per curve, and its error."""
        with np.errstate(over="ignore", invalid="ignore"):
            value, other = np.tensordot(self._shares(curves), np.asarray(values), axes=1)
            return value, _SAFETY * np.abs(value - other)

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest point of the continuous spectrum, by the same expansion."""
        (low, high), error = self._expanded(self._curves, [curve.ends for curve in self._curves])
        if (low - error[0]) * (low + error[0]) < 0 or (high - 2 - error[1]) * (high - 2 + error[1]) < 0:
            raise ConvergenceError(
                f"the expansion in 1/B does not tell whether {self.law!r} converges: its spectrum is [{low:.3g},"
                f" {high:.3g}] up to {error.max():.2g}; ask for at most {MOST_BATCHES} batches, or for an alpha"
                " farther from the critical one"
            )
        return float(low), float(high)

    def parts_and_errors(self, epochs: FloatArray, noisy: bool) -> tuple[FloatArray, FloatArray]:
        """Bias, cross term and variance after epochs (k,), and the error of each, (3, k)."""
        return self._expanded(self._curves, [curve.parts(epochs, noisy) for curve in self._curves])

    def parts(self, epochs: FloatArray, noisy: bool) -> FloatArray:
        return self.parts_and_errors(epochs, noisy)[0]

    def converging_parts(self, epochs: FloatArray) -> tuple[FloatArray, FloatArray]:
        curves = self._all_curves
        bias, variance = self._expanded(curves, [curve.converging_parts(epochs) for curve in curves])[0]
        return bias, variance

    def limit_and_error(self) -> tuple[float, float]:
        """The variance after infinitely many epochs, and its error."""
        value, error = self._expanded(self._curves, [curve.limit_and_error()[0] for curve in self._curves])
        return float(value), float(error)

    def bend(self, last: float, signal: float, noise: float) -> Bend:
        """A bound of the second derivative of the polynomial."""
        shares = np.abs(self._shares(self._curves)[0])
        bends = [curve.bend(last, signal, noise) for curve in self._curves]
        return lambda low, high: shares @ np.array([bend(low, high) for bend in bends])


def contour_curve(law: EpochLaw) -> ContourCurve:
    """The curve of a law by contours, expanded in 1/B if there are many batches."""
    return ManyBatches(law) if law.batches > MOST_BATCHES else ContourCurve(law)


def _power_of_two(number: float) -> float:
    return 2.0 ** math.ceil(math.log2(min(max(number, 2.0), _LAST)))


@dataclass(frozen=True, eq=False, repr=False)
class LimitingRisk(Risk):
    """The risk in the limit n, p -> infinity, with the mode that diverges if one does.

    Attributes
    ----------
    epochs, frozen, bias, cross, variance, error : arrays of one shape
        As in `reshuffle.Risk`.
    error_kind : str
        "exact", and `error` is zero: nothing is sampled, and the integrals carry about ten digits. For more than 32
        batches "estimate": the error of an expansion in 1/B. How far a finite problem is from its limit is not part
        of either.
    diverges : float or None
        The end of the spectrum of alpha Z that lies outside (0, 2), if there is one: its mode grows without bound.
    """

    error_kind: ErrorKind = "exact"
    diverges: float | None = None

    def __repr__(self) -> str:
        text = super().__repr__()
        text = text.replace("Risk", type(self).__name__, 1)
        return text if self.diverges is None else f"{text[:-1]}; diverges at {self.diverges:.6g})"


@dataclass(frozen=True)
class SpectralStability:
    """Stability of the mean iterate in the limit.

    Attributes
    ----------
    converges : bool
        True if the spectrum of alpha Z, frozen modes aside, lies in [0, 2]; where it reaches an end, as it does
        at aspect 1, the iterate converges slower than any exponential.
    rate : float
        The convergence factor of the slowest mode per epoch.
    diverges : float or None
        The end of the spectrum that lies outside.
    """

    converges: bool
    rate: float
    diverges: float | None


@dataclass(frozen=True, eq=False)
class LearningCurve:
    r"""The risk of the mean iterate as a function of the epochs, for p/n -> aspect.

    With mu, mu_Sigma and mu_M the law of alpha Z and its measures weighted by Sigma and by the noise M,

    .. math::
        R_k = \text{signal}^2 \int (1 - x)^{2k} d\mu_\Sigma
            + \text{noise}^2\, \text{aspect}\, \alpha^2 \int \Big(\sum_{j<k} (1 - x)^j\Big)^2 d\mu_M

    for an initial error of length `signal` in a direction that knows nothing of the data, and Sigma = I. For other
    Sigma the second term is an integral over two spectral variables. All are sums over a contour around the
    spectrum. Made by `learning_curve`; `spectrum` is the law of alpha Z.
    """

    spectrum: EpochLaw
    noise: float
    signal: float

    def __repr__(self) -> str:
        return f"LearningCurve({self.spectrum}, noise={self.noise:g}, signal={self.signal:g})"

    @cached_property
    def stability(self) -> SpectralStability:
        """Stability of the mean iterate: convergence, and its rate."""
        low, high = self._contours.ends
        beyond = [end for end, outside in ((low, low < 0), (high, high > 2)) if outside]
        diverges = max(beyond, key=lambda end: abs(1 - end), default=None)
        return SpectralStability(not beyond, max(abs(1 - low), abs(1 - high)), diverges)

    @property
    def converges(self) -> bool:
        """True if the mean iterate has a limit."""
        return self.stability.converges

    @property
    def frozen(self) -> float:
        """The risk of what is never learned: signal^2 tau(P_0 Sigma)."""
        return self.signal**2 * self.spectrum.frozen[1]

    @working("the learning curve")
    def risk(self, epochs: ArrayLike) -> LimitingRisk:
        """The risk and its parts after each of the given epochs; `epochs` has any shape and may hold math.inf."""
        clock = _arrays.epochs(epochs)
        flat = clock.ravel()
        forever = np.isinf(flat)
        parts, errors = np.zeros((2, 3, len(flat)))
        if not forever.all():
            found = self._contours.parts_and_errors(flat[~forever], noisy=self.noise > 0)
            parts[:, ~forever], errors[:, ~forever] = found
        if forever.any():
            bias, variance, error = self._limit_and_error()
            parts[0, forever], parts[2, forever], errors[2, forever] = bias, variance, error
        sizes = np.array([[self.signal], [self.signal], [self.noise]])
        with np.errstate(over="ignore", invalid="ignore"):
            # The square of a size by itself may be 0 or infinite where its product with the rest is not.
            parts = np.where(sizes > 0, np.sign(parts) * (sizes * np.sqrt(np.abs(parts))) ** 2, 0.0)
            error = (np.where(sizes > 0, sizes * np.sqrt(errors), 0.0) ** 2).sum(axis=0)
        bias, cross, variance = parts.reshape(3, *clock.shape)
        return LimitingRisk(
            clock,
            np.full(clock.shape, self.frozen),
            bias,
            cross,
            variance,
            error.reshape(clock.shape),
            error_kind=self._contours.error_kind,
            diverges=self.stability.diverges,
        )

    @cached_property
    def _contours(self) -> ContourCurve:
        """The curve as sums over contours."""
        return contour_curve(self.spectrum)

    def _limit_and_error(self) -> tuple[float, float, float]:
        """Bias and variance after infinitely many epochs, for unit signal and noise; the error of the variance."""
        law, low = self.spectrum, self._contours.ends[0]
        if not self.converges:
            return math.inf, math.inf, 0.0
        if not self.noise:
            return 0.0, 0.0, 0.0
        ratio = law.aspect * (1 - law.population.null)
        if low == 0:
            if ratio != 1:
                raise ConvergenceError(
                    f"the spectrum of {law!r} starts closer to zero than 1e-11 of its size, and with it the"
                    " limiting risk is not resolved; ask for finitely many epochs, or for an aspect farther from 1"
                )
            return 0.0, math.inf, 0.0
        rows = law.population
        if rows.is_isotropic and law.aspect > 1:
            # Overparameterized descent ends in the minimum-norm solution, whatever the batches.
            return 0.0, float(rows.row_shares @ (1 / rows.row_squares)) / (law.aspect - 1), 0.0
        if law.batches == 1 and ratio < 1 and rows.has_even_rows:
            # That of least squares, whatever Sigma; contours lose 2e-8 of it at 1 - ratio = 1e-6.
            return 0.0, ratio / (1 - ratio), 0.0
        return 0.0, *self._contours.limit_and_error()

    def limit(self) -> LimitingRisk:
        """The risk after infinitely many epochs."""
        return self.risk(math.inf)

    @working("the best epoch")
    def best_epoch(self) -> BestEpoch:
        """The epoch with the smallest risk, by a certified search."""
        if not self.noise and self.converges:
            # Without noise the risk decreases to its frozen part, and reaches it only in the limit.
            return BestEpoch(math.inf, self.frozen, 0.0)
        found = self._contours.best_epoch(self.signal, self.noise)
        return replace(
            found, risk_error=float(self.risk(found.epoch).error), error_kind=self._contours.error_kind
        )


def learning_curve(
    aspect: float,
    alpha: float,
    batches: int,
    *,
    covariance: Covariance = None,
    source: ArrayLike | None = None,
    row_scales: ArrayLike | Discrete | None = None,
    budget: float = BUDGET,
    noise: float = 1.0,
    signal: float = 1.0,
) -> LearningCurve:
    """The learning curve of mini-batch descent in the proportional limit, p/n -> aspect, from no data at all.

    Rows are Gaussian or alike, x = tau Sigma^(1/2) z with independent entries z; their scales tau are one unless
    `row_scales` says otherwise. Up to 32 batches the equations are solved; beyond, the curve is expanded in 1/B,
    with an error.

    Parameters
    ----------
    aspect, alpha, batches, covariance, row_scales, budget
        As in `batch_spectrum`.
    source : (m,), optional
        The share of the squared signal along each eigenvalue of `covariance`, for a signal that has a direction: a
        source condition. They add up to one. By default the signal is spread over all directions alike.
    noise : float >= 0
        The standard deviation of the label noise.
    signal : float >= 0
        The length of the initial error, beta_star for descent from zero.

    Returns
    -------
    LearningCurve
        Its `risk(epochs)` takes epochs of any shape; `best_epoch()` and `limit()` consider all of them.

    >>> curve = learning_curve(aspect=1.5, alpha=0.2, batches=2, noise=0.5)
    >>> curve.risk([0, 10, math.inf]).total.round(4)
    array([1.    , 0.5569, 0.8333])
    >>> curve.best_epoch()
    BestEpoch(epoch=7, risk=0.551713)
    """
    spectrum = batch_spectrum(aspect, alpha, batches, covariance, budget, source, row_scales)
    return LearningCurve(spectrum, _arrays.nonnegative("noise", noise), _arrays.nonnegative("signal", signal))
