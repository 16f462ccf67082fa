"""How long the command line takes to say what it can do, in units of importing numpy."""

import subprocess
import sys

from rich.console import Console

from benchmarks import timing
from benchmarks.timing import table


def main() -> None:
    """Print the ratio."""

    def run(*arguments: str) -> float:
        seconds, _ = timing.timed(
            lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True), 9
        )
        return seconds

    numpy = run("-c", "import numpy")
    made = table("Startup", "command", "seconds", "times importing numpy", "target")
    made.add_row("python -c 'import numpy'", f"{numpy:.3f}", "1.00", "")
    for name, target in (("--help", "<= 3"), ("curve --help", "<= 3"), ("--version", "")):
        seconds = run("-m", "reshuffle", *name.split())
        made.add_row(f"reshuffle {name}", f"{seconds:.3f}", f"{seconds / numpy:.2f}", target)
    Console(width=100).print(made)


if __name__ == "__main__":
    main()
