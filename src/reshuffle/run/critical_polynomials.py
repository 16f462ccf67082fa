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
from itertools import count

import numpy as np
import scipy.linalg
from numpy.polynomial import chebyshev
from scipy.optimize import brentq

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._budget import require_affordable
from reshuffle._linalg import chebyshev_transform, few_threads, thin_qr
from reshuffle._progress import track
from reshuffle.epoch import mean_map
from reshuffle.epoch.averaging.base import task
from reshuffle.problem.batches import Blocks
from reshuffle.problem.least_squares import LeastSquares
from reshuffle.schemes.base import Scheme, Shuffle

BUDGET = 1e13
"""Operations that may be spent on a critical step: ten minutes or so."""
_PRECISION = 1e-12
"""Relative distance of two steps that count as one."""
_NEAR_TOUCH = 1e-3
"""Relative distance behind a zero within which its gap may turn out to touch zero only."""
_BESIDE = 1e-6
"""Relative distance from a zero of f, at which -log |f| has a pole, to where it is evaluated instead."""
_ROUNDING = 1e-13
"""Of an eigenvalue, relative to a bound on its matrix; of -log |f| for each factor, over a hundred."""
_WINDOW, _REACH, _STRETCH = 1.25, 4.0, 1e3
"""Multiples of a step: up to which bounds of derivatives are sharp, and the mean is interpolated, at most; and how
far the mean may stretch there."""
_MOST_SUMS = 2e7
"""Products of long integers that the coefficients of f take, at most: some seconds."""
_LONG = 100
"""Bits behind the point of factors in long integers: more than a double has."""
_MOST_SAMPLES, _MOST_ENTRIES, _MOST_FLOPS = 20, 1e7, 3e9
"""Of subsets of few samples: how many samples, entries of a layer, and operations at B steps. 14 samples in as many
dimensions, one per batch, are below; a search, which interpolates several times, takes 5 s for them."""
_OF_A_CALL = 160.0
"""Operations that a subset costs beside its products, of matrices that are multiplied many at a time."""
_NEVER = 1e-15
"""A chance that is none, beside the largest."""


@dataclass(frozen=True)
class Gap:
    """A function of the step at one step, positive where the run converges.

    Attributes
    ----------
    step, value, slope : float
        Where, how large, and its derivative.
    fall, curvature : float
        g(step + h) >= value - fall h - curvature h^2 / 2 for all h >= 0.
    rounding : float
        How far the value may be off.

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


def is_polynomial(problem: LeastSquares, scheme: Scheme) -> bool:
    """True if `exact_critical_step` knows the mean at all steps it needs, within its budget."""
    if scheme.steps(problem.n) == 1 or scheme.shuffle is not Shuffle.EVERY_EPOCH:
        return True
    blocks = problem.blocks(scheme.partition(problem.n), scheme.divisors(problem.n))
    if _has_rank_one(scheme, problem.n, blocks) or _has_few_samples(scheme, problem.n, blocks):
        return True
    price = task(scheme, problem.n, blocks, 1.0)
    return (price.degree + 1) * price.exact_flops <= BUDGET


def exact_critical_step(problem: LeastSquares, scheme: Scheme, start: float) -> float:
    """Critical step of the mean of random reshuffling, from a step `start` at which every visit is a contraction.

    Features of rank one have a number for a mean (`_rank_one_gap`); the others have matrices, polynomials of the
    step that are known through their values at Chebyshev nodes (`_first_indefinite`). The step is that of features
    divided by their scale.
    """
    blocks = problem.blocks(scheme.partition(problem.n), scheme.divisors(problem.n))
    with few_threads(math.sqrt(blocks.rows.size)):
        if _has_rank_one(scheme, problem.n, blocks):
            return first_zero(_rank_one_gap(scheme, problem.n, blocks), start)
        return _first_indefinite(_kernels(scheme, problem.n, blocks), start)


class _MatrixPolynomial:
    """A symmetric matrix (r, r), polynomial in the step, through its values at Chebyshev nodes of an interval."""

    def __init__(self, matrix: Callable[[float], FloatArray], degree: int, low: float, high: float):
        self.degree, self.low, self.high = degree, low, high
        nodes = low + (high - low) * (chebyshev.chebpts1(degree + 1) + 1) / 2
        values = np.array([matrix(float(node)) for node in nodes])
        self._coefficients = np.tensordot(chebyshev_transform(degree + 1), values, axes=1)

    def __call__(self, step: float) -> FloatArray:
        """The matrix at a step."""
        node = 2 * (step - self.low) / (self.high - self.low) - 1
        return np.tensordot(chebyshev.chebvander(node, self.degree)[0], self._coefficients, axes=1)

    def gap(self) -> Callable[[float], Gap]:
        """The smallest eigenvalue, as a function of the step in the interval.

        Between steps the matrix M(s + h) is M + h M' up to h^2 / 2 times a bound on M'', from |T_j''| <=
        j^2 (j^2 - 1) / 3. The smallest eigenvalue of M + h M' is concave in h, and zero where -1 / h is the
        smallest eigenvalue of M' relative to M: it is above its chord up to there.
        """
        squares, stretch = np.arange(self.degree + 1) ** 2, 2 / (self.high - self.low)
        sizes = np.array([np.abs(scipy.linalg.eigvalsh(matrix)).max() for matrix in self._coefficients])
        curvature = float(squares * (squares - 1) / 3 @ sizes) * stretch**2
        rounding = _ROUNDING * float(sizes.sum())
        slopes = chebyshev.chebder(self._coefficients, scl=stretch) if self.degree else 0 * self._coefficients

        def at(step: float) -> Gap:
            matrix = self(step)
            node = 2 * (step - self.low) / (self.high - self.low) - 1
            slope = np.tensordot(chebyshev.chebvander(node, len(slopes) - 1)[0], slopes, axes=1)
            (value,), vectors = scipy.linalg.eigh(matrix, subset_by_index=[0, 0], check_finite=False)
            along = float(vectors[:, 0] @ slope @ vectors[:, 0])
            if value <= rounding:
                return Gap(step, float(value), along, math.inf, curvature, rounding)
            (relative,) = scipy.linalg.eigh(
                slope, matrix, subset_by_index=[0, 0], eigvals_only=True, check_finite=False
            )
            return Gap(step, float(value), along, float(value * max(-relative, 0.0)), curvature, rounding)

        return at


@dataclass(frozen=True, eq=False)
class _Kernels:
    """Whitened kernel K (r, r) of Z = R'K R, a polynomial of this degree; I - Abar = B step Z.

    K has the signs of the eigenvalues of Z however badly X is conditioned. `at` gives R, K and B at a step.
    """

    degree: int
    at: Callable[[float], tuple[FloatArray, FloatArray, float]]


def _first_indefinite(kernels: _Kernels, low: float) -> float:
    """First step from `low` at which K or 2 I - B step R'K R stops being positive definite."""
    triangle, kernel, batches = kernels.at(low)
    identity = np.eye(len(kernel))
    while True:
        # The visits at a step f times the contracting one stretch by 2 f - 1 at most: their product is kept near
        # enough to 1 that what its size costs in rounding is a fraction of the precision.
        reach = low * float(np.clip((1 + _STRETCH ** (1 / (kernels.degree + 1))) / 2, _WINDOW, _REACH))
        mean = _MatrixPolynomial(lambda step: kernels.at(step)[1], kernels.degree, low, reach)

        def to_two(step: float, mean: _MatrixPolynomial = mean) -> FloatArray:
            return np.asarray(2 * identity - batches * step * (triangle.T @ mean(step) @ triangle))

        while low < reach:
            high = min(_WINDOW * low, reach)
            end = first_zero(_MatrixPolynomial(mean, mean.degree, low, high).gap(), low, high)
            end = first_zero(_MatrixPolynomial(to_two, mean.degree + 1, low, high).gap(), low, end)
            if end < high:
                return end
            low = high


def _kernels(scheme: Scheme, n: int, blocks: Blocks) -> _Kernels:
    """Kernels from all subsets of few samples, or from the exact mean over orders, whichever is cheaper."""
    price = task(scheme, n, blocks, 1.0)
    expense = (price.degree + 1) * price.exact_flops
    if _has_few_samples(scheme, n, blocks) and expense > (price.degree + 1) * _flops(scheme, n, blocks):
        return _kernels_of_few_samples(scheme, n, blocks)
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


def visits_taken(scheme: Scheme, n: int, blocks: Blocks) -> tuple[float, IntArray, FloatArray]:
    """The largest weight of a visit, and how many visits of that weight an epoch has, with the chance of each.

    One sample of a batch stands for it in the mean over orders: a visit is one to any of its samples. With a
    smaller weight, by a factor r, it is one of the largest weight that takes place with the chance r.

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


def _flops(scheme: Scheme, n: int, blocks: Blocks) -> float:
    """Operations of the kernel of few samples at one step; infinite for subsets beyond count."""
    samples, steps = blocks.batches, scheme.steps(n)
    rows, rank = map(float, blocks.rows.shape)
    if samples > _MOST_SAMPLES:
        return math.inf
    visits = sum(size * math.comb(samples, size) for size in range(1, steps + 1))
    return float(visits) * (_OF_A_CALL + 8.0 * rows / samples * rank**2)


def _has_few_samples(scheme: Scheme, n: int, blocks: Blocks) -> bool:
    """True if shuffled samples, or groups of rows, are so few that all subsets are followed."""
    samples, rank = blocks.batches, float(blocks.rows.shape[1])
    shuffles = scheme.shuffle is Shuffle.EVERY_EPOCH and scheme.unit.is_cut
    if not shuffles or scheme.steps(n) * _flops(scheme, n, blocks) > _MOST_FLOPS:
        return False
    return float(math.comb(samples, samples // 2)) * rank**2 <= _MOST_ENTRIES


def _kernels_of_few_samples(scheme: Scheme, n: int, blocks: Blocks) -> _Kernels:
    """Kernels of the mean over all orders of few shuffled samples, by a recursion over subsets S of B samples.

    Abar is the mean of F(S), with F(S) = mean over i in S of (I - step x_i x_i') F(S - i). In terms of kernels,
    (I - F(S)) / step = R'K(S) R and x_i = R'U_i',

        K(S) = mean over i in S of K(S - i) + U_i'U_i (I - step R R'K(S - i)).
    """
    weight, visits, chances = visits_taken(scheme, n, blocks)
    most, samples = int(visits[-1]), blocks.batches
    orthonormal, triangle = thin_qr(blocks.rows)
    between, rank = triangle @ triangle.T, len(triangle)
    members = np.arange(1 << samples)
    sizes = np.array([subset.bit_count() for subset in members.tolist()])
    chance_of = dict(zip(visits.tolist(), chances.tolist(), strict=True))

    def at(step: float) -> tuple[FloatArray, FloatArray, float]:
        places = np.empty(len(members), dtype=np.int64)
        layer, total = np.zeros((1, rank, rank)), np.zeros((rank, rank))
        for size in range(1, most + 1):
            places[members[sizes == size - 1]] = np.arange(len(layer))
            subsets = members[sizes == size]
            following = np.zeros((len(subsets), rank, rank))
            for sample in range(samples):
                rows = orthonormal[blocks.of(sample)]
                chosen = np.flatnonzero(subsets >> sample & 1)
                before = layer[places[subsets[chosen] ^ (1 << sample)]]
                seen = rows - step * (rows @ between) @ before
                following[chosen] += before + weight * rows.T @ seen
            layer = following / size
            total += chance_of.get(size, 0.0) * layer.mean(axis=0)
        return triangle, np.asarray((total + total.T) / 2), 1.0

    return _Kernels(most - 1, at)


def _has_rank_one(scheme: Scheme, n: int, blocks: Blocks) -> bool:
    """True if features have rank one, and every epoch draws a fresh order of batches, samples or groups."""
    if blocks.rows.shape[1] != 1 or scheme.shuffle is not Shuffle.EVERY_EPOCH:
        return False
    _, visits, _ = visits_taken(scheme, n, blocks)
    return bool(visits[0] == blocks.batches or visits[-1] * blocks.batches <= _MOST_SUMS)


def _rank_one_gap(scheme: Scheme, n: int, blocks: Blocks) -> Callable[[float], Gap]:
    """-log |f| of features of rank one, as a function of the step.

    Where all rows are multiples of one direction, with squared lengths a_j, a visit multiplies by 1 - step a_j, for
    one sample j of its batch, and these numbers commute. The mean over fresh orders of n samples in B visits is

        f(step) = e_B(1 - step a) / binom(n, B) = sum_i (-step)^i binom(B, i) e_i(a) / binom(n, i)

    with the elementary symmetric functions e_i, a product of factors 1 - step t with t >= 0, because e_B is
    hyperbolic: its t are the zeros of a derivative of the product of all x - a_j. From (1 - x)^2 <= exp(x^2 - 2 x),

        log |f(step + h)| <= log |f| + h f'/f + h^2 / 2 ((f'/f)^2 - f''/f)          for all h.
    """
    weight, visits, chances = visits_taken(scheme, n, blocks)
    squares = np.add.reduceat(np.square(blocks.rows[:, 0]), blocks.offsets[:-1]) * weight / blocks.divisors
    top = float(squares.max())
    mean = None if visits[0] == len(squares) else _SymmetricMean(squares / top, visits, chances)
    rounding = _ROUNDING / 100 * len(squares)

    def at(step: float) -> Gap:
        if mean is None:
            factors = 1 - step * squares
            inverse = squares / factors if factors.all() else np.zeros(0)
            log = float(np.log(np.abs(factors)).sum()) if len(inverse) else -math.inf
            slope, square = -float(inverse.sum()), float(inverse @ inverse)
        else:
            log, slope, bend = mean.at(step * top)
            slope, square = slope * top, max(slope * slope - bend, slope * slope / visits[-1]) * top * top
        if math.isinf(log):
            return at(step * (1 - _BESIDE))
        return Gap(step, -log, -slope, slope, square, rounding)

    return at


class _SymmetricMean:
    """f(x) = mean over the number J of visits (chances) of e_J(1 - x a) / binom(n, J), for a (n,) between 0 and 1.

    Its terms are up to (1 + x)^J times as large as f: they are summed in integers of as many bits as that takes.
    """

    def __init__(self, squares: FloatArray, visits: IntArray, chances: FloatArray):
        self._squares = [int(math.ldexp(square, _LONG)) for square in squares.tolist()]
        self._visits, self._chances = visits.tolist(), chances.tolist()
        self._bits, self._coefficients = 0, [0]

    def _sum(self, bits: int) -> None:
        """Find the coefficients of f, with so many bits behind the point."""
        n, most = len(self._squares), self._visits[-1]
        sums = np.array([1 << bits] + [0] * most, dtype=object)
        for square in track(self._squares, n, "symmetric functions"):
            sums[1:] += sums[:-1] * square >> _LONG
        weights = [
            sum(
                int(math.ldexp(chance, _LONG)) * math.comb(each, i)
                for each, chance in zip(self._visits, self._chances, strict=True)
            )
            for i in range(most + 1)
        ]
        self._bits = bits
        self._coefficients = [
            (-1) ** i * (total * weights[i] // math.comb(n, i) >> _LONG) for i, total in enumerate(sums)
        ]

    def at(self, x: float) -> tuple[float, float, float]:
        """log |f|, f'/f and f''/f; -inf where f is zero."""
        most = self._visits[-1]
        bits = int(most * math.log2(1 + x) + math.log2(len(self._squares))) + 2 * _LONG
        if bits > self._bits:
            self._sum(int(bits + most * 0.6))
        place, value, slope, bend = int(math.ldexp(x, _LONG)), 0, 0, 0
        for coefficient in reversed(self._coefficients):
            bend = (bend * place >> _LONG) + slope
            slope = (slope * place >> _LONG) + value
            value = (value * place >> _LONG) + coefficient
        if value == 0:
            return -math.inf, 0.0, 0.0
        one = 1 << self._bits
        is_small = 2 * abs(value) < one
        log = (
            math.log(abs(value)) - self._bits * math.log(2)
            if is_small
            else math.log1p((abs(value) - one) / one)
        )
        return log, slope / value, 2 * bend / value
