"""Many small cases in one test, which reports all of those that fail: thousands of tests take long to collect."""

import functools
import inspect
import random
import traceback
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from typing import Any

import pytest


def for_all(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Check every case in one test; `names` and `cases` as in `pytest.mark.parametrize`, fixtures beside them.

    >>> @for_all("a, b", [(1, 1), (1, 2), (3, 4)])
    ... def test_pairs(a, b):
    ...     assert a == b, "they differ"
    >>> test_pairs()
    Traceback (most recent call last):
    Failed: 2 of 3 cases fail
    (1, 2), line 3: they differ
    (3, 4), line 3: they differ
    """
    wanted, known = [name.strip() for name in names.split(",")], list(cases)
    if not known:
        raise ValueError("there must be cases, or nothing is checked")

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(check)
        def test(**fixtures: Any) -> None:
            failed = []
            for case in known:
                values = (case,) if len(wanted) == 1 else case
                try:
                    check(**dict(zip(wanted, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
                    failed.append(f"{case!r}{_line(error, check)}: {kind}{error}")
            if failed:
                pytest.fail("\n".join([f"{len(failed)} of {len(known)} cases fail", *failed]), pytrace=False)

        signature = inspect.signature(check)
        rest = [value for name, value in signature.parameters.items() if name not in wanted]
        test.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return test

    return decorate


def _line(error: BaseException, check: Callable[..., None]) -> str:
    """Return where in the file of `check` an error left it; loops within loops say so themselves."""
    home = inspect.unwrap(check).__code__.co_filename
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == home]
    return f", line {frames[-1].lineno}" if frames else ""


def pairwise(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Cases in which every two values of different axes meet: far fewer than the product has, and always the same.

    >>> len(pairwise("abcd", "efgh", "ijkl", "mn")) <= 20, len(pairwise("ab", "cd"))
    (True, 4)
    """
    pool = list(product(*(range(len(axis)) for axis in axes)))
    random.Random(0).shuffle(pool)
    covered = {case: set(combinations(enumerate(case), 2)) for case in pool}
    missing, chosen = set().union(*covered.values()), []
    while missing:
        best = max(pool, key=lambda case: len(covered[case] & missing))
        missing -= covered[best]
        chosen.append(tuple(axis[place] for axis, place in zip(axes, best, strict=True)))
    return chosen
