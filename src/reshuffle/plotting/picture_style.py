"""What all pictures share: axes and figures, their labels and scales, and one colour and one name per scheme."""

import math
from typing import TYPE_CHECKING

import numpy as np

from reshuffle.free.plot import current_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito, which colour-blind readers can tell apart."""

SCHEME_COLOURS = {
    "full-batch": "#0072B2",
    "reshuffling": "#D55E00",
    "with-replacement": "#009E73",
    "sample-reshuffling": "#CC79A7",
    "shuffle-once": "#E69F00",
    "cyclic": "#56B4E9",
}
"""One hue per scheme, in every picture; more batches make it darker."""


def axes(ax: "Axes | None" = None) -> "Axes":
    """Return `ax`, or pyplot's current axes.

    Parameters
    ----------
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    Axes
    """
    return current_axes() if ax is None else ax


def figure(width: float, height: float) -> "Figure":
    """A new figure, in inches. Not one of pyplot's: it is freed with its axes, and needs no display.

    Parameters
    ----------
    width, height : float
        In inches.

    Returns
    -------
    Figure
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "pictures need matplotlib, which is not installed: install matplotlib."
        ) from None
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def scheme_colour(scheme: str, batches: int) -> str:
    """The colour of a scheme: its hue, the darker the more batches, and blue for one batch in any scheme.

    Parameters
    ----------
    scheme : str
        Its name on the command line, such as "reshuffling".
    batches : int
        Per epoch.

    Returns
    -------
    str
        A colour as #rrggbb.

    >>> [scheme_colour("reshuffling", batches) for batches in (1, 2, 4, 8)]
    ['#0072b2', '#dd7e33', '#954200', '#552600']
    """
    if batches == 1:
        scheme = "full-batch"
    hue = SCHEME_COLOURS.get(scheme, "#000000")
    channels = [int(hue[k : k + 2], 16) for k in (1, 3, 5)]
    if batches > 1:
        doublings = min(math.log2(batches), 4.0)
        white, shade = max(0.0, 0.2 * (2 - doublings)), 1 - 0.3 * max(0.0, doublings - 1)
        channels = [round((channel + white * (255 - channel)) * max(shade, 0.2)) for channel in channels]
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def scheme_label(scheme: str, batches: int) -> str:
    """How legends name a scheme.

    Parameters
    ----------
    scheme : str
        Its name on the command line, such as "reshuffling".
    batches : int
        Per epoch.

    Returns
    -------
    str

    >>> scheme_label("reshuffling", 1), scheme_label("reshuffling", 4), scheme_label("cyclic", 4)
    ('full batch', '4 batches', '4 batches, cyclic')
    """
    if batches == 1 or scheme == "full-batch":
        return "full batch"
    return f"{batches} batches" + ("" if scheme == "reshuffling" else f", {scheme.replace('-', ' ')}")


def plain(ax: "Axes", xlabel: str, ylabel: str) -> "Axes":
    """Label the axes and leave out what carries no information.

    Parameters
    ----------
    ax : Axes
    xlabel, ylabel : str

    Returns
    -------
    Axes
        The same.
    """
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def scale_values(ax: "Axes") -> "Axes":
    """Make the values' axis logarithmic where the curves span more than 300 times, as those that diverge do.

    Parameters
    ----------
    ax : Axes

    Returns
    -------
    Axes
        The same.
    """
    values = np.concatenate([np.asarray(line.get_ydata(), dtype=np.float64) for line in ax.get_lines()])
    known = values[np.isfinite(values)]
    if known.size and known.min() > 0 and known.max() > 300 * known.min():
        ax.set_yscale("log")
    return ax
