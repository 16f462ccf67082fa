"""`reshuffle reproduce`: the paper in one command, where its figures are: in a checkout, in the folder `paper`."""

import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from reshuffle.cli import render
from reshuffle.cli.console import InputError, writing

if TYPE_CHECKING:
    from paper.figure import Claim

CHECKOUT = Path(__file__).parents[3]
"""The folder above `src`, if this is a checkout of the repository or an unpacked source distribution."""


def reproduce(
    *names: Annotated[str, Parameter(help="Which figures, such as risk-over; else all.")],
    out: Annotated[str, Parameter(help="The folder to write to.")] = "out",
    quick: Annotated[
        bool, Parameter(help="Smaller sizes and fewer runs: within a minute.", negative="")
    ] = False,
    jobs: Annotated[
        int | None, Parameter(help="How many figures to compute at once; as many as cores by default.")
    ] = None,
) -> None:
    """Every figure and every claim of the paper, and a report.

    At the paper's own sizes, in three minutes on two cores. The folder gets a
    PNG, an SVG and a CSV file for each figure, and report.html. Finished
    figures are kept: interrupted, the same command goes on with the missing
    ones. It needs the folder paper/ of the repository, and so a checkout.

    For example:
      reshuffle reproduce --quick --out quick
      reshuffle reproduce spectra-under spectra-over
    """
    if not (CHECKOUT / "paper" / "reproduce.py").is_file():
        raise InputError(
            "the figures of the paper are not installed with the package; they are in the folder paper/ of its "
            "repository and of its source distribution: run `make reproduce` there."
        )
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    render.require_pictures()
    from paper import FIGURES

    for name in names:
        if name not in FIGURES:
            raise InputError(f"NAME must be among {', '.join(FIGURES)}, but it is {name!r}.")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out must be a folder, but {out} is a file.")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be a whole number of at least 1, but it is {jobs}.")
    try:
        with writing(out):
            _run(list(dict.fromkeys(names)) or list(FIGURES), folder, quick, jobs)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; finished figures are kept in {out}, and the same command goes on with the missing ones."
        ) from None


def _run(names: list[str], folder: Path, quick: bool, jobs: int | None) -> None:
    import os

    from paper import report
    from paper.reproduce import reproduce as steps
    from reshuffle import _progress

    jobs = jobs or os.cpu_count() or 1
    claims: list[Claim] = []
    count, begin = 0, time.perf_counter()
    # One figure after the other, the library shows how far it is.
    with _progress.display() if sys.stderr.isatty() and jobs > 1 else nullcontext() as bars:
        task = None if bars is None else bars.add_task("figures", total=1.0)
        for share, record, kept in steps(names, folder, quick, jobs):
            if bars is not None and task is not None:
                bars.update(task, completed=share, description=f"{count} of {len(names)} figures")
            if record is None:
                continue
            count += 1
            claims += record.claims
            note = "kept" if kept else f"{record.seconds:.1f} s"
            line = f"{count:>2}/{len(names)}  {record.name:<16} {note:>8}  {_verdict(record.claims)}"
            print(line, flush=True) if bars is None else bars.console.print(line, highlight=False)
    agree, seconds = sum(claim.agrees for claim in claims), time.perf_counter() - begin
    print(
        f"{len(claims)} claims: {agree} agree, {len(claims) - agree} do not. {seconds:.0f} s. "
        f"Open {folder / report.FILE}"
    )


def _verdict(claims: "list[Claim]") -> str:
    agree = sum(claim.agrees for claim in claims)
    corrected = sum(not claim.agrees and bool(claim.correction) for claim in claims)
    counts = {"agree": agree, "corrected": corrected, "DISAGREE": len(claims) - agree - corrected}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)
