"""Curves drawn in the terminal, with dots of Braille."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from reshuffle.arrays import FloatArray

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a Braille cell, four rows of two."""


@dataclass(frozen=True, eq=False)
class Series:
    """A curve: its name, colour, points and values; what is not finite is not drawn."""

    label: str
    colour: str
    x: "FloatArray"
    y: "FloatArray"


def sketch(
    series: Sequence[Series],
    xlabel: str,
    ylabel: str,
    width: int,
    *,
    from_zero: bool = False,
    height: int = 15,
) -> "Text":
    """Draw the curves into `height` lines of text.

    On a logarithmic scale if they span more than 300 times; `from_zero` forbids that, and shows zero.
    """
    import numpy as np
    from rich.text import Text

    everything = np.concatenate([one.y[np.isfinite(one.y)] for one in series] or [np.zeros(0)])
    if not everything.size:
        return Text("(nothing finite to draw)\n")
    if from_zero:
        everything = np.append(everything, 0.0)
    logarithmic = bool(everything.min() > 0 and everything.max() > 300 * everything.min())
    scale = np.log10 if logarithmic else np.asarray
    low, high = float(scale(everything.min())), float(scale(everything.max()))
    if high - low < 1e-12 * max(abs(high), 1e-300):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    left = min(float(one.x.min()) for one in series if one.x.size)
    right = max(float(one.x.max()) for one in series if one.x.size)
    right = right if right > left else left + 1.0
    margin = 11
    canvas = _Canvas(max(20, min(width, 100) - margin), height)
    for one in series:
        known = np.isfinite(one.y)
        with np.errstate(divide="ignore", invalid="ignore"):
            rows = (scale(np.where(known, one.y, 1.0)) - low) / (high - low)
        canvas.curve((one.x - left) / (right - left), np.where(known, rows, np.nan), one.colour)
    text = Text()
    for name in series:
        text.append("━━ ", style=name.colour).append(f"{name.label}   ")
    text.append(f"\n{ylabel}{' (logarithmic)' if logarithmic else ''}\n", style="dim")
    for row in range(height):
        share = 1 - row / (height - 1)
        value = low + share * (high - low)
        tick = f"{10**value if logarithmic else value:.4g}" if row % 4 == 0 or row == height - 1 else ""
        text.append(f"{tick:>9} │", style="dim").append_text(canvas.line(row)).append("\n")
    text.append(" " * 10 + "└" + "─" * canvas.width + "\n", style="dim")
    ends = f"{left:.4g}", xlabel, f"{right:.4g}"
    gap = max(1, (canvas.width - sum(map(len, ends))) // 2)
    text.append(" " * margin + ends[0] + " " * gap + ends[1] + " " * gap + ends[2] + "\n", style="dim")
    return text


class _Canvas:
    """Braille cells; each shows the colour of the curve drawn last."""

    def __init__(self, width: int, height: int):
        self.width, self.height = width, height
        self.bits = [[0] * width for _ in range(height)]
        self.colours = [[""] * width for _ in range(height)]

    def curve(self, x: "FloatArray", y: "FloatArray", colour: str) -> None:
        """Join the points (x, y) of [0, 1]^2, up to those that are nan."""
        columns, rows = 2 * self.width - 1, 4 * self.height - 1
        previous: tuple[float, float] | None = None
        for across, up in zip(x.tolist(), y.tolist(), strict=True):
            if math.isnan(up):
                previous = None
                continue
            here = across * columns, (1 - up) * rows
            start = here if previous is None else previous
            steps = max(1, math.ceil(max(abs(here[0] - start[0]), abs(here[1] - start[1]))))
            for k in range(steps + 1):
                share = k / steps
                self._dot(
                    round(start[0] + share * (here[0] - start[0])),
                    round(start[1] + share * (here[1] - start[1])),
                    colour,
                )
            previous = here

    def _dot(self, column: int, row: int, colour: str) -> None:
        cell, inside = divmod(row, 4)
        self.bits[cell][column // 2] |= _DOTS[inside][column % 2]
        self.colours[cell][column // 2] = colour

    def line(self, row: int) -> "Text":
        """One line of cells."""
        from rich.text import Text

        text = Text()
        for bits, colour in zip(self.bits[row], self.colours[row], strict=True):
            text.append(chr(0x2800 + bits) if bits else " ", style=colour or None)
        return text
