"""Many eigenvalues as few nodes, with three groupings: one below, one above, and one that is closest.

One pass needs two measures on the eigenvalues of Sigma: where the risk of the start is, and where the noise of the
gradients goes. Both are kept, with their sums, while eigenvalues of a cell move to common nodes.
"""

import math
from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle.asymptotics.named_spectra import PowerLaw, power_sums

_SINGLE = 64
"""The largest eigenvalues of a power law that keep a cell of their own."""
_FADED = 1e-16
"""Eigenvalues of an infinite power law below this part of the largest share one cell, which begins at zero."""
_GAUSS = 1 / math.sqrt(3)
"""Where the two nodes of a cell sit, from its middle, in halves of its width: Gauss and Legendre's."""


@dataclass(frozen=True, eq=False)
class Modes:
    """Nodes with what they carry, all (k,).

    Attributes
    ----------
    eigenvalues : (k,)
    start : (k,)
        Sums of lambda d_0: the risk of the start.
    gain : (k,)
        Sums of lambda^2: what the noise of a gradient adds to the risk, up to s^2 / m.
    """

    eigenvalues: FloatArray
    start: FloatArray
    gain: FloatArray


@dataclass(frozen=True, eq=False)
class Cells:
    """Eigenvalues in cells, from which the groupings are made; all arrays (k,), `moments` (2, 2, k).

    Attributes
    ----------
    low, high : (k,)
        The smallest and the largest eigenvalue of each cell.
    moments : (2, 2, k)
        For each of the two measures (start, gain) its sums over the cell of 1 and of lambda.
    trace : float
        The sum of all eigenvalues.
    largest : float
        The largest eigenvalue.
    size : float
        How many eigenvalues there are.
    """

    low: FloatArray
    high: FloatArray
    moments: FloatArray
    trace: float
    largest: float
    size: float

    @property
    def exact(self) -> bool:
        """Whether every cell holds copies of a single eigenvalue."""
        return bool((self.low == self.high).all())

    @property
    def means(self) -> FloatArray:
        """The mean eigenvalue of each cell under each of the two measures, (2, k)."""
        totals, firsts = self.moments[:, 0], self.moments[:, 1]
        middle = np.broadcast_to((self.low + self.high) / 2, totals.shape)
        found = np.divide(firsts, totals, out=middle.copy(), where=totals > 0)
        return np.clip(found, self.low, self.high)

    def between(self, position: float) -> Modes:
        """Two nodes per cell at its middle -+ position * width / 2, which keep sum and mean of both measures.

        At position 1 these are the ends of the cells, and no convex function has a smaller sum than it had.
        """
        middle, half = (self.low + self.high) / 2, position * (self.high - self.low) / 2
        wide = half > 0
        share = np.divide(self.means - middle, 2 * half, out=np.zeros_like(self.means), where=wide) + 0.5
        # A cell whose mean lies outside its two nodes keeps all in the nearer one.
        share = np.where(wide, np.clip(share, 0.0, 1.0), 1.0)
        above, below = share * self.moments[:, 0], (1 - share) * self.moments[:, 0]
        nodes = np.concatenate([middle + half, (middle - half)[wide]])
        start, gain = np.concatenate([above, below[:, wide]], axis=1)
        return Modes(nodes, start, gain)

    def closest(self) -> Modes:
        """Two nodes per cell: a sum over it is off in the fourth order of its width."""
        return self.between(_GAUSS)

    def above(self) -> Modes:
        """The ends of the cells: sums of convex functions are too large."""
        return self.between(1.0)

    def below(self, bend: float) -> Modes:
        """One node per cell: sums of powers of a convex parabola with its vertex at `bend` are too small.

        By Jensen the mean of a^k over a cell is at least a^k at the mean eigenvalue; of the two means, one per
        measure, the one where a is smaller is at the same time below for both.
        """
        means = self.means
        nearest = np.argmin(np.abs(means - bend), axis=0)
        nodes = np.take_along_axis(means, nearest[np.newaxis], axis=0)[0]
        return Modes(nodes, self.moments[0, 0], self.moments[1, 0])


def cells_of_values(spectrum: FloatArray, source: FloatArray, cells: int) -> Cells:
    """Sort eigenvalues (p,) with their sources (p,) into at most about `cells` cells of equal ratios.

    Equal eigenvalues always share a cell; where there are no more distinct ones than cells, nothing moves.
    """
    order = np.argsort(spectrum, kind="stable")
    values, weights = spectrum[order], source[order]
    first: IntArray = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    if len(first) > cells:
        first = _first_of_cells(values, cells)
    measures = np.array([values * weights, values**2])
    moments = np.array([[np.add.reduceat(m, first), np.add.reduceat(m * values, first)] for m in measures])
    last = np.concatenate([first[1:], [len(values)]]) - 1
    return Cells(values[first], values[last], moments, float(values.sum()), float(values[-1]), len(values))


def _first_of_cells(values: FloatArray, cells: int) -> IntArray:
    """Where cells of ascending values begin: zero alone, then equal ratios."""
    positive = values[values > 0]
    floor = max(positive[0], positive[-1] * _FADED)
    edges = np.geomspace(floor, positive[-1], cells + 1)[1:-1]
    cut = np.searchsorted(values, np.concatenate([[np.nextafter(0, 1)], edges]))
    return np.unique(np.concatenate([[0], cut[cut < len(values)]]))


def cells_of_power_laws(spectrum: PowerLaw, source: PowerLaw, cells: int) -> Cells:
    """The same for two power laws of one size, by sums that never list the eigenvalues."""
    a, b = spectrum.exponent, source.exponent
    starts = _first_indices(spectrum, cells)
    ends = np.concatenate([starts[1:], [spectrum.size + 1.0]])
    high = spectrum.scale * starts**-a
    low = np.where(np.isinf(ends), 0.0, spectrum.scale * (ends - 1) ** -a)
    low = np.where(ends - starts == 1, high, low)
    scales = (source.scale * spectrum.scale, spectrum.scale**2)
    exponents = (a + b, 2 * a)
    moments = np.array(
        [
            [scale * power_sums(e, starts, ends), scale * spectrum.scale * power_sums(e + a, starts, ends)]
            for scale, e in zip(scales, exponents, strict=True)
        ]
    )
    return Cells(low, high, moments, spectrum.total(), spectrum.scale, spectrum.size)


def _first_indices(spectrum: PowerLaw, cells: int) -> FloatArray:
    size = spectrum.size
    if size <= cells:
        return np.arange(1.0, size + 1)
    single = min(_SINGLE, cells // 2)
    last = min(size + 1.0, max(_FADED ** (-1 / spectrum.exponent), 1e6))
    grown = np.round(np.geomspace(single + 1, last, cells - single + 1))
    indices = np.unique(np.concatenate([np.arange(1.0, single + 1), grown]))
    return indices[indices <= size]
