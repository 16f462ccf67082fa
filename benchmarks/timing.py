"""What the benchmarks share: clocks, the rate of matrix products on this machine, now, and tables."""

import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from rich.table import Table

import reshuffle as rs

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


def exponent(sizes: list[float], seconds: list[float]) -> float:
    """The slope of time against size, both on logarithmic scales."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def fresh(problem: rs.LeastSquares) -> rs.LeastSquares:
    """The same problem with nothing computed yet."""
    return rs.LeastSquares(problem.X, problem.y, beta_star=problem.beta_star, noise=problem.noise)


def table(title: str, *headings: str) -> Table:
    """A table with right-aligned columns after the first."""
    made = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        made.add_column(heading, justify="right" if number else "left")
    return made
