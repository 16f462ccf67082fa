"""The command line: `reshuffle curve`, `spectrum`, `stability`, `limits`, `reproduce`. It holds no mathematics."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 1 (failed), 2 (bad input) or 130 (interrupted)."""
    from reshuffle.cli.app import app
    from reshuffle.cli.errors import guarded

    return guarded(app, list(sys.argv[1:] if arguments is None else arguments))
