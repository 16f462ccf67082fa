"""`reshuffle explore` starts the page, and `reshuffle reproduce` the figures of the paper, in a checkout."""

import os
import sys
from contextlib import nullcontext
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from reshuffle.cli import render
from reshuffle.cli.console import hush, writing
from reshuffle.cli.options import FLAG, WHOLE, at_least
from reshuffle.errors import ArgumentError

CHECKOUT = Path(__file__).parents[3]
"""The folder above `src`, if this is a checkout of the repository or an unpacked source distribution."""


def explore(*, port: Annotated[int, WHOLE] = 0, browser: bool = True) -> None:
    """A page to play with, in your browser, on your machine.

    Move sliders and see exact learning curves, spectra and thresholds; send a
    table and get a plan for training on it; compare ways to shuffle; type an
    expression of free variables. Nothing leaves your machine, and nothing is
    loaded from elsewhere. Ctrl-C ends it.

    For example:
      reshuffle explore
      reshuffle explore --port 8000 --no-browser

    :param port: Port of the page; 0 takes any that is free.
    :param browser: Open the page in your browser.
    """
    at_least("port", port, 0, 65535)
    lacking = [name for name in ("shiny", "uvicorn", "matplotlib") if find_spec(name) is None]
    if lacking:
        raise ModuleNotFoundError(f"the page needs {' and '.join(lacking)}: pip install 'reshuffle[page]'.")
    hush()
    # By name: the page imports the command line, whose reader it uses, and this only starts it.
    import_module("reshuffle.page.serving").serve(port, opens_browser=browser)


def reproduce(
    *names: str,
    out: str = "out",
    quick: Annotated[bool, FLAG] = False,
    jobs: Annotated[int | None, WHOLE] = None,
) -> None:
    """Every figure and every claim of the paper, and a report.

    At the paper's own sizes, in three minutes on two cores. The folder gets a
    PNG, an SVG and a CSV file for each figure, and report.html. Finished
    figures are kept: interrupted, the same command goes on with the missing
    ones. It needs the folder paper/ of the repository, and so a checkout.

    For example:
      reshuffle reproduce --quick --out quick
      reshuffle reproduce spectra-under spectra-over

    :param names: Which figures, such as risk-over; else all.
    :param out: The folder to write to.
    :param quick: Smaller sizes and fewer runs: within a minute.
    :param jobs: Number of figures to compute at once; one per core by default.
    """
    if not (CHECKOUT / "paper" / "reproduce.py").is_file():
        raise ModuleNotFoundError(
            "the figures of the paper are not installed with the package; they are in the folder paper/ of its "
            "repository and of its source distribution: run `make reproduce` there."
        )
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    render.require_pictures()
    from paper import FIGURES
    from paper.reproduce import print_progress
    from reshuffle import _progress

    for name in names:
        if name not in FIGURES:
            raise ArgumentError("NAME", f"be among {', '.join(FIGURES)}", f"it is {name!r}")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ArgumentError("out", "be a folder", f"{out} is a file")
    if jobs is not None:
        at_least("jobs", jobs, 1)
    jobs = jobs or os.cpu_count() or 1
    # One figure after the other, the library shows how far it is.
    shows_bars = sys.stderr.isatty() and jobs > 1
    try:
        with writing(out), _progress.display() if shows_bars else nullcontext() as bars:
            print_progress(list(dict.fromkeys(names)) or list(FIGURES), folder, quick, jobs, bars)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; finished figures are in {out}, and the same command goes on with the missing ones."
        ) from None
