"""Compute the figures that are missing in a folder, and write the report of all that are there."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from reshuffle import paper
from reshuffle.paper import record, report
from reshuffle.paper.record import Record


def reproduce(names: Sequence[str], folder: Path, quick: bool) -> Iterator[tuple[str, Record | None, bool]]:
    """Yield (name, None, False) before a figure is computed and (name, record, reused) when it is there.

    Finished figures stay as they are; whatever interrupts this, the next call goes on with the missing ones.
    The report is written anew after each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        figure = paper.load(name)
        inputs = figure.inputs(quick)
        found = record.read(folder, name, inputs)
        if found is None:
            yield name, None, False
            begin = time.perf_counter()
            numbers = figure.compute(**inputs)
            seconds = time.perf_counter() - begin
            yield name, record.write(folder, name, figure, inputs, numbers, seconds), False
        else:
            yield name, found, True
        report.write(folder, finished(folder, quick), quick)


def finished(folder: Path, quick: bool) -> list[Record]:
    """The complete figures in a folder, in the order of the report."""
    found = (record.read(folder, name, paper.load(name).inputs(quick)) for name in paper.NAMES)
    return [one for one in found if one is not None]
