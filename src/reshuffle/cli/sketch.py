"""Curves in a terminal of any width, drawn in dots of Braille."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from reshuffle._arrays import FloatArray

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a Braille cell, four rows of two."""
_COLOURS = ("red", "bright_blue", "green", "magenta", "cyan")
"""Colours of the terminal's own palette: readable on what its owner chose for a background, dark or light."""
_MARKS = "ox+*#@%&abcdefghijklmnopqrstuvwyz"
_REPEATS = 5
"""Marks on each curve."""
_SHORTEST_TICK = 9
_LARGEST_EXPONENT = 308.25
"""Powers of ten up to here are numbers."""


@dataclass(frozen=True, eq=False)
class Series:
    """A curve: its name, ascending points and values, of which only finite ones are drawn.

    In pictures it may have a colour, its best point marked, and a band of simulated values and twice
    their standard errors.
    """

    label: str
    x: "FloatArray"
    y: "FloatArray"
    colour: str = ""
    best: "tuple[float, float] | None" = None
    band: "tuple[FloatArray, FloatArray] | None" = None


def sketch(
    series: Sequence[Series],
    xlabel: str,
    ylabel: str,
    width: int,
    *,
    from_zero: bool = False,
    far: bool = False,
    height: int = 15,
) -> "Text":
    """Draw the curves into `height` lines of text.

    On a logarithmic scale if they span more than 300 times; `from_zero` forbids that, and shows zero. `far` makes
    the other axis logarithmic, with space for zero.
    """
    import numpy as np
    from rich.text import Text

    values = np.concatenate([one.y[np.isfinite(one.y)] for one in series] or [np.zeros(0)])
    if not values.size:
        return Text("(nothing finite to draw)\n")
    if from_zero:
        values = np.append(values, 0.0)
    logarithmic = bool(values.min() > 0 and values.max() / 300 > values.min())
    scale, along = np.log10 if logarithmic else np.asarray, np.log1p if far else np.asarray
    low, high = float(scale(values.min())), float(scale(values.max()))
    if high - low < 1e-12 * max(abs(high), 1e-300):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    points = np.concatenate([one.x for one in series])
    left, right = float(points.min()), float(points.max())
    right = right if right > left else left + 1.0

    heights = [high - row / (height - 1) * (high - low) for row in range(height)]
    ticks = [
        "" if row % 4 and row < height - 1
        else f"{10 ** min(value, _LARGEST_EXPONENT) if logarithmic else value:.4g}"
        for row, value in enumerate(heights)
    ]  # fmt: skip
    margin = max(_SHORTEST_TICK, *map(len, ticks))
    columns = max(20, min(width, 100) - margin - 2)
    bits = np.zeros((height, columns), dtype=np.int64)
    signs = np.full((height, columns), "", dtype=object)
    colours = signs.copy()
    curves = []
    for number, one in enumerate(series):
        with np.errstate(divide="ignore", invalid="ignore"):
            up = (scale(np.where(np.isfinite(one.y), one.y, np.nan)) - low) / (high - low)
        across = (along(one.x) - along(left)) / (along(right) - along(left))
        curves.append((across, up))
        places = np.column_stack([(1 - up) * (4 * height - 1), across * (2 * columns - 1)])
        lines = [
            np.linspace(start, end, 1 + int(np.ceil(np.abs(end - start).max())))
            for start, end in pairwise(places)
            if np.isfinite(start[0] + end[0])
        ]
        alone = places[np.isfinite(up)]
        rows, dots = np.concatenate([alone, *lines]).round().astype(np.int64).T
        np.bitwise_or.at(bits, (rows // 4, dots // 2), np.array(_DOTS)[rows % 4, dots % 2])
        colours[rows // 4, dots // 2] = _COLOURS[number % len(_COLOURS)]
    # Marks come last, each curve's at different places: not even curves on top of each other hide them.
    for number, (across, up) in enumerate(curves if len(curves) > 1 else []):
        if not across.size:
            continue
        where = (np.arange(_REPEATS) + (number + 0.5) / len(curves)) / _REPEATS
        # Next to a nan there is no curve, and so no mark.
        found = np.interp(where, across, up, left=np.nan, right=np.nan)
        for place, value in zip(where[np.isfinite(found)], found[np.isfinite(found)], strict=True):
            cell = round((1 - value) * (4 * height - 1)) // 4, round(place * (2 * columns - 1)) // 2
            signs[cell], colours[cell] = _MARKS[number % len(_MARKS)], _COLOURS[number % len(_COLOURS)]

    text = _legend(series, width)
    text.append(f"{ylabel}{' (logarithmic)' if logarithmic else ''}\n", style="dim")
    for row, tick in enumerate(ticks):
        text.append(f"{tick:>{margin}} │", style="dim")
        cells = [
            sign or (chr(0x2800 + dots) if dots else " ")
            for dots, sign in zip(bits[row], signs[row], strict=True)
        ]
        for colour, run in groupby(range(columns), key=colours[row].__getitem__):
            text.append("".join(cells[k] for k in run), style=colour or None)
        text.append("\n")
    text.append(" " * (margin + 1) + "└" + "─" * columns + "\n", style="dim")
    ends = f"{left:.4g}", xlabel + " (logarithmic)" * far, f"{right:.4g}"
    gap = max(1, (columns - sum(map(len, ends))) // 2)
    return text.append(" " * (margin + 2) + (" " * gap).join(ends) + "\n", style="dim")


def _legend(series: Sequence[Series], width: int) -> "Text":
    """The name of every curve after its mark, in as many lines as that takes."""
    from rich.text import Text

    text, used = Text(), 0
    for number, one in enumerate(series):
        label = f"{_MARKS[number % len(_MARKS)]} {one.label}" if len(series) > 1 else one.label
        gap = "" if not used else "   " if used + 3 + len(label) <= width else "\n"
        used = len(label) + (used + 3 if gap == "   " else 0)
        text.append(gap).append(label, style=_COLOURS[number % len(_COLOURS)])
    return text.append("\n")
