"""Leaving out shuffled samples by drawn orders: every order leaves out every row, at the price of following it.

In an order in which row i is visited after the visits F and before the visits H,

    A_i = A + (step / m) H x_i x_i'F,   g_i = g - (step / m) H x_i alpha_i,   alpha_i = y_i - x_i'N,

with N what was learned before. Read backwards, the order is as likely and has the transposed maps, so that two
passes, one in each direction, give both: x_i'F and alpha_i of the one are x_i'H' and alpha_i of the other. The mean
over drawn orders needs no closure, whatever rows do to themselves, and its standard error covers.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._progress import track
from reshuffle._uncertainty import MOST_GROUPS, jackknife, quantile
from reshuffle.epoch.accuracy import A_SECOND, CALL
from reshuffle.epoch.averaging.lattice import available_bytes
from reshuffle.schemes.base import permutations
from reshuffle.validation.descent import Descent
from reshuffle.validation.left_out_maps import LeftOutMaps
from reshuffle.validation.looks import Residuals, weighted

_AT_A_TIME = 256
"""Orders that are followed together, so that calls with small matrices do not take most of the time."""
_FEWEST, _MOST = 1 << 9, 1 << 15
"""Orders, each with its reverse, below which errors tell nothing, and beyond which nobody waits."""
_PER_NUMBER, _CALLS = 60.0, 3.0
"""Operations that fit in the time of a number in a visit, 4 ns, and calls with small matrices of a visit."""
_DIRECTIONS = 4
"""Epochs at which the direction is sought that changes an answer most."""


def number(descent: Descent, budget: float) -> int:
    """How many orders take a second or so, or the fewest that tell anything if a budget allows them; 0 if not."""
    n, rank, outputs = descent.problem.n, descent.problem.rank, descent.outputs
    side = rank * (rank + outputs)
    if 8.0 * MOST_GROUPS * (n + _AT_A_TIME) * side > available_bytes() / 8:
        return 0
    visits = descent.scheme.steps(n)
    each = n * (8.0 * side + _PER_NUMBER * (rank + outputs))
    each += visits * (_PER_NUMBER * side + _CALLS * CALL / _AT_A_TIME)
    # Matrices per row are decomposed for the answer, and for each way in which it may be off.
    decomposed = (n + (MOST_GROUPS + 2 * _DIRECTIONS) * min(n, 128)) * (10.0 * rank**3 + 10 * rank)
    if decomposed + 2 * _FEWEST * each > max(budget, A_SECOND):
        return 0
    return int(min(max((A_SECOND - decomposed) / (2 * each), _FEWEST), _MOST))


@dataclass(frozen=True, eq=False)
class DrawnOrders:
    """The maps without each row, from so many drawn orders.

    Attributes
    ----------
    descent : Descent
    orders : int
    seed : int
    """

    descent: Descent
    orders: int
    seed: int

    @property
    def outputs(self) -> int:
        """How many responses a row has."""
        return self.descent.outputs

    @cached_property
    def mean(self) -> LeftOutMaps:
        """That of all orders."""
        return self.weighted(np.full(MOST_GROUPS, 1 / MOST_GROUPS))

    def residuals(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and y_i - x_i'b_i (epochs, rows, t) after each of the finite epochs (k,)."""
        return self.mean.residuals(rows, epochs)

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and their residuals (rows, t) in the limit."""
        return self.mean.limits(rows)

    def weighted(self, weights: FloatArray) -> LeftOutMaps:
        """The same with other weights (groups,) of the groups of orders."""
        common, own = self._groups
        with np.errstate(over="ignore", invalid="ignore"):
            made = np.tensordot(weights, common, 1) - np.tensordot(weights, own, 1)
            lost, gained = np.split(made, [made.shape[1]], axis=2)
            return LeftOutMaps.of(self.descent, (lost + np.swapaxes(lost, 1, 2)) / 2, gained)

    def error(self, residuals: Residuals, weights: FloatArray) -> FloatArray:
        """How far a mean square may be off.

        By the answers without each group in turn. Powers are not linear in what was drawn: so the answer is also
        computed where the map is off by as many standard errors, in the directions that change it most.
        """

        def mean_square(leaving: LeftOutMaps) -> FloatArray:
            with np.errstate(over="ignore"):
                return weighted(np.square(residuals(leaving)), weights)

        here = mean_square(self.mean)
        groups = MOST_GROUPS
        left_out = (1 - np.eye(groups)) / (groups - 1)
        without = np.array([mean_square(self.weighted(each)) for each in left_out])
        found = jackknife(here, without)
        with np.errstate(divide="ignore", invalid="ignore"):
            changes = np.nan_to_num(np.log(without) - np.log(here), nan=0.0, posinf=0.0, neginf=0.0)
        flat = changes.reshape(groups, -1)
        for column in np.unique(np.linspace(0, flat.shape[1] - 1, _DIRECTIONS).round().astype(int)):
            direction = flat[:, column] - flat[:, column].mean()
            size = np.linalg.norm(direction)
            if size == 0:
                continue
            moved = quantile(groups) / math.sqrt(groups * (groups - 1)) * direction / size
            for sign in (1.0, -1.0):
                with np.errstate(invalid="ignore"):
                    off = np.abs(mean_square(self.weighted(1 / groups + sign * moved)) - here)
                found = np.maximum(found, np.where(np.isnan(off), np.inf, off))
        return found

    @cached_property
    def _groups(self) -> tuple[FloatArray, FloatArray]:
        """Of each group of orders, [lost, gained] of the whole map (groups, 1, r, r + t) and of each row's part."""
        descent, n = self.descent, self.descent.problem.n
        rank = descent.problem.rank
        rng = np.random.default_rng(self.seed)
        each = -(-self.orders // MOST_GROUPS)
        common = np.zeros((MOST_GROUPS, 1, rank, rank + self.outputs))
        own = np.zeros((MOST_GROUPS, n, rank, rank + self.outputs))
        with np.errstate(over="ignore", invalid="ignore"):
            for group in track(range(MOST_GROUPS), MOST_GROUPS, "drawing orders"):
                for start in range(0, each, _AT_A_TIME):
                    drawn = permutations(rng, min(_AT_A_TIME, each - start), n)
                    whole, parts = self._followed(drawn)
                    common[group, 0] += whole / each
                    own[group] += parts / each
        return common, own

    def _followed(self, orders: IntArray) -> tuple[FloatArray, FloatArray]:
        """Sums over orders and their reverses: [lost, gained] (r, r + t), and each row's own part (n, r, r + t)."""
        rank, factors = self.descent.problem.rank, self.descent.factors
        first, seen = self._passed(orders, backwards=False)
        second, back = self._passed(orders, backwards=True)
        # Samples first, so that a row's own part is one product over all orders.
        before, after = seen.transpose(1, 0, 2), back.transpose(1, 0, 2)
        one = np.swapaxes(after[..., :rank], 1, 2) @ (self._weights(orders)[..., np.newaxis] * before)
        other = np.swapaxes(before[..., :rank], 1, 2) @ (self._weights(orders)[..., np.newaxis] * after)
        return (first + second) / 2, factors[:, np.newaxis, np.newaxis] * (one + other) / 2

    def _weights(self, orders: IntArray) -> FloatArray:
        """The step over the divisor of its visit, of every sample in every order (n, orders); 0 if it has none."""
        each = np.zeros(orders.shape[1])
        for visit, divisor in zip(self._visits, self._divisors, strict=True):
            each[visit] = self.descent.step / divisor
        found = np.empty(orders.shape)
        np.put_along_axis(found, orders, np.broadcast_to(each, orders.shape), axis=1)
        return found.T

    @cached_property
    def _divisors(self) -> FloatArray:
        return self.descent.scheme.step_divisors(self.descent.problem.n)

    @cached_property
    def _visits(self) -> list[slice]:
        """Which places of an order each visit takes."""
        ends = np.concatenate([[0], np.cumsum(self.descent.scheme.sizes(self.descent.problem.n))])
        return [slice(int(a), int(b)) for a, b in pairwise(ends)]

    def _passed(self, orders: IntArray, *, backwards: bool) -> tuple[FloatArray, FloatArray]:
        """Follow orders: the sum of [lost, gained], and [x_i'F, alpha_i] (orders, n, r + t) of every sample i."""
        descent, members = self.descent, np.arange(orders.shape[1])
        rows = descent.rows(members)
        target = np.hstack([rows, descent.responses(members, rows)])
        rank, shrinkage = rows.shape[1], descent.shrinkage
        rest = np.hstack([np.eye(rank), -descent.origin])
        states = np.zeros((len(orders), rank, target.shape[1]))
        seen = np.zeros((len(orders), *target.shape))
        which = np.arange(len(orders))[:, np.newaxis]
        visits = list(zip(self._visits, self._divisors, strict=True))
        for visit, divisor in reversed(visits) if backwards else visits:
            samples = orders[:, visit]
            here = rows[samples]
            met = target[samples] - here @ states
            seen[which, samples] = met
            moved = descent.step / divisor * np.swapaxes(here, 1, 2) @ met
            states = states + moved + shrinkage * (rest - states) if shrinkage else states + moved
        return states.sum(axis=0), seen
