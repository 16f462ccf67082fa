"""The command line, `reshuffle curve`, `advise`, `stability` and others. It holds no mathematics."""

import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

if TYPE_CHECKING:
    from cyclopts import App


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 (failed), 2 (bad input) or 130 (interrupted)."""
    from reshuffle.cli.console import guarded

    return guarded(application(), list(sys.argv[1:] if arguments is None else arguments))


@cache
def application() -> "App":
    """The application with all commands, which import heavy libraries only when they are called."""
    from cyclopts import App, Parameter

    from reshuffle import __version__
    from reshuffle.cli.advise import advise
    from reshuffle.cli.curves import curve, stability
    from reshuffle.cli.influence import influence
    from reshuffle.cli.launch import explore, reproduce
    from reshuffle.cli.limits import limits, spectrum
    from reshuffle.cli.sweep import sweep

    app = App(
        name="reshuffle",
        help="What mini-batch gradient descent does to a least-squares problem: exactly, without training.",
        help_epilogue="Start with: reshuffle curve --n 200 --p 300 --alpha 0.2",
        version=__version__,
        help_format="plaintext",
        suppress_keyboard_interrupt=False,
    )

    def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Your shell.")]) -> None:
        """Print the completion script of a shell.

        For example:
          reshuffle completion bash >> ~/.bash_completion
        """
        print(app.generate_completion(shell=shell))

    commands = curve, advise, sweep, stability, influence, limits, spectrum, explore, reproduce, completion
    for command in commands:
        app.command(command, help_epilogue="")
    return app
