"""The right answers about the mean iterate, its risk and its stability, by enumeration in exact arithmetic."""

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

from flint import arb, arb_mat, ctx, fmpq

from tests.oracles.exact import arithmetic as exact
from tests.oracles.exact.arithmetic import Matrix, Value, Values, certified, total
from tests.oracles.exact.epochs import EpochMaps
from tests.oracles.exact.powers import LinearMap, powers
from tests.oracles.exact.setting import Setting

LATE = 1 << 80
"""Epochs after which whatever grows has left the range of floats, unless it grows by less than 1e-21 per epoch."""
_NOTHING = 1e-300
_FAR = 4200
"""Powers of two by which a drift is followed."""

Reading = Callable[[arb_mat], Values]


class Oracle:
    """Answers for one setting; everything is computed when it is first asked for."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.maps = EpochMaps(setting)

    @property
    def timelines(self) -> range:
        """The timelines between which a run chooses."""
        return range(len(self.maps.timelines))

    @property
    def is_random(self) -> bool:
        """Whether epochs of one run differ."""
        return len(self.maps.timelines) == 1 and any(len(stage) > 1 for stage in self.maps.timelines[0])

    def linear(self, timeline: int) -> LinearMap:
        """The mean of an epoch along a timeline."""
        if timeline not in self._linear:
            once = self.maps.mean_map(timeline)
            self._linear[timeline] = LinearMap(once.A, once.N, self.maps.restricted(once.A))
        return self._linear[timeline]

    @cached_property
    def _linear(self) -> dict[int, LinearMap]:
        return {}

    # States: the start and the responses enter linearly, a column each.

    def _from(self, beta: Matrix, responses: Matrix) -> tuple[Matrix, Matrix]:
        buffer = exact.zeros(self.maps.dimension - self.setting.p, beta.ncols())
        return (exact.above(beta, buffer) if buffer.nrows() else beta), responses

    def run_columns(self) -> tuple[Matrix, Matrix]:
        """One column: the run itself, on the responses y."""
        return self._from(self.setting.start, self.setting.y)

    def truth_columns(self) -> tuple[Matrix, Matrix]:
        """Columns of the run on X beta_star, and of the noise in each row."""
        setting = self.setting
        assert setting.beta_star is not None
        assert setting.noise is not None
        beta = exact.beside(setting.start, exact.zeros(setting.p, setting.n))
        noise = exact.identity(setting.n) * setting.noise
        return self._from(beta, exact.beside(setting.X * setting.beta_star, noise))

    def states(self, epochs: list[int], columns: tuple[Matrix, Matrix], timeline: int) -> list[arb_mat]:
        """The mean states along a timeline, after each of the epochs."""
        if self.setting.is_constant:
            return powers(self.linear(timeline), *columns, epochs)
        found, current, inputs = {}, exact.real(columns[0]), exact.real(columns[1])
        last = max(epochs, default=0)
        for epoch in range(last + 1):
            found[epoch] = current
            if epoch < last:
                once = self.maps.mean_map(timeline, epoch)
                current = exact.real(once.A) * current + exact.real(once.N) * inputs
        return [found[epoch] for epoch in epochs]

    def mean_states(self, epochs: list[int], columns: tuple[Matrix, Matrix]) -> list[arb_mat]:
        """The same, averaged over the timelines."""
        each = [self.states(epochs, columns, timeline) for timeline in self.timelines]
        share = arb(fmpq(1, len(each)))
        return [total(found) * share for found in zip(*each, strict=True)]

    def read(self, epochs: list[float], columns: tuple[Matrix, Matrix], reading: Reading) -> list[Values]:
        """What is read off the mean states, an entry per epoch, infinity included."""
        finite = [int(epoch) for epoch in epochs if not math.isinf(epoch)]
        found = certified(lambda: [reading(state) for state in self.mean_states(finite, columns)])
        at = dict(zip(finite, found, strict=True))
        end = self._end(columns, reading) if math.inf in epochs else []
        return [end if math.isinf(epoch) else at[int(epoch)] for epoch in epochs]

    def _end(self, columns: tuple[Matrix, Matrix], reading: Reading) -> Values:
        ends = [self.linear(timeline).end(*columns) for timeline in self.timelines]
        if all(end is not None for end in ends):
            share = fmpq(1, len(ends))
            limit = total([end[0] for end in ends if end is not None]) * share
            drift = total([end[1] for end in ends if end is not None]) * share
            far = limit + drift * fmpq(1 << _FAR) if not exact.is_zero(drift) else limit
            return certified(lambda: [reading(exact.real(far))])[0]
        late = certified(lambda: [reading(state) for state in self.mean_states([LATE, LATE + 1], columns)])
        return [settled(one, other) for one, other in zip(*late, strict=True)]

    # Questions.

    def iterates(self, epochs: list[float]) -> list[Values]:
        """The mean iterate."""
        p = self.setting.p
        return self.read(epochs, self.run_columns(), lambda state: list(exact.top(state, p).entries()))

    def left_out(self, epochs: list[float]) -> list[Values]:
        """The mean square over rows of y_i - x_i'b, b the mean iterate without row i."""
        setting, squares = self.setting, []
        for row in range(setting.n):
            answer, features = setting.y[row, 0], [setting.X[row, j] for j in range(setting.p)]

            def reading(state: arb_mat, answer: Any = answer, features: Any = features) -> Values:
                beta = exact.top(state, setting.p)
                fitted = sum((arb(x) * beta[j, 0] for j, x in enumerate(features)), arb(0))
                return [(arb(answer) - fitted) ** 2]

            alone = Oracle(setting.without(row))
            squares.append([values[0] for values in alone.read(epochs, alone.run_columns(), reading)])
        return [[_mean(list(column))] for column in zip(*squares, strict=True)]

    def losses(self, epochs: list[float]) -> list[Values]:
        """|y - X b|^2 / (2n) at the mean iterate b."""
        setting = self.setting

        def reading(state: arb_mat) -> Values:
            residual = exact.real(setting.y) - exact.real(setting.X) * exact.top(state, setting.p)
            return [(residual.transpose() * residual)[0, 0] / (2 * setting.n)]

        return self.read(epochs, self.run_columns(), reading)

    @cached_property
    def frozen_error(self) -> Matrix:
        """P_0 (start - beta_star), which never fades; P_0 projects on the null space of Z, or of visited rows."""
        setting = self.setting
        assert setting.beta_star is not None
        error = setting.start - setting.beta_star
        if setting.penalty != 0:
            return exact.zeros(setting.p, 1)
        basis = self._still_directions
        if not basis.ncols():
            return exact.zeros(setting.p, 1)
        return basis * (basis.transpose() * basis).solve(basis.transpose() * error)

    @property
    def is_symmetric(self) -> bool:
        """Whether the mean of an epoch is a symmetric map, of which the paper speaks."""
        setting = self.setting
        plain = setting.is_constant and setting.penalty == 0 and setting.momentum == 0
        return plain and setting.scheme.name not in ("Cyclic", "ShuffleOnce")

    @cached_property
    def _still_directions(self) -> Matrix:
        if self.is_symmetric:
            return exact.null_space(exact.identity(self.setting.p) - self.maps.mean_map(0).A)
        return exact.null_space(self.maps.visited)

    @property
    def frozen_dimension(self) -> int:
        """The dimension of the frozen subspace."""
        return 0 if self.setting.penalty != 0 else int(self._still_directions.ncols())

    @property
    def range_holds(self) -> bool:
        """Whether Range(Xtilde') lies in Range(Z)."""
        return exact.is_zero(self._still_directions.transpose() * self.maps.mean_map(0).N)

    def risk_reading(self) -> Reading:
        """Total, frozen, bias, cross and variance, from the columns of the truth."""
        setting = self.setting
        assert setting.beta_star is not None
        truth, frozen_error = setting.beta_star, self.frozen_error

        def reading(state: arb_mat) -> Values:
            sigma, frozen = exact.real(setting.sigma), exact.real(frozen_error)
            beta = exact.top(state, setting.p)
            error = exact.part(beta, range(setting.p), [0]) - exact.real(truth)
            noise = exact.part(beta, range(setting.p), range(1, 1 + setting.n))
            variance = (noise.transpose() * (sigma * noise)).trace()
            moving = error - frozen
            bias = (moving.transpose() * sigma * moving)[0, 0]
            still = (frozen.transpose() * sigma * frozen)[0, 0]
            cross = 2 * (frozen.transpose() * sigma * moving)[0, 0]
            return [still + bias + cross + variance, still, bias, cross, variance]

        return reading

    def risks(self, epochs: list[float]) -> list[Values]:
        """The risk of the mean iterate over the noise, and its parts."""
        return self.read(epochs, self.truth_columns(), self.risk_reading())

    def given_risks(self, epochs: list[float]) -> list[Values]:
        """|b - beta_star|_Sigma^2 at the mean iterate b of the run on y."""
        return self.read(epochs, self.run_columns(), self.given_reading())

    def given_reading(self) -> Reading:
        """|b - beta_star|_Sigma^2."""
        setting = self.setting
        assert setting.beta_star is not None
        truth = setting.beta_star

        def reading(state: arb_mat) -> Values:
            error = exact.top(state, setting.p) - exact.real(truth)
            return [(error.transpose() * exact.real(setting.sigma) * error)[0, 0]]

        return reading

    def converges(self) -> bool | None:
        """Whether the mean has a limit from every start and for all responses; None on the edge."""
        answer: bool | None = True
        for timeline in self.timelines:
            once = self.linear(timeline)
            shrinks = once.shrinks()
            if shrinks is False or once._fixed is None:
                return False
            if not exact.is_zero(once._fixed[1] * once.N):
                return False
            answer = None if shrinks is None else answer
        return answer

    def rate(self) -> arb:
        """What the slowest mode is multiplied by in an epoch."""
        if self.setting.step(0) == 0:
            # A momentum buffer fades even then, but it is empty.
            return arb(0)
        return max(self.linear(timeline).rate() for timeline in self.timelines)

    def Z(self) -> Values:
        """(I - Abar) / (B step), row by row."""
        setting = self.setting
        count = sum(len(stage[0]) for stage in self.maps.timelines[0])
        share = 1 / (setting.step(0) * count)
        Z = (exact.identity(setting.p) - self.maps.mean_map(0).A) * share
        return certified(lambda: [list(exact.real(Z).entries())])[0]

    def minimum_norm(self) -> Values:
        """Of all least-squares solutions the nearest to the start."""
        setting = self.setting
        X = setting.X
        row_basis = exact.top(*X.rref())
        shifted = setting.y - X * setting.start
        solution = setting.start
        if row_basis.nrows():
            within = X * row_basis.transpose()
            solution += row_basis.transpose() * (within.transpose() * within).solve(
                within.transpose() * shifted
            )
        return certified(lambda: [list(exact.real(solution).entries())])[0]


def settled(one: Value, other: Value) -> Value:
    """The limit that two late epochs agree on; None if they do not."""
    if one is None or other is None:
        return None
    if isinstance(one, float) or isinstance(other, float):
        return math.inf if isinstance(one, float) and isinstance(other, float) else None
    with ctx.workprec(900):
        apart = abs(one - other)
        return one if apart <= abs(one) * 1e-12 or apart <= _NOTHING else None


def _mean(values: Values) -> Value:
    """Infinity if any is infinite; nothing is known where one is not."""
    if any(isinstance(value, float) for value in values):
        return math.inf
    known = [value for value in values if isinstance(value, arb)]
    return sum(known, arb(0)) / len(known) if len(known) == len(values) else None
