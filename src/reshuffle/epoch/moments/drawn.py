"""Second moments over orders that are too many for a recursion: by the maps of drawn orders, less their mean.

An epoch sends the error e and the noise eta to A e + N eta + c, with A = Abar + D. The mean Abar is known better
than from a few draws, and E[D] = 0, so that

    V -> Abar V Abar' + E[D V D'] + E[x x'],      x = D m + (c - cbar) + (D S + N - Nbar) eta,

for the spread V = E (e - E e)(e - E e)', where m + S eta is the mean of e over the orders. Only what the orders
differ by is left to chance: the mean over a fixed set of drawn maps D_t replaces E in every epoch,
and is a positive map.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple, TypeVar

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._budget import A_SECOND, AT_ONCE, CALL, require_affordable
from reshuffle._linalg import few_threads, graded_svd
from reshuffle._progress import track
from reshuffle._uncertainty import MOST_GROUPS, error_of_mean, further_rounds, quantile
from reshuffle.epoch.averaging.sampling import Orders, follow_each, follow_given, stacked_pairs
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.moments.lattice import is_stationary
from reshuffle.epoch.moments.stationary import Enclosure, Lyapunov, Map, limit_of, perron, positive_radius
from reshuffle.epoch.select import SPREADS, THRESHOLDS, Accuracy
from reshuffle.epoch.timeline import Timeline
from reshuffle.epoch.visits import Inputs

FEWEST_PAIRS = 2  # pairs of orders in each group before anything is answered
_SHARE_OF_BUDGET = 0.1
_MOST_ORDERS = 16_000
_FIRST_PAIRS = 4
_APPLIED = 200  # applications of all maps that two radii take, with those of halves, about
_TOLERANCE = 1e-6
"""Parts of an argument that are ignored, relative to its size: answers from draws are known to a percent."""
_UNCHANGED = 1e-13  # relative change in an epoch below which the next ones are not worth their time
_SETTLED = 1e-7  # relative change in a round below which a limit, which is known to a percent, is reached
_RADIUS_TOLERANCE = 1e-3  # relative accuracy of a radius of drawn maps, which is known to some percent
_NEW_EPOCHS = 30  # epochs after which nearly all that a linear map does to the moments of later ones is known
_MOST_BYTES = 2e9
A_ROW = 1000.0  # operations in the time that it takes to draw a row and to fetch it
_ORDER_BYTES = 1.5e8  # memory of orders that are followed at once
_CALLS = 10  # calls with small matrices that a visit takes, and an epoch of written out covariances
_OF_AN_ENTRY = 4.0  # operations in the time that a number takes to come from memory

Answer = TypeVar("Answer")


def draw_flops(pairs: float, dimension: int, rows: int, steps: int) -> float:
    """Operations of drawing so many pairs of orders, calls included."""
    d = float(dimension)
    each = 8.0 * rows * d * d + 10.0 * steps * d * d + 12.0 * d**3
    stacks = np.ceil(pairs / stacked_pairs(dimension, rows))
    return float(2 * pairs * each + 10 * CALL * steps * stacks)


def follow_flops(orders: float, dimension: int, epochs: FloatArray) -> float:
    """Operations of following so many maps through the epochs, forth and back: few epochs show anything new."""
    finite = epochs[np.isfinite(epochs)]
    last = float(finite.max(initial=0.0))
    new = min(last, _NEW_EPOCHS) + _NEW_EPOCHS * (len(finite) < len(epochs))
    small = 20.0 * float(dimension) ** 3 + 500.0 * dimension**2 + 20 * CALL
    return float(new * 8.0 * orders * dimension**3 + last * small)


class Remembered:
    """A linear map (d, c) -> (groups, d, d) that stores its images: the next argument is nearly a combination.

    The moments of a run change smoothly from epoch to epoch: after a dozen epochs or two nothing new is seen.
    Arguments are multiplied by `units` (d, c) before their sizes are compared.

    >>> calls = []
    >>> double = Remembered(lambda matrix: calls.append(1) or 2 * matrix[np.newaxis], np.ones((2, 2)))
    >>> double.combined(double.shares(np.eye(2)))
    array([[2., 0.],
           [0., 2.]])
    >>> double.combined(double.shares(3 * np.eye(2)))[0, 0], double.shares(np.eye(2)).round(4), len(calls)
    (np.float64(6.0), array([1.4142]), 1)
    """

    def __init__(self, image: Callable[[FloatArray], FloatArray], units: FloatArray):
        self._image = image
        self._units = np.maximum(units, _TOLERANCE * units.max(initial=0.0))
        self._directions = np.zeros((0, self._units.size))
        self._means = np.zeros((0, len(units), len(units)))
        self.images: list[FloatArray] = []

    def shares(self, matrix: FloatArray) -> FloatArray:
        """The components (j,) of an argument along each of the directions so far, its own among them."""
        flat = (self._units * matrix).ravel()
        shares = self._directions @ flat
        rest = flat - shares @ self._directions
        # Once more, since the first projection leaves its rounding along what it took away.
        again = self._directions @ rest
        rest, shares = rest - again @ self._directions, shares + again
        new = float(np.linalg.norm(rest))
        is_full = sum(one.nbytes for one in self.images) > _MOST_BYTES
        if np.isfinite(new) and new > _TOLERANCE * float(np.linalg.norm(flat)) and not is_full:
            self._directions = np.vstack([self._directions, rest / new])
            self.images.append(self._image((rest / new).reshape(self._units.shape) / self._units))
            self._means = np.concatenate([self._means, self.images[-1].mean(axis=0)[np.newaxis]])
            shares = np.append(shares, new)
        return np.asarray(shares)

    def combined(self, shares: FloatArray) -> FloatArray:
        """The mean image (d, d) of a combination of the directions; an argument of zeros has none."""
        return np.asarray(np.tensordot(shares, self._means, 1))

    @property
    def directions(self) -> FloatArray:
        """The arguments (j, d, c) that have been mapped."""
        return np.asarray(self._directions.reshape(-1, *self._units.shape) / self._units)


@dataclass(frozen=True, eq=False)
class CentredMaps:
    """Drawn maps of an epoch less their mean, in coordinates z of the state in which Abar is balanced.

    With S = G Nbar, where G is the sum of the powers of Abar, all noise enters through matrices of the size of the
    state. The orders of a group are side by side, as many in each: one matrix (d, orders d).
    """

    mean: FloatArray  # Abar (d, d)
    maps: FloatArray  # D_t (groups, d, orders, d)
    pushes: FloatArray  # noise^2 (N_t - Nbar) Nbar' and c_t - cbar (groups, d, orders, d + 1)
    own: FloatArray  # means of noise^2 (N_t - Nbar)(N_t - Nbar)' + (c_t - cbar)(c_t - cbar)' (groups, d, d)
    inlet: FloatArray  # noise^2 Nbar Nbar' (d, d)
    drift: FloatArray  # Cbar (d,)

    @cached_property
    def spread(self) -> Remembered:
        """M (d, d) -> the mean of D_t M D_t' over each group."""
        return Remembered(self.of_groups, self._units)

    @cached_property
    def adjoint(self) -> Remembered:
        """M (d, d) -> the mean of D_t' M D_t, by which weights go back through an epoch, of all orders."""
        return Remembered(lambda weights: self.weighed(weights)[np.newaxis], self._units)

    @cached_property
    def crossed(self) -> Remembered:
        """(G, m) (d, d + 1) -> the mean of D_t (G X_t' + m (c_t - cbar)') and its transpose over each group."""

        def image(path: FloatArray) -> FloatArray:
            one_sided = self._products(path, self.pushes)
            return one_sided + one_sided.swapaxes(1, 2)

        return Remembered(image, np.column_stack([self._units, np.sqrt(np.diag(self._units))]))

    @property
    def _units(self) -> FloatArray:
        """(d, d): D_t is as small in slow modes as the mean change is, to the root."""
        roots = np.sqrt(np.abs(1 - np.diag(self.mean)))
        return np.outer(roots, roots)

    def of_groups(self, second: FloatArray) -> FloatArray:
        """The mean of D_t M D_t' over each group (groups, d, d)."""
        return self._products(second, self.maps)

    def _products(self, columns: FloatArray, other: FloatArray) -> FloatArray:
        """The mean of D_t M Y_t' over each group (groups, d, d), for M (d, c) and Y (groups, d, orders, c)."""
        wide = (*self.maps.shape[:2], -1)
        after = self.maps.reshape(-1, len(self.mean)) @ columns
        return np.asarray(after.reshape(wide) @ other.reshape(wide).swapaxes(1, 2) / self.maps.shape[2])

    def weighed(self, weights: FloatArray) -> FloatArray:
        """The mean of D_t' M D_t over all orders (d, d)."""
        groups, d, orders, _ = self.maps.shape
        weighed = self.maps.reshape(-1, d).T @ (weights @ self.maps.reshape(groups, d, -1)).reshape(-1, d)
        return np.asarray((weighed + weighed.T) / 2 / (groups * orders))

    def second(self, spread: FloatArray, mean: FloatArray, sums: FloatArray) -> FloatArray:
        """E e e' (d, d), which what orders differ by acts on, for V (d, d), m (d,) and G (d, d)."""
        return np.asarray(spread + np.outer(mean, mean) + sums @ self.inlet @ sums.T)

    def through(self, transposed: bool = False) -> Lyapunov:
        """Sums the powers of Abar, or of its transpose, on both sides of a matrix."""
        loss = np.eye(len(self.mean)) - self.mean
        return Lyapunov(loss.T if transposed else loss)


class CentredDraws:
    """Orders of an epoch, drawn in pairs with their reverses and spread over groups.

    In the coordinates (R / L)^1/2 z of `EpochMap` the mean has the scaled loss; if that is symmetric they are
    turned to its modes. `basis` (d, d) has the states of unit coordinates as its columns.

    The timeline draws orders and makes their visits; its own mean is not used, but `mean`, the mean map of an epoch
    as well as it is known. `is_symmetric` says whether that is symmetric.
    """

    def __init__(self, timeline: Timeline, mean: EpochMap, inputs: Inputs, is_symmetric: bool, seed: int):
        self._timeline, self._mean, self._inputs = timeline, mean, inputs
        self._visits, self.is_symmetric = timeline.visits(0), is_symmetric
        self._rngs = [np.random.default_rng([seed, group]) for group in range(MOST_GROUPS)]
        # D_t (k, d, d), its inputs (k, d, d + 1), and the sum of its own squares (d, d), of some orders.
        self._drawn: list[list[tuple[FloatArray, FloatArray, FloatArray]]] = [[] for _ in self._rngs]
        turn = _modes(mean) if is_symmetric else np.eye(len(mean.kernel))
        self.basis = (np.sqrt(mean.left) / np.sqrt(mean.right))[:, np.newaxis] * turn
        # From a kernel or an entry between L and R to these coordinates (d, d).
        self._roots = turn.T * (np.sqrt(mean.left) * np.sqrt(mean.right))
        # Noise times Nbar (rows, d), as the kernels are, without the factors of the coordinates.
        self._entries = np.ascontiguousarray(inputs.noise * mean.entries[:, 1:].T)
        self._drift = self._roots @ self._constant(mean.entries[:, 0], mean.entries[:, 1:].T)

    def _constant(self, constant: FloatArray, entries: FloatArray) -> FloatArray:
        """The inputs that are the same in every run: the force of a penalty, and responses that are given."""
        given = self._inputs.given
        return constant if given is None else constant + given @ entries

    def _flops(self, pairs: int) -> float:
        """Operations of so many more pairs in each group, calls included."""
        visits, steps = self._visits, self._timeline.walk.steps
        return len(self._drawn) * draw_flops(pairs, visits.dimension, len(visits.blocks.rows), steps)

    def more(self, pairs: int) -> None:
        """Draw so many more pairs for each group."""
        at_once = stacked_pairs(self._visits.dimension, len(self._visits.blocks.rows))
        sizes = [min(at_once, pairs - done) for done in range(0, pairs, at_once)]
        tasks = [(group, size) for group in range(len(self._drawn)) for size in sizes]
        waiting: list[tuple[int, Orders]] = []
        for number, (group, size) in enumerate(track(tasks, len(tasks), "drawing orders"), 1):
            waiting.append((group, self._timeline.draw_pairs(self._rngs[group], size)))
            stacked = sum(len(orders.rows) for _, orders in waiting) // 2
            if number == len(tasks) or stacked + tasks[number][1] > at_once:
                self._follow(waiting)
                waiting = []

    def _follow(self, drawn: list[tuple[int, Orders]]) -> None:
        """Add the maps of drawn orders to those of their groups; all orders are followed side by side."""
        mean, roots = self._mean, self._roots
        rows = np.concatenate([orders.rows for _, orders in drawn])
        every = Orders(rows, np.concatenate([orders.divisors for _, orders in drawn]))
        force = self._visits.unit_force(self._inputs.truth)
        kernel, constant, entries = follow_each(self._visits, force, every)
        maps = roots @ (mean.kernel - kernel) @ roots.T
        pushed = (self._constant(constant, entries) @ roots.T - self._drift)[:, :, np.newaxis]
        first = 0
        for group, orders in drawn:
            here = slice(first, first + len(orders.rows))
            beside, own = np.zeros_like(maps[here]), pushed[here, :, 0].T @ pushed[here, :, 0]
            if self._inputs.given is None and self._inputs.noise:
                noise = self._inputs.noise * entries[here] - self._entries
                beside = roots @ (noise.swapaxes(1, 2) @ self._entries) @ roots.T
                flat = noise.reshape(-1, len(roots))
                own = own + roots @ (flat.T @ flat) @ roots.T
            self._drawn[group].append((maps[here], np.concatenate([beside, pushed[here]], axis=2), own))
            first = here.stop

    @property
    def maps(self) -> CentredMaps:
        """The centred maps of all drawn orders."""
        loss = self._roots @ self._mean.kernel @ self._roots.T
        if self.is_symmetric:
            loss = np.diag(np.diag(loss))
        entries = self._entries @ self._roots.T
        inlet = np.zeros_like(loss) if self._inputs.given is not None else entries.T @ entries
        groups = [list(zip(*group, strict=True)) for group in self._drawn]
        maps, pushes = (
            np.ascontiguousarray(np.array([np.concatenate(group[part]) for group in groups]).swapaxes(1, 2))
            for part in (0, 1)
        )
        own = np.array([np.sum(group[2], axis=0) for group in groups]) / maps.shape[2]
        return CentredMaps(np.eye(len(loss)) - loss, maps, pushes, own, inlet, self._drift)

    def spread(
        self, weights: FloatArray, start: FloatArray, epochs: FloatArray, accuracy: Accuracy
    ) -> tuple[FloatArray, FloatArray]:
        """The trace of weights (d, d) and the spread from a start (d,) after ascending epochs, and its error."""
        basis, groups = self.basis, len(self._drawn)
        allowed = quantile(groups) * accuracy.of(SPREADS)
        weights = basis.T @ weights @ basis
        begin = np.asarray(np.linalg.solve(basis, start), dtype=np.float64)
        # Weights of 1e-170 have no squares: they are followed in other units.
        exponent = int(np.frexp(np.abs(weights).max(initial=0.0))[1])
        weights = np.ldexp(weights, -exponent)

        def found(maps: CentredMaps) -> tuple[tuple[FloatArray, FloatArray], float]:
            values, errors = spread(maps, weights, begin, epochs)
            known = np.isfinite(values) & (values > 0)
            return (values, errors), float((errors[known] / values[known]).max(initial=0.0)) / allowed

        def price(pairs: int) -> float:
            return self._flops(pairs) + follow_flops(2 * groups * pairs, len(basis), epochs)

        first = int(np.clip(AT_ONCE / self._flops(1), FEWEST_PAIRS, 16))
        values, errors = self._draw_until(found, price, first, accuracy.budget)
        return np.ldexp(values, exponent), np.ldexp(errors, exponent)

    def radii(self, accuracy: Accuracy) -> "tuple[Radius, Radius]":
        """The rate and the gain, from as many draws as it takes to know the gain."""
        d, groups, budget = len(self.basis), len(self._drawn), accuracy.budget

        def found(maps: CentredMaps) -> tuple[Radius, float]:
            known = gain(maps)
            return known, known.error / (accuracy.of(THRESHOLDS) * max(1.0, known.value))

        def price(pairs: int) -> float:
            return self._flops(pairs) + _APPLIED * 4.0 * 2.0 * groups * pairs * float(d) ** 3

        require_affordable(
            price(_FIRST_PAIRS), budget, "the mean square from a few drawn orders",
            ("fewer rows or features", "a larger {budget}", "{expected_risk} at the epochs of interest"),
        )  # fmt: skip
        known = self._draw_until(found, price, _FIRST_PAIRS, budget)
        return rate(self.maps), known

    def _draw_until(
        self,
        found: Callable[[CentredMaps], tuple[Answer, float]],
        price: Callable[[int], float],
        first: int,
        budget: float,
    ) -> Answer:
        """The answer of so many orders that its error is small enough, or a tenth of the budget is spent.

        `found` returns the answer, and the factor by which its error is too large.
        """
        pairs, more, left = 0, first, max(_SHARE_OF_BUDGET * budget, A_SECOND)
        with few_threads(len(self.basis)):
            while more:
                self.more(more)
                pairs, left = pairs + more, left - price(more)
                answer, excess = found(self.maps)
                most = min(left * pairs / price(pairs), _MOST_ORDERS // (2 * len(self._drawn)) - pairs)
                more = max(further_rounds(pairs, excess, most), 0) if 1 < excess < np.inf else 0
        return answer


def _modes(mean: EpochMap) -> FloatArray:
    """The modes (d, d) of the scaled loss of a symmetric map, small ones too where it is definite."""
    symmetric = (mean.kernel + mean.kernel.T) / 2
    roots = np.sqrt(mean.left) * np.sqrt(mean.right)
    try:
        lower = np.linalg.cholesky(symmetric)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.eigh(roots[:, np.newaxis] * symmetric * roots)[1])
    return np.asarray(graded_svd(lower.T * roots)[2])


def spread(
    maps: CentredMaps, weights: FloatArray, start: FloatArray, epochs: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The trace of weights (d, d) and the spread from a start z_0 (d,) after ascending epochs (k,), and its error.

    To first order what a group of draws does to an answer is the sum over the epochs of what it adds to the spread
    there, weighed by what the later ones leave of it: weights go back through an epoch by its adjoint.
    """
    finite = epochs[np.isfinite(epochs)]
    values, errors = np.full(len(epochs), np.inf), np.full(len(epochs), np.inf)
    path, *added = _forward(maps, weights, start, int(finite.max(initial=0.0)))
    when = np.minimum(finite, len(path) - 1).astype(np.intp)
    values[: len(when)] = path[when]
    known = when[np.isfinite(path[when])]
    errors[: len(known)] = error_of_mean(_of_groups(maps, weights, added, known).T)
    if len(finite) < len(epochs):
        values[-1], errors[-1] = _end(maps, weights)
    return values, errors


def _forward(
    maps: CentredMaps, weights: FloatArray, start: FloatArray, count: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The values after 0 to `count` epochs, and the shares of each of these in the directions of two linear maps.

    Fewer, if nothing changes any more, or all has left the range of numbers.
    """
    # V, m and G.
    state = np.zeros_like(maps.mean), start, np.zeros_like(maps.mean)
    values, seen, crossed = [0.0], [], []
    for _ in track(range(count), count, "the spread of runs"):
        spread, mean, sums = state
        seen.append(maps.spread.shares(maps.second(*state)))
        crossed.append(maps.crossed.shares(np.column_stack([sums, mean])))
        added = maps.spread.combined(seen[-1]) + maps.crossed.combined(crossed[-1]) + maps.own.mean(axis=0)
        second = maps.mean @ spread @ maps.mean.T + added
        before, state = (
            state,
            (
                (second + second.T) / 2,
                maps.mean @ mean + maps.drift,
                np.eye(len(sums)) + maps.mean @ sums,
            ),
        )
        values.append(max(float(np.vdot(weights, state[0])), 0.0))
        if not np.isfinite(values[-1]):
            values[-1] = np.inf
            break
        if all(is_stationary(now, then, _UNCHANGED) for now, then in zip(state, before, strict=True)):
            break
    return np.array(values), _padded(seen), _padded(crossed)


def _padded(rows: list[FloatArray]) -> FloatArray:
    """Shares (epochs, directions): in directions that were not known yet there was none."""
    padded = np.zeros((len(rows), max((len(row) for row in rows), default=0)))
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded


def _of_groups(maps: CentredMaps, weights: FloatArray, added: list[FloatArray], when: IntArray) -> FloatArray:
    """The answers of each group by itself after each of the epochs, to first order: (epochs, groups)."""
    last, groups, rows = int(when.max(initial=0)), len(maps.maps), []
    later = weights
    # Shares of the weights of what is added 0, 1, 2, ... epochs before the answer, until they change no more.
    for _ in track(range(last), last, "weights of the spread"):
        rows.append(maps.adjoint.shares(later))
        before, later = later, maps.mean.T @ later @ maps.mean + maps.adjoint.combined(rows[-1])
        if is_stationary(later, before, _UNCHANGED):
            break
    back = _padded(rows)
    seen = np.column_stack([*(shares[:last] for shares in added), np.ones(last)])
    enters = np.concatenate(
        [
            np.reshape(some, (-1, groups, weights.size))
            for some in (maps.spread.images, maps.crossed.images, maps.own)
        ]
    )
    # (groups, directions of weights, directions of what is added).
    forms = maps.adjoint.directions.reshape(-1, weights.size) @ enters.transpose(1, 2, 0)
    answers = np.zeros((len(when), groups))
    for number, epoch in enumerate(when):
        ages = np.minimum(np.arange(epoch)[::-1], len(back) - 1)
        answers[number] = np.tensordot(forms, back[ages].T @ seen[:epoch], 2)
    return answers


def _end(maps: CentredMaps, weights: FloatArray) -> tuple[float, float]:
    """The limit of the trace of weights and the spread, and its error; inf if there is none."""
    d = len(maps.mean)
    through, back_through, units = maps.through(), maps.through(transposed=True), np.ones(d)
    if not through.exists:
        return np.inf, np.inf
    sums = np.asarray(np.linalg.inv(np.eye(d) - maps.mean), dtype=np.float64)
    mean = sums @ maps.drift
    crossed = maps.crossed.shares(np.column_stack([sums, mean]))
    first = maps.crossed.combined(crossed) + maps.own.mean(axis=0)

    def once(spread: FloatArray) -> FloatArray:
        shares = maps.spread.shares(maps.second(spread, mean, sums))
        return through.solve(first + maps.spread.combined(shares))

    def backwards(later: FloatArray) -> FloatArray:
        return back_through.solve(weights + maps.adjoint.combined(maps.adjoint.shares(later)))

    limit, _ = limit_of(once, units, _SETTLED)
    back, _ = limit_of(backwards, units, _SETTLED)
    if not (np.isfinite(limit).all() and np.isfinite(back).all()):
        return np.inf, np.inf
    second = maps.spread.shares(maps.second(limit, mean, sums))
    added = np.tensordot(second, maps.spread.images, 1) + np.tensordot(crossed, maps.crossed.images, 1)
    of_groups = (added + maps.own).reshape(len(maps.maps), -1) @ back.ravel()
    return float(np.vdot(weights, limit)), float(error_of_mean(of_groups))


# Covariances given the responses, where states are small and epochs many: simulated runs would visit the rows again
# in every epoch.


def map_flops(orders: float, dimension: int, rows: int, steps: int, epochs: float) -> float:
    """Operations of `drawn_covariances` of so many orders, up to so many epochs; infinite if memory forbids it."""
    d, answers = float(dimension), 1 + MOST_GROUPS
    entries = d**4 / 4
    if 8.0 * answers * entries > _MOST_BYTES / 4:
        return np.inf
    stacks = np.ceil(orders / _stacked_orders(dimension, rows))
    drawn = orders * rows * (A_ROW + 10.0 * d * d) + _CALLS * CALL * steps * stacks
    return float(drawn + answers * entries * (8.0 * orders + _OF_AN_ENTRY * epochs) + _CALLS * CALL * epochs)


def _stacked_orders(dimension: int, rows: int) -> int:
    return max(1, int(_ORDER_BYTES / (32.0 * rows + 64.0 * dimension**2)))


def drawn_covariances(
    timeline: Timeline, given: FloatArray, start: FloatArray, epochs: FloatArray, orders: int, seed: int
) -> FloatArray:
    """Covariances (1 + groups, k, r, r) of the parameters over orders at ascending finite epochs, from u_0 (r,).

    Epochs are independent of each other, and each has the law of the maps z -> A z + c of n drawn orders. With
    Q[M] the covariance of [A, c] (d, d + 1) over them, applied to M (d + 1, d + 1), and the mean m,

        V -> E[A] V E[A]' + (1 - 1/n) Q[V] + Q[(m, 1)(m, 1)'].

    First the answer of all orders, then those without each group of them.
    """
    visits, rng = timeline.visits(0), np.random.default_rng(seed)
    d, rank = visits.dimension, visits.rank
    at_once = _stacked_orders(d, len(visits.blocks.rows))
    sizes = [min(at_once, orders - done) for done in range(0, orders, at_once)]
    followed = []
    with few_threads(d):
        for size in track(sizes, len(sizes), "drawing orders"):
            followed.append(follow_given(visits, given, timeline.draw_pairs(rng, size, alone=True)))
        kernels, pushed = (np.concatenate(parts) for parts in zip(*followed, strict=True))
        maps = np.eye(d) - visits.left[:, np.newaxis] * kernels * visits.right
        maps = np.concatenate([maps, (visits.left * pushed)[:, :, np.newaxis]], axis=2)
        chosen = [np.arange(orders) % MOST_GROUPS != number for number in range(-1, MOST_GROUPS)]
        means = np.array([maps[some].mean(axis=0) for some in chosen])
        spreads = np.array([_covariance(maps[some]) for some in chosen])
        shares = np.array([1 - 1 / some.sum() for some in chosen])[:, np.newaxis, np.newaxis]
        transposed = np.ascontiguousarray(means[:, :, :d].swapaxes(1, 2))
        inside, outside = np.triu_indices(d + 1), np.triu_indices(d)
        # The state is followed with a last entry of one.
        mean, seconds = np.zeros((len(means), d + 1)), np.zeros((len(means), d + 1, d + 1))
        mean[:, :rank], mean[:, d] = start, 1.0
        spread, added, done = np.zeros((len(means), d, d)), np.zeros((len(means), d, d)), 0
        found = np.zeros((len(means), len(epochs), rank, rank))
        for place, epoch in enumerate(epochs.astype(int)):
            for _ in range(done, epoch):
                np.multiply(mean[:, :, np.newaxis], mean[:, np.newaxis], out=seconds)
                seconds[:, :d, :d] += shares * spread
                entries = spreads @ seconds[:, *inside, np.newaxis]
                added[:, *outside] = added[:, *outside[::-1]] = entries[:, :, 0]
                before, spread = spread, means[:, :, :d] @ spread @ transposed + added
                mean[:, :d] = (means @ mean[:, :, np.newaxis])[:, :, 0]
                if is_stationary(spread, before, _UNCHANGED):
                    break
            done, found[:, place] = epoch, spread[:, :rank, :rank]
    return found


def _covariance(maps: FloatArray) -> FloatArray:
    """Q of n maps (n, d, d + 1), from the upper half of a symmetric M (d + 1, d + 1) to that of Q[M] (d, d)."""
    count, d, width = maps.shape
    apart = (maps - maps.mean(axis=0)).reshape(count, -1)
    products = (apart.T @ apart / (count - 1)).reshape(d, width, d, width)
    (upper, lower), (first, second) = np.triu_indices(d), np.triu_indices(width)
    rows, others = upper[:, np.newaxis], lower[:, np.newaxis]
    # An entry beside the diagonal of M stands for two.
    twice = products[rows, first, others, second] + products[rows, second, others, first]
    return np.asarray(np.where(first == second, twice / 2, twice))


class Radius(NamedTuple):
    """A spectral radius and its error."""

    value: float
    error: float


def rate(maps: CentredMaps) -> Radius:
    """The spectral radius of M -> Abar M Abar' + E[D M D']."""

    def forth(some: CentredMaps, matrix: FloatArray) -> FloatArray:
        return np.asarray(maps.mean @ matrix @ maps.mean.T + some.of_groups(matrix).mean(axis=0))

    return _unbiased(maps, forth, lambda matrix: maps.mean.T @ matrix @ maps.mean + maps.weighed(matrix))


def gain(maps: CentredMaps) -> Radius:
    """The spectral radius of M -> the sum of Abar^j E[D M D'] Abar'^j over all j: how much the spread feeds itself.

    Infinite where the mean diverges.
    """
    through, back_through = maps.through(), maps.through(transposed=True)
    if not through.exists:
        return Radius(np.inf, 0.0)
    return _unbiased(
        maps,
        lambda some, matrix: through.solve(some.of_groups(matrix).mean(axis=0)),
        lambda matrix: maps.weighed(back_through.solve(matrix)),
        back_through.solve,
    )


def gain_bound(maps: CentredMaps, decided: float, rounds: int, start: FloatArray | None = None) -> Enclosure:
    """Bounds on the gain of drawn maps: only which side of `decided` it is on, in so many rounds."""
    through = maps.through()
    if not through.exists:
        return Enclosure(np.inf, np.inf, np.inf)

    def positive(matrix: FloatArray) -> FloatArray:
        return through.solve(maps.of_groups(matrix).mean(axis=0))

    return positive_radius(positive, len(maps.mean), decided, rounds=rounds, start=start)


def _unbiased(
    maps: CentredMaps,
    forth: Callable[[CentredMaps, FloatArray], FloatArray],
    back: Map,
    weigh: Map = lambda left: left,
) -> Radius:
    """The spectral radius of M -> forth(maps, M), less its bias: as large as what halves of the draws differ by.

    `back` is the adjoint, and `weigh` turns its eigenmatrix into the weights of E[D M D'].
    """
    d, half = len(maps.mean), len(maps.maps) // 2
    value, right = perron(partial(forth, maps), d, _RADIUS_TOLERANCE)
    _, left = perron(back, d, _RADIUS_TOLERANCE)
    # A radius moves by <left, dE(right)> / <left, right>.
    size = float(np.vdot(left, right))
    added = maps.of_groups(right).reshape(len(maps.maps), -1) @ weigh(left).ravel()
    halves = [
        perron(partial(forth, replace(maps, maps=maps.maps[part])), d, _RADIUS_TOLERANCE, right)[0]
        for part in (slice(half), slice(half, None))
    ]
    bias = float(np.mean(halves)) - value
    error = float(error_of_mean(added / size)) if size else 0.0
    return Radius(max(value - bias, 0.0), error + abs(bias))
