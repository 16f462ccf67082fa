"""How long the command line takes to say what it can do, in units of importing numpy."""

import subprocess
import sys

from benchmarks.harness import show, table, timed


def startup():
    """The shortest of nine times each."""

    def run(*arguments: str) -> float:
        command = [sys.executable, *arguments]
        return timed(lambda: subprocess.run(command, check=True, capture_output=True), 9)[0]

    numpy = run("-c", "import numpy")
    made = table("Startup", "command", "seconds", "times importing numpy", "target")
    made.add_row("python -c 'import numpy'", f"{numpy:.3f}", "1.00", "")
    for name, target in (("--help", "<= 3"), ("curve --help", "<= 3"), ("--version", "")):
        seconds = run("-m", "reshuffle", *name.split())
        made.add_row(f"reshuffle {name}", f"{seconds:.3f}", f"{seconds / numpy:.2f}", target)
    return made


if __name__ == "__main__":
    show(startup, width=100)
