"""What planning answers: schemes beside each other, matched steps, explained fits, plans."""

from typing import TYPE_CHECKING, Any

import numpy as np

from reshuffle._uncertainty import significant
from reshuffle.planning import Explanation, Match, Plan, SchemeComparison
from reshuffle.plotting.epoch_pictures import curve
from reshuffle.plotting.picture_style import COLOURS, axes, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def scheme_comparison(
    comparison: SchemeComparison, *, epoch: float | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw what each way of shuffling has after one of the epochs: of its mean iterate, and of a single run.

    A line joins the two: the spread from shuffling. What diverges or is not known is said in words. A dashed line
    marks the full batch.

    Parameters
    ----------
    comparison : SchemeComparison
    epoch : float, optional
        One of those that were compared; the last by default.
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    Axes
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


_HOLLOW: dict[str, Any] = {"color": "white", "markeredgecolor": COLOURS[0], "markeredgewidth": 1.5}


def step_match(match: Match, *, ax: "Axes | None" = None) -> "Axes":
    """Draw how far each rule for the step is from the trajectory that was to be matched, epoch by epoch.

    Parameters
    ----------
    match : Match
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    Axes
    """
    ax = axes(ax)
    rules = (
        ("nearest", match.step, match.distances),
        ("linear", match.linear.step, match.linear.distances),
        ("square root", match.square_root.step, match.square_root.distances),
    )
    for colour, (name, step, distances) in zip(COLOURS, rules, strict=False):
        rule = name if name == "nearest" else f"{name} rule"
        label = f"{rule}, step {significant(step, 3)}"
        curve(match.epochs, distances, label=label, colour=colour, ax=ax)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.legend(frameon=False, fontsize=8)
    ax.set_title(f"batches of {match.batch_size}", fontsize=9)
    return plain(ax, "epochs", "distance from the run, over its way")


def explanation(explained: Explanation, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the shares of what keeps a fit from the least-squares solution, the slowest modes within theirs.

    Bars to the left of zero point against the difference.

    Parameters
    ----------
    explained : Explanation
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    Axes
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


_MODES_SHOWN = 20


def plan_map(plan: Plan, *, at_chosen_epoch: bool = False, ax: "Axes | None" = None) -> "Axes":
    """Draw what wrong steps and batch sizes cost, in per cent of the least test error, as a map.

    Every cell stops when it is best for it, or after as many epochs as the best recipe; a ring marks the latter.

    Parameters
    ----------
    plan : Plan
    at_chosen_epoch : bool
        Whether every cell stops with the best recipe, in place of when it is best for itself.
    ax : Axes, optional
        Where to draw; pyplot's current axes by default.

    Returns
    -------
    Axes
    """
    ax = axes(ax)
    errors = plan.at_chosen_epoch if at_chosen_epoch else plan.at_best_epoch
    least = float(plan.at_best_epoch.min())
    above = 100 * (errors / least - 1) if least > 0 else errors - least
    ax.imshow(np.log10(np.clip(above, 1e-2, 1e3)), cmap="cividis_r", aspect="auto", vmin=-2.0, vmax=3.0)
    for (row, column), value in np.ndenumerate(above):
        words = significant(value, 2)
        dark = "white" if value > _DARK else "black"
        ax.annotate(words, (column, row), ha="center", va="center", fontsize=7, color=dark)
    ring = (
        int(np.argmin(np.abs(plan.shares - plan.best.share))),
        int(np.argmin(np.abs(plan.batch_sizes - plan.best.batch_size))),
    )
    ax.plot(*ring, marker="o", markersize=24, markerfacecolor="none", markeredgecolor=COLOURS[1])
    ax.set_xticks(range(len(plan.shares)), [significant(share, 2) for share in plan.shares], fontsize=8)
    ax.set_yticks(range(len(plan.batch_sizes)), [f"{size:g}" for size in plan.batch_sizes])
    when = f"after {plan.best.epochs} epochs" if at_chosen_epoch else "at the best epoch of each"
    ax.set_title(f"test error above the least, per cent, {when}", fontsize=9)
    return plain(ax, "step, in safe steps", "batch size")


_DARK = 3.0
"""Per cent from which a cell is dark."""
