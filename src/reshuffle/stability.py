"""Does the mean iterate converge, how fast, and up to which step."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.polynomial import chebyshev

from reshuffle import modes
from reshuffle.arrays import FloatArray
from reshuffle.problem import LeastSquares
from reshuffle.row_space import Blocks
from reshuffle.schemes import Scheme

_PRECISION = 1e-9
"""Relative width to which the critical step is enclosed."""


@dataclass(frozen=True)
class Stability:
    """Whether the mean iterate converges from every start, and at what rate.

    Attributes
    ----------
    converges : bool
        The rate is below one, and the range assumption holds.
    rate : float
        The spectral radius of I - B step Z on the range of Z: what the slowest mode is multiplied by in an epoch.
    """

    converges: bool
    rate: float


def stability(rates: FloatArray, repeats: int, range_assumption: bool) -> Stability:
    """Read the stability off the rates x of the modes in the range of Z, each multiplied by 1 - x."""
    with np.errstate(over="ignore"):
        factors = np.abs(1 - rates) ** repeats
    # 1 - x rounds to one for x below eps: such a mode still converges, if slowly.
    settles = bool(((rates > 0) & (rates < 2)).all())
    return Stability(settles and range_assumption, float(factors.max(initial=0.0)))


def critical_step(problem: LeastSquares, scheme: Scheme) -> float:
    """The step up to which the mean iterate converges, to a relative precision of 1e-9.

    For full batch and with replacement it is 2 / |W|. For reshuffling, every step below 2 / max |W_b| converges,
    since each visit then shrinks what it sees; from there on Z(step), a polynomial of degree B - 1,
    is followed exactly through its values at Chebyshev nodes until it stops being positive definite on the row
    space, or B step Z reaches 2. Intervals are passed only once a bound on the derivative excludes a crossing.

    >>> import reshuffle as rs
    >>> problem = rs.LeastSquares([[1.0], [3.0]], [0.0, 0.0])
    >>> round(rs.critical_step(problem, rs.FullBatch()), 12)  # 2 / ((1 + 9) / 2)
    0.4
    """
    blocks = problem.blocks(scheme.partition(problem.n))
    if problem.rank == 0:
        return math.inf
    scaled = _critical_scaled_step(blocks, scheme)
    return scaled / problem.row_space.scale / problem.row_space.scale


def _critical_scaled_step(blocks: Blocks, scheme: Scheme) -> float:
    if scheme.degree == 0:
        mean = scheme.mean_map(blocks, 1.0)
        return 2 / (mean.rate * float(modes.modes(mean).values[-1]))
    low = 2 / max(_norm(blocks, batch) for batch in range(blocks.batches))
    while True:
        high = 1.25 * low
        crossing = _Window(blocks, scheme, low, high).first_crossing()
        if crossing is not None:
            return crossing
        low = high


def _norm(blocks: Blocks, batch: int) -> float:
    return float(scipy.linalg.svdvals(blocks.rows[blocks.of(batch)])[0]) ** 2 / float(blocks.counts[batch])


class _Window:
    """Steps from `low` to `high`, on which the whitened kernel of Z is interpolated exactly.

    Convergence means that two symmetric matrices are positive definite: the kernel, which has the signs of
    the eigenvalues of Z however badly X is conditioned, and 2 I - B step Z.
    """

    def __init__(self, blocks: Blocks, scheme: Scheme, low: float, high: float):
        self.low, self.high, self.batches = low, high, scheme.batches
        nodes = chebyshev.chebpts1(scheme.degree + 1)
        means = [scheme.mean_map(blocks, self._step(node)) for node in nodes]
        # The factor does not depend on the step, so one orthonormal basis whitens every kernel.
        whitened = [modes.whitened(mean) for mean in means]
        self.triangle = whitened[0][0]
        kernels = np.stack([kernel for _, kernel in whitened])
        transform = np.linalg.inv(chebyshev.chebvander(nodes, scheme.degree))
        self.coefficients = np.tensordot(transform, kernels, axes=1)
        self._slopes = self._derivative_bounds()

    def _step(self, node: float) -> float:
        return float(self.low + (self.high - self.low) * (node + 1) / 2)

    def _kernel(self, step: float) -> FloatArray:
        node = 2 * (step - self.low) / (self.high - self.low) - 1
        return np.tensordot(
            chebyshev.chebvander(node, len(self.coefficients) - 1)[0], self.coefficients, axes=1
        )

    def _gaps(self, step: float) -> FloatArray:
        """How far the two matrices are from losing their definiteness; negative beyond it."""
        kernel = self._kernel(step)
        Z = self.triangle.T @ kernel @ self.triangle
        last = len(Z) - 1
        lowest = scipy.linalg.eigvalsh(kernel, subset_by_index=[0, 0])[0]
        highest = scipy.linalg.eigvalsh(Z, subset_by_index=[last, last])[0]
        return np.array([lowest, 2 - self.batches * step * highest])

    def _derivative_bounds(self) -> FloatArray:
        """Bounds on the derivatives of the two gaps in the step, from |T_j'| <= j^2."""
        orders = np.arange(len(self.coefficients)) ** 2 * 2 / (self.high - self.low)
        in_kernel = [np.abs(scipy.linalg.eigvalsh(matrix)).max() for matrix in self.coefficients]
        in_Z = [
            np.abs(scipy.linalg.eigvalsh(self.triangle.T @ matrix @ self.triangle)).max()
            for matrix in self.coefficients
        ]
        return np.array(
            [orders @ in_kernel, self.batches * (float(np.sum(in_Z)) + self.high * (orders @ in_Z))]
        )

    def first_crossing(self) -> float | None:
        """The smallest step in the window at which a gap closes, or None."""
        return _first_zero(self._gaps, self._slopes, self.low, self.high)


def _first_zero(
    gaps: Callable[[float], FloatArray], slopes: FloatArray, low: float, high: float
) -> float | None:
    """The first zero of any of several functions with |derivative| <= slope, by certified bisection."""
    waiting = [(low, gaps(low), high, gaps(high))]
    while waiting:
        left, at_left, right, at_right = waiting.pop()
        if (at_left <= 0).any():
            return left
        if ((at_left + at_right) > slopes * (right - left)).all():
            continue
        if right - left <= _PRECISION * right:
            # A gap that has not closed but is this small is a crossing to the promised precision.
            return (left + right) / 2
        middle = (left + right) / 2
        at_middle = gaps(middle)
        # The left half is looked at first. If it already holds a crossing, the right half is never needed.
        if (at_middle > 0).all():
            waiting.append((middle, at_middle, right, at_right))
        waiting.append((left, at_left, middle, at_middle))
    return None
