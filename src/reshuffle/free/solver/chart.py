"""The resolvent along the real axis as Chebyshev series: thousands of points for the price of a few hundred."""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

from reshuffle.free.checks import Complex, Real
from reshuffle.free.measure import GRID, NODES, TO_COEFFICIENTS

MANY = 600
"""Points from which on series are made for them."""
CROWD = 2 * NODES
"""Points on a piece that are worth one; fewer are solved one by one."""
TAIL, NOISE = 1e-13, 1e-11
"""Last coefficients, and errors at the nodes, beside the largest value, up to which a series stands."""

Solve = Callable[[Real], tuple[Complex, Real]]


class Chart:
    """Values of a function that is analytic almost everywhere on the axis: from series where it is.

    The range of the points is halved until a series of 20 terms has converged on a piece, or too few points are
    left on it to be worth one: beside edges, atoms and singularities nothing is interpolated.

    Parameters
    ----------
    solve : points (n,) -> values (n, k, k) and errors (n,), inf where they failed.

    >>> calls = []
    >>> def inverse(x):
    ...     calls.append(len(x))
    ...     return (1 / (x + 2j))[:, None, None], np.zeros(len(x))
    >>> chart, x = Chart(inverse), np.linspace(-1, 1, 10_000)
    >>> bool(np.abs(chart.solve(x)[0][:, 0, 0] - 1 / (x + 2j)).max() < 1e-13), sum(calls) < 200
    (True, True)
    """

    def __init__(self, solve: Solve):
        self._solve = solve
        self.low, self.high = np.zeros(0), np.zeros(0)
        self.series: Complex = np.zeros((0, NODES, 1), dtype=complex)
        self.error = np.zeros(0)

    def solve(self, x: Real) -> tuple[Complex, Real]:
        """Return values (n, k, k) and errors at points (n,)."""
        index = self._covering(x)
        if np.sum(index < 0) >= MANY:
            self._draw(np.sort(x[index < 0]))
            index = self._covering(x)
        missing = index < 0
        values, errors = self._solve(x[missing])
        if missing.all():
            return values, errors
        whole = np.empty((len(x), *values.shape[1:]), dtype=complex)
        bounds = np.empty(len(x))
        whole[missing], bounds[missing] = values, errors
        there = index[~missing]
        whole[~missing] = self._evaluated(there, x[~missing]).reshape(-1, *values.shape[1:])
        bounds[~missing] = self.error[there]
        return whole, bounds

    def _covering(self, x: Real) -> NDArray[np.int_]:
        """Return the piece that each point lies on, -1 for none."""
        if not len(self.low):
            return np.full(len(x), -1)
        index = np.searchsorted(self.low, x, side="right") - 1
        return np.where((index >= 0) & (x <= self.high[np.maximum(index, 0)]), index, -1)

    def _evaluated(self, index: NDArray[np.int_], x: Real) -> Complex:
        low, high = self.low[index], self.high[index]
        local = np.clip((2 * x - low - high) / (high - low), -1, 1)
        basis = chebyshev.chebvander(local, NODES - 1)
        values = np.empty((len(x), self.series.shape[2]), dtype=complex)
        for piece in np.unique(index):
            here = index == piece
            values[here] = basis[here] @ self.series[piece]
        return values

    def _draw(self, x: Real) -> None:
        """Add pieces for sorted points."""
        low, high = x[:1], x[-1:]
        while len(low):
            crowd = np.searchsorted(x, high, side="right") - np.searchsorted(x, low)
            low, high = low[crowd >= CROWD], high[crowd >= CROWD]
            if not len(low):
                return
            nodes = (low + high)[:, None] / 2 + (high - low)[:, None] / 2 * GRID
            values, errors = self._solve(nodes.ravel())
            flat = np.nan_to_num(values.reshape(len(low), NODES, -1))
            series = np.einsum("kn,pni->pki", TO_COEFFICIENTS, flat)
            size = np.abs(flat).max(axis=(1, 2))
            noise = errors.reshape(len(low), NODES).max(axis=1)
            tail = np.abs(series[:, -3:]).max(axis=(1, 2))
            good = (tail <= TAIL * size + noise) & (noise <= NOISE * size)
            # A polynomial through 20 such nodes multiplies their errors by less than three.
            self._keep(low[good], high[good], series[good], (3 * noise + 10 * tail)[good])
            middle = (low + high)[~good] / 2
            low, high = np.concatenate([low[~good], middle]), np.concatenate([middle, high[~good]])

    def _keep(self, low: Real, high: Real, series: Complex, error: Real) -> None:
        if not len(low):
            return
        self.series = np.concatenate([self.series, series]) if len(self.low) else series
        self.low, self.high = np.concatenate([self.low, low]), np.concatenate([self.high, high])
        self.error = np.concatenate([self.error, error])
        order = np.argsort(self.low)
        self.low, self.high = self.low[order], self.high[order]
        self.series, self.error = self.series[order], self.error[order]
