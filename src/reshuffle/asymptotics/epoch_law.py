"""Base class of the limiting spectra of alpha Z: the law, the measures of the risk, and their quadrature."""

import itertools
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.fft
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.asymptotics.spectra import Population
from reshuffle.free.checks import Complex, ConvergenceError, Real, complex_points, count, real_points
from reshuffle.free.laws import Law
from reshuffle.free.measure import GRID, NODES, TO_COEFFICIENTS, Measure, Panels, repaired

_FIRST = 16
_LARGEST = 16 * 3**6
_NOISE = 1e-8
"""Coefficients below this that stop falling are the rounding of the values."""


def points(count: int, low: float, high: float) -> tuple[FloatArray, FloatArray]:
    """The points x = middle - half cos(angle) at equal angles, and the sines of the angles, (count,).

    >>> points(2, 0.0, 1.0)[0].round(4)
    array([0.1464, 0.8536])
    """
    angles = (np.arange(count) + 0.5) * np.pi / count
    # Twice the square of a sine: the distance from an end keeps its digits however small it is.
    x = np.where(
        angles < np.pi / 2,
        low + (high - low) * np.sin(angles / 2) ** 2,
        high - (high - low) * np.cos(angles / 2) ** 2,
    )
    return x, np.sin(angles)


def fit(
    function: Callable[[FloatArray, FloatArray], FloatArray], low: float, high: float, tolerance: float
) -> FloatArray:
    """The Chebyshev coefficients (rows, degrees) of several functions on [low, high] at once.

    Three times as many points are taken, the old ones among them, until the last coefficients of each row fall
    below `tolerance` of its largest, or stop falling at the level of the values' own rounding.

    Parameters
    ----------
    function : callable
        Points (n,) and the sines of their angles (n,) -> values (rows, n).

    >>> fit(lambda x, sine: x[np.newaxis] ** 2, 0.0, 1.0, 1e-12).round(6)[0, :3]
    array([0.375, 0.5  , 0.125])
    """
    values, last = function(*points(_FIRST, low, high)), np.inf
    while True:
        count = values.shape[1]
        coefficients = _coefficients(values)
        tails = np.abs(coefficients[:, -count // 4 :]).max(axis=1) / np.abs(coefficients).max(axis=1)
        tail = float(tails.max())
        stalled = tail < _NOISE and tail > 0.3 * last
        if tail <= tolerance or stalled:
            return coefficients
        if not count < _LARGEST:
            raise ConvergenceError(
                f"a density on [{low:.6g}, {high:.6g}] is not resolved by {count} points (the last of its"
                f" coefficients is {tail:.1g} of the first): it is nearly singular there, or the end of an"
                " interval was missed"
            )
        values, last = _refined(function, values, low, high), tail


def _coefficients(values: FloatArray) -> FloatArray:
    # cos(angle) falls from left to right, so that the odd coefficients change sign.
    raw = scipy.fft.dct(values, type=2, axis=1) / values.shape[1]
    raw[:, 0] /= 2
    raw[:, 1::2] *= -1
    return np.asarray(raw)


def _refined(
    function: Callable[[FloatArray, FloatArray], FloatArray], values: FloatArray, low: float, high: float
) -> FloatArray:
    count = values.shape[1]
    x, sines = points(3 * count, low, high)
    fresh = np.arange(3 * count) % 3 != 1
    finer = np.empty((len(values), 3 * count))
    finer[:, 1::3] = values
    finer[:, fresh] = function(x[fresh], sines[fresh])
    return finer


def evaluate(coefficients: FloatArray, x: FloatArray, low: float, high: float) -> FloatArray:
    """The series at x (n,), as (rows, n)."""
    unit = np.clip((2 * x - low - high) / (high - low), -1.0, 1.0)
    return np.asarray(np.polynomial.chebyshev.chebval(unit, coefficients.T))


Transforms = Callable[[Complex], Complex]
"""Points (n,) of the closed upper half-plane -> the Cauchy transforms of all measures there, (rows, n)."""

_ROUNDING = 1e-14
_STEEP = 12.0
"""Largest change of the logarithm of (1 - x)^(2k) within one panel of 20 points."""
_FADED = 80.0
"""Logarithm below which (1 - x)^(2k) is nothing."""
_OVERFLOW = 800.0
_NOTHING = -800.0
"""The logarithm of |1 - x| at x = 1, where (1 - x)^k is zero: finite, since no epochs times it is none."""
_LEGENDRE = np.polynomial.legendre.leggauss(NODES)


def first_density(transforms: Transforms, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The density of the first measure at t (n,), and what rounding may do to it: close to an atom |G| is large."""
    g = transforms(t + 0j)[0]
    density = np.nan_to_num(np.maximum(-g.imag / np.pi, 0.0))
    return density, np.nan_to_num(_ROUNDING * np.abs(g), nan=np.inf)


@dataclass(frozen=True, eq=False)
class SpectralGrid:
    """The measures of a law on the panels of its `free.Measure`, which adapt to edges, poles and near-cusps.

    The densities are computed once, as Chebyshev series on each panel; for a given number of epochs the panels
    are then cut where (1 - x)^(2k) is steep, which is geometrically towards 0 and 2.

    Attributes
    ----------
    panels : Panels
    series : (rows, panels, degrees)
        Chebyshev coefficients of density dx/ds of each measure.
    """

    panels: Panels
    series: FloatArray

    @classmethod
    def of(cls, measure: Measure, transforms: Transforms) -> "SpectralGrid":
        """Sample all measures on the panels that the first one needs."""
        panels = measure.panels
        s, x = panels.nodes()
        values = -transforms(x.ravel() + 0j).imag.reshape(-1, *x.shape) / np.pi
        first = np.asarray(panels.series @ chebyshev.chebvander(GRID, NODES - 1).T, dtype=float)
        speed = panels.power[:, np.newaxis] * s ** (panels.power[:, np.newaxis] - 1)
        smooth = np.array([_bridged(row, first) for row in values * speed])
        smooth[0] = first
        return cls(panels, smooth @ TO_COEFFICIENTS.T)

    def rule(self, epochs: float) -> tuple[FloatArray, FloatArray]:
        """Points (n,) and the weights of each measure there (rows, n), fine enough for every k <= epochs."""
        index, low, high = self._cut(epochs)
        panels = self.panels
        middle, half = (low + high) / 2, (high - low) / 2
        s = middle[:, np.newaxis] + half[:, np.newaxis] * _LEGENDRE[0]
        x = panels.anchor[index, np.newaxis] + panels.direction[index, np.newaxis] * (
            s ** panels.power[index, np.newaxis]
        )
        whole = panels.high[index] - panels.low[index]
        local = (2 * s - (panels.low[index] + panels.high[index])[:, np.newaxis]) / whole[:, np.newaxis]
        basis = chebyshev.chebvander(np.clip(local, -1.0, 1.0), NODES - 1)
        values = np.einsum("pnd,rpd->rpn", basis, self.series[:, index])
        weights = values * (half[:, np.newaxis] * _LEGENDRE[1])
        return x.ravel(), weights.reshape(len(self.series), -1)

    def _cut(self, epochs: float) -> tuple[IntArray, FloatArray, FloatArray]:
        """The panel of each piece, and its ends in the panel's own variable."""
        panels = self.panels
        index = np.arange(len(panels.low), dtype=np.int64)
        low, high = panels.low.copy(), panels.high.copy()
        done: list[tuple[IntArray, FloatArray, FloatArray]] = []
        while len(index):
            logs = [_log_factor(panels, index, end) for end in (low, high)]
            largest, change = np.maximum(*logs), np.abs(logs[0] - logs[1])
            # Of all k up to the last, only those matter here whose powers have not decayed.
            with np.errstate(divide="ignore", over="ignore"):
                seen = np.minimum(epochs, np.where(largest < 0, -_FADED / 2 / largest, np.inf))
                steep = (2 * seen * change > _STEEP) & ~(2 * epochs * largest > _OVERFLOW)
            # Around x = 1 everything decays in one epoch.
            steep &= (np.minimum(*logs) > -1) & (high - low > 1e-14 * np.abs(high))
            done.append((index[~steep], low[~steep], high[~steep]))
            middle = (low + high)[steep] / 2
            index = np.tile(index[steep], 2)
            low, high = np.concatenate([low[steep], middle]), np.concatenate([middle, high[steep]])
        owners, starts, ends = zip(*done, strict=True)
        return np.concatenate(owners), np.concatenate(starts), np.concatenate(ends)

    @property
    def mass(self) -> float:
        """The mass of the first measure, without atoms."""
        return float(self.rule(0.0)[1][0].sum())


def _bridged(smooth: FloatArray, first: FloatArray) -> FloatArray:
    """One measure on all panels, (panels, nodes), where points too close to a singularity to be solved are nan.

    Few on a panel are bridged by the polynomial through the others. Where most are missing the measure is taken
    to be a multiple of the first one, which has been filled in from its neighbours.
    """
    lost = ~np.isfinite(smooth)
    known = np.where(lost, 0.0, smooth)
    filled = repaired(known, np.where(lost, np.inf, 0.0))[0]
    hopeless = lost.sum(axis=1) > NODES // 3
    share = known.sum(axis=1) / np.maximum(np.where(lost, 0.0, first).sum(axis=1), 1e-300)
    filled[hopeless] = np.where(lost, share[:, np.newaxis] * first, smooth)[hopeless]
    return np.asarray(filled)


def _log_factor(panels: Panels, index: IntArray, s: FloatArray) -> FloatArray:
    """The logarithm of |1 - x| at ends of panels."""
    x = panels.anchor[index] + panels.direction[index] * s ** panels.power[index]
    distance = np.where(x < 1, -np.minimum(x, 1.0), np.maximum(x, 1.0) - 2)
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(np.log1p(distance), _NOTHING))


_TOLERANCE = 1e-12
"""Relative size of what a panel may leave out."""
_WHOLE = 1e-7
"""The largest deviation of the total mass from one."""


class EpochLaw(Law):
    """The limiting law of alpha Z(alpha/B), with the two measures on the same spectrum that make up the risk.

    Of a function f(alpha Z) the risk needs tau(f) = law, tau(f Sigma) = signal and tau(f M) = noise, where
    M = Xtilde' Xtilde / n. Their Cauchy transforms are the rows of `transforms`.

    Attributes
    ----------
    aspect, alpha : float
        The limit of p/n, and the full-batch step.
    batches : int
    population : Population
        The spectrum of Sigma.
    """

    aspect: float
    alpha: float
    batches: int
    population: Population

    @abstractmethod
    def _transforms(self, z: Complex) -> Complex:
        """The Cauchy transforms of law, signal and noise, (3, points), at z (points,) with Im z >= 0."""

    def transforms(self, z: ArrayLike) -> Complex:
        """The Cauchy transforms of law, signal and noise, (3,) + z.shape; real z means the limit from above."""
        points = complex_points("z", z)
        flat = points.ravel()
        mirrored = flat.imag < 0
        values = self._transforms(np.where(mirrored, flat.conj(), flat))
        return np.where(mirrored, values.conj(), values).reshape(3, *points.shape)

    def outside(self, z: Complex) -> Complex:
        """The Cauchy transforms (3, n) at points z (n,) above the axis and away from the spectrum."""
        return self._transforms(z)

    @property
    @abstractmethod
    def frozen(self) -> tuple[float, float]:
        """The masses that law and signal have at zero; the noise has none, for Xtilde' has no part there."""

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """The atom 1 - 1/aspect at zero, if the problem is overparameterized."""
        return ((0.0, self.frozen[0]),) if self.frozen[0] > 0 else ()

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest point of the continuous part."""
        return self.support[0][0], self.support[-1][1]

    @cached_property
    def measure(self) -> Measure:
        """The law as quadrature panels, cut at zero, where it may be infinite inside its support."""
        return self._measure_on(self.support)

    def _measure_on(self, support: Sequence[tuple[float, float]]) -> Measure:
        cuts = [
            (a, b)
            for low, high in support
            for a, b in itertools.pairwise([low, 0.0, high] if low < 0 < high else [low, high])
        ]
        return Measure(lambda t: first_density(self.transforms, t), cuts, self.atoms, tolerance=_TOLERANCE)

    @cached_property
    def grid(self) -> SpectralGrid:
        """The three measures as quadrature rules."""
        grid = SpectralGrid.of(self.measure, self.transforms)
        missing = 1 - self.frozen[0] - grid.mass
        if not abs(missing) < _WHOLE:
            raise ConvergenceError(
                f"all but {missing:.2g} of the spectrum of {self!r} was found: it is nearly singular; try another"
                " alpha, or density(t) at chosen points"
            )
        return grid

    def moments(self, order: int) -> Real:
        """The moments [m_1, ..., m_order] up to `order`."""
        x, weights = self.measure.quadrature
        return np.array([weights @ x**k for k in range(1, count("order", order) + 1)])

    def limiting_noise(self) -> float:
        """The integral of x^-2 over the noise, for Sigma = s I; noise^2 aspect alpha^2 s times it is the variance.

        Overparameterized descent ends in the minimum-norm solution whatever the batches, so that it is
        1 / (s alpha^2 aspect (aspect - 1)).
        """
        if self.support[0][0] <= 0:
            return math.inf
        if self.aspect > 1:
            scale = float(self.population.eigenvalues[0])
            return 1 / (scale * self.alpha**2 * self.aspect * (self.aspect - 1))
        return self._limiting_noise()

    @abstractmethod
    def _limiting_noise(self) -> float:
        """The integral of x^-2 over the noise, for aspect < 1."""

    def densities(self, t: ArrayLike) -> FloatArray:
        """The densities of law, signal and noise, (3,) + t.shape, off zero."""
        return np.asarray(-self.transforms(real_points("t", t) + 0j).imag / np.pi)

    def _cauchy(self, z: Complex) -> Complex:
        return np.asarray(self.transforms(z)[0])

    def _density(self, t: Real) -> Real:
        return np.asarray(np.maximum(self.densities(t)[0], 0.0))

    def __repr__(self) -> str:
        covariance = "" if self.population.is_identity else f", covariance of {self.population}"
        return (
            f"{type(self).__name__}(aspect={self.aspect:g}, alpha={self.alpha:g}, batches={self.batches}"
            f"{covariance})"
        )
