"""One renderer for the results of all commands: a table and a sketch in the terminal, CSV, JSON and a picture."""

import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshuffle.cli.console import writing
from reshuffle.cli.options import OutputOptions
from reshuffle.cli.sketch import Series, sketch
from reshuffle.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture
    from rich.table import Table

PICTURES = (".png", ".svg", ".pdf")
_FAR = 30
"""Epochs or steps from which on their axis is logarithmic."""
_GAP = 2
"""Spaces between columns of a table."""
_NARROWEST = 12
"""Characters that a cell may always have."""
_LEFT = ("scheme", "choice", "")
"""Headings of columns of words; numbers stand to the right."""


@dataclass(frozen=True, eq=False)
class Report:
    """The result of a command: records, one per curve, recipe or law, from which everything shown is taken.

    JSON has the `facts` and, under `name`, all records; values that are functions are called first. `table` and
    `csv` map headings to paths in a record, as of `entry`, or to functions of a record; `csv` may also be a
    function that makes the columns. Columns that are empty in all records are left out. `rows` are further rows of
    the table. Its first `keys` columns tell rows apart, and are repeated where it is too wide. With `titles` each
    record is a column of the table, under its title.

    `levels` are horizontal lines by name, `remarks` come above the table, `notes` below it, programs last.
    Pictures show the series, or what `draw` draws on axes, and to the right what `draw_beside` draws.
    """

    command: str
    title: str
    facts: Mapping[str, Any]
    name: str
    records: Sequence[Mapping[str, Any]]
    table: "Mapping[str, str | Callable[[Any], Any]]"
    csv: Mapping[str, str] | Callable[[], Mapping[str, Any]]
    series: Sequence[Series] = ()
    xlabel: str = "epochs"
    ylabel: str = ""
    keys: int = 1
    rows: Sequence[Mapping[str, Any]] = ()
    titles: Sequence[str] = ()
    levels: Mapping[str, float] = field(default_factory=dict)
    from_zero: bool = False
    remarks: Sequence[str] = ()
    notes: Sequence[str] = ()
    code: Sequence[str] = ()
    draw: "Callable[[Axes], object] | None" = None
    draw_beside: "Callable[[Axes], object] | None" = None

    @property
    def cells(self) -> list[list[str]]:
        """The table as text, with its headings as the first row."""
        records = [*self.records, *self.rows]
        found = {heading: [entry(one, path) for one in records] for heading, path in self.table.items()}
        columns = [
            [heading, *map(cell, values)]
            for heading, values in found.items()
            if any(value is not None for value in values)
        ]
        if self.titles:
            return [["", *self.titles], *columns]
        return [list(row) for row in zip(*columns, strict=True)]

    @property
    def is_far(self) -> bool:
        """True if the points reach so far that their axis is logarithmic."""
        last = max((float(one.x[-1]) for one in self.series if len(one.x)), default=0.0)
        return self.xlabel in ("epochs", "steps") and last > _FAR

    @cached_property
    def picture(self) -> "Picture":
        """Its picture, in matplotlib."""
        from reshuffle import plotting

        picture = plotting.figure(6.8 if self.draw_beside is None else 11.0, 4.2)
        ax, *others = picture.subplots(1, 1 if self.draw_beside is None else 2, squeeze=False)[0]
        (self.draw or partial(_draw, self))(ax)
        if self.draw_beside is not None:
            self.draw_beside(others[0])
        return picture


def entry(record: Any, path: str | Callable[[Any], Any]) -> Any:
    """The value at a path of a record, None where there is none, or a pair of a value and its error.

    >>> record = {"risk": [2.0, 1.5], "limit": {"risk": 0.5, "error": 0.1}, "best": None}
    >>> entry(record, "risk.-1"), entry(record, "limit.risk ± limit.error"), entry(record, "best.epoch")
    (1.5, (0.5, 0.1), None)
    """
    if callable(path):
        return path(record)
    first, _, second = path.partition(" ± ")
    if second:
        value = entry(record, first)
        return None if value is None else (value, entry(record, second))
    for part in path.split("."):
        if record is not None:
            record = record[int(part)] if part.lstrip("-").isdigit() else record.get(part)
    return record


def check(options: OutputOptions, **inputs: str | None) -> None:
    """Refuse destinations that cannot work, or would overwrite each other or an input, before anything is done."""
    if options.csv == "-" and options.json == "-":
        raise ArgumentError("{csv} - and {json} -", "", "cannot both write to standard output")
    if options.plot is not None and Path(options.plot).suffix.lower() not in PICTURES:
        raise ArgumentError("plot", f"end in {', '.join(PICTURES)}", f"it is {options.plot!r}")
    if options.plot is not None:
        require_pictures()
    taken = {f"--{name}": Path(path) for name, path in inputs.items() if path is not None}
    for name in ("plot", "csv", "json"):
        destination = getattr(options, name)
        if destination is None or destination == "-":
            continue
        if destination.startswith("-"):
            raise ArgumentError(name, "name a file or be -", f"it is {destination!r}")
        path = Path(destination)
        if not path.name or path.is_dir():
            raise ArgumentError(name, "name a file", f"{destination!r} is a folder")
        if not path.parent.is_dir():
            given = f"there is no folder {path.parent}"
            raise ArgumentError(f"{{{name}}} {destination}", "be in a folder", given, "make it first")
        for other, file in taken.items():
            if _are_the_same(path, file):
                raise ArgumentError(name, f"not overwrite {other}", f"both are the file {destination!r}")
        taken[f"--{name}"] = path


def _are_the_same(first: Path, second: Path) -> bool:
    """True if two paths are one file, however they are spelled; devices such as /dev/null may be shared."""
    if first.exists() and second.exists():
        return first.samefile(second) and first.is_file()
    # realpath, unlike Path.resolve before Python 3.13, returns from loops of links.
    return os.path.realpath(first) == os.path.realpath(second)


def require_pictures() -> None:
    """Fail now, not after minutes of work, if matplotlib is not installed."""
    from reshuffle import plotting

    plotting.figure(1.0, 1.0)


def deliver(answer: Report, options: OutputOptions) -> None:
    """Write the files that are wanted, and print the answer, unless a file is standard output."""
    for kind in ("plot", "csv", "json"):
        path = getattr(options, kind)
        if path is not None and path != "-":
            write(answer, kind, path)
    if options.json == "-" or options.csv == "-":
        sys.stdout.write((json_text if options.json == "-" else csv_text)(answer))
    else:
        _print(answer, options)


def write(answer: Report, kind: str, path: str) -> None:
    """Write an answer to a file: its plot, csv or json."""
    with writing(path):
        if kind == "plot":
            answer.picture.savefig(path)
        else:
            text = (csv_text if kind == "csv" else json_text)(answer)
            Path(path).write_text(text, encoding="utf-8", newline="")


def json_text(answer: Report) -> str:
    """Facts and records as strict JSON: what is infinite is the string "inf", what is not a number null."""
    import reshuffle as rs

    data = {"command": answer.command, "version": rs.__version__, **answer.facts, answer.name: answer.records}
    return json.dumps(plain(data), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def csv_text(answer: Report) -> str:
    """The columns of `csv`, with all digits of every number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = answer.csv() if callable(answer.csv) else tidy(answer.records, answer.csv)
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow([plain(cell) for cell in row])
    return text.getvalue()


def plain(value: Any) -> Any:
    """The value made of dicts, lists, numbers and text; functions are called and numpy's own types unpacked.

    >>> plain({"risk": [1.0, float("inf")], "best": (3, None)})
    {'risk': [1.0, 'inf'], 'best': [3, None]}
    """
    if callable(value):
        value = value()
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def tidy(records: Iterable[Mapping[str, Any]], paths: Mapping[str, str]) -> dict[str, list[Any]]:
    """Columns of records that hold arrays of equal length, in which numbers are repeated.

    >>> tidy([{"batches": 2, "risk": {"total": [0.5, 0.25]}}], {"batches": "batches", "risk": "risk.total"})
    {'batches': [2, 2], 'risk': [0.5, 0.25]}
    """
    columns: dict[str, list[Any]] = {name: [] for name in paths}
    empty = set(paths)
    for record in records:
        found = {name: entry(record, path) for name, path in paths.items()}
        arrays = {
            name for name, value in found.items() if hasattr(value, "__len__") and not isinstance(value, str)
        }
        length = max((len(found[name]) for name in arrays), default=1)
        for name, value in found.items():
            columns[name] += list(value) if name in arrays else [value] * length
        empty -= {name for name, value in found.items() if value is not None}
    return {name: values for name, values in columns.items() if name not in empty}


def number(value: float, digits: int = 6) -> str:
    """A number for people.

    >>> number(0.61478912), number(float("inf")), number(float("nan"))
    ('0.614789', 'inf', '-')
    """
    from reshuffle._uncertainty import significant

    return "-" if math.isnan(value) else significant(value, digits)


def uncertain(value: float, error: float) -> str:
    """A number and how far it may be off; digits that are not known are not shown.

    >>> uncertain(0.61478912, 0.0), uncertain(0.61478912, 0.0012), uncertain(123456.7, 30.0)
    ('0.614789', '0.6148 ± 0.0012', '123457 ± 30')
    """
    from reshuffle._uncertainty import plus_minus

    if not error or not math.isfinite(value):
        return number(value)
    if not math.isfinite(error):
        return "unknown"
    return plus_minus(value, error)


def cell(value: Any) -> str:
    """A cell of the readable table.

    >>> cell(True), cell(None), cell(3), cell((0.61478912, 0.0012))
    ('yes', '-', '3', '0.6148 ± 0.0012')
    """
    if value is None or isinstance(value, str):
        return "-" if value is None else value
    if isinstance(value, tuple):
        return uncertain(float(value[0]), float(value[1]))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, int) else number(float(value))


def tables(cells: Sequence[Sequence[str]], keys: int, width: int, rule: str = "─") -> "list[Table]":
    """Tables of at most `width`, of cells whose first row are headings.

    Columns that do not fit go on in a table below, with the first `keys` columns repeated. Headings fold if they
    must, and cells only where one is too long for the whole width.
    """
    from rich.box import Box
    from rich.table import Table

    headings, *rows = cells
    below = [max(len(line) for row in rows for line in row[k].split("\n")) for k in range(len(headings))]
    widths = [max(len(heading), least) for heading, least in zip(headings, below, strict=True)]
    if sum(widths) + _GAP * (len(widths) - 1) > width:
        words = [max(map(len, heading.split()), default=0) for heading in headings]
        widths = list(map(max, words, below))
    free = max(_NARROWEST, width - sum(widths[:keys]) - _GAP * keys)
    widths[keys:] = [min(one, free) for one in widths[keys:]]
    blocks: list[list[int]] = []
    for place in range(keys, len(headings)):
        if not blocks or sum(widths[k] + _GAP for k in blocks[-1]) + widths[place] > width:
            blocks.append(list(range(keys)))
        blocks[-1].append(place)
    # A line below the headings, and nothing else; marked as ASCII, so that rich draws no box there.
    lines = Box("    \n" * 2 + f" {rule}{rule} \n" + "    \n" * 5, ascii=True)
    made = []
    for block in blocks:
        # In a terminal that is too narrow for one column, lines fold, and cells do not.
        total = sum(widths[k] + _GAP for k in block) - _GAP
        table = Table(
            box=lines, show_edge=False, pad_edge=False, collapse_padding=True, width=total, header_style=""
        )
        for k in block:
            is_text = headings[k] in _LEFT
            table.add_column(
                headings[k], justify="left" if is_text else "right", width=widths[k], overflow="fold"
            )
        for row in rows:
            table.add_row(*(row[k] for k in block))
        made.append(table)
    return made


def _draw(answer: Report, ax: "Axes") -> None:
    """Draw the series, the best point and the simulated band of each, and the levels."""
    import numpy as np
    from matplotlib.ticker import MaxNLocator

    from reshuffle import plotting

    for place, one in enumerate(answer.series):
        colour = one.colour or plotting.COLOURS[place % len(plotting.COLOURS)]
        if one.band is not None:
            label = "simulated ± 2 s.e." if one is answer.series[0] else None
            low, high = one.band[0] - one.band[1], one.band[0] + one.band[1]
            ax.fill_between(one.x, low, high, color=colour, alpha=0.25, linewidth=0, label=label)
        known = np.where(np.isfinite(one.y), one.y, np.nan)
        style: dict[str, Any] = {"marker": "o", "markersize": 5} if answer.xlabel == "batches" else {}
        ax.plot(one.x, known, color=colour, label=one.label, linewidth=1.6, **style)
        if one.best is not None and one.best[0] <= one.x[-1]:
            plotting.mark_best(*one.best, colour=colour, ax=ax)
    for place, (name, level) in enumerate(answer.levels.items(), len(answer.series)):
        colour = plotting.COLOURS[place % len(plotting.COLOURS)]
        ax.axhline(level, color=colour, linewidth=1.0, linestyle="--", label=name)
    plotting.plain(ax, answer.xlabel, answer.ylabel)
    if answer.is_far:
        ax.set_xscale("symlog" if any(one.x[0] <= 0 for one in answer.series) else "log")
    if answer.xlabel == "batches":
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if answer.from_zero:
        ax.margins(y=0.15)
        ax.set_ylim(bottom=0)
    else:
        plotting.scale_values(ax)
    ax.legend(frameon=False, fontsize=9 if answer.draw_beside is None else 7)


def _print(answer: Report, options: OutputOptions) -> None:
    from rich.console import Console
    from rich.text import Text

    # Names of files and columns may look like markup, and are not.
    console = Console(highlight=False, markup=False, emoji=False)
    signs = (console.encoding or "").lower().startswith("utf")

    def words(text: str) -> str:
        return text if signs else text.replace("±", "+-")

    console.print(Text(words(answer.title), style="bold"))
    for remark in answer.remarks:
        console.print(words(remark))
    console.print()
    if answer.records:
        cells = [[words(text) for text in row] for row in answer.cells]
        for one in tables(cells, answer.keys, console.width, "─" if signs else "-"):
            console.print(one, soft_wrap=True)
            console.print()
    if answer.series and signs:
        width = console.width - 1
        axes = {"from_zero": answer.from_zero, "far": answer.is_far}
        console.print(sketch(answer.series, answer.xlabel, answer.ylabel, width, **axes))
    for note in answer.notes:
        console.print(words(note))
    for name in ("plot", "csv", "json"):
        if getattr(options, name) is not None:
            console.print(f"{name}: {getattr(options, name)}", soft_wrap=True)
    for program in answer.code:
        # Not folded: it is to be copied.
        console.print("\n" + program.rstrip("\n"), soft_wrap=True)
