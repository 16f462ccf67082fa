"""The pictures of ways to shuffle: single runs around their mean, and what each way costs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from reshuffle.cli import render
from reshuffle.page import drawing
from reshuffle.page.tab import Picture

if TYPE_CHECKING:
    import reshuffle as rs
    from reshuffle._arrays import FloatArray

_BEYOND = 1e100
"""What diverges."""


def runs_picture(
    problem: "rs.LeastSquares",
    schemes: "Mapping[str, rs.Scheme]",
    alpha: float,
    epochs: "FloatArray",
    *,
    runs: int,
    drawn: int,
) -> Picture:
    """A panel per scheme: a few of its runs, and the mean of many."""
    import numpy as np

    import reshuffle as rs
    from reshuffle.simulation import single_run_risks

    found = {
        name: single_run_risks(problem, scheme, alpha=alpha, epochs=epochs, runs=runs)
        for name, scheme in {"full batch": rs.FullBatch(), **schemes}.items()
    }
    last = {name: float(risks[-1].mean()) for name, risks in found.items()}
    panels = drawing.panels(4, 2, "epochs", "test error of single runs, and their mean")
    start = float(found["full batch"][0, 0])
    least = min(float(risks.min()) for risks in found.values())
    # After the first steps, which all have in common; what diverges leaves through the top.
    later = [risks[min(2, len(epochs) - 1) :] for risks in found.values()]
    highest = max(float(np.where(risks < 1.2 * start, risks, 0.0).max()) for risks in later)
    top = max(highest, 1.1 * least)
    columns: dict[str, list[float | str]] = {"scheme": [], "run": [], "epoch": [], "risk": []}
    for ax, (name, risks) in zip(panels, found.items(), strict=True):
        for number in range(drawn):
            drawing.line(ax, epochs, risks[:, number], "", drawing.SECOND, linewidth=0.8, alpha=0.55)
        drawing.line(ax, epochs, risks.mean(axis=1), "", drawing.FIRST, linewidth=2.0)
        ax.set_title(name, color=drawing.INK, fontsize=10, loc="left", y=1.03, pad=0)
        ax.set_ylim(least - 0.1 * (top - least), top + 0.1 * (top - least))
        for number in ("mean", *range(drawn)):
            values = risks.mean(axis=1) if number == "mean" else risks[:, int(number)]
            columns["scheme"] += [name] * len(epochs)
            columns["run"] += [str(number)] * len(epochs)
            columns["epoch"] += epochs.tolist()
            columns["risk"] += values.tolist()
    ends = ", ".join(f"{name} {_word(value)}" for name, value in last.items())
    words = (
        f"Test error of {drawn} single runs of each scheme on one problem, and the mean of {runs}. "
        f"After {np.max(epochs):g} epochs the mean is: {ends}."
    )
    return Picture("runs", "Single runs around their mean", drawing.document(panels[0]), words, columns)


def price_picture(rows: Mapping[str, Mapping[str, float]], epochs: int) -> Picture:
    """Of every scheme the mean iterate, and a single run: the line between them is the spread."""
    ax = drawing.axes(f"test error after {epochs} epoch{'s' * (epochs != 1)}", "", size=(4.9, 4.3))
    ax.set_position((0.33, 0.12, 0.64, 0.78))
    ax.grid(visible=False)
    ax.grid(axis="x", color=drawing.FAINT, linewidth=0.6)
    style: dict[str, Any] = {"linestyle": "", "markersize": 6.5, "zorder": 4}
    shown = {name: row for name, row in rows.items() if row["mean"] + row["spread"] < _BEYOND}
    for place, (name, row) in enumerate(rows.items()):
        if name in shown:
            total = row["mean"] + row["spread"]
            ax.plot([row["mean"], total], [place, place], color=drawing.SECOND, linewidth=2.0, zorder=3)
            ax.plot([total], [place], "o", color=drawing.SECOND, **style)
            ax.plot([row["mean"]], [place], "D", color=drawing.FIRST, **style)
        else:
            ax.annotate(_word(row["mean"] + row["spread"]), (0.02, place), xycoords=("axes fraction", "data"),
                        va="center", color=drawing.INK, fontsize=9)  # fmt: skip
    if "full batch" in shown:
        ax.axvline(shown["full batch"]["mean"], color=drawing.GREY, linewidth=1.0, linestyle=":")
    ax.plot([], [], "D", color=drawing.FIRST, label="mean iterate", **style)
    ax.plot([], [], "o", color=drawing.SECOND, label="one run", **style)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.legend(
        frameon=False,
        fontsize=9,
        labelcolor=drawing.INK,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=2,
    )
    told = "; ".join(
        f"{name}: mean iterate {_word(row['mean'])}, one run {_word(row['mean'] + row['spread'])}"
        for name, row in rows.items()
    )
    columns: dict[str, list[float | str]] = {
        "scheme": list(rows),
        "mean": [row["mean"] for row in rows.values()],
        "spread": [row["spread"] for row in rows.values()],
    }
    return Picture("price", "The price of each way", drawing.document(ax), f"Test error. {told}.", columns)


def _word(value: float) -> str:
    """A number, or a word for what is none.

    >>> _word(0.51234), _word(float("inf")), _word(float("nan"))
    ('0.5123', 'diverges', 'not known')
    """
    return "not known" if value != value else render.number(value, 4) if value < _BEYOND else "diverges"
