"""Densities of laws, and eigenvalues of matrices beside them."""

from typing import TYPE_CHECKING

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import significant
from reshuffle.free import plot as layout
from reshuffle.free.plot import Drawable
from reshuffle.plotting.picture_style import COLOURS, axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

spectrum_points = layout.points


def spectrum_curve(
    law: Drawable,
    *,
    label: str,
    colour: str = COLOURS[0],
    style: str = "-",
    decades: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the density of a law from end to end; name the mass of its atoms, which have none, in the label.

    With `decades` on a logarithmic axis, and per decade: the area below the curve is the mass there too.

    Parameters
    ----------
    law : Law, Spectrum or any other with `support`, `density` and `atoms`
    label : str
        For the legend.
    colour : str
        Any colour of matplotlib's.
    style : str
        Of the line, as matplotlib writes it.
    decades : bool
        On a logarithmic axis.
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    Axes
    """
    ax = axes(ax)
    t, density = layout.points(law)
    masses = ", ".join(f"mass {significant(mass, 3)} at {significant(place, 3)}" for place, mass in law.atoms)
    ax.plot(
        t,
        layout.heights(t, density, decades=decades),
        color=colour,
        linewidth=1.6,
        linestyle=style,
        label=f"{label} ({masses})" if masses else label,
    )
    return _spectral(ax, decades)


def spectrum_histogram(
    eigenvalues: FloatArray,
    *,
    label: str,
    colour: str = COLOURS[0],
    bins: int = 60,
    decades: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the eigenvalues of a matrix as a density over all of them; those at zero are left out, not forgotten.

    Parameters
    ----------
    eigenvalues : (p,)
    label : str
        For the legend.
    colour : str
        Any colour of matplotlib's.
    bins : int
    decades : bool
        On a logarithmic axis, as in `spectrum_curve`.
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    Axes
    """
    ax = axes(ax)
    moving = eigenvalues[np.abs(eigenvalues) > 1e-9 * np.abs(eigenvalues).max(initial=1e-300)]
    heights, cuts = layout.histogram(moving, len(eigenvalues), bins, decades=decades)
    ax.stairs(heights, cuts, fill=True, color=colour, alpha=0.3, label=label)
    return _spectral(ax, decades)


def _spectral(ax: "Axes", decades: bool) -> "Axes":
    if decades:
        ax.set_xscale("log")
    return plain(ax, "eigenvalue", layout.View(decades, 0.0).ylabel)
