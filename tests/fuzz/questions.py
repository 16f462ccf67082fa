"""The library and the oracle are asked the same question, and their answers are laid out beside each other."""

import math
import re
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flint import arb

import reshuffle as rs
from reshuffle.epoch.select import NO_SOLUTION
from reshuffle.errors import UnsupportedError
from tests.fuzz.cases import Case
from tests.fuzz.judge import NEARLY_BEYOND, Group, Verdict, flat, judge, yes_or_no
from tests.oracles.exact import arithmetic as exact
from tests.oracles.exact import moments
from tests.oracles.exact.arithmetic import Value, Values, beyond_is_infinite, size
from tests.oracles.exact.oracle import Oracle
from tests.oracles.exact.setting import moved

_CANCELS = 1e-14
"""Relative to what is subtracted, the difference of which nothing is known."""


def _asked(case: Case) -> list[float]:
    return [float(epoch) if math.isinf(epoch) else epoch for epoch in _flat_list(case.options["epochs"])]


def _flat_list(epochs: Any) -> list[float]:
    if not isinstance(epochs, list):
        return [epochs]
    return [number for entry in epochs for number in _flat_list(entry)]


def _shape(case: Case, answer: Any, extra: tuple[int, ...] = ()) -> list[Group]:
    wanted = np.shape(np.array(case.options["epochs"], dtype=object)) + extra
    return [yes_or_no("shape", np.shape(answer) == wanted, True)]


def _largest(*columns: list[float] | None) -> float:
    return max(abs(entry) for column in columns if column for entry in column)


def _sizes(case: Case) -> tuple[float, float, float]:
    """The largest parameter that is given, the largest entry of Sigma, p."""
    problem = case.problem
    given = _largest(case.recipe.start, problem.beta_star, [0.0])
    return given, _largest(*problem.dense_sigma), problem.p


def _risk_floor(case: Case, risk: Values, parameters: float = 0.0, squared: float = 0.0) -> float:
    """What rounding leaves of a risk: of the parameters, and of `squared`, |b - beta_star|^2, times Sigma.

    Where Sigma all but vanishes in the direction of the error, e'Sigma e is a sum of terms that cancel.
    """
    given, sigma, p = _sizes(case)
    floor = _square_floor(size(risk[0]), _CANCELS * (given + parameters) * p * math.sqrt(sigma))
    return floor + 2.0**-52 * p * p * sigma * squared


def _unweighted(oracle: Oracle) -> Oracle:
    """The same with the identity for Sigma: a risk is the square of the parameters' errors."""
    p = oracle.setting.p
    identity = exact.matrix([[float(i == j) for j in range(p)] for i in range(p)])
    return Oracle(replace(oracle.setting, sigma=identity))


def _square_floor(square: float, rounding: float) -> float:
    """What a rounding of the root makes of its square."""
    if math.isinf(square):
        return 0.0
    return math.inf if rounding > 1e150 else rounding * (2 * math.sqrt(square) + rounding)


def _loss_floor(case: Case, loss: Values, parameters: Values) -> float:
    largest = max((size(entry) for entry in parameters), default=0.0)
    fitted = case.problem.p * _largest(*case.problem.X) * largest
    return _square_floor(size(loss[0]), _CANCELS * (fitted + _largest(case.problem.y)))


def iterate(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """The mean iterate, which is asked for together with its error."""
    answer, errors = answer[0], flat(answer[1])
    groups = _shape(case, answer, (case.problem.p,))
    rows = np.reshape(answer, (-1, case.problem.p))
    floor = _CANCELS * _largest(case.recipe.start, [0.0])
    rights = oracle.iterates(_asked(case))
    (early,) = oracle.iterates([1])
    for epoch, row, error, right in zip(_asked(case), rows, errors, rights, strict=True):
        # Where all that moves has grown out of sight, what stays is as well known as it was at first.
        grown = any(isinstance(entry, float) for entry in right)
        scale = (
            max((size(entry) for entry in early if not isinstance(entry, float)), default=0.0)
            if grown
            else 0.0
        )
        groups.append(Group(f"iterate({epoch})", flat(row), right, error, scale=scale, floor=floor))
    return groups


def training_loss(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """The loss at the mean iterate, known as well as the iterate is."""
    answer, errors = answer[0], flat(answer[1])
    asked, groups = _asked(case), _shape(case, answer)
    every = zip(asked, flat(answer), errors, oracle.losses(asked), oracle.iterates(asked), strict=True)
    for epoch, loss, error, right, parameters in every:
        floor = _loss_floor(case, right, parameters)
        groups.append(
            Group(f"training_loss({epoch})", [loss], right, _loss_error(case, error, right), floor=floor)
        )
    return groups


def _loss_error(case: Case, error: float, loss: Values) -> float:
    """What an error of the iterate makes of the loss |y - X b|^2 / (2n), at most."""
    fitted = error * math.sqrt(sum(entry * entry for row in case.problem.X for entry in row))
    residual = math.sqrt(2 * case.problem.n * size(loss[0])) if error else 0.0
    return fitted * (2 * residual + fitted) / (2 * case.problem.n)


def risk(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """Total, frozen, bias, cross, variance."""
    asked, groups = _asked(case), _shape(case, answer.total)
    if not asked:
        return groups
    names = ("total", "frozen", "bias", "cross", "variance")
    parts = [flat(getattr(answer, name)) for name in names]
    errors = flat(np.broadcast_to(answer.error, np.shape(answer.total)))
    for number, (epoch, right) in enumerate(zip(asked, oracle.risks(asked), strict=True)):
        actual = [part[number] for part in parts]
        if math.isinf(actual[0]):
            # The cross term is of no interest where the bias is infinite.
            actual[3], right = 0.0, [*right[:3], None, right[4]]
        groups.append(Group(f"risk({epoch})", actual, right, errors[number], floor=_risk_floor(case, right)))
    return groups


def expected_risk(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """Total and mean; the spread is their difference."""
    asked, groups = _asked(case), _shape(case, answer.total)
    if not asked:
        return groups
    given = bool(case.options.get("given_responses"))
    right = moments.expected_risks(oracle, asked, given)
    if np.isinf(answer.total).any():
        # Second moments are added up before Sigma weighs them: an answer is infinite where they are beyond.
        squares = moments.expected_risks(_unweighted(oracle), asked, given)
        right = [
            [math.inf if size(square[0]) > NEARLY_BEYOND and math.isinf(total) else values[0], *values[1:]]
            for values, square, total in zip(right, squares, flat(answer.total), strict=True)
        ]
    parameters = [0.0] * len(asked)
    if given:
        parameters = [max(size(entry) for entry in row) for row in oracle.iterates(asked)]
    every = zip(
        asked, flat(answer.total), flat(answer.mean), flat(answer.error), right, parameters, strict=True
    )
    for epoch, total, mean, error, values, largest in every:
        floor = _risk_floor(case, values, largest)
        groups.append(Group(f"expected_risk({epoch})", [total, mean], values, error, floor=floor))
    return groups


def limit(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """Whether there is one, where, and what it costs."""
    (right,), (loss,) = oracle.iterates([math.inf]), oracle.losses([math.inf])
    start = _CANCELS * _largest(case.recipe.start, [0.0])
    is_open = math.isinf(answer.error)
    groups = [
        yes_or_no("converges", answer.converges, None if is_open else oracle.converges()),
        Group("parameters", flat(answer.parameters), right, answer.error, floor=start),
        Group(
            "training_loss",
            [answer.training_loss],
            loss,
            _loss_error(case, answer.error, loss),
            floor=_loss_floor(case, loss, right),
        ),
    ]
    if answer.risk is not None:
        (values,) = oracle.risks([math.inf])
        error, floor = float(answer.risk.error), _risk_floor(case, values)
        groups.append(Group("risk", flat(answer.risk.total), values[:1], error, floor=floor))
    return groups


def compare_limit(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """The limit beside the minimum-norm solution."""
    (right,), shortest = oracle.iterates([math.inf]), oracle.minimum_norm()
    scale = max(size(entry) for entry in [*shortest, *right] if not isinstance(entry, float))
    scale = max(scale, _largest(case.recipe.start, [0.0]))
    over = oracle.setting.X.rank() == oracle.setting.n
    error = getattr(answer, "error", 0.0)
    return [
        yes_or_no("regime", answer.regime == "overparameterized", over),
        Group("minimum_norm", flat(answer.minimum_norm), shortest, scale=scale),
        # Both ends are known as well as they are determined, and so is what they differ by, be it nothing.
        Group("limit", flat(answer.difference + answer.minimum_norm), right, error, scale=scale),
        Group("distance", [answer.distance], [_length(flat(answer.difference))], scale=scale),
    ]


def _length(entries: list[float]) -> Value:
    if any(math.isinf(entry) for entry in entries):
        return math.inf
    return sum((arb(entry) ** 2 for entry in entries), arb(0)).sqrt()


def stability(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """Whether the mean converges, and at what rate; the first is open where the second may be one."""
    is_open = answer.error > 0 and abs(answer.rate - 1) <= answer.error
    return [
        yes_or_no("converges", answer.converges, None if is_open else oracle.converges()),
        Group("rate", [answer.rate], [beyond_is_infinite(oracle.rate())], answer.error, scale=1.0),
    ]


def mean_square_stability(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """Whether the mean square converges, and at what rate, with its bounds."""
    rate, converges = oracle.rate() ** 2, oracle.converges()
    if oracle.is_random:
        squared = moments.mean_square(oracle)
        rate = max(rate, squared.rate())
        shrinks = squared.shrinks()
        converges = False if shrinks is False else converges if shrinks else None
    low, high = answer.bounds
    enclosed = min(max(float(rate), low), high)
    right = beyond_is_infinite(rate)
    return [
        yes_or_no("converges", answer.converges, converges),
        Group("rate", [answer.rate], [right], error=high - low if high < math.inf else 0.0, scale=1.0),
        Group("bounds", [enclosed], [right], scale=1.0),
    ]


def best_epoch(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """The risk at the epoch that is named, and that no other that is tried has a smaller one."""
    others: list[float] = [*range(33), *[2**power for power in range(6, 40, 3)], math.inf]
    claimed: float = math.inf if math.isinf(answer.epoch) else int(answer.epoch)
    if case.problem.beta_star is None or case.problem.noise is None:
        (right,) = oracle.left_out([claimed])
        given = _largest(case.problem.y) + case.problem.p * _largest(*case.problem.X) * _sizes(case)[0]
        floor = _square_floor(size(right[0]), _CANCELS * given)
        return [
            yes_or_no("criterion", answer.criterion == "leave-one-out", True),
            Group("leave-one-out", [answer.risk], right, answer.risk_error, floor=floor),
        ]
    (right,) = oracle.risks([claimed])
    tried = [values[0] for values in oracle.risks(others)]
    known = [value for value in tried if value is not None and not isinstance(value, float)]
    error = answer.risk_error
    ((squared, *_),) = _unweighted(oracle).risks([claimed])
    floor = _risk_floor(case, right, squared=size(squared))
    groups = [Group("risk", [answer.risk], right[:1], error, floor=floor)]
    if known:
        lowest = min(known, key=lambda value: value.mid())
        reached = max(answer.risk - answer.error, float(lowest.mid()))
        groups.append(Group("lowest", [reached], [lowest], error, floor=_risk_floor(case, [lowest])))
    return groups


def critical_step(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """The end of stability, near to what was answered."""
    squares = bool(case.options.get("mean_square"))
    precision = 1e-5 if squares else 1e-8
    right = moments.critical_step(oracle, float(answer), squares, precision, seed=0)
    return [Group("critical_step", [float(answer)], [right], error=precision * abs(float(answer)))]


def frozen(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """The dimension of what never moves."""
    dimension = float(oracle.frozen_dimension)
    return [Group("dimension", [float(answer.dimension)], [arb(dimension)], is_discrete=True)]


def range_assumption(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """Whether Range(Xtilde') lies in Range(Z)."""
    return [yes_or_no("holds", answer.holds, oracle.range_holds)]


def Z(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """The sample cross-covariance of an epoch, known up to the method's error."""
    right = oracle.Z()
    # |v'(Z - right) v| <= error v'Z v.
    error = answer[1] * case.problem.p * max(map(size, right)) if answer[1] else 0.0
    return [Group("Z", flat(answer[0]), right, error)]


def simulate(oracle: Oracle, case: Case, answer: Any) -> list[Group]:
    """The mean iterate of real runs, within eight standard errors."""
    means = np.reshape(answer.iterate.mean, (-1, case.problem.p))
    errors = np.reshape(answer.iterate.standard_error, means.shape)
    rights = oracle.iterates(_asked(case))
    floor = _CANCELS * _largest(case.recipe.start, [0.0])
    return [
        Group(f"simulate[{j}]", [float(mean[j])], [right[j]], error=8 / 3 * float(error[j]), floor=floor)
        for mean, error, right in zip(means, errors, rights, strict=True)
        for j in range(case.problem.p)
    ]


COMPARISONS: dict[str, Callable[[Oracle, Case, Any], list[Group]]] = {
    function.__name__: function
    for function in (
        iterate, training_loss, risk, expected_risk, limit, compare_limit, stability,
        mean_square_stability, best_epoch, critical_step, frozen, range_assumption, Z, simulate,
    )
}  # fmt: skip


FAILURES = ("wrong", "nan", "warning", "crash", "hang", "undecided")
HANGS_AFTER = 20
"""Seconds of processor time: what else the machine does is no hang."""
_MOVED = 12
_WITH_ERROR = ("iterate", "training_loss")
_CLEAR = (
    ValueError,
    TypeError,
    OverflowError,
    rs.ArgumentError,
    rs.BudgetError,
    rs.MissingTruthError,
    rs.RangeError,
)
_ARGUMENTS = (
    "X", "y", "beta_star", "covariance", "noise", "problem", "scheme", "step", "alpha", "start", "penalty",
    "momentum", "method", "rtol", "budget", "seed", "epochs", "batches", "batch_size", "drop_last", "order", "runs",
)  # fmt: skip


class TooLongError(BaseException):
    """Raised by the alarm; no library catches it by accident."""


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Interrupt what takes more processor time."""

    def ring(number: int, frame: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def answer(case: Case) -> Any:
    """The library's answer."""
    problem, scheme = case.problem.built(), getattr(rs, case.scheme.name)(**case.scheme.arguments)
    if case.question == "critical_step":
        words = {"penalty": case.recipe.penalty, "momentum": case.recipe.momentum}
        return rs.critical_step(problem, scheme, **{"mean_square": False, **words, **case.options})
    if case.question == "simulate":
        words = case.recipe.keywords()
        del words["method"]
        return rs.simulate(problem, scheme, **words, **case.options)
    run = rs.descend(problem, scheme, **case.recipe.keywords())
    if case.question in ("frozen", "range_assumption"):
        return getattr(run, case.question)
    if case.question == "Z":
        return run.epoch.Z, run.epoch.error
    found = getattr(run, case.question)(**case.options)
    # The error of an iterate is a question of its own.
    return (found, run.iterate_error(case.options["epochs"])) if case.question in _WITH_ERROR else found


def ask(case: Case) -> Verdict:
    """Put one question and judge the answer."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", rs.AccuracyWarning)
        try:
            with at_most(HANGS_AFTER):
                given = answer(case)
        except TooLongError:
            return Verdict("hang", f"more than {HANGS_AFTER} s")
        except Exception as error:
            return _error(error)
    try:
        with at_most(3 * HANGS_AFTER):
            verdict = compare(case, given)
    except TooLongError:
        verdict = Verdict("undecided", "the oracle took too long")
    except Exception:
        verdict = Verdict("undecided", "the oracle failed: " + traceback.format_exc())
    if caught and verdict.kind.startswith("right"):
        first = caught[0]
        return Verdict(
            "warning", f"{first.category.__name__}: {first.message} ({first.filename}:{first.lineno})"
        )
    return verdict


def compare(case: Case, given: Any) -> Verdict:
    """Judge an answer of the library to a case."""
    setting = case.setting()
    comparison = COMPARISONS[case.question]
    groups = comparison(Oracle(setting), case, given)

    def again() -> Iterator[list[Group]]:
        for number in range(_MOVED):
            yield comparison(Oracle(moved(setting, number)), case, given)

    return judge(groups, again)


def _error(error: Exception) -> Verdict:
    told = f"{type(error).__name__}: {error}"
    place = traceback.extract_tb(error.__traceback__)[-1]
    # method="cavity" is drawn at steps of any size, and its equation has a solution only at some.
    is_clear = type(error) in _CLEAR or (type(error) is UnsupportedError and NO_SOLUTION in str(error))
    is_ours = is_clear and Path(rs.__file__).parent in Path(place.filename).parents
    if is_ours and set(re.findall(r"\w+", str(error))) & set(_ARGUMENTS):
        return Verdict("clear error", told)
    return Verdict("crash", f"{told} ({place.filename}:{place.lineno})")
