"""Pictures: what is drawn is what was computed."""

import sys

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import free, plotting


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


def test_what_diverges_leaves_the_picture_and_makes_it_logarithmic():
    values = np.array([1.0, 10.0, 1000.0, np.inf])
    ax = plotting.scale_values(plotting.curve(np.arange(4.0), values, label="diverges"))
    assert ax.get_yscale() == "log"
    assert np.isnan(ax.get_lines()[0].get_ydata()[-1])
    steady = plotting.scale_values(plotting.curve(np.arange(2.0), np.ones(2), label="steady"))
    assert steady.get_yscale() == "linear"


def test_colours_are_those_of_the_scheme_and_darker_with_more_batches():
    def brightness(colour):
        return sum(int(colour[k : k + 2], 16) for k in (1, 3, 5))

    for scheme in plotting.SCHEME_COLOURS:
        shades = [plotting.scheme_colour(scheme, batches) for batches in (2, 4, 8, 16)]
        assert len(set(shades)) == 4
        assert [brightness(shade) for shade in shades] == sorted(map(brightness, shades), reverse=True)
        assert plotting.scheme_colour(scheme, 1) == plotting.scheme_colour("full-batch", 1)
    every = [plotting.scheme_colour(scheme, 4) for scheme in plotting.SCHEME_COLOURS]
    assert len(set(every)) == len(every)
    assert plotting.scheme_colour("new", 4) == "#000000"


def test_a_spectrum_is_its_density_and_names_its_atoms():
    law = free.MarchenkoPastur(ratio=1.5, variance=0.2)
    ax = plotting.spectrum_curve(law, label="law")
    (line,) = ax.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), law.density(line.get_xdata()))
    assert line.get_label() == "law (mass 0.333 at 0)"


def test_a_histogram_leaves_zeros_out_but_counts_them():
    eigenvalues = np.concatenate([np.zeros(50), np.linspace(1, 2, 50)])
    ax = plotting.spectrum_histogram(eigenvalues, label="matrix", bins=10)
    values, cuts, _ = ax.patches[0].get_data()
    assert (values * np.diff(cuts)).sum() == pytest.approx(0.5)
    assert cuts[0] == 1.0


def test_several_intervals_have_a_gap_between_them():
    x, s = free.variables(free.Discrete([0.0, 5.0]), free.Semicircle(0.01))
    t, density = plotting.spectrum_points(free.spectrum(x + s), 20)
    assert len(t) == 41
    assert np.isnan(t[20])
    assert np.isnan(density[20])
    assert plotting.spectrum_points(free.Discrete([1.0]))[0].size == 0


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ModuleNotFoundError, match=r"pictures need matplotlib, .*reshuffle\[plot\]"):
        plotting.axes()
