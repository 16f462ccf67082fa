"""The risk of the run itself, its mean-square stability, and the step at which stability ends."""

import math
import random
from dataclasses import replace

from flint import arb, arb_mat, fmpq, fmpq_mat

from tests.oracles.exact import arithmetic as exact
from tests.oracles.exact.arithmetic import Matrix, Rational, Value, Values, certified, total
from tests.oracles.exact.epochs import EpochMap
from tests.oracles.exact.oracle import LATE, Oracle, settled
from tests.oracles.exact.powers import LinearMap, no_inputs, powers

MOST_STEPWISE = 16
"""Epochs up to which second moments are followed one epoch at a time."""
MOST_SQUARED = 15
"""The largest number of second moments of which an epoch is written as a matrix."""


def expected_risks(oracle: Oracle, epochs: list[float], given_responses: bool) -> list[Values]:
    """Total and mean of the expected risk at each epoch."""
    columns = oracle.run_columns() if given_responses else oracle.truth_columns()
    reading = oracle.given_reading() if given_responses else oracle.risk_reading()
    means = [values[:1] for values in oracle.read(epochs, columns, reading)]
    if len(oracle.timelines) > 1:
        totals = _over_courses(oracle, epochs, columns, given_responses)
    elif not oracle.is_random:
        totals = means
    elif all(epoch <= MOST_STEPWISE for epoch in epochs):
        totals = certified(lambda: _stepwise(oracle, [int(epoch) for epoch in epochs], columns))
    else:
        totals = _by_squaring(oracle, epochs, columns)
    return [run + mean for run, mean in zip(totals, means, strict=True)]


def _over_courses(
    oracle: Oracle, epochs: list[float], columns: tuple[Matrix, Matrix], given_responses: bool
) -> list[Values]:
    """The mean of the risks along timelines on which nothing is random."""
    reading = oracle.given_reading() if given_responses else oracle.risk_reading()
    finite = [int(epoch) for epoch in epochs if not math.isinf(epoch)]
    share = fmpq(1, len(oracle.timelines))

    def averaged(each: list[list[arb_mat]]) -> list[Values]:
        risks = [[reading(state)[0] for state in states] for states in each]
        return [[total(list(found)) * arb(share)] for found in zip(*risks, strict=True)]

    def at(asked: list[int]) -> list[Values]:
        return certified(
            lambda: averaged([oracle.states(asked, columns, timeline) for timeline in oracle.timelines])
        )

    known = dict(zip(finite, at(finite), strict=True))
    end: Values = []
    if math.inf in epochs:
        ends = [oracle.linear(timeline).end(*columns) for timeline in oracle.timelines]
        if all(one is not None and exact.is_zero(one[1]) for one in ends):
            limits = [one[0] for one in ends if one is not None]
            end = certified(lambda: averaged([[exact.real(limit)] for limit in limits]))[0]
        else:
            late = at([LATE, LATE + 1])
            end = [settled(*pair) for pair in zip(*late, strict=True)]
    return [end if math.isinf(epoch) else known[int(epoch)] for epoch in epochs]


def _stepwise(oracle: Oracle, epochs: list[int], columns: tuple[Matrix, Matrix]) -> list[Values]:
    """S -> E[T S T'] for the second moment S of state and responses together."""
    setting, p = oracle.setting, oracle.setting.p
    assert setting.beta_star is not None
    start = exact.real(exact.above(*columns))
    second, mean = start * start.transpose(), exact.part(start, range(start.nrows()), [0])
    sigma, truth = exact.real(setting.sigma), exact.real(setting.beta_star)
    constant = (truth.transpose() * sigma * truth)[0, 0]
    found: dict[int, Values] = {}
    for epoch in range(max(epochs, default=-1) + 1):
        beta = exact.part(second, range(p), range(p))
        cross = (truth.transpose() * sigma * exact.top(mean, p))[0, 0]
        found[epoch] = [(sigma * beta).trace() - 2 * cross + constant]
        if epoch == max(epochs):
            break
        for stage in oracle.maps.alternatives(0, epoch):
            whole = [_whole(each) for each in stage]
            share = arb(fmpq(1, len(whole)))
            second = total([each * second * each.transpose() for each in whole]) * share
            mean = total([each * mean for each in whole]) * share
    return [found[epoch] for epoch in epochs]


def _whole(each: EpochMap) -> arb_mat:
    count = each.N.ncols()
    below = exact.beside(exact.zeros(count, each.A.nrows()), exact.identity(count))
    return exact.real(exact.above(exact.beside(each.A, each.N), below))


def _pairs(size: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(size) for j in range(i, size)]


def symmetric_square(matrix: Matrix) -> Matrix:
    """The matrix of M -> T M T' on symmetric matrices."""
    pairs, entries = _pairs(matrix.nrows()), []
    for i, j in pairs:
        for k, m in pairs:
            entry = matrix[i, k] * matrix[j, m]
            entries.append(entry if k == m else entry + matrix[i, m] * matrix[j, k])
    return fmpq_mat(len(pairs), len(pairs), entries)


def _epoch_square(stages: list[list[Matrix]]) -> Matrix:
    """The matrix of M -> E[T M T'] over the stages of an epoch."""
    first, *others = [
        total([symmetric_square(each) for each in stage]) * fmpq(1, len(stage)) for stage in stages
    ]
    for other in others:
        first = other * first
    return first


def _by_squaring(oracle: Oracle, epochs: list[float], columns: tuple[Matrix, Matrix]) -> list[Values]:
    """Many epochs: each column by itself, as a homogeneous map on the second moments of (state, 1)."""
    setting, d, truth = oracle.setting, oracle.maps.dimension, oracle.setting.beta_star
    assert truth is not None
    finite = [int(epoch) for epoch in epochs if not math.isinf(epoch)]
    systems = []
    for number in range(columns[0].ncols()):
        state = exact.part(columns[0], range(d), [number])
        inputs = exact.part(columns[1], range(setting.n), [number])
        bottom = fmpq_mat(1, d + 1, [exact.ZERO] * d + [exact.ONE])
        stages = [
            [exact.above(exact.beside(each.A, each.N * inputs), bottom) for each in stage]
            for stage in oracle.maps.alternatives(0, 0)
        ]
        square = _epoch_square(stages)
        whole = [*state.entries(), exact.ONE]
        start = fmpq_mat(square.nrows(), 1, [whole[i] * whole[j] for i, j in _pairs(d + 1)])
        systems.append((LinearMap(square, no_inputs(square.nrows(), 1)[0], square), start))

    nothing = no_inputs(0, 1)[1]

    def risk(each: list[arb_mat]) -> Values:
        sigma = setting.sigma
        summed = arb(0)
        for number, moments in enumerate(each):
            shift = truth if number == 0 else exact.zeros(setting.p, 1)
            for place, (i, j) in enumerate(_pairs(d + 1)):
                if i < setting.p and j < setting.p:
                    summed += moments[place, 0] * arb(sigma[i, j]) * (1 if i == j else 2)
                elif i < setting.p and j == d:
                    summed -= 2 * moments[place, 0] * arb((sigma * shift)[i, 0])
                elif i == d:
                    summed += moments[place, 0] * arb((shift.transpose() * sigma * shift)[0, 0])
        return [summed]

    def at(asked: list[int]) -> list[Values]:
        def compute() -> list[Values]:
            each = [powers(once, start, nothing, asked) for once, start in systems]
            return [risk(list(moments)) for moments in zip(*each, strict=True)]

        return certified(compute)

    known = dict(zip(finite, at(finite), strict=True))
    end: Values = []
    if math.inf in epochs:
        ends = [once.end(start, nothing) for once, start in systems]
        if all(one is not None for one in ends):
            end = certified(lambda: [risk([exact.real(one[0]) for one in ends if one is not None])])[0]
        else:
            late = at([LATE, LATE + 1])
            end = [settled(*pair) for pair in zip(*late, strict=True)]
    return [end if math.isinf(epoch) else known[int(epoch)] for epoch in epochs]


def mean_square(oracle: Oracle) -> LinearMap:
    """M -> E[A M A'] on symmetric matrices, over the row space of what is visited, or everywhere if penalised."""
    stages = [[oracle.maps.restricted(each.A) for each in stage] for stage in oracle.maps.alternatives(0, 0)]
    square = _epoch_square(stages)
    return LinearMap(square, no_inputs(square.nrows(), 1)[0], square)


def mean_square_size(oracle: Oracle) -> int:
    """How many second moments there are."""
    d = oracle.maps.dimension + 1
    return d * (d + 1) // 2


_PROBES = 4
_HALVINGS = 60


def is_stable(oracle: Oracle, step: Rational, of_squares: bool) -> bool:
    """Whether the mean, or the mean square, converges at a step."""
    at = Oracle(replace(oracle.setting, step=lambda epoch: step))
    if at.converges() is not True:
        return False
    if not (of_squares and at.is_random):
        return True
    return mean_square(at).shrinks() is True


def critical_step(oracle: Oracle, claimed: float, of_squares: bool, precision: float, seed: int) -> Value:
    """The claimed step, if stability ends there and holds at a few steps below; else where it ends."""
    if oracle.setting.penalty == 0 and not oracle.maps.visited.rank():
        return math.inf
    if not (math.isfinite(claimed) and claimed > 0):
        return arb(0)
    c, slack = exact.rational(claimed), exact.rational(precision)
    rng = random.Random(seed)
    for _ in range(_PROBES):
        probe = c * exact.rational(rng.random())
        if probe != 0 and not is_stable(oracle, probe, of_squares):
            return arb(_crossing(oracle, fmpq(0), probe, mean_square))
    low, high = c * (1 - slack), c * (1 + slack)
    if not is_stable(oracle, low, of_squares):
        return arb(_crossing(oracle, fmpq(0), low, mean_square))
    for _ in range(_HALVINGS):
        if not is_stable(oracle, high, of_squares):
            return arb(c) if high == c * (1 + slack) else arb(_crossing(oracle, low, high, of_squares))
        low, high = high, high + (high - c) * 2
    return math.inf


def _crossing(oracle: Oracle, low: Rational, high: Rational, of_squares: bool) -> Rational:
    """A step at which stability ends, between one where it holds and one where it does not."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if is_stable(oracle, middle, of_squares):
            low = middle
        else:
            high = middle
        if high - low <= high * fmpq(1, 10**10):
            break
    return (low + high) / 2
