"""Row updates of shuffled samples: by the cavity equation, or from drawn orders where that neglects too much."""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from reshuffle._arrays import FloatArray, IntArray
from reshuffle._budget import A_SECOND, CALL
from reshuffle._linalg import root_mean_square, thin_qr
from reshuffle._progress import track
from reshuffle._uncertainty import MOST_GROUPS, jackknife, quantile
from reshuffle.epoch.averaging import cavity_maps
from reshuffle.epoch.averaging.cavity import Visiting, are_alike, solve
from reshuffle.epoch.averaging.lattice import available_bytes
from reshuffle.schemes.base import permutations
from reshuffle.validation.contour import LeftOutRows, Modes, RowUpdate
from reshuffle.validation.row_updates import LeftOutMaps, Maps, Residuals, Training, weighted_sum

_TOLERANCE, _TOLERANCE_OF_MOMENTUM = 1e-9, 1e-7
"""To which the cavity equation is solved; with momentum it takes four times as long."""
_SMALL, _OVERSHOOTS = 0.1, 1.0
"""Shares up to which errors hold to first order, and the self response of a row from which on they say nothing.

Without drawn orders, on 540 problems like those of `python -m benchmarks.cavity_coverage rows`: below a self
response of one no answer is off by more than half its error, at 1.2 one of 212 is off by 1.3 times its error, and
from 2 on some are by any factor.
"""
_ORDERS_AT_A_TIME = 256
"""Orders that are followed together, so that calls with small matrices do not take most of the time."""
_FEWEST_ORDERS, _MOST_ORDERS = 1 << 9, 1 << 15
"""Orders, each with its reverse, below which errors tell nothing, and beyond which nobody waits."""
_PER_NUMBER = 60.0
"""Operations that fit in the time of a number in a visit, 4 ns."""
_DIRECTIONS = 4
"""Epochs at which the direction is sought that changes an answer most."""
_LEVERAGE = 1e-6
"""What is left of the leverage of groups of rows that can be told from groups that alone see some direction."""
_CALLS = 3.0
"""Calls with small matrices that a visit takes."""


class Cavity:
    """Updates of shuffled units, samples or batches of equally many rows, by the cavity equation.

    With a_i(t) = x_i'E[first t visits | unit i not among them] and b_i(t) = E[t visits | not i] p_i, left and right
    vectors of `epoch.cavity`, and unit i as likely at one visit as at any other,

        A_i = A + (w / B) sum_t b_i(B-1-t) a_i(t)',   g_i = g - (w / B) sum_t b_i(B-1-t) alpha_i(t),

    where alpha_i(t) = y_i - x_i'E[learned in t visits | not i] obeys the equation of a_i. The mean over all units
    is N_t = w sum_{s<t} sum_j b_j(s) y_j; with another unit in the place of i that is, as in the closure of a_i,
    H_t = N_t + (1 / (n-1)) sum_{s<t} E[t-1-s visits] (what visit s adds by its rows).

    ArithmeticError if the equation has no solution.

    Parameters
    ----------
    training : Training
        Units of a scheme that cuts them into batches are left out as a whole, rows of fixed batches one by one.
    """

    def __init__(self, training: Training):
        training = replace(training, is_rotated=True)
        self.training, self.whole = training, training.scheme.unit.is_cut
        visits, n = training.visits, training.problem.n
        shares = _visit_shares(training)
        entry, still = visits.rank_one_parts()
        self.visiting = Visiting(
            rows=visits.unit, grades=np.square(training.roots).reshape(len(entry), -1), still=still, entry=entry,
            weight=float(shares[0]) / len(visits.unit), last=1.0, steps=len(shares),
            size=n // len(training.scheme.partition(n)),
        )  # fmt: skip
        tolerance = _TOLERANCE if training.is_symmetric else _TOLERANCE_OF_MOMENTUM
        found = solve(self.visiting, tolerance)
        if found is None:
            raise ArithmeticError("the cavity equation has no solution.")
        self.found, self._nodes = found, found.nodes
        self._off = cavity_maps.neglected(self.visiting, found.entries, tolerance)
        missing = training.missing
        self._input_map = found.entries.T @ missing
        self._input_map += np.column_stack([found.pushed(force) for force in training.force.T])
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(missing), 1))
        self._perturbed_input_map = (signs * self._off).T @ missing
        self._echo = found.self_response.reshape(
            len(found.self_response), -1, self.visiting.size, self.visiting.size
        )
        self._learned = training.roots[:, np.newaxis] * self._learned_without()

    def _learned_without(self) -> FloatArray:
        """H_t (q, d, t) at the nodes, without the factor L R."""
        visiting, nodes, found, force = self.visiting, self._nodes, self.found, self.training.force
        grades, weight = visiting.grades.ravel()[:, np.newaxis], visiting.weight
        units, size = visiting.samples, visiting.size
        missing = self.training.missing.reshape(units, size, -1)
        identity, rows = np.eye(len(grades)), visiting.rows
        # sum_j b_j(t) y_j, with the self responses of the units.
        after = visiting.seen(identity - found.inner * grades.T)
        plain = rows.T @ missing.reshape(len(rows), -1)
        returned = np.stack([rows.T @ (echo @ missing).reshape(len(rows), -1) for echo in self._echo])
        together = np.einsum("tab,akc->tbkc", nodes.convolution, returned)
        added = weight * (after @ plain + np.einsum("bdk,tbkc->tdc", after, together, optimize=True))
        lost = found.path @ (grades * force)
        sums = np.cumsum(nodes.rule, axis=0)
        before = np.vstack([np.zeros((1, sums.shape[1])), sums[:-1]])[nodes.nodes]
        learned = np.tensordot(before, added + force - lost, 1)
        rest = np.stack([visiting.rest(grades * one) for one in learned])
        by_rows = added - lost + rest
        return np.asarray(
            learned + nodes.convolve(identity - found.path * grades.T, by_rows) / max(units - 1, 1)
        )

    @cached_property
    def shares(self) -> FloatArray:
        """Covariance of the visits before and after each row, relative to what the row does (n,), at most.

        Every other unit is before or after, never both. With W_j = X_j'X_j and W their mean, to second order in the
        step over the divisor, s, it is the trace of

            s^2 sum_j (W_j - W) x_i x_i'(W_j - W) (B - 1)(B - 2) / (6 B^2),

        nothing for units that are alike, nor for two batches.
        """
        rows, units, divisor = self._rows
        factor = 1 / (1 - self.training.hyperparameters.momentum) / divisor
        mean, squares = rows.T @ rows / len(units), np.square(rows).sum(axis=1)
        fourth = np.einsum("uir,uij,ujs->rs", units, units @ units.swapaxes(1, 2), units, optimize=True)
        both = np.einsum("ir,rs,is->i", rows, fourth - len(units) * mean @ mean, rows, optimize=True)
        batches = self.visiting.steps
        of_visits = (batches - 1) * (batches - 2) / (6.0 * batches**2)
        return np.asarray(
            of_visits * factor**2 * np.maximum(both, 0.0) / np.where(squares == 0, 1.0, squares)
        )

    @cached_property
    def _rows(self) -> tuple[FloatArray, FloatArray, float]:
        """Rows (n, r), by units (units, size, r), and the divisor of a visit."""
        rows, _ = self.training.rows(np.arange(self.training.problem.n))
        divisor = float(self.training.scheme.step_divisors(self.training.problem.n)[0])
        return rows, rows.reshape(-1, self.visiting.size, rows.shape[1]), divisor

    @cached_property
    def overshoots(self) -> bool:
        """True if some unit has a self response x_i'E[t visits | not i] p_i above one: its error is not known.

        Such a visit does more to it than to fit it. Of two batches nothing is neglected, however large the step.
        """
        (_, units, divisor), r = self._rows, self.training.visits.rank
        met = np.eye(len(self.training.roots)) - self.training.roots[:, np.newaxis] * (
            self.found.inner * self.training.roots
        )
        responses = [
            np.einsum("uir,rs,uis->u", units, (one @ self.training.entry)[:r], units, optimize=True)
            for one in met
        ]
        return self.visiting.steps > 2 and bool(np.abs(responses).max(initial=0.0) / divisor > _OVERSHOOTS)

    @cached_property
    def of_mean(self) -> float:
        """The error of the decay rates of the mean map, relative to them."""
        return root_mean_square(cavity_maps.shares_of(self.visiting.rows, self.found.entries, self._off))

    @property
    def is_small(self) -> bool:
        """True if what is neglected is small beside what is not: errors are told to first order in it."""
        return bool(max(self.of_mean, float(self.shares.max(initial=0.0))) <= _SMALL)

    def left_out(
        self, *, shares: FloatArray | None = None, of_rates: FloatArray | float = 0.0, entering: bool = False
    ) -> LeftOutRows:
        """Updates; put off where each row (n,) or decay rate (r,) is off by a share, or how samples enter is."""
        training, size, nodes = self.training, self.visiting.size, self._nodes
        r, d = training.visits.rank, len(training.roots)
        # As if features were larger by a root: what is learned in the end stays, and directions that other rows do
        # not see stay unmoved.
        root = np.ones(d)
        root[:r] = np.sqrt(np.maximum(1 + np.broadcast_to(of_rates, (r,)), 0.0))
        roots = (root * training.roots)[:, np.newaxis]
        modes = Modes(roots * self.found.kernel * roots.T, is_symmetric=training.is_symmetric)
        gains = modes.entered(
            roots * (self._input_map + self._perturbed_input_map if entering else self._input_map)
        )
        met = np.eye(d) - roots * self.found.inner * roots.T
        q = len(met)
        right = np.stack([modes.seen(root[:r, np.newaxis] * one[:r]) for one in met], axis=1).reshape(r, -1)
        left = np.zeros((r, 0))
        if not modes.is_symmetric:
            entry = root[:, np.newaxis] * training.entry
            left = np.stack([modes.entered(one @ entry) for one in met], axis=1).reshape(r, -1)
        learned = np.moveaxis(self._learned[:, :r], 0, 1).reshape(r, -1)
        among = np.eye(size if self.whole else 1)
        conv = np.kron(self.visiting.weight * nodes.convolution_at(self.visiting.steps), among)
        picks = np.kron(nodes.rule[0][:, np.newaxis], among)

        def update(members: IntArray) -> RowUpdate:
            units = members if self.whole else members // size
            rows, responses = training.rows((units[:, np.newaxis] * size + np.arange(size)).ravel())
            echo = self._echo[:, units]

            def returned(plain: FloatArray, echoes: FloatArray) -> FloatArray:
                """F_i(t) + sum_{s<t} rho_i(t-s) f_i(s) at the nodes, for f (units, size, q, any)."""
                flat = plain.swapaxes(1, 2).reshape(len(units), q * size, -1)
                mixing = np.einsum("tab,amij->mtibj", nodes.convolution, echoes, optimize=True)
                full = flat + mixing.reshape(len(units), q * size, q * size) @ flat
                if self.whole or size == 1:
                    return np.asarray(full)
                return np.asarray(
                    full.reshape(len(units), q, size, -1)[np.arange(len(units)), :, members % size]
                )

            shape = len(units), size, q, -1
            factors = training.factors[members * size if self.whole else members]
            factors = factors * (
                1 if shares is None else 1 + shares[members * size if self.whole else members]
            )
            made = RowUpdate(
                members,
                returned((rows @ right).reshape(shape), echo),
                None if modes.is_symmetric else returned((rows @ left).reshape(shape), echo.swapaxes(2, 3)),
                factors[:, np.newaxis, np.newaxis] * conv,
                returned(
                    (responses[:, np.newaxis] - (rows @ learned).reshape(len(rows), q, -1)).reshape(shape),
                    echo,
                ),
                picks,
            )
            # A penalty moves every direction, whoever sees it.
            return made if training.visits.penalty else found.unmoved(made)

        def updates(chosen: IntArray, height: int) -> Iterator[RowUpdate]:
            starts = range(0, len(chosen), height)
            for start in track(starts, len(starts), "leaving out rows, part"):
                yield update(chosen[start : start + height])

        sizes = len(picks), len(conv), picks.shape[1]
        if sizes[2] > 1 and not training.visits.penalty:
            basis, _ = thin_qr(self._rows[0])
            leverages = np.linalg.norm(basis.reshape(-1, size, basis.shape[1]), 2, axis=(1, 2))
            if leverages.max(initial=0.0) > 1 - _LEVERAGE:
                raise ArithmeticError("groups of rows that alone see some direction are not told apart.")
        found = LeftOutRows(
            modes, gains, updates, sizes, 1, False, lambda: training.alone[:: size if self.whole else 1]
        )
        return found

    def error(self, residuals: Residuals, weights: FloatArray) -> FloatArray:
        """Error of a mean square.

        Rows do less than the product of means says, by their shares: changes add up, and none makes up for another.
        The mean map may be off in the decay rates of all modes alike, in those of every other one, and in how
        samples enter, by chance: these add up like independent ones.
        """
        here = np.square(residuals(self.left_out()))
        if self.overshoots:
            return np.full((len(here), here.shape[2]), np.inf)
        less = np.square(residuals(self.left_out(shares=-self.shares)))
        by_rows = weighted_sum(np.abs(less - here), weights)
        by_mean = np.zeros_like(by_rows)
        every_other = np.where(np.arange(self.training.visits.rank) % 2, self.of_mean, -self.of_mean)
        for put_off in (
            self.left_out(of_rates=self.of_mean),
            self.left_out(of_rates=every_other),
            self.left_out(entering=True),
        ):
            apart = weighted_sum(np.square(residuals(put_off)) - here, weights)
            with np.errstate(over="ignore"):
                by_mean = by_mean + np.square(apart)
        return np.asarray(by_rows + np.sqrt(by_mean))


def _visit_shares(training: Training) -> FloatArray:
    """Rows of each visit over its divisor (B,)."""
    n = training.problem.n
    return np.asarray(training.scheme.sizes(n) / training.scheme.step_divisors(n))


def has_cavity(training: Training) -> bool:
    """True if all visits weigh the same and all units have equally many rows, which are at hand one by one."""
    shares, partition = _visit_shares(training), training.scheme.partition(training.problem.n)
    alike = are_alike(shares) and bool(shares[-1] == shares[0]) and len({*map(len, partition)}) == 1
    return alike and len(training.blocks.rows) == training.problem.n


def affordable_orders(training: Training, budget: float) -> int:
    """Drawn orders that take a second or so, or the fewest that tell anything if a budget allows them; 0 if not."""
    n, rank, outputs = training.problem.n, training.visits.rank, training.outputs
    side = rank * (rank + outputs)
    if (
        not training.is_symmetric
        or 8.0 * MOST_GROUPS * (n + _ORDERS_AT_A_TIME) * side > available_bytes() / 8
    ):
        return 0
    visits = training.scheme.steps(n)
    each = n * (8.0 * side + _PER_NUMBER * (rank + outputs))
    each += visits * (_PER_NUMBER * side + _CALLS * CALL / _ORDERS_AT_A_TIME)
    # Matrices per row are decomposed for the answer, and for each direction in which it may be off.
    decomposed = (n + (MOST_GROUPS + 2 * _DIRECTIONS) * min(n, 128)) * (10.0 * rank**3 + 10 * rank)
    if decomposed + 2 * _FEWEST_ORDERS * each > max(budget, A_SECOND):
        return 0
    return int(min(max((A_SECOND - decomposed) / (2 * each), _FEWEST_ORDERS), _MOST_ORDERS))


class DrawnOrders:
    """Mean maps without each row of plain steps, from drawn orders of samples: no closure, whatever rows do.

    In an order in which row i is visited after the visits F and before the visits H,

        A_i = A + H x_i x_i'F / m,   g_i = g - H x_i alpha_i / m,   alpha_i = y_i - x_i'N,

    with N what was learned before. Read backwards, the order is as likely and has the transposed maps, so that two
    passes, one in each direction, give both: x_i'F and alpha_i of the one are x_i'H' and alpha_i of the other.

    Parameters
    ----------
    training : Training
    orders, seed : int
    """

    def __init__(self, training: Training, orders: int, seed: int):
        self._training, self._orders, self._seed = training, orders, seed
        n = training.problem.n
        self._rows, responses = training.rows(np.arange(n))
        self._targets = np.hstack([self._rows, responses])
        self.sizes = np.square(self._rows).sum(axis=1)
        self._rank, self.outputs = training.visits.rank, training.outputs
        ends = np.concatenate([[0], np.cumsum(training.scheme.sizes(n))])
        places = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self._visits = list(zip(places, training.scheme.step_divisors(n), strict=True))

    def residuals(self, rows: IntArray, epochs: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and y_i - x_i'b_i (epochs, rows, 1, t) after each of the finite epochs (k,)."""
        return self._mean.residuals(rows, epochs)

    def limits(self, rows: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows, some at a time, and their residuals (rows, 1, t) in the limit."""
        return self._mean.limits(rows)

    @cached_property
    def _groups(self) -> tuple[FloatArray, FloatArray]:
        """[lost, gained] (groups, 1, r, r + t) of the whole map by groups of orders, and of each row's part."""
        shape, n = (self._rank, self._rank + self.outputs), len(self._rows)
        rng, count = np.random.default_rng(self._seed), -(-self._orders // MOST_GROUPS)
        common, own = np.zeros((MOST_GROUPS, 1, *shape)), np.zeros((MOST_GROUPS, n, *shape))
        with np.errstate(over="ignore", invalid="ignore"):
            for group in track(range(MOST_GROUPS), MOST_GROUPS, "drawing orders"):
                for start in range(0, count, _ORDERS_AT_A_TIME):
                    drawn = permutations(rng, min(_ORDERS_AT_A_TIME, count - start), n)
                    whole, parts = self._followed(drawn)
                    common[group, 0] += whole / count
                    own[group] += parts / count
        return common, own

    @cached_property
    def _mean(self) -> LeftOutMaps:
        return self._weighted(np.full(MOST_GROUPS, 1 / MOST_GROUPS))

    def _weighted(self, weights: FloatArray) -> LeftOutMaps:
        """Maps with weights (groups,) of the groups of orders."""
        with np.errstate(over="ignore", invalid="ignore"):
            common, own = self._groups
            made = np.tensordot(weights, common, 1) - np.tensordot(weights, own, 1)

        def maps(members: IntArray) -> Maps:
            lost, gained = np.split(made[members], [self._rank], axis=2)
            return members, self._rows[members], self._targets[members, self._rank :], lost, gained

        return LeftOutMaps(maps, (self._rank, self.outputs), self._training.alone)

    def error(self, residuals: Residuals, weights: FloatArray) -> FloatArray:
        """Error of a mean square.

        By the answers without each group in turn. Powers are not linear in what was drawn: so the answer is also
        computed where the map is off by as many standard errors, in the directions that change it most.
        """

        def mean_square(leaving: LeftOutMaps) -> FloatArray:
            with np.errstate(over="ignore"):
                return weighted_sum(np.square(residuals(leaving)), weights)

        here, groups = mean_square(self._mean), MOST_GROUPS
        left_out = (1 - np.eye(groups)) / (groups - 1)
        without = np.array([mean_square(self._weighted(each)) for each in left_out])
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
                    off = np.abs(mean_square(self._weighted(1 / groups + sign * moved)) - here)
                found = np.maximum(found, np.where(np.isnan(off), np.inf, off))
        return found

    def _followed(self, orders: IntArray) -> tuple[FloatArray, FloatArray]:
        """Sums over orders and their reverses: [lost, gained] (r, r + t), and each row's own part (n, r, r + t)."""
        rank = self._rank
        first, seen = self._passed(orders, backwards=False)
        second, back = self._passed(orders, backwards=True)
        # Of every sample in every order one over the divisor of its visit; 0 if it has none.
        each = np.zeros(orders.shape[1])
        for places, divisor in self._visits:
            each[places] = 1 / divisor
        weights = np.empty(orders.shape)
        np.put_along_axis(weights, orders, np.broadcast_to(each, orders.shape), axis=1)
        # Samples first, so that a row's own part is one product over all orders.
        before, after = seen.transpose(1, 0, 2), back.transpose(1, 0, 2)
        scaled = weights.T[..., np.newaxis]
        one = np.swapaxes(after[..., :rank], 1, 2) @ (scaled * before)
        other = np.swapaxes(before[..., :rank], 1, 2) @ (scaled * after)
        return (first + second) / 2, self._training.factors[:, np.newaxis, np.newaxis] * (one + other) / 2

    def _passed(self, orders: IntArray, *, backwards: bool) -> tuple[FloatArray, FloatArray]:
        """Follow orders: the sum of [lost, gained], and [x_i'F, alpha_i] (orders, n, r + t) of every sample i."""
        training, rows = self._training, self._rows
        shrinkage = training.visits.step * training.visits.penalty
        rest = np.hstack([np.eye(self._rank), -training.origin / math.sqrt(training.visits.step)])
        states = np.zeros((len(orders), self._rank, self._targets.shape[1]))
        seen = np.zeros((len(orders), *self._targets.shape))
        which = np.arange(len(orders))[:, np.newaxis]
        for places, divisor in reversed(self._visits) if backwards else self._visits:
            samples = orders[:, places]
            here = rows[samples]
            met = self._targets[samples] - here @ states
            seen[which, samples] = met
            moved = np.swapaxes(here, 1, 2) @ met / divisor
            states = states + moved + shrinkage * (rest - states) if shrinkage else states + moved
        return states.sum(axis=0), seen
