"""Free deconvolution: the law that, with known noise added or multiplied, gives the law that is seen.

Both fits are linear in the answer, a law on a grid of candidates, and its weights are not negative.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import nnls

from reshuffle.free.checks import Complex, ConvergenceError, Real, number, real_points
from reshuffle.free.laws import Discrete, Law, MarchenkoPastur

POINTS = 200
"""Candidates for the places of the answer, and as many points at which it is compared."""
HEAVY = 1e4
"""Weight of the total mass relative to the single comparisons."""

# Samples in `divide`: chosen on the five populations of tests/free/test_deconvolution.py.
CANDIDATES, QUANTILES = 60, 18
"""100 candidates take twice the time: with 60 and 100 distances are 0.050 and 0.045 for {1, 3, 10}, 0.049 and 0.052
for a Toeplitz matrix."""
HEIGHTS = np.array([0.35, 1.0, 3.0, 9.0])
"""Over ``1/sqrt(p)`` and the eigenvalue: closer to the axis the transform is noise, further up it is blind."""
REPLICATES, WIDER = 24, 1.8
"""Fits to what other samples would have shown, whose mean is the answer; their noise is so many times the real one.

They are pairs of opposite noise. The mean smooths continuous laws, whose single fits are a few points: distances
over 10 samples with 1, 1.5, 2.2 and 3 times the noise are 0.060, 0.055, 0.051 and 0.048 for a Toeplitz matrix, and
0.034, 0.039, 0.045 and 0.056 for the points {1, 3, 10}. Means of quantile functions are
closer than means of weights.
"""
DESCENT = 10.0, 0.3
"""First height over the scale of z, and what is left of it from step to step."""
NEWTON = 3, 4
"""Newton steps at each height on the way and at the last one.

Of 4,000 random laws all but 2 are solved, as with 4 at each; with 2 on the way 1,793 are not."""
NEGLECTED = 0.1
"""Variance of what the equation's linearisation and the grid neglect, over that of the noise at a point."""
COVERED = 2.5
"""Times the mean distance of the replicates in the stated error; half the spacing of the candidates is added.

All of 1,260 samples at p = 50, 200 and 800 are covered, the largest distance being 0.65 of the error:
`python -m benchmarks.divide`.
"""
APART = 1.0
"""Gap below an outlier, over its own fluctuation ``eigenvalue sqrt(2/n)``.

The fit would smear outliers. Distances for 20/j at p = 800: 0.088 with the fit alone; 0.032, 0.035, 0.037 and 0.041
with gaps of 0.5, 1, 1.5 and 3, of which 0.5 also takes eigenvalues off the ends of intervals.
"""


@dataclass(frozen=True)
class Deconvolved:
    """A law from which noise was removed.

    Attributes
    ----------
    law : Discrete
        The law whose Cauchy transform fits best, with its `points` and their `weights`.
    misfit : float
        Distance of its transform from the given one, in root mean square and relative to it.
    height : float
        Height above the axis at which they were compared, relative to the scale of the observed law: finer
        structure is not resolved.
    error : float
        Estimate of the Wasserstein-1 distance from the true law: by how much the answer would differ from sample to
        sample. nan for laws, which do not fluctuate, and for sums.
    error_kind : str
        "estimate".
    """

    law: Discrete
    misfit: float
    height: float
    error: float = float("nan")
    error_kind: str = "estimate"

    def __repr__(self) -> str:
        off = f", +- {self.error:.2g}" if np.isfinite(self.error) else ""
        return f"Deconvolved({self.law!r}, misfit {self.misfit:.2g}{off})"


def divide(
    seen: Law | ArrayLike, noise: Law, *, height: float | None = None, tolerance: float | None = None
) -> Deconvolved:
    """Return the law whose free product with Marchenko-Pastur noise is seen: Sigma, from a sample covariance.

    With the noise's ratio r and variance v, ``G(z) = E[1/(z - N t)]`` with ``N = v (1 + r (z G(z) - 1))``, where t
    has the law of Sigma (Marchenko and Pastur, 1967): linear in that law, which is fitted with weights that are not
    negative (El Karoui, 2008), on a logarithmic grid. The transform of p eigenvalues fluctuates by a Gaussian
    process of size 1/p whose covariance is known (Bai and Silverstein, 2004): it weighs the points of comparison,
    and is drawn for 24 replicates, whose mean quantile function is the answer and whose spread is its error. The
    largest eigenvalues, as long as each is apart from the next, are outliers, and are corrected one by one (Baik
    and Silverstein, 2006).

    Parameters
    ----------
    seen : Law, or eigenvalues (p,)
        The spectrum of the sample covariance, zeros included.
    noise : MarchenkoPastur
        Its ratio is p/n.
    height : float, optional
        Over the eigenvalue: where transforms are compared; ``1/sqrt(p)`` for p eigenvalues, 0.01 for a law.
    tolerance : float, optional
        The largest misfit that counts as an answer; 0.02, and ``1/sqrt(p)`` more for p eigenvalues.

    Returns
    -------
    Deconvolved
        Or ConvergenceError, where the best law still misses by more than ``tolerance``.

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
    law, eigenvalues, above, allowed = _seen(seen, height, tolerance)
    size, scale = len(eigenvalues), law.scale
    if law.hull[0] < -1e-12 * scale:
        raise ValueError(
            f"seen must lie on x >= 0 to be a free product, but it is {law!r}, which reaches down to"
            f" {law.hull[0]:g}"
        )
    r, v = noise.ratio, noise.variance
    levels = (np.arange(QUANTILES if size else POINTS // 2) + 0.5) / (QUANTILES if size else POINTS // 2)
    at_zero = sum(mass for place, mass in law.atoms if place <= 1e-9 * scale)
    spread = law.quantile(at_zero + (1 - at_zero) * levels)
    low, high = max(float(spread[0]), 1e-6 * scale), scale
    if size:
        low = min(low, float(eigenvalues[eigenvalues > 1e-9 * scale][0]))
    x = np.concatenate([low * np.geomspace(0.3, 0.9, 3), spread, high * np.linspace(1.05, 1.5, 3)])
    if size:
        # The fluctuations at points that nearly coincide would cancel.
        x = x[np.diff(x, prepend=0.0) > 1e-4 * x]
    z = np.concatenate([x * (1 + 1j * above * k) for k in (HEIGHTS if size else [1.0])])
    g = law.cauchy(z)
    n = v * (1 + r * (z * g - 1))
    # No eigenvalue of a product is smaller than the smallest of one factor times the largest of the other.
    smallest = low / (v * (1 + np.sqrt(r)) ** 2) * (1.0 if r < 1 else 0.3)
    places = np.concatenate([[0.0], np.geomspace(smallest, 1.1 * high / v, CANDIDATES if size else POINTS)])
    matrix = 1 / (z[:, None] - places * n[:, None])
    inside = ((z / n).imag > 0) & (g.imag < 0)
    if not size:
        weights = _weights(_rows(matrix, np.abs(g)), _rows(g, np.abs(g)))
        misfit = _require_fit(matrix @ weights / g - 1, inside, allowed)
        return Deconvolved(_discrete(places, weights), misfit, above)
    m = (1 - r) / z + r * g
    m_slope = -(1 - r) / z**2 + r * law._cauchy_derivative(z)
    deviation = np.sqrt(np.abs(np.abs(m_slope / m.imag) ** 2 - z.imag**-2.0))
    weights = _weights(_rows(matrix, deviation), _rows(g, deviation))
    # By how much the equation is off per error of the transform, which enters its left side, and N.
    slope = matrix**2 @ (places * weights) * v * r * z - 1
    covariance = _fluctuations(z, slope, v * places, weights, r, size)
    variance = covariance.diagonal()[: len(z)] + covariance.diagonal()[len(z) :]
    deviation = np.maximum(np.sqrt(variance), 1e-6 * np.abs(g))
    units = np.tile(deviation, 2)
    # Rows whose noise is white; unlike eigenvectors, Cholesky factors are the same on all processors.
    lower = np.linalg.cholesky(covariance / units / units[:, None] + NEGLECTED * np.eye(len(units)))
    rows = np.column_stack([_rows(matrix, deviation), _rows(g, deviation)])
    left, right = np.linalg.qr(np.concatenate([solve_triangular(lower, rows[:-1], lower=True), rows[-1:]]))
    draws = WIDER * np.random.default_rng(0).standard_normal((REPLICATES // 2, len(units))) @ left[:-1]
    columns, target = np.ascontiguousarray(right[:, :-1]), right[:, -1]
    fits = [_weights(columns, target - draw) for draw in (0.0 * draws[0], *draws, *-draws)]
    misfit = _require_fit((matrix @ fits[0] / g - 1)[np.repeat(HEIGHTS > 1, len(x))], inside, allowed)
    # Eigenvalues of Sigma that make outliers take the place of as much mass at the top of the fits.
    top = _outliers(eigenvalues, r) / v
    sums = [np.cumsum(fit) / fit.sum() for fit in fits]
    levels = np.unique(np.minimum(np.concatenate([*sums, [1.0]]), 1 - len(top) / size))
    masses = np.diff(levels, prepend=0.0)
    quantiles = np.array([places[np.searchsorted(sum_[:-1], levels - masses / 2)] for sum_ in sums])
    mean = quantiles.mean(axis=0)
    apart = np.abs(quantiles[1:] - mean).mean(axis=0) @ masses
    fluctuation = top.sum() / size * np.sqrt(2 * r / size)
    # A point between two candidates is split among them: large samples are off by that much.
    spacing = 0.5 * np.log(places[2] / places[1]) * (mean @ masses)
    error = COVERED * float(apart + fluctuation) + float(spacing)
    masses = np.concatenate([masses, np.full(len(top), 1 / size)])
    return Deconvolved(_discrete(np.concatenate([mean, top]), masses), misfit, above, error)


def subtract(
    seen: Law | ArrayLike, noise: Law, *, height: float | None = None, tolerance: float | None = None
) -> Deconvolved:
    """Return the law whose free sum with the noise is the one that is seen.

    ``G(z) = G_answer(z - R_noise(G(z)))``, wherever that is in the upper half-plane (Arizmendi, Tarrago and Vargas,
    2020); the answer is fitted with weights that are not negative.

    Parameters
    ----------
    seen : Law, or eigenvalues (p,)
    noise : Law
        With an R-transform ``a + b g/(1 + c g)``: `Semicircle`, `MarchenkoPastur`, `FreePoisson` and their
        affine images.
    height : float, optional
        Over the scale of ``seen``: where transforms are compared; ``1/sqrt(p)`` for p eigenvalues, 0.01 for a law.
    tolerance : float, optional
        As in `divide`.

    Returns
    -------
    Deconvolved

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
    law, _, above, allowed = _seen(seen, height, tolerance)
    low, high = law.hull
    width = high - low
    # Points above the spectrum, half of them at quantiles.
    margin = 0.1 * width + 0.1 * law.scale
    spread = law.quantile((np.arange(POINTS // 2) + 0.5) / (POINTS // 2))
    x = np.sort(np.concatenate([spread, np.linspace(low - margin, high + margin, POINTS // 2)]))
    z = x + 1j * above * law.scale
    g = law.cauchy(z)
    a, b, c = r
    zeta = z - (a + b * g / (1 + c * g))
    inside = (zeta.imag > 0) & (g.imag < 0)
    # Candidates lie under the points at which the answer is known, closest where those are.
    ends = (low - a - width / 2, high - a + width / 2)
    reach = np.quantile(np.clip(zeta.real, *ends), np.linspace(0, 1, POINTS))
    places = np.unique(np.concatenate([np.linspace(*ends, POINTS), reach]))
    matrix = 1 / (zeta[:, None] - places)
    weights = _weights(_rows(matrix, np.abs(g)), _rows(g, np.abs(g)))
    misfit = _require_fit(matrix @ weights / g - 1, inside, allowed)
    return Deconvolved(_discrete(places, weights), misfit, above)


def _seen(
    seen: Law | ArrayLike, height: float | None, tolerance: float | None
) -> tuple[Law, Real, float, float]:
    """Return the law, the sorted eigenvalues (none of a law), the relative height, and the misfit to allow."""
    eigenvalues = np.zeros(0) if isinstance(seen, Law) else np.sort(real_points("seen", seen).ravel())
    if not isinstance(seen, Law) and not eigenvalues.any():
        raise ValueError(
            f"seen must have eigenvalues, not all zero, but it is {seen!r}; check how they were made"
        )
    law = seen if isinstance(seen, Law) else Discrete(eigenvalues)
    noise = 1 / np.sqrt(len(eigenvalues)) if len(eigenvalues) else 0.0
    above = number("height", max(noise, 0.01) if height is None else height, low=1e-6, high=1.0)
    allowed = number("tolerance", 0.02 + noise if tolerance is None else tolerance, low=0.0, open_low=True)
    return law, eigenvalues, above, allowed


def _rows(values: Complex, deviation: Real) -> Real:
    """Return a side of the fit, (points, ...), in units of its errors, with a row for the total mass."""
    rows = (values.T / deviation).T
    return np.concatenate([rows.real, rows.imag, np.full((1, *rows.shape[1:]), HEAVY)])


def _weights(matrix: Real, target: Real) -> Real:
    return np.asarray(nnls(matrix, target, maxiter=50 * matrix.shape[1])[0])


def _discrete(places: Real, weights: Real) -> Discrete:
    kept = weights > 1e-9
    return Discrete(places[kept], weights[kept] / weights[kept].sum())


def _require_fit(misfits: Complex, inside: NDArray[np.bool_], tolerance: float) -> float:
    """Return the misfit in root mean square, or raise where there is no fit."""
    misfit = float(np.sqrt(np.mean(np.abs(misfits) ** 2)))
    if misfit > tolerance or inside.mean() < 0.5:
        raise ConvergenceError(
            f"no law gives what is seen together with this noise: the best one misses its Cauchy transform by"
            f" {misfit:.2g}, and {tolerance:g} is allowed; the noise is larger than what is seen allows, or the"
            " sample is too small for it: pass less noise, or a larger tolerance or height"
        )
    return misfit


def _outliers(seen: Real, ratio: float) -> Real:
    """Return the eigenvalues t of Sigma behind the largest of those seen (p,), sorted, as long as gaps part them.

    Each has ``t m = 1``, m the transform of X Sigma X'/n without the outlier itself (Baik and Silverstein, 2006).
    """
    gaps = np.diff(seen) < APART * np.sqrt(2 * ratio / len(seen)) * seen[1:]
    top = seen[1 + np.max(np.flatnonzero(gaps), initial=-1) + 1 :]
    apart = top[:, None] - seen
    rest = np.divide(1.0, apart, out=np.zeros(apart.shape), where=apart != 0).mean(axis=1)
    return np.asarray(1 / ((1 - ratio) / top + ratio * rest))


def _fluctuations(z: Complex, factor: Complex, points: Real, weights: Real, ratio: float, size: int) -> Real:
    """Return the covariance of real and imaginary parts of ``factor d``, d the fluctuations at z, for real data.

    With m the transform of X Sigma X'/n, ``p^2 E[d_i d_j] = 2 (m_i' m_j'/(m_i - m_j)^2 - 1/(z_i - z_j)^2)`` (Bai
    and Silverstein, 2004), a third of m's Schwarzian derivative where points meet. The m of the sample would make
    no covariance: that of the law of Sigma is solved for, ``z = 1/m + ratio E[t/(1 - t m)]``.
    """
    # A point at 0 adds nothing to the sums.
    seen = (weights > 0) & (points > 0)
    inverse, weights = 1 / points[seen], weights[seen]
    height = np.maximum(z.imag, DESCENT[0] * (np.abs(z).max() + (1 + ratio) * points[seen].max()))
    m = 1 / (z.real + 1j * height)
    # Far up Newton's method finds the solution in the half-plane, and then follows it down.
    arrived = False
    while not arrived:
        arrived, place = bool(np.all(height == z.imag)), z.real + 1j * height
        for _ in range(NEWTON[arrived]):
            t, over = 1 / (inverse - m[:, None]), 1 / m
            off = over + ratio * (t @ weights) - place
            m = m - off / (ratio * (t**2 @ weights) - over**2)
        height = np.maximum(DESCENT[1] * height, z.imag)
    # Derivatives of z in m, over 1, 2 and 6.
    t = 1 / (inverse - m[:, None])
    first, second, third = ((-1) ** k / m ** (k + 1) + ratio * (t ** (k + 1) @ weights) for k in (1, 2, 3))
    slope = 1 / first

    def between(point: Complex, value: Complex, derivative: Complex) -> Complex:
        apart, gaps = m[:, None] - value, z[:, None] - point
        same = gaps == 0
        apart[same] = gaps[same] = np.inf
        return np.asarray(slope[:, None] * derivative * (1 / apart) ** 2 - (1 / gaps) ** 2)

    relation = between(z, m, slope)
    np.fill_diagonal(relation, ((second / first) ** 2 - third / first) * slope**2)
    relation *= factor[:, None] * factor
    hermitian = factor[:, None] * between(z.conj(), m.conj(), slope.conj()) * factor.conj()
    total, less = relation + hermitian, relation - hermitian
    joint = np.block([[total.real, less.imag], [total.imag, -less.real]])
    return np.asarray(joint / size**2)
