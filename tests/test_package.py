"""The package says what it offers, and imports it only when asked."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import reshuffle

ROOT = Path(__file__).parent.parent


def test_package_has_a_docstring():
    assert reshuffle.__doc__


def test_type_checkers_are_told_the_names_that_exist():
    tree = ast.parse(Path(reshuffle.__file__).read_text())
    block = next(
        node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    )
    told = {}
    for node in block.body:
        names = [alias.name for alias in node.names]
        offered = import_module(node.module).__all__ if names == ["*"] else names
        told |= dict.fromkeys(offered, node.module)
    schemes = dict.fromkeys(reshuffle.schemes.__all__, reshuffle._SCHEMES)
    assert told == reshuffle._HOMES | dict.fromkeys(reshuffle._PACKAGES, "reshuffle") | schemes
    assert len(set(reshuffle.__all__)) == len(reshuffle.__all__)
    for name in reshuffle.__all__:
        assert getattr(reshuffle, name).__name__.rpartition(".")[2] == name
    assert set(reshuffle.__all__) <= set(dir(reshuffle))


def test_a_name_that_does_not_exist():
    with pytest.raises(AttributeError, match=r"module 'reshuffle' has no attribute 'descent_'"):
        _ = reshuffle.descent_


def test_the_package_alone_imports_nothing_heavy():
    code = "import reshuffle, sys; print([m for m in ('numpy', 'scipy', 'matplotlib', 'rich') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_version_is_the_same_everywhere():
    """It is written in the package alone; what repeats it agrees, and a version in the making is not released."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in settings["project"]["dynamic"]
    source = (ROOT / settings["tool"]["hatch"]["version"]["path"]).read_text()
    assert re.findall(r'^__version__ = "(.*)"$', source, re.MULTILINE) == [reshuffle.__version__]
    cited = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited == [reshuffle.__version__]
    release, making, _ = reshuffle.__version__.partition(".dev")
    number, date = re.search(
        r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    ).groups()
    assert number == release
    assert (date == "unreleased") == bool(making)


def test_a_renamed_name_warns_for_one_release():
    with pytest.warns(DeprecationWarning, match="ParameterCovariance"):
        assert reshuffle.OutputCovariances is reshuffle.ParameterCovariance


def test_the_conda_recipe_asks_for_what_the_package_asks_for():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "packaging/conda/recipe.yaml").read_text()
    run = re.search(r"\n  run:\n(.*?)\n  run_constraints", recipe, re.DOTALL)[1]
    found = [line.strip().removeprefix("- ").replace(" ", "") for line in run.splitlines()]
    assert found[1:] == project["dependencies"]
    assert re.findall(r'version: "(.*)"', recipe) == [reshuffle.__version__.partition(".dev")[0]]
