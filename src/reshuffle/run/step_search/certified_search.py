"""The largest step at which the mean iterate converges, with proof: Z(step) is a polynomial, known at all steps."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._blas import few_threads
from reshuffle._progress import track
from reshuffle.epoch import mean_map
from reshuffle.epoch.accuracy import require_affordable
from reshuffle.epoch.averaging.base import task
from reshuffle.problem.batches import Blocks
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.run.step_search import few_samples, rank_one
from reshuffle.run.step_search.first_failures import first_zero
from reshuffle.run.step_search.matrix_polynomial import MatrixPolynomial
from reshuffle.run.step_search.steps_from_norms import contracting_step, linear_critical_step
from reshuffle.schemes.base import Scheme, Shuffle

_WINDOW, _REACH, _STRETCH = 1.25, 4.0, 1e3
"""Up to which multiple of a step bounds of derivatives are sharp; up to which the mean is interpolated, at most; by
how far it may stretch there."""
BUDGET = 1e13
"""Operations that may be spent on a critical step: ten minutes or so."""


def is_certified(problem: LeastSquares, scheme: Scheme) -> bool:
    """Whether `certified_step` knows the mean at all steps it needs, within its budget."""
    if scheme.steps(problem.n) == 1 or scheme.shuffle is not Shuffle.EVERY_EPOCH:
        return True
    blocks = problem.blocks(scheme.partition(problem.n), scheme.divisors(problem.n))
    if rank_one.serves(scheme, blocks) or few_samples.serves(scheme, problem.n, blocks):
        return True
    price = task(scheme, problem.n, blocks, 1.0)
    return (price.degree + 1) * price.exact_flops <= BUDGET


def certified_step(problem: LeastSquares, scheme: Scheme) -> float:
    """The step up to which the mean iterate converges, to a relative precision of 1e-9.

    For full batch and with replacement it is 2 / |W|. For reshuffling, every step below 2 / max |W_b| converges,
    since each visit then shrinks what it sees; from there on Z(step), a polynomial of degree B - 1,
    is followed exactly through its values at Chebyshev nodes until it stops being positive definite on the row
    space, or B step Z reaches 2. Intervals are passed only once a bound on the derivative excludes a crossing.
    Features of rank one have a shorter way, whatever the number of their rows (`rank_one`).

    >>> import reshuffle as rs
    >>> problem = rs.LeastSquares([[1.0], [3.0]], [0.0, 0.0])
    >>> round(rs.critical_step(problem, rs.FullBatch()), 12)  # 2 / ((1 + 9) / 2)
    0.4
    """
    if scheme.steps(problem.n) == 1 or scheme.shuffle is Shuffle.EVERY_STEP:
        return linear_critical_step(problem, scheme)
    visited = sum(len(part) for part in scheme.partition(problem.n))
    if visited < len(problem.compressed.X):
        # Rows that are never visited must not count as directions to be learned. Those that are come first.
        problem = problem.of_first(visited)
    blocks = problem.blocks(scheme.partition(problem.n), scheme.divisors(problem.n))
    if problem.rank == 0:
        return math.inf

    with few_threads(math.sqrt(blocks.rows.size)):
        if rank_one.serves(scheme, blocks):
            scaled = rank_one.rank_one_step(scheme, problem.n, blocks)
        else:
            kernels = _kernels(scheme, problem.n, blocks)
            scaled = _critical_scaled_step(contracting_step(scheme, problem.n, blocks), kernels)
    return scaled / problem.row_space.scale / problem.row_space.scale


@dataclass(frozen=True, eq=False)
class _Kernels:
    """The whitened kernel K (r, r) of Z = R'K R, a polynomial of this degree.

    `at` tells R and K of a step, and B with (I - Abar) / step = B Z.
    """

    degree: int
    at: Callable[[float], tuple[FloatArray, FloatArray, float]]


def _kernels(scheme: Scheme, n: int, blocks: Blocks) -> _Kernels:
    price = task(scheme, n, blocks, 1.0)
    expense = (price.degree + 1) * price.exact_flops
    few_price = (price.degree + 1) * few_samples.flops(scheme, n, blocks)
    if few_samples.serves(scheme, n, blocks) and expense > few_price:
        few = few_samples.FewSamples(scheme, n, blocks)
        return _Kernels(few.degree, lambda step: (few.triangle, few.kernel(step), 1.0))
    if math.isfinite(price.exact_flops):
        require_affordable(
            expense, BUDGET, f"the critical step of {price.steps} batches",
            "try fewer batches, or stability() of descend(...) at the steps of interest",
        )  # fmt: skip

    def at(step: float) -> tuple[FloatArray, FloatArray, float]:
        mean = task(scheme, n, blocks, step).exact()
        _, triangle, kernel = mean_map.whitened(mean)
        return triangle, kernel, mean.stride / step

    return _Kernels(price.degree, at)


def _critical_scaled_step(low: float, kernels: _Kernels) -> float:
    while True:
        # The visits at a step f times the contracting one stretch by 2 f - 1 at most: their product is kept near
        # enough to 1 that what its size costs in rounding is a fraction of the precision.
        reach = low * float(np.clip((1 + _STRETCH ** (1 / (kernels.degree + 1))) / 2, _WINDOW, _REACH))
        mean = _Interpolated(kernels, low, reach)
        while low < reach:
            high = min(_WINDOW * low, reach)
            crossing = _Window(mean, low, high).first_crossing()
            if crossing is not None:
                return crossing
            low = high


class _Interpolated:
    """The whitened kernel of Z, and Z in the coordinates of its factor, exactly at all steps from few of them."""

    def __init__(self, kernels: _Kernels, low: float, high: float):
        steps = MatrixPolynomial.nodes(kernels.degree + 1, low, high)
        known = [kernels.at(float(step)) for step in track(steps, len(steps), "interpolating in the step")]
        # The factor does not depend on the step, and neither does its QR decomposition.
        triangle, _, self.batches = known[0]
        values = [kernel for _, kernel, _ in known]
        self.kernel = MatrixPolynomial(values, low, high)
        self.Z = MatrixPolynomial([triangle.T @ kernel @ triangle for kernel in values], low, high)


class _Window:
    """Steps from `low` to `high`, in which convergence is decided.

    It means that two symmetric matrices are positive definite: the kernel, which has the signs of
    the eigenvalues of Z however badly X is conditioned, and 2 I - B step Z.
    """

    def __init__(self, mean: _Interpolated, low: float, high: float):
        self.low, self.high, self.batches = low, high, mean.batches
        self.kernel, self.Z = mean.kernel.within(low, high), mean.Z.within(low, high)

    def first_crossing(self) -> float | None:
        """The smallest step in the window at which one of the two stops being positive definite, or None."""
        gaps = (
            lambda step: self.kernel.eigenvalue(step, 0),
            lambda step: 2 - self.batches * step * self.Z.eigenvalue(step, -1),
        )
        slopes = (
            self.kernel.derivative_bound,
            self.batches * (self.Z.bound + self.high * self.Z.derivative_bound),
        )
        curvatures = (
            self.kernel.curvature_bound,
            self.batches * (2 * self.Z.derivative_bound + self.high * self.Z.curvature_bound),
        )
        return first_zero(gaps, slopes, curvatures, self.low, self.high)
