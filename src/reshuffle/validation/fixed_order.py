"""Leaving out rows where batches are always visited in the same order, with or without momentum.

An epoch multiplies the state s, the parameters and the buffer of the momentum, by A = M_B ... M_1. Row i is in one
of these visits, say M_b; without its gradient

    A_i = A - l r',   g_i = g + l alpha,   l = -M_B ... M_{b+1} d_i,   r' = x_i'M_{b-1} ... M_1,

where d_i is how the gradient of the row enters the state, and alpha what is left of y_i by then. With
gamma = r'(w - A)^-1 l, v = r'(w - A)^-1 g and eta = x_i'(w - A)^-1 l the row is predicted by

    x_i'b_i(k) = integral of (1 - w^k) / (1 - w) [x_i'(w - A)^-1 g + eta (alpha - v) / (1 + gamma)] dw / (2 pi i).

A is not symmetric and has complex eigenvalues; the curve goes around these.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg

from reshuffle._arrays import AnyArray, BoolArray, FloatArray, IntArray
from reshuffle.validation import contour
from reshuffle.validation.descent import Descent
from reshuffle.validation.leave_one_out_formula import OPEN, SATURATED
from reshuffle.validation.looks import no_one

_TRUSTED = 1e-10
"""The share of the responses by which the residuals after one epoch may differ from what they are known to be."""
_APART = 1e-8
"""Ratio of paces, below which eigenvectors that are not at right angles do not tell the small ones."""
_WORST_BASIS = 1e5
"""Condition number of the eigenvectors beyond which they are no coordinates."""
_CHUNK, _AT_ONCE = 1 << 21, 1 << 10
"""Numbers, and rows, that are worked on at a time."""


@dataclass(frozen=True, eq=False)
class FixedOrderRows:
    """The map of an epoch in its eigenvectors, and how each row looks at it.

    Attributes
    ----------
    paces : (d,)
        1 - a, for the complex eigenvalues a of A.
    pull : (d, t)
        g.
    left, right, seen : (n, d)
        l, r and x_i of each row.
    alpha, responses : (n, t)
        What each row has to say on its turn, and at the start.
    alone : callable
        () -> which of all rows alone see some direction.
    """

    paces: AnyArray
    pull: AnyArray
    left: AnyArray
    right: AnyArray
    seen: AnyArray
    alpha: FloatArray
    responses: FloatArray
    alone: Callable[[], BoolArray]

    @property
    def outputs(self) -> int:
        """How many responses a row has."""
        return int(self.pull.shape[1])

    def residuals(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and y_i - x_i'b_i (epochs, rows, t) after each of the finite epochs (k,)."""
        contour.require_within_reach(self.paces, epochs)
        last = float(epochs.max(initial=1.0))
        lowest, highest = float(self.paces.real.min(initial=0.0)), float(self.paces.real.max(initial=1e-3))
        curve = contour.around(min(lowest, 0.0), highest, last, self.paces)
        powers = curve.powers(np.concatenate([np.ones(1), epochs]))
        resolvent = 1 / (self.paces[:, np.newaxis] - curve.nodes)
        height = max(1, _CHUNK // (len(self.paces) + 4 * len(curve.nodes) * (1 + self.outputs)))
        for start in range(0, len(rows), height):
            some = rows[start : start + height]
            # Eigenvalues come in conjugate pairs, so that below the axis everything is conjugate.
            learned = 2 * np.einsum("kn,mtn->kmt", powers, self._learned(some, resolvent), optimize=True).real
            self._require_known(some, learned[0])
            with np.errstate(over="ignore", invalid="ignore"):
                found = self.responses[some] - learned[1:]
            yield some, np.where(np.isfinite(found), found, np.inf)

    def _learned(self, rows: IntArray, resolvent: AnyArray) -> AnyArray:
        """x_i'(w - A_i)^-1 g_i (m, t, nodes)."""
        met, own, reached = self.met(rows, resolvent)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            answer = (self.alpha[rows, :, np.newaxis] - met) / (1 + own)[:, np.newaxis]
            plain = self.seen[rows] @ (self.pull[:, :, np.newaxis] * resolvent[:, np.newaxis]).reshape(
                len(resolvent), -1
            )
            return np.asarray(plain.reshape(met.shape) + reached[:, np.newaxis] * answer)

    def met(self, rows: IntArray, resolvent: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray]:
        """v (m, t, nodes), gamma (m, nodes) and eta (m, nodes)."""
        moved = (self.pull[:, :, np.newaxis] * resolvent[:, np.newaxis]).reshape(len(resolvent), -1)
        met = (self.right[rows] @ moved).reshape(len(rows), self.outputs, -1)
        own = (self.right[rows] * self.left[rows]) @ resolvent
        return met, own, (self.seen[rows] * self.left[rows]) @ resolvent

    def _require_known(self, rows: IntArray, after_one: FloatArray) -> None:
        """x_i'g_i is known without an integral."""
        own = np.einsum("md,md->m", self.seen[rows], self.left[rows])
        known = (self.seen[rows] @ self.pull + own[:, np.newaxis] * self.alpha[rows]).real
        size = np.abs(known).max(initial=0.0) + np.abs(self.alpha[rows]).max(initial=0.0)
        if not np.abs(after_one - known).max(initial=0.0) <= _TRUSTED * size:
            raise ArithmeticError("the paces of left-out runs are not where they were looked for.")

    @property
    def inverse_paces(self) -> AnyArray:
        """(1 - A)^-1 (d, 1)."""
        return np.asarray(1 / self.paces[:, np.newaxis])

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and their residuals (rows, t) in the limit."""
        contour.require_paces(self.paces, _APART)
        inverse = self.inverse_paces
        met, own, reached = (part[..., 0] for part in self.met(rows, inverse))
        slopes = [part[..., 0] for part in self.met(rows, inverse**2)]
        missing, rest = self.alpha[rows] - met, 1 + own
        alone = self.alone()[rows]
        if (np.abs(rest)[~alone] < OPEN).any() or (np.abs(rest)[alone] > SATURATED).any():
            raise ArithmeticError("leverages next to one are known too poorly.")
        # Where nobody else sees a direction both sides vanish, and their derivatives take their places.
        missing[alone], rest[alone] = -slopes[0][alone], slopes[1][alone]
        learned = (
            self.seen[rows] @ (self.pull * inverse) + reached[:, np.newaxis] * missing / rest[:, np.newaxis]
        )
        yield rows, np.asarray(self.responses[rows] - learned.real)


@dataclass(frozen=True, eq=False)
class MeanOverOrders:
    """The mean over equally likely orders, of which a run keeps one: that of their residuals."""

    orders: list[FixedOrderRows]

    @property
    def outputs(self) -> int:
        """How many responses a row has."""
        return self.orders[0].outputs

    def residuals(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and y_i - x_i'b_i (epochs, rows, t) after each of the finite epochs (k,)."""
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            total = np.zeros((len(epochs), len(some), self.outputs))
            for order in self.orders:
                total += np.concatenate([found for _, found in order.residuals(some, epochs)], axis=1)
            yield some, total / len(self.orders)

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows and their residuals (rows, t) in the limit."""
        ends = [found for order in self.orders for _, found in order.limits(rows)]
        yield rows, np.asarray(np.mean(ends, axis=0))


def fixed_order(descent: Descent) -> FixedOrderRows | None:
    """The rows of a descent in a fixed order; None if its map has no good basis of eigenvectors."""
    with np.errstate(over="ignore", invalid="ignore"):
        path = _Path(descent)
    if not (np.isfinite(path.lost).all() and np.isfinite(path.left).all()):
        return None
    values, vectors = scipy.linalg.eig(path.lost, check_finite=False)
    if not np.linalg.cond(vectors) < _WORST_BASIS:
        return None
    pull = np.linalg.solve(vectors, path.pull.astype(complex))
    left = np.linalg.solve(vectors, path.left.T.astype(complex)).T
    rank = len(descent.origin)
    seen = descent.rows(np.arange(descent.problem.n)) @ vectors[:rank]
    right, n = path.right @ vectors, descent.problem.n
    rows = FixedOrderRows(
        values, pull, left, right, seen, path.alpha, path.responses,
        alone=lambda: no_one(n) if descent.shrinkage else descent.alone,
    )  # fmt: skip
    return rows if descent.shrinkage or not descent.leaves_means else _standing_still(rows, descent.alone)


def _standing_still(rows: FixedOrderRows, alone: BoolArray) -> FixedOrderRows:
    """Rows that alone see a direction, in which nothing moves without them: 1 + gamma and alpha - v vanish."""
    met, own, _ = (part[alone, ..., 0] for part in rows.met(np.arange(len(alone)), rows.inverse_paces))
    left, alpha = rows.left.copy(), rows.alpha.copy()
    left[alone] /= -own[:, np.newaxis]
    alpha[alone] = met.real
    return replace(rows, left=left, alpha=alpha)


class _Path:
    """The visits of an epoch forwards and backwards: what every row looks through, and what becomes of it."""

    def __init__(self, descent: Descent):
        n = descent.problem.n
        partition, order = descent.scheme.partition(n), descent.scheme.order(n)
        self._descent, self._rank = descent, len(descent.origin)
        self.dimension = descent.parts * self._rank
        # What an epoch takes, I - A, is kept in place of A: small steps lose no digits.
        self.lost = np.zeros((self.dimension, self.dimension))
        self.pull = np.zeros((self.dimension, descent.outputs))
        identity = np.eye(self.dimension)
        self.right, self.left = np.zeros((n, self.dimension)), np.zeros((n, self.dimension))
        rows = descent.rows(np.arange(n))
        self.responses = descent.responses(np.arange(n), rows)
        self.alpha = self.responses.copy()
        for batch in order.tolist():
            members = partition[batch]
            self.right[members] = rows[members] @ (identity - self.lost)[: self._rank]
            self.alpha[members] -= rows[members] @ self.pull[: self._rank]
            self.lost = self.lost + descent.taken(batch, identity - self.lost)
            entered = descent.entered(descent.gain(batch) / descent.step)
            self.pull = self.pull - descent.taken(batch, self.pull) + entered
        after = np.eye(self.dimension)
        for batch in order.tolist()[::-1]:
            members = partition[batch]
            entries = descent.entered(rows[members].T) / descent.blocks.divisors[batch]
            # The row's gradient is what takes x_i'beta - y_i into the state: left out, with the other sign.
            self.left[members] = -descent.factors[members, np.newaxis] * (after @ entries).T
            after = descent.visited_before(batch, after)
