"""The mean of an epoch as an affine map of the state, z -> z - L K R z + L E zeta, and its powers.

D = I - A = L K R is kept in place of A, so that no digits are lost where A is near I, and the kernel K in place of
D, so that none are lost where features are ill-conditioned: their sizes are in the diagonals L and R alone. Kernels
and inputs may have leading axes: the equally likely orders of a scheme that draws one at the start.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
from scipy.linalg import lapack

from reshuffle._arrays import AnyArray, BoolArray, FloatArray, IntArray
from reshuffle._linalg import few_threads
from reshuffle.epoch.averaging.lattice import Process
from reshuffle.epoch.visits import Visits
from reshuffle.problem.outputs import beside
from reshuffle.recipe import Average

Follow: TypeAlias = Callable[[Process[FloatArray]], FloatArray]

_EPS = float(np.finfo(np.float64).eps)
_DOUBLINGS = 1100
"""A mode that has not decayed after 2^1100 epochs moves by less than the smallest number."""
_LOST = 1e150
"""Size of a power beyond which it does not return."""
_HALF = 0.5
"""Norm below which a power contracts for certain."""
_ROUNDING = 1e-12
"""Relative size of what rounding makes of nothing."""
_MOST_STEPS = 128
"""Applications that are made one after the other, at most: each of them rounds."""


@dataclass(frozen=True, eq=False)
class EpochMap:
    """z -> z - D z + N zeta with D = L K R and N = L E: diagonals L, R (d,), K (..., d, d) and E (..., d, z).

    `weight` is the size of K, and `entry_sizes` (z,) those of the columns of E, before anything cancels in them:
    what visits undo of each other is known up to rounding of these.
    """

    left: FloatArray
    right: FloatArray
    kernel: FloatArray
    entries: FloatArray
    weight: float
    entry_sizes: FloatArray

    @property
    def loss(self) -> FloatArray:
        """D (..., d, d)."""
        return self.left[:, np.newaxis] * self.kernel * self.right

    @cached_property
    def finite(self) -> BoolArray:
        """True for the maps (...) whose entries are finite numbers."""
        return np.asarray(np.isfinite(self.graded).all(axis=(-2, -1)) & np.isfinite(self.left).all())

    def __call__(self, states: FloatArray) -> FloatArray:
        """Send states (..., d, z), one a column of the inputs, through the map."""
        moved = self.kernel @ (self.right[:, np.newaxis] * states) - self.entries
        return np.asarray(states - self.left[:, np.newaxis] * moved)

    @property
    def grades(self) -> FloatArray:
        """R L (d,), the sizes of the eigenvalues of D."""
        return self.left * self.right

    def then(self, later: "EpochMap") -> "EpochMap":
        """The map followed by another of the same step: I - A_2 A_1 = D_1 + D_2 - D_2 D_1."""
        after = later.kernel * self.grades
        return replace(
            self,
            kernel=self.kernel + later.kernel - after @ self.kernel,
            entries=self.entries + later.entries - after @ self.entries,
        )

    def power(self, times: int) -> "EpochMap":
        """The map applied one or more times, by squaring; the last power is remembered."""
        if times == 1:
            return self
        known: tuple[int, EpochMap] | None = self.__dict__.get("_power")
        if known is None or known[0] != times:
            half = self.power(times // 2)
            made = half.then(half)
            known = times, made.then(self) if times % 2 else made
            self.__dict__["_power"] = known
        return known[1]

    def after(self, count: float, states: FloatArray) -> FloatArray:
        """The states (..., d, z) after `count` more applications.

        A column that leaves the range of numbers is inf as a whole; one that starts at zero without inputs stays.
        """
        times, (d, z) = int(count), states.shape[-2:]
        if not times:
            return states
        after = states
        with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
            if times <= _MOST_STEPS and times * z <= times.bit_length() * (d + z):
                # A few columns are sent through the map sooner than the map through itself.
                for _ in range(times):
                    after = self(after)
            else:
                after = self.power(times)(states)
            if not np.isfinite(after).all():
                grown = ~np.isfinite(after).all(axis=-2, keepdims=True)
                after = np.where(self._absent(states), 0.0, np.where(grown, np.inf, after))
        return after

    def _absent(self, states: FloatArray) -> BoolArray:
        """True for the columns (..., 1, z) that are zero and have no inputs: nothing grows from nothing."""
        return np.asarray(~(states.any(axis=-2, keepdims=True) | self.entries.any(axis=-2, keepdims=True)))

    def limit(self, states: FloatArray) -> FloatArray:
        """The states (..., d, z) after infinitely many applications.

        D^-1 N where the map contracts. Directions that D leaves in place keep what the states have there, unless
        inputs enter; a map that grows anywhere is inf as a whole.
        """
        limits = np.array(np.broadcast_to(states, (*self.kernel.shape[:-2], *states.shape[-2:])))
        settled = self.settles
        with few_threads(len(self.left)):
            if settled.any():
                one = replace(self, kernel=self.kernel[settled], entries=self.entries[settled])
                limits[settled] = one.fixed_point()
            for place in map(tuple, np.argwhere(~settled)):
                one = replace(self, kernel=self.kernel[place], entries=self.entries[place])
                limits[place] = one._limit_beside_frozen(limits[place])
        return np.where(self._absent(states), 0.0, limits)

    def fixed_point(self) -> FloatArray:
        """D^-1 N = R^-1 K^-1 E (..., d, z), the limit of a map that contracts."""
        return np.asarray(np.linalg.solve(self.kernel, self.entries) / self.right[:, np.newaxis])

    def _limit_beside_frozen(self, states: FloatArray) -> FloatArray:
        """The limit (d, z) of a single map that does not contract."""
        infinite = np.full_like(states, np.inf)
        if not self.finite:
            return infinite
        size = max(float(np.abs(self.graded).max()), self.weight * float(self.grades.max()))
        frozen = np.abs(self.eigenvalues) <= _ROUNDING * size
        count = int(frozen.sum())
        if not count or not settling(self.eigenvalues[~frozen]).all() or not self.left.all():
            return infinite
        left, values, right = np.linalg.svd(self.kernel)
        if values[-count] > _ROUNDING * self.weight:
            return infinite
        # D = L K R vanishes on R^-1 v for K v = 0, and u'L^-1 D = 0 for u'K = 0.
        stays, sees = right[-count:].T / self.right[:, np.newaxis], left[:, -count:].T / self.left
        moved = right[:-count].T @ ((left[:, :-count].T @ self.entries) / values[:-count, np.newaxis])
        moved /= self.right[:, np.newaxis]
        limit = moved + stays @ np.linalg.solve(sees @ stays, sees @ (states - moved))
        drifts = np.abs(left[:, -count:].T @ self.entries).max(axis=0) > _ROUNDING * self.entry_sizes
        return np.where(drifts, np.inf, limit)

    def with_inputs(self, inputs: FloatArray) -> "EpochMap":
        """The map with given inputs zeta (z,), or (z, t) of several outputs: a column enters for each."""
        columns = beside(inputs)
        sizes = np.abs(columns) * self.entry_sizes[:, np.newaxis]
        # Nothing enters from an input of zero, however far beyond the range of numbers its entry is.
        some = (columns != 0).any(axis=1)
        with np.errstate(over="ignore", invalid="ignore"):
            entries = self.entries[..., some] @ columns[some]
        return replace(self, entries=entries, entry_sizes=sizes.max(axis=0))

    def part(self, place: IntArray) -> "EpochMap":
        """The map on some of the coordinates, if they have nothing to do with the others."""
        return replace(
            self,
            left=self.left[place],
            right=self.right[place],
            kernel=self.kernel[..., place[:, np.newaxis], place],
            entries=self.entries[..., place, :],
        )

    def with_average(self, rank: int, average: Average) -> "EpochMap":
        """The map of a longer state: after it, a -> kept a + taken u for the first `rank` coordinates u.

        In the units 1/g of L and g of R, g = R on these coordinates, as in `Visits`.
        """
        d, sizes = len(self.left), self.right[:rank]
        shares = (average.taken * self.grades[:rank])[:, np.newaxis]
        kernel = np.zeros((*self.kernel.shape[:-2], d + rank, d + rank))
        kernel[..., :d, :d] = self.kernel
        with np.errstate(over="ignore", invalid="ignore"):
            kernel[..., d:, :d] = shares * self.kernel[..., :rank, :]
            kernel[..., d:, :rank] -= average.taken * np.eye(rank)
            kernel[..., d:, d:] = (1 - average.kept) * np.eye(rank)
            entries = np.concatenate([self.entries, shares * self.entries[..., :rank, :]], axis=-2)
        return replace(
            self,
            left=np.concatenate([self.left, 1 / sizes]),
            right=np.concatenate([self.right, sizes]),
            kernel=kernel,
            entries=entries,
            weight=max(
                self.weight, average.taken + float(shares.max(initial=0.0)) * self.weight, 1 - average.kept
            ),
        )

    @cached_property
    def graded(self) -> FloatArray:
        """D (..., d, d) where it is as small to the right as to the left: R^1/2 L^1/2 K L^1/2 R^1/2."""
        roots = np.sqrt(self.left) * np.sqrt(self.right)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(roots[:, np.newaxis] * self.kernel * roots)

    @cached_property
    def eigenvalues(self) -> AnyArray:
        """The complex eigenvalues x of D (..., d); an epoch multiplies what belongs to them by 1 - x."""
        # The QR algorithm keeps most digits of the small eigenvalues if the large ones come first. LAPACK scales
        # matrices beyond 1e138 down, and its eigenvalues not up again.
        order = np.argsort(-self.grades, kind="stable")
        graded = self.graded[..., order[:, np.newaxis], order]
        exponents = np.frexp(np.abs(graded).max(axis=(-2, -1), initial=0.0))[1]
        with few_threads(len(order)):
            values = np.linalg.eigvals(np.ldexp(graded, -exponents[..., np.newaxis, np.newaxis]))
        return np.asarray(values * np.ldexp(1.0, exponents)[..., np.newaxis])

    @property
    def radius(self) -> float:
        """The largest spectral radius of A, over all maps; inf where one has overflowed."""
        if not self.finite.all():
            return np.inf
        return float(np.abs(1 - self.eigenvalues).max(initial=0.0))

    @cached_property
    def settles(self) -> BoolArray:
        """True for the maps (...) that contract: every eigenvalue x of D has |1 - x| < 1.

        By A^(2^j): doubling forgets its rounding errors where a mode has decayed, and keeps all digits of those
        that hardly have.
        """
        d, shape = len(self.left), self.kernel.shape[:-2]
        if not d:
            return np.ones(shape, dtype=bool)
        finite, kernels = self.finite.reshape(-1), self.kernel.reshape(-1, d, d)
        # The maps that are not decided yet.
        left = np.array(
            [at for at in np.flatnonzero(finite) if not _is_singular(kernels[at], self.weight)], int
        )
        contracts, kernels = np.zeros(len(finite), dtype=bool), kernels[left]
        roots, identity = np.sqrt(self.left) * np.sqrt(self.right), np.eye(d)
        with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
            for _ in range(_DOUBLINGS):
                power = np.abs(identity - roots[:, np.newaxis] * kernels * roots)
                most = _largest(power)
                # Sums of rows are taken only where they may be that small.
                decayed = most < _HALF
                if decayed.any():
                    decayed = power.sum(axis=2).max(axis=1) < _HALF
                    contracts[left[decayed]] = True
                following = 2 * kernels - (kernels * self.grades) @ kernels
                stays = _largest(np.abs(following - kernels)) <= _EPS * _largest(np.abs(kernels))
                goes_on = (most < _LOST) & ~(decayed | stays)
                if not goes_on.any():
                    break
                left, kernels = (left, following) if goes_on.all() else (left[goes_on], following[goes_on])
        return contracts.reshape(shape)

    @property
    def converges(self) -> bool:
        """True if all maps contract."""
        return bool(self.settles.all())


def _largest(matrices: FloatArray) -> FloatArray:
    """The largest entry (c,) of each of several matrices (c, d, d)."""
    count, height, width = matrices.shape
    return np.asarray(matrices.reshape(count, height * width).max(axis=1))


def _is_singular(kernel: FloatArray, weight: float) -> bool:
    """True if visits undo each other in some direction, up to rounding: nothing moves there."""
    factors, *_ = lapack.dgetrf(kernel)
    norm = float(np.abs(kernel).sum(axis=0).max())
    reciprocal, _ = lapack.dgecon(factors, norm)
    return bool(reciprocal * norm <= _EPS * len(kernel) * weight)


def settling(x: AnyArray) -> AnyArray:
    """True where |1 - x| < 1, told from x itself: 1 - x would round to one."""
    # |1 - x|^2 < 1 is |x| < 2 Re x / |x|.
    size = np.abs(x)
    cosine = np.divide(x.real, size, out=np.zeros(np.shape(size)), where=size > 0)
    return np.asarray(size < 2 * cosine)


def mean_map(follow: Follow, steps: int, visits: Visits, force: FloatArray) -> EpochMap:
    """The mean over the orders of an epoch of so many steps, with inputs zeta = (1, y of the rows of the blocks).

    `follow` is the mean of a process over these orders. The `force` (r,) enters at every visit with the input 1.
    """
    d, rows = visits.dimension, len(visits.blocks.rows)
    visit = _visit(visits, force, d + 1 + rows, None)
    with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
        end = follow(Process(visit, average, np.zeros((d, d + 1 + rows))))
    return _of_columns(visits, end, *visits.sizes_of(steps, force))


def maps_of_orders(
    visits: Visits, force: FloatArray, orders: IntArray, inputs: FloatArray | None = None
) -> EpochMap:
    """The maps of many orders (c, steps) of visits; orders that begin alike share their first visits.

    Where the inputs (1 + rows,) or (1 + rows, t) are known a column enters for each output.
    """
    d, rows = visits.dimension, len(visits.blocks.rows)
    given = None if inputs is None else beside(inputs)
    width = d + (1 + rows if given is None else given.shape[1])
    visit = _visit(visits, force, width, given)
    states, places = np.zeros((1, d, width)), np.zeros(len(orders), dtype=np.int64)
    with few_threads(d), np.errstate(over="ignore", invalid="ignore"):
        for slot, visited in enumerate(orders.T):
            prefixes, places = np.unique(np.stack([places, visited], axis=1), axis=0, return_inverse=True)
            following = np.empty((len(prefixes), d, width))
            for batch in np.unique(visited):
                here = prefixes[:, 1] == batch
                following[here] = visit(int(batch), states[prefixes[here, 0]], slot)
            states = following
        states = states[places]
    weight, sizes = visits.sizes_of(orders.shape[1], force)
    if given is not None:
        sizes = np.max(np.abs(given) * sizes[:, np.newaxis], axis=0)
    return _of_columns(visits, states, weight, sizes)


def _visit(
    visits: Visits, force: FloatArray, width: int, given: FloatArray | None
) -> Callable[[int, FloatArray, int], FloatArray]:
    """A visit as it changes [K, E] (..., d, width), with an input per row or with given inputs."""
    d, grades = visits.dimension, (visits.left * visits.right)[:, np.newaxis]
    begin = np.eye(d, width)

    def visit(batch: int, before: FloatArray, slot: int) -> FloatArray:
        # [K, E] -> [K + K_b (I - R L K), E - K_b R L E + E_b].
        following = before + visits.kernel(batch, begin - grades * before, slot) if d else before.copy()
        entry, columns = visits.unit_entry(batch, slot), visits.columns(batch)
        constant = visits.pushed(force, slot)
        if given is None:
            following[..., d] += constant
            following[..., d + 1 + columns] += entry
        else:
            following[..., d:] += constant[:, np.newaxis] * given[0] + entry @ given[1 + columns]
        return np.asarray(following)

    return visit


def _of_columns(visits: Visits, columns: FloatArray, weight: float, sizes: FloatArray) -> EpochMap:
    """The map of [K, E] (..., d, d + z)."""
    d = visits.dimension
    kernel, entries = (np.ascontiguousarray(part) for part in (columns[..., :d], columns[..., d:]))
    return EpochMap(visits.left, visits.right, kernel, entries, weight, sizes)


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


def mean_of(maps: Sequence[EpochMap]) -> EpochMap:
    """The mean of equally likely maps of the same step."""
    kernel, entries = average([one.kernel for one in maps]), average([one.entries for one in maps])
    return replace(maps[0], kernel=kernel, entries=entries)
