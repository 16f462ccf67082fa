"""Quadrature with the measures of an epoch's law, as fine as the number of epochs needs."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev

from reshuffle._core.arrays import FloatArray, IntArray
from reshuffle.free.checks import Complex
from reshuffle.free.measure import Measure
from reshuffle.free.measure.panels import GRID, NODES, TO_COEFFICIENTS, Panels, repaired

Transforms = Callable[[Complex], Complex]
"""Points (n,) of the closed upper half-plane -> the Cauchy transforms of all measures there, (rows, n)."""

_ROUNDING = 1e-14
_STEEP = 12.0
"""Largest change of the logarithm of (1 - x)^(2k) within one panel of 20 points."""
_FADED = 80.0
"""Logarithm below which (1 - x)^(2k) is nothing."""
_OVERFLOW = 800.0
_NOTHING = -800.0
"""The logarithm of |1 - x| at x = 1, where everything fades at once: finite, since no epochs times it is none."""
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
        Of density dx/ds of each measure.
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
            # Of all k up to the last, those matter here that have not faded.
            with np.errstate(divide="ignore", over="ignore"):
                seen = np.minimum(epochs, np.where(largest < 0, -_FADED / 2 / largest, np.inf))
                steep = (2 * seen * change > _STEEP) & ~(2 * epochs * largest > _OVERFLOW)
            # Around x = 1 everything has faded at once.
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
    to be a multiple of the first one, which has been told from its neighbours.
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
