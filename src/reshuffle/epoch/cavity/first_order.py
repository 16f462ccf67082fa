"""The cavity equation of many modes, to first order in what leads from one mode to another.

A kernel of thousands of samples has thousands of modes, and paths of k x k matrices would be gigabytes. But each of
so many samples is weak, and all alike to them is diagonal: only how samples differ from each other leads from one
mode to another, and what goes forth and back is of second order in that. So diagonals are solved for by themselves
(`single_modes`), and what is between the modes once, at the end (`between_modes`): a Gram matrix for each of few
shapes that echoes have, and one product with the samples. What is left out is estimated, and told; `equation` keeps
all of it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas

from reshuffle._arrays import FloatArray
from reshuffle._linalg import root_mean_square
from reshuffle.epoch.cavity.between_modes import BetweenModes
from reshuffle.epoch.cavity.echoes import Echoes, leading
from reshuffle.epoch.cavity.equation import span_tolerance
from reshuffle.epoch.cavity.single_modes import SingleModes, SingleModesRound
from reshuffle.epoch.cavity.time_nodes import TimeNodes
from reshuffle.epoch.cavity.visiting import Visiting

FEWEST_MODES = 100
"""From here on whole matrices take longer than to look for what can be left out of them."""
_MOST_ROUNDS = 60
_MOST_LEFT_OUT = 30.0
"""What may be left out without another thought, in units of the tolerance."""
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
    echo : (q, n)
        rho_i(t + 1) at the nodes.
    left_out : float
        What is of second order, relative to the paces: an estimate.
    tolerance : float
        To which the equation was solved.
    """

    visiting: Visiting
    nodes: TimeNodes
    modes: SingleModes
    kernel: FloatArray
    entries: FloatArray
    between: FloatArray
    echo: FloatArray
    left_out: float
    tolerance: float

    @property
    def suffices(self) -> bool:
        """Whether what is left out is small beside what the user allows for."""
        return self.left_out <= _MOST_LEFT_OUT * self.tolerance

    def modifier(self, sample: int) -> FloatArray:
        """The kernel (k, k) of the mean of the visits before the visit to a sample, I - Y K."""
        nodes, weights = self.nodes, np.ones(self.visiting.steps)
        weights[-1] = self.visiting.last
        mean = weights @ nodes.rule / weights.sum()
        own = self.modes.before * self.visiting.rows[sample]
        rhythm = np.broadcast_to(self.echo[:, sample, np.newaxis], own.shape)
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
        enough, span = span_tolerance(visiting, tolerance)
        nodes = visiting.nodes(span)
        return None if nodes is None else _Weighed(visiting, nodes, tolerance, enough).solution()


class _Weighed:
    """Samples and modes, and what they weigh for each other."""

    def __init__(self, visiting: Visiting, nodes: TimeNodes, tolerance: float, enough: float):
        self._visiting, self._nodes, self._tolerance, self._enough = visiting, nodes, tolerance, enough
        self._paces = visiting.grades[0]

    def solution(self) -> FirstOrder | None:
        """Diagonals first, then what is between them."""
        found = self._settled()
        if found is None:
            return None
        modes, common, shapes, own = found
        constant, rhythm = self._visited()
        asked = constant + rhythm @ common
        pairs = BetweenModes(self._visiting, self._nodes, common, shapes, asked, self._tolerance)
        smooth = pairs.interpolated(self._paces, self._enough)
        if smooth is None:
            return None
        entering = (rhythm @ shapes).T @ modes.before
        kernel, between, left_out = self._between(own, entering, smooth, shapes, asked @ modes.inner)
        if not np.isfinite(left_out):
            return None
        kernel -= between * self._paces
        np.einsum("kk->k", kernel)[:] += asked @ modes.before
        kernel *= self._visiting.weight / 2
        kernel += kernel.T.copy()
        echo = common[:, np.newaxis] + shapes @ own
        entries = ((asked[:, np.newaxis] + rhythm @ (shapes @ own)).T @ modes.before) * self._visiting.rows
        entries -= (self._visiting.rows * self._paces) @ between.T
        entries *= self._visiting.weight
        between *= self._share_of_visits(asked)
        return FirstOrder(
            self._visiting, self._nodes, modes, kernel, entries, between, echo, left_out, self._tolerance
        )

    def _settled(self) -> tuple[SingleModes, FloatArray, FloatArray, FloatArray] | None:
        """The diagonals, and the echoes: the mean (q,), and shapes (q, a) times weights (a, n) of the samples."""
        rows, squared = self._visiting.rows, np.square(self._visiting.rows)
        round_of = SingleModesRound(self._visiting, self._nodes, self._paces)
        echoes = Echoes(rows, self._nodes, self._visiting.exclusion, self._enough)
        modes = round_of.independent
        for _ in range(_MOST_ROUNDS):
            echo = echoes.of_meeting((self._paces * modes.before) @ squared.T)
            if not np.isfinite(echo).all():
                return None
            common = echo.mean(axis=1)
            size = self._enough * float(np.linalg.norm(echo, axis=1).max(initial=0.0))
            terms = list(leading(echo - common[:, np.newaxis], size))
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
        """What a mean over the visits is of the sum that was asked for; echoes are a small part of it."""
        return 1 / float(asked.sum())

    def _between(
        self,
        own: FloatArray,
        entering: FloatArray,
        smooth: tuple[FloatArray, FloatArray],
        shapes: FloatArray,
        diagonal: FloatArray,
    ) -> tuple[FloatArray, FloatArray, float]:
        """What samples' own weights make of the kernel, what is between the modes in N, and what is left out."""
        polynomials, values = smooth
        between = np.zeros((len(self._paces),) * 2)
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
            returns = np.einsum("kl,l,kl->k", coupling, self._paces, between) / diagonal
        looked_at = self._visiting.rows[:: max(1, len(self._visiting.rows) // _LOOKED_AT)] * self._paces
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
