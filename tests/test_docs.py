"""What the documentation points at exists."""

import importlib
import re
from pathlib import Path

import pytest

import paper
from tests.looped import for_all

ROOT = Path(__file__).parent.parent
PAPER = (ROOT / "docs" / "paper.md").read_text()
PAGES = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
WORKFLOWS = [str(path.relative_to(ROOT)) for path in (ROOT / ".github/workflows").glob("*.yml")]


def anchors(page):
    """The headings of a page, as links name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@for_all("name", sorted(set(re.findall(r"`((?:reshuffle|paper)\.[\w.]+)`", PAPER))))
def test_every_name_in_the_map_of_the_paper_can_be_imported(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            found = getattr(found, attribute)
        return
    pytest.fail(f"{name} does not exist")


@for_all("test", sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAPER))))
def test_every_test_in_the_map_of_the_paper_exists(test):
    path, name = test.split("::")
    assert f"def {name}(" in (ROOT / path).read_text()


@for_all("name", paper.FIGURES)
def test_every_figure_has_a_row_in_the_map_of_the_paper(name):
    rows = [line for line in PAPER.splitlines() if line.startswith("|") and f"`{name}`" in line]
    home = paper.FIGURES[name].make.__module__
    assert [row for row in rows if f"`{home}`" in row], (
        f"docs/paper.md needs a row with `{name}` and `{home}`"
    )


@for_all("page", PAGES)
def test_every_code_block_of_a_page_is_a_doctest(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    assert all(block.startswith(">>> ") for block in blocks)


def test_every_test_of_the_paper_is_in_the_map():
    for path in sorted((ROOT / "tests" / "paper").glob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE):
            if name not in {"test_risk_interval_is_for_two_batches", "test_the_regime_is_that_of_the_rank"}:
                assert f"{path.relative_to(ROOT)}::{name}" in PAPER, name


@for_all("page", [*PAGES, "CONTRIBUTING.md", "Makefile", *WORKFLOWS])
def test_every_file_that_a_page_or_a_workflow_names_exists(page):
    text = (ROOT / page).read_text()
    for name in re.findall(r"(?<![\w/.])(?:src|docs|tests|benchmarks)/[\w/.]*[\w/]", text):
        assert (ROOT / name).exists(), name


@for_all("page", PAGES)
def test_every_picture_page_and_heading_that_a_page_links_to_exists(page):
    path = ROOT / page
    text = re.sub(r"```.*?```|`[^`]*`", "", path.read_text(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        # The gallery is made with the site, which checks its links.
        if not link.startswith(("http", "gallery/")):
            name, _, anchor = link.partition("#")
            target = (path.parent / name) if name else path
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def test_every_picture_is_shown_on_a_page():
    shown = "".join((ROOT / page).read_text() for page in PAGES)
    assert [path.name for path in (ROOT / "docs/pictures").iterdir() if path.name not in shown] == []


GUIDES = (ROOT / "docs/guides.md").read_text()
QUESTIONS = re.findall(r"^### (.*?\?)\n(.*?)(?=^##)", GUIDES, re.MULTILINE | re.DOTALL)


def test_there_are_ten_questions():
    assert len(QUESTIONS) == 10


@for_all("question, text", QUESTIONS)
def test_a_question_has_one_call_and_one_picture(question, text):
    assert text.count("```python") == text.count("![") == 1
