"""What the benchmarks share: clocks, memory, and the rate of matrix products on this machine, now."""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

Result = TypeVar("Result")


def timed(
    work: Callable[[], Result], repeats: int = 1, clock: Callable[[], float] = time.perf_counter
) -> tuple[float, Result]:
    """The shortest of several times, and the last result."""
    best = float("inf")
    for _ in range(repeats):
        begin = clock()
        result = work()
        best = min(best, clock() - begin)
    return best, result


def product_rate(rows: int, inner: int, columns: int, repeats: int = 50) -> float:
    """Operations per second of a matrix product of this shape."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((rows, inner)), rng.standard_normal((inner, columns))
    seconds, _ = timed(lambda: left @ right, repeats)
    return 2 * rows * inner * columns / seconds


def peak_memory_of(code: str) -> tuple[float, float]:
    """Seconds and peak resident bytes of a piece of Python, in a process of its own."""
    wrapped = (
        "import resource, time\n"
        f"begin = time.perf_counter()\n{code}\n"
        "print(time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
    )
    output = subprocess.run(
        [sys.executable, "-c", wrapped], check=True, capture_output=True, text=True
    ).stdout
    seconds, peak = output.split()[-2:]
    return float(seconds), float(peak)


def exponent(sizes: list[float], seconds: list[float]) -> float:
    """The slope of time against size, both on logarithmic scales."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
