"""Random questions for as long as you like: `make fuzz EXAMPLES=5000`. A failure is shrunk and printed as a `Case`.

It is no part of the suite, whose questions are those of fixed seeds (test_fuzz.py).
"""

import pytest
from hypothesis import assume, event, given, note
from hypothesis import strategies as st

from tests.fuzz.cases import drawn, makes_sense
from tests.fuzz.questions import FAILURES, ask


@pytest.mark.filterwarnings("default")
@given(st.randoms(use_true_random=False))
def test_random_questions(rng):
    case = drawn(rng)
    assume(makes_sense(case))
    note(repr(case))
    verdict = ask(case)
    event(f"{case.question}: {verdict.kind}")
    assert verdict.kind not in FAILURES, f"{verdict.kind}: {verdict.detail}"
