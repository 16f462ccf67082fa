"""Pictures of results: functions that draw on `ax`, or on pyplot's current axes, and return them."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from reshuffle._arrays import FloatArray
from reshuffle._uncertainty import significant
from reshuffle.errors import ArgumentError
from reshuffle.free import plot as laws
from reshuffle.grid.workers import required

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from xarray import DataArray

    from reshuffle.free.laws import Law
    from reshuffle.planning import Explanation, Match, Plan, SchemeComparison
    from reshuffle.run.trajectory import Risk
    from reshuffle.simulation import Estimate
    from reshuffle.validation import Influence

__all__ = [
    "axes", "curve", "explanation", "figure", "heat_map", "influential_rows", "mark_best", "plain", "plan_map",
    "risk_curve", "scale_values", "scheme_colour", "scheme_comparison", "scheme_label", "simulated_band",
    "spectrum_curve", "spectrum_histogram", "step_match", "sweep_curves",
]  # fmt: skip

COLOURS = laws.COLOURS
"""The palette of Okabe and Ito, which colour-blind readers can tell apart."""
GREY = "#777777"
"""Guides, and all that is no result."""
_SCHEMES = ("full-batch", "reshuffling", "with-replacement", "sample-reshuffling", "shuffle-once", "cyclic")
SCHEME_COLOURS = dict(zip(_SCHEMES, COLOURS, strict=False))
"""One hue per scheme, in every picture; more batches make it darker."""

_TIMES_THE_MIDDLE = 3.0
"""Multiple of the median at which the colour scale ends: diverging values would leave no colours for the rest."""
_FAR = 1e4
"""Multiple of the median at which the axis of curves ends."""
_SPANS = 30.0
"""The ratio of values from which colours go by their logarithm."""
_MISSING: dict[str, Any] = {"facecolor": "#dddddd", "edgecolor": GREY, "linewidth": 0.0}
_HOLLOW: dict[str, Any] = {"color": "white", "markeredgecolor": COLOURS[0], "markeredgewidth": 1.5}
_FEW_TICKS, _MODES_SHOWN = 10, 20
_DARK = 3.0
"""Per cent from which a cell of a plan's map is dark."""

spectrum_points, spectrum_view = laws.points, laws.view


_AX = """ax : Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    Axes"""
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _with_ax(draw: _Function) -> _Function:
    """Complete the docstring of a function that draws on `ax` and returns it."""
    draw.__doc__ = (draw.__doc__ or "").replace("{ax}", _AX)
    return draw


@_with_ax
def axes(ax: "Axes | None" = None) -> "Axes":
    """Return `ax`, or pyplot's current axes.

    Parameters
    ----------
    {ax}
    """
    return laws.current_axes() if ax is None else ax


def figure(width: float, height: float) -> "Figure":
    """Return a new figure, which is not one of pyplot's: it is freed with its axes, and needs no display.

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
        raise ModuleNotFoundError(laws.NO_MATPLOTLIB) from None
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def plain(ax: "Axes", xlabel: str, ylabel: str) -> "Axes":
    """Label the axes, leave out what carries no information, and return `ax`.

    Parameters
    ----------
    ax : Axes
    xlabel, ylabel : str

    Returns
    -------
    Axes
    """
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def scale_values(ax: "Axes") -> "Axes":
    """Make the values' axis logarithmic where curves span more than 300 times, as diverging ones do; return `ax`.

    Parameters
    ----------
    ax : Axes

    Returns
    -------
    Axes
    """
    values = np.concatenate([np.asarray(line.get_ydata(), dtype=np.float64) for line in ax.get_lines()])
    known = values[np.isfinite(values)]
    if known.size and known.min() > 0 and known.max() > 300 * known.min():
        ax.set_yscale("log")
    return ax


def scheme_colour(scheme: str, batches: int) -> str:
    """Return the colour of a scheme as #rrggbb: the darker the more batches, and blue for one batch in any scheme.

    Parameters
    ----------
    scheme : str
        Its name on the command line, such as "reshuffling".
    batches : int
        Per epoch.

    Returns
    -------
    str

    >>> [scheme_colour("reshuffling", batches) for batches in (1, 2, 4, 8)]
    ['#0072b2', '#dd7e33', '#954200', '#552600']
    """
    hue = SCHEME_COLOURS.get("full-batch" if batches == 1 else scheme, "#000000")
    channels = [int(hue[k : k + 2], 16) for k in (1, 3, 5)]
    if batches > 1:
        doublings = min(math.log2(batches), 4.0)
        white, shade = max(0.0, 0.2 * (2 - doublings)), 1 - 0.3 * max(0.0, doublings - 1)
        channels = [round((channel + white * (255 - channel)) * max(shade, 0.2)) for channel in channels]
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def scheme_label(scheme: str, batches: int) -> str:
    """Return the name of a scheme in legends.

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


@_with_ax
def curve(
    epochs: ArrayLike,
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
    label, colour, style, ylabel : str
        For the legend, the line as matplotlib writes it, and its axis.
    {ax}
    """
    ax = axes(ax)
    shown = np.where(np.isfinite(values), values, np.nan)
    ax.plot(np.asarray(epochs), shown, color=colour, label=label, linewidth=1.6, linestyle=style)
    return plain(ax, "epochs", ylabel)


@_with_ax
def risk_curve(
    risk: "Risk", *, label: str, colour: str = COLOURS[0], style: str = "-", ax: "Axes | None" = None
) -> "Axes":
    """Draw the total risk against its epochs.

    Parameters
    ----------
    risk : Risk
        At epochs in one dimension.
    label, colour, style : str
        For the legend, and the line as matplotlib writes it.
    {ax}
    """
    ylabel = "risk of the mean iterate"
    return curve(risk.epochs, risk.total, label=label, colour=colour, style=style, ylabel=ylabel, ax=ax)


@_with_ax
def simulated_band(
    epochs: ArrayLike, estimate: "Estimate", *, label: str, colour: str = COLOURS[0], ax: "Axes | None" = None
) -> "Axes":
    """Draw a simulated mean with a band of two standard errors.

    Parameters
    ----------
    epochs : (k,)
    estimate : Estimate
        Mean and standard error at these epochs.
    label, colour : str
        For the legend, and the band.
    {ax}
    """
    ax = axes(ax)
    low, high = (estimate.mean + sign * estimate.standard_error for sign in (-2, 2))
    ax.fill_between(np.asarray(epochs), low, high, color=colour, alpha=0.25, linewidth=0, label=label)
    return ax


@_with_ax
def mark_best(epoch: float, risk: float, *, colour: str = COLOURS[0], ax: "Axes | None" = None) -> "Axes":
    """Mark the best stopping time, if it is finite.

    Parameters
    ----------
    epoch, risk : float
        Where.
    colour : str
        Any colour of matplotlib's.
    {ax}
    """
    ax = axes(ax)
    if np.isfinite(epoch):
        ax.plot([epoch], [risk], marker="o", markersize=5, color=colour, zorder=3)
    return ax


@_with_ax
def spectrum_curve(
    law: "Law",
    *,
    label: str,
    eigenvalues: FloatArray | None = None,
    colour: str = COLOURS[0],
    style: str = "-",
    decades: bool = False,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the density of a law over the histogram of a matrix; the label names the masses of its atoms.

    Parameters
    ----------
    law : Law, Spectrum or any other with `support`, `density` and `atoms`
    label : str
        For the legend.
    eigenvalues : (p,), optional
        Eigenvalues of one matrix, drawn by `spectrum_histogram` in the same colour.
    colour, style : str
        Colour and style of the line, as matplotlib writes them.
    decades : bool
        On a logarithmic axis, and per decade: the area below the curve is the mass there too.
    {ax}
    """
    ax = axes(ax)
    if eigenvalues is not None:
        laws.draw_histogram(ax, eigenvalues, f"{label}, one matrix", colour, decades=decades)
    masses = ", ".join(f"mass {significant(mass, 3)} at {significant(place, 3)}" for place, mass in law.atoms)
    label = f"{label} ({masses})" if masses else label
    laws.draw_density(ax, *laws.points(law), label, colour, style, decades=decades)
    return plain(ax, "eigenvalue", ax.get_ylabel())


@_with_ax
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
    label, colour : str
        For the legend, and the bars.
    bins : int
    decades : bool
        On a logarithmic axis, as in `spectrum_curve`.
    {ax}
    """
    ax = axes(ax)
    laws.draw_histogram(ax, eigenvalues, label, colour, bins, decades=decades)
    return plain(ax, "eigenvalue", ax.get_ylabel())


@_with_ax
def scheme_comparison(
    comparison: "SchemeComparison", *, epoch: float | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw the risk of each scheme after one of the epochs: of its mean iterate, and of a single run.

    A line joins the two: the spread from shuffling. What diverges or is not known is said in words. A dashed line
    marks the full batch.

    Parameters
    ----------
    comparison : SchemeComparison
    epoch : float, optional
        One of those that were compared; the last by default.
    {ax}
    """
    ax, place = axes(ax), comparison.place(epoch)
    for height, row in enumerate(comparison.rows):
        mean, run = (float(np.ravel(answer.value)[place]) for answer in (row.mean, row.total))
        grows = bool(np.isinf(row.distance.value)) or np.isinf(run)
        if grows or np.isnan(run):
            words = "diverges" if grows else "one run: not known"
            where: dict[str, Any] = {"xycoords": ax.get_yaxis_transform(), "ha": "right", "va": "center"}
            ax.annotate(words, (0.99, height), fontsize=8, **where)
        if not grows:
            error = float(np.ravel(row.total.error)[place])
            ax.plot([mean, run], [height, height], color=COLOURS[1], linewidth=2.0, zorder=2)
            ax.errorbar(run, height, xerr=error, fmt="o", color=COLOURS[1], capsize=3, zorder=3)
            ax.plot([mean], [height], "o", **_HOLLOW, zorder=4)
    full = comparison.full_batch
    if not np.isinf(full.distance.value):
        ax.axvline(np.ravel(full.total.value)[place], color="black", linewidth=0.8, linestyle="--", zorder=1)
    ax.plot([], [], "o", label="mean iterate", **_HOLLOW)
    ax.plot([], [], "o", label="one run", color=COLOURS[1])
    ax.set_yticks(range(len(comparison)), [row.name for row in comparison])
    ax.set_ylim(len(comparison) - 0.5, -0.5)
    ax.legend(frameon=False, fontsize=8)
    return plain(ax, comparison.title(epoch), "")


@_with_ax
def step_match(match: "Match", *, ax: "Axes | None" = None) -> "Axes":
    """Draw how far each rule for the step is from the trajectory that was to be matched, epoch by epoch.

    Parameters
    ----------
    match : Match
    {ax}
    """
    ax = axes(ax)
    rules: dict[str, Any] = {
        "nearest": match,
        "linear rule": match.linear,
        "square root rule": match.square_root,
    }
    for colour, (name, rule) in zip(COLOURS, rules.items(), strict=False):
        label = f"{name}, step {significant(rule.step, 3)}"
        curve(match.epochs, rule.distances, label=label, colour=colour, ax=ax)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.legend(frameon=False, fontsize=8)
    ax.set_title(f"batches of {match.batch_size}", fontsize=9)
    return plain(ax, "epochs", "distance from the run, over its way")


@_with_ax
def explanation(explained: "Explanation", *, ax: "Axes | None" = None) -> "Axes":
    """Draw the shares of what keeps a fit from the least-squares solution, the slowest modes within theirs.

    Bars to the left of zero point against the difference.

    Parameters
    ----------
    explained : Explanation
    {ax}
    """
    ax, parts = axes(ax), explained.parts
    for height, part in enumerate(parts):
        ax.barh(height, part.share, color=COLOURS[height], height=0.6)
        ax.annotate(f" {part.share:.1%}", (max(part.share, 0.0), height), va="center", fontsize=8)
        if part.name == "unconverged":
            edges = np.cumsum([mode.share for mode in explained.modes[:_MODES_SHOWN]])
            ax.vlines(edges, height - 0.3, height + 0.3, color="white", linewidth=0.8)
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(range(len(parts)), [part.name for part in parts])
    ax.set_ylim(len(parts) - 0.5, -0.5)
    ax.margins(x=0.15)
    return plain(ax, "share of the difference from least squares", "")


@_with_ax
def influential_rows(
    influence: "Influence", *, new_row: int = 0, most: int = 5, ax: "Axes | None" = None
) -> "Axes":
    """Draw along the epochs how the rows that move a prediction most change it when they are deleted.

    Parameters
    ----------
    influence : Influence
        Of a single output, at epochs in one dimension.
    new_row : int
        The number of the prediction among the new rows.
    most : int
        Rows that are named; all others are grey.
    {ax}
    """
    ax, values = axes(ax), influence.values[:, :, new_row]
    order = np.argsort(-np.abs(np.where(np.isfinite(values), values, 0.0)).max(axis=0), kind="stable")
    for place, colour in zip(order[:most], COLOURS, strict=False):
        curve(influence.epochs, values[:, place], label=f"row {influence.rows[place]}", colour=colour, ax=ax)
    ax.plot(influence.epochs, values[:, order[most:]], color=GREY, linewidth=0.4, alpha=0.4, zorder=0)
    ax.axhline(0.0, color="black", linewidth=0.8)
    ax.set_xscale("log")
    ax.legend(frameon=False, fontsize=8)
    return plain(ax, "epochs", "change of the prediction without the row")


@_with_ax
def plan_map(plan: "Plan", *, at_chosen_epoch: bool = False, ax: "Axes | None" = None) -> "Axes":
    """Draw what wrong steps and batch sizes cost, in per cent of the least test error, as a map.

    Every cell stops when it is best for it, or after as many epochs as the best recipe; a ring marks the latter.

    Parameters
    ----------
    plan : Plan
    at_chosen_epoch : bool
        If True, every cell stops at the epoch of the best recipe instead of at its own best epoch.
    {ax}
    """
    ax = axes(ax)
    errors = plan.at_chosen_epoch if at_chosen_epoch else plan.at_best_epoch
    least = float(plan.at_best_epoch.min())
    above = 100 * (errors / least - 1) if least > 0 else errors - least
    ax.imshow(np.log10(np.clip(above, 1e-2, 1e3)), cmap="cividis_r", aspect="auto", vmin=-2.0, vmax=3.0)
    for (row, column), value in np.ndenumerate(above):
        dark = "white" if value > _DARK else "black"
        ax.annotate(significant(value, 2), (column, row), ha="center", va="center", fontsize=7, color=dark)
    _, size, share, _ = plan.best.place
    ax.plot(share, size, marker="o", markersize=24, markerfacecolor="none", markeredgecolor=COLOURS[1])
    ax.set_xticks(range(len(plan.shares)), [significant(share, 2) for share in plan.shares], fontsize=8)
    ax.set_yticks(range(len(plan.batch_sizes)), [f"{size:g}" for size in plan.batch_sizes])
    when = f"after {plan.best.epochs} epochs" if at_chosen_epoch else "at the best epoch of each"
    ax.set_title(f"test error above the least, per cent, {when}", fontsize=9)
    return plain(ax, "step, in safe steps", "batch size")


def _part(answer: Any, dims: tuple[str, ...], chosen: dict[str, Any]) -> "DataArray":
    """The answer along some dimensions, at the nearest chosen value of others.

    Along epochs that are neither given nor chosen the least is taken: every point stops when it is best.
    """
    if not isinstance(answer, required("xarray", "sweep").DataArray):
        raise TypeError(
            f'answer must be a variable of a sweep, such as found["risk"], but it is a {type(answer).__name__}.'
        )
    for name in (*dims, *chosen):
        if name not in answer.dims:
            allowed = f"have the dimension {name!r}"
            raise ArgumentError("answer", allowed, f"it has {', '.join(map(str, answer.dims))}")
    for name, value in chosen.items():
        is_number = answer[name].dtype.kind in "iuf"
        answer = answer.sel({name: value}, method="nearest" if is_number else None)
    if "epochs" in answer.dims and "epochs" not in dims:
        answer = answer.min("epochs")
    answer = answer.squeeze([name for name in answer.dims if name not in dims and answer.sizes[name] == 1])
    left = [str(name) for name in answer.dims if name not in dims]
    if left:
        raise ValueError(
            f"answer has the dimensions {', '.join(left)} too; choose a value, such as {left[0]}=..."
        )
    made: DataArray = answer.transpose(*dims)
    return made


def _is_numeric(values: Any) -> bool:
    """True if points are placed by their values: finite numbers in ascending or descending order."""
    points = np.asarray(values)
    if points.dtype.kind not in "iuf" or not np.isfinite(points).all():
        return False
    return bool((np.diff(points) > 0).all() or (np.diff(points) < 0).all())


def _is_geometric(values: Any) -> bool:
    """True if points are more evenly spread in their logarithm."""
    points = np.asarray(values)
    if points.dtype.kind not in "iuf" or len(points) < 3 or not (points > 0).all() or np.isinf(points).any():
        return False
    linear, logarithmic = np.abs(np.diff(points)), np.abs(np.diff(np.log(points)))
    return bool(linear.max() / linear.min() > logarithmic.max() / logarithmic.min())


def _edges(values: Any) -> FloatArray:
    """Borders between points and beyond the outer ones (k + 1,); those of words and of infinity are their numbers.

    >>> _edges([1, 2, 4, 8]).round(3)
    array([ 0.707,  1.414,  2.828,  5.657, 11.314])
    """
    points = np.asarray(values)
    if not _is_numeric(points):
        return np.arange(len(points) + 1, dtype=np.float64) - 0.5
    along = np.log(points) if _is_geometric(points) else points.astype(np.float64)
    middle = (along[1:] + along[:-1]) / 2
    if not len(middle):
        return np.array([along[0] - 0.5, along[0] + 0.5])
    ends = np.array([2 * along[0] - middle[0], *middle, 2 * along[-1] - middle[-1]])
    return np.asarray(np.exp(ends) if _is_geometric(points) else ends, dtype=np.float64)


def _places(values: Any) -> list[float]:
    """The positions of points on an axis."""
    points = np.asarray(values)
    return points.astype(float).tolist() if _is_numeric(points) else [float(k) for k in range(len(points))]


def _worth_showing(values: FloatArray, times: float) -> tuple[float, float]:
    """The least and the most that a picture shows, at most so many times the median."""
    known = values[np.isfinite(values)]
    if not known.size:
        return 0.0, 0.0
    least, most = float(known.min()), float(known.max())
    return least, min(most, times * float(np.median(known))) if least > 0 else most


def _labels(points: "DataArray") -> list[str]:
    """The values of a dimension in words."""
    return [significant(value, 4) if isinstance(value, float) else str(value) for value in points.values]


def _words(array: "DataArray") -> str:
    """The label of an array, with its unit if it has one."""
    name, unit = array.attrs.get("long_name", array.name), array.attrs.get("units", "")
    return f"{name}, {unit}" if unit not in ("", "1", name) else str(name)


@_with_ax
def heat_map(answer: "DataArray", x: str, y: str, *, ax: "Axes | None" = None, **chosen: Any) -> "Axes":
    """Draw an answer of `sweep` over two dimensions; a star marks the least, and what diverges is hatched.

    Parameters
    ----------
    answer : DataArray
        A variable of the dataset, such as found["risk"].
    x, y : str
        The dimensions along the axes.
    **chosen
        The values of other dimensions, such as epochs=100; without epochs every point stops when it is best.
    {ax}

    >>> import reshuffle as rs
    >>> over = {"batches": [1, 2, 4], "alpha": [0.1, 0.2, 0.4]}
    >>> found = rs.sweep(rs.gaussian(20, 30, seed=1), over=over)
    >>> heat_map(found["risk"], "alpha", "batches", ax=rs.plotting.figure(5, 4).add_subplot()).get_ylabel()
    'number of batches'
    """
    shown, ax = _part(answer, (y, x), chosen), axes(ax)
    values = np.asarray(shown, dtype=np.float64)
    across, along = _edges(shown[x]), _edges(shown[y])
    masked = np.ma.masked_invalid(values)
    least, most = _worth_showing(values, _TIMES_THE_MIDDLE)
    scale = "log" if 0 < _SPANS * least < most else "linear"
    mesh = ax.pcolormesh(across, along, np.clip(masked, None, most), cmap="cividis_r", norm=scale)
    if np.isfinite(values).any():
        at_best = "" if "epochs" in chosen or "epochs" not in answer.dims else "\nat the best epoch of each"
        more = "max" if (masked > most).any() else "neither"
        ax.figure.colorbar(mesh, ax=ax, label=_words(answer) + at_best, extend=more)
        row, column = np.unravel_index(int(np.argmin(masked.filled(np.inf))), values.shape)
        place = _places(shown[x])[column], _places(shown[y])[row]
        ax.plot(*place, "*", markersize=13, color="white", markeredgecolor="black", label="least")
    unknown = ((np.isinf(values), "///", "diverges"), (np.isnan(values), "...", "no answer"))
    for missing, hatch, word in unknown:
        for number, (row, column) in enumerate(np.argwhere(missing)):
            left, right, low, high = *across[column : column + 2], *along[row : row + 2]
            corners = [left, right, right, left], [low, low, high, high]
            ax.fill(*corners, **_MISSING, hatch=hatch, label=word if number == 0 else None)
    _spread_axis(ax, "x", shown[x])
    _spread_axis(ax, "y", shown[y])
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False, fontsize=8)
    return ax


def _spread_axis(ax: "Axes", axis: str, points: "DataArray") -> None:
    """Label an axis of a sweep, logarithmic where its points are, with a tick at each if they are few."""
    set_scale, set_ticks, set_label = (
        getattr(ax, f"set_{axis}{what}") for what in ("scale", "ticks", "label")
    )
    if _is_geometric(points):
        set_scale("log")
    if len(points) <= _FEW_TICKS or not _is_numeric(points):
        set_ticks(_places(points), _labels(points))
        set_ticks([], minor=True)
    set_label(_words(points))


@_with_ax
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
    **chosen
        The values of other dimensions.
    {ax}

    >>> import reshuffle as rs
    >>> found = rs.sweep(rs.gaussian(20, 30, seed=1), over={"batches": [1, 2, 4]}, alpha=0.2, epochs=range(50))
    >>> ax = sweep_curves(found["risk"], by="batches", ax=rs.plotting.figure(5, 4).add_subplot())
    >>> [line.get_label() for line in ax.get_lines()]
    ['1', '2', '4']
    """
    shown, ax = _part(answer, (x,) if by is None else (by, x), chosen), axes(ax)
    lines = np.atleast_2d(np.asarray(shown, dtype=np.float64))
    _, most = _worth_showing(lines, _FAR)
    labels, points = [""] if by is None else _labels(shown[by]), _places(shown[x])
    named = np.linspace(0, len(labels) - 1, min(len(labels), len(COLOURS))).round()
    shades: tuple[Any, ...] = COLOURS
    if len(labels) > len(COLOURS):
        from matplotlib import colormaps

        shades = tuple(colormaps["cividis"](0.95 * np.arange(len(labels)) / (len(labels) - 1)))
    for number, (values, label) in enumerate(zip(lines, labels, strict=True)):
        seen = values <= most
        name = label if seen.any() else f"{label} (diverges)"
        # A label that begins with an underscore stays out of the legend.
        name = name if number in named else f"_{name}"
        ax.plot(points, np.where(seen, values, np.nan), color=shades[number], linewidth=1.6, label=name)
    _spread_axis(ax, "x", shown[x])
    plain(scale_values(ax), _words(shown[x]), _words(answer))
    if by is not None:
        ax.legend(title=_words(shown[by]), frameon=False, fontsize=8, title_fontsize=8)
    return ax
