"""The mean of an epoch as an affine map that need not be symmetric, and its powers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from reshuffle.arrays import FloatArray
from reshuffle.moments.visits import Visits
from reshuffle.schemes import Scheme
from reshuffle.threads import few_threads


@dataclass(frozen=True, eq=False)
class AffineMap:
    """z -> z - D z + N zeta, with D = I - A (d, d) kept in place of A: no digits are lost where A is near I.

    `entries` N is (d, z).
    """

    loss: FloatArray
    entries: FloatArray

    def __call__(self, states: FloatArray) -> FloatArray:
        """Send states (d, z), one a column of the inputs, through the map."""
        return states - self.loss @ states + self.entries

    def twice(self) -> "AffineMap":
        """The map done two times: I - A^2 = 2 D - D^2."""
        return AffineMap(2 * self.loss - self.loss @ self.loss, 2 * self.entries - self.loss @ self.entries)

    def then(self, later: "AffineMap") -> "AffineMap":
        """The map followed by another: I - A_2 A_1 = D_1 + D_2 - D_2 D_1."""
        return AffineMap(
            self.loss + later.loss - later.loss @ self.loss,
            self.entries + later.entries - later.loss @ self.entries,
        )

    @property
    def radius(self) -> float:
        """The spectral radius of A."""
        if not len(self.loss):
            return 0.0
        return float(np.abs(1 - scipy.linalg.eigvals(self.loss, check_finite=False)).max())

    @property
    def settles(self) -> bool:
        """Whether every eigenvalue x of D has |1 - x| < 1, told from x itself: 1 - x would round to one."""
        x = scipy.linalg.eigvals(self.loss, check_finite=False) if len(self.loss) else np.zeros(0)
        size = np.abs(x)
        # |1 - x|^2 < 1 is |x|^2 < 2 Re x.
        return bool((size * size < 2 * x.real).all() and (size > 0).all())

    def fixed_point(self) -> FloatArray:
        """D^-1 N (d, z), where the states end if the map settles."""
        # Parameters and buffer are of very different size where the step is extreme: rows are brought to the same.
        sizes = np.abs(self.loss).max(axis=1, initial=0.0)[:, np.newaxis]
        scale = np.where(sizes == 0, 1.0, sizes)
        return np.asarray(scipy.linalg.solve(self.loss / scale, self.entries / scale, check_finite=False))


def mean_map(scheme: Scheme, n: int, visits: Visits, force: FloatArray) -> AffineMap:
    """The mean over the orders of an epoch, with inputs zeta = (1, y of the rows of the blocks).

    Parameters
    ----------
    scheme : Scheme
    n : int
        Rows that the scheme is for.
    visits : Visits
    force : (d,)
        What enters at every visit with the constant input 1.
    """
    d = visits.dimension
    identity = np.eye(d)

    def visit(batch: int, state: FloatArray) -> FloatArray:
        # The first d columns are D itself: I - G (I - D) = D + (I - G)(I - D).
        following = state.copy()
        following[:, :d] += visits.loss(batch, identity - state[:, :d])
        following[:, d:] -= visits.loss(batch, state[:, d:])
        following[:, d] += force
        following[:, d + 1 + visits.columns(batch)] += visits.entry(batch)
        return following

    start = np.zeros((d, d + 1 + len(visits.blocks.rows)))
    with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
        end = scheme.walk(n, visit, average, start)
    return AffineMap(np.ascontiguousarray(end[:, :d]), np.ascontiguousarray(end[:, d:]))


def average(states: Sequence[FloatArray]) -> FloatArray:
    """The mean of equally likely states."""
    if len(states) == 1:
        return states[0]
    total = states[0].copy()
    for state in states[1:]:
        total += state
    total /= len(states)
    return total


class Powers:
    """A map repeated any number of times, by the bits of that number; only the last power is remembered."""

    def __init__(self, once: AffineMap):
        self._once = once
        self._last, self._power = 1, once

    def after(self, count: float, states: FloatArray) -> FloatArray:
        """The states (d, z) after `count` more applications; inf where they grow out of the range of numbers."""
        times = int(count)
        if not times:
            return states
        with few_threads(len(states)), np.errstate(over="ignore", invalid="ignore"):
            if times != self._last:
                self._last, self._power = times, self._repeated(times)
            states = self._power(states)
        return np.where(np.isfinite(states), states, np.inf)

    def _repeated(self, times: int) -> AffineMap:
        doubled, made = self._once, None
        while True:
            if times & 1:
                made = doubled if made is None else made.then(doubled)
            times >>= 1
            if not times:
                assert made is not None
                return made
            doubled = doubled.twice()
