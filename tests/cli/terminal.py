"""Run a command as a user does, and see what they see."""

import json
import shlex
from dataclasses import dataclass
from typing import Any

from reshuffle.cli import main


@dataclass(frozen=True)
class Outcome:
    """What a command left behind: its exit code and both streams."""

    code: int
    out: str
    err: str


def run(capsys: Any, line: str, *arguments: str) -> Outcome:
    """Run `reshuffle` in this process, with a line as in a shell and more arguments as they are."""
    code = main([*shlex.split(line), *arguments])
    printed = capsys.readouterr()
    return Outcome(code, printed.out, printed.err)


def shown(capsys: Any, line: str, *arguments: str) -> str:
    """What a command prints that succeeds without a warning."""
    outcome = run(capsys, line, *arguments)
    assert (outcome.code, outcome.err) == (0, ""), outcome
    return outcome.out


def answer(capsys: Any, line: str, *arguments: str) -> Any:
    """What a command that succeeds without a warning writes as strict JSON."""
    return json.loads(shown(capsys, line, *arguments, "--json", "-"), parse_constant=constant)


def constant(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")
