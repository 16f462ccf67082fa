"""The rooms of free know those before them alone, and none of them knows the rest of the package."""

import ast
import re
from pathlib import Path

import pytest

import reshuffle.free

FREE = Path(reshuffle.free.__file__).parent
ORDER = [
    "checks",
    "progress",
    "single_thread",
    "measure",
    "laws",
    "algebra",
    "solver",
    "certified",
    "weighted",
    "spectrum",
    "convolution",
    "planar",
]
FILES = sorted(FREE.rglob("*.py"))


def room_of(path):
    return path.relative_to(FREE).parts[0].removesuffix(".py")


def imports(path):
    """The modules of the package that a file needs to be imported: not those for its types or within functions."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("reshuffle"):
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FREE)))
def test_free_is_independent_of_the_rest(path):
    found = re.findall(r"^\s*(?:from|import) (reshuffle[\w.]*)", path.read_text(), re.MULTILINE)
    assert all(name == "reshuffle.free" or name.startswith("reshuffle.free.") for name in found)


@pytest.mark.parametrize(
    "path", [path for path in FILES if room_of(path) in ORDER], ids=lambda path: str(path.relative_to(FREE))
)
def test_no_room_needs_a_later_one(path):
    for name in imports(path):
        needed = name.split(".")[2]
        assert ORDER.index(needed) <= ORDER.index(room_of(path)), name
