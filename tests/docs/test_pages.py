"""Every page of the site can be reached from its first one; architecture.md is true of the packages."""

import re
from pathlib import Path

import pytest

from tests import traces

DOCS = Path(__file__).parents[2] / "docs"
MADE = {"gallery/index"}
"""What the build makes."""


def listed(page):
    """The pages that the tables of contents of a page list, by their paths without a suffix."""
    blocks = re.findall(
        r"^```{toctree}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    names = [line for block in blocks for line in block.splitlines() if line and not line.startswith(":")]
    return [str((page.parent / name).relative_to(DOCS)) for name in names]


def test_every_page_is_in_one_table_of_contents():
    pages = {str(path.relative_to(DOCS).with_suffix("")): path for path in DOCS.rglob("*.md")}
    found = [name for path in pages.values() for name in listed(path)]
    assert sorted(found) == sorted({*pages, *MADE} - {"index"})


def test_every_page_begins_with_its_only_title():
    for path in DOCS.rglob("*.md"):
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        assert text.startswith("# "), path
        assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1, path


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
