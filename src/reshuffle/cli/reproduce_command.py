"""`reshuffle reproduce`: the paper in one command."""

import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from reshuffle import paper
from reshuffle.cli import output
from reshuffle.cli.complaints import InputError, writing

if TYPE_CHECKING:
    from reshuffle.paper.figure import Record


def reproduce(
    *names: Annotated[str, Parameter(help=f"Which figures, of {', '.join(paper.NAMES)}; else all.")],
    out: Annotated[str, Parameter(help="The folder to write to.")] = "out",
    quick: Annotated[
        bool, Parameter(help="Smaller sizes and fewer runs: a minute instead of many.", negative="")
    ] = False,
) -> None:
    """Every figure and every claim of the paper, and a report.

    At the paper's own sizes. The folder gets a PNG, an SVG and a CSV file for
    each figure, and report.html. Finished figures are kept: interrupted, the
    same command goes on with the missing ones.

    For example:
      reshuffle reproduce --quick --out quick
      reshuffle reproduce spectra-under spectra-over
    """
    for name in names:
        if name not in paper.NAMES:
            raise InputError(f"NAME must be among {', '.join(paper.NAMES)}, but it is {name!r}.")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must be a folder, but {out} is a file.")
    output.require_pictures()
    begin = time.perf_counter()
    try:
        with writing(out):
            records = _run(list(dict.fromkeys(names)) or list(paper.NAMES), folder, quick)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; finished figures are kept in {out}, and the same command goes on with the missing ones."
        ) from None
    _conclude(records, folder, time.perf_counter() - begin)


def _run(names: list[str], folder: Path, quick: bool) -> "list[Record]":
    import sys

    from reshuffle import _progress
    from reshuffle.paper.report import reproduce as steps

    records = []
    with _progress.display() if sys.stderr.isatty() else nullcontext() as bars:
        task = None if bars is None else bars.add_task("figures", total=len(names))
        for name, record, reused in steps(names, folder, quick):
            if record is None:
                if bars is not None and task is not None:
                    bars.update(task, description=name)
                continue
            records.append(record)
            if bars is not None and task is not None:
                bars.update(task, advance=1)
            note = "kept" if reused else f"{record.seconds:.1f} s"
            line = f"{len(records):>2}/{len(names)}  {name:<16} {note:>8}  {_verdict(record)}"
            print(line, flush=True) if bars is None else bars.console.print(line, highlight=False)
    return records


def _verdict(record: "Record") -> str:
    agree = sum(claim.agrees for claim in record.claims)
    corrected = sum(not claim.agrees and bool(claim.correction) for claim in record.claims)
    open_ = len(record.claims) - agree - corrected
    parts = [f"{agree} agree"] * bool(agree) + [f"{corrected} corrected"] * bool(corrected)
    return ", ".join(parts + [f"{open_} DISAGREE"] * bool(open_))


def _conclude(records: "list[Record]", folder: Path, seconds: float) -> None:
    from reshuffle.paper import report

    claims = [claim for record in records for claim in record.claims]
    agree = sum(claim.agrees for claim in claims)
    print(
        f"{len(claims)} claims: {agree} agree, {len(claims) - agree} do not. "
        f"{seconds:.0f} s. Open {folder / report.FILE}"
    )
