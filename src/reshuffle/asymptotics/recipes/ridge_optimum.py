"""Ridge regression and the Bayes optimum in the limit."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from reshuffle._arrays import FloatArray
from reshuffle.asymptotics.recipes.limiting_setting import Setting, smallest

_SMALLEST, _LARGEST = 1e-10, 1e6
"""Penalties that are looked at, in units of the largest eigenvalue of W."""


@dataclass(frozen=True)
class BestRidge:
    """The best penalty of (W + penalty)^-1 X'y/n.

    Attributes
    ----------
    penalty, risk : float
    """

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
    if not setting.noise:
        return setting.frozen if population.source_is_even else _without_noise(setting)
    spread = population.eigenvalues * population.source
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


def _without_noise(setting: Setting) -> float:
    spread = setting.population.eigenvalues * setting.population.source
    merged, owner = np.unique(spread, return_inverse=True)
    weights: FloatArray = np.bincount(owner, setting.population.weights).astype(np.float64)
    even = type(setting.population)(merged, weights, np.ones(len(merged)))
    return setting.signal**2 * even.frozen(setting.aspect)[1]
