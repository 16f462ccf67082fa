"""What the benchmarks share: arguments, clocks, tables, standardised data and real training."""

import argparse
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table

import reshuffle as rs

Result = TypeVar("Result")


def arguments(description: str | None, given: Sequence[str] | None = None, **defaults: Any) -> Any:
    """The command line, read: one option per default, of its type; names that begin with _ are positions.

    A default of False makes a flag, a tuple an option with its help, and a list takes what is left over.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in defaults.items():
        value, text = default if isinstance(default, tuple) else (default, None)
        if name.startswith("_"):
            count = "*" if isinstance(value, list) else "?"
            kind = str if isinstance(value, list) else type(value)
            parser.add_argument(name[1:], nargs=count, type=kind, default=value, help=text)
        elif value is False:
            parser.add_argument(f"--{name}", action="store_true", help=text)
        else:
            parser.add_argument(f"--{name}", type=type(value), default=value, help=text)
    return parser.parse_args(given)


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


def processor(work: Callable[[], Result], repeats: int = 1) -> tuple[float, Result]:
    """The same by the time of the processor, all threads counted."""
    return timed(work, repeats, time.process_time)


def product_rate(rows: int, inner: int, columns: int, repeats: int = 50) -> float:
    """Operations per second of a matrix product of this shape."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((rows, inner)), rng.standard_normal((inner, columns))
    seconds, _ = timed(lambda: left @ right, repeats)
    return 2 * rows * inner * columns / seconds


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
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


def show(*tables: Callable[[], Table], width: int = 118) -> None:
    """Print every table as soon as it is made."""
    console = Console(width=width)
    for make in tables:
        console.print(make())


def markdown(*headings: str) -> None:
    """Print the head of a table in Markdown."""
    print(f"| {' | '.join(headings)} |\n{'|---' * len(headings)}|")


def row(*cells: object) -> None:
    """Print a row of such a table, at once."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def standardized(columns: np.ndarray) -> np.ndarray:
    """Mean zero and variance one, without columns that are constant."""
    columns = columns[:, columns.std(axis=0) > 0]
    return np.asarray((columns - columns.mean(axis=0)) / columns.std(axis=0))


def batches(rng: np.random.Generator, n: int, size: int, runs: int = 0) -> Iterable[np.ndarray]:
    """One epoch of shuffled samples: the rows (m,) of every batch, or (runs, m) of many runs."""
    orders = rng.permuted(np.tile(np.arange(n), (runs, 1)), axis=1) if runs else rng.permutation(n)
    for first in range(0, n, size):
        yield orders[..., first : first + size]
