"""The library and the oracle are asked the same question, and their answers are laid out beside each other."""

import math
import re
import signal
import traceback
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
from flint import arb

import reshuffle as rs
from reshuffle.epoch.select import NO_SOLUTION
from reshuffle.errors import UnsupportedError
from tests.fuzz.judge import NEARLY_BEYOND, Group, Verdict, flat, judge, yes_or_no
from tests.oracles.exact_runs import Oracle, beyond_is_infinite, identity, moved, size

_CANCELS = 1e-14
"""Relative to what is subtracted, the difference of which nothing is known."""


def _asked(epochs):
    return [one for entry in epochs for one in _asked(entry)] if isinstance(epochs, list) else [epochs]


def _shape(case, answer, extra=()):
    wanted = np.shape(np.array(case.options["epochs"], dtype=object)) + extra
    return [yes_or_no("shape", np.shape(answer) == wanted, True)]


def _largest(*columns):
    return max((abs(entry) for column in columns if column is not None for entry in column), default=0.0)


def _risk_floor(case, risk, parameters=0.0, squared=0.0):
    """What rounding leaves of a risk: of the parameters, and of `squared`, |b - beta_star|^2, times Sigma.

    Where Sigma all but vanishes in the direction of the error, e'Sigma e is a sum of terms that cancel.
    """
    if math.isinf(size(risk[0])):
        return 0.0
    given, sigma = _largest(case.recipe["start"], case.beta_star), float(np.abs(case.dense_sigma).max())
    floor = _square_floor(size(risk[0]), _CANCELS * (given + parameters) * case.p * math.sqrt(sigma))
    return floor + 2.0**-52 * case.p * case.p * sigma * squared


def _unweighted(oracle):
    """The same with the identity for Sigma: a risk is the square of the parameters' errors."""
    return Oracle(replace(oracle.setting, sigma=identity(oracle.setting.p)))


def _square_floor(square, rounding):
    """What a rounding of the root makes of its square."""
    if math.isinf(square):
        return 0.0
    return math.inf if rounding > 1e150 else rounding * (2 * math.sqrt(square) + rounding)


def _loss(case, label, answer, error, right, parameters):
    """The loss |y - X b|^2 / (2n) at a b that is known to an error, and to the rounding of its start."""
    sizes = [*map(size, parameters), _largest(case.recipe["start"])]
    fitted = case.p * _largest(*case.X) * max(sizes)
    floor = _square_floor(size(right[0]), _CANCELS * (fitted + _largest(case.y)))
    off = error * math.sqrt(sum(entry * entry for row in case.X for entry in row))
    residual = math.sqrt(2 * case.n * size(right[0])) if error else 0.0
    return Group(label, [answer], right, off * (2 * residual + off) / (2 * case.n), floor=floor)


def iterate(oracle, case, answer):
    """The mean iterate, which is asked for together with its error."""
    (answer, errors), asked, p = answer, _asked(case.options["epochs"]), case.p
    groups, floor = _shape(case, answer, (p,)), _CANCELS * _largest(case.recipe["start"])
    (early,) = oracle.iterates([1])
    every = zip(asked, np.reshape(answer, (-1, p)), flat(errors), oracle.iterates(asked), strict=True)
    for epoch, row, error, right in every:
        # Where all that moves has grown out of sight, what stays is as well known as it was at first.
        grown = any(isinstance(entry, float) for entry in right)
        scale = max((size(entry) for entry in early if grown and not isinstance(entry, float)), default=0.0)
        groups.append(Group(f"iterate({epoch})", flat(row), right, error, scale=scale, floor=floor))
    return groups


def training_loss(oracle, case, answer):
    """The loss at the mean iterate, known as well as the iterate is."""
    (answer, errors), asked = answer, _asked(case.options["epochs"])
    every = zip(asked, flat(answer), flat(errors), oracle.losses(asked), oracle.iterates(asked), strict=True)
    return _shape(case, answer) + [_loss(case, f"training_loss({epoch})", *one) for epoch, *one in every]


def risk(oracle, case, answer):
    """Total, frozen, bias, cross, variance."""
    asked, groups = _asked(case.options["epochs"]), _shape(case, answer.total)
    if not asked:
        return groups
    names = ("total", "frozen", "bias", "cross", "variance")
    parts = np.transpose([flat(getattr(answer, name)) for name in names]).tolist()
    errors = flat(np.broadcast_to(answer.error, np.shape(answer.total)))
    for epoch, actual, error, right in zip(asked, parts, errors, oracle.risks(asked), strict=True):
        if math.isinf(actual[0]):
            # The cross term is of no interest where the bias is infinite.
            actual[3], right = 0.0, [*right[:3], None, right[4]]
        groups.append(Group(f"risk({epoch})", actual, right, error, floor=_risk_floor(case, right)))
    return groups


def expected_risk(oracle, case, answer):
    """Total and mean; the spread is their difference."""
    asked, groups = _asked(case.options["epochs"]), _shape(case, answer.total)
    if not asked:
        return groups
    given = "given_responses" in case.options
    parameters = [max(map(size, row)) for row in oracle.iterates(asked)] if given else [0.0] * len(asked)
    found = np.transpose([flat(part) for part in (answer.total, answer.mean, answer.error)]).tolist()
    rights = oracle.expected_risks(asked, given)
    if np.isinf(answer.total).any():
        # Second moments are added up before Sigma weighs them: an answer is infinite where they are beyond.
        squares = _unweighted(oracle).expected_risks(asked, given)
        rights = [
            [math.inf if size(square[0]) > NEARLY_BEYOND and math.isinf(total) else values[0], *values[1:]]
            for values, square, (total, *_) in zip(rights, squares, found, strict=True)
        ]
    begin = _largest(case.recipe["start"], case.beta_star) ** 2 if case.recipe["momentum"] else 0.0
    every = zip(asked, found, rights, parameters, strict=True)
    for epoch, (total, mean, error), values, largest in every:
        # Powers with momentum are those of I - A: what decays is known relative to where it began.
        floor = _risk_floor(case, values, largest, begin)
        groups.append(Group(f"expected_risk({epoch})", [total, mean], values, error, floor=floor))
    return groups


def limit(oracle, case, answer):
    """Whether there is one, where, and what it costs."""
    (right,), (loss,) = oracle.iterates([math.inf]), oracle.losses([math.inf])
    start = _CANCELS * _largest(case.recipe["start"])
    groups = [
        yes_or_no("converges", answer.converges, None if math.isinf(answer.error) else oracle.converges()),
        Group("parameters", flat(answer.parameters), right, answer.error, floor=start),
        _loss(case, "training_loss", answer.training_loss, answer.error, loss, right),
    ]
    if answer.risk is not None:
        (values,) = oracle.risks([math.inf])
        error, floor = float(answer.risk.error), _risk_floor(case, values)
        groups.append(Group("risk", flat(answer.risk.total), values[:1], error, floor=floor))
    return groups


def compare_limit(oracle, case, answer):
    """The limit beside the minimum-norm solution."""
    (right,), shortest = oracle.iterates([math.inf]), oracle.minimum_norm()
    sizes = [size(entry) for entry in [*shortest, *right] if not isinstance(entry, float)]
    scale, apart = max(*sizes, _largest(case.recipe["start"])), flat(answer.difference)
    length = (
        sum((arb(entry) ** 2 for entry in apart), arb(0)).sqrt() if np.isfinite(apart).all() else math.inf
    )
    over = oracle.setting.X.rank() == oracle.setting.n
    return [
        yes_or_no("regime", answer.regime == "overparameterized", over),
        Group("minimum_norm", flat(answer.minimum_norm), shortest, scale=scale),
        # Both ends are known as well as they are determined, and so is what they differ by, be it nothing.
        Group("limit", flat(answer.difference + answer.minimum_norm), right, answer.error, scale=scale),
        Group("distance", [answer.distance], [length], scale=scale),
    ]


def stability(oracle, case, answer):
    """Whether the mean converges, and at what rate; the first is open where the second may be one."""
    is_open = answer.error > 0 and abs(answer.rate - 1) <= answer.error
    return [
        yes_or_no("converges", answer.converges, None if is_open else oracle.converges()),
        Group("rate", [answer.rate], [beyond_is_infinite(oracle.rate())], answer.error, scale=1.0),
    ]


def mean_square_stability(oracle, case, answer):
    """Whether the mean square converges, and at what rate, with its bounds."""
    rate, converges = oracle.rate() ** 2, oracle.converges()
    if oracle.is_random:
        squared = oracle.mean_square()
        rate, shrinks = max(rate, squared.rate()), squared.shrinks()
        converges = False if shrinks is False else converges if shrinks else None
    low, high = answer.bounds
    right, error = [beyond_is_infinite(rate)], high - low if high < math.inf else 0.0
    return [
        yes_or_no("converges", answer.converges, converges),
        Group("rate", [answer.rate], right, error, scale=1.0),
        Group("bounds", [min(max(float(rate), low), high)], right, scale=1.0),
    ]


def best_epoch(oracle, case, answer):
    """The risk at the epoch that is named, and that no other that is tried has a smaller one."""
    claimed = math.inf if math.isinf(answer.epoch) else int(answer.epoch)
    if case.beta_star is None or case.noise is None:
        (right,) = oracle.left_out([claimed])
        given = _largest(case.recipe["start"], case.beta_star)
        given = _largest(case.y) + case.p * _largest(*case.X) * given
        # What is left of a row with the others is divided by what they leave of it: that enlarges the rounding.
        left, sizes, _ = np.linalg.svd(np.array(case.X), full_matrices=False)
        leverages = np.square(left[:, sizes > 1e-12 * sizes.max(initial=0.0)]).sum(axis=1)
        given /= max(1 - float(leverages.max(initial=0.0)), 1e-4)
        floor = _square_floor(size(right[0]), _CANCELS * given)
        return [
            yes_or_no("criterion", answer.criterion == "leave-one-out", True),
            Group("leave-one-out", [answer.risk], right, answer.risk_error, floor=floor),
        ]
    (right,), error = oracle.risks([claimed]), answer.risk_error
    tried = [
        values[0] for values in oracle.risks([*range(33), *(2**power for power in range(6, 40, 3)), math.inf])
    ]
    known = [value for value in tried if isinstance(value, arb)]
    ((squared, *_),) = _unweighted(oracle).risks([claimed])
    floor = _risk_floor(case, right, squared=size(squared))
    groups = [Group("risk", [answer.risk], right[:1], error, floor=floor)]
    if known:
        lowest = min(known, key=lambda value: value.mid())
        reached = max(answer.risk - answer.error, float(lowest.mid()))
        groups.append(Group("lowest", [reached], [lowest], error, floor=_risk_floor(case, [lowest])))
    return groups


def critical_step(oracle, case, answer):
    """The end of stability, near to what was answered."""
    squares, claimed = "mean_square" in case.options, float(answer)
    precision = 1e-5 if squares else 1e-8
    right = oracle.critical_step(claimed, squares, precision)
    return [Group("critical_step", [claimed], [right], error=precision * abs(claimed))]


def frozen(oracle, case, answer):
    """The dimension of what never moves."""
    return [Group("dimension", [float(answer.dimension)], [arb(oracle.frozen_dimension)], is_discrete=True)]


def range_assumption(oracle, case, answer):
    """Whether Range(Xtilde') lies in Range(Z)."""
    return [yes_or_no("holds", answer.holds, oracle.range_holds)]


def Z(oracle, case, answer):
    """The sample cross-covariance of an epoch, known up to the method's error."""
    (answer, error), right = answer, oracle.Z()
    # |v'(Z - right) v| <= error v'Z v.
    return [Group("Z", flat(answer), right, error * case.p * max(map(size, right)) if error else 0.0)]


def simulate(oracle, case, answer):
    """The mean iterate of real runs, within eight standard errors."""
    floor = _CANCELS * _largest(case.recipe["start"])
    found = zip(flat(answer.iterate.mean), flat(answer.iterate.standard_error), strict=True)
    rights = [entry for right in oracle.iterates(_asked(case.options["epochs"])) for entry in right]
    return [
        Group("simulate", [mean], [right], error=8 / 3 * error, floor=floor)
        for (mean, error), right in zip(found, rights, strict=True)
    ]


COMPARISONS = {
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
_CLEAR = (
    ValueError, TypeError, OverflowError, rs.ArgumentError, rs.BudgetError, rs.MissingTruthError, rs.RangeError,
)  # fmt: skip
_ARGUMENTS = (
    "X", "y", "beta_star", "covariance", "noise", "problem", "scheme", "step", "alpha", "start", "penalty",
    "momentum", "method", "rtol", "budget", "seed", "epochs", "batches", "batch_size", "drop_last", "order", "runs",
)  # fmt: skip


class TooLongError(BaseException):
    """Raised by the alarm; no library catches it by accident."""


@contextmanager
def at_most(seconds):
    """Interrupt what takes more processor time."""

    def ring(number, frame):
        raise TooLongError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def answer(case):
    """The library's answer."""
    problem, scheme = case.problem(), getattr(rs, case.scheme.name)(**case.scheme.arguments)
    recipe, question = case.recipe, case.question
    if question == "critical_step":
        words = {name: recipe[name] for name in ("penalty", "momentum")}
        return rs.critical_step(problem, scheme, **{"mean_square": False, **words, **case.options})
    if question == "simulate":
        words = {name: value for name, value in recipe.items() if name != "method"}
        return rs.simulate(problem, scheme, **words, **case.options)
    run = rs.descend(problem, scheme, **recipe)
    if question in ("frozen", "range_assumption"):
        return getattr(run, question)
    if question == "Z":
        return run.epoch.Z, run.epoch.error
    found = getattr(run, question)(**case.options)
    # The error of an iterate is a question of its own.
    with_error = question in ("iterate", "training_loss")
    return (found, run.iterate_error(case.options["epochs"])) if with_error else found


def ask(case):
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
        said = f"{first.category.__name__}: {first.message} ({first.filename}:{first.lineno})"
        return Verdict("warning", said)
    return verdict


def compare(case, given):
    """Judge an answer of the library to a case."""
    exact, comparison = case.setting(), COMPARISONS[case.question]
    shaken = (comparison(Oracle(moved(exact, number)), case, given) for number in range(_MOVED))
    return judge(comparison(Oracle(exact), case, given), lambda: shaken)


def _error(error):
    told, place = f"{type(error).__name__}: {error}", traceback.extract_tb(error.__traceback__)[-1]
    # method="cavity" is drawn at steps of any size, and its equation has a solution only at some.
    is_clear = type(error) in _CLEAR or (type(error) is UnsupportedError and NO_SOLUTION in str(error))
    is_ours = is_clear and Path(rs.__file__).parent in Path(place.filename).parents
    if is_ours and set(re.findall(r"\w+", str(error))) & set(_ARGUMENTS):
        return Verdict("clear error", told)
    return Verdict("crash", f"{told} ({place.filename}:{place.lineno})")
