"""Row updates of shuffled samples: by the cavity equation, or from drawn orders where that neglects too much."""

import math
from dataclasses import replace
from functools import cache, cached_property
from itertools import pairwise

import numpy as np

from reshuffle._arrays import AnyArray, FloatArray, IntArray, available_bytes
from reshuffle._budget import A_SECOND, CALL
from reshuffle._linalg import root_mean_square, thin_qr
from reshuffle._progress import track
from reshuffle._uncertainty import CONFIDENCE, MOST_GROUPS, jackknife, quantile
from reshuffle.epoch.averaging import cavity_maps
from reshuffle.epoch.averaging.cavity import solve
from reshuffle.epoch.select import LEFT_OUT, are_alike
from reshuffle.schemes.base import Unit, permutations, rows_of
from reshuffle.validation.contour import CHUNK, Eigenvectors, LeftOutRows, Seen, product
from reshuffle.validation.row_updates import Ask, Formula, LeftOutMaps, Maps, Total, Training, seen_through

_OF_LEFT_OUT, _COARSEST, _OF_GROUPS = 0.3, 1e-3, 1e-6
"""Tolerance of the cavity equation, over the error that is asked of a mean square of normal residuals: on digits
and 300 features of them the mean square is off by a hundredth of that, or less. The largest tolerance, and that of
groups of rows, whose rounds say less of how far they are from the end."""
_SMALL, _OVERSHOOTS, _UNDOES = 0.1, 1.0, 2.0
"""Share up to which errors hold to first order, and self responses of a row: from the first on nothing is known of
what it does, and from the second on nothing is known of the other rows either.

Without drawn orders, on 540 problems like those of `python -m benchmarks.cavity_coverage rows`: below a self
response of one no answer is off by more than half its error, and from 2 on some are by any factor.
"""
_ORDERS_AT_A_TIME = 256
"""Orders that are followed together, so that calls with small matrices do not take most of the time."""
_FEWEST_ORDERS, _MOST_ORDERS = 1 << 9, 1 << 15
"""Orders, each with its reverse, below which errors say nothing, and beyond which nobody waits."""
_PER_NUMBER = 60.0
"""Operations that fit in the time of a number in a visit, 4 ns."""
_DIRECTIONS = 4
"""Epochs at which the direction is sought that changes an answer most."""
_LEVERAGE = 1e-6
"""Rest of the leverage of groups of rows that are not taken for groups that alone see some direction."""
_CALLS = 3.0
"""Calls with small matrices that a visit takes."""


class CavityUpdates:
    """Updates of shuffled units, samples or batches of equally many rows, by the cavity equation.

    With a_i(t) = x_i'E[first t visits | unit i not among them] and b_i(t) = E[t visits | not i] p_i, left and right
    vectors of `epoch.averaging.cavity`, and unit i as likely at one visit as at any other,

        A_i = A + (w / B) sum_t b_i(B-1-t) a_i(t)',   g_i = g - (w / B) sum_t b_i(B-1-t) alpha_i(t),

    where alpha_i(t) = y_i - x_i'E[learned in t visits | not i] obeys the equation of a_i. The mean over all units
    is N_t = w sum_{s<t} sum_j b_j(s) y_j; with another unit in the place of i that is, as in the closure of a_i,
    H_t = N_t + (1 / (n-1)) sum_{s<t} E[t-1-s visits] (what visit s adds by its rows).

    Of batches that are always the same single rows are left out. Row i of batch b is T_i U_b, with U_b the rows
    of its triangular factor, so that a_i(t) = T_i a_b(t) and alpha_i(t) = T_i alpha_b(t).

    ArithmeticError if the equation has no solution.
    """

    def __init__(self, training: Training):
        self.training, self._of_batches = training, training.scheme.unit is Unit.BATCH
        units = len(training.partition)
        self._size = len(training.blocks.rows) // units
        divisors = training.blocks.divisors if self._of_batches else training.scheme.step_divisors(training.n)
        divisor = float(divisors[0])
        # Rows of each visit over its divisor (B,).
        rows = self._size if self._of_batches else training.scheme.sizes(training.n)
        shares = rows / divisors
        # Factors of what each row does: their rows are scaled like the largest batch.
        self._factors = training.factors * (divisor / training.divisors if self._of_batches else 1.0)
        self._visiting = cavity_maps.visiting_of(training.visits, shares)
        wanted = training.accuracy.of(LEFT_OUT) / math.sqrt(training.n)
        tolerance = min(_OF_LEFT_OUT * wanted, _COARSEST if self._size == 1 else _OF_GROUPS)
        found = solve(self._visiting, tolerance)
        if found is None:
            raise ArithmeticError("the cavity equation has no solution.")
        self._found, self._nodes, missing = found, found.nodes, training.missing
        found.kernel = self._consistent_kernel()
        off = cavity_maps.neglected(self._visiting, found.entries, tolerance)
        # Error of the decay rates of the mean map, relative to them.
        shares_of_mean = cavity_maps.shares_of(self._visiting.rows, found.entries, off)
        self._of_mean = max(root_mean_square(shares_of_mean), tolerance)
        self._input_map = found.entries.T @ missing
        self._input_map += found.pushed(training.force)
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(missing), 1))
        self._perturbed_input_map = self._input_map + (signs * off).T @ missing
        self._self_response = found.self_response.reshape(len(found.nodes.nodes), -1, self._size, self._size)
        self._learned = training.roots[:, np.newaxis] * self._learned_without()
        # All rows, and those of the units (units, size, r).
        self._rows = training.rows(np.arange(training.n))[0] if self._of_batches else training.units[0]
        self._units = training.units[0].reshape(-1, self._size, training.rank)
        self._shares, self._self_responses = self._of_rows(divisor)

    def formula(self) -> Formula:
        """The formula with its error."""
        if self._size > 1 and not self._of_batches and not self.training.visits.penalty:
            basis, _ = thin_qr(self._rows)
            leverages = np.linalg.norm(basis.reshape(self._units.shape), 2, axis=(1, 2))
            if leverages.max(initial=0.0) > 1 - _LEVERAGE:
                raise ArithmeticError("groups of rows next to leverage one are known too poorly.")
        size = 1 if self._of_batches else self._size
        return Formula(
            "cavity", lambda: self._updates, self.training, self._error, "estimate", self._shares, size
        )

    @cached_property
    def _updates(self) -> LeftOutRows:
        return self._left_out(0.0)

    @property
    def is_small(self) -> bool:
        """True if the neglected terms are relatively small: errors are known to first order in them."""
        return bool(max(self._of_mean, float(self._shares.max(initial=0.0))) <= _SMALL)

    def _consistent_kernel(self) -> FloatArray:
        """K (d, d) for which responses X b and a penalty that pulls to b leave b where it is, whatever E is off by.

        Rounds end when K changes little: K and E may each be off by that, and what is learned in the end by both.
        """
        visits, kernel, rank = self.training.visits, self._found.kernel.copy(), self.training.rank
        kernel[:, :rank] = self._found.entries.T @ self._visiting.rows
        if visits.penalty:
            pulls = np.column_stack([visits.unit_force(-one) for one in np.diag(1 / visits.sizes)])
            kernel[:, :rank] += self._found.pushed(visits.pushed(pulls, 0))
        return kernel

    def _learned_without(self) -> FloatArray:
        """H_t (q, d, t) at the nodes, without the factor L R."""
        visiting, nodes, found, force = self._visiting, self._nodes, self._found, self.training.force
        grades, weight = visiting.grades.ravel()[:, np.newaxis], visiting.weight
        units, rows = visiting.samples, visiting.rows
        missing = self.training.missing.reshape(units, self._size, -1)
        identity = np.eye(len(grades))
        # sum_j b_j(t) y_j, with the self responses of the units.
        after = visiting.seen(identity - found.inner * grades.T)
        plain = rows.T @ missing.reshape(len(rows), -1)
        returned = np.stack([rows.T @ (own @ missing).reshape(len(rows), -1) for own in self._self_response])
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

    @property
    def overshoots(self) -> bool:
        """True if rows overshoot so much that the others are not known, either."""
        most = float(self._self_responses.max(initial=0.0))
        return most > _UNDOES or (most > _OVERSHOOTS and self._of_mean > _SMALL)

    def _of_rows(self, divisor: float) -> tuple[FloatArray, FloatArray]:
        """Shares (n,) of what each row does that are neglected, at most; and self responses of the units.

        Every other unit is before or after, never both. With W_j = X_j'X_j and W their mean, to second order in the
        step over the divisor, s, the covariance of the visits before and after row i is the trace of

            s^2 sum_j (W_j - W) x_i x_i'(W_j - W) (B - 1)(B - 2) / (6 B^2),

        nothing for units that are alike, nor for two batches; and all where a row overshoots, since its unit has a
        self response x_i'E[t visits | not i] p_i above one.
        """
        training, rows, units, batches = self.training, self._rows, self._units, self._visiting.steps
        factor = 1 / (1 - training.hyperparameters.momentum) / divisor
        scaled = training.roots[:, np.newaxis] * self._found.inner * training.roots
        met = ((np.eye(len(training.roots)) - scaled) @ training.entry)[:, : training.rank] / divisor
        total, fourth = np.zeros((2, training.rank, training.rank))
        responses = np.zeros(len(units))
        height = max(1, CHUNK // max(1, units[0].size))
        for start in range(0, len(units), height):
            some = units[start : start + height]
            flat = some.reshape(-1, training.rank)
            total += flat.T @ flat
            within = np.einsum("uir,ujr->uij", some, some)
            fourth += flat.T @ np.einsum("uij,ujr->uir", within, some).reshape(flat.shape)
            for one in met:
                own = np.einsum("uir,ujr->uij", (flat @ one).reshape(some.shape), some)
                size = np.abs(own[:, 0, 0]) if own.shape[1] == 1 else np.linalg.norm(own, 2, axis=(1, 2))
                responses[start : start + height] = np.maximum(responses[start : start + height], size)
        squares = np.einsum("ir,ir->i", rows, rows)
        both = np.einsum("ir,ir->i", rows @ (fourth - total @ total / len(units)), rows)
        of_visits = (batches - 1) * (batches - 2) / (6.0 * batches**2)
        shares = of_visits * factor**2 * np.maximum(both, 0.0) / np.where(squares == 0, 1.0, squares)
        if batches <= 2:
            return shares, np.zeros(len(units))
        unit = training.batch_of if self._of_batches else np.arange(len(rows)) // self._size
        return np.where(responses[unit] > _OVERSHOOTS, 1.0, np.minimum(shares, 1.0)), responses

    def _left_out(self, of_rates: FloatArray | float) -> LeftOutRows:
        """Updates, where each decay rate (r,) is off by a share."""
        training, size, nodes = self.training, self._size, self._nodes
        r, d = training.rank, len(training.roots)
        # As if features were larger by a root: what is learned in the end stays, and directions that other rows do
        # not see stay unmoved.
        root = np.ones(d)
        root[:r] = np.sqrt(np.maximum(1 + np.broadcast_to(of_rates, (r,)), 0.0))
        roots = (root * training.roots)[:, np.newaxis]
        modes = Eigenvectors(roots * self._found.kernel * roots.T, is_symmetric=training.is_symmetric)
        gains = modes.left @ (roots * self._input_map)
        lost = roots * self._found.inner * roots.T
        seen = seen_through(training, modes, lost, self._learned[:, :r], root=root)
        q, among = len(lost), np.eye(1 if self._of_batches else size)
        picks = np.kron(nodes.rule[0][:, np.newaxis], among)
        coupling = np.kron(self._visiting.weight * nodes.convolution_at(self._visiting.steps), among)

        def units(members: IntArray) -> Seen:
            right, left, alpha = seen(*(part[rows_of(members, size)] for part in training.units))
            own, m = self._self_response[:, members], len(members)

            def returned(plain: AnyArray, own: FloatArray) -> AnyArray:
                """F_i(t) + sum_{s<t} rho_i(t-s) f_i(s) at the nodes, for f (rows, q, any)."""
                flat = plain.reshape(m, size, q, -1).swapaxes(1, 2).reshape(m, q * size, -1)
                mixing = np.einsum("tab,amij->mtibj", nodes.convolution, own, optimize=True)
                return np.asarray(flat + product(mixing.reshape(m, q * size, q * size), flat))

            entered = None if left is None else returned(left, own.swapaxes(2, 3))
            return returned(right, own), entered, returned(alpha, own)

        def of_batch(batch: int, members: IntArray) -> Seen:
            if batch == len(training.partition):
                # Rows that are never visited: nothing changes without them.
                return seen(*training.rows(members))
            right, left, alpha = units(np.array([batch]))

            def of_members(part: AnyArray) -> AnyArray:
                return product(self._among_units[members], part.reshape(q, size, -1)).swapaxes(0, 1)

            return of_members(right), None if left is None else of_members(left), of_members(alpha)

        each, groups = 1 if self._of_batches else size, np.zeros(training.n, dtype=np.intp)
        if self._of_batches:
            groups = np.where(np.isfinite(training.divisors), training.batch_of, len(training.partition))
        return LeftOutRows(
            modes, gains, of_batch if self._of_batches else lambda _, members: units(members),
            groups, np.asarray(coupling),
            self._factors[::each], picks, root[:r, np.newaxis] * modes.right[:r], lambda: training.alone[::each],
            is_exact=bool(training.visits.penalty),
        )  # fmt: skip

    @cached_property
    def _among_units(self) -> FloatArray:
        """T (n, size): each row in terms of the (compressed) rows of its batch."""
        training, found = self.training, np.zeros((self.training.n, self._size))
        units, missing = (part.reshape(-1, self._size, part.shape[1]) for part in training.units)
        for members, rows, left in zip(training.partition, units, missing, strict=True):
            together = np.hstack(training.rows(members))
            found[members] = np.linalg.lstsq(np.hstack([rows, left]).T, together.T, rcond=None)[0].T
        return found

    def _error(self, ask: Ask, total: Total) -> FloatArray:
        """Error of what is made of answers.

        Rows do less than the product of means says, by their shares: changes add up, and none makes up for another.
        The mean map may be off in the decay rates of all modes alike, in those of every other one, and in how
        samples enter, by chance: these add up like independent ones.
        """
        updates, roots = self._updates, self.training.roots[:, np.newaxis]
        here = ask(updates)
        if self.overshoots:
            return np.full_like(total(here), np.inf)
        fewer = updates.factors * (1 - self._shares[:: len(self._shares) // len(updates.factors)])
        by_rows = total(np.abs(ask(replace(updates, factors=fewer)) - here))
        by_mean = np.zeros_like(by_rows)
        every_other = np.where(np.arange(self.training.rank) % 2, self._of_mean, -self._of_mean)
        for put_off in (
            self._left_out(self._of_mean),
            self._left_out(every_other),
            replace(updates, gains=updates.modes.left @ (roots * self._perturbed_input_map)),
        ):
            with np.errstate(over="ignore"):
                by_mean = by_mean + np.square(total(ask(put_off) - here))
        return np.asarray(by_rows + np.sqrt(by_mean))


def has_cavity(training: Training) -> bool:
    """True if all visits weigh the same and all units have equally many rows, which are at hand one by one."""
    shares = training.scheme.sizes(training.n) / training.scheme.step_divisors(training.n)
    alike = are_alike(shares) and bool(shares[-1] == shares[0]) and len({*map(len, training.partition)}) == 1
    return alike and len(training.blocks.rows) == training.n


def affordable_orders(training: Training, budget: float) -> int:
    """Drawn orders that take a second or so, or the fewest that have an error if a budget allows them; 0 if not."""
    n, rank, outputs = training.n, training.rank, training.outputs
    side = rank * (rank + outputs)
    bytes_needed = 8.0 * MOST_GROUPS * (n + _ORDERS_AT_A_TIME) * side
    if not training.is_symmetric or bytes_needed > available_bytes() / 8:
        return 0
    visits = training.scheme.steps(n)
    each = n * (8.0 * side + _PER_NUMBER * (rank + outputs))
    each += visits * (_PER_NUMBER * side + _CALLS * CALL / _ORDERS_AT_A_TIME)
    # Matrices per row are decomposed for the answer, and for each direction of its error.
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
    """

    def __init__(self, training: Training, orders: int, seed: int):
        self._training, self._orders, self._seed = training, orders, seed
        self._rank, n = training.rank, training.n
        self._rows, responses = training.rows(np.arange(n))
        self._targets = np.hstack([self._rows, responses])
        ends = np.concatenate([[0], np.cumsum(training.scheme.sizes(n))])
        places = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self._visits = list(zip(places, training.scheme.step_divisors(n), strict=True))

    def formula(self) -> Formula:
        """The formula with its error."""
        sizes = np.square(self._rows).sum(axis=1)
        mean = np.full(MOST_GROUPS, 1 / MOST_GROUPS)
        return Formula(
            "drawn orders", lambda: self._weighted(mean), self._training, self._error, CONFIDENCE, sizes
        )

    @cached_property
    def _groups(self) -> tuple[FloatArray, FloatArray]:
        """[lost, gained] (groups, 1, r, r + t) of the whole map by groups of orders, and of each row's part."""
        shape, n = self._targets.shape[1:], len(self._rows)
        rng, count = np.random.default_rng(self._seed), -(-self._orders // MOST_GROUPS)
        common, own = (np.zeros((MOST_GROUPS, m, self._rank, *shape)) for m in (1, n))
        with np.errstate(over="ignore", invalid="ignore"):
            for group in track(range(MOST_GROUPS), MOST_GROUPS, "drawing orders"):
                for start in range(0, count, _ORDERS_AT_A_TIME):
                    drawn = permutations(rng, min(_ORDERS_AT_A_TIME, count - start), n)
                    whole, parts = self._followed(drawn)
                    common[group, 0] += whole / count
                    own[group] += parts / count
        return common, own

    def _weighted(self, weights: FloatArray) -> LeftOutMaps:
        """Maps with weights (groups,) of the groups of orders, which are drawn when they are first needed."""

        @cache
        def made() -> tuple[FloatArray, FloatArray]:
            with np.errstate(over="ignore", invalid="ignore"):
                common, own = (np.tensordot(weights, part, 1) for part in self._groups)
                return common, common - own

        def maps(members: IntArray) -> Maps:
            lost, gained = np.split(made()[1][members], [self._rank], axis=2)
            return self._rows[members], self._targets[members, self._rank :], lost, gained

        def whole() -> tuple[FloatArray, FloatArray]:
            lost, gained = np.split(made()[0][0], [self._rank], axis=1)
            return (lost + lost.T) / 2, gained

        return LeftOutMaps(maps, whole, self._rank, self._training.outputs, self._training.alone)

    def _error(self, ask: Ask, total: Total) -> FloatArray:
        """Error of what is made of answers.

        By the answers without each group in turn. Powers are not linear in what was drawn: so the answer is also
        computed where the map is off by as many standard errors, in the directions that change it most.
        """

        def answer(shares: FloatArray) -> FloatArray:
            return total(ask(self._weighted(shares)))

        groups = MOST_GROUPS
        here = answer(np.full(groups, 1 / groups))
        without = np.array([answer(each) for each in (1 - np.eye(groups)) / (groups - 1)])
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
                    off = np.abs(answer(1 / groups + sign * moved) - here)
                found = np.maximum(found, np.where(np.isnan(off), np.inf, off))
        return found

    def _followed(self, orders: IntArray) -> tuple[FloatArray, FloatArray]:
        """Sums over orders and their reverses: [lost, gained] (r, r + t), and each row's own part (n, r, r + t)."""
        rank, (count, n) = self._rank, orders.shape
        first, seen = self._passed(orders, backwards=False)
        second, back = self._passed(orders, backwards=True)
        # Of every place in an order one over the divisor of its visit; 0 if it has none.
        each, places = np.zeros(n), np.empty_like(orders)
        for visit, divisor in self._visits:
            each[visit] = 1 / divisor
        np.put_along_axis(places, orders, np.broadcast_to(np.arange(n), orders.shape), axis=1)
        # Samples first, so that a row's own part is one product over all orders.
        members = places.T + n * np.arange(count)
        before, after = (part.reshape(count * n, -1).take(members, axis=0) for part in (seen, back))
        scaled = each.take(places.T)[..., np.newaxis]
        one = np.swapaxes(after[..., :rank], 1, 2) @ (scaled * before)
        other = np.swapaxes(before[..., :rank], 1, 2) @ (scaled * after)
        return (first + second) / 2, self._training.factors[:, np.newaxis, np.newaxis] * (one + other) / 2

    def _passed(self, orders: IntArray, *, backwards: bool) -> tuple[FloatArray, FloatArray]:
        """Follow orders: the sum of [lost, gained], and [x_i'F, alpha_i] (orders, n, r + t) at every place."""
        training, rows = self._training, self._rows
        shrinkage = training.visits.step * training.visits.penalty
        rest = np.hstack([np.eye(self._rank), -training.origin / math.sqrt(training.visits.step)])
        states = np.zeros((len(orders), self._rank, self._targets.shape[1]))
        seen = np.zeros((len(orders), *self._targets.shape))
        for places, divisor in reversed(self._visits) if backwards else self._visits:
            # An index in brackets takes seven times as long.
            here = rows.take(orders[:, places], axis=0)
            met = self._targets.take(orders[:, places], axis=0) - here @ states
            seen[:, places] = met
            moved = np.swapaxes(here, 1, 2) @ met / divisor
            states = states + moved + shrinkage * (rest - states) if shrinkage else states + moved
        return states.sum(axis=0), seen
