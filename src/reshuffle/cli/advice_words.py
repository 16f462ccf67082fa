"""The advice as a person would say it, and what other choices would do, as a table."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reshuffle.cli.advice_data import AdviceData
from reshuffle.cli.output import number, uncertain
from reshuffle.cli.tables import shown

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle._arrays import FloatArray
    from reshuffle.planning.kept_promise import KeptPromise

_EQUAL = 1e-3
"""Shares of the test error that nobody would notice; the plan takes them for equal, too."""
_WORTH_IT = 0.01
"""Shares of the test error for which one might leave training alone."""
_RUNNERS_UP = 3


@dataclass(frozen=True, eq=False)
class Advice:
    """A plan for the data of a file.

    Attributes
    ----------
    data : AdviceData
    plan : Plan
        Targets are divided by `units` in it.
    units : (t,)
        1 for one target, the standard deviations of several, so that all of them count.
    deviations : (t,)
        Standard deviations of the targets.
    of_targets, errors_of_targets : (t,) or None
        The expected test error of each of several targets, in units of its own squared, and its standard error.
    promise : KeptPromise or None
        How the recommendation does on held-out rows.
    test : str or None
        Where these are.
    seed : int
    """

    data: AdviceData
    plan: "rs.Plan"
    units: "FloatArray"
    deviations: "FloatArray"
    of_targets: "FloatArray | None"
    errors_of_targets: "FloatArray | None"
    promise: "KeptPromise | None" = None
    test: str | None = None
    seed: int = 0

    @property
    def is_single(self) -> bool:
        """Whether there is one target, in whose units everything is told."""
        return len(self.units) == 1


@dataclass(frozen=True)
class Choice:
    """A way to train, and what is expected of it; without batches it is no training at all."""

    name: str
    batch_size: int | None
    step: float | None
    epochs: int | None
    test_error: float
    momentum: float = 0.0
    penalty: float = 0.0


def against(value: float, base: float) -> str:
    """By how much a test error is above another, in words or per cent.

    >>> against(2.0, 1.9999), against(3.0, 2.0), against(math.inf, 1.0), against(500.0, 1.0)
    ('the same', '+50.0%', 'diverges', '500 times')
    """
    if not math.isfinite(value):
        return "diverges"
    if abs(value - base) <= _EQUAL * base or base <= 0:
        return "the same" if abs(value - base) <= _EQUAL * abs(base) else "worse"
    share = value / base - 1
    return f"{100 * share:+.1f}%" if share < 10 else f"{number(value / base, 3)} times"


def root(mean_square: float, error: float) -> tuple[float, float]:
    """The root of a mean square, and the error of that."""
    value = math.sqrt(mean_square)
    return value, error / (2 * value) if value else 0.0


def recommendation(advice: Advice) -> str:
    """What to do, and what to expect, in one sentence."""
    best = advice.plan.best
    extras = f" momentum {best.momentum:g}," * bool(best.momentum)
    extras += f" weight decay {number(best.penalty, 3)}," * bool(best.penalty)
    rows, plural = batches(advice.plan, best.batch_size), "s" * (best.epochs != 1)
    return (
        f"Train with {rows}, learning rate {number(best.step, 3)},{extras} for {best.epochs} epoch{plural}; "
        f"expect {_expectation(advice)}."
    )


def batches(plan: "rs.Plan", size: int) -> str:
    """How many rows are visited at a time."""
    return "all rows at once" if size == plan.run.problem.n else f"batches of {size}"


def _expectation(advice: Advice) -> str:
    best = advice.plan.best
    square = uncertain(best.test_error, best.standard_error)
    if advice.is_single:
        name, deviation = shown(advice.data.targets[0]), float(advice.deviations[0])
        return (
            f"a test error of {uncertain(*root(best.test_error, best.standard_error))} (RMSE; {name} has a "
            f"standard deviation of {number(deviation, 4)}), a mean square of {square}"
        )
    words = f"{square} of the variance of the targets to be left as test error"
    if advice.of_targets is None or advice.errors_of_targets is None:
        return words
    each = [
        f"{shown(name)} {uncertain(*root(float(square), float(error)))}"
        for name, square, error in zip(
            advice.data.targets, advice.of_targets, advice.errors_of_targets, strict=True
        )
    ]
    return f"{words} (RMSE: {', '.join(each)})"


def remarks(advice: Advice) -> list[str]:
    """The data, the recommendation, how far one may go, and what needs no training; a line each."""
    plan, best = advice.plan, advice.plan.best
    safe = best.step / best.share
    simple = [
        f"{fit.name} {_value(advice, fit.mean_square)} ({against(fit.mean_square, best.test_error)})"
        for fit in (plan.least_squares, plan.ridge)
    ]
    lines = [
        advice.data.describe(),
        recommendation(advice),
        f"The largest safe learning rate for such batches is {number(safe, 3)}; this one is "
        f"{number(best.share, 3)} of it. Without training: {', '.join(simple)}.",
    ]
    simplest = min((plan.least_squares, plan.ridge), key=lambda fit: fit.mean_square)
    if simplest.mean_square < (1 - _WORTH_IT) * best.test_error:
        lines.append(f"Here {simplest.name} does better than training.")
    variance = float(advice.deviations[0]) ** 2 if advice.is_single else 1.0
    if best.test_error >= variance:
        lines.append("That is no better than always predicting the mean.")
    return lines + ([_kept(advice, advice.promise)] if advice.promise is not None else [])


def _value(advice: Advice, mean_square: float) -> str:
    """A test error for people: its root in units of a single target, else the share of the variance."""
    return number(math.sqrt(mean_square) if advice.is_single else mean_square, 4)


def _kept(advice: Advice, promise: "KeptPromise") -> str:
    pairs = (
        (promise.mean_run, promise.standard_error),
        (promise.promised, promise.promised_error),
    )
    achieved, expected = (
        uncertain(*(root(*pair) if advice.is_single else pair))
        if math.isfinite(pair[1])
        else _value(advice, pair[0])
        for pair in pairs
    )
    word = "which is within" if promise.is_kept else "which is not within"
    return (
        f"On the {promise.rows} rows of {advice.test} the mean over all orders really has {achieved}, and one run "
        f"that was trained (seed {advice.seed}) {_value(advice, promise.single_run)}; promised was {expected}, "
        f"{word} two standard errors."
    )


def choices(advice: Advice) -> list[Choice]:
    """The recommendation, its runners-up, wrong choices, and what needs no training."""
    plan, best = advice.plan, advice.plan.best
    found = [
        Choice(name, one.batch_size, one.step, one.epochs, one.test_error, one.momentum, one.penalty)
        for name, one in (
            ("recommended", best),
            *(("runner-up", other) for other in plan.runners_up[:_RUNNERS_UP]),
        )
    ]
    found += _wrong(advice)
    fits = (plan.least_squares, plan.ridge)
    return found + [Choice(fit.name, None, None, None, fit.mean_square) for fit in fits]


def _wrong(advice: Advice) -> list[Choice]:
    """The recommendation with one of its numbers far off, as far as the plan has looked."""
    import numpy as np

    plan, best = advice.plan, advice.plan.best
    size, share, when = places(plan)
    errors, found = expected_errors(plan)[size], []
    for name, other in (("rate too large", len(plan.shares) - 1), ("rate too small", max(share - 3, 0))):
        if other != share:
            step = best.step * float(plan.shares[other]) / best.share
            error = float(errors[other, when])
            found.append(Choice(name, best.batch_size, step, best.epochs, error, best.momentum, best.penalty))
    for name, wanted in (("stopped early", best.epochs / 4), ("trained too long", 10 * best.epochs)):
        other = int(np.argmin(np.abs(plan.epochs - wanted)))
        if other != when:
            epochs = int(plan.epochs[other])
            error = float(errors[share, other])
            found.append(Choice(name, best.batch_size, best.step, epochs, error, best.momentum, best.penalty))
    return found


def places(plan: "rs.Plan") -> tuple[int, int, int]:
    """Where the best recipe stands among the batch sizes, the shares of the safe step, and the epochs."""
    import numpy as np

    best = plan.best
    pairs = ((plan.batch_sizes, best.batch_size), (plan.shares, best.share), (plan.epochs, best.epochs))
    size, share, when = (int(np.argmin(np.abs(values - value))) for values, value in pairs)
    return size, share, when


def expected_errors(plan: "rs.Plan") -> "FloatArray":
    """Of all batch sizes, steps and epochs under the penalty of the best recipe, (B, S, E)."""
    import numpy as np

    place = int(np.argmin(np.abs(plan.penalties - plan.best.penalty)))
    return np.asarray(plan.mean_squares[place] + plan.spreads[place])
