"""One epoch by enumeration: every equally likely sequence of visits, and its affine map in R^p.

A run chooses one of several *timelines* at its start; an epoch of it is a list of independent *stages*; a stage
is a list of equally likely *alternatives*; an alternative is a list of visits (rows, divisor).

The state is beta, or (beta, v) with momentum, where the buffer v is measured in units of 1 / step. A map (A, N)
sends the state z to A z + N y. With W = X_b'X_b / m and the penalty l a visit is

    v -> momentum v + W beta - X_b'y_b / m + l beta,    beta -> beta - step v.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations, product
from typing import Any, TypeAlias

from flint import fmpq, fmpq_mat

from tests.oracles.exact import arithmetic as exact
from tests.oracles.exact.arithmetic import Matrix, Rational
from tests.oracles.exact.setting import Scheme, Setting

Visit: TypeAlias = tuple[tuple[int, ...], tuple[int, int]]
"""Rows, and what the sum of their gradients is divided by, as a ratio of whole numbers."""
Stage: TypeAlias = list[list[Visit]]
Timeline: TypeAlias = list[Stage]


def timelines(scheme: Scheme, n: int) -> list[Timeline]:
    """All timelines of a scheme on n rows."""
    arguments = scheme.arguments
    if scheme.name == "FullBatch":
        return [[[[(tuple(range(n)), (n, 1))]]]]
    if scheme.name == "SampleReshuffling":
        return [[_shuffled_samples(n, arguments)]]
    if scheme.name == "SampleWithReplacement":
        return [[_drawn_rows(n, size) for size in sizes(n, arguments)]]
    if scheme.name == "SampleSubsets":
        return [[_drawn_subsets(n, size) for size in sizes(n, arguments)]]
    batches = partition(n, arguments)
    if scheme.name == "RandomReshuffling":
        return [[[list(order) for order in permutations(batches)]]]
    if scheme.name == "WithReplacement":
        return [[[[batch] for batch in batches] for _ in batches]]
    if arguments.get("order") is not None:
        return [[[[batches[number] for number in arguments["order"]]]]]
    if scheme.name == "Cyclic":
        return [[[batches]]]
    return [[[list(order)]] for order in permutations(batches)]


def count(scheme: Scheme, n: int) -> int:
    """How many visits an epoch has."""
    timeline = timelines(scheme, n)[0]
    return sum(len(stage[0]) for stage in timeline)


def sizes(n: int, arguments: dict[str, Any]) -> list[int]:
    """How many rows each batch has."""
    batches, size = arguments.get("batches"), arguments.get("batch_size")
    if isinstance(batches, list):
        return [len(batch) for batch in batches]
    if size is None:
        assert isinstance(batches, int)
        return [n // batches + (number < n % batches) for number in range(batches)]
    whole, rest = divmod(n, size)
    return [size] * whole + ([rest] if rest and not arguments.get("drop_last") else [])


def _divisors(n: int, arguments: dict[str, Any]) -> list[tuple[int, int]]:
    each = sizes(n, arguments)
    if arguments.get("normalize") == "equal":
        return [(sum(each), len(each))] * len(each)
    return [(size, 1) for size in each]


def partition(n: int, arguments: dict[str, Any]) -> list[Visit]:
    """The fixed batches."""
    batches, divisors = arguments.get("batches"), _divisors(n, arguments)
    if isinstance(batches, list):
        return [(tuple(rows), divisor) for rows, divisor in zip(batches, divisors, strict=True)]
    made, first = [], 0
    for size, divisor in zip(sizes(n, arguments), divisors, strict=True):
        made.append((tuple(range(first, first + size)), divisor))
        first += size
    return made


def _shuffled_samples(n: int, arguments: dict[str, Any]) -> Stage:
    """Every way of cutting a permutation of the samples into batches."""
    each, divisors = sizes(n, arguments), _divisors(n, arguments)

    def cuts(left: tuple[int, ...], number: int) -> list[list[Visit]]:
        if number == len(each):
            return [[]]
        return [
            [(rows, divisors[number]), *rest]
            for rows in combinations(left, each[number])
            for rest in cuts(tuple(row for row in left if row not in rows), number + 1)
        ]

    return cuts(tuple(range(n)), 0)


def _drawn_rows(n: int, size: int) -> Stage:
    return [[(rows, (size, 1))] for rows in product(range(n), repeat=size)]


def _drawn_subsets(n: int, size: int) -> Stage:
    return [[(rows, (size, 1))] for rows in combinations(range(n), size)]


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
        self.timelines: list[Timeline] = timelines(setting.scheme, setting.n)
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
