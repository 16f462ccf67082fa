"""The mean of an epoch from sampled orders, where neither the lattice nor the series reaches.

Orders are drawn in pairs, each with its reverse: the estimate of Z is then symmetric, as Z is, and what is
antisymmetric in the order cancels exactly. The lowest degrees of each order's pull are a control variate: their
mean over all orders is known (`low_degrees`), and only what the higher degrees add is left to chance.
Draws are spread over a few groups, whose differences tell the standard error of this and of everything derived.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reshuffle.arrays import FloatArray, IntArray
from reshuffle.epoch.whitened import Whitened

GROUPS = 8
"""Groups of draws. More would tell the error better, and be more to remember."""
STANDARD_ERRORS = 3.0
"""How many standard errors an error is."""


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
class Sampled:
    """The pull (q, k), those of the groups (GROUPS, q, k), and the error of the kernel relative to its size."""

    pull: FloatArray
    groups: FloatArray
    error: float
    orders: int

    def without(self, group: int) -> FloatArray:
        """The pull as it would be without one group."""
        return np.asarray(self.pull + (self.pull - self.groups[group]) / (GROUPS - 1))


def sample(
    whitened: Whitened,
    draw: DrawOrder,
    low_degrees: FloatArray,
    *,
    rtol: float,
    budget: float,
    rng: np.random.Generator,
) -> Sampled:
    """Draw orders until the relative error of the kernel is below `rtol`, or `budget` operations are spent.

    Parameters
    ----------
    draw : callable
        Draws an order.
    low_degrees : (q, k)
        The mean over all orders of the pull up to second degree.
    """
    tally = _Tally(whitened, low_degrees)
    tally.draw(draw, rng, rounds=1, with_control=True)
    with_control = tally.control_pays
    each = 2 * GROUPS * order_flops(whitened, with_control)
    affordable = int((budget - 2 * GROUPS * order_flops(whitened, True)) / each)
    if not with_control:
        tally = _Tally(whitened, low_degrees)
    while affordable > 0:
        missing = 2.0 if tally.rounds == 0 else tally.rounds * ((tally.error() / rtol) ** 2 - 1)
        if missing <= 0:
            break
        # A few more than the estimate says, but never so many that a poor estimate costs much.
        rounds = int(np.clip(np.ceil(1.05 * missing), 1, max(2, 3 * tally.rounds)))
        rounds = min(rounds, affordable)
        tally.draw(draw, rng, rounds, with_control)
        affordable -= rounds
    return tally.result()


def order_flops(whitened: Whitened, with_control: bool) -> float:
    """Operations of following one order."""
    return (12.0 if with_control else 4.0) * len(whitened.orthonormal) * len(whitened.rates) ** 2


class _Tally:
    """The sums of the groups."""

    def __init__(self, whitened: Whitened, low_degrees: FloatArray):
        self.whitened, self.low_degrees = whitened, low_degrees
        shape = (GROUPS, *whitened.orthonormal.shape)
        self.full, self.control = np.zeros(shape), np.zeros(shape)
        self.rounds, self.has_control = 0, False

    def draw(self, draw: DrawOrder, rng: np.random.Generator, rounds: int, with_control: bool) -> None:
        """Add a pair of orders to every group, `rounds` times."""
        for _ in range(rounds):
            for group in range(GROUPS):
                order = draw(rng)
                for each in (order, order.reversed()):
                    follow(
                        self.whitened, each, self.full[group], self.control[group] if with_control else None
                    )
            self.rounds += 1
        self.has_control = with_control

    @property
    def control_pays(self) -> bool:
        """Whether the control variate saves more draws than it costs."""
        with_it, without = (self._spread(self._groups(factor)) for factor in (self._factor(), 0.0))
        return bool(
            with_it**2 * order_flops(self.whitened, True) < without**2 * order_flops(self.whitened, False)
        )

    def _factor(self) -> float:
        """The multiple of the control variate that leaves the least variance, from the groups themselves."""
        if not self.has_control:
            return 0.0
        full, control = self.full - self.full.mean(axis=0), self.control - self.control.mean(axis=0)
        size = float(np.vdot(control, control))
        return float(np.vdot(full, control)) / size if size else 1.0

    def _groups(self, factor: float) -> FloatArray:
        means = self.full / (2 * self.rounds)
        if factor:
            means -= factor * (self.control / (2 * self.rounds) - self.low_degrees)
        return means

    def _spread(self, groups: FloatArray) -> float:
        """The standard error of the rows of the kernel, relative to its diagonal, of the worst mode."""
        kernels = np.array([group.T @ self.whitened.orthonormal for group in groups])
        kernels = (kernels + kernels.transpose(0, 2, 1)) / 2
        scales = np.sqrt(np.abs(np.diagonal(kernels.mean(axis=0))))
        variances = kernels.var(axis=0, ddof=1) / GROUPS / np.maximum(np.outer(scales, scales), 1e-300) ** 2
        return float(np.sqrt(variances.sum(axis=1)).max(initial=0.0))

    def error(self) -> float:
        """The relative error of the kernel: so many standard errors."""
        return STANDARD_ERRORS * self._spread(self._groups(self._factor()))

    def result(self) -> Sampled:
        """The estimate, as far as it has come."""
        groups = self._groups(self._factor())
        error = STANDARD_ERRORS * self._spread(groups)
        return Sampled(groups.mean(axis=0), groups, error, 2 * GROUPS * self.rounds)


def modifier(
    whitened: Whitened, draw: DrawOrder, atom: int, orders: int, rng: np.random.Generator
) -> FloatArray:
    """Pi_b in the basis V (k, k), from as many orders as given and their reverses."""
    x, root = whitened.rates, np.sqrt(whitened.rates)
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
    x = whitened.rates
    words = np.zeros((len(x), len(x)))
    for later in range(step + 1, len(order.shares)):
        rows = whitened.orthonormal[order.rows[order.offsets[later] : order.offsets[later + 1]]]
        share = order.shares[later]
        # (I - L P L)(I - L E L) = I - L (E + P - P X E) L.
        words += share * (rows.T @ (rows - (rows * x) @ words))
    return words


def follow(whitened: Whitened, order: Order, full: FloatArray, control: FloatArray | None) -> None:
    """Add the pull of one order to `full` (q, k), and its part up to second degree to `control`.

    From the last visit to the first: what happens after a visit is M = L^-1 prod (I - step W) L, and each visit's
    pull is M o. Transposes are kept, so that rows stay rows.
    """
    x = whitened.rates
    rows = whitened.orthonormal[order.rows]
    after = np.eye(len(x))
    linear, quadratic = np.zeros_like(after), np.zeros_like(after)
    for step in range(len(order.shares) - 1, -1, -1):
        place = slice(order.offsets[step], order.offsets[step + 1])
        members = order.rows[place]
        own = rows[place] * order.shares[step]
        weighted = (rows[place] * x).T
        pulled = own @ after
        full[members] += pulled
        after -= weighted @ pulled
        if control is not None:
            first = own @ linear
            control[members] += own + first + own @ quadratic
            quadratic -= weighted @ first
            linear -= weighted @ own
