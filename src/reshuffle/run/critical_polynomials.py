"""Critical step of the mean iterate, with proof, where the mean epoch map is a polynomial of the step.

Without penalty or momentum the mean of an epoch is I - B step Z(step) on the row space, and Z is a polynomial of
degree B - 1. A run converges as long as functions of the step stay positive: the smallest eigenvalues of Z and of
2 I - B step Z. Such a *gap* g obeys

    g(s + h) >= g(s) - fall h - curvature h^2 / 2                        for all h >= 0 (`Gap`),

which says how far the step may grow for certain. Going so far, again and again, leads to the first zero of the gap,
and past none of them: quadratically fast where it crosses zero, geometrically where it only touches zero.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import numpy as np
import scipy.linalg
from numpy.polynomial import chebyshev
from scipy.optimize import brentq

from reshuffle._arrays import FloatArray
from reshuffle._linalg import chebyshev_transform, few_threads
from reshuffle._progress import track
from reshuffle.epoch import epoch_map
from reshuffle.epoch.select import task
from reshuffle.problem.row_space import Blocks
from reshuffle.schemes.base import Scheme

BUDGET = 1e13
"""Operations that may be spent on a critical step: ten minutes or so."""
_PRECISION = 1e-12
"""Relative distance of two steps that count as one."""
_NEAR_TOUCH = 1e-3
"""Relative distance behind a zero within which its gap may turn out to touch zero only."""
_ROUNDING = 1e-13
"""Rounding of an eigenvalue, relative to a bound on its matrix."""
_WINDOW, _REACH, _STRETCH = 1.25, 4.0, 1e3
"""Multiples of a step: up to which bounds of derivatives are sharp, and the mean is interpolated, at most; and how
far the mean may stretch there."""

Kernel = Callable[[float], FloatArray]
"""Whitened kernel K (r, r) at a step, I - Abar = step R'K R: it has the signs of Z however ill-conditioned X is."""


@dataclass(frozen=True)
class Gap:
    """A function of the step at one step, positive where the run converges, known up to `rounding`.

    >>> Gap(1.0, 2.0, 0.0, 0.0, 1.0).reach, Gap(1.0, 2.0, -2.0, 2.0, 0.0).reach
    (2.0, 1.0)
    """

    step: float
    value: float
    slope: float
    fall: float
    curvature: float
    rounding: float = 0.0

    @property
    def reach(self) -> float:
        """Distance up to which the function is positive for certain."""
        if self.value <= self.rounding:
            return 0.0
        root = math.sqrt(self.fall * self.fall + 2 * self.curvature * self.value)
        if self.fall > 0:
            return 2 * self.value / (self.fall + root)
        return (root - self.fall) / self.curvature if self.curvature else math.inf


def first_zero(gap: Callable[[float], Gap], start: float, end: float = math.inf) -> float:
    """First step from `start` at which a gap vanishes, with proof; `end` if there is none before.

    Next to a step at which it only touches zero, rounding hides the rest of the way: that step is where the slope
    changes its sign, if the gap is zero there up to rounding.
    """
    step = start
    for _ in track(count(), None, "following the mean"):
        here = gap(step)
        step = max(here.step + here.reach, step)
        if step >= end:
            return end
        if here.reach <= _PRECISION * step:
            break
    beyond = min(step * (1 + _NEAR_TOUCH), end)
    if here.slope < 0 < gap(beyond).slope:
        touch = gap(float(brentq(lambda place: gap(place).slope, here.step, beyond, xtol=1e-15 * step)))
        if touch.value >= -touch.rounding:
            return touch.step
    return step


def exact_step(scheme: Scheme, n: int, blocks: Blocks, start: float) -> float | None:
    """Critical step of the mean of random reshuffling, in the units of the features; None if that costs too much.

    Every visit must be a contraction at `start`.
    """
    price = task(scheme, n, blocks, start)
    if price.steps * price.exact_flops > BUDGET:
        return None

    def kernel(step: float) -> FloatArray:
        return epoch_map.whitened(task(scheme, n, blocks, step).exact())[2]

    with few_threads(math.sqrt(blocks.rows.size)):
        mean = price.exact()
        root = math.sqrt(mean.stride / start) * epoch_map.whitened(mean)[1]
        return _first_indefinite(kernel, root, price.steps - 1, start)


class _Polynomial:
    """A symmetric matrix (r, r), polynomial in the step, from its values at Chebyshev nodes of an interval."""

    def __init__(self, matrix: Kernel, degree: int, low: float, high: float):
        self.degree, self._middle, self._half = degree, (low + high) / 2, (high - low) / 2
        nodes = self._middle + self._half * chebyshev.chebpts1(degree + 1)
        values = np.array([matrix(node) for node in nodes.tolist()])
        self._coefficients = np.tensordot(chebyshev_transform(degree + 1), values, axes=1)

    def __call__(self, step: float) -> FloatArray:
        """The matrix at a step."""
        return np.asarray(chebyshev.chebval((step - self._middle) / self._half, self._coefficients))

    def gap(self) -> Callable[[float], Gap]:
        """The smallest eigenvalue, as a function of the step in the interval.

        Between steps the matrix M(s + h) is M + h M' up to h^2 / 2 times a bound on M'', from |T_j''| <=
        j^2 (j^2 - 1) / 3. The smallest eigenvalue of M + h M' is concave in h, and zero where -1 / h is the
        smallest eigenvalue of M' relative to M: it is above its chord up to there.
        """
        squares = np.arange(self.degree + 1) ** 2
        sizes = np.array([np.abs(scipy.linalg.eigvalsh(matrix)).max() for matrix in self._coefficients])
        curvature = float(squares * (squares - 1) / 3 @ sizes) / self._half**2
        rounding = _ROUNDING * float(sizes.sum())
        slopes = chebyshev.chebder(self._coefficients, scl=1 / self._half)

        def at(step: float) -> Gap:
            matrix = self(step)
            slope = np.asarray(chebyshev.chebval((step - self._middle) / self._half, slopes))
            (value,), vectors = scipy.linalg.eigh(matrix, subset_by_index=[0, 0], check_finite=False)
            along, fall = float(vectors[:, 0] @ slope @ vectors[:, 0]), math.inf
            if value > rounding:
                (relative,) = scipy.linalg.eigh(
                    slope, matrix, subset_by_index=[0, 0], eigvals_only=True, check_finite=False
                )
                fall = float(value * max(-relative, 0.0))
            return Gap(step, float(value), along, fall, curvature, rounding)

        return at


def _first_indefinite(kernel: Kernel, root: FloatArray, degree: int, low: float) -> float:
    """First step from `low` at which K or 2 I - step R'K R, with the root R, stops being positive definite."""
    two = 2 * np.eye(len(root))
    while True:
        # The visits at a step f times the contracting one stretch by 2 f - 1 at most: their product stays near
        # enough to 1 that what its size costs in rounding is a fraction of the precision.
        reach = low * float(np.clip((1 + _STRETCH ** (1 / (degree + 1))) / 2, _WINDOW, _REACH))
        mean = _Polynomial(kernel, degree, low, reach)

        def to_two(step: float, mean: Kernel = mean) -> FloatArray:
            return np.asarray(two - step * (root.T @ mean(step) @ root))

        while low < reach:
            high = min(_WINDOW * low, reach)
            end = first_zero(_Polynomial(mean, degree, low, high).gap(), low, high)
            end = first_zero(_Polynomial(to_two, degree + 1, low, high).gap(), low, end)
            if end < high:
                return end
            low = high
