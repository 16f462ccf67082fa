"""Small matrices beside a loop that keeps every core busy: with the threads of BLAS, and without."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import scipy.linalg
from rich.console import Console
from rich.table import Table

import reshuffle as rs
from benchmarks import timing
from benchmarks.core import table
from reshuffle import _linalg
from reshuffle.epoch.averaging.lattice import over_samples


@contextmanager
def busy_cores() -> Iterator[None]:
    """Keep each core busy with a loop."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
        for loop in loops:
            loop.wait()


def works() -> dict[str, Callable[[], object]]:
    """What is timed: LAPACK itself, and the entrances that hold its threads."""
    rng = np.random.default_rng(0)
    square = rng.standard_normal((120, 120))
    problem = rs.gaussian(300, 120, noise=0.5, seed=0)
    blocks = rs.gaussian(1000, 500, seed=0).blocks(rs.RandomReshuffling(batches=8).partition(1000))

    def curve(**recipe: float) -> object:
        fresh = rs.LeastSquares(problem.X, problem.y, beta_star=problem.beta_star, noise=0.5)
        return rs.descend(fresh, rs.RandomReshuffling(batches=4), alpha=0.1, **recipe).risk([0, 10, 100])

    return {
        "eigenvalues of 120 x 120": lambda: scipy.linalg.eigh(square + square.T),
        "a curve, n = 300, p = 120, B = 4": curve,
        "the same with momentum": lambda: curve(momentum=0.5),
        "the lattice, n = 1000, p = 500, B = 8": lambda: over_samples(blocks, 0.01),
    }


def small_matrices_under_load() -> Table:
    """Times in units of those with one thread on free cores."""
    made = table(
        "Small matrices beside a busy loop on every core, in units of one thread on free cores",
        "work", "free", "busy", "busy, BLAS held to one thread", "target",
    )  # fmt: skip
    with _linalg.one_thread():
        units = {name: timing.timed(work, 3)[0] for name, work in works().items()}
    free = {name: timing.timed(work, 3)[0] for name, work in works().items()}
    with busy_cores():
        busy = {name: timing.timed(work, 3)[0] for name, work in works().items()}
        with _linalg.one_thread():
            held = {name: timing.timed(work, 3)[0] for name, work in works().items()}
    for name, unit in units.items():
        target = "informative" if name.startswith("eigenvalues") else "<= 3 when busy"
        made.add_row(name, *(f"{times[name] / unit:.2f}" for times in (free, busy, held)), target)
    return made


def main() -> None:
    """Print the table."""
    Console(width=118).print(small_matrices_under_load())


if __name__ == "__main__":
    main()
