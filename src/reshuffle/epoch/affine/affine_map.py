"""The mean of an epoch as an affine map that need not be symmetric, and its powers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, Self, TypeAlias, TypeVar

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from reshuffle._arrays import AnyArray, BoolArray, FloatArray, IntArray
from reshuffle._blas import few_threads
from reshuffle.epoch.affine.visits import Visits
from reshuffle.epoch.averaging.lattice import Process
from reshuffle.problem.outputs import beside

Follow: TypeAlias = Callable[[Process[FloatArray]], FloatArray]

Repeated = TypeVar("Repeated", bound="Follows")

_EPS = float(np.finfo(np.float64).eps)
_DOUBLINGS = 1100
"""A mode that has not faded after 2^1100 epochs moves by less than the smallest number."""
_LOST = 1e150
"""Size of a power beyond which it does not return."""
_HALF = 0.5
"""What is left of anything once a map has faded."""


@dataclass(frozen=True, eq=False)
class AffineMap:
    """z -> z - D z + N zeta with D = L K R and N = L E, for diagonal L and R.

    D = I - A is kept in place of A, so that no digits are lost where A is near I; and the kernel K in place of D,
    so that none are lost where features are ill-conditioned: their sizes are in L and R alone.

    Attributes
    ----------
    left, right : (d,)
        L and R.
    kernel : (d, d)
        K.
    entries : (d, z)
        E.
    weight : float
        The size of K before anything cancels in it: what visits undo of each other is known up to rounding of this.
    entry_sizes : (z,)
        The sizes of the columns of E, likewise before anything cancels.
    """

    left: FloatArray
    right: FloatArray
    kernel: FloatArray
    entries: FloatArray
    weight: float
    entry_sizes: FloatArray

    @property
    def loss(self) -> FloatArray:
        """D (d, d)."""
        return self.left[:, np.newaxis] * self.kernel * self.right

    @property
    def is_finite(self) -> bool:
        """Whether the map is within the range of numbers."""
        return bool(np.isfinite(self.graded).all() and np.isfinite(self.left).all())

    def __call__(self, states: FloatArray) -> FloatArray:
        """Send states (d, z), one a column of the inputs, through the map."""
        moved = self.kernel @ (self.right[:, np.newaxis] * states) - self.entries
        return states - self.left[:, np.newaxis] * moved

    @property
    def grades(self) -> FloatArray:
        """R L (d,), the sizes of the eigenvalues of D."""
        return self.left * self.right

    def then(self, later: "AffineMap") -> "AffineMap":
        """The map followed by another of the same step: I - A_2 A_1 = D_1 + D_2 - D_2 D_1."""
        after = later.kernel * self.grades
        return replace(
            self,
            kernel=self.kernel + later.kernel - after @ self.kernel,
            entries=self.entries + later.entries - after @ self.entries,
        )

    def fed(self, inputs: FloatArray) -> "AffineMap":
        """The map with given inputs zeta (z,), or (z, t) of several outputs: a column enters for each."""
        columns = beside(inputs)
        sizes = np.abs(columns) * self.entry_sizes[:, np.newaxis]
        # Nothing enters from an input of zero, however far beyond the range of numbers its entry is.
        some = (columns != 0).any(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            entries = self.entries[:, some] @ columns[some]
            for output in np.flatnonzero(~np.isfinite(entries).all(axis=0)) if columns.shape[1] > 1 else ():
                own = columns[:, output] != 0
                entries[:, output] = self.entries[:, own] @ columns[own, output]
        return replace(self, entries=entries, entry_sizes=sizes.max(axis=0))

    def part(self, place: IntArray) -> "AffineMap":
        """The map on some of the coordinates, if they have nothing to do with the others."""
        kernel = self.kernel[np.ix_(place, place)]
        return replace(
            self, left=self.left[place], right=self.right[place], kernel=kernel, entries=self.entries[place]
        )

    @cached_property
    def graded(self) -> FloatArray:
        """D (d, d) where it is as small to the right as to the left: R^1/2 L^1/2 K L^1/2 R^1/2."""
        roots = np.sqrt(self.left) * np.sqrt(self.right)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(roots[:, np.newaxis] * self.kernel * roots)

    @cached_property
    def eigenvalues(self) -> AnyArray:
        """The complex eigenvalues x of D (d,); an epoch multiplies what belongs to them by 1 - x."""
        if not len(self.kernel):
            return np.zeros(0, dtype=complex)
        # The QR algorithm keeps most digits of the small eigenvalues if the large ones come first. LAPACK scales
        # matrices beyond 1e138 down, and its eigenvalues not up again.
        order = np.argsort(-self.grades, kind="stable")
        exponent = int(np.frexp(np.abs(self.graded).max())[1])
        scaled = np.ldexp(self.graded[np.ix_(order, order)], -exponent)
        return np.asarray(scipy.linalg.eigvals(scaled, check_finite=False) * 2.0**exponent)

    @property
    def radius(self) -> float:
        """The spectral radius of A."""
        return float(np.abs(1 - self.eigenvalues).max(initial=0.0))

    @cached_property
    def settles(self) -> bool:
        """Whether every eigenvalue x of D has |1 - x| < 1: whether A^(2^j) fades as the map is doubled.

        Doubling forgets its rounding errors where a mode has faded, and keeps all digits of those that hardly have.
        """
        return bool(fades(self.left, self.right, self.kernel[np.newaxis], self.weight)[0])

    def fixed_point(self) -> FloatArray:
        """D^-1 N = R^-1 K^-1 E (d, z), where the states end if the map settles."""
        return np.asarray(np.linalg.solve(self.kernel, self.entries) / self.right[:, np.newaxis])


def fades(left: FloatArray, right: FloatArray, kernels: FloatArray, weight: float) -> BoolArray:
    """Which of the finite maps I - L K R (c, d, d) fade as they are doubled."""
    fading = np.array([not _stands(kernel, weight) for kernel in kernels], dtype=bool)
    roots, identity = np.sqrt(left) * np.sqrt(right), np.eye(len(left))
    # Those of which it is not known yet.
    open_ = np.flatnonzero(fading)
    kernels = kernels[open_]
    fading[open_] = False
    grades = left * right
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_DOUBLINGS if len(left) else 0):
            left_over = np.abs(identity - roots[:, np.newaxis] * kernels * roots)
            most = _largest(left_over)
            # Sums of rows are taken only where they may be that small.
            faded = most < _HALF
            if faded.any():
                faded = left_over.sum(axis=2).max(axis=1) < _HALF
                fading[open_[faded]] = True
            following = 2 * kernels - (kernels * grades) @ kernels
            stays = _largest(np.abs(following - kernels)) <= _EPS * _largest(np.abs(kernels))
            goes_on = (most < _LOST) & ~(faded | stays)
            if not goes_on.any():
                break
            open_, kernels = (open_, following) if goes_on.all() else (open_[goes_on], following[goes_on])
    return fading if len(left) else np.ones(len(fading), dtype=bool)


def _largest(matrices: FloatArray) -> FloatArray:
    """The largest entry (c,) of each of several matrices (c, d, d)."""
    count, height, width = matrices.shape
    return np.asarray(matrices.reshape(count, height * width).max(axis=1))


def _stands(kernel: FloatArray, weight: float) -> bool:
    """Whether visits undo each other in some direction, up to rounding: K is singular, nothing moves there."""
    if not len(kernel):
        return False
    factors, *_ = lapack.dgetrf(kernel)
    norm = float(np.abs(kernel).sum(axis=0).max())
    reciprocal, _ = lapack.dgecon(factors, norm)
    return bool(reciprocal * norm <= _EPS * len(kernel) * weight)


def settling(x: AnyArray) -> AnyArray:
    """Whether |1 - x| < 1, told from x itself: 1 - x would round to one."""
    # |1 - x|^2 < 1 is |x| < 2 Re x / |x|.
    size = np.abs(x)
    cosine = np.divide(x.real, size, out=np.zeros(np.shape(size)), where=size > 0)
    return np.asarray(size < 2 * cosine)


def mean_map(follow: Follow, steps: int, visits: Visits, force: FloatArray) -> AffineMap:
    """The mean over the orders of an epoch, with inputs zeta = (1, y of the rows of the blocks).

    Parameters
    ----------
    follow : callable
        The mean of a process over the orders of an epoch.
    steps : int
        Visits of an epoch.
    visits : Visits
    force : (r,)
        Minus the gradient that enters at every visit with the constant input 1, without the factor L.
    """
    d, rows = visits.dimension, len(visits.blocks.rows)
    grades = (visits.left * visits.right)[:, np.newaxis]
    nothing = np.zeros((d, d + 1 + rows))
    begin = nothing.copy()
    begin[:, :d] = np.eye(d)

    def visit(batch: int, state: FloatArray, slot: int) -> FloatArray:
        # [K, E] -> [K + K_b (I - R L K), E - K_b R L E + E_b].
        following = state + visits.kernel(batch, begin - grades * state, slot) if d else state.copy()
        following[:, d] += visits.pushed(force, slot)
        following[:, d + 1 + visits.columns(batch)] += visits.unit_entry(batch, slot)
        return following

    with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
        end = follow(Process(visit, average, nothing))
    kernel, entries = np.ascontiguousarray(end[:, :d]), np.ascontiguousarray(end[:, d:])
    return AffineMap(visits.left, visits.right, kernel, entries, *visits.sizes_of(steps, force))


def followed_states(
    follow: Follow, visits: Visits, force: FloatArray, states: FloatArray, inputs: FloatArray | None
) -> FloatArray:
    """The mean of states (d, z) after an epoch, with z = 1 + rows, or a column per output for given inputs.

    What visits add up to is kept in place of the states, so that no digits are lost where they do little.
    """

    def visit(batch: int, change: FloatArray, slot: int) -> FloatArray:
        following = change - visits.loss(batch, states + change, slot)
        constant, columns = visits.left * visits.pushed(force, slot), 1 + visits.columns(batch)
        if inputs is None:
            following[:, 0] += constant
            following[:, columns] += visits.entry(batch, slot)
        else:
            given = beside(inputs)
            following += constant[:, np.newaxis] * given[0] + visits.entry(batch, slot) @ given[columns]
        return following

    with few_threads(visits.dimension), np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(states + follow(Process(visit, average, np.zeros_like(states))))


def average(states: Sequence[FloatArray] | FloatArray) -> FloatArray:
    """The mean of equally likely states."""
    if isinstance(states, np.ndarray):
        return np.asarray(states.mean(axis=0))
    if len(states) == 1:
        return states[0]
    total = states[0].copy()
    for state in states[1:]:
        total += state
    total /= len(states)
    return total


def mean_of(maps: Sequence[AffineMap]) -> AffineMap:
    """The mean of equally likely maps of the same step."""
    return replace(
        maps[0],
        kernel=average([one.kernel for one in maps]),
        entries=average([one.entries for one in maps]),
    )


class Follows(Protocol):
    """What can be done one after the other."""

    def then(self, later: Self) -> Self:
        """Both, `later` after the other."""


def repeated(once: Repeated, times: int) -> Repeated:
    """Something done one or more times, by squaring: in about as many steps as `times` has bits."""
    doubled = once
    while not times & 1:
        doubled, times = doubled.then(doubled), times >> 1
    made = doubled
    while times := times >> 1:
        doubled = doubled.then(doubled)
        if times & 1:
            made = made.then(doubled)
    return made


class Powers:
    """A map repeated any number of times, by the bits of that number; only the last power is remembered.

    A power is I - L K R until all of A has faded by half; from then on it is what is left, A^k itself, so
    that what has faded to 1e-30 is not lost in the rounding of what it was.
    """

    def __init__(self, once: AffineMap):
        self.map = once
        self.units = (np.sqrt(once.right) / np.sqrt(once.left))[:, np.newaxis] if once.left.all() else None
        self._last, self._power = 1, Power(once, _left_over(once))

    def after(self, count: float, states: FloatArray) -> FloatArray:
        """The states (d, z) after `count` more applications; nan where they leave the range of numbers."""
        times = int(count)
        if not times:
            return states
        with few_threads(len(states)), np.errstate(over="ignore", invalid="ignore"):
            power = self.power(times)
            if self.units is None or not has_faded(power.left_over):
                return power.map(states)
            faded = power.left_over @ (self.units * states) / self.units
            return np.asarray(faded + power.map.left[:, np.newaxis] * power.map.entries)

    def power(self, times: int) -> "Power":
        """The map repeated one or more times."""
        if times != self._last:
            self._last, self._power = times, repeated(Power(self.map, _left_over(self.map)), times)
        return self._power


@dataclass(frozen=True, eq=False)
class Power:
    """A power of a map, and A^k (d, d) in the coordinates of the graded D."""

    map: AffineMap
    left_over: FloatArray

    def then(self, later: "Power") -> "Power":
        """The power followed by another."""
        both = self.map.then(later.map)
        left_over = _left_over(both)
        # Slow modes are known by what they have lost, faded ones by what is left of them.
        return Power(both, later.left_over @ self.left_over if has_faded(left_over) else left_over)


def _left_over(once: AffineMap) -> FloatArray:
    return np.eye(len(once.kernel)) - once.graded


def has_faded(left_over: FloatArray) -> bool:
    """Whether A (d, d) leaves less than half of anything."""
    return bool(np.abs(left_over).sum(axis=1).max(initial=0.0) < _HALF)
