"""Pictures: what is drawn is what was computed."""

import math
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest

import reshuffle as rs
from reshuffle import free, plotting

mpl.use("Agg")
from matplotlib import pyplot as plt

from tests.looped import for_all

ESTIMATE = rs.Estimate(np.array([1.0, 2.0]), np.array([0.1, 0.2]))
RISK = rs.descend(rs.gaussian(8, 4, seed=0), rs.FullBatch(), 0.1).risk(np.arange(3))
COMPARISON = rs.compare_schemes(
    rs.gaussian(8, 4, seed=0), [rs.RandomReshuffling(batches=2)], step=0.1, thresholds=False
)
RUN = rs.descend(rs.gaussian(8, 4, seed=0), rs.RandomReshuffling(batch_size=2), 0.1)
MATCH = rs.match(RUN, batch_size=4, epochs=5)
EXPLAINED = rs.explain(RUN.problem.X, RUN.problem.y, RUN.iterate(3), RUN, epochs=3)
PLAN = rs.plan(RUN.problem.X, RUN.problem.y, batch_sizes=[2, 8], epochs=5, verify=False)
SWEPT = rs.sweep(rs.gaussian(8, 4, seed=0), over={"batches": [1, 2, 4], "alpha": [0.1, 1e4]}, epochs=[1, 500])
EVERY_FUNCTION = {
    "axes": plotting.axes,
    "risk_curve": lambda ax=None: plotting.risk_curve(RISK, label="", ax=ax),
    "curve": lambda ax=None: plotting.curve(np.arange(2.0), np.ones(2), label="", ax=ax),
    "simulated_band": lambda ax=None: plotting.simulated_band(np.arange(2.0), ESTIMATE, label="", ax=ax),
    "mark_best": lambda ax=None: plotting.mark_best(3, 0.5, ax=ax),
    "heat_map": lambda ax=None: plotting.heat_map(SWEPT["risk"], "alpha", "batches", ax=ax),
    "sweep_curves": lambda ax=None: plotting.sweep_curves(SWEPT["risk"], by="batches", alpha=0.1, ax=ax),
    "scheme_comparison": lambda ax=None: plotting.scheme_comparison(COMPARISON, ax=ax),
    "explanation": lambda ax=None: plotting.explanation(EXPLAINED, ax=ax),
    "influential_rows": lambda ax=None: plotting.influential_rows(
        RUN.influence(RUN.problem.X, [1, 3]), ax=ax
    ),
    "plan_map": lambda ax=None: plotting.plan_map(PLAN, ax=ax),
    "step_match": lambda ax=None: plotting.step_match(MATCH, ax=ax),
    "spectrum_curve": lambda ax=None: plotting.spectrum_curve(free.Semicircle(), label="", ax=ax),
    "spectrum_histogram": lambda ax=None: plotting.spectrum_histogram(np.arange(9.0), label="", ax=ax),
}


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    """Whatever a test draws with pyplot is closed behind it."""
    yield
    plt.close("all")


@for_all("name", EVERY_FUNCTION)
def test_without_ax_pyplot_s_current_axes_are_drawn_on_and_with_it_only_that(name):
    plt.close("all")
    draw = EVERY_FUNCTION[name]
    _, (left, right) = plt.subplots(1, 2)
    assert draw() is right
    plt.sca(left)
    assert draw() is left
    assert draw(ax=right) is right
    own = plotting.figure(2.0, 1.0).add_subplot()
    assert draw(ax=own) is own
    assert left.has_data() == right.has_data() == own.has_data() == (name != "axes")
    assert len(plt.get_fignums()) == 1


def test_the_library_s_own_figures_are_none_of_pyplot_s():
    """They are freed with their axes: many of them in a worker are no leak."""
    for _ in range(25):
        plotting.figure(1.0, 1.0).add_subplot()
    assert plt.get_fignums() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["curve", "--n", "9", "--p", "6", "--alpha", "0.1", "--epochs", "3"],
        ["spectrum", "--aspect", "0.5", "--alpha", "0.3", "--batches", "1", "--sample", "20"],
        ["stability", "--n", "12", "--p", "6", "--batches", "1,2"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_command_line_draws_without_pyplot_and_so_without_a_display(arguments, tmp_path):
    code = (
        "import sys; from reshuffle.cli import main; code = main(sys.argv[1:]);"
        "print('matplotlib.figure' in sys.modules, 'matplotlib.pyplot' in sys.modules, file=sys.stderr);"
        "sys.exit(code)"
    )
    # A backend that would fail if anything asked for it.
    environment = {"MPLBACKEND": "module://no_such_window", "PYTHONPATH": ":".join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--plot", str(tmp_path / "picture.png")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert found.returncode == 0, found.stderr
    # On a busy machine lines of progress come before.
    assert found.stderr.split()[-2:] == ["True", "False"]
    assert (tmp_path / "picture.png").stat().st_size > 5000


def test_a_risk_curve_shows_the_total(tmp_path):
    run = rs.descend(rs.gaussian(20, 30, seed=0), rs.RandomReshuffling(batches=2), alpha=0.2)
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
    ax = plotting.simulated_band(np.array([0, 1]), ESTIMATE, label="simulated")
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert heights.min() == 0.8
    assert heights.max() == 2.4


def test_a_comparison_shows_what_was_compared():
    schemes = {
        "fresh order": rs.RandomReshuffling(batches=4),
        "wild": rs.Cyclic(batches=2),
        "samples": rs.SampleReshuffling(batch_size=10),
    }
    problem = rs.gaussian(40, 8, noise=0.5, seed=0)
    comparison = rs.compare_schemes(problem, schemes, step=0.3, epochs=[3, math.inf], thresholds=False)
    ax = plotting.scheme_comparison(comparison, epoch=3)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["full batch", *schemes]
    joined = [
        line.get_xdata()
        for line in ax.get_lines()
        if len(line.get_xdata()) == 2 and line.get_linewidth() == 2
    ]
    ends = [[float(row.mean.value[0]), float(row.total.value[0])] for row in comparison if not_growing(row)]
    np.testing.assert_array_equal(joined, ends)
    assert ax.get_xlabel() == "risk after 3 epochs"
    assert len(ends) < 4
    plt.figure()
    limit = plotting.scheme_comparison(comparison)
    assert limit.get_xlabel() == "risk in the limit"
    words = [text.get_text() for text in limit.texts]
    assert words.count("one run: not known") == 0
    assert words.count("diverges") == 4 - len(ends)


def not_growing(row):
    return np.isfinite(row.distance.value)


def test_what_diverges_leaves_the_picture_and_makes_it_logarithmic():
    values = np.array([1.0, 10.0, 1000.0, np.inf])
    ax = plotting.scale_values(plotting.curve(np.arange(4.0), values, label="diverges"))
    assert ax.get_yscale() == "log"
    assert np.isnan(ax.get_lines()[0].get_ydata()[-1])
    plt.figure()
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


@pytest.mark.parametrize(
    ("module", "draw"),
    [
        ("matplotlib.figure", lambda: plotting.figure(1.0, 1.0)),
        ("matplotlib", plotting.axes),
        ("matplotlib", lambda: free.spectrum(free.variables(free.Semicircle())[0]).plot()),
    ],
)
def test_without_matplotlib_the_error_says_what_to_install(monkeypatch, module, draw):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=r"pictures need matplotlib, .*: install matplotlib\."):
        draw()
