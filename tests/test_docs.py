"""What the documentation points at exists."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAPER = (ROOT / "docs" / "paper.md").read_text()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(reshuffle\.[\w.]+)`", PAPER))))
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


@pytest.mark.parametrize("test", sorted(set(re.findall(r"`(tests/[\w/]+\.py::\w+)`", PAPER))))
def test_every_test_in_the_map_of_the_paper_exists(test):
    path, name = test.split("::")
    assert f"def {name}(" in (ROOT / path).read_text()


@pytest.mark.parametrize(
    "page", ["free", "asymptotics", "two_batch_law", "sklearn", "own_data", "leave_one_out", "scale"]
)
def test_every_code_block_of_a_page_is_a_doctest(page):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)
    assert all(block.startswith(">>> ") for block in blocks)


def test_every_test_of_the_paper_is_in_the_map():
    for path in sorted((ROOT / "tests" / "paper").glob("test_*.py")):
        for name in re.findall(r"^def (test_\w+)\(", path.read_text(), re.MULTILINE):
            if name not in {"test_risk_interval_is_for_two_batches", "test_the_regime_is_that_of_the_rank"}:
                assert f"{path.relative_to(ROOT)}::{name}" in PAPER, name


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/architecture.md",
        "docs/many_batches.md",
        "docs/schemes.md",
        "docs/asymptotics.md",
        "docs/two_batch_law.md",
        "docs/sklearn.md",
        "docs/own_data.md",
        "docs/leave_one_out.md",
        "docs/scale.md",
    ],
)
def test_every_file_that_a_page_names_exists(page):
    for name in re.findall(r"`((?:src/|docs/|tests/|benchmarks/)[\w/.]*)`", (ROOT / page).read_text()):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", ["own_data", "leave_one_out", "schemes", "many_batches", "scale"])
def test_every_picture_and_heading_that_a_page_links_to_exists(page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for link in re.findall(r"\]\(([^)]+)\)", text):
        if link.startswith("#"):
            assert link[1:] in anchors, link
        elif not link.startswith("http"):
            assert (ROOT / "docs" / link.split("#")[0]).exists(), link


def test_the_page_for_people_with_data_has_a_call_and_a_picture_for_each_of_ten_questions():
    text = (ROOT / "docs" / "own_data.md").read_text()
    questions = re.split(r"^## \d+\. ", text, flags=re.MULTILINE)[1:]
    assert len(questions) == 10
    for question in questions:
        assert question.count("```python") == question.count("![") == 1, question.splitlines()[0]
