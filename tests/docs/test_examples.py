"""Every program of the gallery runs, and computes what another way gives."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from matplotlib import pyplot

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
