"""Single runs that draw their samples with replacement, in the proportional limit: the Volterra equation."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.asymptotics import arguments
from reshuffle.asymptotics.arguments import Covariance
from reshuffle.asymptotics.laws.batch_spectrum import batch_spectrum
from reshuffle.asymptotics.laws.epoch_law import EpochLaw
from reshuffle.asymptotics.streaming.coupled_paces import secular_modes
from reshuffle.run.expected_risk import ExpectedRisk

_RESOLVED = 1e6
"""Epochs, times alpha times the largest eigenvalue, up to which the spectrum near zero is resolved."""


@dataclass(frozen=True)
class ReplacementStability:
    """Whether the mean square of a run settles in the limit.

    Attributes
    ----------
    converges : bool
        Whether kappa < 1.
    kappa : float
        alpha aspect tau(Sigma) / 2, what the noise of the gradients hands on.
    critical_alpha : float
        2 / (aspect tau(Sigma)): for batches of m rows the step 2 m / tr Sigma.
    """

    converges: bool
    kappa: float
    critical_alpha: float


@dataclass(frozen=True, eq=False)
class _Flow:
    """Nodes of the spectrum of W with their weights, in units of one epoch of training."""

    paces: FloatArray
    law: FloatArray
    signal: FloatArray


@dataclass(frozen=True, eq=False)
class ReplacementCurve:
    """Expected risk and training loss of a run on batches drawn with replacement, for p/n -> aspect.

    With the law mu of alpha W the mean square of the residuals solves, in epochs t,

        rho(t) = f(t) + aspect int_0^t K(t - u) rho(u) du,      K(t) = int x^2 e^(-2 x t) dmu(x),

    where f is that of gradient flow at time alpha t, and the spread of the runs around it is

        spread(t) = aspect alpha int_0^t K_Sigma(t - u) rho(u) du,      K_Sigma(t) = int x e^(-2 x t) dmu_Sigma(x).

    Nothing depends on the number m of rows of a batch, as long as it is fixed and each is visited with the step
    alpha m / n. Made by `replacement_curve`. Source: Paquette, Lee, Pedregosa and Paquette (2021), for m = 1.

    Attributes
    ----------
    spectrum : EpochLaw
        The law of W, up to a factor.
    alpha, noise, signal : float
    """

    spectrum: EpochLaw
    alpha: float
    noise: float
    signal: float

    def __repr__(self) -> str:
        return (
            f"ReplacementCurve(aspect={self.spectrum.aspect:g}, alpha={self.alpha:g}, noise={self.noise:g},"
            f" signal={self.signal:g}, kappa={self.stability.kappa:.6g})"
        )

    @property
    def stability(self) -> ReplacementStability:
        """Whether the mean square settles, and the largest alpha for which it does."""
        population = self.spectrum.population
        critical = 2 / (self.spectrum.aspect * float(population.weights @ population.eigenvalues))
        kappa = self.alpha / critical
        return ReplacementStability(kappa < 1, kappa, critical)

    @property
    def converges(self) -> bool:
        """Whether the mean square of a run has a limit."""
        return self.stability.converges

    @property
    def _floor(self) -> float:
        """The residuals that no parameters remove: noise^2 (n - rank)/n."""
        return self.noise**2 * max(0.0, 1 - self.spectrum.aspect * (1 - self.spectrum.frozen[0]))

    @cached_property
    def _flow(self) -> _Flow:
        scale = self.alpha / self.spectrum.alpha
        x, weights = self.spectrum.grid.rule(_RESOLVED)
        seen = (weights[0] > 0) & (x > 0)
        return _Flow(scale * x[seen], weights[0, seen], np.maximum(weights[1, seen], 0.0))

    @cached_property
    def _modes(self) -> tuple[FloatArray, ...]:
        """Paces of the coupled modes; how residuals and risk are seen through them, of the start and of a floor."""
        flow, aspect = self._flow, self.spectrum.aspect
        gains = aspect * flow.law * flow.paces**2
        # The risk of a mode per unit of its residuals.
        sight = self.alpha * flow.signal / (flow.law * flow.paces)
        return secular_modes(2 * flow.paces, gains, self._start, sight)

    @property
    def _start(self) -> FloatArray:
        """The mean squares of the residuals that fade with each node."""
        flow, aspect = self._flow, self.spectrum.aspect
        return (self.signal**2 * flow.paces / self.alpha + self.noise**2 * aspect) * flow.law

    def training_loss(self, epochs: ArrayLike) -> FloatArray:
        """The expected mean square of the residuals of a run, of the shape of `epochs`."""
        clock = _arrays.epochs(epochs)
        flat = clock.ravel()
        paces, start, floor, _ = self._modes
        decay, drift = _decay_and_drift(paces, flat)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = decay @ start + self._floor * (1 + drift @ floor)
        limit = self._floor / (1 - self.stability.kappa) if self.converges else math.inf
        return np.where(np.isinf(flat), limit, _grown(loss)).reshape(clock.shape)

    def spread(self, epochs: ArrayLike) -> FloatArray:
        """What a run has in expectation on top of the risk of the mean iterate, of the shape of `epochs`."""
        clock = _arrays.epochs(epochs)
        flat = clock.ravel()
        flow = self._flow
        paces, start, floor, sight = self._modes
        decay, drift = _decay_and_drift(paces, flat)
        own, _ = _decay_and_drift(2 * flow.paces, flat)
        alone = self.alpha * flow.signal / (flow.law * flow.paces) * self._start
        with np.errstate(over="ignore", invalid="ignore"):
            spread = decay @ (sight * start) - own @ alone + self._floor * (drift @ (sight * floor))
        kappa = self.stability.kappa
        limit = self._floor * kappa / (1 - kappa) if self.converges else math.inf
        found = np.where(np.isinf(flat), limit, np.maximum(_grown(spread), 0.0))
        return np.where(flat == 0, 0.0, found).reshape(clock.shape)

    def expected_risk(self, epochs: ArrayLike) -> ExpectedRisk:
        """The risk of a run: that of the mean iterate, which is gradient flow at time alpha t, plus the spread.

        Of Sigma that is no multiple of the identity the first needs zero noise: its variance has two resolvents.
        """
        clock = _arrays.epochs(epochs)
        mean, spread = self.mean_risk(clock), self.spread(clock)
        return ExpectedRisk(clock, mean + spread, mean, spread, np.zeros(clock.shape))

    def mean_risk(self, epochs: ArrayLike) -> FloatArray:
        """The risk of the mean iterate, of the shape of `epochs`."""
        clock = _arrays.epochs(epochs)
        if self.noise and not self.spectrum.population.is_isotropic:
            raise ValueError(
                f"covariance must be a multiple of the identity for the risk of the mean iterate with noise, but it"
                f" has {self.spectrum.population}; spread and training_loss are answered, or noise=0."
            )
        flow, flat = self._flow, clock.ravel()
        decay, _ = _decay_and_drift(2 * flow.paces, flat)
        with np.errstate(invalid="ignore"):
            learned = -np.expm1(-flat[:, np.newaxis] * flow.paces)
        learned[np.isinf(flat)] = 1.0
        bias = self.signal**2 * (self.spectrum.frozen[1] + decay @ flow.signal)
        variance = (
            self.noise**2 * self.spectrum.aspect * self.alpha * (learned**2 @ (flow.signal / flow.paces))
        )
        return np.asarray(bias + variance).reshape(clock.shape)

    def limit(self) -> ExpectedRisk:
        """The risk of a run after infinitely many epochs."""
        return self.expected_risk(math.inf)


def _decay_and_drift(paces: FloatArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """e^(-x t) and int_0^t e^(-x u) du, (times, paces), zero where t is infinite: limits are closed."""
    finite = np.where(np.isinf(times), 0.0, times)[:, np.newaxis]
    with np.errstate(over="ignore"):
        decay = np.exp(-finite * paces)
        still = paces == 0
        drift = np.where(still, finite, -np.expm1(-finite * paces) / np.where(still, 1.0, paces))
    decay[np.isinf(times)], drift[np.isinf(times)] = 0.0, 0.0
    return decay, drift


def _grown(values: FloatArray) -> FloatArray:
    """What is beyond the range of numbers is inf."""
    return np.where(np.isnan(values), np.inf, values)


def replacement_curve(
    aspect: float,
    alpha: float,
    *,
    covariance: Covariance = None,
    noise: float = 1.0,
    signal: float = 1.0,
) -> ReplacementCurve:
    """The risk and the training loss of single runs on batches drawn with replacement, for p/n -> aspect.

    Parameters
    ----------
    aspect : float > 0
        The limit of p/n.
    alpha : float > 0
        The full-batch step: batches of m rows, with m fixed as n grows, are visited with alpha m / n.
    covariance
        As in `learning_curve`.
    noise : float >= 0
        The standard deviation of the label noise.
    signal : float >= 0
        The length of the initial error, in a direction that knows nothing of the data.

    Returns
    -------
    ReplacementCurve
        Its `expected_risk`, `training_loss` and `spread` take epochs of any shape.

    >>> curve = replacement_curve(aspect=0.5, alpha=0.5, noise=0.5)
    >>> curve.expected_risk([1, 10, math.inf]).total.round(4), float(curve.spread(math.inf).round(6))
    (array([0.5194, 0.205 , 0.2679]), 0.017857)
    >>> curve.stability
    ReplacementStability(converges=True, kappa=0.125, critical_alpha=4.0)
    """
    aspect, alpha = arguments.aspect(aspect), arguments.alpha(alpha)
    population = arguments.population(covariance)
    # In these units the spectrum ends at about one, wherever alpha puts it.
    unit = 1 / (float(population.eigenvalues.max()) * (1 + math.sqrt(aspect)) ** 2)
    return ReplacementCurve(
        batch_spectrum(aspect, unit, 1, covariance),
        alpha,
        _arrays.nonnegative("noise", noise),
        _arrays.nonnegative("signal", signal),
    )
