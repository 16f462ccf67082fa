"""Stability of the mean iterate: its convergence, its rate, and the subspace in which nothing moves."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import _arrays
from reshuffle._arrays import FloatArray
from reshuffle._display import Displayed
from reshuffle._uncertainty import ErrorKind, significant, with_error
from reshuffle.problem.row_space import CompressedRows, RowSpace

_EPS = float(np.finfo(np.float64).eps)
_SLOW = 1e-8
"""Convergence that is slower than this an epoch is worth a word."""
_SCALED = 100.0
"""Columns that differ in size by less are no reason for it."""


@dataclass(frozen=True)
class Stability(Displayed):
    """Convergence of the mean iterate from every start, and its rate.

    Attributes
    ----------
    converges : bool
        The rate is below one, and the range assumption holds. Open where one is within `error` of the rate.
    rate : float
        The spectral radius of I - B step Z on the range of Z: the factor of the slowest mode per epoch.
    advice : str
        Advice for convergence that is too slow to wait for; empty otherwise.
    error : float
        Error of the rate where the mean over orders is not exact. Infinite for `ShuffleOnce` with more
        orders than can be followed: the slowest of them need not be among those drawn.
    error_kind : str
        Kind of the error: "exact", "bound", "confidence 99%" or "estimate".
    """

    _shown = ("converges", "rate", "error", "error_kind", "advice")

    converges: bool
    rate: float
    error: float = 0.0
    error_kind: ErrorKind = "exact"
    advice: str = field(default="", compare=False)

    def __repr__(self) -> str:
        advice = f", advice={self.advice!r}" if self.advice else ""
        rate = with_error(self.rate, self.error, self.error_kind)
        return f"Stability(converges={self.converges}, rate={rate}{advice})"


def stability(
    decay_rates: FloatArray, repeats: int, range_assumption: bool, compressed: CompressedRows
) -> Stability:
    """Stability from the decay rates x of the modes in the range of Z, each multiplied by 1 - x."""
    factors = np.abs(1 - decay_rates) ** repeats
    # 1 - x rounds to one for x below eps: such a mode still converges, if slowly.
    are_stable = bool(((decay_rates > 0) & (decay_rates < 2)).all())
    converges = are_stable and range_assumption
    # The distance from one, which the rate itself has lost to rounding.
    gap = repeats * float(np.minimum(decay_rates, 2 - decay_rates).min(initial=np.inf))
    advice = slowness(compressed, gap) if converges else ""
    return Stability(converges, float(factors.max(initial=0.0)), advice=advice)


def slowness(compressed: CompressedRows, gap: float) -> str:
    """Advice where the slowest mode is multiplied by 1 - gap in an epoch and gap is tiny; nothing otherwise.

    >>> slowness(CompressedRows(np.array([[1.0, 1e6], [2.0, -1e6]]), np.zeros(2)), 1e-12)
    'a factor 1/e takes about 1e+12 epochs; the columns of X differ in size by a factor of 500000: scale them'
    """
    if not gap < _SLOW:
        return ""
    sizes = compressed.column_sizes
    if not sizes.any():
        return ""
    spread = float(sizes.max() / sizes[sizes > 0].min())
    epochs = f"about {significant(1 / gap, 1)}" if gap > 0 else f"{1 / _EPS:.0e} or more"
    cause = (
        f"the columns of X differ in size by a factor of {significant(spread, 1)}: scale them"
        if spread > _SCALED
        else "X is ill-conditioned or the step far too small: try another step, fewer columns or a penalty"
    )
    return f"a factor 1/e takes {epochs} epochs; {cause}"


@dataclass(frozen=True)
class RangeAssumption:
    """Range(Xtilde') lies in Range(Z), as Theorem batch_dynamics assumes, or does not.

    `violation` is what lies outside, |P_0 Xtilde'| relative to |X|. Where the assumption fails the noise in those
    directions adds up without end, k times after k epochs.
    """

    holds: bool
    violation: float


@dataclass(frozen=True, eq=False)
class FrozenSubspace:
    """The null space of Z, in which the error never decays.

    Under the range assumption the iterate does not move there at all; without it the noise drifts on.
    """

    dimension: int
    _space: RowSpace
    _modes: FloatArray

    def __repr__(self) -> str:
        return f"FrozenSubspace(dimension={self.dimension})"

    def project(self, vector: ArrayLike) -> FloatArray:
        """P_{Z,0} v, for v of shape (p,), without a p x p matrix."""
        vector = _arrays.vector("vector", vector, self._space.p, "one entry per parameter")
        inside = self._modes @ (self._modes.T @ self._space.coordinates(vector))
        return self._space.outside(vector) + self._space.lift(inside)
