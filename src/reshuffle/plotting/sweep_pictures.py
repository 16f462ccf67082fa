"""Answers of `sweep`: over two dimensions as a map, along one as curves."""

from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle.grid import select
from reshuffle.plotting.picture_style import COLOURS, axes, plain, scale_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from xarray import DataArray


def heat_map(answer: "DataArray", x: str, y: str, *, ax: "Axes | None" = None, **chosen: Any) -> "Axes":
    """Draw an answer of `sweep` over two dimensions; a star marks the least, and what diverges is hatched.

    Parameters
    ----------
    answer : DataArray
        A variable of the dataset, such as found["risk"].
    x, y : str
        The dimensions along the axes.
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.
    **chosen
        The values of other dimensions, such as epochs=100; without epochs every point stops when it is best.

    Returns
    -------
    Axes

    >>> import reshuffle as rs
    >>> over = {"batches": [1, 2, 4], "alpha": [0.1, 0.2, 0.4]}
    >>> found = rs.sweep(rs.gaussian(20, 30, seed=1), over=over)
    >>> heat_map(found["risk"], "alpha", "batches", ax=rs.plotting.figure(5, 4).add_subplot()).get_ylabel()
    'number of batches'
    """
    shown, ax = select.part(answer, (y, x), chosen), axes(ax)
    values = np.asarray(shown, dtype=np.float64)
    across, along = select.edges(shown[x]), select.edges(shown[y])
    masked = np.ma.masked_invalid(values)
    least, most = select.worth_showing(values, _TIMES_THE_MIDDLE)
    scale = "log" if 0 < _SPANS * least < most else "linear"
    mesh = ax.pcolormesh(across, along, np.clip(masked, None, most), cmap="cividis_r", norm=scale)
    if np.isfinite(values).any():
        at_best = "" if "epochs" in chosen or "epochs" not in answer.dims else "\nat the best epoch of each"
        more = "max" if (masked > most).any() else "neither"
        ax.figure.colorbar(mesh, ax=ax, label=select.words(answer) + at_best, extend=more)
        row, column = np.unravel_index(int(np.argmin(masked.filled(np.inf))), values.shape)
        place = select.middle(shown[x], int(column)), select.middle(shown[y], int(row))
        ax.plot(*place, "*", markersize=13, color="white", markeredgecolor="black", label="least")
    for missing, hatch, word in (
        (np.isinf(values), "///", "diverges"),
        (np.isnan(values), "...", "no answer"),
    ):
        for number, (row, column) in enumerate(np.argwhere(missing)):
            left, right, low, high = *across[column : column + 2], *along[row : row + 2]
            corners = [left, right, right, left], [low, low, high, high]
            ax.fill(*corners, **_MISSING, hatch=hatch, label=word if number == 0 else None)
    _spread_axis(ax, "x", shown[x])
    _spread_axis(ax, "y", shown[y])
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=8)
    return ax


_TIMES_THE_MIDDLE = 3.0
"""How far beyond the median value colours go: what is on its way to infinity would leave none for the rest."""
_FAR = 1e4
"""The same of curves."""
_SPANS = 30.0
"""The ratio of values from which colours go by their logarithm."""
_MISSING: dict[str, Any] = {"facecolor": "#dddddd", "edgecolor": "#777777", "linewidth": 0.0}
_FEW_TICKS = 10


def _spread_axis(ax: "Axes", axis: str, points: "DataArray") -> None:
    """Label an axis of a sweep, logarithmic where its points are, with a tick at each if they are few."""
    set_scale, set_ticks, set_label = (
        getattr(ax, f"set_{axis}{what}") for what in ("scale", "ticks", "label")
    )
    if select.is_geometric(points):
        set_scale("log")
    if len(points) <= _FEW_TICKS or not select.is_numeric(points):
        where = [select.middle(points, number) for number in range(len(points))]
        set_ticks(where, [select.label(value) for value in points.values])
        set_ticks([], minor=True)
    set_label(select.words(points))


def sweep_curves(
    answer: "DataArray", x: str = "epochs", by: str | None = None, *, ax: "Axes | None" = None, **chosen: Any
) -> "Axes":
    """Draw an answer of `sweep` along one dimension, a line for each value of another; what diverges leaves it.

    Parameters
    ----------
    answer : DataArray
        A variable of the dataset, such as found["risk"].
    x : str
        The dimension along the axis.
    by : str, optional
        The dimension that lines differ in.
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.
    **chosen
        The values of other dimensions.

    Returns
    -------
    Axes

    >>> import reshuffle as rs
    >>> found = rs.sweep(rs.gaussian(20, 30, seed=1), over={"batches": [1, 2, 4]}, alpha=0.2, epochs=range(50))
    >>> ax = sweep_curves(found["risk"], by="batches", ax=rs.plotting.figure(5, 4).add_subplot())
    >>> [line.get_label() for line in ax.get_lines()]
    ['1', '2', '4']
    """
    shown, ax = select.part(answer, (x,) if by is None else (by, x), chosen), axes(ax)
    lines = np.atleast_2d(np.asarray(shown, dtype=np.float64))
    _, most = select.worth_showing(lines, _FAR)
    labels = [""] if by is None else [select.label(value) for value in shown[by].values]
    points = shown[x].values if select.is_numeric(shown[x]) else np.arange(shown.sizes[x])
    told_lines = np.linspace(0, len(labels) - 1, min(len(labels), len(COLOURS))).round()
    for number, (values, label) in enumerate(zip(lines, labels, strict=True)):
        shown_here = values <= most
        told = label if shown_here.any() else f"{label} (diverges)"
        told = told if number in told_lines else f"_{told}"
        shade = COLOURS[number] if len(labels) <= len(COLOURS) else _shade(number / (len(labels) - 1))
        ax.plot(points, np.where(shown_here, values, np.nan), color=shade, linewidth=1.6, label=told)
    _spread_axis(ax, "x", shown[x])
    plain(scale_values(ax), select.words(shown[x]), select.words(answer))
    if by is not None:
        ax.legend(title=select.words(shown[by]), frameon=False, fontsize=8, title_fontsize=8)
    return ax


def _shade(share: float) -> Any:
    from matplotlib import colormaps

    return colormaps["cividis"](0.95 * share)
