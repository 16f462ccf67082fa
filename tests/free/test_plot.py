"""How laws are drawn: from end to end, with their mass in sight, on the axes that are given."""

import re
from functools import lru_cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from scipy.integrate import trapezoid

from reshuffle import free
from reshuffle.free import plot as layout
from tests.free.oracles import two_batches
from tests.looped import for_all

mpl.use("Agg")
from matplotlib import pyplot as plt


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    """Whatever a test draws with pyplot is closed behind it."""
    yield
    plt.close("all")


@lru_cache
def compressed():
    x, y = free.variables(free.Projection(0.5), free.Semicircle())
    return free.spectrum(x * y * x)


def test_plot_returns_its_axes_with_density_histogram_and_atom():
    figure, ax = plt.subplots()
    s = compressed()
    assert s.plot(ax, sample=60) is ax
    assert [text.get_text() for text in ax.texts if text.get_text()] == ["0.5"]
    t, y = ax.lines[0].get_data()
    np.testing.assert_allclose(y[1:-1], s.density(t[1:-1]))
    assert (t[0], t[-1]) == s.support[0]
    assert (y[0], y[-1]) == (0.0, 0.0)
    assert ax.patches[0].get_label() == "one matrix of size 60"
    assert plt.get_fignums() == [figure.number]


def test_without_ax_it_draws_on_pyplot_s_current_axes():
    s = compressed()
    assert s.plot() is plt.gca()
    _, (left, _) = plt.subplots(1, 2)
    plt.sca(left)
    assert s.plot() is left
    assert len(left.lines) == 1


def test_a_second_law_does_not_cut_off_the_first():
    (x,) = free.variables(free.Semicircle())
    ax = free.spectrum(x).plot()
    top = ax.get_ylim()[1]
    assert free.spectrum(2 * x).plot() is ax
    assert ax.get_ylim()[1] == pytest.approx(top)
    free.spectrum(x / 2).plot()
    assert ax.get_ylim()[1] == pytest.approx(2 * top)


def test_the_example_of_the_documentation_shows_something():
    page = (Path(__file__).parents[2] / "docs" / "free.md").read_text()
    blocks = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[:2])
    code = "\n".join(re.findall(r"^>>> (.*)$", blocks, re.MULTILINE)).replace("plt.close()", "plt.show()")
    assert "s.plot(sample=800)" in code
    shown = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
        exec(code.replace("800", "80"), {})
    (figure,) = shown
    assert len(figure.axes[0].lines) == len(figure.axes[0].patches) == 1


def spectrum_of(expression, *laws):
    return free.spectrum(expression(*free.variables(*laws)))


TWO_BATCHES = two_batches(3.0, 0.1)
# Made when asked for: to tell that one may divide takes a spectrum of its own.


def hidden(law, view):
    """The share of the mass that lies above the picture."""
    t, density = layout.points(law, 4000)
    above = np.where(np.isfinite(density), np.maximum(density - view.top, 0), 0)
    return trapezoid(above, t)


@for_all(
    "law, most",
    [
        (free.Semicircle(), 1e-4),
        (free.MarchenkoPastur(0.5), 1e-4),
        (free.MarchenkoPastur(0.9), 1e-4),
        (free.MarchenkoPastur(1.0), 0.11),
        (free.Arcsine(0.0, 1.0), 0.11),
        (TWO_BATCHES, 1e-4),
    ],
)
def test_linear_axes_hide_no_more_than_a_tenth_of_the_mass(law, most):
    view = layout.view([layout.points(law)])
    assert not view.decades
    assert hidden(law, view) <= most
    # And the rest is no flat line at the bottom.
    t, density = layout.points(law, 4000)
    shown = trapezoid(np.minimum(density, view.top), t)
    assert shown > 0.05 * view.top * np.ptp(t)


@pytest.mark.parametrize(
    ("ratio", "expression"), [(0.5, lambda x, y: x * y * y * x), (1.0, lambda x, y: x * y * x)]
)
def test_decades_show_what_would_be_crowded_into_a_corner(ratio, expression):
    law = spectrum_of(expression, *[free.MarchenkoPastur(ratio)] * 2)
    t, density = layout.points(law)
    view = layout.view([(t, density)])
    assert view.decades
    drawn = layout.heights(t, density, decades=True)
    assert drawn.max() == view.top
    assert trapezoid(drawn[t > 0], np.log10(t[t > 0])) > 0.85
    # One law over decades decides for all in the picture, unless one of them is negative somewhere.
    assert layout.view([(t, density), layout.points(free.MarchenkoPastur(0.5))]).decades
    assert not layout.view([(t, density), layout.points(free.Semicircle())]).decades


def test_several_intervals_have_a_gap_between_them():
    law = spectrum_of(lambda x, s: x + s, free.Discrete([0.0, 5.0]), free.Semicircle(0.01))
    t, density = layout.points(law, 20)
    gap = np.flatnonzero(np.isnan(t))
    assert gap.tolist() == np.flatnonzero(np.isnan(density)).tolist() == [20]
    assert (density[19], density[21]) == (0.0, 0.0)
    assert (t[19], t[21]) == (law.support[0][1], law.support[1][0])


def test_laws_of_atoms_alone_have_no_height():
    assert layout.view([layout.points(free.Discrete([1.0]))]) == layout.View(False, 0.0)
    assert layout.view([]) == layout.View(False, 0.0)
