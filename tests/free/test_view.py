"""How laws are laid out in a picture: from end to end, with their mass in sight."""

import numpy as np
import pytest
from scipy.integrate import trapezoid

from reshuffle import free
from reshuffle.free import plot as layout
from tests.free.oracles import two_batches
from tests.looped import for_all


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
