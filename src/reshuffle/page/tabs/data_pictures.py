"""The pictures of a plan: leave-one-out along the epochs, and what other choices cost."""

from typing import TYPE_CHECKING

from reshuffle.cli import render
from reshuffle.page import drawing
from reshuffle.page.tab import Picture

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle.cli.advise import Advice


def leave_one_out_picture(advice: "Advice") -> Picture:
    """The root mean square error on rows that are left out, along the epochs."""
    import numpy as np

    from reshuffle.cli.advise import curves

    found, best = curves(advice), advice.plan.best
    ax = drawing.axes("epochs", "error on rows left out (RMSE)")
    drawing.logarithmic(ax, "x")
    columns: dict[str, list[float | str]] = {"epoch": found[0].x.tolist()}
    simple, least = float(np.sqrt(advice.plan.least_squares.mean_square)), float(np.sqrt(best.test_error))
    for one, colour, style in zip(found, drawing.SERIES, ("-", "--", "-.", ":"), strict=False):
        drawing.line(ax, one.x, one.y, one.label.partition(":")[0], colour, linestyle=style)
        columns[one.label] = one.y.tolist()
    ax.plot([best.epochs], [least], "o", color=drawing.FIRST, markersize=7, zorder=4)
    ax.axhline(simple, color=drawing.GREY, linewidth=1.2, linestyle=(0, (1, 3)), label="least squares")
    columns["least squares"] = [simple] * len(found[0].x)
    # The recommended curve is in sight, and what starts or ends far above it leaves through the top.
    top = max(float(found[0].y.max()), simple)
    ax.set_ylim(least - 0.08 * (min(top, 1.5 * least) - least), least + 1.7 * (min(top, 1.5 * least) - least))
    drawing.legend(ax, loc="upper right", fontsize=8.5)
    words = (
        f"Root mean square error of {advice.data.targets[0]} on rows that are left out, along the epochs: with the "
        f"recommended recipe smallest after {best.epochs} epochs, at {render.number(least, 4)}; "
        f"least squares has {render.number(simple, 4)}."
    )
    return Picture("leave-one-out", "Leave-one-out along the epochs", drawing.document(ax), words, columns)


def choices_picture(plan: "rs.Plan") -> Picture:
    """The least error of every batch size and learning rate."""
    import numpy as np

    ax = drawing.axes("learning rate", "error, stopped in time (RMSE)")
    drawing.logarithmic(ax, "x")
    place = plan.best.place[0]
    roots = np.sqrt(plan.at_best_epoch)
    columns: dict[str, list[float | str]] = {"batch_size": [], "learning_rate": [], "rmse": []}
    for size, safe, row, colour in zip(
        plan.batch_sizes, plan.safe_steps[place], roots, drawing.SERIES, strict=False
    ):
        label = "all rows" if size == plan.run.problem.n else f"batches of {size:g}"
        drawing.line(ax, plan.shares * safe, row, label, colour, marker="o", markersize=3)
        columns["batch_size"] += [float(size)] * len(row)
        columns["learning_rate"] += (plan.shares * safe).tolist()
        columns["rmse"] += row.tolist()
    low, high = float(roots.min()), float(roots[np.isfinite(roots)].max())
    ax.set_ylim(low - 0.05 * (high - low), min(high + 0.05 * (high - low), 1.5 * low))
    drawing.legend(ax, loc="upper left", fontsize=8.5)
    best = plan.best
    words = (
        "Least root mean square error of every batch size and learning rate, each stopped when it is best: "
        f"{render.number(np.sqrt(best.test_error), 4)} for batches of {best.batch_size} with learning rate "
        f"{render.number(best.step, 3)}; the largest of those shown is {render.number(high, 4)}."
    )
    return Picture("choices", "What other choices cost", drawing.document(ax), words, columns)
