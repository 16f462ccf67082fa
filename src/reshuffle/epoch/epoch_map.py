"""The mean of an epoch as an affine map of the state, z -> z - L K R z + L E zeta, and its powers.

D = I - A = L K R is stored in place of A, so that no digits are lost where A is near I, and the kernel K in place
of D, so that none are lost where features are ill-conditioned: their sizes are in the diagonals L and R alone.
Kernels and inputs may have leading axes: the equally likely orders of a scheme that draws one at the start.

`MeanMap` is the symmetric special case, in row-space coordinates. Its modes decay independently, so that any number
of epochs costs one eigendecomposition.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Literal, Self, cast

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from reshuffle._arrays import AnyArray, BoolArray, FloatArray, IntArray
from reshuffle._linalg import few_threads, graded_svd, thin_qr
from reshuffle.errors import RangeError
from reshuffle.recipe import Average

_EPS = float(np.finfo(np.float64).eps)
_DOUBLINGS = 1100  # a mode that has not decayed after 2^1100 epochs moves by less than the smallest number
_LOST = 1e150  # size of a power beyond which it does not return
_HALF = 0.5  # norm below which a power contracts for certain
_CONTRACTED = 1e-6
"""Norm of a power below which its states are computed once more: I - A has lost six digits of A there."""
_ROUNDING = 1e-12  # relative size of what rounding makes of nothing
_MOST_STEPS = 128  # applications that are made one after the other, at most: each of them rounds
_OF_BASIS = 4  # rows are known up to the rounding of the basis that they are in, some of these times its size
LEVEL = 1e-6  # eigenvalues above this ratio to the largest of their level have at least nine digits
_NINE_DIGITS = 1e-9  # relative error of a map above which its eigenvalues need no more digits
_MARGIN = 1e3  # units of rounding by which eigenvalues are known better than their map
_OF_THE_WORST = 3.0  # error of the worst mode over the root mean square of all, at most


@dataclass(frozen=True, eq=False, kw_only=True)
class Averaged(ABC):
    """A mean map over orders: the method that took it, and the maps that carry its error.

    `missed`, compared with rtol, is the error of the decay rates relative to them, in root mean square over modes.
    """

    method: str = "exact"
    missed: float = 0.0
    make_replicas: Callable[[], tuple[Self, ...]] = tuple

    @cached_property
    def replicas(self) -> tuple[Self, ...]:
        """The map without each group of draws in turn, or perturbed by what the cavity equation neglects."""
        return cast(tuple[Self, ...], self.make_replicas())

    @property
    @abstractmethod
    def grows(self) -> bool:
        """True if something grows from epoch to epoch for certain, whatever the error of the map."""


@dataclass(frozen=True, eq=False)
class EpochMap(Averaged):
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
    def bytes(self) -> float:
        """Memory of kernel and entries."""
        return float(self.kernel.nbytes + self.entries.nbytes)

    @property
    def loss(self) -> FloatArray:
        """D (..., d, d)."""
        return self.left[:, np.newaxis] * self.kernel * self.right

    @cached_property
    def finite(self) -> BoolArray:
        """True for the maps (...) whose entries are finite numbers."""
        return np.asarray(np.isfinite(self.scaled_loss).all(axis=(-2, -1)) & np.isfinite(self.left).all())

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
        with few_threads(d):
            if times <= _MOST_STEPS and times * z <= times.bit_length() * (d + z):
                # A few columns are sent through the map sooner than the map through itself.
                for _ in range(times):
                    after = self(after)
            else:
                power = self.power(times)
                after = power(states)
                if self.kernel.ndim == 2 and self.left.all() and power._size < _CONTRACTED:
                    after = self._after_contraction(times, states)
            if not np.isfinite(after).all():
                grown = ~np.isfinite(after).all(axis=-2, keepdims=True)
                after = np.where(self._absent(states), 0.0, np.where(grown, np.inf, after))
        return after

    @property
    def _size(self) -> float:
        """A bound on A of a single map, in coordinates in which D is as small to the right as to the left."""
        return float(np.abs(np.eye(len(self.left)) - self.scaled_loss).sum(axis=1).max(initial=0.0))

    def _after_contraction(self, times: int, states: FloatArray) -> FloatArray:
        """The states after so many applications of a single map that next to nothing of them is left.

        I - A is squared until A is below one half, A itself from then on: neither cancels, and the little that is
        left of the start keeps its digits.
        """
        units = np.sqrt(self.right / self.left)[:, np.newaxis]
        once, current = self, states
        while times and not once._size < _HALF:
            current = once(current) if times % 2 else current
            once, times = once.then(once), times // 2
        roots = np.sqrt(self.grades)[:, np.newaxis]
        factor, added, current = np.eye(len(roots)) - once.scaled_loss, roots * once.entries, units * current
        while times:
            current = factor @ current + added if times % 2 else current
            added, factor, times = added + factor @ added, factor @ factor, times // 2
        return np.asarray(current / units)

    def _absent(self, states: FloatArray) -> BoolArray:
        """True for the columns (..., 1, z) that are zero and have no inputs: nothing grows from nothing."""
        return np.asarray(~(states.any(axis=-2, keepdims=True) | self.entries.any(axis=-2, keepdims=True)))

    def limit(self, states: FloatArray) -> FloatArray:
        """The states (..., d, z) after infinitely many applications.

        D^-1 N where the map contracts. Directions that D leaves in place keep what the states have there, unless
        inputs enter; a map that grows anywhere is inf as a whole.
        """
        limits = np.array(np.broadcast_to(states, (*self.kernel.shape[:-2], *states.shape[-2:])))
        contracts = self.contracts
        with few_threads(len(self.left)):
            if contracts.any():
                one = replace(self, kernel=self.kernel[contracts], entries=self.entries[contracts])
                limits[contracts] = one.fixed_point()
            for place in map(tuple, np.argwhere(~contracts)):
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
        size = max(float(np.abs(self.scaled_loss).max()), self.weight * float(self.grades.max()))
        frozen = np.abs(self.eigenvalues) <= _ROUNDING * size
        count = int(frozen.sum())
        if not count or not decays(self.eigenvalues[~frozen]).all() or not self.left.all():
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
        """The map with given inputs zeta (z, t): a column enters for each output."""
        sizes = np.abs(inputs) * self.entry_sizes[:, np.newaxis]
        # Nothing enters from an input of zero, however far beyond the range of numbers its entry is.
        some = (inputs != 0).any(axis=1)
        entries = self.entries[..., some] @ inputs[some]
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
    def scaled_loss(self) -> FloatArray:
        """D (..., d, d) where it is as small to the right as to the left: R^1/2 L^1/2 K L^1/2 R^1/2."""
        roots = np.sqrt(self.left) * np.sqrt(self.right)
        return np.asarray(roots[:, np.newaxis] * self.kernel * roots)

    @cached_property
    def eigenvalues(self) -> AnyArray:
        """The complex eigenvalues x of D (..., d); an epoch multiplies what belongs to them by 1 - x."""
        # The QR algorithm keeps most digits of the small eigenvalues if the large ones come first. LAPACK scales
        # matrices beyond 1e138 down, and its eigenvalues not up again.
        order = np.argsort(-self.grades, kind="stable")
        scaled = self.scaled_loss[..., order[:, np.newaxis], order]
        exponents = np.frexp(np.abs(scaled).max(axis=(-2, -1), initial=0.0))[1]
        with few_threads(len(order)):
            values = np.linalg.eigvals(np.ldexp(scaled, -exponents[..., np.newaxis, np.newaxis]))
        return np.asarray(values * np.ldexp(1.0, exponents)[..., np.newaxis])

    @property
    def radius(self) -> float:
        """The largest spectral radius of A, over all maps; inf where one has overflowed."""
        if not self.finite.all():
            return np.inf
        return float(np.abs(1 - self.eigenvalues).max(initial=0.0))

    @cached_property
    def contracts(self) -> BoolArray:
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
        with few_threads(d):
            for _ in range(_DOUBLINGS):
                power = np.abs(identity - roots[:, np.newaxis] * kernels * roots)
                decayed = power.sum(axis=2).max(axis=1) < _HALF
                contracts[left[decayed]] = True
                following = 2 * kernels - (kernels * self.grades) @ kernels
                moved, size = (
                    np.abs(one).max(axis=(1, 2), initial=0.0) for one in (following - kernels, kernels)
                )
                undecided = (power.max(axis=(1, 2)) < _LOST) & ~decayed & (moved > _EPS * size)
                if not undecided.any():
                    break
                left, kernels = left[undecided], following[undecided]
        return contracts.reshape(shape)

    @property
    def converges(self) -> bool:
        """True if all maps contract."""
        return bool(self.contracts.all())

    @property
    def grows(self) -> bool:
        """True if something grows from epoch to epoch for certain, whatever the error of the map."""
        return self.radius * (1 - _OF_THE_WORST * self.missed) > 1


def _is_singular(kernel: FloatArray, weight: float) -> bool:
    """True if visits undo each other in some direction, up to rounding: nothing moves there."""
    factors, *_ = lapack.dgetrf(kernel)
    norm = float(np.abs(kernel).sum(axis=0).max())
    reciprocal, _ = lapack.dgecon(factors, norm)
    return bool(reciprocal * norm <= _EPS * len(kernel) * weight)


def decays(x: AnyArray) -> AnyArray:
    """True where |1 - x| < 1, by x itself: 1 - x would round to one."""
    # |1 - x|^2 < 1 is |x| < 2 Re x / |x|.
    size = np.abs(x)
    cosine = np.divide(x.real, size, out=np.zeros(np.shape(size)), where=size > 0)
    return np.asarray(size < 2 * cosine)


def mean_of(maps: Sequence[EpochMap]) -> EpochMap:
    """The mean of equally likely maps of the same step."""
    total = sum(one.kernel for one in maps), sum(one.entries for one in maps)
    kernel, entries = (np.asarray(part / len(maps)) for part in total)
    return replace(maps[0], kernel=kernel, entries=entries)


@dataclass(frozen=True, eq=False)
class MeanMap(Averaged):
    """The affine map c -> c - stride (F'K F c - F'A y), in row-space coordinates, `repeats` times per epoch.

    Every word in Z begins and ends with features, so Z = F'K F with a small symmetric kernel K in between
    that stays well conditioned however badly X is; the eigenvalues of Z inherit that accuracy.

    F (q, r) is the features or their triangular factor, K is (q, q), and A (q, rows), with Xtilde' = n F'A; vectors
    (q,) stand for diagonals. The stride is B step for random reshuffling. `weight` is the largest weight of a row
    in the gradient, the size of K before anything cancels, and `modifier` b -> Pi_b (r, r). `error` is that of the
    decay rate of the worst mode, relative to that rate.
    """

    factor: FloatArray
    kernel: FloatArray
    input_map: FloatArray
    stride: float
    repeats: int
    weight: float
    modifier: Callable[[int], FloatArray]
    error: float = 0.0

    @property
    def grows(self) -> bool:
        """True if some mode grows from epoch to epoch, whatever the error of the map."""
        if not np.isfinite(self.kernel).all():
            return True
        decay_rates = self.stride * modes(self).values
        return bool((np.abs(1 - decay_rates) > 1 + self.error * np.abs(decay_rates)).any())

    def require_finite(self, steps: int) -> "MeanMap":
        """Return the map itself; refuse a step at which a product over so many batches overflows."""
        if not (np.isfinite(self.kernel).all() and np.isfinite(self.input_map).all()):
            raise RangeError(
                f"step is so large for these data that products over {steps} batches leave the range of "
                "floating-point numbers; the iterates diverge.",
                hint="Try a step near {critical_step}",
            )
        return self

    def weigh(self, matrix: FloatArray) -> FloatArray:
        """K M, for M of shape (q, m)."""
        return np.asarray(
            self.kernel @ matrix if self.kernel.ndim == 2 else self.kernel[:, np.newaxis] * matrix
        )

    def mapped_inputs(self, images: FloatArray) -> FloatArray:
        """M'A (m, rows), for M of shape (q, m)."""
        return np.asarray(
            images.T @ self.input_map if self.input_map.ndim == 2 else images.T * self.input_map
        )


@dataclass(frozen=True, eq=False)
class Modes:
    """Z = Q diag(values) Q' on the row space: values (r,) ascending, those of the null space zero; Q (r, r).

    The product of `factors` is the input map Q'F'A. For ill-conditioned features that of F'A itself would lose the
    digits of the small modes.
    """

    values: FloatArray
    vectors: FloatArray
    factors: tuple[FloatArray, ...]

    @cached_property
    def input_map(self) -> FloatArray:
        """Q'F'A (r, rows), through which responses enter the modes."""
        return reduce(np.matmul, self.factors)

    def entering(self, responses: FloatArray) -> FloatArray:
        """Q'F'A y for responses (rows,) or (rows, t), at less than the price of the input map if these are few."""
        if "input_map" in self.__dict__:
            return np.asarray(self.input_map @ responses)
        return reduce(lambda entered, factor: factor @ entered, reversed(self.factors), responses)

    @property
    def frozen(self) -> BoolArray:
        """The modes in which nothing moves."""
        return np.equal(self.values, 0.0)


def modes(mean: MeanMap) -> Modes:
    """Decompose Z = F'K F.

    The eigenvalues of Z are known to about eps |Z|, which is nothing for those of ill-conditioned features: they
    may come out negative, and a converging mode would look divergent. Then the factors F = U R are used, which
    make them as accurate as the singular values of X itself.
    """
    sizes = _diagonal_of(mean.factor)
    if sizes is not None and mean.kernel.ndim == mean.input_map.ndim == 2:
        Z, entry = sizes[:, np.newaxis] * mean.kernel * sizes, sizes[:, np.newaxis] * mean.input_map
    else:
        weighed = mean.weigh(mean.factor)
        Z = mean.factor.T @ weighed
        entry = weighed.T if mean.input_map is mean.kernel else mean.mapped_inputs(mean.factor)
    values, vectors = _eigh((Z + Z.T) / 2)
    # Where visits cancel each other Z is all rounding, so its size is not read off its eigenvalues alone.
    mean_size = mean.weight * float(np.square(mean.factor).sum()) / max(1, len(values))
    size = float(np.abs(values).max(initial=mean_size))
    # Digits that the map itself has not got are not computed.
    level = min(LEVEL, _MARGIN * _EPS / mean.error) if mean.error > _NINE_DIGITS else LEVEL
    if np.abs(values).min(initial=np.inf) < level * size:
        if sizes is None or mean.error <= _NINE_DIGITS or not _is_definite(mean):
            return _from_factors(mean, values, vectors, _EPS * len(mean.factor) * size)
        values, vectors = refined(values, vectors, sizes, mean.kernel, level)
    return Modes(values, vectors, (vectors.T, entry))


def _eigh(matrix: FloatArray, driver: Literal["ev", "evd"] = "evd") -> tuple[FloatArray, FloatArray]:
    values, vectors = scipy.linalg.eigh(matrix, driver=driver, check_finite=False)
    return values, vectors


def refined(
    values: FloatArray, vectors: FloatArray, sizes: FloatArray, kernel: FloatArray, level: float = LEVEL
) -> tuple[FloatArray, FloatArray]:
    """The eigenvalues (r,), ascending, and eigenvectors (r, r) of diag(s) K diag(s), level by level.

    The eigenvalues are as far apart as the squares of s (r,), and those that are found at once are known up to eps
    times the largest. The eigenvectors of all that is small span their space just as well, though. In that space
    the form is small itself, so that it is made anew, of S q, and decomposed anew. K (r, r) is positive definite.

    >>> sizes, kernel = np.array([1.0, 1e-9]), np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> found, _ = refined(*np.linalg.eigh(sizes[:, np.newaxis] * kernel * sizes), sizes, kernel)
    >>> print(found / [0.75e-18, 1.0])
    [1. 1.]
    """
    count, values, vectors = len(values), values.copy(), vectors.copy()
    while count > 1 and values[0] < level * values[count - 1]:
        count = int(np.searchsorted(values[:count], level * values[count - 1]))
        images = sizes[:, np.newaxis] * vectors[:, :count]
        form = images.T @ (kernel @ images)
        values[:count], rotation = _eigh((form + form.T) / 2)
        vectors[:, :count] = vectors[:, :count] @ rotation
    return values, vectors


def _diagonal_of(factor: FloatArray) -> FloatArray | None:
    """The diagonal of a matrix (q, r) that has nothing else, and nothing that is zero in it; otherwise None."""
    if factor.shape[0] != factor.shape[1]:
        return None
    diagonal = np.diagonal(factor)
    return diagonal if diagonal.all() and np.count_nonzero(factor) == len(factor) else None


def _is_definite(mean: MeanMap) -> bool:
    """True if K is positive definite beyond rounding."""
    if mean.kernel.ndim == 1:
        return False
    shifted = np.array(mean.kernel, order="F")
    diagonal = np.einsum("kk->k", shifted)
    diagonal -= _EPS * len(mean.factor) * max(mean.weight, float(diagonal.max()))
    _, info = lapack.dpotrf(shifted, lower=True, overwrite_a=True)
    return bool(info == 0)


def whitened(mean: MeanMap) -> tuple[FloatArray, FloatArray, FloatArray]:
    """U (q, r), R (r, r) and the kernel U'K U (r, r), for F = U R; by Sylvester's law it has the signs of Z."""
    orthonormal, triangle = thin_qr(mean.factor)
    kernel = orthonormal.T @ mean.weigh(orthonormal)
    return orthonormal, triangle, (kernel + kernel.T) / 2


def _from_factors(mean: MeanMap, values: FloatArray, vectors: FloatArray, blur: float) -> Modes:
    """The modes of a Z whose own eigenvalues are only known up to `blur`.

    With R = P diag(s) T' they are those of diag(s) H diag(s), H = P'U'K U P, whose entries are as small as they.
    """
    orthonormal, triangle, kernel = whitened(mean)
    left, sizes, right = graded_svd(triangle)
    # Rows are known up to the rounding of the basis that they are in; some may never be visited.
    rank = int((sizes > _OF_BASIS * _EPS * max(triangle.shape) * sizes[0]).sum())
    sizes, left, right = sizes[:rank, np.newaxis], left[:, :rank], right[:, :rank]
    inner = left.T @ kernel @ left
    inner = (inner + inner.T) / 2
    spread = scipy.linalg.eigvalsh(inner, check_finite=False)
    tolerance = _EPS * len(mean.factor) * max(mean.weight, float(np.abs(spread).max()))
    if np.abs(spread).min() <= tolerance:
        # How fast modes of negative eigenvalues of K grow is lost in rounding; that they do is not.
        signed = np.where(np.abs(values) <= blur, 0.0, values)
        growing = np.arange(len(values)) < int((spread < -tolerance).sum())
        signed = np.where(growing & (signed == 0), -np.finfo(np.float64).tiny, signed)
        return Modes(signed, vectors, (mean.mapped_inputs(mean.factor @ vectors),))
    # Digits of what is small survive the reduction to a tridiagonal matrix if it comes last, in the lower triangle.
    found, turned = _eigh(sizes * inner * sizes.T, driver="ev")
    images = sizes * turned
    # H diag(s) q = x diag(s)^-1 q for every mode q: slow ones are known better by the right side.
    inverse = scipy.linalg.inv(inner, check_finite=False)
    slow = np.abs(found) * np.linalg.norm(inverse) < float(sizes[0, 0] * sizes[-1, 0])
    images[:, slow] = inverse @ (turned[:, slow] / sizes) * found[slow]
    # In the directions that no row reaches nothing moves.
    missing = len(values) - rank
    null = scipy.linalg.qr(right, check_finite=False)[0][:, rank:] if missing else right[:, :0]
    found, images = np.append(np.zeros(missing), found), np.pad(images, ((0, 0), (missing, 0)))
    order, vectors = np.argsort(found, kind="stable"), np.hstack([null, right @ turned])
    entry = mean.mapped_inputs(orthonormal @ (left @ images[:, order]))
    return Modes(found[order], vectors[:, order], (entry,))
