"""Every answer is the recorded one: exact ones to 1e-10, the others within the errors that they state."""

import pytest

from tests.golden import record
from tests.golden.cases import CASES
from tests.golden.record import Answer
from tests.looped import for_all

_RECORD = record.read()
_TOGETHER = 48
"""Cases that are one test: runs that share their maps stay together, and collecting is quick."""
_NAMES = list(CASES)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(_NAMES), _TOGETHER))
def test_answers_are_the_recorded_ones(first):
    names = _NAMES[first : first + _TOGETHER]
    found = {name: record.difference(_RECORD[name], record.answered(CASES[name])) for name in names}
    different = {name: words for name, words in found.items() if words}
    assert not different, "\n".join(f"{name}: {words}" for name, words in different.items())


def test_the_record_has_every_case_and_no_other():
    assert _RECORD.keys() == CASES.keys()
    assert sum("value" in answer for answer in _RECORD.values()) >= 600


@for_all(
    "old, new",
    [
        (Answer(1.0), Answer(1.0 + 1e-9)),
        (Answer(1.0), Answer(1.0, 0.1, "estimate")),
        (Answer([1.0, 2.0]), Answer([1.0, 2.0, 3.0])),
        (Answer(1.0), Answer(float("inf"))),
        (Answer(float("nan")), Answer(1.0)),
        (Answer(1.0, 0.01, "estimate"), Answer(1.03, 0.01, "estimate")),
        (Answer(1.0, 0.01, "estimate"), Answer(1.0, 0.5, "estimate")),
        (Answer([[1.0, 1e-6]], vector=1), Answer([[1.0, 2e-6]], vector=1)),
    ],
)
def test_another_answer_is_seen(old, new):
    assert record.difference(old.written(), new.written())


@for_all(
    "old, new",
    [
        (Answer(1.0), Answer(1.0 + 1e-11)),
        (Answer(float("inf")), Answer(float("inf"))),
        (Answer(1.0, 0.01, "estimate"), Answer(1.015, 0.01, "confidence 99%")),
        (Answer(1.0, 0.01, "estimate"), Answer(1.005)),
        (Answer([[1.0, 1e-16]], vector=1), Answer([[1.0, -1e-16]], vector=1)),
    ],
)
def test_the_same_answer_is_recognised(old, new):
    assert not record.difference(old.written(), new.written())
