"""Pictures of grids: what is drawn is what was computed, and what diverges is drawn as such."""

import math

import numpy as np
import pytest
from matplotlib.colors import LogNorm

import reshuffle as rs
from reshuffle import plotting
from tests.looped import for_all

PROBLEM = rs.gaussian(12, 6, noise=0.5, seed=0)
STEPS = [0.01, 0.03, 0.09, 50.0]
FOUND = rs.sweep(PROBLEM, over={"batches": [1, 2, 4], "step": STEPS}, epochs=[1, 10, 400, math.inf])


def axes():
    return plotting.figure(6, 4).add_subplot()


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_heat_map_shows_every_cell_and_hatches_what_diverges():
    ax = plotting.heat_map(FOUND["risk"], "step", "batches", epochs=400, ax=axes())
    (mesh,) = ax.collections
    expected = FOUND["risk"].sel(epochs=400).values
    np.testing.assert_allclose(mesh.get_array()[:, :3], expected[:, :3])
    assert mesh.get_array().mask[:, 3].all()
    hatched = [patch for patch in ax.patches if patch.get_hatch() == "///"]
    assert len(hatched) == np.isinf(expected).sum() == 3
    assert legend(ax) == ["least", "diverges"]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    (star,) = ax.get_lines()
    row, column = np.unravel_index(np.argmin(expected), expected.shape)
    assert (star.get_xdata()[0], star.get_ydata()[0]) == (STEPS[column], [1, 2, 4][row])


def test_without_epochs_every_cell_stops_when_it_is_best():
    ax = plotting.heat_map(FOUND["risk"], "step", "batches", ax=axes())
    (mesh,) = ax.collections
    best = FOUND["risk"].min("epochs").values
    np.testing.assert_allclose(mesh.get_array()[:, :3], best[:, :3])
    assert "best epoch" in ax.figure.axes[-1].get_ylabel()
    assert not isinstance(mesh.norm, LogNorm)


def test_what_has_no_answer_is_dotted():
    over = {"momentum": [0.0, 0.5], "nesterov": [False, True]}
    found = rs.sweep(PROBLEM, over=over, batches=2, alpha=0.1, epochs=[3])
    ax = plotting.heat_map(found["risk"], "momentum", "nesterov", ax=axes())
    assert [patch.get_hatch() for patch in ax.patches] == ["..."]
    assert legend(ax) == ["least", "no answer"]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["False", "True"]


def test_curves_have_a_line_for_each_value():
    ax = plotting.sweep_curves(FOUND["risk"], by="step", batches=2, ax=axes())
    labels = ["0.01", "0.03", "0.09", "50 (diverges)"]
    assert [line.get_label() for line in ax.get_lines()] == labels
    np.testing.assert_allclose(ax.get_lines()[1].get_ydata(), FOUND["risk"].sel(batches=2, step=0.03))
    assert not np.isfinite(ax.get_lines()[3].get_ydata()[1:]).any()
    assert ax.get_legend().get_title().get_text() == "step of a visit, (unit of X)^-2"
    # Infinity has no place on an axis of numbers.
    assert [text.get_text() for text in ax.get_xticklabels()] == ["1", "10", "400", "inf"]


def test_one_curve_and_many_curves():
    ax = plotting.sweep_curves(FOUND["risk"], "step", batches=2, epochs=10, ax=axes())
    assert ax.get_legend() is None
    found = rs.sweep(PROBLEM, over={"alpha": np.linspace(0.1, 0.5, 20)}, batches=2, epochs=[1, 2])
    ax = plotting.sweep_curves(found["risk"], by="alpha", ax=axes())
    assert len(ax.get_lines()) == 20
    assert len(legend(ax)) == 7


@for_all(
    "draw, error, words",
    [
        (
            lambda: plotting.heat_map(FOUND, "step", "batches"),
            TypeError,
            "answer must be a variable of a sweep",
        ),
        (
            lambda: plotting.heat_map(FOUND["risk"], "alpha", "batches"),
            ValueError,
            "must have the dimension 'alpha'",
        ),
        (lambda: plotting.sweep_curves(FOUND["risk"]), ValueError, "choose a value, such as batches="),
    ],
)
def test_what_cannot_be_drawn(draw, error, words):
    with pytest.raises(error, match=words):
        draw()
