"""Runs that draw with replacement, by the Volterra equation, and the fresh samples that epochs are worth."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind
from reshuffle.asymptotics import spectra
from reshuffle.asymptotics.batch_law import batch_spectrum
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.asymptotics.fresh_samples import secular_modes
from reshuffle.asymptotics.spectra import Covariance
from reshuffle.run.expected_risk import ExpectedRisk

_RESOLVED = 1e6
"""Epochs, times alpha times the largest eigenvalue, up to which the spectrum near zero is resolved."""


@dataclass(frozen=True)
class ReplacementStability:
    """Stability of the mean square of a run in the limit.

    Attributes
    ----------
    converges : bool
        True if kappa < 1.
    kappa : float
        alpha aspect tau(Sigma) / 2, the gain of the feedback through the gradients' noise.
    critical_alpha : float
        2 / (aspect tau(Sigma)): for batches of m rows the step 2 m / tr Sigma.
    """

    converges: bool
    kappa: float
    critical_alpha: float


@dataclass(frozen=True, eq=False)
class _Flow:
    """Nodes of the spectrum of W with their weights, in units of one epoch of training."""

    rates: FloatArray
    law: FloatArray
    signal: FloatArray


@dataclass(frozen=True, eq=False)
class ReplacementCurve:
    r"""Expected risk and training loss of a run on batches drawn with replacement, for p/n -> aspect.

    With the law mu of alpha W the mean square of the residuals solves, in epochs t,

    .. math::
        \rho(t) = f(t) + \text{aspect} \int_0^t K(t - u) \rho(u)\, du, \qquad K(t) = \int x^2 e^{-2 x t}\, d\mu(x),

    where f is that of gradient flow at time alpha t, and the spread of the runs around it is

    .. math::
        \text{spread}(t) = \text{aspect}\, \alpha \int_0^t K_\Sigma(t - u) \rho(u)\, du, \qquad
        K_\Sigma(t) = \int x e^{-2 x t}\, d\mu_\Sigma(x).

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
        """Stability of the mean square, with the largest alpha for which it converges."""
        population = self.spectrum.population
        critical = 2 / (self.spectrum.aspect * float(population.weights @ population.eigenvalues))
        kappa = self.alpha / critical
        return ReplacementStability(kappa < 1, kappa, critical)

    @property
    def converges(self) -> bool:
        """True if the mean square of a run has a limit."""
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
        """Decay rates of the coupled modes, weights of start and floor in the residuals, and risk per residual."""
        flow, aspect = self._flow, self.spectrum.aspect
        gains = aspect * flow.law * flow.rates**2
        # The risk of a mode per unit of its residuals.
        sight = self.alpha * flow.signal / (flow.law * flow.rates)
        return secular_modes(2 * flow.rates, gains, self._start, sight)

    @property
    def _start(self) -> FloatArray:
        """The initial mean squares of the residuals that decay with each node."""
        flow, aspect = self._flow, self.spectrum.aspect
        return (self.signal**2 * flow.rates / self.alpha + self.noise**2 * aspect) * flow.law

    def training_loss(self, epochs: ArrayLike) -> FloatArray:
        """The expected mean square of the residuals of a run, of the shape of `epochs`."""
        clock = _arrays.epochs(epochs)
        flat = clock.ravel()
        rates, start, floor, _ = self._modes
        decay, drift = _decay_and_drift(rates, flat)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = decay @ start + self._floor * (1 + drift @ floor)
        limit = self._floor / (1 - self.stability.kappa) if self.converges else math.inf
        return np.where(np.isinf(flat), limit, _grown(loss)).reshape(clock.shape)

    def spread(self, epochs: ArrayLike) -> FloatArray:
        """The expected risk of a run less the risk of the mean iterate, of the shape of `epochs`."""
        clock = _arrays.epochs(epochs)
        flat = clock.ravel()
        flow = self._flow
        rates, start, floor, sight = self._modes
        decay, drift = _decay_and_drift(rates, flat)
        own, _ = _decay_and_drift(2 * flow.rates, flat)
        alone = self.alpha * flow.signal / (flow.law * flow.rates) * self._start
        with np.errstate(over="ignore", invalid="ignore"):
            spread = decay @ (sight * start) - own @ alone + self._floor * (drift @ (sight * floor))
        kappa = self.stability.kappa
        limit = self._floor * kappa / (1 - kappa) if self.converges else math.inf
        found = np.where(np.isinf(flat), limit, np.maximum(_grown(spread), 0.0))
        return np.where(flat == 0, 0.0, found).reshape(clock.shape)

    def expected_risk(self, epochs: ArrayLike) -> ExpectedRisk:
        """The risk of a run: that of the mean iterate, which is gradient flow at time alpha t, plus the spread.

        If Sigma is no multiple of the identity, the first needs zero noise: its variance has two resolvents.
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
        decay, _ = _decay_and_drift(2 * flow.rates, flat)
        with np.errstate(invalid="ignore"):
            learned = -np.expm1(-flat[:, np.newaxis] * flow.rates)
        learned[np.isinf(flat)] = 1.0
        bias = self.signal**2 * (self.spectrum.frozen[1] + decay @ flow.signal)
        variance = (
            self.noise**2 * self.spectrum.aspect * self.alpha * (learned**2 @ (flow.signal / flow.rates))
        )
        return np.asarray(bias + variance).reshape(clock.shape)

    def limit(self) -> ExpectedRisk:
        """The risk of a run after infinitely many epochs."""
        return self.expected_risk(math.inf)


def _decay_and_drift(rates: FloatArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """e^(-x t) and int_0^t e^(-x u) du, (times, rates), zero where t is infinite: limits are closed."""
    finite = np.where(np.isinf(times), 0.0, times)[:, np.newaxis]
    with np.errstate(over="ignore"):
        decay = np.exp(-finite * rates)
        still = rates == 0
        drift = np.where(still, finite, -np.expm1(-finite * rates) / np.where(still, 1.0, rates))
    decay[np.isinf(times)], drift[np.isinf(times)] = 0.0, 0.0
    return decay, drift


def _grown(values: FloatArray) -> FloatArray:
    """Replace nan, the result of an overflow, by inf."""
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
    aspect, alpha = spectra.aspect(aspect), spectra.alpha(alpha)
    population = spectra.population(covariance)
    # In these units the spectrum ends at about one, wherever alpha puts it.
    unit = 1 / (float(population.eigenvalues.max()) * (1 + math.sqrt(aspect)) ** 2)
    return ReplacementCurve(
        batch_spectrum(aspect, unit, 1, covariance),
        alpha,
        _arrays.nonnegative("noise", noise),
        _arrays.nonnegative("signal", signal),
    )


_TRIED = 33
"""Values of alpha on a grid up to the critical one."""
_LARGEST_TIME = 1e9
_FINE = 2001
"""Points between neighbours at which polynomials are evaluated."""


@dataclass(frozen=True, eq=False)
class EffectiveReuse:
    """Fresh rows that are worth K epochs on N rows, made by `effective_reuse`.

    Attributes
    ----------
    epochs : array of any shape
        K.
    reuse : array
        E(K, N): one pass over E N fresh rows has the risk of K epochs on N; to about three digits.
    risk : array
        That risk.
    alpha : array
        The best alpha for K epochs.
    error : array
        The error of `reuse` from the best alpha, that of a polynomial through five values: the difference to a
        parabola through three.
    error_kind : str
        "estimate".
    """

    epochs: FloatArray
    reuse: FloatArray
    risk: FloatArray
    alpha: FloatArray
    error: FloatArray
    error_kind: ErrorKind = "estimate"


def effective_reuse(
    aspect: float, epochs: ArrayLike, *, noise: float = 1.0, signal: float = 1.0
) -> EffectiveReuse:
    r"""The factor E(K, N) by which a data set seen once must be larger to be worth K epochs on N rows.

    Sigma = I, p/N -> aspect. The epochs draw small batches with replacement (`replacement_curve`), and the one
    pass takes batches of m fresh rows, each with the best constant step. One pass over tau p rows with the step
    theta m/p has

    .. math::
        R = R_\infty + (\text{signal}^2 - R_\infty)\, e^{-\theta (2 - \theta) \tau}, \qquad
        R_\infty = \text{noise}^2\, \theta / (2 - \theta).

    Parameters
    ----------
    aspect : float > 0
        p/N.
    epochs : whole numbers >= 1 of any shape
        K.
    noise, signal : float
        The label noise, and the length of the initial error, > 0.

    Returns
    -------
    EffectiveReuse
        E(K, N), the risk and the best alpha, of the shape of `epochs`.

    >>> found = effective_reuse(aspect=0.1, epochs=[1, 4, 1000], noise=0.5)
    >>> found.reuse.round(1)
    array([0.6, 1.2, 1.8])
    """
    clock = _arrays.epochs(epochs)
    if not ((clock >= 1) & np.isfinite(clock)).all():
        raise ValueError("epochs must be whole numbers >= 1, but some are not.")
    noise, signal = _arrays.nonnegative("noise", noise), _arrays.positive("signal", signal)
    aspect = spectra.aspect(aspect)
    base = replacement_curve(aspect, 1.0, noise=noise, signal=signal)
    alphas = base.stability.critical_alpha * np.geomspace(1e-4, 0.98, _TRIED)
    flat = clock.ravel()
    curves = [ReplacementCurve(base.spectrum, float(alpha), noise, signal) for alpha in alphas]
    risks = np.array([curve.expected_risk(flat).total for curve in curves])
    found = [_lowest(np.log(alphas), column) for column in risks.T]
    alpha, risk, missed = (np.array(values) for values in zip(*found, strict=True))
    reuse, other = (
        np.array([aspect * one_pass_time(value, noise, signal) for value in risks])
        for risks in (risk, risk + missed)
    )
    shape = clock.shape
    return EffectiveReuse(
        clock,
        reuse.reshape(shape),
        risk.reshape(shape),
        alpha.reshape(shape),
        np.abs(reuse - other).reshape(shape),
    )


def _lowest(x: FloatArray, y: FloatArray) -> tuple[float, float, float]:
    """exp(x) and y at the lowest point of the polynomial through the best five points, and its error.

    That is how much lower or higher the parabola through the best three is.
    """
    best = int(np.clip(np.argmin(y), 1, len(x) - 2))
    fine = np.linspace(x[best - 1], x[best + 1], _FINE)
    lowest = []
    for reach in (1, 2):
        around = slice(max(best - reach, 0), best + reach + 1)
        values = np.polynomial.Polynomial.fit(x[around], y[around], len(x[around]) - 1)(fine)
        place = int(values.argmin())
        lowest.append((float(values[place]), float(fine[place])))
    (rough, _), (risk, place_of) = lowest
    return math.exp(place_of), risk, abs(rough - risk)


def one_pass_risk(time: float, noise: float, signal: float) -> float:
    """The least risk of one pass over time p fresh rows with a constant step, Sigma = I, for p -> infinity.

    >>> round(one_pass_risk(1.0, 0.0, 1.0), 6) == round(math.exp(-1), 6)
    True
    """

    def risk(theta: float) -> float:
        limit = noise**2 * theta / (2 - theta)
        return limit + (signal**2 - limit) * math.exp(-theta * (2 - theta) * time)

    # Beyond one a larger theta forgets more slowly and has more noise.
    found = scipy.optimize.minimize_scalar(
        lambda logarithm: risk(math.exp(logarithm)),
        bounds=(math.log(1e-12), 0.0),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return min(float(found.fun), risk(1.0))


def one_pass_time(risk: float, noise: float, signal: float) -> float:
    """Fresh rows per feature that one pass needs for a risk."""
    if risk >= signal**2:
        return 0.0

    def excess(logarithm: float) -> float:
        return math.log(one_pass_risk(math.exp(logarithm), noise, signal) / risk)

    return math.exp(
        scipy.optimize.brentq(excess, math.log(1e-9), math.log(_LARGEST_TIME), xtol=1e-9, rtol=1e-12)
    )
