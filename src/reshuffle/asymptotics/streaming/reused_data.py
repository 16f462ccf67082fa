"""How many fresh samples several epochs on the same rows are worth."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.optimize
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import ErrorKind
from reshuffle.asymptotics import arguments
from reshuffle.asymptotics.streaming.drawn_with_replacement import ReplacementCurve, replacement_curve

_TRIED = 33
"""Values of alpha on a grid up to the critical one."""
_LARGEST_TIME = 1e9
_FINE = 2001
"""Points between neighbours at which polynomials are looked at."""


@dataclass(frozen=True, eq=False)
class EffectiveReuse:
    """What K epochs on N rows are worth in fresh rows, made by `effective_reuse`.

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
        How far `reuse` may be off, because the best alpha is that of a polynomial through five: by what a parabola
        through three has instead.
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
    """How much larger a data set that is seen once must be, to be worth K epochs on N rows: E(K, N).

    Sigma = I, p/N -> aspect. The epochs draw small batches with replacement (`replacement_curve`), and the one
    pass takes batches of m fresh rows, each with the best constant step. One pass over tau p rows with the step
    theta m/p has

        R = R_inf + (signal^2 - R_inf) e^(-theta (2 - theta) tau),      R_inf = noise^2 theta/(2 - theta).

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
    aspect = arguments.aspect(aspect)
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
    """How many fresh rows per feature one pass needs for a risk."""
    if risk >= signal**2:
        return 0.0

    def excess(logarithm: float) -> float:
        return math.log(one_pass_risk(math.exp(logarithm), noise, signal) / risk)

    return math.exp(
        scipy.optimize.brentq(excess, math.log(1e-9), math.log(_LARGEST_TIME), xtol=1e-9, rtol=1e-12)
    )
