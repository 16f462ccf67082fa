"""docs/architecture.md is about the house as it stands."""

import re
from pathlib import Path

import pytest

from tests import traces

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("question", traces.QUESTIONS)
def test_the_traces_are_those_that_questions_leave(question):
    assert traces.drawn(question) in PAGE, "run python -m tests.traces, and put what it prints into the page"


def test_every_module_in_the_table_is_there():
    named = set(re.findall(r"(\w+\.py)\b", PAGE.partition("## The rooms")[2]))
    found = {
        path.name for room in ("src", "tests", "benchmarks", "docs") for path in (ROOT / room).rglob("*.py")
    }
    assert named <= found
    assert len(named) > 100
