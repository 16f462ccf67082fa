"""The mean of an epoch from sampled orders, where neither the lattice nor the series reaches.

Orders are drawn in pairs, each with its reverse: the estimate of Z is then symmetric, as Z is, and what is
antisymmetric in the order cancels exactly. A part of each order's pull is a control variate
(`control_variates`): its mean over all orders is known, and only the rest is left to chance.
Draws are spread over a few groups, whose differences tell the error of this and of everything derived
(`confidence`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._linalg import root_mean_square
from reshuffle._progress import track
from reshuffle._uncertainty import error_of_mean, further_rounds, number_of_groups
from reshuffle.epoch.accuracy import A_SECOND, AT_ONCE, CALL, require_affordable
from reshuffle.epoch.averaging.control_variates import Control
from reshuffle.epoch.averaging.low_degrees import Whitened

_FIRST_ROUNDS = 8
_STACKED_ENTRIES = 1 << 17
_STACKED_SUMS = 1 << 19
"""Numbers in the sums of all orders that are followed at once. Beside 16 orders of 56 visits in 10 modes the calls
take longer than the products; with 7 rounds at once a round takes 0.6 of the time, with more no less."""
_EXPENSE = 3
"""Of an order with a control variate, relative to one without."""
_UNKNOWN, _IN_VAIN = 1.0, 20
"""A relative error at which not even a sign is known, and the part of the budget after which it ends the search.

Beyond the critical step the mean hangs on a few of all orders. On 442 x 10 rows in 56 batches, at twice the safe
step, errors of 5 to 60 after 64 orders were 6 to 140 after 20,000."""


@dataclass(frozen=True, eq=False)
class Order:
    """One random order: rows[offsets[t]:offsets[t+1]] are visited at step t, their gradients times shares[t]."""

    rows: IntArray
    offsets: IntArray
    shares: FloatArray

    def reversed(self) -> "Order":
        """The same visits, the last first."""
        sizes = np.diff(self.offsets)[::-1]
        parts = np.split(self.rows, self.offsets[1:-1])[::-1]
        return Order(np.concatenate(parts), np.concatenate([[0], np.cumsum(sizes)]), self.shares[::-1])


DrawOrder = Callable[[np.random.Generator], Order]


@dataclass(frozen=True, eq=False)
class Stack:
    """Orders beside each other: rows (c, steps, m) of each visit, -1 where it has fewer, and shares (c, steps)."""

    rows: IntArray
    shares: FloatArray

    @classmethod
    def of(cls, orders: Sequence[Order]) -> "Stack":
        """Orders of the same number of visits."""
        sizes = np.array([np.diff(order.offsets) for order in orders])
        rows = np.full((*sizes.shape, int(sizes.max(initial=0))), -1)
        rows[np.arange(rows.shape[2]) < sizes[..., np.newaxis]] = np.concatenate(
            [each.rows for each in orders]
        )
        return cls(rows, np.array([order.shares for order in orders]))

    def reversed(self) -> "Stack":
        """The same visits, the last first."""
        return Stack(self.rows[:, ::-1], self.shares[:, ::-1])


@dataclass(frozen=True, eq=False)
class Sampled:
    """The pull (q, k), those of the groups (groups, q, k), the errors of the paces (k,), the number of orders."""

    pull: FloatArray
    groups: FloatArray
    errors: FloatArray
    orders: int

    def without(self, group: int) -> FloatArray:
        """The pull as it would be without one group."""
        return np.asarray(self.pull + (self.pull - self.groups[group]) / (len(self.groups) - 1))


def sample(
    whitened: Whitened,
    draw: DrawOrder,
    control: Control,
    *,
    rtol: float,
    budget: float,
    rng: np.random.Generator,
) -> Sampled:
    """Draw orders until the paces are known to `rtol`, in root mean square, or `budget` operations are spent.

    Only a twentieth of the budget is spent where the relative error stays above one: more orders do not help there.
    A first round goes without the control variate, which makes an order up to three times as expensive; if that
    was not enough, a second one tells whether it pays.

    Parameters
    ----------
    draw : callable
        Draws an order.
    control : Control
    """
    steps = len(draw(np.random.default_rng(0)).shares)
    tally = _Tally(whitened, None, steps, budget)
    require_affordable(
        tally.expense, budget, "the mean over a few sampled orders",
        "try a larger budget, or a smaller step, at which a series may reach rtol",
    )  # fmt: skip
    first = int(np.clip(AT_ONCE / tally.expense, 1, _FIRST_ROUNDS))
    left = budget - tally.draw(draw, rng, first)
    if tally.error() > rtol and _EXPENSE * tally.expense <= max(left, A_SECOND):
        controlled = _Tally(whitened, control, steps, budget)
        left -= controlled.draw(draw, rng, max(1, first // 2))
        if controlled.expense_of(rtol) < tally.expense_of(rtol):
            tally = controlled
    while rtol < tally.error() < np.inf and left >= tally.expense:
        excess, affordable = tally.error() / rtol, left
        if tally.error() > _UNKNOWN:
            affordable = left - (1 - 1 / _IN_VAIN) * budget
            if affordable < tally.expense:
                break
        left -= tally.draw(draw, rng, further_rounds(tally.rounds, excess, affordable / tally.expense))
    return tally.result()


class _Tally:
    """The sums of the groups, with or without the control variate."""

    def __init__(self, whitened: Whitened, control: Control | None, steps: int, budget: float):
        self.whitened, self._control = whitened, control
        rows, modes = whitened.orthonormal.shape
        pair = 2 * (4.0 * rows * modes**2 + CALL * steps)
        # One draw for each group is made in any case, and three arrays are kept.
        groups = number_of_groups(pair, 3 * 8.0 * rows * modes, max(budget, A_SECOND))
        # Of a round, a pair of orders for every group.
        self.expense: float = groups * pair * (1 if control is None else _EXPENSE)
        self.full = np.zeros((groups, rows, modes))
        self.parts = np.zeros((groups, rows, modes) if control is not None else (groups, 0, 0))
        self.rounds = 0
        # Small matrices are multiplied many at a time, for the price of a call.
        beside = _STACKED_ENTRIES / max(modes * (modes + rows / steps), 1)
        self._beside = int(np.clip(beside, 1, groups))
        self._at_once = max(1, int(min(beside, _STACKED_SUMS / max(rows * modes, 1)) / groups))

    def expense_of(self, rtol: float) -> float:
        """Operations until the error is `rtol`, as far as can be told by now."""
        return self.expense * self.rounds * (self.error() / rtol) ** 2

    def draw(self, draw: DrawOrder, rng: np.random.Generator, rounds: int) -> float:
        """Add so many rounds, and return what they cost."""
        starts = range(0, rounds, self._at_once)
        for start in track(starts, len(starts), "sampling orders"):
            some = min(self._at_once, rounds - start)
            if some == 1:
                self._add(draw, rng)
            else:
                self._add_rounds(draw, rng, some)
            self.rounds += some
        return rounds * self.expense

    def _add(self, draw: DrawOrder, rng: np.random.Generator) -> None:
        """Add one round, as many groups at a time as there is memory for."""
        for first in range(0, len(self.full), self._beside):
            here = slice(first, first + self._beside)
            self._follow([draw(rng) for _ in self.full[here]], self.full[here], self.parts[here])

    def _add_rounds(self, draw: DrawOrder, rng: np.random.Generator, rounds: int) -> None:
        """Add several rounds at once, each with sums of its own until the end."""
        full, parts = (np.zeros((rounds, *sums.shape)) for sums in (self.full, self.parts))
        orders = [draw(rng) for _ in range(rounds * len(self.full))]
        flat = (sums.reshape(len(orders), *sums.shape[2:]) for sums in (full, parts))
        self._follow(orders, *flat)
        self.full += full.sum(axis=0)
        self.parts += parts.sum(axis=0)

    def _follow(self, orders: Sequence[Order], full: FloatArray, parts: FloatArray) -> None:
        """Add what orders and their reverses pull to the sums of each."""
        drawn = Stack.of(orders)
        beside = None if self._control is None else (self._control, parts)
        for each in (drawn, drawn.reversed()):
            follow(self.whitened, each, full, beside)

    @property
    def _factor(self) -> float:
        """The multiple of the control variate that leaves the least variance among the groups."""
        if self._control is None:
            return 0.0
        beside, among = self.full.mean(axis=0), self.parts.mean(axis=0)
        size = sum(float(np.square(control - among).sum()) for control in self.parts)
        along = sum(
            float(np.vdot(full - beside, control - among))
            for full, control in zip(self.full, self.parts, strict=True)
        )
        return along / size if size else 1.0

    def groups(self) -> Iterator[FloatArray]:
        """The mean pull of each group, (q, k), one at a time: all of them at once are large."""
        factor, orders = self._factor, 2 * self.rounds
        mean = 0.0 if self._control is None else factor * self._control.mean
        for full, control in zip(self.full, self.parts, strict=True):
            yield (full - factor * control) / orders + mean if factor else full / orders

    def error(self) -> float:
        """The errors of the paces, relative to these, in root mean square."""
        return root_mean_square(self.errors())

    def errors(self) -> FloatArray:
        """How far the pace of each mode may be off, relative to that pace (k,)."""
        paces = np.array([np.einsum("ij,ij->j", group, self.whitened.orthonormal) for group in self.groups()])
        mean = np.abs(paces.mean(axis=0))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = error_of_mean(paces) / mean
        return np.asarray(np.nan_to_num(shares, posinf=np.inf))

    def result(self) -> Sampled:
        """The estimate, as far as it has come; the sums are used up."""
        errors = self.errors()
        for number, group in enumerate(self.groups()):
            self.full[number] = group
        return Sampled(self.full.mean(axis=0), self.full, errors, 2 * len(self.full) * self.rounds)


def modifier(
    whitened: Whitened, draw: DrawOrder, atom: int, orders: int, rng: np.random.Generator
) -> FloatArray:
    """Pi_b in the basis V (k, k), from as many orders as given and their reverses."""
    x, root = whitened.paces, np.sqrt(whitened.paces)
    first_row = int(whitened.offsets[atom])
    total, visits = np.zeros((len(x), len(x))), 0.0
    for _ in range(max(1, orders // 2)):
        order = draw(rng)
        for each in (order, order.reversed()):
            position = np.flatnonzero(each.rows == first_row)
            for at in position:
                step = int(np.searchsorted(each.offsets, at, side="right")) - 1
                total += each.shares[step] * _words_after(whitened, each, step)
                visits += each.shares[step]
    return np.asarray(np.eye(len(x)) - root[:, np.newaxis] * (total / (visits or 1.0)) * root)


def _words_after(whitened: Whitened, order: Order, step: int) -> FloatArray:
    """E (k, k) with I - L E L the product of the visits after a step."""
    x = whitened.paces
    words = np.zeros((len(x), len(x)))
    for later in range(step + 1, len(order.shares)):
        rows = whitened.orthonormal[order.rows[order.offsets[later] : order.offsets[later + 1]]]
        share = order.shares[later]
        # (I - L P L)(I - L E L) = I - L (E + P - P X E) L.
        words += share * (rows.T @ (rows - (rows * x) @ words))
    return words


def follow(
    whitened: Whitened, orders: Stack, full: FloatArray, control: tuple[Control, FloatArray] | None = None
) -> None:
    """Add the pulls of c orders to `full` (c, q, k), and the parts of a control variate to what stands beside it.

    From the last visit to the first: what happens after a visit is M = L^-1 prod (I - step W) L, and each visit's
    pull is M o. Transposes are kept, so that rows stay rows.
    """
    count, steps, _ = orders.rows.shape
    after = np.tile(np.eye(len(whitened.paces)), (count, 1, 1))
    part, total = (None, full) if control is None else (control[0].begin(count), control[1])
    inside = orders.rows >= 0
    shares = (orders.shares[..., np.newaxis] * inside)[..., np.newaxis]
    pulling = whitened.orthonormal * whitened.paces
    first_row = full.shape[1] * np.arange(count)[:, np.newaxis]
    for visit in range(steps - 1, -1, -1):
        members, present = orders.rows[:, visit], inside[:, visit]
        # Taking rows by one index is several times as quick as by two, and there is one scattered sum per visit.
        own = whitened.orthonormal.take(members, axis=0) * shares[:, visit]
        weighted = pulling.take(members, axis=0).swapaxes(1, 2)
        pulled = own @ after
        visited = (first_row + members)[present]
        _add_rows(full, visited, pulled[present])
        after -= weighted @ pulled
        if part is not None:
            _add_rows(total, visited, part.visit(own, weighted)[present])


def _add_rows(sums: FloatArray, places: IntArray, rows: FloatArray) -> None:
    """Add rows (m, k) to `sums` (c, q, k) at different places among its c q rows."""
    flat = sums.reshape(sums.shape[0] * sums.shape[1], sums.shape[2])
    flat[places] = flat.take(places, axis=0) + rows
