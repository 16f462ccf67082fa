"""Pictures: what is drawn is what was computed."""

import sys

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import plotting
from reshuffle.figures import risk_over


def test_a_risk_curve_shows_the_total(tmp_path):
    run = rs.descend(rs.gaussian(20, 30, seed=0), rs.RandomReshuffling(2), alpha=0.2)
    risk = run.risk(np.arange(11))
    ax = plotting.risk_curve(risk, label="two batches")
    (line,) = ax.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), risk.total)
    assert ax.get_xlabel() == "epochs"
    again = plotting.mark_best(3, 0.5, ax=plotting.risk_curve(risk, label="again", ax=ax))
    assert again is ax
    assert len(ax.get_lines()) == 3
    assert len(plotting.mark_best(np.inf, 0.5, ax=ax).get_lines()) == 3


def test_a_band_is_two_standard_errors_wide():
    estimate = rs.Estimate(np.array([1.0, 2.0]), np.array([0.1, 0.2]))
    ax = plotting.simulated_band(np.array([0, 1]), estimate, label="simulated")
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.min() == 0.8
    assert heights.max() == 2.4


def test_the_figure_of_the_overparameterized_setting(tmp_path, monkeypatch, capsys):
    curves = risk_over.compute(n=30, p=45, seed=1)
    assert [curve.batches for curve in curves] == [1, 2, 4]
    problem = rs.gaussian(30, 45, noise=0.5, seed=1)
    run = rs.descend(problem, rs.RandomReshuffling(4), step=0.05)
    np.testing.assert_allclose(curves[2].risk.total, run.risk(np.arange(301)).total)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(risk_over, "compute", lambda: curves)
    risk_over.main()
    assert (tmp_path / "out" / "risk_over.png").stat().st_size > 10_000
    assert f"{curves[2].best.risk:.6f}" in capsys.readouterr().out


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=r"pictures need matplotlib, .*reshuffle\[plot\]"):
        plotting.axes()
