"""Critical step of the mean iterate, with proof, where the mean epoch map is a polynomial of the step.

Without penalty or momentum the mean of an epoch is I - B step Z(step) on the row space, and Z is a polynomial of
degree B - 1. A run converges as long as functions of the step stay positive: the smallest eigenvalues of Z and of
2 I - B step Z, or -log |f| where features have rank one and the mean is a number f. Such a *gap* g obeys

    g(s + h) >= g(s) - fall h - curvature h^2 / 2                        for all h >= 0 (`Gap`),

which says how far the step may grow for certain. Going so far, again and again, leads to the first zero of the gap,
and past none of them: quadratically fast where it crosses zero, geometrically where it only touches zero.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import count

import numpy as np
import scipy.linalg
from numpy.polynomial import chebyshev

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import chebyshev_transform, few_threads, graded_svd
from reshuffle._progress import track
from reshuffle.epoch import epoch_map
from reshuffle.epoch.averaging.sampling import subset_means
from reshuffle.epoch.select import exact_mean
from reshuffle.problem.row_space import Blocks
from reshuffle.schemes.base import Scheme

BUDGET = 1e13
"""Operations that may be spent on a critical step: ten minutes or so."""
_PRECISION = 1e-12
"""Relative distance of two steps that count as one."""
_NEAR_TOUCH = 1e-3
"""Relative distance behind a zero within which its gap may turn out to touch zero only."""
_BESIDE = 1e-6
"""Relative distance from a zero of f, at which -log |f| has a pole, to where it is evaluated instead."""
_ROUNDING = 1e-13
"""Rounding of an eigenvalue, relative to a bound on its matrix; of -log |f| for each factor, over a hundred."""
_WINDOW, _REACH, _STRETCH = 1.25, 4.0, 1e3
"""Multiples of a step: up to which bounds of derivatives are sharp, and the mean is interpolated, at most; and how
far the mean may stretch there."""
_MOST_SUMS = 2e7
"""Products of long numbers that the coefficients of f take, at most: some seconds."""
_GUARD, _LONG = 200, 100
"""Bits of f beyond those that its sum loses, and bits of a square, or of a step, behind the point."""
_TINY = 1e-300
"""A mean from which on it is a number of ordinary size."""
_MOST_SAMPLES, _MOST_ENTRIES, _MOST_FLOPS = 20, 1e7, 3e9
"""Most samples whose subsets are followed, entries of a layer, and operations at B steps. 14 samples in as many
dimensions, one per batch, are below; a search, which interpolates several times, takes 5 s for them."""
_OF_A_CALL = 160.0
"""Operations that a subset costs on top of its products, of matrices that are multiplied many at a time."""
_NEVER = 1e-15
"""A probability that counts as zero, relative to the largest."""

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
        # Imported here: most commands do not need it, and it takes a sixth of a second.
        from scipy.optimize import brentq

        touch = gap(float(brentq(lambda place: gap(place).slope, here.step, beyond, xtol=1e-15 * step)))
        if touch.value >= -touch.rounding:
            return touch.step
    return step


def exact_step(scheme: Scheme, n: int, blocks: Blocks, start: float) -> float | None:
    """Critical step of the mean of random reshuffling, in the units of the features; None if that costs too much.

    Every visit must be a contraction at `start`. Features of rank one have a number for a mean. Others have
    matrices, polynomials of the step: from all subsets of few samples, or from the exact mean over orders,
    whichever is cheaper.
    """
    visits = visits_taken(scheme, n, blocks)
    most = int(visits[1][-1])
    with few_threads(math.sqrt(blocks.rows.size)):
        if blocks.rows.shape[1] == 1 and (
            visits[1][0] == blocks.batches or most * blocks.batches <= _MOST_SUMS
        ):
            return first_zero(_rank_one_gap(blocks, *visits), start)
        mean_of_orders, flops, _ = exact_mean(scheme, n, blocks, start)
        of_orders = scheme.steps(n) * flops
        of_samples = _flops_of_few_samples(scheme, n, blocks)
        if min(of_orders, of_samples) > BUDGET:
            return None
        if of_samples < of_orders:
            return _first_indefinite(*_few_samples(blocks, *visits), most - 1, start)
        mean = mean_of_orders()
        _, triangle, _ = epoch_map.whitened(mean)
        root = math.sqrt(mean.stride / start) * triangle
        return _first_indefinite(
            lambda step: epoch_map.whitened(exact_mean(scheme, n, blocks, step)[0]())[2],
            root,
            scheme.steps(n) - 1,
            start,
        )


# ----------------------------------------------------------------------------------------- polynomials of matrices


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


# ------------------------------------------------------------------------------------------------------ few samples


def visits_taken(scheme: Scheme, n: int, blocks: Blocks) -> tuple[float, IntArray, FloatArray]:
    """Largest weight of a visit, and how many visits of that weight an epoch has, with the chance of each.

    In the mean over orders a visit is one to any of the samples of its batch. With a smaller weight, by a factor r,
    it is one of the largest weight that takes place with the chance r.

    >>> import reshuffle as rs
    >>> scheme = rs.SampleReshuffling(batch_size=2, normalize="equal")
    >>> blocks = rs.gaussian(5, 1).blocks(scheme.partition(5), scheme.divisors(5))
    >>> visits_taken(scheme, 5, blocks)
    (1.2, array([2, 3]), array([0.5, 0.5]))
    """
    if not scheme.unit.is_cut:
        return 1.0, np.array([blocks.batches]), np.ones(1)
    weights = scheme.sizes(n) / scheme.rows_per_unit / scheme.step_divisors(n)
    top = float(weights.max())
    chances = np.ones(1)
    for weight in weights[weights < top] / top:
        chances = np.convolve(chances, [1 - weight, weight])
    visits = int((weights == top).sum()) + np.arange(len(chances))
    counts = chances > _NEVER * chances.max()
    return top, visits[counts], chances[counts]


def _flops_of_few_samples(scheme: Scheme, n: int, blocks: Blocks) -> float:
    """Operations of the kernel from subsets of samples at B steps; infinite where they are too many."""
    samples, steps = blocks.batches, scheme.steps(n)
    rows, rank = map(float, blocks.rows.shape)
    if not scheme.unit.is_cut or samples > _MOST_SAMPLES:
        return math.inf
    visits = float(sum(size * math.comb(samples, size) for size in range(1, steps + 1)))
    flops = steps * visits * (_OF_A_CALL + 8.0 * rows / samples * rank**2)
    entries = math.comb(samples, samples // 2) * rank**2
    return flops if flops <= _MOST_FLOPS and entries <= _MOST_ENTRIES else math.inf


def _few_samples(
    blocks: Blocks, weight: float, visits: IntArray, chances: FloatArray
) -> tuple[Kernel, FloatArray]:
    """Kernel of the mean over all orders of few shuffled samples, and the root R (r, r).

    With X = U R and R = diag(s) Q', a visit to sample i has the kernel U_i'U_i. The mean over orders of B visits is
    the mean over all subsets of B samples.
    """
    orthonormal, singular, turn = graded_svd(blocks.rows)
    rows = [orthonormal[blocks.of(sample)] for sample in range(blocks.batches)]
    kernels = weight * np.array([some.T @ some for some in rows])
    chance_of = dict(zip(visits.tolist(), chances.tolist(), strict=True))

    def kernel(step: float) -> FloatArray:
        layers = subset_means(kernels, step * np.square(singular), int(visits[-1]))
        total = sum(chance_of.get(size, 0.0) * layer.mean(axis=0) for size, layer in enumerate(layers))
        return np.asarray((total + np.transpose(total)) / 2)

    return kernel, singular[:, np.newaxis] * turn.T


# --------------------------------------------------------------------------------------------------------- rank one


def _rank_one_gap(
    blocks: Blocks, weight: float, visits: IntArray, chances: FloatArray
) -> Callable[[float], Gap]:
    """-log |f| of features of rank one, as a function of the step.

    Where all rows are multiples of one direction, with squared lengths a_j, a visit multiplies by 1 - step a_j, for
    one sample j of its batch, and these numbers commute. The mean over fresh orders of n samples in B visits is

        f(step) = e_B(1 - step a) / binom(n, B) = sum_i (-step)^i binom(B, i) e_i(a) / binom(n, i)

    with the elementary symmetric functions e_i, a product of factors 1 - step t with t >= 0, because e_B is
    hyperbolic: its t are the zeros of a derivative of the product of all x - a_j. From (1 - x)^2 <= exp(x^2 - 2 x),

        log |f(step + h)| <= log |f| + h f'/f + h^2 / 2 ((f'/f)^2 - f''/f)          for all h.
    """
    squares = np.add.reduceat(np.square(blocks.rows[:, 0]), blocks.offsets[:-1]) * weight / blocks.divisors
    top = float(squares.max())
    mean = None if visits[0] == len(squares) else _symmetric_mean(squares / top, visits, chances)
    rounding = _ROUNDING / 100 * len(squares)

    def at(step: float) -> Gap:
        if mean is None:
            factors = 1 - step * squares
            inverse = squares / factors if factors.all() else np.zeros(0)
            log = float(np.log(np.abs(factors)).sum()) if len(inverse) else -math.inf
            slope, square = -float(inverse.sum()), float(inverse @ inverse)
        else:
            log, slope, bend = mean(step * top)
            slope, square = slope * top, max(slope * slope - bend, slope * slope / visits[-1]) * top * top
        if math.isinf(log):
            return at(step * (1 - _BESIDE))
        return Gap(step, -log, -slope, slope, square, rounding)

    return at


def _symmetric_mean(
    squares: FloatArray, visits: IntArray, chances: FloatArray
) -> Callable[[float], tuple[float, float, float]]:
    """f(x) = mean over the number J of visits (chances) of e_J(1 - x a) / binom(n, J), for a (n,) between 0 and 1.

    Returns x -> log |f|, f'/f and f''/f; -inf where f is zero. Its terms are up to (1 + x)^J times as large as f:
    they are summed as whole numbers of as many bits behind the point as that takes.
    """
    n, most, bits = len(squares), int(visits[-1]), 0
    numbers = [int(math.ldexp(square, _LONG)) for square in squares.tolist()]
    exact = [(each, Fraction(chance)) for each, chance in zip(visits.tolist(), chances.tolist(), strict=True)]
    coefficients: list[int] = []

    def at(x: float) -> tuple[float, float, float]:
        nonlocal bits, coefficients
        needed = int(most * math.log2(1 + x) + math.log2(n)) + _GUARD
        if needed > bits:
            bits = needed + most
            sums = np.array([1 << bits] + [0] * most, dtype=object)
            for number in track(numbers, n, "symmetric functions"):
                sums[1:] += sums[:-1] * number >> _LONG
            weights = [sum(chance * math.comb(each, i) for each, chance in exact) for i in range(most + 1)]
            shares = [(-1) ** i * weight / math.comb(n, i) for i, weight in enumerate(weights)]
            coefficients = [
                total * share.numerator // share.denominator
                for total, share in zip(sums.tolist(), shares, strict=True)
            ]
        place, value, slope, bend = int(math.ldexp(x, _LONG)), 0, 0, 0
        for coefficient in reversed(coefficients):
            bend = (bend * place >> _LONG) + slope
            slope = (slope * place >> _LONG) + value
            value = (value * place >> _LONG) + coefficient
        if value == 0:
            return -math.inf, 0.0, 0.0
        near = abs(value) / (1 << bits)
        log = math.log(near) if near > _TINY else math.log(abs(value)) - bits * math.log(2)
        return log, slope / value, 2 * bend / value

    return at
