"""An answer as a table, a sketch in the terminal, a picture, CSV and JSON."""

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshuffle.cli.errors import InputError
from reshuffle.cli.options import OutputOptions
from reshuffle.cli.terminal import Series

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from rich.console import JustifyMethod

PICTURES = (".png", ".svg", ".pdf")


@dataclass(frozen=True, eq=False)
class Answer:
    """What a command found, in every form.

    Attributes
    ----------
    title, headings, rows :
        The readable table.
    data : dict
        Everything, for JSON.
    columns : mapping
        The curves, for CSV: names and columns of equal length.
    draw : function
        Makes the picture, when one is wanted.
    series, xlabel, ylabel, from_zero :
        What is sketched in the terminal, and whether zero must be in sight.
    notes : list of str
        Lines below the table.
    """

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    data: dict[str, Any]
    columns: Mapping[str, Any]
    draw: Callable[[], "Picture"]
    series: Sequence[Series]
    xlabel: str
    ylabel: str
    notes: Sequence[str] = field(default_factory=list)
    from_zero: bool = False


def check(options: OutputOptions) -> None:
    """Refuse destinations that cannot work, before anything is computed."""
    if options.csv == "-" and options.json == "-":
        raise InputError("--csv - and --json - cannot both write to standard output.")
    if options.plot is not None and Path(options.plot).suffix.lower() not in PICTURES:
        raise InputError(f"--plot must end in {', '.join(PICTURES)}, but it is {options.plot!r}.")
    if options.plot is not None:
        require_pictures()
    for name in ("plot", "csv", "json"):
        destination = getattr(options, name)
        if destination is None or destination == "-":
            continue
        if destination.startswith("-"):
            raise InputError(f"--{name} must name a file or be -, but it is {destination!r}.")
        path = Path(destination)
        if not path.name or path.is_dir():
            raise InputError(f"--{name} must name a file, but {destination!r} is a folder.")
        if not path.parent.is_dir():
            raise InputError(f"--{name} {destination}: there is no folder {path.parent}; make it first.")


def require_pictures() -> None:
    """Fail now, not after minutes of work, if matplotlib is not installed."""
    from reshuffle import plotting

    plotting.figure(1.0, 1.0)


def deliver(answer: Answer, options: OutputOptions) -> None:
    """Write the files, and print: JSON or CSV alone where asked for on standard output, else the table."""
    if options.plot is not None:
        answer.draw().savefig(options.plot)
    for destination, text in ((options.csv, csv_text), (options.json, json_text)):
        if destination is not None and destination != "-":
            Path(destination).write_text(text(answer), encoding="utf-8", newline="")
    if options.json == "-":
        sys.stdout.write(json_text(answer))
    elif options.csv == "-":
        sys.stdout.write(csv_text(answer))
    else:
        _print(answer, options)


def json_text(answer: Answer) -> str:
    """The data as strict JSON: what is infinite is the string "inf", what is not a number null."""
    return json.dumps(plain(answer.data), indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def csv_text(answer: Answer) -> str:
    """The columns, with all digits of every number."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answer.columns)
    for row in zip(*answer.columns.values(), strict=True):
        writer.writerow([plain(cell) for cell in row])
    return text.getvalue()


def plain(value: Any) -> Any:
    """The value made of dicts, lists, numbers and text; numpy's own types are unpacked.

    >>> plain({"risk": [1.0, float("inf")], "best": (3, None)})
    {'risk': [1.0, 'inf'], 'best': [3, None]}
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def number(value: float, digits: int = 6) -> str:
    """A number for people.

    >>> number(0.61478912), number(float("inf")), number(float("nan"))
    ('0.614789', 'inf', '-')
    """
    return "-" if math.isnan(value) else f"{value:.{digits}g}"


def _print(answer: Answer, options: OutputOptions) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from reshuffle.cli.terminal import sketch

    console = Console(highlight=False, soft_wrap=False)
    # Few rules, and columns as wide as their numbers: no digit may be lost in 80 columns.
    table = Table(
        title=answer.title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for number_of, heading in enumerate(answer.headings):
        justify: JustifyMethod = "left" if heading in ("scheme", "") else "right"
        words = [*heading.split(), *(row[number_of] for row in answer.rows)]
        table.add_column(heading, justify=justify, min_width=max(map(len, words), default=0))
    for row in answer.rows:
        table.add_row(*row)
    console.print(table)
    if answer.series and (console.encoding or "").lower().startswith("utf"):
        console.print(
            sketch(answer.series, answer.xlabel, answer.ylabel, console.width - 1, from_zero=answer.from_zero)
        )
    for note in answer.notes:
        console.print(note)
    for name in ("plot", "csv", "json"):
        if getattr(options, name) is not None:
            console.print(f"{name}: {getattr(options, name)}", markup=False)
