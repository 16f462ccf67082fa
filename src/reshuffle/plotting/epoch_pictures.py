"""Curves over the epochs: risk, loss, what was simulated, and the best epoch."""

from typing import TYPE_CHECKING

import numpy as np

from reshuffle._arrays import FloatArray
from reshuffle.plotting.picture_style import COLOURS, axes, plain
from reshuffle.run.trajectory import Risk
from reshuffle.simulation import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def risk_curve(
    risk: Risk, *, label: str, colour: str = COLOURS[0], style: str = "-", ax: "Axes | None" = None
) -> "Axes":
    """Draw the total risk against the epochs it was asked for.

    Parameters
    ----------
    risk : Risk
        At epochs in one dimension.
    label : str
        For the legend.
    colour : str
        Any colour of matplotlib's.
    style : str
        Of the line, as matplotlib writes it.
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    Axes
    """
    return curve(
        risk.epochs,
        risk.total,
        label=label,
        colour=colour,
        style=style,
        ylabel="risk of the mean iterate",
        ax=ax,
    )


def curve(
    epochs: FloatArray,
    values: FloatArray,
    *,
    label: str,
    colour: str = COLOURS[0],
    style: str = "-",
    ylabel: str = "loss",
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw any quantity against the epochs; what diverges leaves the picture.

    Parameters
    ----------
    epochs, values : (k,)
    label : str
        For the legend.
    colour : str
        Any colour of matplotlib's.
    style : str
        Of the line, as matplotlib writes it.
    ylabel : str
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    Axes
    """
    ax = axes(ax)
    shown = np.where(np.isfinite(values), values, np.nan)
    ax.plot(epochs, shown, color=colour, label=label, linewidth=1.6, linestyle=style)
    return plain(ax, "epochs", ylabel)


def simulated_band(
    epochs: FloatArray, estimate: Estimate, *, label: str, colour: str = COLOURS[0], ax: "Axes | None" = None
) -> "Axes":
    """Draw a simulated mean with a band of two standard errors.

    Parameters
    ----------
    epochs : (k,)
    estimate : Estimate
        Mean and standard error at these epochs.
    label : str
        For the legend.
    colour : str
        Any colour of matplotlib's.
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    Axes
    """
    ax = axes(ax)
    low = estimate.mean - 2 * estimate.standard_error
    high = estimate.mean + 2 * estimate.standard_error
    ax.fill_between(np.asarray(epochs), low, high, color=colour, alpha=0.25, linewidth=0, label=label)
    return ax


def mark_best(epoch: float, risk: float, *, colour: str = COLOURS[0], ax: "Axes | None" = None) -> "Axes":
    """Mark the best stopping time, if it is finite.

    Parameters
    ----------
    epoch, risk : float
        Where.
    colour : str
        Any colour of matplotlib's.
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    Axes
    """
    ax = axes(ax)
    if np.isfinite(epoch):
        ax.plot([epoch], [risk], marker="o", markersize=5, color=colour, zorder=3)
    return ax
