"""What a terminal of any width can show: tables that keep every column, and curves in dots of Braille."""

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from reshuffle._arrays import FloatArray

_BETWEEN = 2
"""Spaces between columns."""
_NARROWEST = 12
"""Characters that a cell may always have."""
_LEFT = ("scheme", "choice", "")
"""Headings of columns of words; numbers stand to the right."""
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a Braille cell, four rows of two."""
_COLOURS = ("red", "bright_blue", "green", "magenta", "cyan")
"""Of the terminal's own palette: readable on what its owner chose for a background, dark or light."""
_MARKS = "ox+*#@%&abcdefghijklmnopqrstuvwyz"
_REPEATS = 5
"""How often each curve carries its mark."""
_SHORTEST_TICK = 9
_LARGEST_EXPONENT = 300
"""Powers of ten below this are numbers."""


@dataclass(frozen=True, eq=False)
class Series:
    """A curve: its name, points and values; what is not finite is not drawn.

    In pictures it may have a colour of its own, its best point marked, and a band of simulated values and twice
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
    the other axis logarithmic, with room for zero.
    """
    import numpy as np
    from rich.text import Text

    everything = np.concatenate([one.y[np.isfinite(one.y)] for one in series] or [np.zeros(0)])
    if not everything.size:
        return Text("(nothing finite to draw)\n")
    if from_zero:
        everything = np.append(everything, 0.0)
    logarithmic = bool(everything.min() > 0 and everything.max() / 300 > everything.min())
    scale = np.log10 if logarithmic else np.asarray
    low, high = float(scale(everything.min())), float(scale(everything.max()))
    if high - low < 1e-12 * max(abs(high), 1e-300):
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
    along = np.log1p if far else np.asarray
    left = min(float(one.x.min()) for one in series if one.x.size)
    right = max(float(one.x.max()) for one in series if one.x.size)
    right = right if right > left else left + 1.0
    ticks = _ticks(low, high, height, logarithmic)
    margin = max(_SHORTEST_TICK, *map(len, ticks))
    canvas = _Canvas(max(20, min(width, 100) - margin - 2), height)
    start, end = float(along(left)), float(along(right))
    curves = []
    for one in series:
        known = np.isfinite(one.y)
        with np.errstate(divide="ignore", invalid="ignore"):
            rows = (scale(np.where(known, one.y, 1.0)) - low) / (high - low)
        curves.append(((along(one.x) - start) / (end - start), np.where(known, rows, np.nan)))
    for number, (x, y) in enumerate(curves):
        canvas.curve(x, y, _colour(number))
    # Marks come last, each curve's at places of its own: not even curves on top of each other hide them.
    for number, (x, y) in enumerate(curves if len(curves) > 1 else []):
        for repeat in range(_REPEATS):
            place = (repeat + (number + 0.5) / len(curves)) / _REPEATS
            canvas.mark(x, y, place, _mark(number), _colour(number))
    text = _legend(series, width)
    text.append(f"{ylabel}{' (logarithmic)' if logarithmic else ''}\n", style="dim")
    for row, tick in enumerate(ticks):
        text.append(f"{tick:>{margin}} │", style="dim").append_text(canvas.line(row)).append("\n")
    text.append(" " * (margin + 1) + "└" + "─" * canvas.width + "\n", style="dim")
    ends = f"{left:.4g}", xlabel + " (logarithmic)" * far, f"{right:.4g}"
    gap = max(1, (canvas.width - sum(map(len, ends))) // 2)
    text.append(" " * (margin + 2) + (" " * gap).join(ends) + "\n", style="dim")
    return text


def _colour(number: int) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _mark(number: int) -> str:
    return _MARKS[number % len(_MARKS)]


def _legend(series: Sequence[Series], width: int) -> "Text":
    """The name of every curve beside its mark, in as many lines as that takes."""
    from rich.text import Text

    text, used = Text(), 0
    for number, one in enumerate(series):
        sign = f"{_mark(number)} " if len(series) > 1 else ""
        length = len(sign) + len(one.label)
        if used and used + 3 + length > width:
            text.append("\n")
            used = 0
        elif used:
            text.append("   ")
            used += 3
        text.append(sign + one.label, style=_colour(number))
        used += length
    return text.append("\n")


def _ticks(low: float, high: float, height: int, logarithmic: bool) -> list[str]:
    """What stands beside each row: a number at every fourth, and at the last."""
    form: Callable[[float], str] = _power_of_ten if logarithmic else "{:.4g}".format
    values = [low + (1 - row / (height - 1)) * (high - low) for row in range(height)]
    return [form(value) if row % 4 == 0 or row == height - 1 else "" for row, value in enumerate(values)]


def _power_of_ten(exponent: float) -> str:
    """10^exponent, also where that is beyond the range of numbers.

    >>> _power_of_ten(2), _power_of_ten(308.9)
    ('100', '7.943e+308')
    """
    if abs(exponent) < _LARGEST_EXPONENT:
        return f"{10**exponent:.4g}"
    whole = math.floor(exponent)
    return f"{10 ** (exponent - whole):.4g}e{whole:+d}"


class _Canvas:
    """Braille cells; each shows the colour of the curve drawn last."""

    def __init__(self, width: int, height: int):
        self.width, self.height = width, height
        self.bits = [[0] * width for _ in range(height)]
        self.signs = [[""] * width for _ in range(height)]
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

    def mark(self, x: "FloatArray", y: "FloatArray", place: float, sign: str, colour: str) -> None:
        """Put a sign on the curve of ascending x where it passes `place`, if it does."""
        import numpy as np

        # Beside a nan there is no curve, and so no mark.
        up = float(np.interp(place, x, y, left=np.nan, right=np.nan)) if x.size else math.nan
        if math.isnan(up):
            return
        row, column = round((1 - up) * (4 * self.height - 1)) // 4, round(place * (2 * self.width - 1)) // 2
        self.signs[row][column], self.colours[row][column] = sign, colour

    def _dot(self, column: int, row: int, colour: str) -> None:
        cell, inside = divmod(row, 4)
        self.bits[cell][column // 2] |= _DOTS[inside][column % 2]
        self.colours[cell][column // 2] = colour

    def line(self, row: int) -> "Text":
        """One line of cells."""
        from rich.text import Text

        text = Text()
        for bits, sign, colour in zip(self.bits[row], self.signs[row], self.colours[row], strict=True):
            text.append(sign or (chr(0x2800 + bits) if bits else " "), style=colour or None)
        return text


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], keys: int, width: int, rule: str = "─"
) -> list[str]:
    r"""Lines of a table; where not all columns fit, it goes on below, with the first `keys` columns repeated.

    Headings fold at their spaces if they must, and cells may have several lines. Only a cell that is too long for
    the whole width is folded; nothing is cut off.

    >>> print("\n".join(table(["scheme", "risk there"], [["cyclic", "0.5"]], 1, 15, "-")))
             risk
    scheme  there
    -------------
    cyclic    0.5
    """
    cells = [[row[place].split("\n") for row in rows] for place in range(len(headings))]
    columns = [[[heading], *below] for heading, below in zip(headings, cells, strict=True)]
    if sum(_width(column) + _BETWEEN for column in columns) - _BETWEEN > width:
        columns = [_column(heading, below) for heading, below in zip(headings, cells, strict=True)]
    of_keys = sum(_width(column) + _BETWEEN for column in columns[:keys])
    room = max(_NARROWEST, width - of_keys)
    columns = [
        column if place < keys else [_folded(cell, room) for cell in column]
        for place, column in enumerate(columns)
    ]
    lines: list[str] = []
    for block in _blocks([_width(column) for column in columns], keys, width):
        chosen = [columns[place] for place in block]
        lefts = [headings[place] in _LEFT for place in block]
        lines += [""] * bool(lines) + _block(chosen, lefts, rule)
    return lines


def _column(heading: str, cells: list[list[str]]) -> list[list[str]]:
    """The heading, folded to the width of what is below it or of its longest word, and the cells."""
    words = heading.split() or [""]
    room = max(_width([words]), _width(cells) if cells else 0, 1)
    return [textwrap.wrap(heading, room, break_on_hyphens=False) or [""], *cells]


def _width(column: Sequence[Sequence[str]]) -> int:
    return max(len(line) for cell in column for line in cell)


def _folded(cell: Sequence[str], room: int) -> list[str]:
    return [part for line in cell for part in textwrap.wrap(line, room) or [""]]


def _blocks(widths: Sequence[int], keys: int, width: int) -> list[list[int]]:
    """Which columns stand beside each other: the keys, and as many others as fit."""
    of_keys = sum(widths[place] + _BETWEEN for place in range(keys))
    blocks: list[list[int]] = []
    used = width + 1
    for place in range(keys, len(widths)):
        if used + _BETWEEN + widths[place] > width:
            blocks.append(list(range(keys)))
            used = of_keys - _BETWEEN
        blocks[-1].append(place)
        used += _BETWEEN + widths[place]
    return blocks or [list(range(keys))]


def _block(columns: Sequence[Sequence[Sequence[str]]], lefts: Sequence[bool], rule: str) -> list[str]:
    widths = [_width(column) for column in columns]
    lines = []
    for number, cells in enumerate(zip(*columns, strict=True)):
        height = max(map(len, cells))
        # A heading stands on its rule, a row hangs from its first line.
        missing = [[""] * (height - len(cell)) for cell in cells]
        padded = [
            [*gap, *cell] if number == 0 else [*cell, *gap] for cell, gap in zip(cells, missing, strict=True)
        ]
        for parts in zip(*padded, strict=True):
            shown = [
                part.ljust(width) if left else part.rjust(width)
                for part, width, left in zip(parts, widths, lefts, strict=True)
            ]
            lines.append((" " * _BETWEEN).join(shown).rstrip())
        if number == 0:
            lines.append(rule * (sum(widths) + _BETWEEN * (len(widths) - 1)))
    return lines
