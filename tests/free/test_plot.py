"""How laws are drawn: from end to end, with their mass in sight, on the axes that are given."""

from functools import lru_cache

import matplotlib as mpl
import numpy as np
import pytest

from reshuffle import free

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


# Made when asked for: to tell that one may divide takes a spectrum of its own.
