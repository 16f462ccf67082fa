"""Free deconvolution: the law that, with known noise added or multiplied, gives the law that is seen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import nnls

from reshuffle.free.checks import Complex, ConvergenceError, Real, number
from reshuffle.free.laws import Discrete, Law, MarchenkoPastur

POINTS = 200
"""Candidates for the places of the answer, and as many points at which it is compared."""
HEAVY = 1e3
"""How much the total mass counts beside the single comparisons."""


@dataclass(frozen=True)
class Deconvolved:
    """A law from which noise was removed.

    Attributes
    ----------
    law : Discrete
        The law on a fine grid whose Cauchy transform fits best, with its `points` and their `weights`.
    misfit : float
        How far its transform is from the one that was asked for, in root mean square and relative to it.
    height : float
        How far above the axis they were compared, relative to the scale of what was seen: what is finer is
        not resolved.
    """

    law: Discrete
    misfit: float
    height: float

    def __repr__(self) -> str:
        return f"Deconvolved({self.law!r}, misfit {self.misfit:.2g})"


def divide(
    seen: Law | ArrayLike, noise: Law, *, height: float | None = None, tolerance: float | None = None
) -> Deconvolved:
    """Return the law whose free product with Marchenko-Pastur noise is seen: Sigma, from a sample covariance.

    For z in the upper half-plane, with ``K = z - 1/G(z)`` and the noise's ``K_n = v (1 + r u/(1 - u))``,
    ``u = K/z``, the answer's transform is known at ``zeta = z/K_n``: ``1/G(zeta) = zeta - K/K_n``. That is
    linear in the answer, which is fitted with weights that are not negative. Source: El Karoui (2008), for
    Marchenko-Pastur noise.

    Parameters
    ----------
    seen : Law, or eigenvalues (p,)
        Of the sample covariance, zeros included.
    noise : MarchenkoPastur
        Its ratio is p/n.
    height : float, optional
        Over the scale of ``seen``: where transforms are compared; ``1/sqrt(p)`` for p eigenvalues, 0.01 for a law.
    tolerance : float, optional
        The largest misfit that counts as an answer; 0.02, and ``1/sqrt(p)`` more for p eigenvalues.

    Returns
    -------
    Deconvolved

    Raises
    ------
    ConvergenceError
        Where there is no such law: the best one still misses by more than ``tolerance``.

    >>> from reshuffle import free
    >>> noise = free.MarchenkoPastur(0.2)
    >>> seen = free.multiply(free.Discrete([1.0, 5.0], [0.5, 0.5]), noise)
    >>> clean = free.divide(seen, noise).law
    >>> clean.cdf([0.5, 3.0, 6.0]).round(2)
    array([0. , 0.5, 1. ])
    """
    if not isinstance(noise, MarchenkoPastur):
        raise TypeError(
            f"noise must be a MarchenkoPastur law, but it is {noise!r}; for additive noise use subtract"
        )
    law, above, allowed = _seen(seen, height, tolerance)
    low = law.hull[0]
    if low < -1e-12 * law.scale:
        raise ValueError(
            f"seen must lie on x >= 0 to be a free product, but it is {law!r}, which reaches down to {low:g}"
        )
    z, g = _looked_at(law, above)
    k = z - 1 / g
    share = k / z
    noisy = noise.variance * (1 + noise.ratio * share / (1 - share))
    zeta = z / noisy
    return _fitted(zeta, 1 / (zeta - k / noisy), (0.0, law.scale / noise.variance), above, allowed)


def subtract(
    seen: Law | ArrayLike, noise: Law, *, height: float | None = None, tolerance: float | None = None
) -> Deconvolved:
    """Return the law whose free sum with the noise is the one that is seen.

    ``G(z) = G_answer(z - R_noise(G(z)))``, wherever that is in the upper half-plane (Arizmendi, Tarrago
    and Vargas, 2020);
    the answer is fitted with weights that are not negative.

    Parameters
    ----------
    seen : Law, or eigenvalues (p,)
    noise : Law
        With an R-transform ``a + b g/(1 + c g)``: `Semicircle`, `MarchenkoPastur`, `FreePoisson` and their
        affine images.
    height, tolerance : float, optional
        As in `divide`.

    Returns
    -------
    Deconvolved

    Raises
    ------
    ConvergenceError
        Where there is no such law.

    >>> from reshuffle import free
    >>> noise = free.Semicircle(0.04)
    >>> seen = free.add(free.Bernoulli(), noise)
    >>> free.subtract(seen, noise).law.cdf([-2.0, 0.0, 2.0]).round(2)
    array([0. , 0.5, 1. ])
    """
    r = noise.rational_r if isinstance(noise, Law) else None
    if r is None:
        raise TypeError(
            f"noise must be a law with a rational R-transform, such as Semicircle or MarchenkoPastur, "
            f"but it is {noise!r}"
        )
    law, above, allowed = _seen(seen, height, tolerance)
    z, g = _looked_at(law, above)
    a, b, c = r
    low, high = law.hull
    width = high - low
    return _fitted(
        z - (a + b * g / (1 + c * g)),
        g,
        (low - a - width / 2, high - a + width / 2),
        above,
        allowed,
    )


def _seen(seen: Law | ArrayLike, height: float | None, tolerance: float | None) -> tuple[Law, float, float]:
    """Return the law, how far above it to look, and the misfit to allow: a sample has fluctuations of its own."""
    law = seen if isinstance(seen, Law) else Discrete(seen)
    noise = 0.0 if isinstance(seen, Law) else 1 / np.sqrt(np.size(seen))
    above = number("height", max(noise, 0.01) if height is None else height, low=1e-6, high=1.0)
    return (
        law,
        above,
        number("tolerance", 0.02 + noise if tolerance is None else tolerance, low=0.0, open_low=True),
    )


def _looked_at(law: Law, height: float) -> tuple[Complex, Complex]:
    """Return points above the spectrum, half of them at quantiles, and the transform there."""
    low, high = law.hull
    margin = 0.1 * (high - low) + 0.1 * law.scale
    spread = law.quantile((np.arange(POINTS // 2) + 0.5) / (POINTS // 2))
    x = np.sort(np.concatenate([spread, np.linspace(low - margin, high + margin, POINTS // 2)]))
    z = x + 1j * height * law.scale
    return z, law.cauchy(z)


def _fitted(
    zeta: Complex, g: Complex, hull: tuple[float, float], height: float, tolerance: float
) -> Deconvolved:
    """Return the discrete law on the hull with ``sum_i w_i/(zeta - x_i)`` closest to g, relative to g."""
    inside = (zeta.imag > 0) & (g.imag < 0)
    # Candidates lie under the points at which the answer is known, closest where those are.
    reach = np.clip(zeta.real, *hull)
    places = np.unique(
        np.concatenate([np.linspace(*hull, POINTS), np.quantile(reach, np.linspace(0, 1, POINTS))])
    )
    rows = 1 / (g[:, None] * (zeta[:, None] - places))
    matrix = np.concatenate([rows.real, rows.imag, np.full((1, len(places)), HEAVY)])
    target = np.concatenate([np.ones(len(g)), np.zeros(len(g)), [HEAVY]])
    weights, _ = nnls(matrix, target, maxiter=50 * len(places))
    misfit = float(np.sqrt(np.mean(np.abs(rows @ weights - 1) ** 2)))
    if misfit > tolerance or inside.mean() < 0.5:
        raise ConvergenceError(
            f"no law gives what is seen together with this noise: the best one misses its Cauchy"
            f" transform by {misfit:.2g}, and"
            f" {tolerance:g} is allowed; the noise is larger than what is seen allows, or the sample is"
            f" too small for it:"
            " pass less noise, or a larger tolerance or height"
        )
    kept = weights > 1e-9
    masses: Real = weights[kept] / weights[kept].sum()
    return Deconvolved(Discrete(places[kept], masses), misfit, height)
