"""The critical step of features of rank one, with proof: the mean of an epoch is a number with real zeros.

Where all rows are multiples of one direction, with squared lengths a_j, a visit multiplies by 1 - step times the
mean of a in its batch, and these numbers commute. A fresh order of n samples, cut into B batches, has the mean

    f(step) = e_B(1 - step a_1, ..., 1 - step a_n) / binom(n, B) = sum_i (-step)^i binom(B, i) e_i(a) / binom(n, i),

that over one sample of each batch (e_i are the elementary symmetric functions). As a polynomial of the step it is a
product of factors 1 - step t_k with t_k >= 0, because e_B is hyperbolic. So, from (1 - x)^2 <= exp(x^2 - 2 x),

    log |f(step + h)| <= log |f| + h f'/f + h^2 / 2 ((f'/f)^2 - f''/f)          for all h:

three numbers at one step tell up to where f stays below one, and no interval of instability is missed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from reshuffle._core import FloatArray, IntArray
from reshuffle._core.progress import track
from reshuffle.problem.blocks import Blocks
from reshuffle.schemes.base import Scheme, Shuffle

ComplexArray: TypeAlias = NDArray[np.complex128]

MOST_ROWS = 20_000
"""Different squared lengths up to which the search takes seconds; it was 6 s for 20,000, in batches of 4."""
_PRECISION = 1e-12
"""Relative distance of two steps that count as one."""
_ROUNDING, _OF_ONE = 1e-13, 1e-15
"""Of f, relative to the largest integrand: in any case, and for each of its factors."""
_BLURRED = 1e-6
"""Share of the largest integrand below which f is too close to a zero for its logarithmic derivatives."""
_APART = 1e-6
"""Relative distance from such a step at which they are tried first."""
_NEGLIGIBLE = 45.0
"""Integrands smaller than exp(-45) times the largest one are left out."""
_FIRST_NODES = 64
_BESIDE = 8
"""Factors that are multiplied before a logarithm is taken: far too few to overflow."""
_SECTIONS, _ROUNDS = 15, 3
"""An angle is located by so many points at a time, so many times: to a thousandth."""
_HALVINGS = 8
"""A radius is known to a few thousandths."""
_CLOSE, _SLIGHT = 1e-3, 1e-2
"""How close Newton's iteration comes to a saddle point, and how far that must be from the real numbers."""


@dataclass(frozen=True)
class Local:
    """A polynomial f with real zeros alone, at one step.

    Attributes
    ----------
    log : float
        log |f|.
    slope, square : float
        f'/f and (f'/f)^2 - f''/f, the sum of the squares of 1 / (zero - step).
    size : float
        log of the largest number that f was summed from.
    rounding : float
        Relative to that number.
    """

    log: float
    slope: float
    square: float
    size: float
    rounding: float = 0.0

    @property
    def is_blurred(self) -> bool:
        """Whether the step is so close to a zero of f that little but rounding is left."""
        return not self.log - self.size > math.log(_BLURRED)

    @property
    def has_crossed(self) -> bool:
        """Whether |f| is one, or more, up to rounding."""
        return self.log >= -self._blur

    @property
    def to_touch(self) -> float:
        """How far on log |f|, which is concave between zeros of f, has its maximum; 0 if that is above zero."""
        touches = self.slope > 0 and self.log + self.slope * self.slope / (2 * self.square) <= self._blur
        return self.slope / self.square if touches else 0.0

    @property
    def _blur(self) -> float:
        return self.rounding * math.exp(max(self.size, 0.0))

    @property
    def reach(self) -> float:
        """Up to how much further on |f| is below one for certain.

        >>> Local(-2.0, 0.0, 1.0, 0.0).reach, Local(-2.0, 2.0, 0.0, 0.0).reach
        (2.0, 1.0)
        """
        root = math.sqrt(self.slope * self.slope - 2 * self.square * self.log)
        return -2 * self.log / (self.slope + root) if self.slope > 0 else (root - self.slope) / self.square


def serves(scheme: Scheme, blocks: Blocks) -> bool:
    """Whether features have rank one, and every epoch draws a fresh order of batches, samples or groups."""
    return blocks.rows.shape[1] == 1 and scheme.shuffle is Shuffle.EVERY_EPOCH and blocks.batches <= MOST_ROWS


def rank_one_step(scheme: Scheme, n: int, blocks: Blocks) -> float:
    """The first step at which |f| reaches one, in the scale of the blocks.

    >>> import reshuffle as rs
    >>> problem = rs.LeastSquares([[1.0], [2.0], [2.0]], [0.0, 0.0, 0.0])
    >>> step = rs.critical_step(problem, rs.SampleReshuffling(batch_size=1))
    >>> round(float(step), 9)  # (1 - step) (1 - 4 step)^2 touches one
    0.75
    """
    weight, visits, chances = visits_taken(scheme, n, blocks)
    squares = np.add.reduceat(np.square(blocks.rows[:, 0]), blocks.offsets[:-1])
    squares *= weight / blocks.divisors
    # Up to here every visit shrinks what it sees.
    return first_crossing(_Mean(squares, visits, chances).at, 2 / float(squares.max()))


def visits_taken(scheme: Scheme, n: int, blocks: Blocks) -> tuple[float, IntArray, FloatArray]:
    """The largest weight of a visit, and how many visits of that weight an epoch has, with the chance of each.

    A visit to a batch is one to any of its samples, as far as the mean goes; with a smaller weight, by a factor r,
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
    counts = chances > _OF_ONE * chances.max()
    return top, visits[counts], chances[counts]


def first_crossing(at: Callable[[float], Local], start: float) -> float:
    """The first step from `start` on, up to which |f| <= 1, at which |f| is one."""
    known = start
    for _ in track(count(), None, "following the mean"):
        back, here = 0.0, at(known)
        while here.is_blurred and back < known / 2:
            back = max(2 * back, _APART * known)
            here = at(known - back)
        reach = here.reach - back if not here.has_crossed else 0.0
        if reach <= _PRECISION * known:
            break
        known += reach
    # Next to a step at which |f| touches one, rounding has hidden the rest of the way.
    known += at(known).to_touch
    return known + at(known).to_touch


class _Mean:
    """f of samples with squares a (n,): the mean of e_J / binom(n, J) over the number J of visits (chances)."""

    def __init__(self, squares: FloatArray, visits: IntArray, chances: FloatArray):
        n = len(squares)
        self._squares, self._visits = squares, visits
        self._rounding = _ROUNDING + _OF_ONE * n
        self._logs = np.log(chances) - _log_binomial(n, visits)
        self._usual = int(self._visits[np.argmax(chances)])
        self._is_product = self._visits[0] == n
        # As many nodes as leave no other coefficient in their sum.
        self._enough = 2 * (int(max(self._visits[-1], n - self._visits[0])) // 2 + 1)
        self._nodes, self._radius, self._angle = _FIRST_NODES, 0.0, 0.0

    def at(self, step: float) -> Local:
        """f at a step, as the coefficient of z^J in the product of all 1 + (1 - step a) z."""
        factors = 1 - step * self._squares
        if self._is_product:
            return self._of_product(factors)
        if np.count_nonzero(factors) < self._usual:
            return Local(-math.inf, 0.0, 0.0, 0.0)
        if not self._follow(factors):
            self._search(factors)
        nodes, last = self._nodes, math.inf
        while True:
            sums, size = self._sums(factors, min(nodes, self._enough))
            if nodes >= self._enough or abs(sums[0] - last) <= self._rounding:
                break
            self._nodes, nodes, last = nodes, 2 * nodes, float(sums[0])
        if not sums[0]:
            return Local(-math.inf, 0.0, 0.0, size)
        slope = float(sums[1] / sums[0])
        square = max(slope * slope - float(sums[2] / sums[0]), slope * slope / self._visits[-1])
        return Local(math.log(abs(sums[0])) + size, slope, square, size, self._rounding)

    def _of_product(self, factors: FloatArray) -> Local:
        if not factors.all():
            return Local(-math.inf, 0.0, 0.0, 0.0)
        inverse = self._squares / factors
        log = float(np.log(np.abs(factors)).sum())
        return Local(log, -float(inverse.sum()), float(inverse @ inverse), log, self._rounding)

    def _sums(self, factors: FloatArray, nodes: int) -> tuple[FloatArray, float]:
        """f, f' and f'' over the largest integrand, and the logarithm of that, by the trapezoidal rule.

        On a circle |z| = r the product is concave in cos(angle), so that its maximum is the only one; the radius is
        that for which it is least. Sums are then of the size of f, but for phases that differ: nothing is lost.
        """
        first, last = self._span(factors)
        angles = 2 * math.pi * (np.arange(nodes // 2) + 0.5) / nodes
        angles = angles[(angles >= first) & (angles <= last)]
        z = math.exp(self._radius) * np.exp(1j * angles)
        ones = 1 + z[:, np.newaxis] * factors
        parts = z[:, np.newaxis] * self._squares / ones
        to_first = -parts.sum(axis=1)
        to_second = to_first**2 - np.square(parts, out=parts).sum(axis=1)
        logs = _log_of_product(ones)
        orders = self._logs - self._visits * self._radius
        shares = np.exp(orders - orders.max())
        size = float(orders.max()) + self._largest(factors) + math.log(float(shares.sum()))
        weights = np.exp(-1j * np.outer(angles, self._visits)) @ (shares / shares.sum())
        integrand = 2 / nodes * np.exp(logs - self._largest(factors)) * weights
        return np.array([(integrand * each).real.sum() for each in (1.0, to_first, to_second)]), size

    def _largest(self, factors: FloatArray) -> float:
        """log of the absolute product at the angle at which it is largest."""
        return float(self._sizes(factors, np.array([math.cos(self._angle)]))[0])

    def _sizes(self, factors: FloatArray, cosines: FloatArray) -> FloatArray:
        """log of the absolute product at angles of these cosines."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._moduli(factors, cosines)).sum(axis=1) / 2)

    def _moduli(self, factors: FloatArray, cosines: FloatArray) -> FloatArray:
        """|1 + factor z|^2 (angles, factors)."""
        scaled = math.exp(self._radius) * factors
        sines = np.sqrt(np.maximum(1 - cosines * cosines, 0.0))[:, np.newaxis]
        return np.asarray((1 + cosines[:, np.newaxis] * scaled) ** 2 + (sines * scaled) ** 2)

    def _follow(self, factors: FloatArray) -> bool:
        """Put radius and angle at the saddle point nearest to the last one, by Newton's iteration.

        There the derivative of log product - J log z is zero. Of its zeros at most two are not real, and through
        these the integral is taken. False where the iteration fails, or ends at a real one.
        """
        place = complex(self._radius, self._angle)
        for _ in range(_HALVINGS):
            if not (abs(place.real - self._radius) < 1 and _SLIGHT < place.imag < math.pi - _SLIGHT):
                return False
            ones = 1 + np.exp(place) * factors
            # z p'/p and its derivative in log z, for the product p.
            slope, bend = len(ones) - complex((1 / ones).sum()), complex((1 / ones - 1 / ones**2).sum())
            change = (slope - self._usual) / bend
            place -= change
            if abs(change) <= _CLOSE:
                break
        else:
            return False
        if not _SLIGHT < place.imag < math.pi - _SLIGHT:
            return False
        self._radius, self._angle = place.real, place.imag
        return True

    def _search(self, factors: FloatArray) -> None:
        """Put the radius where the largest integrand is least, and the angle to that one."""

        def grows(radius: float) -> bool:
            self._radius = radius
            cosine = self._highest(factors)
            scaled = math.exp(radius) * factors
            along = (scaled * cosine + scaled * scaled) / self._moduli(factors, np.array([cosine]))[0]
            return float(along.sum()) > self._usual

        low = high = self._radius
        width = 0.01
        if grows(low):
            while grows(low):
                high, low, width = low, low - width, 2 * width
        else:
            while not grows(high):
                low, high, width = high, high + width, 2 * width
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if grows(middle) else (middle, high)
        self._radius = (low + high) / 2
        self._angle = math.acos(self._highest(factors))

    def _highest(self, factors: FloatArray) -> float:
        """The cosine of the angle at which the product is largest, where its derivative changes its sign."""
        low, high = -1.0, 1.0
        scaled = math.exp(self._radius) * factors
        for _ in range(_ROUNDS):
            cosines = np.linspace(low, high, _SECTIONS + 2)
            slopes = (scaled / self._moduli(factors, cosines[1:-1])).sum(axis=1)
            passed = int((slopes > 0).sum())
            low, high = float(cosines[passed]), float(cosines[passed + 1])
        return (low + high) / 2

    def _span(self, factors: FloatArray) -> tuple[float, float]:
        """Angles between which the product is not negligible beside its maximum."""
        least = self._largest(factors) - _NEGLIGIBLE
        inner, outer = np.full(2, self._angle), np.array([0.0, math.pi])
        for _ in range(_HALVINGS):
            middle = (inner + outer) / 2
            counts = self._sizes(factors, np.cos(middle)) > least
            inner, outer = np.where(counts, middle, inner), np.where(counts, outer, middle)
        return float(outer[0]), float(outer[1])


def _log_of_product(factors: ComplexArray) -> ComplexArray:
    """The logarithm of the product along the last axis, of which only few are taken: they cost most."""
    nodes, count = factors.shape
    together = np.multiply.reduce(factors[:, : count - count % _BESIDE].reshape(nodes, -1, _BESIDE), axis=2)
    rest = np.log(factors[:, count - count % _BESIDE :]).sum(axis=1)
    return np.asarray(np.log(together).sum(axis=1) + rest)


def _log_binomial(n: int, chosen: IntArray) -> FloatArray:
    return np.asarray(gammaln(n + 1) - gammaln(chosen + 1) - gammaln(n - chosen + 1))
