"""What a figure is: numbers, a picture, a table and claims; and finished figures on disk."""

import csv
import hashlib
import io
import json
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reshuffle

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    import reshuffle as rs

CIRCLES: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 4, "markerfacecolor": "white"}
"""How matplotlib draws what was simulated."""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper beside what was computed.

    Attributes
    ----------
    place : str
        Where the paper says it.
    statement : str
        What it says.
    computed : str
        The numbers found.
    agrees : bool
        Decided by those numbers.
    correction : str
        What is true instead, where it does not agree.
    """

    place: str
    statement: str
    computed: str
    agrees: bool
    correction: str = ""


Columns = Mapping[str, Any]
"""Names and columns of equal length, for the CSV file of a figure."""


def lines(columns: Columns) -> list[list[str]]:
    """The header and the rows of a table, numbers with all their digits.

    >>> lines({"epoch": [0, 1], "risk": [1.0, 0.5]})
    [['epoch', 'risk'], ['0', '1.0'], ['1', '0.5']]
    """
    rows = zip(*columns.values(), strict=True)
    return [list(columns), *[[_text(cell) for cell in row] for row in rows]]


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else repr(cell.item() if hasattr(cell, "item") else cell)


def scheme(name: str, batches: int) -> "rs.Scheme":
    """How rows are visited, by the names that figures and tables have for it.

    >>> scheme("with-replacement", 4)
    WithReplacement(batches=4)
    """
    import reshuffle as rs

    if batches == 1:
        return rs.FullBatch()
    return (
        rs.RandomReshuffling(batches=batches)
        if name == "reshuffling"
        else rs.WithReplacement(batches=batches)
    )


def look(name: str, batches: int) -> dict[str, str]:
    """The colour and the label of a scheme, as matplotlib takes them."""
    from reshuffle import plotting

    return {"color": plotting.scheme_colour(name, batches), "label": plotting.scheme_label(name, batches)}


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or something it says in words.

    Attributes
    ----------
    title, caption : str
        For the report.
    full, quick : mapping
        The arguments of `compute` at the paper's own sizes, and those that are smaller in a quick run.
    compute : function
        Everything numerical; returns a frozen dataclass.
    draw, table, claims : function
        Take those numbers.
    """

    title: str
    caption: str
    full: Mapping[str, Any]
    quick: Mapping[str, Any]
    compute: Callable[..., Any]
    draw: Callable[[Any], "Picture"]
    table: Callable[[Any], Columns]
    claims: Callable[[Any], list[Claim]]

    def inputs(self, quick: bool) -> dict[str, Any]:
        """The arguments of `compute`."""
        return {**self.full, **(self.quick if quick else {})}


KINDS = ("png", "svg", "csv")


@dataclass(frozen=True)
class Record:
    """What is known of a finished figure.

    Attributes
    ----------
    name, title, caption : str
    inputs : dict
        The arguments it was computed with, its seed among them.
    version : str
        Of this package.
    seconds : float
        How long it took.
    claims : list of Claim
    digests : dict
        The SHA-256 of each file that belongs to it, by kind: files of another run, or cut off, do not match.
    """

    name: str
    title: str
    caption: str
    inputs: dict[str, Any]
    version: str
    seconds: float
    claims: list[Claim]
    digests: dict[str, str]

    @property
    def slug(self) -> str:
        """The name its files start with."""
        return self.name.replace("-", "_")


def read(folder: Path, name: str, inputs: dict[str, Any]) -> Record | None:
    """The record of a figure if it is complete, and was computed with these inputs by this version."""
    path = folder / f"{name.replace('-', '_')}.json"
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        claims = [Claim(**claim) for claim in stored.pop("claims")]
        record = Record(claims=claims, **stored)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        # Missing, cut off or from another age: it is computed again.
        return None
    current = record.inputs == _plain(inputs) and record.version == reshuffle.__version__
    return record if current and record.name == name and _whole(folder, record) else None


def _whole(folder: Path, record: Record) -> bool:
    """Whether every file of the figure is there, and is the one that this record was written for."""
    try:
        found = {kind: _digest((folder / f"{record.slug}.{kind}").read_bytes()) for kind in KINDS}
    except OSError:
        return False
    return found == record.digests


def write(
    folder: Path, name: str, figure: Figure, inputs: dict[str, Any], numbers: Any, seconds: float
) -> Record:
    """Draw the figure and write its files, the JSON file last: it names what it belongs to by its digest.

    Wherever this is killed, and whoever else writes to the folder, a record never vouches for files of another run.
    """
    claims, slug = figure.claims(numbers), name.replace("-", "_")
    picture = figure.draw(numbers)
    files = {
        "png": _drawn(picture, "png", slug),
        "svg": _drawn(picture, "svg", slug),
        "csv": _tabulated(figure.table(numbers)),
    }
    record = Record(
        name,
        figure.title,
        figure.caption,
        _plain(inputs),
        reshuffle.__version__,
        seconds,
        claims,
        {kind: _digest(content) for kind, content in files.items()},
    )
    text = json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n"
    for kind, content in (*files.items(), ("json", text.encode())):
        replace(folder / f"{slug}.{kind}", content)
    return record


def replace(path: Path, content: bytes) -> None:
    """Put a file in its place at once, whole: beside it first, under a name that no other writer has."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        unfinished.write_bytes(content)
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _drawn(picture: "Picture", kind: str, slug: str) -> bytes:
    from matplotlib import rc_context

    file = io.BytesIO()
    # The date and random names inside would make every run differ, and two runs in one folder disown each other.
    with rc_context({"svg.hashsalt": slug}):
        picture.savefig(file, format=kind, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()


def _tabulated(table: Columns) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(lines(table))
    return text.getvalue().encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _plain(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs as JSON will give them back."""
    plain: dict[str, Any] = json.loads(json.dumps(inputs))
    return plain
