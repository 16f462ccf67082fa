"""The API reference has every public name, once, and nothing else."""

import re
from pathlib import Path

from tests.docs.public_names import PACKAGES, public
from tests.looped import for_all

PAGES = Path(__file__).parents[2] / "docs/api"
LISTED = [
    name
    for page in sorted(PAGES.glob("*.md"))
    for block in re.findall(r"\.\. autosummary::\n(.*?)```", page.read_text(), re.DOTALL)
    for name in re.findall(r"^   ~(reshuffle[\w.]+)$", block, re.MULTILINE)
]
PUBLIC = public()


def test_there_are_packages():
    assert {"reshuffle", "reshuffle.free", "reshuffle.schedules", "reshuffle.plotting"} <= set(PACKAGES)


def test_no_name_is_listed_twice():
    assert sorted(set(LISTED)) == sorted(LISTED)


@for_all("name", PUBLIC)
def test_a_public_name_has_a_page(name):
    # A name that two packages share, such as ConvergenceError, has one page, to which the other package links.
    shared = [other for other, value in PUBLIC.items() if value is PUBLIC[name]]
    assert sum(other in LISTED for other in shared) == 1, f"{name} belongs on a page of docs/api, once"


@for_all("name", LISTED)
def test_what_has_a_page_is_public(name):
    assert name in PUBLIC


@for_all("package", PACKAGES)
def test_every_package_is_on_the_first_page(package):
    assert f"[`{package}`]" in (PAGES / "index.md").read_text()
