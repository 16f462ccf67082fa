"""Every program of the gallery runs, agrees with an independent computation, and has a notebook."""

import ast
import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot

from tests.looped import for_all

EXAMPLES = sorted((Path(__file__).parents[2] / "docs/examples").glob("plot_*.py"))


def test_there_is_a_gallery():
    assert 6 <= len(EXAMPLES) <= 12


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_what_an_example_computes_is_what_it_compares_with(path, monkeypatch, capsys):
    pyplot.switch_backend("Agg")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    names = runpy.run_path(str(path))
    drawn = pyplot.get_fignums()
    pyplot.close("all")
    assert len(drawn) == 1
    assert capsys.readouterr().out.count("\n") >= 1
    apart = np.abs(np.asarray(names["computed"]) - names["theoretical"])
    assert np.all(apart <= names["tolerance"])
    # A tolerance that lets anything pass is none.
    assert np.all(np.asarray(names["tolerance"]) < 0.95 * np.abs(names["theoretical"]))


def statements(source):
    """The program without its comments and its first docstring."""
    body = ast.parse(source).body
    described = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    return [ast.unparse(node) for node in body[described:]]


@for_all("path", EXAMPLES)
def test_a_notebook_installs_the_package_and_holds_the_example(path):
    cells = json.loads((path.parents[1] / "notebooks" / f"{path.stem}.ipynb").read_text())["cells"]
    first, *code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert "%pip install --quiet 'reshuffle[plot,sklearn]'" in first
    assert statements("\n".join(code)) == statements(path.read_text()), "run make docs"


def test_every_notebook_is_that_of_an_example():
    notebooks = (EXAMPLES[0].parents[1] / "notebooks").iterdir()
    assert sorted(path.stem for path in notebooks) == [path.stem for path in EXAMPLES]
