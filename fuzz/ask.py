"""One input from beginning to end: the library is asked, the oracle is asked, the two are compared."""

import re
import signal
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import reshuffle as rs
from fuzz import setting as settings
from fuzz.case import IMPORTS, Case
from fuzz.groups import Group
from fuzz.judge import Verdict, judge
from fuzz.oracle import Oracle
from fuzz.questions import COMPARISONS

HANGS_AFTER = 20
"""Seconds of processor time: what else the machine does is no hang."""
_MOVED = 12
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
    """What the three lines of the case print, as an object."""
    names: dict[str, Any] = {}
    exec(IMPORTS, names)
    exec(case.lines()[1], names)
    return eval(case.expression(), names)


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
    exact = settings.setting(case)
    comparison = COMPARISONS[case.question]
    groups = comparison(Oracle(exact), case, given)

    def again() -> Iterator[list[Group]]:
        for number in range(_MOVED):
            yield comparison(Oracle(settings.moved(exact, 1000 * case.seed + number)), case, given)

    return judge(groups, again)


def _error(error: Exception) -> Verdict:
    told = f"{type(error).__name__}: {error}"
    place = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = type(error) in _CLEAR and Path(rs.__file__).parent in Path(place.filename).parents
    if is_ours and set(re.findall(r"\w+", str(error))) & set(_ARGUMENTS):
        return Verdict("clear error", told)
    return Verdict("crash", f"{told} ({place.filename}:{place.lineno})")
