"""One epoch as affine maps in R^p, by enumeration: of each alternative, and their mean.

The state is beta, or (beta, v) with momentum, where the buffer v is measured in units of 1 / step. A map (A, N)
sends the state z to A z + N y. With W = X_b'X_b / m and the penalty l a visit is

    v -> momentum v + W beta - X_b'y_b / m + l beta,    beta -> beta - step v.
"""

from dataclasses import dataclass
from functools import cached_property

from flint import fmpq, fmpq_mat

from fuzz import exact, visits
from fuzz.exact import Matrix, Rational
from fuzz.setting import Setting
from fuzz.visits import Stage, Timeline, Visit


@dataclass(frozen=True)
class EpochMap:
    """z -> A z + N y."""

    A: Matrix
    N: Matrix

    def then(self, later: "EpochMap") -> "EpochMap":
        """The map followed by another."""
        return EpochMap(later.A * self.A, later.A * self.N + later.N)


def mean(maps: list[EpochMap]) -> EpochMap:
    """The mean of equally likely maps."""
    A, N = maps[0].A, maps[0].N
    for each in maps[1:]:
        A, N = A + each.A, N + each.N
    share = fmpq(1, len(maps))
    return EpochMap(A * share, N * share)


class EpochMaps:
    """The maps of the epochs of a setting, for every timeline that a run may take."""

    def __init__(self, setting: Setting):
        self.setting = setting
        self.timelines: list[Timeline] = visits.timelines(setting.scheme, setting.n)
        self._stages: dict[tuple[Rational, int, int], list[EpochMap]] = {}
        self._means: dict[tuple[Rational, int], EpochMap] = {}
        self._visits: dict[tuple[Rational, Visit], EpochMap] = {}

    @property
    def dimension(self) -> int:
        """The length of the state."""
        return self.setting.p * (2 if self.setting.momentum != 0 else 1)

    @cached_property
    def _unit(self) -> Rational:
        """What the buffer is multiplied by, so that both halves of the state are of one size."""
        largest = max(map(abs, self.setting.X.entries()), default=fmpq(0))
        return self.setting.step(0) or 1 / (1 + largest * largest)

    def _visit(self, step: Rational, visit: Visit) -> EpochMap:
        if (step, visit) in self._visits:
            return self._visits[step, visit]
        setting, (rows, divisor) = self.setting, visit
        share, p = fmpq(divisor[1], divisor[0]), setting.p
        X = exact.part(setting.X, rows, range(p))
        curvature = (X.transpose() * X) * share + exact.identity(p) * setting.penalty
        entry = [[exact.ZERO] * setting.n for _ in range(p)]
        for number, row in enumerate(rows):
            for j in range(p):
                entry[j][row] += X[number, j] * share
        input_map = fmpq_mat(p, setting.n, [each for row in entry for each in row])
        identity = exact.identity(p)
        A, N = identity - curvature * step, input_map * step
        if setting.momentum != 0:
            upper = exact.beside(A, identity * (-step / self._unit * setting.momentum))
            lower = exact.beside(curvature * self._unit, identity * setting.momentum)
            A, N = exact.above(upper, lower), exact.above(N, input_map * -self._unit)
        self._visits[step, visit] = EpochMap(A, N)
        return self._visits[step, visit]

    def _walk(self, step: Rational, alternative: list[Visit]) -> EpochMap:
        made = self._visit(step, alternative[0])
        for visit in alternative[1:]:
            made = made.then(self._visit(step, visit))
        return made

    def alternatives(self, timeline: int, epoch: int) -> list[list[EpochMap]]:
        """For every stage of an epoch the maps of its alternatives."""
        step = self.setting.step(epoch)
        return [
            self._alternatives(step, timeline, number, stage)
            for number, stage in enumerate(self.timelines[timeline])
        ]

    def _alternatives(self, step: Rational, timeline: int, number: int, stage: Stage) -> list[EpochMap]:
        key = (step, timeline, number)
        if key not in self._stages:
            self._stages[key] = [self._walk(step, alternative) for alternative in stage]
        return self._stages[key]

    def mean_map(self, timeline: int, epoch: int = 0) -> EpochMap:
        """The mean of an epoch along a timeline."""
        key = (self.setting.step(epoch), timeline)
        if key not in self._means:
            first, *others = [mean(maps) for maps in self.alternatives(timeline, epoch)]
            for other in others:
                first = first.then(other)
            self._means[key] = first
        return self._means[key]

    @cached_property
    def visited(self) -> Matrix:
        """The rows of X that are ever visited."""
        rows = {
            row
            for timeline in self.timelines
            for stage in timeline
            for alternative in stage
            for visit in alternative
            for row in visit[0]
        }
        return exact.part(self.setting.X, sorted(rows), range(self.setting.p))

    def restricted(self, A: Matrix) -> Matrix:
        """The matrix of a map on the row space of what is visited; all of it if a penalty acts everywhere."""
        if self.setting.penalty != 0:
            return A
        reduced, rank = self.visited.rref()
        basis = exact.top(reduced, rank)
        if self.setting.momentum != 0:
            nothing = exact.zeros(rank, self.setting.p)
            basis = exact.above(exact.beside(basis, nothing), exact.beside(nothing, basis))
        if not basis.nrows():
            return exact.zeros(0, 0)
        return (basis * basis.transpose()).solve(basis * A * basis.transpose())
