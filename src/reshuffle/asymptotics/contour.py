"""Risks as sums over a contour around the spectrum of alpha Z.

Few points on a closed curve integrate to all digits. Expectations with two resolvents of alpha Z and Sigma between
them follow from the solutions at single points.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.special

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._progress import track
from reshuffle.asymptotics.batch_law import BatchLaw
from reshuffle.asymptotics.batch_system import BatchSystem, Blocks, Evaluation
from reshuffle.asymptotics.epoch_law import EpochLaw
from reshuffle.free.checks import Complex, ConvergenceError

_DIGITS = 36.0
"""Accuracy of the trapezoidal rule: minus the natural logarithm of its error."""
_NARROWEST = 1e-150
"""Smallest distance of the mapped interval from the mapped circle whose square is a number."""
_TINY = 0.05
"""Hyperbolic half-length of an interval that is small and far from the circle."""


@dataclass(frozen=True, eq=False)
class Contour:
    """The upper half of a closed curve around an interval: points (n,), and dz / (2 pi i) there.

    >>> contour = Contour.between(0.1, 1.5, 1.0, 1.0)
    >>> bool(abs(2 * (contour.weights / (contour.points - 0.7)).sum().real - 1) < 1e-12), len(contour.points)
    (True, 44)
    """

    points: Complex
    weights: Complex

    @classmethod
    def between(cls, low: float, high: float, centre: float, radius: float) -> "Contour":
        """The middle curve between [low, high] and the circle of a given centre and radius around it.

        A Moebius map makes the disc the unit disc and the interval [-l, l]; k^(1/2) sn(u; k) with k = l^2 takes
        the strip 0 < Im u < K'/2 to what is between them. On the line half way up, the trapezoidal rule in u
        converges geometrically, at a rate that falls with the logarithm of the gap alone. Source: Hale, Higham and
        Trefethen (2008), for the same domain.
        """
        # artanh((centre - place) / radius), with the digits of both distances.
        starts, ends = (
            0.5 * math.log((radius + (centre - place)) / (radius - centre + place)) for place in (high, low)
        )
        middle, half = (starts + ends) / 2, (ends - starts) / 2
        if half < _TINY:
            # A nearer circle does as well, and keeps the elliptic functions away from their degenerate limit.
            return cls.between(low, high, (low + high) / 2, 5 * (high - low) / 2)
        # 1 - l for l = tanh(half), with all its digits.
        gap = 2 / (math.exp(2 * half) + 1) if half < 300 else 0.0
        if not gap > _NARROWEST:
            raise ConvergenceError(
                f"no contour fits between the spectrum [{low:.3g}, {high:.3g}] and the circle of radius"
                f" {radius:.9g} around {centre:.3g}; ask for fewer epochs"
            )
        length = 1 - gap
        complement = gap * (1 + length) * (1 + length * length)
        periods = math.pi * float(scipy.special.ellipkm1(complement) / scipy.special.ellipk(complement))
        count = 4 + math.ceil(_DIGITS * 4 * periods / math.pi**2)
        v = periods * ((np.arange(count) + 0.5) / count - 0.5) + 0.125j * math.pi
        below, above, slope = _elliptic(v, periods)
        # y = (m + t)/(1 + m t) in the unit disc, z = centre - radius y, from 1 - y: small where z is.
        m, t = math.tanh(middle), (above - below) / 2
        rest, other = 2 / (math.exp(2 * middle) + 1), 2 / (math.exp(-2 * middle) + 1)
        denominator = above - rest * t if m >= 0 else below + other * t
        z = centre - radius + radius * rest * below / denominator
        weights = radius * rest * other * slope / denominator**2 * (periods / count) / (2j * math.pi)
        return cls(z.conj(), weights.conj())

    @classmethod
    def circle(cls, radius: float, count: int = 16) -> "Contour":
        """A circle around zero, for a pole there."""
        points = radius * np.exp(1j * math.pi * (np.arange(count) + 0.5) / count)
        return cls(points, points / (2 * count))


def _elliptic(v: Complex, periods: float) -> tuple[Complex, Complex, Complex]:
    """1 - t, 1 + t and dt/dv for t = k^(1/2) sn(2 K' v / pi; k), where pi K / K' is `periods`.

    t is a ratio of theta functions of the nome q = exp(-pi K / K'), which is small where k is close to one, and its
    derivative is a product of the two others: no term cancels another, however close t is to one.
    """
    numbers = np.arange(2 + math.ceil(math.sqrt(40 / periods)))[:, np.newaxis]
    odd = 2 * numbers + 1
    # q^(n (n + 1)) exp(+-(2n + 1) v) in one exponential: each may be far out of range by itself.
    down, up = (np.exp(-periods * numbers * (numbers + 1) + sign * odd * v) for sign in (-1, 1))
    even = numbers % 2 == 0
    whole = (down + up).sum(axis=0) / 2
    below, above = np.where(even, down, up).sum(axis=0), np.where(even, up, down).sum(axis=0)
    signs = (-1.0) ** numbers[1:]
    cosines = sum(np.exp(-periods * numbers[1:] ** 2 + sign * 2 * numbers[1:] * v) for sign in (-1, 1))
    product = (1 + cosines.sum(axis=0)) * (1 + (signs * cosines).sum(axis=0))
    nome = np.exp(-periods * np.arange(1, len(numbers)) ** 2)
    weights = np.exp(-periods * numbers * (numbers + 1))[:, 0]
    at_zero = (1 + 2 * nome.sum()) * (1 + 2 * (signs[:, 0] * nome).sum())
    speed = ((-1.0) ** numbers[:, 0] * odd[:, 0] * weights).sum() * weights.sum() / at_zero
    return below / whole, above / whole, speed * product / whole**2


def symmetric_sum(weights: Complex, values: Complex) -> FloatArray:
    """2 Re sum w f along the last axis: the integral of what is conjugate on conjugate points."""
    return np.asarray(2 * (values @ weights).real)


_ENTRIES = 3_000_000
"""Numbers that the linear systems solved together may hold."""


@dataclass(frozen=True, eq=False)
class TwoResolvents:
    """The pair transforms tau((z - alpha Z)^-1 Sigma (z' - alpha Z)^-1 Q), Q the noise or the signal.

    The block matrix [[A(z), -E (x) Sigma], [0, A(z')]] has A(z)^-1 E Sigma A(z')^-1 as the corner of its inverse,
    and is a linearization like A itself. Its fixed point is triangular: given the solutions at z and z', the
    corner solves one small linear system. `state` is evaluated at the solutions of the upper half of a contour;
    `source` (m,) is S at each eigenvalue of Sigma.
    """

    system: BatchSystem
    state: Evaluation
    source: FloatArray

    def tables(self) -> tuple[Complex, Complex]:
        """The transforms of noise and signal, (n, 2n) each: z at the n points, z' at these and their conjugates."""
        count = len(self.state.image)
        noise, signal = np.zeros((2, count, 2 * count), dtype=complex)
        parts = list(self._parts())
        for row, columns in track(parts, len(parts), "pairs"):
            found = self._pairs(row, columns)
            for table, values in zip((noise, signal), found, strict=True):
                table[row, columns] = values
                # T(z, z') = T(z', z), and conjugate points have conjugate values.
                lower = columns >= count
                table[columns[~lower], row] = values[~lower]
                table[columns[lower] - count, row + count] = values[lower].conj()
        return noise, signal

    def _parts(self) -> Iterator[tuple[int, IntArray]]:
        """A row each, and as many of the columns from its own on as are worked on together."""
        count = len(self.state.image)
        entries = self.system.entries**2 + 2 * sum(len(sizes) ** 4 for sizes in self.system.symmetry.sizes)
        width = max(1, _ENTRIES // entries)
        for row in range(count):
            columns = np.concatenate([np.arange(row, count), np.arange(row, count) + count])
            for start in range(0, len(columns), width):
                yield row, columns[start : start + width]

    @cached_property
    def _whole(self) -> Evaluation:
        return self.state.with_conjugates()

    @cached_property
    def _vectors(self) -> Complex:
        return self.system.noise_vectors(self._whole)

    @cached_property
    def _flat(self) -> list[Complex]:
        """G of each type as (eigenvalues, points, sizes^2): one product serves many pairs."""
        return [
            np.ascontiguousarray(block.reshape(*block.shape[:2], -1).transpose(1, 0, 2))
            for block in self._whole.blocks
        ]

    def _maps(self, row: int, columns: IntArray) -> Blocks:
        """The maps move -> mean of lambda^2 G(lambda) move G'(lambda) for each type, all at once."""
        weights = (self.system.weights * self.system.eigenvalues**2)[:, np.newaxis]
        maps = []
        for flat, sizes in zip(self._flat, self.system.symmetry.sizes, strict=True):
            size = len(sizes)
            left, right = weights * flat[:, row], flat[:, columns].reshape(len(flat), -1)
            whole = (left.T @ right).reshape(size, size, len(columns), size, size)
            maps.append(whole.transpose(2, 0, 3, 1, 4).reshape(len(columns), size * size, size * size))
        return maps

    def _pairs(self, row: int, columns: IntArray) -> tuple[Complex, Complex]:
        system, state = self.system, self._whole
        before = [np.broadcast_to(block[row], (len(columns), *block.shape[1:])) for block in state.factors]
        after = [block[columns] for block in state.factors]
        maps = self._maps(row, columns)
        source, through = system.from_corner(maps), system.through(maps)
        matrix = np.eye(system.entries) - system.weigh(before, after, through)
        solved = np.linalg.solve(matrix, -system.weigh(before, after, source))
        corner = (source - through @ solved)[..., 0]
        size = self._vectors.shape[2]
        inner = corner[:, : size * size].reshape(-1, size, size)
        scaled = (system.shares * system.squares / system.unit)[:, np.newaxis] * self._vectors[row]
        noise = np.einsum("ki,pij,pkj->p", scaled, inner, self._vectors[columns])
        return np.asarray(noise), self._signal(row, columns, solved[..., 0])

    def _signal(self, row: int, columns: IntArray, solved: Complex) -> Complex:
        """The mean over lambda of S lambda [G (E - spread) G']_00, with what couples the two points in between."""
        inner: Blocks = []
        start = 0
        for index in self.system.indices:
            inner.append(solved[:, start : start + index.size].reshape(-1, *index.shape))
            start += index.size
        between = -self.system.spread(inner)[0]
        between[:, 0, 0] += 1.0
        weights = (self.system.weights * self.source * self.system.eigenvalues)[:, np.newaxis]
        size = between.shape[1]
        # The first row of the one G, the first column of the other.
        left, right = weights * self._flat[0][:, row, :size], self._flat[0][:, columns, :size]
        rows = (left.T @ right.reshape(len(right), -1)).reshape(size, len(columns), size)
        return np.asarray(np.einsum("pab,apb->p", between, rows) / self.system.unit**2)


_PAIR, _MEAN = 6e-10, 1e-9
"""Seconds of one core per cubed entry of a linear system, and per product of a mean over Sigma."""
_WHOLE = 1e-7
"""Largest deviation of the mass inside the contour from that of the law."""


class Forms(NamedTuple):
    """A quadratic form of values f at the points of a contour, conjugate at conjugate points.

    It is 2 Re(sum_i single_i f_i^2 + sum_ij first_ij f_i f_j + second_ij f_i conj(f_j) + linear_i f_i).
    """

    single: Complex
    first: Complex
    second: Complex
    linear: Complex

    def __call__(self, values: Complex) -> FloatArray:
        """The form of functions (k, n)."""
        return np.asarray(self.bilinear(values, values) + 2 * (values @ self.linear).real)

    def bilinear(self, left: Complex, right: Complex) -> FloatArray:
        """The symmetric bilinear form of its quadratic part, for two functions (k, n)."""
        value = (left * right) @ self.single
        if self.first.size:
            value = value + ((left @ self.first) * right).sum(axis=-1)
            value = value + ((left @ self.second) * right.conj()).sum(axis=-1)
        return np.asarray(2 * value.real)

    def bound(self, left: FloatArray, right: FloatArray) -> FloatArray:
        """A bound of the form for functions that are at most so large at the points, (k, n) each."""
        value = (left * right) @ np.abs(self.single) + right @ np.abs(self.linear)
        if self.first.size:
            value = value + ((left @ (np.abs(self.first) + np.abs(self.second))) * right).sum(axis=-1)
        return np.asarray(2 * value)


@dataclass(frozen=True, eq=False)
class SpectralRisk:
    """Bias and variance for signal and noise of size one, given two functions of alpha Z.

    After an algorithm the error is decay(alpha Z) e_0 + drift(alpha Z) Xtilde' eta / n. With R = (z - alpha Z)^-1
    and S the squared signal,

        bias = oint oint decay(z) decay(z') tau(R Sigma R' S),
        variance = aspect oint oint drift(z) drift(z') tau(R Sigma R' M);

    with Sigma = s I, or S = I in the bias, one integral is enough. The null space of X has its own part, for
    decay(0) = 1: what is frozen, and how it meets the rest. Both functions are analytic inside the contour, which
    goes around the continuous spectrum; `holds_zero` if it encloses zero too (by default, if the spectrum reaches
    below it).
    """

    law: EpochLaw
    contour: Contour
    holds_zero: bool | None = None

    @property
    def points(self) -> Complex:
        """The nodes on the upper half of the contour, (n,)."""
        return self.contour.points

    @cached_property
    def _around_zero(self) -> Contour | None:
        """A circle around the atom at zero, where the signal has a direction and meets it."""
        law = self.law
        if law.population.source_is_even or law.frozen[1] == 0 or self._holds_zero or law.ends[0] <= 0:
            return None
        return Contour.circle(min(law.ends[0], float(np.abs(self.points).min())) / 2)

    @cached_property
    def _state(self) -> Evaluation:
        """The equations solved at the points, and at those around the atom."""
        assert isinstance(self.law, BatchLaw)
        circle = self._around_zero
        return self.law.states(
            self.points if circle is None else np.concatenate([self.points, circle.points])
        )

    @cached_property
    def _transforms(self) -> Complex:
        if not abs(self.missing) < _WHOLE:
            raise ConvergenceError(
                f"a contour around the spectrum of {self.law!r} misses a mass of {self.missing:.2g}; try another"
                " alpha"
            )
        return self._found

    @cached_property
    def _found(self) -> Complex:
        law, count = self.law, len(self.points)
        return law.read_off(self._state)[:, :count] if isinstance(law, BatchLaw) else law.outside(self.points)

    @property
    def missing(self) -> float:
        """The mass of the spectrum that is not inside the contour, with a negative sign what is too much."""
        inside = float(symmetric_sum(self.contour.weights, self._found[0]))
        return (1.0 if self._holds_zero else 1 - self.law.frozen[0]) - inside

    @cached_property
    def _holds_zero(self) -> bool:
        return self.law.ends[0] < 0 if self.holds_zero is None else self.holds_zero

    @cached_property
    def _tables(self) -> tuple[Complex, Complex]:
        """Both transforms at the pairs of points, those around the atom included."""
        law = self.law
        assert isinstance(law, BatchLaw)
        count = len(self.points) + (0 if self._around_zero is None else len(self._around_zero.points))
        # The linear systems of the pairs, and the means over Sigma that make them.
        means = sum(len(sizes) ** 4 for sizes in law.system.symmetry.sizes) * len(law.system.eigenvalues)
        law.afford(count**2 * (2e-5 + _PAIR * law.system.entries**3 + _MEAN * means))
        return TwoResolvents(law.system, self._state, law.population.source).tables()

    def _double(self, table: Complex) -> tuple[Complex, Complex]:
        """The table times both weights, for pairs in the upper half and for those of either half."""
        count, total = len(self.points), len(table)
        weights = self.contour.weights
        first = weights[:, np.newaxis] * table[:count, :count] * weights
        second = weights[:, np.newaxis] * table[:count, total : total + count] * weights.conj()
        return first, second

    @cached_property
    def bias(self) -> Forms:
        """The form of decay: what is learned of the signal, and its meeting with what is frozen, at size one."""
        none = np.zeros((0, 0), dtype=complex)
        nothing = np.zeros(len(self.points), dtype=complex)
        if self.law.population.source_is_even:
            return Forms(self.contour.weights * self._transforms[1], none, none, nothing)
        table, circle, meeting = self._tables[1], self._around_zero, nothing
        if circle is not None:
            count, total = len(self.points), len(table)
            upper, lower = table[:count, count:total], table[:count, total + count :]
            meeting = 2 * self.contour.weights * (upper @ circle.weights + lower @ circle.weights.conj())
        return Forms(nothing, *self._double(table), meeting)

    @property
    def counted_twice(self) -> float:
        """The frozen risk if the contour encloses zero, where the bias contains it already; else 0."""
        return self.law.frozen[1] if self._holds_zero else 0.0

    @cached_property
    def variance(self) -> Forms:
        """The form of drift, at noise one."""
        law = self.law
        nothing = np.zeros(len(self.points), dtype=complex)
        none = np.zeros((0, 0), dtype=complex)
        if law.population.is_isotropic:
            scale = law.aspect * float(law.population.eigenvalues[0])
            return Forms(scale * self.contour.weights * self._transforms[2], none, none, nothing)
        first, second = self._double(self._tables[0])
        return Forms(nothing, law.aspect * first, law.aspect * second, nothing)
