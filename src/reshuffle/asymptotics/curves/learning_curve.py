"""Learning curves with no data: the risk in the proportional limit, for any number of epochs."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._linalg import power_and_sum
from reshuffle.asymptotics.arguments import Covariance
from reshuffle.asymptotics.curves.contour_curve import ContourCurve
from reshuffle.asymptotics.laws.batch_law import BatchLaw
from reshuffle.asymptotics.laws.batch_spectrum import batch_spectrum
from reshuffle.asymptotics.laws.epoch_law import EpochLaw
from reshuffle.free.checks import ConvergenceError, ErrorKind
from reshuffle.free.progress import BUDGET, working
from reshuffle.run import stopping
from reshuffle.run.modes import QuadraticForm, RiskForms
from reshuffle.run.stopping import BestEpoch
from reshuffle.run.trajectory import Risk

_LAST_EPOCH = 2.0**53
"""Up to which the best epoch is searched."""
_CHUNK = 1 << 20
"""Entries of (epochs, points) arrays that are worked on at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class LimitingRisk(Risk):
    """The risk in the limit n, p -> infinity, with the mode that diverges if one does.

    Attributes
    ----------
    epochs, frozen, bias, cross, variance, error : arrays of one shape
        As in `reshuffle.Risk`.
    error_kind : str
        "exact", and `error` is zero: nothing is sampled, and the integrals carry about ten digits. How far a finite
        problem is from its limit is not part of it.
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
    """Whether the mean iterate converges in the limit.

    Attributes
    ----------
    converges : bool
        Whether the spectrum of alpha Z, frozen modes aside, lies in [0, 2]; where it reaches an end, as it does
        at aspect 1, the iterate converges slower than any exponential.
    rate : float
        What the slowest mode is multiplied by in an epoch.
    diverges : float or None
        The end of the spectrum that lies outside.
    """

    converges: bool
    rate: float
    diverges: float | None


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """The risk of the mean iterate as a function of the epochs, for p/n -> aspect.

    With mu, mu_Sigma and mu_M the law of alpha Z and its measures weighted by Sigma and by the noise M,

        R_k = signal^2 int (1 - x)^(2k) dmu_Sigma + noise^2 aspect alpha^2 int (sum_{j<k} (1 - x)^j)^2 dmu_M

    for an initial error of length `signal` in a direction that knows nothing of the data, and Sigma = I. For other
    Sigma the second term is an integral over two spectral variables: see `CrossVariance`. Made by
    `learning_curve`; `spectrum` is the law of alpha Z.
    """

    spectrum: EpochLaw
    noise: float
    signal: float

    def __repr__(self) -> str:
        return f"LearningCurve({self.spectrum}, noise={self.noise:g}, signal={self.signal:g})"

    @cached_property
    def stability(self) -> SpectralStability:
        """Whether and how fast the mean iterate converges."""
        low, high = self.spectrum.ends
        beyond = [end for end, outside in ((low, low < 0), (high, high > 2)) if outside]
        diverges = max(beyond, key=lambda end: abs(1 - end), default=None)
        return SpectralStability(not beyond, max(abs(1 - low), abs(1 - high)), diverges)

    @property
    def converges(self) -> bool:
        """Whether the mean iterate has a limit."""
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
        bias, cross, variance = np.zeros((3, len(flat)))
        forever = np.isinf(flat)
        if not forever.all():
            bias[~forever], cross[~forever], variance[~forever] = self._integrals(flat[~forever])
        if forever.any():
            bias[forever], variance[forever] = self._limit_integrals()
        frozen = np.full(clock.shape, self.frozen)
        return LimitingRisk(
            clock,
            frozen,
            bias.reshape(clock.shape),
            cross.reshape(clock.shape),
            variance.reshape(clock.shape),
            np.zeros(clock.shape),
            diverges=self.stability.diverges,
        )

    @cached_property
    def _contours(self) -> ContourCurve | None:
        """The curve as sums over contours; closed forms have their density, which is as fast."""
        return ContourCurve(self.spectrum) if isinstance(self.spectrum, BatchLaw) else None

    def _integrals(self, epochs: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bias, cross term and variance after finitely many epochs."""
        if self._contours is not None:
            parts = self._contours.parts(epochs, noisy=self.noise > 0)
            with np.errstate(over="ignore"):
                # The square of a size by itself may be 0 or infinite where its product with the rest is not.
                sizes = self.signal, self.signal, self.noise
                roots = [size * np.sqrt(np.abs(part)) for size, part in zip(sizes, parts, strict=True)]
                bias, cross, variance = (
                    np.sign(part) * root**2 for part, root in zip(parts, roots, strict=True)
                )
            return bias, cross, variance
        x, weights = self.spectrum.grid.rule(float(epochs.max()))
        bias, variance = np.zeros(len(epochs)), np.zeros(len(epochs))
        height = max(1, _CHUNK // len(x))
        for start in range(0, len(epochs), height):
            part = slice(start, start + height)
            decay, drift = power_and_sum(x, epochs[part])
            bias[part] = self._sum(decay, self.signal**2 * weights[1])
            variance[part] = self._sum(drift, self._price * weights[2])
        return bias, np.zeros(len(epochs)), variance

    def _limit_integrals(self) -> tuple[float, float]:
        """Bias and variance after infinitely many epochs."""
        diverges = not self.converges
        bias = math.inf if diverges and self.signal else 0.0
        if not self.noise:
            return bias, 0.0
        if diverges or self.spectrum.ends[0] == 0:
            self._require_hard_edge()
            return bias, math.inf
        law = self.spectrum
        if self._contours is not None and not (law.population.is_isotropic and law.aspect > 1):
            with np.errstate(over="ignore"):
                return bias, float((self.noise * np.sqrt(self._contours.limiting_variance())) ** 2)
        return bias, self._price * self.spectrum.limiting_noise()

    def _require_hard_edge(self) -> None:
        """Raise if the spectrum is taken to start at zero although it starts too close to it to be told."""
        law = self.spectrum
        if law.ends[0] == 0 and law.aspect * (1 - law.population.null) != 1:
            raise ConvergenceError(
                f"the spectrum of {law!r} starts closer to zero than 1e-11 of its size, and with it the limiting"
                " risk is not resolved; ask for finitely many epochs, or for an aspect farther from 1"
            )

    @staticmethod
    def _sum(factors: FloatArray, weights: FloatArray) -> FloatArray:
        seen = weights > 0
        with np.errstate(over="ignore"):
            return np.asarray(np.einsum("kx,kx,x->k", factors[:, seen], factors[:, seen], weights[seen]))

    @property
    def _price(self) -> float:
        """What the squared drift of the noise is multiplied by, for Sigma a multiple of the identity."""
        law = self.spectrum
        return self.noise**2 * law.aspect * law.alpha**2 * float(law.population.eigenvalues[0])

    def limit(self) -> LimitingRisk:
        """The risk after infinitely many epochs."""
        return self.risk(math.inf)

    @working("the best epoch")
    def best_epoch(self) -> BestEpoch:
        """The epoch with the smallest risk, by a certified search."""
        if not self.noise and self.converges:
            # What is left fades for ever.
            return BestEpoch(math.inf, self.frozen, 0.0)
        curve, isotropic = self._contours, self.spectrum.population.is_isotropic
        if curve is not None and not (isotropic and self.spectrum.ends[0] == 0):
            return curve.best_epoch(self.signal, self.noise)
        return self._certified_search()

    def _certified_search(self) -> BestEpoch:
        x, weights = self.spectrum.grid.rule(_LAST_EPOCH)
        amplitudes = np.sqrt(np.maximum(weights, 0.0))
        forms = RiskForms(
            frozen=self.frozen,
            bias=QuadraticForm(self.signal * amplitudes[1]),
            cross=np.zeros(len(x)),
            variance=QuadraticForm(math.sqrt(self._price) * amplitudes[2]),
        )
        return stopping.best_epoch(lambda epochs: power_and_sum(x, epochs), forms, x, 1)


def learning_curve(
    aspect: float,
    alpha: float,
    batches: int,
    *,
    covariance: Covariance = None,
    source: ArrayLike | None = None,
    budget: float = BUDGET,
    noise: float = 1.0,
    signal: float = 1.0,
) -> LearningCurve:
    """The learning curve of mini-batch descent in the proportional limit, p/n -> aspect, from no data at all.

    Parameters
    ----------
    aspect, alpha, batches, covariance, budget
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
        Its `risk(epochs)` takes epochs of any shape; `best_epoch()` and `limit()` look along all of them.

    >>> curve = learning_curve(aspect=1.5, alpha=0.2, batches=2, noise=0.5)
    >>> curve.risk([0, 10, math.inf]).total.round(4)
    array([1.    , 0.5569, 0.8333])
    >>> curve.best_epoch()
    BestEpoch(epoch=7, risk=0.551713)
    """
    spectrum = batch_spectrum(aspect, alpha, batches, covariance, budget, source)
    return LearningCurve(spectrum, _arrays.nonnegative("noise", noise), _arrays.nonnegative("signal", signal))


def risk(
    aspect: float,
    alpha: float,
    batches: int,
    epochs: ArrayLike,
    noise: float = 1.0,
    signal: float = 1.0,
    covariance: Covariance = None,
    source: ArrayLike | None = None,
) -> LimitingRisk:
    """The limit of frozen, bias, variance and total risk after the given epochs, p/n -> aspect.

    Parameters
    ----------
    aspect, alpha, batches, noise, signal, covariance, source
        As in `learning_curve`.
    epochs : whole numbers of any shape, or math.inf

    Returns
    -------
    LimitingRisk
        Every part of the shape of `epochs`.

    >>> risk(aspect=0.25, alpha=0.4, batches=2, epochs=math.inf)
    LimitingRisk(total=0.333996: frozen=0, bias=0, cross=0, variance=0.333996)
    """
    curve = learning_curve(
        aspect, alpha, batches, noise=noise, signal=signal, covariance=covariance, source=source
    )
    return curve.risk(epochs)
