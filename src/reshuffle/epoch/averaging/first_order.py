"""The cavity equation of many modes, to first order in what leads from one mode to another.

A kernel of thousands of samples has thousands of modes, and paths of k x k matrices would be gigabytes. But each of
so many samples is weak, and what all have in common is diagonal: only how samples differ leads from one mode to
another, and what goes forth and back is of second order in that. So diagonals are solved for by themselves
(`SingleModes`), and what is between the modes once, at the end (`BetweenModes`): a Gram matrix for each of few
shapes that self responses have, and one product with the samples. What is left out is estimated, and part of the
error; `cavity` has all of it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from scipy.linalg import blas

from reshuffle._arrays import FloatArray
from reshuffle._linalg import chebyshev_transform, root_mean_square
from reshuffle.epoch.averaging.cavity import SelfResponses, TimeNodes, Visiting, leading

FEWEST_MODES = 100  # modes from which on whole matrices take longer than to find what can be left out of them
_MOST_ROUNDS = 60
_MOST_LEFT_OUT = 30.0  # the largest neglected part that is accepted, in units of the tolerance
_COMPARED = 32  # samples whose own influence is compared with and without what is between the modes
_SIZES = (8, 12, 18, 27, 40)  # numbers of decay rates between which polynomials are tried
_CHECKED = 12  # decay rates between which they are checked


class SingleModes:
    """The diagonals of K_t and N_t at the nodes: the cavity equation of modes that do not act on each other.

    In the coordinates of the modes all paths are diagonal but for what is particular to samples. Diagonals alone
    obey the same equation, with numbers for matrices: with h = 1 - x N and g = 1 - x K of a mode of decay rate x,
    and m(t) = sum_i r_i(t) u_i^2 of that mode,

        s = h + m * h,   K = w p * (1 + s - g),   N = K + (e / n) (g * (s - g) + s * g),   p(t) = (1 - w x)^t.

    For states of one part with nothing but the samples, whose rows are orthonormal; the modes, of decay rates
    (m,), are not necessarily those of the visits.
    """

    def __init__(self, visiting: Visiting, nodes: TimeNodes, decay_rates: FloatArray):
        self._nodes, self._decay_rates, self._weight = nodes, decay_rates, visiting.weight
        self._share = visiting.exclusion / visiting.samples
        self._powers = (1 - visiting.weight * decay_rates) ** nodes.nodes[:, np.newaxis]
        # As if visits were independent.
        self.kernels = self._weight * nodes.convolve_scalars(self._powers, np.ones_like(self._powers))
        self.inner, self.met = self.kernels, self.mean

    @property
    def before(self) -> FloatArray:
        """H_t (q, m)."""
        return 1 - self._decay_rates * self.inner

    @property
    def mean(self) -> FloatArray:
        """G_t (q, m)."""
        return 1 - self._decay_rates * self.kernels

    def advance(self, grams: FloatArray) -> float:
        """One more round, for sums m (q, m) over the samples, or (q, 1); returns the relative change of N."""
        convolve, before, last = self._nodes.convolve_scalars, self.before, self.inner
        self.met = before + convolve(grams, before)
        self.kernels = self._weight * convolve(self._powers, 1 + self.met - self.mean)
        after = self.mean
        others = convolve(after, self.met - after) + convolve(self.met, after)
        self.inner = self.kernels + self._share * others
        change = float(np.abs(self.inner - last).max(initial=0.0))
        return change / float(np.abs(self.inner).max(initial=1e-300))


@dataclass(frozen=True, eq=False)
class BetweenModes:
    """The part of N_t between the modes, to first order in how samples differ.

    The self responses r_i(t) of the samples are alike up to a part d_i(t) = sum_a f_a(t) w_ai of few terms. That
    part alone leads from one mode to another, through the Gram matrices W_a = U'diag(w_a) U. To first order in it
    what is between the modes i and j obeys the cavity equation linearised around the diagonals, by itself. With the
    operators T_f of convolution with f, T_m that with the mean of the self responses, and with the sources f_a of
    W_a[i, j],

        S' = T_{h_j} f - x_i (1 + T_m) N',   L' = T_{h_i} f - x_j (1 + T_m) N',   K' = w T_1 S',
        N' = K' + (e / n) [T_{g_i} (S' + x_i K') - x_j T_{s_j - g_j} K' + T_{g_j} L' - x_i T_{s_i} K'].

    These are q equations per pair of modes, whose solution is a smooth function of the two decay rates. It is
    computed at few pairs of decay rates, and at all others by polynomials.
    """

    visiting: Visiting
    nodes: TimeNodes
    common: FloatArray  # the mean (q,) of the self responses over the samples
    sources: FloatArray  # f (q, a), the shapes of what is particular to samples
    weights: FloatArray  # (q,), of the nodes in the sums over N' that are computed
    tolerance: float  # to which single modes are solved

    def interpolated(self, decay_rates: FloatArray, accuracy: float) -> tuple[FloatArray, FloatArray] | None:
        """P (k, m) and values (a, m, m): source a has P values[a] P' at all pairs of decay rates (k,).

        To an accuracy relative to the largest value; None if no polynomial comes so near.
        """
        low, high = math.log1p(decay_rates.min()), math.log1p(decay_rates.max())
        middle, half = (low + high) / 2, (high - low) / 2
        checked = np.expm1(np.linspace(low, high, _CHECKED + 2)[1:-1])
        truth = self.at(checked)
        for size in _SIZES:
            values = self.at(np.expm1(middle + half * chebyshev.chebpts1(size)))
            transform = chebyshev_transform(size)
            there, everywhere = (
                chebyshev.chebvander((np.log1p(x) - middle) / (half or 1.0), size - 1) @ transform
                for x in (checked, decay_rates)
            )
            off = np.abs(there @ values @ there.T - truth).max(initial=0.0)
            if off <= accuracy * np.abs(truth).max(initial=0.0):
                return everywhere, values
        return None

    def at(self, decay_rates: FloatArray) -> FloatArray:
        """The sums (a, m, m) for each source, at all pairs of some decay rates (m,)."""
        modes = SingleModes(self.visiting, self.nodes, decay_rates)
        for _ in range(_MOST_ROUNDS):
            if modes.advance(self.common[:, np.newaxis]) <= self.tolerance:
                break
        weight, share = self.visiting.weight, self.visiting.exclusion / self.visiting.samples
        identity = np.eye(len(self.nodes.nodes))
        summed = weight * self._operator(np.ones((len(identity), 1)))[0]
        around = identity + self._operator(self.common[:, np.newaxis])[0]
        inner, mean, met = (self._operator(one) for one in (modes.before, modes.mean, modes.met))
        first, second = (decay_rates.reshape(shape) for shape in ((-1, 1, 1, 1), (-1, 1, 1)))
        through = summed + share * (
            mean[:, np.newaxis] @ (identity + first * summed)
            - (second * (met - mean)[np.newaxis] + first * met[:, np.newaxis]) @ summed
        )
        left = identity + first * (through @ around) + share * second * (mean @ around)
        right = (through @ inner + share * (mean[np.newaxis] @ inner[:, np.newaxis])) @ self.sources
        return np.asarray(np.moveaxis(self.weights @ np.linalg.solve(left, right), -1, 0))

    def _operator(self, functions: FloatArray) -> FloatArray:
        """T_f (m, q, q), for functions (q, m)."""
        return np.asarray(np.einsum("tab,am->mtb", self.nodes.convolution, functions))


@dataclass(frozen=True, eq=False)
class FirstOrder:
    """The mean of an epoch as in `cavity.Cavity`, from diagonals and what is between them."""

    visiting: Visiting
    nodes: TimeNodes
    modes: SingleModes  # the diagonals
    kernel: FloatArray  # K (k, k), symmetric
    entries: FloatArray  # the columns of E, the input map of the response of each sample, as rows (n, k)
    between: FloatArray  # what is between the modes in the mean over the visits of N_t (k, k)
    self_response: FloatArray  # rho_i(t + 1) at the nodes (q, n)
    left_out: float  # what is of second order, relative to the decay rates: an estimate
    suffices: bool  # whether that is small relative to the tolerance

    def modifier(self, sample: int) -> FloatArray:
        """The kernel (k, k) of the mean of the visits before the visit to a sample, I - Y K."""
        nodes, weights = self.nodes, np.ones(self.visiting.steps)
        weights[-1] = self.visiting.last
        mean = weights @ nodes.rule / weights.sum()
        own = self.modes.before * self.visiting.rows[sample]
        rho = np.broadcast_to(self.self_response[:, sample, np.newaxis], own.shape)
        own = own + nodes.convolve_scalars(own, rho)
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
    enough, span = visiting.tolerances(tolerance)
    nodes = visiting.nodes(span)
    found = None if nodes is None else _diagonals(visiting, nodes, tolerance, enough)
    if nodes is None or found is None:
        return None
    modes, common, shapes, own = found
    rows, decay_rates, steps, last = visiting.rows, visiting.grades[0], visiting.steps, visiting.last
    # H at the nodes enters with weights C + R r_i, in the sum over a sample's visits. The last visit is affine
    # in its weight: what is cut short lies between a whole visit and none.
    parts = [(last, steps), (1 - last, steps - 1)]
    constant = np.asarray(sum(share * nodes.rule[:until].sum(axis=0) for share, until in parts))
    response = np.asarray(sum(share * nodes.summed_convolution(until) for share, until in parts))
    weights = constant + response @ common
    pairs = BetweenModes(visiting, nodes, common, shapes, weights, tolerance)
    smooth = pairs.interpolated(decay_rates, enough)
    if smooth is None:
        return None
    polynomials, values = smooth
    kernel, between, coupling = (np.zeros((len(decay_rates),) * 2) for _ in range(3))
    entering, lengths = (response @ shapes).T @ modes.before, nodes.rule.sum(axis=0) @ shapes
    for number, of_samples in enumerate(own):
        gram = _weighted_gram(rows, of_samples)
        kernel += entering[number][:, np.newaxis] * gram
        np.einsum("kk->k", gram)[:] = 0.0
        coupling += lengths[number] * gram
        gram *= polynomials @ values[number] @ polynomials.T
        between += gram
    with np.errstate(divide="ignore"):
        # What leads from a mode to others and back, and the influence of samples on themselves by such detours.
        returns = np.einsum("kl,l,kl->k", coupling, decay_rates, between) / (weights @ modes.inner)
    compared = rows[:: max(1, len(rows) // _COMPARED)] * decay_rates
    own_ways = visiting.weight * np.einsum("ik,ik->i", compared @ between, compared)
    left_out = max(float(np.abs(returns).max()), root_mean_square(own_ways))
    if not np.isfinite(left_out):
        return None
    kernel -= between * decay_rates
    np.einsum("kk->k", kernel)[:] += weights @ modes.before
    kernel *= visiting.weight / 2
    kernel += kernel.T.copy()
    entries = ((weights[:, np.newaxis] + response @ (shapes @ own)).T @ modes.before) * rows
    entries -= (rows * decay_rates) @ between.T
    entries *= visiting.weight
    # The mean over the visits in place of the sum; self responses are a small part of it.
    between *= 1 / float(weights.sum())
    rho, suffices = common[:, np.newaxis] + shapes @ own, left_out <= _MOST_LEFT_OUT * tolerance
    return FirstOrder(visiting, nodes, modes, kernel, entries, between, rho, left_out, suffices)


def _diagonals(
    visiting: Visiting, nodes: TimeNodes, tolerance: float, enough: float
) -> tuple[SingleModes, FloatArray, FloatArray, FloatArray] | None:
    """The diagonals, and the self responses: their mean (q,), shapes (q, a) times weights (a, n)."""
    rows, decay_rates, squared = visiting.rows, visiting.grades[0], np.square(visiting.rows)
    modes = SingleModes(visiting, nodes, decay_rates)
    responses = SelfResponses(rows, 1, nodes, visiting.exclusion, enough)
    for _ in range(_MOST_ROUNDS):
        rho = responses.of_meeting((decay_rates * modes.before) @ squared.T)
        if not np.isfinite(rho).all():
            return None
        common = rho.mean(axis=1)
        size = enough * float(np.linalg.norm(rho, axis=1).max(initial=0.0))
        shapes, own = leading(rho - common[:, np.newaxis], size)
        if modes.advance(common[:, np.newaxis] + shapes @ (own @ squared)) <= tolerance:
            return modes, common, shapes, own
    return None


def _weighted_gram(rows: FloatArray, weights: FloatArray) -> FloatArray:
    """sum_i w_i u_i u_i' (k, k)."""
    least = float(weights.min())
    # Rows are orthonormal, so that a constant only adds to the diagonal; of squares half the work is spared.
    triangle = blas.dsyrk(1.0, (np.sqrt(weights - least)[:, np.newaxis] * rows).T)
    diagonal = np.diagonal(triangle) + least
    gram = np.add(triangle, triangle.T, order="C")
    np.einsum("kk->k", gram)[:] = diagonal
    return gram
