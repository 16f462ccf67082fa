"""`reshuffle explore`: the page, on this machine."""

from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

from cyclopts import Parameter

from reshuffle.cli import options
from reshuffle.cli.console import InputError, hush

_LARGEST_PORT = 65535
_NEEDED = ("shiny", "uvicorn", "matplotlib")


def explore(
    *,
    port: Annotated[
        int,
        Parameter(help="Where the page listens; 0 takes any that is free.", converter=options.whole_number),
    ] = 0,
    browser: Annotated[bool, Parameter(help="Whether to open it in your browser.")] = True,
) -> None:
    """A page to play with, in your browser, on your machine.

    Move sliders and see exact learning curves, spectra and thresholds; send a
    table and get a plan for training on it; compare ways to shuffle; type an
    expression of free variables. Nothing leaves your machine, and nothing is
    loaded from elsewhere. Ctrl-C ends it.

    For example:
      reshuffle explore
      reshuffle explore --port 8000 --no-browser
    """
    if not 0 <= port <= _LARGEST_PORT:
        raise InputError(f"--port must be a whole number between 0 and {_LARGEST_PORT}, but it is {port}.")
    lacking = [name for name in _NEEDED if find_spec(name) is None]
    if lacking:
        raise ModuleNotFoundError(
            f"the page needs {', '.join(lacking)}, which is not installed: pip install 'reshuffle[page]'."
        )
    hush()
    # By name: the page stands after the command line, whose reading of tables it uses, and this only starts it.
    import_module("reshuffle.page.serving").serve(port, opens_browser=browser)
