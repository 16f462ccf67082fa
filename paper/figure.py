"""A figure, the claims that its numbers decide, and finished figures on disk."""

import csv
import hashlib
import io
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reshuffle as rs
from reshuffle import plotting

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

KINDS = ("png", "svg", "csv")
CIRCLES: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 4, "markerfacecolor": "white"}
"""How matplotlib draws what was simulated."""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper beside what was computed.

    `agrees` is decided by the computed numbers; where it is false, `correction` is what is true instead.
    """

    place: str
    statement: str
    computed: str
    agrees: bool
    correction: str = ""


@dataclass(frozen=True)
class Result:
    """A picture, columns of equal length for the CSV file, and claims."""

    picture: "Picture"
    table: Mapping[str, Any]
    claims: list[Claim]


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, or something it says in words.

    `make` takes `full`, the paper's own sizes, or in a quick run those with `quick` in their places. `seconds` is
    about how long the full one takes on one core.
    """

    make: Callable[..., Result]
    title: str
    caption: str
    full: Mapping[str, Any]
    quick: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 2.0

    def inputs(self, quick: bool) -> dict[str, Any]:
        """The arguments of `make`, as JSON gives them back."""
        inputs: dict[str, Any] = json.loads(json.dumps({**self.full, **(self.quick if quick else {})}))
        return inputs


@dataclass(frozen=True)
class Record:
    """A finished figure; `digests` has the SHA-256 of its files, so that those of another run do not match."""

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
    try:
        stored = json.loads((folder / f"{name.replace('-', '_')}.json").read_text(encoding="utf-8"))
        record = Record(claims=[Claim(**claim) for claim in stored.pop("claims")], **stored)
        digests = {kind: _digest((folder / f"{record.slug}.{kind}").read_bytes()) for kind in KINDS}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        # Missing, cut off or of an earlier format: it is computed again.
        return None
    expected = (name, inputs, rs.__version__, digests)
    return record if (record.name, record.inputs, record.version, record.digests) == expected else None


def write(folder: Path, name: str, figure: Figure, inputs: dict[str, Any]) -> Record:
    """Compute a figure and write its files, the JSON file last: it names what it belongs to by its digest.

    Wherever this is killed, and whoever else writes to the folder, a record never vouches for files of another run.
    """
    begin = time.perf_counter()
    result = figure.make(**inputs)
    slug = name.replace("-", "_")
    files = {kind: _drawn(result.picture, kind, slug) for kind in ("png", "svg")}
    files["csv"] = _tabulated(result.table)
    digests = {kind: _digest(content) for kind, content in files.items()}
    seconds = time.perf_counter() - begin
    about = (name, figure.title, figure.caption, inputs, rs.__version__, seconds)
    record = Record(*about, result.claims, digests)
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


def _tabulated(table: Mapping[str, Any]) -> bytes:
    """The table as CSV, numbers with all their digits."""
    text = io.StringIO(newline="")
    columns = [getattr(column, "tolist", lambda kept=column: kept)() for column in table.values()]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def scheme(name: str, batches: int) -> rs.Scheme:
    """How rows are visited, by the names that pictures and tables have for it."""
    if batches == 1:
        return rs.FullBatch()
    made = rs.RandomReshuffling if name == "reshuffling" else rs.WithReplacement
    return made(batches=batches)


def look(name: str, batches: int) -> dict[str, str]:
    """The colour and the label of a scheme, as matplotlib takes them."""
    return {"color": plotting.scheme_colour(name, batches), "label": plotting.scheme_label(name, batches)}
