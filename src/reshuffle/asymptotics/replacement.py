"""Runs that draw with replacement, by the Volterra equation."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle.asymptotics import spectra
from reshuffle.asymptotics.batch_law import batch_spectrum
from reshuffle.asymptotics.contour import Contour, symmetric_sum
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.asymptotics.optimum import Flow, Setting
from reshuffle.asymptotics.spectra import Covariance
from reshuffle.free.checks import Complex
from reshuffle.run.expected_risk import ExpectedRisk

_GROWTH = 3.0
"""Largest logarithm of the slowest mode, relative to its decay, on the circle around a contour."""
_OVER = 750.0
"""Logarithm of what the slowest mode has fallen or grown by when nothing, or no number, is left of it."""
_BELOW = 1 - 1e-9
"""Just below the lower end of the spectrum, relative to it."""


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
class ReplacementCurve:
    r"""Expected risk and training loss of a run on batches drawn with replacement, for p/n -> aspect.

    With the law mu of alpha W the mean square of the residuals solves, in epochs t,

    .. math::
        \rho(t) = f(t) + \text{aspect} \int_0^t K(t - u) \rho(u)\, du, \qquad K(t) = \int x^2 e^{-2 x t}\, d\mu(x),

    where f is that of gradient flow at time alpha t, and the spread of the runs around it is

    .. math::
        \text{spread}(t) = \text{aspect}\, \alpha \int_0^t K_\Sigma(t - u) \rho(u)\, du, \qquad
        K_\Sigma(t) = \int x e^{-2 x t}\, d\mu_\Sigma(x).

    The Laplace transforms of all of these at -2z are rational functions of z and of the Cauchy transforms of mu and
    mu_Sigma there: rho and the spread are sums of e^(-2 z t) over a contour around the spectrum and the one pole,
    at which the feedback is one. Nothing depends on the number m of rows of a batch, as long as it is fixed and
    each is visited with the step alpha m / n. Made by `replacement_curve`. Source: Paquette, Lee, Pedregosa and
    Paquette (2021), for m = 1.

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

    @property
    def _scale(self) -> float:
        """The rate per epoch of a mode at one, in units of `spectrum`."""
        return self.alpha / self.spectrum.alpha

    def _open_loop(self, z: Complex, law: Complex) -> Complex:
        """1 - aspect K(z), K the Laplace transform of the kernel, with `law` the Cauchy transform at z."""
        population, unit = self.spectrum.population, self.spectrum.alpha
        mean = unit * float(population.weights @ population.eigenvalues)
        return np.asarray(1 + self.spectrum.aspect * self._scale / 2 * (z * z * law - z - mean))

    @cached_property
    def _slowest(self) -> float:
        """The slowest mode: where the feedback is one if that is below the spectrum, or else its lower end."""
        low, high = self.spectrum.ends

        def excess(x: float) -> float:
            return float(self._open_loop(np.array(x + 0j), self.spectrum.transforms(x)[0]).real)

        if not self.converges:
            far = self.spectrum.aspect * self._scale * high**2 * (1 + math.sqrt(self.spectrum.aspect)) ** 2
            return float(scipy.optimize.brentq(excess, -max(far, high), 0.0, xtol=1e-300, rtol=1e-14))
        if low > 0 and excess(_BELOW * low) < 0:
            low = float(scipy.optimize.brentq(excess, 0.0, _BELOW * low, xtol=1e-300, rtol=1e-14))
        return low

    def _along(self, epochs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The mean square of the residuals, and the spread, after finite epochs (k,)."""
        law, scale = self.spectrum, 2 * self._scale
        start = min(self._slowest, 0.0) if self._floor else self._slowest
        times = np.minimum(epochs, _OVER / (scale * abs(start)) if start else math.inf)
        left = start - _GROWTH / (scale * max(float(times.max(initial=0.0)), 1 / scale))
        right = law.ends[1] + 1.0
        contour = Contour.between(start, law.ends[1], (left + right) / 2, (right - left) / 2)
        z = contour.points
        g, signal, _ = law.outside(z)
        forcing = self.signal**2 / law.alpha * (z * g - 1) + self.noise**2 * law.aspect * (
            g - law.frozen[0] / z
        )
        residuals = (forcing + self._floor / z) / self._open_loop(z, g)
        population = law.population
        sigma = float(population.weights @ population.eigenvalues)
        spread = -law.aspect * self.alpha / 2 * (z * signal - sigma) * residuals
        with np.errstate(over="ignore", invalid="ignore"):
            powers = np.exp(-scale * np.outer(times, z - start))
            size = np.exp(-scale * start * times)
            found = [size * symmetric_sum(contour.weights * one, powers) for one in (residuals, spread)]
        loss, spread = (np.where(np.isnan(one), np.inf, np.maximum(one, 0.0)) for one in found)
        return loss, np.where(epochs == 0, 0.0, spread)

    def _answer(self, epochs: ArrayLike, which: int, limit: float) -> FloatArray:
        clock = _arrays.epochs(epochs)
        flat = clock.ravel()
        found = np.full(len(flat), limit if self.converges else math.inf)
        finite = np.isfinite(flat)
        found[finite] = self._along(flat[finite])[which]
        return found.reshape(clock.shape)

    def training_loss(self, epochs: ArrayLike) -> FloatArray:
        """The expected mean square of the residuals of a run, of the shape of `epochs`."""
        return self._answer(epochs, 0, self._floor / (1 - self.stability.kappa))

    def spread(self, epochs: ArrayLike) -> FloatArray:
        """The expected risk of a run less the risk of the mean iterate, of the shape of `epochs`."""
        kappa = self.stability.kappa
        return self._answer(epochs, 1, self._floor * kappa / (1 - kappa))

    def expected_risk(self, epochs: ArrayLike) -> ExpectedRisk:
        """The risk of a run: that of the mean iterate, which is gradient flow at time alpha t, plus the spread."""
        clock = _arrays.epochs(epochs)
        mean, spread = self.mean_risk(clock), self.spread(clock)
        return ExpectedRisk(clock, mean + spread, mean, spread, np.zeros(clock.shape))

    def mean_risk(self, epochs: ArrayLike) -> FloatArray:
        """The risk of the mean iterate, of the shape of `epochs`: that of gradient flow at time alpha t."""
        clock = _arrays.epochs(epochs)
        flow = Flow(Setting(self.spectrum.aspect, self.spectrum.population, self.noise, self.signal))
        return flow.risk(self.alpha * clock.ravel()).reshape(clock.shape)

    def limit(self) -> ExpectedRisk:
        """The risk of a run after infinitely many epochs."""
        return self.expected_risk(math.inf)


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
