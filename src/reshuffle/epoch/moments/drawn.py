"""Second moments over orders that are too many for a recursion: by the maps of drawn orders, less their mean.

An epoch sends the error e and the noise eta to A e + N eta + c, with A = Abar + D. The mean Abar is known better
than from a few draws, and E[D] = 0, so that

    V -> Abar V Abar' + E[D V D'] + E[x x'],      x = D m + (c - cbar) + (D S + N - Nbar) eta,

for the spread V = E (e - E e)(e - E e)', where m + S eta is the mean of e over the orders. Only what the orders
differ by is left to chance: the mean over a fixed set of drawn maps D_t replaces E in every epoch,
and is a positive map.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._budget import A_SECOND, AT_ONCE, CALL, require_affordable
from reshuffle._linalg import few_threads, graded_svd
from reshuffle._progress import track
from reshuffle._uncertainty import MOST_GROUPS, error_of_mean, further_rounds
from reshuffle.epoch.averaging.sampling import Orders, follow_each, follow_given, stacked_pairs
from reshuffle.epoch.epoch_map import EpochMap
from reshuffle.epoch.moments.lattice import is_stationary
from reshuffle.epoch.moments.stationary import Enclosure, Lyapunov, limit_of, perron, positive_radius
from reshuffle.epoch.timeline import Timeline
from reshuffle.epoch.visits import Inputs

SHARE = 0.02
"""Requested error of the spread, relative to itself."""
FEWEST_PAIRS = 2
"""Pairs of orders in each group before anything is answered."""
_KNOWN = 0.02
"""Absolute error of the gain, which is compared with one."""
_SHARE_OF_BUDGET = 0.1
_MOST_ORDERS = 16_000
_FIRST_PAIRS = 4
_APPLIED = 200
"""Applications of all maps that two radii take, with those of halves, about."""
_TOLERANCE = 1e-6
"""Parts of an argument that are ignored, relative to its size: answers from draws are known to a percent."""
_UNCHANGED = 1e-13
"""Relative change in an epoch below which the next ones are not worth their time."""
_SETTLED = 1e-7
"""Relative change in a round below which a limit, which is known to a percent, is reached."""
_RADIUS_TOLERANCE = 1e-3
"""Relative accuracy of a radius of drawn maps, which is known to some percent."""
_NEW_EPOCHS = 30
"""Epochs after which nearly all that a linear map does to the moments of later ones is known."""
_MOST_BYTES = 2e9
A_ROW = 1000.0
"""Operations in the time that it takes to draw a row and to fetch it."""
_ORDER_BYTES = 1.5e8
"""Memory of orders that are followed at once."""
_CALLS = 10
"""Calls with small matrices that a visit takes."""

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
        self._means = np.zeros((0, len(units), len(units)))

    def shares(self, matrix: FloatArray) -> FloatArray:
        """The components (j,) of an argument along each of the directions so far, its own among them."""
        flat = (self._units * matrix).ravel()
        shares = self._directions @ flat
        rest = flat - shares @ self._directions
        # Once more, since the first projection leaves its rounding along what it took away.
        again = self._directions @ rest
        rest, shares = rest - again @ self._directions, shares + again
        new = float(np.linalg.norm(rest))
        is_full = sum(one.nbytes for one in self._images) > _MOST_BYTES
        if np.isfinite(new) and new > _TOLERANCE * float(np.linalg.norm(flat)) and not is_full:
            self._directions = np.vstack([self._directions, rest / new])
            self._images.append(self._image((rest / new).reshape(self._units.shape) / self._units))
            self._means = np.concatenate([self._means, self._images[-1].mean(axis=0)[np.newaxis]])
            shares = np.append(shares, new)
        return np.asarray(shares)

    def mean(self, matrix: FloatArray) -> FloatArray:
        """The mean (d, d) of the images of all groups."""
        return self.combined(self.shares(matrix))

    def combined(self, shares: FloatArray) -> FloatArray:
        """The mean image (d, d) of a combination of the directions; an argument of zeros has none."""
        return np.asarray(np.tensordot(shares, self._means, 1))

    @property
    def directions(self) -> FloatArray:
        """The arguments (j, d, c) that have been mapped."""
        return np.asarray(self._directions.reshape(-1, *self._units.shape) / self._units)

    @property
    def images(self) -> FloatArray:
        """Their images (j, groups, d, d)."""
        return np.array(self._images)


@dataclass(frozen=True, eq=False)
class CentredMaps:
    """Drawn maps of an epoch less their mean, in coordinates z of the state in which Abar is balanced.

    With S = G Nbar, where G is the sum of the powers of Abar, all noise enters through matrices of the size of the
    state. The orders of a group are side by side, as many in each: one matrix (d, orders d).
    """

    mean: FloatArray
    """Abar (d, d)."""
    maps: FloatArray
    """D_t (groups, d, orders, d)."""
    pushes: FloatArray
    """noise^2 (N_t - Nbar) Nbar' and c_t - cbar (groups, d, orders, d + 1)."""
    own: FloatArray
    """The means of noise^2 (N_t - Nbar)(N_t - Nbar)' + (c_t - cbar)(c_t - cbar)' (groups, d, d)."""
    inlet: FloatArray
    """noise^2 Nbar Nbar' (d, d)."""
    drift: FloatArray
    """Cbar (d,)."""

    def some(self, groups: slice) -> "CentredMaps":
        """A copy with some of the groups."""
        return replace(self, maps=self.maps[groups], pushes=self.pushes[groups], own=self.own[groups])

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


class _Drawn(NamedTuple):
    """D_t (k, d, d), its inputs (k, d, d + 1), and the sum of its own squares (d, d), of some orders."""

    maps: FloatArray
    pushes: FloatArray
    own: FloatArray


class CentredDraws:
    """Orders of an epoch, drawn in pairs with their reverses and spread over groups.

    In the coordinates (R / L)^1/2 z of `EpochMap` the mean has the scaled loss; if that is symmetric they are
    turned to its modes.

    The timeline draws orders and makes their visits; its own mean is not used, but `mean`, the mean map of an epoch
    as well as it is known. `is_symmetric` says whether that is symmetric.
    """

    def __init__(self, timeline: Timeline, mean: EpochMap, inputs: Inputs, is_symmetric: bool, seed: int):
        self._timeline, self._mean, self._inputs = timeline, mean, inputs
        self._visits, self.is_symmetric = timeline.visits(0), is_symmetric
        self._rngs = [np.random.default_rng([seed, group]) for group in range(MOST_GROUPS)]
        self._drawn: list[list[_Drawn]] = [[] for _ in self._rngs]
        turn = _modes(mean) if is_symmetric else np.eye(len(mean.kernel))
        self.basis = (np.sqrt(mean.left) / np.sqrt(mean.right))[:, np.newaxis] * turn
        """(d, d): the states of unit coordinates, as its columns."""
        self._roots = turn.T * (np.sqrt(mean.left) * np.sqrt(mean.right))
        """(d, d): from a kernel or an entry between L and R to these coordinates."""
        self._entries = np.ascontiguousarray(inputs.noise * mean.entries[:, 1:].T)
        """(rows, d): noise times Nbar, as the kernels are, without the factors of the coordinates."""
        self._drift = self._roots @ self._constant(mean.entries[:, 0], mean.entries[:, 1:].T)

    def _constant(self, constant: FloatArray, entries: FloatArray) -> FloatArray:
        """The inputs that are the same in every run: the force of a penalty, and responses that are given."""
        given = self._inputs.given
        return constant if given is None else constant + given @ entries

    @property
    def pairs(self) -> int:
        """The number of pairs of orders in each group."""
        return sum(len(one.maps) for one in self._drawn[0]) // 2

    def flops(self, pairs: int) -> float:
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
        visits, mean, roots = self._visits, self._mean, self._roots
        rows = np.concatenate([orders.rows for _, orders in drawn])
        every = Orders(rows, np.concatenate([orders.divisors for _, orders in drawn]))
        first = 0
        kernel, constant, entries = follow_each(visits, visits.unit_force(self._inputs.truth), every)
        maps = roots @ (mean.kernel - kernel) @ roots.T
        pushed = (self._constant(constant, entries) @ roots.T - self._drift)[:, :, np.newaxis]
        for group, orders in drawn:
            here = slice(first, first + len(orders.rows))
            beside, own = np.zeros_like(maps[here]), pushed[here, :, 0].T @ pushed[here, :, 0]
            if self._inputs.given is None and self._inputs.noise:
                noise = self._inputs.noise * entries[here] - self._entries
                beside = roots @ (noise.swapaxes(1, 2) @ self._entries) @ roots.T
                flat = noise.reshape(-1, len(roots))
                own = own + roots @ (flat.T @ flat) @ roots.T
            pushes = np.concatenate([beside, pushed[here]], axis=2)
            self._drawn[group].append(_Drawn(maps[here], pushes, own))
            first = here.stop

    @property
    def maps(self) -> CentredMaps:
        """The centred maps of all drawn orders."""

        def side_by_side(part: str) -> FloatArray:
            groups = [np.concatenate([getattr(one, part) for one in group]) for group in self._drawn]
            return np.ascontiguousarray(np.array(groups).swapaxes(1, 2))

        loss = self._roots @ self._mean.kernel @ self._roots.T
        if self.is_symmetric:
            loss = np.diag(np.diag(loss))
        entries = self._entries @ self._roots.T
        inlet = np.zeros_like(loss) if self._inputs.given is not None else entries.T @ entries
        own = np.array([np.sum([one.own for one in group], axis=0) for group in self._drawn])
        maps, pushes = side_by_side("maps"), side_by_side("pushes")
        return CentredMaps(np.eye(len(loss)) - loss, maps, pushes, own / maps.shape[2], inlet, self._drift)

    def spread(
        self, weights: FloatArray, start: FloatArray, epochs: FloatArray, budget: float
    ) -> tuple[FloatArray, FloatArray]:
        """The trace of weights (d, d) and the spread from a start (d,) after ascending epochs, and its error.

        Orders are drawn until that is `SHARE` of the spread at every epoch.
        """
        basis, groups = self.basis, len(self._drawn)
        weights = basis.T @ weights @ basis
        begin = np.asarray(np.linalg.solve(basis, start), dtype=np.float64)
        # Weights of 1e-170 have no squares: they are followed in other units.
        exponent = int(np.frexp(np.abs(weights).max(initial=0.0))[1])
        weights = np.ldexp(weights, -exponent)

        def found(maps: CentredMaps) -> tuple[tuple[FloatArray, FloatArray], float]:
            values, errors = spread(maps, weights, begin, epochs)
            known = np.isfinite(values) & (values > 0)
            return (values, errors), float((errors[known] / values[known]).max(initial=0.0)) / SHARE

        def price(pairs: int) -> float:
            return self.flops(pairs) + follow_flops(2 * groups * pairs, len(basis), epochs)

        first = int(np.clip(AT_ONCE / self.flops(1), FEWEST_PAIRS, 16))
        values, errors = self._draw_until(found, price, first, budget)
        return np.ldexp(values, exponent), np.ldexp(errors, exponent)

    def radii(self, budget: float) -> "tuple[Radius, Radius]":
        """The rate and the gain, from as many draws as it takes to know the gain."""
        d, groups = len(self.basis), len(self._drawn)

        def found(maps: CentredMaps) -> tuple[Radius, float]:
            known = gain(maps)
            return known, known.error / (_KNOWN * max(1.0, known.value))

        def price(pairs: int) -> float:
            return self.flops(pairs) + _APPLIED * 4.0 * 2.0 * groups * pairs * float(d) ** 3

        require_affordable(
            price(_FIRST_PAIRS),
            budget,
            "the mean square from a few drawn orders",
            ("fewer rows or features", "a larger {budget}", "{expected_risk} at the epochs of interest"),
        )
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
        more, left = first, max(_SHARE_OF_BUDGET * budget, A_SECOND)
        with few_threads(len(self.basis)):
            while True:
                self.more(more)
                left -= price(more)
                answer, excess = found(self.maps)
                most = min(
                    left * self.pairs / price(self.pairs), _MOST_ORDERS // (2 * len(self._drawn)) - self.pairs
                )
                more = further_rounds(self.pairs, excess, most) if 1 < excess < np.inf else 0
                if more < 1:
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


class _State(NamedTuple):
    """The spread V (d, d), the mean m (d,) and the sum G (d, d) of the powers of Abar."""

    spread: FloatArray
    mean: FloatArray
    sums: FloatArray

    def second(self, maps: CentredMaps) -> FloatArray:
        """E e e' (d, d), which what orders differ by acts on."""
        return self.spread + np.outer(self.mean, self.mean) + self.sums @ maps.inlet @ self.sums.T

    @property
    def path(self) -> FloatArray:
        """(G, m) (d, d + 1), by which pushes are multiplied."""
        return np.column_stack([self.sums, self.mean])


def _forward(
    maps: CentredMaps, weights: FloatArray, start: FloatArray, count: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The values after 0 to `count` epochs, and the shares of each of these in the directions of two linear maps.

    Fewer, if nothing changes any more, or all has left the range of numbers.
    """
    nothing = np.zeros_like(maps.mean)
    state, values, seen, crossed = _State(nothing, start, nothing), [0.0], [], []
    for _ in track(range(count), count, "the spread of runs"):
        seen.append(maps.spread.shares(state.second(maps)))
        crossed.append(maps.crossed.shares(state.path))
        added = maps.spread.combined(seen[-1]) + maps.crossed.combined(crossed[-1]) + maps.own.mean(axis=0)
        second = maps.mean @ state.spread @ maps.mean.T + added
        following = _State(
            (second + second.T) / 2,
            maps.mean @ state.mean + maps.drift,
            np.eye(len(maps.mean)) + maps.mean @ state.sums,
        )
        values.append(max(float(np.vdot(weights, following.spread)), 0.0))
        if not np.isfinite(values[-1]):
            values[-1] = np.inf
            break
        if all(is_stationary(now, then, _UNCHANGED) for now, then in zip(following, state, strict=True)):
            break
        state = following
    return np.array(values), _padded(seen), _padded(crossed)


def _padded(rows: list[FloatArray]) -> FloatArray:
    """Shares (epochs, directions): in directions that were not known yet there was none."""
    padded = np.zeros((len(rows), max((len(row) for row in rows), default=0)))
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded


def _of_groups(maps: CentredMaps, weights: FloatArray, added: list[FloatArray], when: IntArray) -> FloatArray:
    """The answers of each group by itself after each of the epochs, to first order: (epochs, groups)."""
    last, groups = int(when.max(initial=0)), len(maps.maps)
    back = _padded(list(_backward(maps, weights, last)))
    seen = np.column_stack([*(shares[:last] for shares in added), np.ones(last)])
    images = [maps.spread.images, maps.crossed.images, maps.own[np.newaxis]]
    enters = np.concatenate([some.reshape(-1, groups, weights.size) for some in images])
    # (groups, directions of weights, directions of what is added).
    forms = maps.adjoint.directions.reshape(-1, weights.size) @ enters.transpose(1, 2, 0)
    answers = np.zeros((len(when), groups))
    for number, epoch in enumerate(when):
        ages = np.minimum(np.arange(epoch)[::-1], len(back) - 1)
        answers[number] = np.tensordot(forms, back[ages].T @ seen[:epoch], 2)
    return answers


def _backward(maps: CentredMaps, weights: FloatArray, count: int) -> Iterator[FloatArray]:
    """Shares of the weights of what is added 0, 1, 2, ... epochs before the answer, until they change no more."""
    for _ in track(range(count), count, "weights of the spread"):
        shares = maps.adjoint.shares(weights)
        yield shares
        before = weights
        weights = maps.mean.T @ weights @ maps.mean + maps.adjoint.combined(shares)
        if is_stationary(weights, before, _UNCHANGED):
            return


def _end(maps: CentredMaps, weights: FloatArray) -> tuple[float, float]:
    """The limit of the trace of weights and the spread, and its error; inf if there is none."""
    d = len(maps.mean)
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
    of_groups = added.reshape(len(maps.maps), -1) @ back.ravel()
    return float(np.vdot(weights, limit)), float(error_of_mean(of_groups))


# Covariances given the responses, where states are small and epochs many: simulated runs would visit the rows again
# in every epoch.


def map_flops(orders: float, dimension: int, rows: int, steps: int, epochs: float) -> float:
    """Operations of `drawn_covariances` of so many orders, up to so many epochs, calls included."""
    d = float(dimension)
    stacks = np.ceil(orders / _stacked_orders(dimension, rows))
    drawn = orders * rows * (A_ROW + 10.0 * d * d) + _CALLS * CALL * steps * stacks
    return float(drawn + epochs * (1 + MOST_GROUPS) * (4.0 * orders * d**3 + CALL))


def _stacked_orders(dimension: int, rows: int) -> int:
    return max(1, int(_ORDER_BYTES / (32.0 * rows + 64.0 * dimension**2)))


def drawn_covariances(
    timeline: Timeline, given: FloatArray, start: FloatArray, epochs: FloatArray, orders: int, seed: int
) -> FloatArray:
    """Covariances (1 + groups, k, r, r) of the parameters over orders at ascending finite epochs, from u_0 (r,).

    Epochs are independent of each other, and each has the law of the maps z -> A z + c of drawn orders:

        V -> mean of A V A' + covariance of A m + c,

    with the mean m. First the answer of all orders, then those without each group of them.
    """
    visits, rng = timeline.visits(0), np.random.default_rng(seed)
    at_once, d, rank = (
        _stacked_orders(visits.dimension, len(visits.blocks.rows)),
        visits.dimension,
        visits.rank,
    )
    sizes = [min(at_once, orders - done) for done in range(0, orders, at_once)]
    drawn = []
    with few_threads(d):
        for size in track(sizes, len(sizes), "drawing orders"):
            drawn.append(follow_given(visits, given, timeline.draw_pairs(rng, size, alone=True)))
        kernels, pushed = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        maps, pushed = np.eye(d) - visits.left[:, np.newaxis] * kernels * visits.right, visits.left * pushed
        found = np.zeros((1 + MOST_GROUPS, len(epochs), rank, rank))
        for number, answer in enumerate(found):
            some = np.arange(orders) % MOST_GROUPS != number - 1
            # The orders are side by side: (d, orders, d).
            wide, inputs, count = np.ascontiguousarray(maps[some].swapaxes(0, 1)), pushed[some].T, some.sum()
            spread, mean, done = np.zeros((d, d)), np.zeros(d), 0
            mean[:rank] = start
            for place, epoch in enumerate(epochs.astype(int)):
                for _ in range(done, epoch):
                    ends = wide @ mean + inputs
                    apart = ends - ends.mean(axis=1, keepdims=True)
                    after = (wide.reshape(-1, d) @ spread).reshape(d, -1) @ wide.reshape(d, -1).T
                    before, spread = spread, after / count + apart @ apart.T / (count - 1)
                    mean = ends.mean(axis=1)
                    if is_stationary(spread, before, _UNCHANGED):
                        break
                done, answer[place] = epoch, spread[:rank, :rank]
    return found


class Radius(NamedTuple):
    """A spectral radius and its error."""

    value: float
    error: float


def rate(maps: CentredMaps) -> Radius:
    """The spectral radius of M -> Abar M Abar' + E[D M D']."""
    return _unbiased(maps, None)


def gain(maps: CentredMaps) -> Radius:
    """The spectral radius of M -> the sum of Abar^j E[D M D'] Abar'^j over all j: how much the spread feeds itself.

    Infinite where the mean diverges.
    """
    through = Lyapunov(np.eye(len(maps.mean)) - maps.mean)
    return _unbiased(maps, through) if through.exists else Radius(np.inf, 0.0)


def gain_bound(maps: CentredMaps, decided: float, rounds: int, start: FloatArray | None = None) -> Enclosure:
    """Bounds on the gain of drawn maps: only which side of `decided` it is on, in so many rounds."""
    through = Lyapunov(np.eye(len(maps.mean)) - maps.mean)
    if not through.exists:
        return Enclosure(np.inf, np.inf, np.inf)

    def positive(matrix: FloatArray) -> FloatArray:
        return through.solve(maps.of_groups(matrix).mean(axis=0))

    return positive_radius(positive, len(maps.mean), decided, rounds=rounds, start=start)


def _unbiased(maps: CentredMaps, through: Lyapunov | None) -> Radius:
    """The rate, or the gain if the powers of Abar are summed by `through`, less its bias.

    That is as large as what halves of the draws differ by.
    """
    mean, half = maps.mean, len(maps.maps) // 2

    def radius(some: CentredMaps, start: FloatArray | None = None) -> tuple[float, FloatArray]:
        def forth(matrix: FloatArray) -> FloatArray:
            added = some.of_groups(matrix).mean(axis=0)
            return np.asarray(mean @ matrix @ mean.T + added if through is None else through.solve(added))

        return perron(forth, len(mean), _RADIUS_TOLERANCE, start)

    def back(matrix: FloatArray) -> FloatArray:
        if through is None:
            return mean.T @ matrix @ mean + maps.weighed(matrix)
        return maps.weighed(through.adjoint(matrix))

    value, right = radius(maps)
    _, left = perron(back, len(mean), _RADIUS_TOLERANCE)
    # A radius moves by <left, dE(right)> / <left, right>.
    size, weights = float(np.vdot(left, right)), left if through is None else through.adjoint(left)
    added = maps.of_groups(right).reshape(len(maps.maps), -1) @ weights.ravel()
    halves = [radius(maps.some(part), right)[0] for part in (slice(half), slice(half, None))]
    bias = float(np.mean(halves)) - value
    error = float(error_of_mean(added / size)) if size else 0.0
    return Radius(max(value - bias, 0.0), error + abs(bias))
