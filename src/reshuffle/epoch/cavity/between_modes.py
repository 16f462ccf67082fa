"""What samples make modes do to each other, to first order: a smooth function of two paces times few Gram matrices.

The echoes r_i(t) of the samples are alike up to a part d_i(t) = sum_a f_a(t) w_ai of few terms. It alone leads from
one mode to another, through the Gram matrices W_a = U'diag(w_a) U. To first order in it what is between the
modes i and j obeys the cavity equation linearised around the diagonals (`single_modes`), by itself. With the
operators T_f of convolution with f, T_m that with the mean of the echoes, and with the sources f_a of W_a[i, j],

    S' = T_{h_j} f - x_i (1 + T_m) N',   L' = T_{h_i} f - x_j (1 + T_m) N',   K' = w T_1 S',
    N' = K' + (e / n) [T_{g_i} (S' + x_i K') - x_j T_{s_j - g_j} K' + T_{g_j} L' - x_i T_{s_i} K'].

These are q equations per pair of modes, whose solution is a smooth function of the two paces. It is computed at few
pairs of paces, and at all others by polynomials.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.epoch.cavity.single_modes import SingleModesRound
from reshuffle.epoch.cavity.time_nodes import TimeNodes
from reshuffle.epoch.cavity.visiting import Visiting

_SIZES = (8, 12, 18, 27, 40)
"""Numbers of paces between which polynomials are tried."""
_CHECKED = 12
"""Paces between which they are checked."""


@dataclass(frozen=True, eq=False)
class BetweenModes:
    """The linearised equation of pairs of modes.

    Attributes
    ----------
    visiting : Visiting
    nodes : TimeNodes
    common : (q,)
        The mean of the echoes over the samples.
    sources : (q, a)
        f, the shapes of what is particular to samples.
    asked : (q,)
        What is wanted of N' are sums over the nodes, with these weights.
    tolerance : float
        To which single modes are solved.
    """

    visiting: Visiting
    nodes: TimeNodes
    common: FloatArray
    sources: FloatArray
    asked: FloatArray
    tolerance: float

    def interpolated(self, paces: FloatArray, accuracy: float) -> tuple[FloatArray, FloatArray] | None:
        """P (k, m) and values (a, m, m): what is asked for source a is P values[a] P' at all pairs of paces (k,).

        To an accuracy relative to the largest value; None if no polynomial comes so near.
        """
        ends = float(paces.min()), float(paces.max())
        checked = np.expm1(np.linspace(np.log1p(ends[0]), np.log1p(ends[1]), _CHECKED + 2)[1:-1])
        truth = self.at(checked)
        for size in _SIZES:
            grid = _grid(*ends, size)
            values = self.at(np.expm1(grid))
            there = _polynomials(grid, np.log1p(checked))
            off = np.abs(there @ values @ there.T - truth).max(initial=0.0)
            if off <= accuracy * np.abs(truth).max(initial=0.0):
                return _polynomials(grid, np.log1p(paces)), values
        return None

    def at(self, paces: FloatArray) -> FloatArray:
        """What is asked for each source, (a, m, m), at all pairs of some paces (m,)."""
        round_of = SingleModesRound(self.visiting, self.nodes, paces)
        modes = round_of.settled(self.common[:, np.newaxis], self.tolerance)
        weight, share = self.visiting.weight, self.visiting.exclusion / self.visiting.samples
        identity = np.eye(len(self.nodes.nodes))
        summed = weight * self._operator(np.ones((len(identity), 1)))[0]
        around = identity + self._operator(self.common[:, np.newaxis])[0]
        inner, mean = self._operator(modes.before), self._operator(modes.mean)
        met = self._operator(modes.met)
        first, second = paces[:, np.newaxis, np.newaxis, np.newaxis], paces[:, np.newaxis, np.newaxis]
        through = summed + share * (
            mean[:, np.newaxis] @ (identity + first * summed)
            - (second * (met - mean)[np.newaxis] + first * met[:, np.newaxis]) @ summed
        )
        left = identity + first * (through @ around) + share * second * (mean @ around)
        right = (through @ inner + share * (mean[np.newaxis] @ inner[:, np.newaxis])) @ self.sources
        return np.asarray(np.moveaxis(self.asked @ np.linalg.solve(left, right), -1, 0))

    def _operator(self, functions: FloatArray) -> FloatArray:
        """T_f (m, q, q), for functions (q, m)."""
        return np.asarray(np.einsum("tab,am->mtb", self._convolution, functions))

    @cached_property
    def _convolution(self) -> FloatArray:
        return self.nodes.convolution


def _grid(least: float, most: float, size: int) -> FloatArray:
    """Chebyshev's points between the logarithms of 1 + x at the ends."""
    angles = (np.arange(size) + 0.5) * np.pi / size
    low, high = np.log1p(least), np.log1p(most)
    return np.asarray((low + high) / 2 - (high - low) / 2 * np.cos(angles))


def _polynomials(grid: FloatArray, points: FloatArray) -> FloatArray:
    """Lagrange's polynomials of a grid of Chebyshev's points (m,) at some points (k,), (k, m)."""
    middle, half = (grid[0] + grid[-1]) / 2, (grid[-1] - grid[0]) / 2 / np.cos(np.pi / 2 / len(grid))
    if half == 0:
        return np.full((len(points), len(grid)), 1 / len(grid))
    degrees = len(grid) - 1
    # Chebyshev's polynomials are orthogonal on his points, which spares an inverse.
    coefficients = 2 / len(grid) * np.polynomial.chebyshev.chebvander((grid - middle) / half, degrees).T
    coefficients[0] /= 2
    return np.asarray(np.polynomial.chebyshev.chebvander((points - middle) / half, degrees) @ coefficients)
