"""Pictures as SVG documents: drawn with matplotlib's objects, of which no two share a state, and quickly."""

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from reshuffle._arrays import FloatArray

INK, FAINT, PAPER = "#1c2430", "#c3c9d2", "#fdfdfe"
"""Text and axes, grids, background: colours that nothing else has, so that a page can put in its own."""
FIRST, SECOND, THIRD, FOURTH, FIFTH, GREY = (
    "#0067a5", "#c04a00", "#007f5c", "#a3478c", "#8a6100", "#5f6875"
)  # fmt: skip
"""The hues of the library's pictures, dark enough to be read on white (at least 4.5 : 1)."""
SERIES = (FIRST, SECOND, THIRD, FOURTH, FIFTH, GREY)
SIZE = (4.9, 3.5)
_MARGINS = (0.115, 0.15, 0.865, 0.74)
_VARIABLES = {
    INK: "--ink", FAINT: "--faint", PAPER: "--card", FIRST: "--first", SECOND: "--second", THIRD: "--third",
    FOURTH: "--fourth", FIFTH: "--fifth", GREY: "--grey",
}  # fmt: skip


def axes(xlabel: str, ylabel: str, *, size: tuple[float, float] = SIZE) -> "Axes":
    """Empty axes on a figure of their own; the label of the heights stands above them, where it can be read."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, facecolor=PAPER)
    FigureCanvasSVG(figure)
    ax = figure.add_axes(_MARGINS, facecolor="none")
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(INK)
    ax.tick_params(colors=INK, labelsize=10, length=3)
    ax.set_xlabel(xlabel, color=INK, fontsize=11)
    # Labels at fixed places: matplotlib would measure every tick, several times, to find better ones.
    ax.xaxis.set_label_coords(0.5, -0.115)
    ax.set_title(ylabel, color=INK, fontsize=11, loc="left", y=1.04, pad=0)
    ax.grid(axis="y", color=FAINT, linewidth=0.6)
    ax.set_axisbelow(True)
    return ax


def panels(rows: int, columns: int, xlabel: str, ylabel: str) -> "list[Axes]":
    """Small axes beside and below each other, alike, on one figure."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(SIZE[0], 1.5 * rows + 0.7), facecolor=PAPER)
    FigureCanvasSVG(figure)
    figure.text(0.02, 0.985, ylabel, color=INK, fontsize=11, va="top")
    figure.text(0.55, 0.005, xlabel, color=INK, fontsize=11, ha="center", va="bottom")
    left, right, bottom, top, gap = 0.1, 0.99, 0.075, 0.975, 0.06
    width, height = (right - left - gap * (columns - 1)) / columns, (top - bottom) / rows
    made = []
    for place in range(rows * columns):
        row, column = divmod(place, columns)
        corner = (left + column * (width + gap), top - (row + 1) * height)
        ax = figure.add_axes((*corner, width, 0.68 * height), facecolor="none")
        ax.spines[["top", "right"]].set_visible(False)
        ax.spines[["left", "bottom"]].set_color(INK)
        ax.tick_params(colors=INK, labelsize=9, length=2, labelleft=column == 0, labelbottom=row == rows - 1)
        ax.grid(axis="y", color=FAINT, linewidth=0.5)
        made.append(ax)
    return made


def logarithmic(ax: "Axes", axis: str) -> None:
    """Powers of ten as plain numbers, without minor ticks: TeX and those are most of the time of a picture."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    getattr(ax, f"set_{axis}scale")("log")
    which = getattr(ax, f"{axis}axis")
    which.set_major_locator(LogLocator(10, numticks=7))
    which.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    which.set_minor_locator(NullLocator())


def line(ax: "Axes", x: "FloatArray", y: "FloatArray", label: str, colour: str, **style: Any) -> None:
    """A curve; what is not finite leaves the picture."""
    import numpy as np

    ax.plot(x, np.where(np.isfinite(y), y, np.nan), color=colour, label=label, **{"linewidth": 1.9, **style})


def heights(ax: "Axes", values: "Sequence[FloatArray]", *, largest: float | None = None) -> None:
    """Show all finite values from 0 on, but nothing above `largest`."""
    import numpy as np

    every = np.concatenate([np.ravel(one) for one in values])
    known = every[np.isfinite(every)]
    top = float(known.max(initial=0.0)) or 1.0
    ax.set_ylim(0.0, 1.06 * (top if largest is None else min(top, largest)))


def legend(ax: "Axes", **style: Any) -> None:
    """Names of the curves, without a frame."""
    chosen: dict[str, Any] = {"loc": "best", "fontsize": 9.5, "labelcolor": INK, "handlelength": 1.6, **style}
    ax.legend(frameon=False, **chosen)


def document(ax: "Axes") -> str:
    """The figure of these axes as an SVG document, the same for the same picture."""
    from matplotlib import rc_context

    figure: Any = ax.figure
    text = io.StringIO()
    # The salt makes the names of clips and markers, and so the file, the same every time.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "reshuffle"}):
        figure.canvas.print_svg(text, metadata={"Date": None, "Creator": None})
    return text.getvalue()


def inline(svg: str, words: str, prefix: str) -> str:
    """A document as an element of a page: in its colours and fonts, and with words for those who do not see it.

    Parameters
    ----------
    svg : str
        As from `document`.
    words : str
        Read out in place of it.
    prefix : str
        For the names in it, of which there must be no two on a page.
    """
    from html import escape

    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r'(?<![\w-])id="', f'id="{prefix}', body)
    body = re.sub(r'href="#', f'href="#{prefix}', body)
    body = body.replace("url(#", f"url(#{prefix}")
    for colour, variable in _VARIABLES.items():
        body = body.replace(colour, f"var({variable})")
    body = body.replace("'DejaVu Sans'", "inherit")
    head, _, rest = body.partition(">")
    head = re.sub(r' (width|height)="[^"]*"', "", head)
    return f'{head} role="img" aria-label="{escape(words, quote=True)}">{rest}'
