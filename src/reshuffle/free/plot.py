"""Draw a law and a sampled matrix beside it."""

from typing import TYPE_CHECKING

import numpy as np

from reshuffle.free import view as layout
from reshuffle.free.checks import Real

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reshuffle.free.spectrum import Spectrum

CURVE, MATRIX, ATOM = "#1b3a6b", "#c9d6e8", "#b5482a"


def plot(
    law: "Spectrum", ax: "Axes | None" = None, *, sample: int | None = None, seed: int | None = 0
) -> "Axes":
    """Draw the density, atoms as arrows of their mass, and optionally a histogram of ``sample`` eigenvalues.

    On ``ax``, or on pyplot's current axes, which are returned; nothing is shown or saved. A law whose mass would
    be crowded into a corner is drawn on a logarithmic axis, with densities per decade.
    """
    ax = current_axes() if ax is None else ax
    t, density = layout.points(law)
    view = _view(ax, t, density)
    if sample is not None:
        heights, cuts = _sampled(law, sample, seed, view.decades)
        ax.stairs(heights, cuts, fill=True, color=MATRIX, label=f"one matrix of size {sample}")
    ax.plot(t, layout.heights(t, density, decades=view.decades), color=CURVE, lw=1.8, label="limiting law")
    for place, mass in law.atoms:
        _atom(ax, place, mass, view)
    if view.decades:
        ax.set_xscale("log")
    # An atom at the end of the support has its mass written above it, which needs room on both sides.
    ax.margins(x=0.08)
    ax.set_ylim(0, 1.3 * (view.top or 1.0))
    ax.set_xlabel("eigenvalue")
    ax.set_ylabel(view.ylabel)
    ax.legend(frameon=False, loc="upper center", ncols=2)
    return ax


def _view(ax: "Axes", t: Real, density: Real) -> layout.View:
    """The axes that suit the law; those of what has been drawn there before stay as they are, or grow."""
    found = layout.view([(t, density)])
    if not ax.has_data():
        return found
    decades = ax.get_xscale() == "log"
    drawn = layout.heights(t, density, decades=decades)
    here = float(drawn[np.isfinite(drawn)].max(initial=0.0)) if decades else found.top
    return layout.View(decades, max(here, ax.get_ylim()[1] / 1.3))


def _sampled(law: "Spectrum", size: int, seed: int | None, decades: bool) -> tuple[Real, Real]:
    eigenvalues = np.linalg.eigvalsh(law.matrix(size, seed))
    total, scale = len(eigenvalues), np.abs(eigenvalues).max()
    for place, _ in law.atoms:
        eigenvalues = eigenvalues[np.abs(eigenvalues - place) > 1e-9 * scale]
    return layout.histogram(eigenvalues, total, 70, decades=decades)


def _atom(ax: "Axes", place: float, mass: float, view: layout.View) -> None:
    """An arrow with the mass above it; what has no place on a logarithmic axis stands in the legend."""
    if view.decades and place <= 0:
        ax.plot([], [], " ", label=f"mass {mass:.3g} at {place:.3g}")
        return
    top = view.top or 1.0
    ax.annotate("", xy=(place, top), xytext=(place, 0), arrowprops={"arrowstyle": "->", "color": ATOM})
    ax.text(place, 1.03 * top, f"{mass:.3g}", color=ATOM, ha="center", va="bottom")


def current_axes() -> "Axes":
    """Return pyplot's current axes, as every plotting library does; imported only when asked for."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "pictures need matplotlib, which is not installed: install matplotlib."
        ) from None
    return pyplot.gca()
