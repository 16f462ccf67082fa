"""Second moments over orders that are too many for a recursion: by the maps of drawn orders, less their mean.

An epoch sends the error e and the noise eta to A e + N eta + c, with A = Abar + D. Of the mean Abar more is known
than a few draws could tell, and E[D] = 0, so that

    V -> Abar V Abar' + E[D V D'] + E[x x'],      x = D m + (c - cbar) + (D S + N - Nbar) eta,

for the spread V = E (e - E e)(e - E e)', where m + S eta is the mean of e over the orders. Only what the orders
differ by is left to chance: a fixed set of drawn maps D_t stands for E, in every epoch, and makes a positive map.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from reshuffle import _uncertainty
from reshuffle._arrays import FloatArray, IntArray
from reshuffle._budget import CALL
from reshuffle._linalg import graded_svd
from reshuffle._progress import track
from reshuffle._uncertainty import error_of_mean
from reshuffle.epoch.averaging.sampling import follow_each
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.moments.stationary import Lyapunov, limit_of, perron
from reshuffle.epoch.timeline import Timeline
from reshuffle.epoch.visits import Inputs

_TOLERANCE = 1e-6
"""Of an argument relative to its size: what is less is not looked at. Answers from draws are known to a percent."""
_MOST_BYTES = 2e9


class Remembered:
    """The images of all arguments so far, of which the next one is nearly a linear combination.

    The moments of a run change smoothly from epoch to epoch: after a dozen epochs or two nothing new is to be seen.

    Parameters
    ----------
    image : callable
        Linear, (d, c) -> (groups, d, d): what each group of draws makes of an argument.
    units : (d, c)
        What arguments are multiplied by before their sizes are compared.

    >>> calls = []
    >>> double = Remembered(lambda matrix: calls.append(1) or 2 * matrix[np.newaxis], np.ones((2, 2)))
    >>> double.mean(np.eye(2))
    array([[2., 0.],
           [0., 2.]])
    >>> double.mean(3 * np.eye(2))[0, 0], double.shares(np.eye(2)).round(4), len(calls)
    (np.float64(6.0), array([1.4142]), 1)
    """

    def __init__(self, image: Callable[[FloatArray], FloatArray], units: FloatArray):
        self._image = image
        self._units = np.maximum(units, _TOLERANCE * units.max(initial=0.0))
        self._directions = np.zeros((0, self._units.size))
        self._images: list[FloatArray] = []
        self._means = np.zeros((0, 0, 0))

    def shares(self, matrix: FloatArray) -> FloatArray:
        """What the argument has of each of the directions so far (j,), after its own is among them."""
        flat = (self._units * matrix).ravel()
        shares = self._directions @ flat
        rest = flat - shares @ self._directions
        # Once more, since the first projection leaves its rounding along what it took away.
        again = self._directions @ rest
        rest, shares = rest - again @ self._directions, shares + again
        new = float(np.linalg.norm(rest))
        if np.isfinite(new) and new > _TOLERANCE * float(np.linalg.norm(flat)) and not self._is_full:
            self._add(rest / new)
            shares = np.append(shares, new)
        return np.asarray(shares)

    def mean(self, matrix: FloatArray) -> FloatArray:
        """The mean (d, d) of the images of all groups."""
        return self.combined(self.shares(matrix))

    def combined(self, shares: FloatArray) -> FloatArray:
        """The shares of a combination of the directions."""
        # An image is square even where its argument is not, and an argument of zeros has no direction.
        d = len(self._units)
        return np.asarray(np.tensordot(shares, self._means, 1)) if len(shares) else np.zeros((d, d))

    @property
    def directions(self) -> FloatArray:
        """The arguments (j, d, c) that were looked at."""
        return np.asarray(self._directions.reshape(-1, *self._units.shape) / self._units)

    @property
    def images(self) -> FloatArray:
        """Their images (j, groups, d, d)."""
        return np.array(self._images)

    def _add(self, direction: FloatArray) -> None:
        image = self._image(direction.reshape(self._units.shape) / self._units)
        self._directions = np.vstack([self._directions, direction])
        self._images.append(image)
        mean = image.mean(axis=0)[np.newaxis]
        self._means = np.concatenate([self._means, mean]) if len(self._means) else mean

    @property
    def _is_full(self) -> bool:
        return sum(one.nbytes for one in self._images) > _MOST_BYTES


@dataclass(frozen=True, eq=False)
class CentredMaps:
    """Drawn maps of an epoch less their mean, in coordinates z of the state in which Abar is balanced.

    With S = G Nbar, where G is the sum of the powers of Abar, all noise enters through matrices of the size of the
    state: noise^2 (N_t - Nbar) Nbar' for each order, and the mean of noise^2 (N_t - Nbar)(N_t - Nbar)'.

    Attributes
    ----------
    mean : (d, d)
        Abar.
    maps : (groups, d, orders, d)
        D_t, of as many orders in each group: what stands side by side is one matrix (d, orders d) of a group.
    pushes : (groups, d, orders, d + 1)
        Beside each of them noise^2 (N_t - Nbar) Nbar' and c_t - cbar.
    own : (groups, d, d)
        The means of noise^2 (N_t - Nbar)(N_t - Nbar)' + (c_t - cbar)(c_t - cbar)'.
    inlet : (d, d)
        noise^2 Nbar Nbar'.
    drift : (d,)
        Cbar.
    """

    mean: FloatArray
    maps: FloatArray
    pushes: FloatArray
    own: FloatArray
    inlet: FloatArray
    drift: FloatArray

    @property
    def groups(self) -> int:
        """In how many groups orders were drawn."""
        return len(self.maps)

    @property
    def dimension(self) -> int:
        """The length of the state."""
        return len(self.mean)

    def some(self, groups: slice) -> "CentredMaps":
        """A copy with some of the groups."""
        return replace(self, maps=self.maps[groups], pushes=self.pushes[groups], own=self.own[groups])

    @cached_property
    def spread(self) -> Remembered:
        """M (d, d) -> the mean of D_t M D_t' over each group."""
        return Remembered(self.of_groups, self._units)

    def of_groups(self, second: FloatArray) -> FloatArray:
        """The mean of D_t M D_t' over each group (groups, d, d)."""
        return self._times(self._after(second), self.maps)

    @cached_property
    def adjoint(self) -> Remembered:
        """M (d, d) -> the mean of D_t' M D_t, by which weights go back through an epoch, of all orders."""
        return Remembered(lambda weights: self.weighed(weights)[np.newaxis], self._units)

    @cached_property
    def crossed(self) -> Remembered:
        """(G, m) (d, d + 1) -> the mean of D_t (G X_t' + m (c_t - cbar)') and its transpose over each group."""
        roots = np.sqrt(np.diag(self._units))
        return Remembered(self._crossed, np.column_stack([self._units, roots]))

    @property
    def _units(self) -> FloatArray:
        """(d, d): D_t is as small in slow modes as the mean change is, to the root."""
        roots = np.sqrt(np.abs(1 - np.diag(self.mean)))
        return np.outer(roots, roots)

    def weighed(self, weights: FloatArray) -> FloatArray:
        """The mean of D_t' M D_t over all orders (d, d)."""
        d, flat = self.dimension, self.maps.reshape(-1, self.dimension)
        weighed = (weights @ self.maps.reshape(self.groups, d, -1)).reshape(-1, d)
        return np.asarray(_symmetric(flat.T @ weighed) / (self.groups * self.maps.shape[2]))

    def _crossed(self, path: FloatArray) -> FloatArray:
        one_sided = self._times(self._after(path), self.pushes)
        return one_sided + one_sided.swapaxes(1, 2)

    def _after(self, columns: FloatArray) -> FloatArray:
        """D_t M for all orders, for M (d, c)."""
        return np.asarray(self.maps.reshape(-1, self.dimension) @ columns)

    def _times(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """The sum over orders and over what stands side by side, over the orders of a group."""
        wide = (self.groups, self.dimension, -1)
        product = one.reshape(wide) @ other.reshape(wide).swapaxes(1, 2)
        return np.asarray(product / self.maps.shape[2])


@dataclass(frozen=True, eq=False)
class DrawnMaps:
    """D_t (k, d, d), what enters beside it (k, d, d + 1), and the sum of its own squares (d, d), of some orders."""

    maps: FloatArray
    pushes: FloatArray
    own: FloatArray

    @staticmethod
    def gathered(groups: Sequence[Sequence["DrawnMaps"]]) -> tuple[FloatArray, FloatArray, FloatArray]:
        """What groups of equally many orders have, as `CentredMaps` keeps it."""

        def side_by_side(parts: list[FloatArray]) -> FloatArray:
            return np.concatenate(parts).swapaxes(0, 1)

        maps = np.array([side_by_side([one.maps for one in group]) for group in groups])
        pushes = np.array([side_by_side([one.pushes for one in group]) for group in groups])
        own = np.array([np.sum([one.own for one in group], axis=0) for group in groups])
        return np.ascontiguousarray(maps), np.ascontiguousarray(pushes), own / maps.shape[2]


def _symmetric(matrix: FloatArray) -> FloatArray:
    return np.asarray((matrix + matrix.T) / 2)


_STACKED_BYTES = 2e7
_MOST_STACKED = 256
FEWEST_PAIRS = 2
"""In each group, before anything is told."""


def draw_flops(pairs: float, dimension: int, rows: int, steps: int) -> float:
    """Operations of drawing so many pairs of orders, calls included."""
    d = float(dimension)
    each = 8.0 * rows * d * d + 10.0 * steps * d * d + 12.0 * d**3
    stacks = np.ceil(pairs / stacked_pairs(dimension, rows))
    return float(2 * pairs * each + 10 * CALL * steps * stacks)


def stacked_pairs(dimension: int, rows: int) -> int:
    """The number of pairs that are followed at once."""
    each = max(8.0 * dimension * (4 * dimension + 2 * rows), 1.0)
    return max(1, int(min(_STACKED_BYTES / each, _MOST_STACKED) / 2))


class CentredDraws:
    """Orders of an epoch, drawn in pairs with their reverses and spread over groups.

    In the coordinates (R / L)^1/2 z of `EpochMap` the mean has the graded loss; if that is symmetric they are
    turned to its modes.

    Parameters
    ----------
    timeline : Timeline
        Which orders there are, and what their visits do; its own mean is not asked for.
    mean : EpochMap
        The mean map of an epoch as well as it is known.
    inputs : Inputs
    is_symmetric : bool
        Whether the mean map is known to be.
    seed : int
    groups : int
    """

    def __init__(
        self,
        timeline: Timeline,
        mean: EpochMap,
        inputs: Inputs,
        is_symmetric: bool,
        seed: int,
        groups: int = _uncertainty.MOST_GROUPS,
    ):
        self._timeline, self._mean, self._inputs = timeline, mean, inputs
        self._visits, self.is_symmetric = timeline.visits(0), is_symmetric
        self._rngs = [np.random.default_rng([seed, group]) for group in range(groups)]
        self._drawn: list[list[DrawnMaps]] = [[] for _ in range(groups)]

    @cached_property
    def _turn(self) -> FloatArray:
        return _modes(self._mean) if self.is_symmetric else np.eye(len(self._mean.kernel))

    @cached_property
    def basis(self) -> FloatArray:
        """(d, d): the state that coordinates stand for, as its columns."""
        units = np.sqrt(self._mean.left) / np.sqrt(self._mean.right)
        return np.asarray(units[:, np.newaxis] * self._turn)

    @cached_property
    def _roots(self) -> FloatArray:
        """(d, d): from a kernel or an entry between L and R to these coordinates."""
        return np.asarray(self._turn.T * (np.sqrt(self._mean.left) * np.sqrt(self._mean.right)))

    @cached_property
    def _entries(self) -> FloatArray:
        """(rows, d): noise times Nbar, as the kernels are, without the factors of the coordinates."""
        return np.ascontiguousarray(self._inputs.noise * self._mean.entries[:, 1:].T)

    @cached_property
    def _drift(self) -> FloatArray:
        return np.asarray(self._roots @ self._constant(self._mean.entries[:, 0], self._mean.entries[:, 1:].T))

    def _constant(self, constant: FloatArray, entries: FloatArray) -> FloatArray:
        """The inputs that are the same in every run: the force of a penalty, and responses that are given."""
        given = self._inputs.given
        return constant if given is None else constant + given @ entries

    @property
    def orders(self) -> int:
        """The number of drawn orders."""
        return sum(len(one.maps) for group in self._drawn for one in group)

    @property
    def groups(self) -> int:
        """In how many groups."""
        return len(self._drawn)

    def flops(self, pairs: int) -> float:
        """Operations of so many more pairs in each group, calls included."""
        rows = len(self._visits.blocks.rows)
        return self.groups * draw_flops(pairs, self._visits.dimension, rows, self._timeline.walk.steps)

    @property
    def _stacked_pairs(self) -> int:
        return stacked_pairs(self._visits.dimension, len(self._visits.blocks.rows))

    def more(self, pairs: int) -> None:
        """Draw so many more pairs for each group."""
        groups = range(len(self._drawn))
        for group in track(groups, len(groups), "drawing orders"):
            left = pairs
            while left:
                some = min(left, self._stacked_pairs)
                self._drawn[group].append(self._draw(self._rngs[group], some))
                left -= some

    def _draw(self, rng: np.random.Generator, pairs: int) -> DrawnMaps:
        visits, mean, roots = self._visits, self._mean, self._roots
        force = visits.unit_force(self._inputs.truth)
        with np.errstate(over="ignore", invalid="ignore"):
            kernel, constant, entries = follow_each(visits, force, self._timeline.draw_pairs(rng, pairs))
            maps = roots @ (mean.kernel - kernel) @ roots.T
            pushed = (self._constant(constant, entries) @ roots.T - self._drift)[:, :, np.newaxis]
            beside, own = np.zeros_like(maps), _squares(pushed)
            if self._inputs.given is None and self._inputs.noise:
                noise = self._inputs.noise * entries - self._entries
                beside = roots @ (noise.swapaxes(1, 2) @ self._entries) @ roots.T
                flat = noise.reshape(-1, len(roots))
                own += roots @ (flat.T @ flat) @ roots.T
            return DrawnMaps(maps, np.concatenate([beside, pushed], axis=2), own)

    @property
    def maps(self) -> CentredMaps:
        """All that were drawn."""
        maps, pushes, own = DrawnMaps.gathered(self._drawn)
        loss = self._roots @ self._mean.kernel @ self._roots.T
        if self.is_symmetric:
            loss = np.diag(np.diag(loss))
        entries = self._entries @ self._roots.T
        given = self._inputs.given is not None
        inlet = np.zeros_like(loss) if given else entries.T @ entries
        return CentredMaps(np.eye(len(loss)) - loss, maps, pushes, own, inlet, self._drift)


def _squares(stack: FloatArray) -> FloatArray:
    """The sum of M M' over a stack (k, d, c)."""
    wide = stack.swapaxes(0, 1).reshape(stack.shape[1], -1)
    return np.asarray(wide @ wide.T)


def _modes(mean: EpochMap) -> FloatArray:
    """The modes (d, d) of the graded loss of a symmetric map, small ones too where it is definite."""
    symmetric = (mean.kernel + mean.kernel.T) / 2
    roots = np.sqrt(mean.left) * np.sqrt(mean.right)
    try:
        lower = np.linalg.cholesky(symmetric)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.eigh(roots[:, np.newaxis] * symmetric * roots)[1])
    return np.asarray(graded_svd(lower.T * roots)[2])


_STILL = 1e-13
"""Relative change in an epoch below which the next ones are not worth their time."""
_SETTLED = 1e-7
"""Relative change in a round below which a limit, which is known to a percent, is reached."""
_LOOKED_AT = 30
"""Epochs after which nearly all that a linear map does to the moments of later ones is known."""


def follow_flops(orders: float, dimension: int, epochs: FloatArray) -> float:
    """Operations of following so many maps through the epochs, forth and back: few epochs show anything new."""
    finite = epochs[np.isfinite(epochs)]
    last = float(finite.max(initial=0.0))
    looked_at = min(last, _LOOKED_AT) + _LOOKED_AT * (len(finite) < len(epochs))
    small = 20.0 * float(dimension) ** 3 + 500.0 * dimension**2 + 20 * CALL
    return float(looked_at * 8.0 * orders * dimension**3 + last * small)


@dataclass(frozen=True, eq=False)
class Spread:
    """The trace of weights and the spread after each of the epochs (k,), and how far it may be off."""

    values: FloatArray
    errors: FloatArray


def spread(maps: CentredMaps, weights: FloatArray, start: FloatArray, epochs: FloatArray) -> Spread:
    """Follow the spread from a start z_0 (d,) through ascending epochs, infinity included.

    To first order what a group of draws does to an answer is the sum over the epochs of what it adds to the spread
    there, weighed by what the later ones leave of it: weights go back through an epoch by its adjoint.

    Parameters
    ----------
    maps : CentredMaps
    weights : (d, d)
        Symmetric.
    start : (d,)
    epochs : (k,)
    """
    finite = epochs[np.isfinite(epochs)]
    values, errors = np.full(len(epochs), np.inf), np.full(len(epochs), np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        path = _forward(maps, weights, start, int(finite.max(initial=0.0)))
        when = np.minimum(finite, len(path.values) - 1).astype(np.int64)
        values[: len(when)] = path.values[when]
        known = when[np.isfinite(path.values[when])]
        errors[: len(known)] = error_of_mean(_of_groups(maps, weights, path, known).T)
        if len(finite) < len(epochs):
            values[-1], errors[-1] = _end(maps, weights)
    return Spread(values, errors)


@dataclass(frozen=True, eq=False)
class _Path:
    """The values (k + 1,) after 0 to k epochs, and what each of these saw of the directions of two linear maps."""

    values: FloatArray
    of_spread: FloatArray
    of_cross: FloatArray


def _forward(maps: CentredMaps, weights: FloatArray, start: FloatArray, count: int) -> _Path:
    """So many epochs, or until nothing changes any more, or all has left the range of numbers."""
    state, values, seen, crossed = _State.at(maps, start), [0.0], [], []
    for _ in track(range(count), count, "the spread of runs"):
        seen.append(maps.spread.shares(state.second(maps)))
        crossed.append(maps.crossed.shares(state.path))
        added = maps.spread.combined(seen[-1]) + maps.crossed.combined(crossed[-1]) + maps.own.mean(axis=0)
        following = state.after(maps, added)
        values.append(max(float(np.vdot(weights, following.spread)), 0.0))
        if not np.isfinite(values[-1]):
            values[-1] = np.inf
            break
        if not following.differs(state):
            break
        state = following
    return _Path(np.array(values), _padded(seen), _padded(crossed))


def _padded(rows: list[FloatArray]) -> FloatArray:
    """Directions that were not known yet had no share."""
    padded = np.zeros((len(rows), max((len(row) for row in rows), default=0)))
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded


def _of_groups(maps: CentredMaps, weights: FloatArray, path: _Path, when: IntArray) -> FloatArray:
    """What the answers after each of the epochs would be by one group, to first order: (epochs, groups)."""
    last, groups = int(when.max(initial=0)), maps.groups
    back = _padded(list(_backward(maps, weights, last)))
    seen = np.column_stack([path.of_spread[:last], path.of_cross[:last], np.ones(last)])
    images = [maps.spread.images, maps.crossed.images, maps.own[np.newaxis]]
    added = np.concatenate([some.reshape(-1, groups, weights.size) for some in images])
    # (groups, directions of weights, directions of what is added).
    forms = maps.adjoint.directions.reshape(-1, weights.size) @ added.transpose(1, 2, 0)
    answers = np.zeros((len(when), groups))
    for number, epoch in enumerate(when):
        ages = np.minimum(np.arange(epoch)[::-1], len(back) - 1)
        answers[number] = np.tensordot(forms, back[ages].T @ seen[:epoch], 2)
    return answers


def _backward(maps: CentredMaps, weights: FloatArray, count: int) -> Iterator[FloatArray]:
    """Weights of what is added 0, 1, 2, ... epochs before it is looked at, until they stand still."""
    for _ in track(range(count), count, "weights of the spread"):
        shares = maps.adjoint.shares(weights)
        yield shares
        before = weights
        weights = maps.mean.T @ weights @ maps.mean + maps.adjoint.combined(shares)
        if np.abs(weights - before).max(initial=0.0) <= _STILL * np.abs(weights).max(initial=0.0):
            return


@dataclass(frozen=True, eq=False)
class _State:
    """The spread V (d, d), the mean m (d,) and the sum G (d, d) of the powers of Abar."""

    spread: FloatArray
    mean: FloatArray
    sums: FloatArray

    @classmethod
    def at(cls, maps: CentredMaps, start: FloatArray) -> "_State":
        nothing = np.zeros_like(maps.mean)
        return cls(nothing, start, nothing)

    def second(self, maps: CentredMaps) -> FloatArray:
        """E e e' (d, d), which what orders differ by acts on."""
        return self.spread + np.outer(self.mean, self.mean) + self.sums @ maps.inlet @ self.sums.T

    @property
    def path(self) -> FloatArray:
        """(G, m) (d, d + 1), beside which pushes differ."""
        return np.column_stack([self.sums, self.mean])

    def differs(self, before: "_State") -> bool:
        """True if anything has changed, by more than rounding."""
        pairs = ((self.spread, before.spread), (self.mean, before.mean), (self.sums, before.sums))
        return any(
            np.abs(now - then).max(initial=0.0) > _STILL * np.abs(now).max(initial=0.0) for now, then in pairs
        )

    def after(self, maps: CentredMaps, added: FloatArray) -> "_State":
        """One epoch later, in which the orders add so much (d, d)."""
        spread = maps.mean @ self.spread @ maps.mean.T + added
        return _State(
            (spread + spread.T) / 2,
            maps.mean @ self.mean + maps.drift,
            np.eye(len(self.sums)) + maps.mean @ self.sums,
        )


def _end(maps: CentredMaps, weights: FloatArray) -> tuple[float, float]:
    """The limit of the trace of weights and the spread, and how far it may be off; inf if there is none."""
    d = maps.dimension
    through, units = Lyapunov(np.eye(d) - maps.mean), np.ones(d)
    if not through.exists:
        return np.inf, np.inf
    sums = np.asarray(np.linalg.inv(np.eye(d) - maps.mean), dtype=np.float64)
    state = _State(np.zeros((d, d)), sums @ maps.drift, sums)
    pushed = maps.crossed.mean(state.path) + maps.own.mean(axis=0)
    first = pushed + maps.spread.mean(state.second(maps))
    limit, _ = limit_of(lambda spread: through.solve(first + maps.spread.mean(spread)), units, _SETTLED)
    back, _ = limit_of(lambda seen: through.adjoint(weights + maps.adjoint.mean(seen)), units, _SETTLED)
    if not (np.isfinite(limit).all() and np.isfinite(back).all()):
        return np.inf, np.inf
    second = np.tensordot(maps.spread.shares(limit + state.second(maps)), maps.spread.images, 1)
    added = second + np.tensordot(maps.crossed.shares(state.path), maps.crossed.images, 1) + maps.own
    of_groups = added.reshape(maps.groups, -1) @ back.ravel()
    return float(np.vdot(weights, limit)), float(error_of_mean(of_groups))


@dataclass(frozen=True)
class Radius:
    """A spectral radius, and how far it may be off."""

    value: float
    error: float


def rate(maps: CentredMaps) -> Radius:
    """The spectral radius of M -> Abar M Abar' + E[D M D']."""
    return _unbiased(maps, _of_rate)


def gain(maps: CentredMaps) -> Radius:
    """The spectral radius of M -> the sum of Abar^j E[D M D'] Abar'^j over all j: how much the spread feeds itself.

    Infinite where the mean diverges.
    """
    return _unbiased(maps, _of_gain)


def _unbiased(maps: CentredMaps, of: Callable[[CentredMaps], tuple[float, FloatArray]]) -> Radius:
    value, moved = of(maps)
    if not np.isfinite(value):
        return Radius(np.inf, 0.0)
    half = maps.groups // 2
    halves = [of(maps.some(slice(half)))[0], of(maps.some(slice(half, None)))[0]]
    bias = float(np.mean(halves)) - value
    return Radius(max(value - bias, 0.0), float(error_of_mean(moved)) + abs(bias))


def _of_rate(maps: CentredMaps) -> tuple[float, FloatArray]:
    """The radius, and what each group would make of it to first order (groups,)."""
    mean = maps.mean

    def forth(matrix: FloatArray) -> FloatArray:
        return np.asarray(mean @ matrix @ mean.T + maps.of_groups(matrix).mean(axis=0))

    def back(matrix: FloatArray) -> FloatArray:
        return mean.T @ matrix @ mean + maps.weighed(matrix)

    value, right, left = perron(forth, back, maps.dimension)
    return value, _moved(maps, right, left, float(np.vdot(left, right)))


def _of_gain(maps: CentredMaps) -> tuple[float, FloatArray]:
    through = Lyapunov(np.eye(maps.dimension) - maps.mean)
    if not through.exists:
        return np.inf, np.zeros(maps.groups)

    def forth(matrix: FloatArray) -> FloatArray:
        return through.solve(maps.of_groups(matrix).mean(axis=0))

    def back(matrix: FloatArray) -> FloatArray:
        return maps.weighed(through.adjoint(matrix))

    value, right, left = perron(forth, back, maps.dimension)
    return value, _moved(maps, right, through.adjoint(left), float(np.vdot(left, right)))


def _moved(maps: CentredMaps, right: FloatArray, left: FloatArray, size: float) -> FloatArray:
    """A radius moves by <left, dE(right)> / <left, right>."""
    added = maps.of_groups(right).reshape(maps.groups, -1) @ left.ravel()
    return np.asarray(added / size) if size else np.zeros(maps.groups)
