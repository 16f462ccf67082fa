"""A finished figure on disk: its pictures, its table, and a small JSON file that says what they are."""

import csv
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import reshuffle
from reshuffle.figures.figure import Claim, Figure

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
    """

    name: str
    title: str
    caption: str
    inputs: dict[str, Any]
    version: str
    seconds: float
    claims: list[Claim]

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
    complete = all((folder / f"{record.slug}.{kind}").is_file() for kind in KINDS)
    return record if current and complete and record.name == name else None


def write(
    folder: Path, name: str, figure: Figure, inputs: dict[str, Any], numbers: Any, seconds: float
) -> Record:
    """Draw the figure and write its files, the JSON file last: what has it is complete."""
    record = Record(
        name,
        figure.title,
        figure.caption,
        _plain(inputs),
        reshuffle.__version__,
        seconds,
        figure.claims(numbers),
    )
    picture = figure.draw(numbers)
    for kind in ("png", "svg"):
        with replacing(folder / f"{record.slug}.{kind}") as path:
            # The date would make every run differ.
            picture.savefig(path, format=kind, metadata={"Date": None} if kind == "svg" else None)
    with (
        replacing(folder / f"{record.slug}.csv") as path,
        path.open("w", encoding="utf-8", newline="") as file,
    ):
        csv.writer(file, lineterminator="\n").writerows(figure.table(numbers).lines())
    with replacing(folder / f"{record.slug}.json") as path:
        path.write_text(json.dumps(asdict(record), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return record


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to, which takes the place of `path` only once it is whole."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _plain(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs as JSON will give them back."""
    plain: dict[str, Any] = json.loads(json.dumps(inputs))
    return plain
