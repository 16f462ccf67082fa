"""The spread of a run through the epochs, and in the long run, with a fixed set of centred maps."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._progress import track
from reshuffle._uncertainty import error_of_mean
from reshuffle.epoch.accuracy import CALL
from reshuffle.epoch.second_moment.centred_maps import CentredMaps

_STILL = 1e-13
"""Relative change in an epoch below which the next ones are not worth their time."""
_SETTLED = 1e-7
"""The same for a limit, which is known to a percent."""
_ROUNDS = 300
_GROWN = 1e12
_LOOKED_AT = 30
"""Epochs after which nearly all that a linear map does to the moments of later ones is known."""
_FADED = 1e-10
_DOUBLINGS = 200


def flops(orders: float, dimension: int, epochs: FloatArray) -> float:
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
        """Whether anything has changed, by more than rounding."""
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
    through = MeanSum.of(maps.mean)
    if through is None:
        return np.inf, np.inf
    d = maps.dimension
    sums = np.asarray(np.linalg.inv(np.eye(d) - maps.mean), dtype=np.float64)
    state = _State(np.zeros((d, d)), sums @ maps.drift, sums)
    pushed = maps.crossed.mean(state.path) + maps.own.mean(axis=0)
    first = pushed + maps.spread.mean(state.second(maps))
    limit = settled(lambda spread: through.solve(first + maps.spread.mean(spread)), d)
    back = settled(lambda seen: through.adjoint(weights + maps.adjoint.mean(seen)), d)
    if limit is None or back is None:
        return np.inf, np.inf
    second = np.tensordot(maps.spread.shares(limit + state.second(maps)), maps.spread.images, 1)
    added = second + np.tensordot(maps.crossed.shares(state.path), maps.crossed.images, 1) + maps.own
    of_groups = added.reshape(maps.groups, -1) @ back.ravel()
    return float(np.vdot(weights, limit)), float(error_of_mean(of_groups))


class MeanSum:
    """The sum of Abar^j M Abar'^j over all j: powers by squaring.

    >>> float(MeanSum.of(np.array([[0.5]])).solve(np.array([[3.0]]))[0, 0])
    4.0
    """

    def __init__(self, powers: list[FloatArray]):
        self._powers = powers

    @classmethod
    def of(cls, mean: FloatArray) -> "MeanSum | None":
        """None where Abar does not fade."""
        powers = [mean]
        for _ in range(_DOUBLINGS):
            size = float(np.abs(powers[-1]).max(initial=0.0))
            if size < _FADED:
                return cls(powers)
            if not size < 1 / _FADED:
                return None
            powers.append(powers[-1] @ powers[-1])
        return None

    def solve(self, right: FloatArray) -> FloatArray:
        """V with V - Abar V Abar' = M."""
        for power in self._powers:
            right = right + power @ right @ power.T
        return (right + right.T) / 2

    def adjoint(self, right: FloatArray) -> FloatArray:
        """V with V - Abar' V Abar = M."""
        for power in self._powers:
            right = right + power.T @ right @ power
        return (right + right.T) / 2


def settled(once: Callable[[FloatArray], FloatArray], dimension: int) -> FloatArray | None:
    """The fixed point (d, d) that is reached from zero, if it is: increments shrink by the gain of the spread."""
    before = once(np.zeros((dimension, dimension)))
    increment = before
    changes = [float(np.abs(before).max(initial=0.0))]
    for _ in track(range(_ROUNDS), _ROUNDS, "the spread in the long run"):
        following = once(before)
        increment, before = following - before, following
        size = float(np.abs(before).max(initial=0.0))
        changes.append(float(np.abs(increment).max(initial=0.0)))
        if not size < _GROWN * max(changes[0], np.finfo(np.float64).tiny):
            return None
        if changes[-1] <= _SETTLED * size:
            return before
    ratio = changes[-1] / changes[-2]
    return None if ratio >= 1 else before + increment * ratio / (1 - ratio)
