"""The application: which commands there are. What is heavy they import only when they are called."""

from typing import Annotated, Literal

from cyclopts import App, Parameter

from reshuffle import __version__
from reshuffle.cli.curve import curve
from reshuffle.cli.limits import limits
from reshuffle.cli.reproduce import reproduce
from reshuffle.cli.spectrum import spectrum
from reshuffle.cli.stability import stability

app = App(
    name="reshuffle",
    help="What mini-batch gradient descent does to a least-squares problem: exactly, without training.",
    help_epilogue="Start with: reshuffle curve --n 200 --p 300 --alpha 0.2",
    version=__version__,
    help_format="plaintext",
    suppress_keyboard_interrupt=False,
)
for _command in (curve, spectrum, stability, limits, reproduce):
    app.command(_command, help_epilogue="")


@app.command(help_epilogue="")
def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Your shell.")]) -> None:
    """Print the completion script of a shell.

    For example:
      reshuffle completion bash >> ~/.bash_completion
    """
    print(app.generate_completion(shell=shell))
