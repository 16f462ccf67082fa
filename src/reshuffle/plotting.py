"""Pictures of results: functions that take results and an optional `ax`, and return `ax`."""

from typing import TYPE_CHECKING

import numpy as np

from reshuffle.arrays import FloatArray
from reshuffle.risk import Risk
from reshuffle.simulation import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The palette of Okabe and Ito, which colour-blind readers can tell apart."""


def axes(ax: "Axes | None" = None) -> "Axes":
    """Return `ax`, or new axes on a figure of their own."""
    return figure(6.4, 4.0).add_subplot() if ax is None else ax


def figure(width: float, height: float) -> "Figure":
    """A new figure, in inches. Not one of pyplot's: it is freed with its axes, and needs no display."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "pictures need matplotlib, which is not installed; try pip install 'reshuffle[plot]'."
        ) from None
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def risk_curve(risk: Risk, *, label: str, colour: str = COLOURS[0], ax: "Axes | None" = None) -> "Axes":
    """Draw the total risk against the epochs it was asked for."""
    ax = axes(ax)
    ax.plot(risk.epochs, risk.total, color=colour, label=label, linewidth=1.6)
    ax.set_xlabel("epochs")
    ax.set_ylabel("risk of the mean iterate")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def simulated_band(
    epochs: FloatArray, estimate: Estimate, *, label: str, colour: str = COLOURS[0], ax: "Axes | None" = None
) -> "Axes":
    """Draw a simulated mean with a band of two standard errors."""
    ax = axes(ax)
    low = estimate.mean - 2 * estimate.standard_error
    high = estimate.mean + 2 * estimate.standard_error
    ax.fill_between(np.asarray(epochs), low, high, color=colour, alpha=0.25, linewidth=0, label=label)
    return ax


def mark_best(epoch: float, risk: float, *, colour: str = COLOURS[0], ax: "Axes | None" = None) -> "Axes":
    """Mark the best stopping time, if it is finite."""
    ax = axes(ax)
    if np.isfinite(epoch):
        ax.plot([epoch], [risk], marker="o", markersize=5, color=colour, zorder=3)
    return ax
