"""Run a command as a user does, and see what they see."""

from dataclasses import dataclass
from typing import Any

from reshuffle.cli import main


@dataclass(frozen=True)
class Outcome:
    """What a command left behind: its exit code and both streams."""

    code: int
    out: str
    err: str


def run(capsys: Any, *arguments: str) -> Outcome:
    """Run `reshuffle` with these arguments in this process."""
    code = main(arguments)
    printed = capsys.readouterr()
    return Outcome(code, printed.out, printed.err)
