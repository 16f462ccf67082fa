"""The package says what it offers, and imports it only when asked."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import reshuffle


def test_package_has_a_docstring():
    assert reshuffle.__doc__


def test_type_checkers_are_told_the_names_that_exist():
    tree = ast.parse(Path(reshuffle.__file__).read_text())
    block = next(
        node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    )
    told = {alias.name: node.module for node in block.body for alias in node.names}
    assert told == reshuffle._HOMES
    for name in reshuffle.__all__:
        assert getattr(reshuffle, name).__name__ == name
    assert set(reshuffle.__all__) <= set(dir(reshuffle))


def test_a_name_that_does_not_exist():
    with pytest.raises(AttributeError, match=r"module 'reshuffle' has no attribute 'descent_'"):
        _ = reshuffle.descent_


def test_the_package_alone_imports_nothing_heavy():
    code = "import reshuffle, sys; print([m for m in ('numpy', 'scipy', 'matplotlib', 'rich') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
