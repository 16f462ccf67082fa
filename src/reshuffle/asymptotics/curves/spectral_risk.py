"""The risk of whatever is a function of alpha Z, as sums over a contour around its spectrum."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.asymptotics.curves.resolvent_pairs import PairTables, TwoResolvents
from reshuffle.asymptotics.curves.spectral_contour import Contour, symmetric_sum
from reshuffle.asymptotics.laws.batch_law import BatchLaw
from reshuffle.asymptotics.laws.batch_system import State
from reshuffle.asymptotics.laws.epoch_law import EpochLaw
from reshuffle.free.checks import Complex, ConvergenceError

_PAIR, _MEAN = 6e-10, 1e-9
"""Seconds of one core per cubed entry of a linear system, and per product of a mean over Sigma."""
_WHOLE = 1e-7
"""What the mass inside the contour may differ from that of the law."""


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
        """Its quadratic part for two functions (k, n) each, symmetric in them."""
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
    decay(0) = 1: what is frozen, and how it meets the rest.

    Parameters
    ----------
    law : EpochLaw
    contour : Contour
        Around the continuous spectrum; both functions are analytic inside.
    holds_zero : bool, optional
        Whether zero, and what is frozen, is inside too; by default if the spectrum reaches below it.
    """

    law: EpochLaw
    contour: Contour
    holds_zero: bool | None = None

    @property
    def points(self) -> Complex:
        """Of the upper half of the contour, (n,)."""
        return self.contour.points

    @cached_property
    def _around_zero(self) -> Contour | None:
        """A circle around the atom at zero, where the signal has a direction and meets it."""
        law = self.law
        if law.population.source_is_even or law.frozen[1] == 0 or self._holds_zero or law.ends[0] <= 0:
            return None
        return Contour.circle(min(law.ends[0], float(np.abs(self.points).min())) / 2)

    @cached_property
    def _state(self) -> State:
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
    def _tables(self) -> PairTables:
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
        return Forms(nothing, *self._double(self._tables.signal), self._meeting())

    def _meeting(self) -> Complex:
        count, total = len(self.points), len(self._tables.signal)
        circle = self._around_zero
        if circle is None:
            return np.zeros(count, dtype=complex)
        upper, lower = self._tables.signal[:count, count:total], self._tables.signal[:count, total + count :]
        return np.asarray(2 * self.contour.weights * (upper @ circle.weights + lower @ circle.weights.conj()))

    @property
    def frozen(self) -> float:
        """The risk of what is never learned. A contour that holds zero too has it among the bias."""
        return self.law.frozen[1]

    @property
    def counted_twice(self) -> float:
        """What of the frozen risk is inside the contour, and among the bias."""
        return self.frozen if self._holds_zero else 0.0

    @cached_property
    def variance(self) -> Forms:
        """The form of drift, at noise one."""
        law = self.law
        nothing = np.zeros(len(self.points), dtype=complex)
        none = np.zeros((0, 0), dtype=complex)
        if law.population.is_isotropic:
            scale = law.aspect * float(law.population.eigenvalues[0])
            return Forms(scale * self.contour.weights * self._transforms[2], none, none, nothing)
        first, second = self._double(self._tables.noise)
        return Forms(nothing, law.aspect * first, law.aspect * second, nothing)
