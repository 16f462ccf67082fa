"""The cavity equation of many modes, to first order in what leads from one mode to another.

A kernel of thousands of samples has thousands of modes, and paths of k x k matrices would be gigabytes. But each of
so many samples is weak, and all alike to them is diagonal: only how samples differ from each other leads from one
mode to another, and what goes forth and back is of second order in that. So diagonals are solved for by themselves
(`single_modes`), and what is between the modes once, at the end (`between_modes`): a Gram matrix for each of few
shapes that self responses have, and one product with the samples. What is left out is estimated, and told; `cavity`
keeps all of it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import blas

from reshuffle._arrays import FloatArray
from reshuffle._linalg import root_mean_square
from reshuffle.epoch.averaging.cavity import SelfResponses, TimeNodes, Visiting, leading

# The cavity equation of modes that do not see each other: numbers per mode, where `equation` has matrices.
#
# In the coordinates of the modes all paths are diagonal but for what is particular to samples. Diagonals
# alone obey
# the same equation, with products of numbers for products of matrices: with h = 1 - x N and g = 1 - x K of a
# mode of
# decay rate x, and m(t) = sum_i r_i(t) u_i^2 of that mode,
#
#     s = h + m * h,   K = w p * (1 + s - g),   N = K + (e / n) (g * (s - g) + s * g),   p(t) = (1 - w x)^t.

_MOST_ROUNDS = 60


@dataclass(frozen=True, eq=False)
class SingleModes:
    """The diagonals of K_t and N_t at the nodes.

    Attributes
    ----------
    decay_rates : (m,)
        x of the modes.
    kernels, inner : (q, m)
        K_t and N_t.
    met : (q, m)
        S_t, what the visits of all samples do to a mode.
    """

    decay_rates: FloatArray
    kernels: FloatArray
    inner: FloatArray
    met: FloatArray

    @property
    def before(self) -> FloatArray:
        """H_t (q, m)."""
        return 1 - self.decay_rates * self.inner

    @property
    def mean(self) -> FloatArray:
        """G_t (q, m)."""
        return 1 - self.decay_rates * self.kernels


class SingleModesRound:
    """One round of the iteration for the diagonals.

    Parameters
    ----------
    visiting : Visiting
        Of states of one part with nothing beside the samples, whose rows are orthonormal.
    nodes : TimeNodes
    decay_rates : (m,)
        Of the modes; not necessarily those of `visiting`.
    """

    def __init__(self, visiting: Visiting, nodes: TimeNodes, decay_rates: FloatArray):
        self._nodes, self._decay_rates, self._weight = nodes, decay_rates, visiting.weight
        self._share = visiting.exclusion / visiting.samples
        self._powers = (1 - visiting.weight * decay_rates) ** nodes.nodes[:, np.newaxis]

    @property
    def independent(self) -> SingleModes:
        """The modes, were visits independent."""
        kernels = self._weight * self._nodes.convolve_scalars(self._powers, np.ones_like(self._powers))
        return SingleModes(self._decay_rates, kernels, kernels, 1 - self._decay_rates * kernels)

    def following(self, modes: SingleModes, grams: FloatArray) -> SingleModes:
        """The modes after one more round, for sums m (q, m) over the samples."""
        convolve, before = self._nodes.convolve_scalars, modes.before
        met = before + convolve(grams, before)
        kernels = self._weight * convolve(self._powers, 1 + met - modes.mean)
        after = 1 - self._decay_rates * kernels
        inner = kernels + self._share * (convolve(after, met - after) + convolve(met, after))
        return SingleModes(self._decay_rates, kernels, inner, met)

    def settled(self, grams: FloatArray, tolerance: float) -> SingleModes:
        """The modes that stay as they are, for sums over the samples (q, 1) that all have in common."""
        modes = self.independent
        for _ in range(_MOST_ROUNDS):
            following = self.following(modes, grams)
            change = float(np.abs(following.inner - modes.inner).max(initial=0.0))
            modes = following
            if change <= tolerance * float(np.abs(modes.inner).max(initial=0.0)):
                break
        return modes


# What samples make modes do to each other, to first order: a smooth function of two decay rates times few Gram
# matrices.
#
# The self responses r_i(t) of the samples are alike up to a part d_i(t) = sum_a f_a(t) w_ai of few terms. It alone
# leads from
# one mode to another, through the Gram matrices W_a = U'diag(w_a) U. To first order in it what is between the
# modes i and j obeys the cavity equation linearised around the diagonals (`single_modes`), by itself. With
# the
# operators T_f of convolution with f, T_m that with the mean of the self responses, and with the sources f_a of
# W_a[i, j],
#
#     S' = T_{h_j} f - x_i (1 + T_m) N',   L' = T_{h_i} f - x_j (1 + T_m) N',   K' = w T_1 S',
#     N' = K' + (e / n) [T_{g_i} (S' + x_i K') - x_j T_{s_j - g_j} K' + T_{g_j} L' - x_i T_{s_i} K'].
#
# These are q equations per pair of modes, whose solution is a smooth function of the two decay rates. It is
# computed at few
# pairs of decay rates, and at all others by polynomials.

_SIZES = (8, 12, 18, 27, 40)
"""Numbers of decay rates between which polynomials are tried."""
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
        The mean of the self responses over the samples.
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

    def interpolated(self, decay_rates: FloatArray, accuracy: float) -> tuple[FloatArray, FloatArray] | None:
        """P (k, m) and values (a, m, m): source a has P values[a] P' at all pairs of decay rates (k,).

        To an accuracy relative to the largest value; None if no polynomial comes so near.
        """
        ends = float(decay_rates.min()), float(decay_rates.max())
        checked = np.expm1(np.linspace(np.log1p(ends[0]), np.log1p(ends[1]), _CHECKED + 2)[1:-1])
        truth = self.at(checked)
        for size in _SIZES:
            grid = _grid(*ends, size)
            values = self.at(np.expm1(grid))
            there = _polynomials(grid, np.log1p(checked))
            off = np.abs(there @ values @ there.T - truth).max(initial=0.0)
            if off <= accuracy * np.abs(truth).max(initial=0.0):
                return _polynomials(grid, np.log1p(decay_rates)), values
        return None

    def at(self, decay_rates: FloatArray) -> FloatArray:
        """Requested sums (a, m, m) for each source, at all pairs of some decay rates (m,)."""
        round_of = SingleModesRound(self.visiting, self.nodes, decay_rates)
        modes = round_of.settled(self.common[:, np.newaxis], self.tolerance)
        weight, share = self.visiting.weight, self.visiting.exclusion / self.visiting.samples
        identity = np.eye(len(self.nodes.nodes))
        summed = weight * self._operator(np.ones((len(identity), 1)))[0]
        around = identity + self._operator(self.common[:, np.newaxis])[0]
        inner, mean = self._operator(modes.before), self._operator(modes.mean)
        met = self._operator(modes.met)
        first, second = (
            decay_rates[:, np.newaxis, np.newaxis, np.newaxis],
            decay_rates[:, np.newaxis, np.newaxis],
        )
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


FEWEST_MODES = 100
"""Modes from which on whole matrices take longer than to look for what can be left out of them."""
_MOST_ROUNDS = 60
_MOST_LEFT_OUT = 30.0
"""The largest neglected part that is accepted, in units of the tolerance."""
_LOOKED_AT = 32
"""Samples whose own influence is compared with and without what is between the modes."""


@dataclass(frozen=True, eq=False)
class FirstOrder:
    """The mean of an epoch, as `equation.Solution` has it, from diagonals and what is between them.

    Attributes
    ----------
    visiting : Visiting
    nodes : TimeNodes
    modes : SingleModes
        The diagonals.
    kernel : (k, k)
        K, symmetric.
    entries : (n, k)
        The columns of E, how the response of each sample enters, as rows.
    between : (k, k)
        What is between the modes in the mean over the visits of N_t.
    self_response : (q, n)
        rho_i(t + 1) at the nodes.
    left_out : float
        What is of second order, relative to the decay rates: an estimate.
    tolerance : float
        To which the equation was solved.
    """

    visiting: Visiting
    nodes: TimeNodes
    modes: SingleModes
    kernel: FloatArray
    entries: FloatArray
    between: FloatArray
    self_response: FloatArray
    left_out: float
    tolerance: float

    @property
    def suffices(self) -> bool:
        """True if what is left out is small beside the tolerance."""
        return self.left_out <= _MOST_LEFT_OUT * self.tolerance

    def modifier(self, sample: int) -> FloatArray:
        """The kernel (k, k) of the mean of the visits before the visit to a sample, I - Y K."""
        nodes, weights = self.nodes, np.ones(self.visiting.steps)
        weights[-1] = self.visiting.last
        mean = weights @ nodes.rule / weights.sum()
        own = self.modes.before * self.visiting.rows[sample]
        rhythm = np.broadcast_to(self.self_response[:, sample, np.newaxis], own.shape)
        own = own + nodes.convolve_scalars(own, rhythm)
        returned = own.T @ np.tensordot(mean, nodes.convolution, 1) @ own
        return np.asarray(
            np.diag(mean @ self.modes.inner) + self.between - self.visiting.exclusion * returned
        )


def solve(visiting: Visiting, tolerance: float) -> FirstOrder | None:
    """Solve the cavity equation to first order; None if that is not for these visits, or it has no solution.

    It is for samples of one row, whose rows are orthonormal as a matrix (n, k), and states of one part.
    """
    is_plain = visiting.size == 1 and len(visiting.entry) == 1 and not visiting.still.any()
    if not is_plain or len(visiting.squares) < FEWEST_MODES:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        enough, span = visiting.tolerances(tolerance)
        nodes = visiting.nodes(span)
        return None if nodes is None else _Weighed(visiting, nodes, tolerance, enough).solution()


class _Weighed:
    """Samples and modes, and what they weigh for each other."""

    def __init__(self, visiting: Visiting, nodes: TimeNodes, tolerance: float, enough: float):
        self._visiting, self._nodes, self._tolerance, self._enough = visiting, nodes, tolerance, enough
        self._decay_rates = visiting.grades[0]

    def solution(self) -> FirstOrder | None:
        """Diagonals first, then what is between them."""
        found = self._settled()
        if found is None:
            return None
        modes, common, shapes, own = found
        constant, rhythm = self._visited()
        asked = constant + rhythm @ common
        pairs = BetweenModes(self._visiting, self._nodes, common, shapes, asked, self._tolerance)
        smooth = pairs.interpolated(self._decay_rates, self._enough)
        if smooth is None:
            return None
        entering = (rhythm @ shapes).T @ modes.before
        kernel, between, left_out = self._between(own, entering, smooth, shapes, asked @ modes.inner)
        if not np.isfinite(left_out):
            return None
        kernel -= between * self._decay_rates
        np.einsum("kk->k", kernel)[:] += asked @ modes.before
        kernel *= self._visiting.weight / 2
        kernel += kernel.T.copy()
        rho = common[:, np.newaxis] + shapes @ own
        entries = ((asked[:, np.newaxis] + rhythm @ (shapes @ own)).T @ modes.before) * self._visiting.rows
        entries -= (self._visiting.rows * self._decay_rates) @ between.T
        entries *= self._visiting.weight
        between *= self._share_of_visits(asked)
        return FirstOrder(
            self._visiting,
            self._nodes,
            modes,
            kernel,
            entries,
            between,
            rho,
            left_out,
            self._tolerance,
        )

    def _settled(self) -> tuple[SingleModes, FloatArray, FloatArray, FloatArray] | None:
        """The diagonals, and the self responses: the mean (q,), shapes (q, a) times weights (a, n)."""
        rows, squared = self._visiting.rows, np.square(self._visiting.rows)
        round_of = SingleModesRound(self._visiting, self._nodes, self._decay_rates)
        solver = SelfResponses(rows, 1, self._nodes, self._visiting.exclusion, self._enough)
        modes = round_of.independent
        for _ in range(_MOST_ROUNDS):
            rho = solver.of_meeting((self._decay_rates * modes.before) @ squared.T)
            if not np.isfinite(rho).all():
                return None
            common = rho.mean(axis=1)
            size = self._enough * float(np.linalg.norm(rho, axis=1).max(initial=0.0))
            terms = list(leading(rho - common[:, np.newaxis], size))
            shapes = np.array([shape for shape, _ in terms]).reshape(-1, len(common)).T
            own = np.array([weights for _, weights in terms]).reshape(-1, len(rows))
            following = round_of.following(modes, common[:, np.newaxis] + shapes @ (own @ squared))
            change = float(np.abs(following.inner - modes.inner).max())
            modes = following
            if change <= self._tolerance * float(np.abs(modes.inner).max(initial=1e-300)):
                return modes, common, shapes, own
        return None

    def _visited(self) -> tuple[FloatArray, FloatArray]:
        """C (q,) and R (q, q): H at the nodes enters with weights C + R r_i, in the mean over a sample's visits.

        The last visit is affine in its weight: what is cut short lies between a whole visit and none.
        """
        last, steps, rule = self._visiting.last, self._visiting.steps, self._nodes.rule
        parts = [(last, steps), (1 - last, steps - 1)]
        constant = sum(share * rule[:until].sum(axis=0) for share, until in parts)
        rhythm = sum(share * self._nodes.summed_convolution(until) for share, until in parts)
        return np.asarray(constant), np.asarray(rhythm)

    def _share_of_visits(self, asked: FloatArray) -> float:
        """The mean over the visits over the requested sum; self responses are a small part of it."""
        return 1 / float(asked.sum())

    def _between(
        self,
        own: FloatArray,
        entering: FloatArray,
        smooth: tuple[FloatArray, FloatArray],
        shapes: FloatArray,
        diagonal: FloatArray,
    ) -> tuple[FloatArray, FloatArray, float]:
        """The kernel of the samples' own weights, N between the modes, and an estimate of what is left out."""
        polynomials, values = smooth
        between = np.zeros((len(self._decay_rates),) * 2)
        kernel, coupling = np.zeros_like(between), np.zeros_like(between)
        lengths = self._nodes.rule.sum(axis=0) @ shapes
        for number, weights in enumerate(own):
            gram = self._gram(weights)
            kernel += entering[number][:, np.newaxis] * gram
            np.einsum("kk->k", gram)[:] = 0.0
            coupling += lengths[number] * gram
            gram *= polynomials @ values[number] @ polynomials.T
            between += gram
        with np.errstate(divide="ignore"):
            # What leads from a mode to others and back, and what samples meet of their own on such ways.
            returns = np.einsum("kl,l,kl->k", coupling, self._decay_rates, between) / diagonal
        looked_at = self._visiting.rows[:: max(1, len(self._visiting.rows) // _LOOKED_AT)] * self._decay_rates
        own_ways = self._visiting.weight * np.einsum("ik,ik->i", looked_at @ between, looked_at)
        return kernel, between, max(float(np.abs(returns).max()), root_mean_square(own_ways))

    def _gram(self, weights: FloatArray) -> FloatArray:
        """sum_i w_i u_i u_i' (k, k)."""
        least = float(weights.min())
        # Rows are orthonormal, so that a constant only adds to the diagonal; of squares half the work is spared.
        scaled = np.sqrt(weights - least)[:, np.newaxis] * self._visiting.rows
        triangle = blas.dsyrk(1.0, scaled.T)
        diagonal = np.diagonal(triangle) + least
        gram = np.add(triangle, triangle.T, order="C")
        np.einsum("kk->k", gram)[:] = diagonal
        return gram
