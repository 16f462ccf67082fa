"""An answer as a table, a sketch in the terminal, a picture, CSV and JSON."""

import csv
import io
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reshuffle.cli.complaints import InputError, writing
from reshuffle.cli.options import OutputOptions
from reshuffle.cli.terminal import Series, sketch, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

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
    keys : int
        How many of the first columns tell the rows apart: they stay in sight where a table is too wide.
    series, xlabel, ylabel, from_zero, far :
        What is sketched in the terminal, whether zero must be in sight, and whether the points reach so far that
        their axis is logarithmic.
    remarks, notes : lists of str
        Lines above the table and below it.
    code : list of str
        Programs, printed last as they are.
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
    keys: int = 1
    remarks: Sequence[str] = field(default_factory=list)
    notes: Sequence[str] = field(default_factory=list)
    code: Sequence[str] = field(default_factory=list)
    from_zero: bool = False
    far: bool = False


def check(options: OutputOptions, **inputs: str | None) -> None:
    """Refuse destinations that cannot work, or would overwrite each other or an input, before anything is done."""
    if options.csv == "-" and options.json == "-":
        raise InputError("--csv - and --json - cannot both write to standard output.")
    if options.plot is not None and Path(options.plot).suffix.lower() not in PICTURES:
        raise InputError(f"--plot must end in {', '.join(PICTURES)}, but it is {options.plot!r}.")
    if options.plot is not None:
        require_pictures()
    taken = {f"--{name}": Path(path) for name, path in inputs.items() if path is not None}
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
        for other, file in taken.items():
            if _are_the_same(path, file):
                raise InputError(
                    f"--{name} must not overwrite {other}, but both are the file {destination!r}."
                )
        taken[f"--{name}"] = path


def _are_the_same(first: Path, second: Path) -> bool:
    """Whether two paths are one file, however they are spelled; devices such as /dev/null may be shared."""
    if first.exists() and second.exists():
        return first.samefile(second) and first.is_file()
    # realpath, unlike Path.resolve before Python 3.13, returns from loops of links.
    return os.path.realpath(first) == os.path.realpath(second)


def require_pictures() -> None:
    """Fail now, not after minutes of work, if matplotlib is not installed."""
    from reshuffle import plotting

    plotting.figure(1.0, 1.0)


def deliver(answer: Answer, options: OutputOptions) -> None:
    """Write the files, and print: JSON or CSV alone where asked for on standard output, else the table."""
    if options.plot is not None:
        with writing(options.plot):
            answer.draw().savefig(options.plot)
    for destination, text in ((options.csv, csv_text), (options.json, json_text)):
        if destination is not None and destination != "-":
            with writing(destination):
                Path(destination).write_text(text(answer), encoding="utf-8", newline="")
    if options.json == "-" or options.csv == "-":
        sys.stdout.write((json_text if options.json == "-" else csv_text)(answer))
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


def _print(answer: Answer, options: OutputOptions) -> None:
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
    for line in table(answer.headings, answer.rows, answer.keys, console.width, "─" if signs else "-"):
        console.print(words(line), soft_wrap=True)
    console.print()
    if answer.series and signs:
        console.print(
            sketch(
                answer.series,
                answer.xlabel,
                answer.ylabel,
                console.width - 1,
                from_zero=answer.from_zero,
                far=answer.far,
            )
        )
    for note in answer.notes:
        console.print(words(note))
    for name in ("plot", "csv", "json"):
        if getattr(options, name) is not None:
            console.print(f"{name}: {getattr(options, name)}", soft_wrap=True)
    for program in answer.code:
        # Not folded: it is to be copied.
        console.print("\n" + program.rstrip("\n"), soft_wrap=True)
