"""How quickly the page is there, and how quickly its first tab answers a drag."""

import itertools
import os
import statistics
import subprocess
import sys
import time

from benchmarks.harness import show, table
from reshuffle.page import limit, tabs


def the_page():
    """Both, in seconds of the clock and of the processor."""
    made = table("The page", "what", "seconds", "target")
    clock, cpu = min(_ready() for _ in range(3))
    made.add_row("from the command to its address", f"{clock:.2f} (of the processor: {cpu:.2f})", "<= 3")
    for name, (clock, cpu) in _drags().items():
        made.add_row(f"an answer to a drag, {name}", f"{clock:.3f} (of the processor: {cpu:.3f})", "<= 0.3")
    return made


def _ready() -> tuple[float, float]:
    """Seconds until `reshuffle explore` prints where it is, and those of the processor in its server."""
    begin, before = time.perf_counter(), os.times()
    process = subprocess.Popen(
        [sys.executable, "-m", "reshuffle", "explore", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    with process:
        process.stdout.readline()
        seconds = time.perf_counter() - begin
        process.kill()
    after = os.times()
    return (
        seconds,
        after.children_user + after.children_system - before.children_user - before.children_system,
    )


def _drags() -> dict[str, tuple[float, float]]:
    """Medians over positions of the sliders, as they are computed for the page."""
    start = tabs.LIMIT.defaults
    limit.answer(start, 0)
    kinds = {
        "B = 1": {"batches": 1},
        "B = 2": {"batches": 2},
        "B = 4 (a first look)": {"batches": 4},
        "B = 8 (a first look)": {"batches": 8},
        "B = 2, momentum": {"batches": 2, "momentum": 0.5},
    }
    found = {}
    for name, changes in kinds.items():
        clocks, processors = [], []
        for aspect, alpha in itertools.product((0.3, 0.9, 1.5, 3.0), (0.1, 0.3)):
            begin = time.perf_counter(), time.process_time()
            limit.answer({**start, **changes, "aspect": aspect, "alpha": alpha}, 0)
            clocks.append(time.perf_counter() - begin[0])
            processors.append(time.process_time() - begin[1])
        found[name] = statistics.median(clocks), statistics.median(processors)
    return found


if __name__ == "__main__":
    show(the_page, width=110)
