"""docs/architecture.md describes the packages as they are."""

import re
from pathlib import Path

import pytest

from tests import traces

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("question", traces.QUESTIONS)
def test_the_traces_are_those_that_questions_leave(question):
    assert traces.drawn(question) in PAGE, "run python -m tests.traces, and put what it prints into the page"


def test_files_that_the_page_names_are_there():
    named = set(re.findall(r"`([\w/]+\.(?:py|md))`", PAGE))
    beside = (ROOT, ROOT / "src/reshuffle", ROOT / "docs")
    assert [name for name in named if not any((folder / name).exists() for folder in beside)] == []
    assert len(named) > 10
