"""Tables that keep every column in a terminal of any width."""

import textwrap
from collections.abc import Sequence

_BETWEEN = 2
"""Spaces between columns."""
_NARROWEST = 12
"""Characters that a cell may always have."""
_LEFT = ("scheme", "")
"""Headings of columns of words; numbers stand to the right."""


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
