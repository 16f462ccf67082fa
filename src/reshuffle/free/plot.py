"""Laws in a picture: the points of their curves, the axis and the height that show their mass, and the drawing."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reshuffle.free.checks import Real

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reshuffle.free.laws.law import Law

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito, which colour-blind readers can tell apart."""
NO_MATPLOTLIB = "pictures need matplotlib, which is not installed: install matplotlib."
HIDDEN = 0.1
"""The largest share of the mass that may lie above the top of a picture: the spikes at hard edges."""
CROWDED = 0.05
"""A curve that fills less than this share of its axes sits in a corner that nobody can read."""
DECADES = 6
"""Decades of a logarithmic axis, and of geometric points, for a law that reaches zero."""


class View(NamedTuple):
    """The axes of a picture.

    On a logarithmic axis of eigenvalues (``decades``) densities are per decade: areas are masses there too. ``top``
    is the height to show; 0 if there is no density at all.
    """

    decades: bool
    top: float

    @property
    def ylabel(self) -> str:
        """The label of the vertical axis."""
        return "density per decade" if self.decades else "density"


def points(law: "Law", count: int = 300) -> tuple[Real, Real]:
    """Return points and densities from end to end of the support, with nan between its intervals.

    Points are closest at the ends, and geometric too where an interval spans decades. At an end the density is
    zero, or inf at a hard edge.

    >>> from reshuffle import free
    >>> t, density = points(free.MarchenkoPastur(0.25, 0.4), 5)
    >>> t
    array([0.1       , 0.21715729, 0.5       , 0.78284271, 0.9       ])
    >>> density
    array([0.        , 2.07295914, 1.27323954, 0.57502976, 0.        ])
    """
    parts = []
    for low, high in law.support:
        t = _between(low, high, count)
        density = np.zeros(len(t))
        density[1:-1] = law.density(t[1:-1])
        for end, other, index in ((low, high, 0), (high, low, -1)):
            # Where it grows towards the end, it is a negative power of the distance there.
            near, far = np.asarray(law.density(end + (other - end) * np.array([1e-6, 1e-5])))
            density[index] = np.inf if near > 1.1 * far else 0.0
        parts += [np.stack([t, density]), np.full((2, 1), np.nan)]
    if not parts:
        return np.zeros(0), np.zeros(0)
    t, density = np.concatenate(parts[:-1], axis=1)
    return t, density


def view(curves: Sequence[tuple[Real, Real]]) -> View:
    """Return the axes on which all these curves (points, densities) can be read.

    Linear ones where possible, with all of the mass in sight but ``HIDDEN`` of it; and where it would be crowded
    into a corner, decades.
    """
    curves = [(t, density) for t, density in curves if t.size]
    if not curves:
        return View(False, 0.0)
    tops = []
    for t, density in curves:
        # All of the curve if it is then large enough to read, else the level with HIDDEN of the mass above it.
        top, finite = _highest(density), np.isfinite(density)
        if top != np.nanmax(density) or _filled(t, density, top) < CROWDED:
            order = np.argsort(density[finite])[::-1]
            levels, widths = density[finite][order], _weights(t)[finite][order]
            above = np.cumsum(widths * levels) - levels * np.cumsum(widths)
            found = int(np.searchsorted(above, HIDDEN * (widths * levels).sum()))
            top = float(levels[min(found, len(levels) - 1)])
        tops.append(top)
    crowded = any(_filled(*curve, top) < CROWDED for curve, top in zip(curves, tops, strict=True))
    if crowded and all(np.nanmin(t) >= 0 for t, _ in curves):
        return View(True, max(_highest(heights(*curve, decades=True)) for curve in curves))
    return View(False, max(tops))


def heights(t: Real, density: Real, *, decades: bool) -> Real:
    """Return what is drawn at t: the density, or that of log10 of the eigenvalue, ``t density log(10)``."""
    if not decades:
        return density
    # At zero, the left end of a logarithmic axis, t density vanishes or the mass would be infinite.
    return np.asarray(np.multiply(t, density * np.log(10), out=np.zeros(len(t)), where=t != 0))


def histogram(
    eigenvalues: Real, bins: int, *, atoms: Sequence[float] = (0.0,), decades: bool = False
) -> tuple[Real, Real]:
    """Return heights and cuts of a density to go with `heights`; eigenvalues at atoms are left out, but counted."""
    total, scale = len(eigenvalues), np.abs(eigenvalues).max(initial=1e-300)
    for place in atoms:
        eigenvalues = eigenvalues[np.abs(eigenvalues - place) > 1e-9 * scale]
    shown = np.log10(eigenvalues[eigenvalues > 0]) if decades else eigenvalues
    counts, cuts = np.histogram(shown, bins=bins)
    return counts / total / np.diff(cuts), 10.0**cuts if decades else cuts


def _between(low: float, high: float, count: int) -> Real:
    angle = np.linspace(0, np.pi, count)
    share = (1 - np.cos(angle)) / 2
    t = low + (high - low) * share
    small, large = max(low, 10.0**-DECADES * high), high
    if low < 0 or large < 100 * small:
        t[-1] = high
        return t
    # Half of them geometric; both ends are in the other half, where rounding cannot move them outside.
    inside = small * (large / small) ** share[1:-1:2]
    return np.unique(np.concatenate([[low], t[1:-1:2], inside, [high]]))


def _highest(values: Real) -> float:
    return float(values[np.isfinite(values)].max())


def _filled(t: Real, density: Real, top: float) -> float:
    """The share of a picture of this height that lies below the curve."""
    area = float(np.nansum(_weights(t) * np.minimum(density, top)))
    return area / (top * float(np.nanmax(t) - np.nanmin(t)) or 1.0)


def _weights(t: Real) -> Real:
    """The trapezoidal rule on each interval, 0 at the gaps."""
    steps = np.nan_to_num(np.diff(t))
    return np.asarray((np.append(steps, 0.0) + np.append(0.0, steps)) / 2)


def plot(law: "Law", ax: "Axes | None" = None, *, sample: int | None = None, seed: int | None = 0) -> "Axes":
    """Draw the density, atoms as arrows of their mass, and optionally a histogram of ``sample`` eigenvalues.

    On ``ax``, or on pyplot's current axes, which are returned; nothing is shown or saved. A law whose mass would
    be crowded into a corner is drawn on a logarithmic axis, with densities per decade.
    """
    ax = current_axes() if ax is None else ax
    t, density = points(law)
    seen = view([(t, density)])
    if ax.has_data():
        # The axes of what has been drawn there before stay as they are, or grow.
        decades = ax.get_xscale() == "log"
        drawn = heights(t, density, decades=decades)
        here = float(drawn[np.isfinite(drawn)].max(initial=0.0)) if decades else seen.top
        seen = View(decades, max(here, ax.get_ylim()[1] / 1.3))
    if sample is not None:
        places = [place for place, _ in law.atoms]
        eigenvalues = np.linalg.eigvalsh(law.matrix(sample, seed))
        label = f"one matrix of size {sample}"
        draw_histogram(ax, eigenvalues, label, bins=70, atoms=places, decades=seen.decades)
    draw_density(ax, t, density, "limiting law", decades=seen.decades)
    top = seen.top or 1.0
    for place, mass in law.atoms:
        if seen.decades and place <= 0:
            # A logarithmic axis cannot show it.
            ax.plot([], [], " ", label=f"mass {mass:.3g} at {place:.3g}")
            continue
        arrow = {"arrowstyle": "->", "color": COLOURS[1]}
        ax.annotate("", xy=(place, top), xytext=(place, 0), arrowprops=arrow)
        ax.text(place, 1.03 * top, f"{mass:.3g}", color=COLOURS[1], ha="center", va="bottom")
    # An atom at the end of the support has its mass written above it, which needs space on both sides.
    ax.margins(x=0.08)
    ax.set_ylim(0, 1.3 * top)
    ax.set_xlabel("eigenvalue")
    ax.legend(frameon=False, loc="upper center", ncols=2)
    return ax


def draw_density(
    ax: "Axes",
    t: Real,
    density: Real,
    label: str,
    colour: str = COLOURS[0],
    style: str = "-",
    *,
    decades: bool = False,
) -> None:
    """Draw a density as a line, per decade on a logarithmic axis."""
    drawn = heights(t, density, decades=decades)
    ax.plot(t, drawn, color=colour, linewidth=1.6, linestyle=style, label=label)
    _scale(ax, decades)


def draw_histogram(
    ax: "Axes",
    eigenvalues: Real,
    label: str,
    colour: str = COLOURS[0],
    bins: int = 60,
    *,
    atoms: Sequence[float] = (0.0,),
    decades: bool = False,
) -> None:
    """Draw the `histogram` of a matrix, light enough for the density of its law in the same colour."""
    counts, cuts = histogram(eigenvalues, bins, atoms=atoms, decades=decades)
    ax.stairs(counts, cuts, fill=True, color=colour, alpha=0.3, label=label)
    _scale(ax, decades)


def _scale(ax: "Axes", decades: bool) -> None:
    ax.set_ylabel(View(decades, 0.0).ylabel)
    if decades:
        ax.set_xscale("log")


def current_axes() -> "Axes":
    """Return pyplot's current axes, as every plotting library does; imported on first use."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:
        raise ModuleNotFoundError(NO_MATPLOTLIB) from None
    return pyplot.gca()
