"""docs/architecture.md is about the house as it stands."""

import re
from pathlib import Path

import pytest

from tests import rooms, traces

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("question", traces.QUESTIONS)
def test_the_traces_are_those_that_questions_leave(question):
    assert traces.drawn(question) in PAGE, "run python -m tests.traces, and put what it prints into the page"


def test_every_module_is_in_the_tables_with_its_first_sentence():
    found, listed = rooms.tables(), rooms.listed()
    missing = [line for line in found if line not in listed]
    stale = [line for line in listed if line not in found]
    told = "\n".join(["missing:", *missing, "not so any more:", *stale])
    assert missing + stale == [], f"run python -m tests.rooms --write\n{told}"
    assert [line for line in listed if line] == [line for line in found if line], (
        "the rows are in another order"
    )


def test_every_module_has_one_row_of_its_own():
    modules = [path for path in rooms.PACKAGE.rglob("*.py") if "__pycache__" not in path.parts]
    rows = [line for line in rooms.listed() if line.startswith("| `")]
    introduced = [line for line in rooms.listed() if line.startswith("### `")]
    assert len(rows) + len(introduced) == len(modules)
    assert all(rooms.sentence(path).endswith(".") for path in modules)


def test_files_that_the_page_names_are_there():
    named = set(
        re.findall(r"`([\w/]+\.(?:py|md))`", PAGE.partition(rooms.BEGIN)[0] + PAGE.partition(rooms.END)[2])
    )
    beside = (ROOT, ROOT / "src/reshuffle", ROOT / "docs")
    assert [name for name in named if not any((room / name).exists() for room in beside)] == []
    assert len(named) > 10
