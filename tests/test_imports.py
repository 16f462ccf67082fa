"""Data flows one way: the imports of every module, read from its source."""

import ast
import re
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "src/reshuffle"
ROOMS = (
    "errors", "_arrays", "_linalg", "_progress", "_uncertainty", "_display", "_budget", "problem",
    "schemes", "recipe", "simulation", "epoch", "validation", "run", "grid", "planning",
    "asymptotics", "plotting", "cli", "sklearn", "torch", "page",
)  # fmt: skip
"""A room imports from itself and from those before it."""
KNOW_FREE = ROOMS[ROOMS.index("asymptotics") :]
"""`free` stands beside them: it knows none of them, and these may use it."""
FACE = "planning"
"""The last of the rooms whose names `reshuffle` itself offers: who imports those from there stands after it."""


@cache
def sources():
    """Every module of the package and its tree."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


def imports(path, tree):
    """(module, name) of every import from this package, those in functions too, not those for type checkers."""
    for_types = [
        part for part in tree.body if isinstance(part, ast.If) and ast.unparse(part.test) == "TYPE_CHECKING"
    ]
    known = {id(node) for part in for_types for node in ast.walk(part)}
    for node in (node for node in ast.walk(tree) if id(node) not in known):
        if isinstance(node, ast.Import):
            found = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where they lead"
            found = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        yield from ((module, name) for module, name in found if module.split(".")[0] == "reshuffle")


def room_of(module, name):
    """The room that an import leads to; the face of the package counts as the last of the rooms behind it."""
    parts = [*module.split("."), name]
    return parts[1] if parts[1] in {*ROOMS, "free"} else FACE


def violations():
    for path, tree in sources().items():
        here = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        for module, name in imports(path, tree) if not here.startswith("__") else ():
            if name == "__version__":
                # The package itself, which imports nothing.
                continue
            there = room_of(module, name)
            if "free" in (here, there):
                allowed = here == there or here in KNOW_FREE
            else:
                allowed = ROOMS.index(there) <= ROOMS.index(here)
            private = name.startswith("_") and not name.startswith("__") and name not in ROOMS
            if not allowed or private:
                yield f"{path.relative_to(PACKAGE)}: from {module} import {name}"


def test_every_part_of_the_package_is_a_room():
    parts = {path.name.removesuffix(".py") for path in PACKAGE.iterdir()}
    assert parts - {"__init__", "__main__", "__pycache__", "py.typed"} == {*ROOMS, "free"}


def test_data_flows_down_the_rooms_and_private_names_stay_at_home():
    assert list(violations()) == []


def test_nobody_asks_a_scheme_for_its_type_or_compares_methods_but_the_planner():
    for path, tree in sources().items():
        if path.relative_to(PACKAGE).parts[0] in ("schemes", "free") or path.name == "select.py":
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "isinstance"
            ):
                assert "scheme" not in ast.unparse(node.args[0]), f"{path}: {ast.unparse(node)}"
            if isinstance(node, ast.Compare):
                assert not ast.unparse(node.left).endswith("method"), f"{path}: {ast.unparse(node)}"


def test_the_figures_of_the_paper_use_public_names_only():
    for path in sorted((PACKAGE.parents[1] / "paper").glob("*.py")):
        for module, name in imports(path, ast.parse(path.read_text(encoding="utf-8"))):
            called = f"{module}.{name}".removesuffix(".")
            assert not re.search(r"\._(?!_)", called), f"{path}: {called}"
            assert module == "reshuffle" or called == "reshuffle.cli.main", f"{path}: {called}"


def test_imports_stand_at_the_top_of_a_file():
    for path, tree in sources().items():
        makes = [isinstance(node, ast.FunctionDef | ast.ClassDef) for node in tree.body]
        for node in tree.body[makes.index(True) :] if any(makes) else []:
            for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            found = for_types or isinstance(node, ast.Import | ast.ImportFrom)
            assert not found, f"{path}: {node.lineno}"
