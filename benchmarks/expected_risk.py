"""How the time of the expected risk of a run grows."""

import numpy as np
from rich.console import Console
from rich.table import Table

import reshuffle as rs
from benchmarks import timing
from benchmarks.core import table


def fresh(problem: rs.LeastSquares) -> rs.LeastSquares:
    """The same problem with nothing computed yet."""
    return rs.LeastSquares(problem.X, problem.y, beta_star=problem.beta_star, noise=problem.noise)


def growth() -> Table:
    """How the time of ten epochs grows."""

    def seconds(n: int, p: int, batches: int) -> float:
        problem = rs.gaussian(n, p, noise=0.5, seed=0)
        run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=0.2)
        run.risk(1)
        return timing.timed(lambda: run.expected_risk(10), 2)[0]

    made = table("Growth of ten epochs of expected risk", "varied", "values", "seconds", "fitted exponent")
    sweeps = [
        ("B, at n = 240, p = 60", [2, 4, 6, 8], lambda B: (240, 60, B)),
        ("n, at p = 100, B = 4", [100, 200, 400, 800], lambda n: (n, 100, 4)),
        ("p, at n = 200, B = 4", [25, 50, 100, 200], lambda p: (200, p, 4)),
    ]
    for name, values, shape in sweeps:
        times = [seconds(*shape(value)) for value in values]
        if name.startswith("B"):
            fit = f"x {np.exp(np.polyfit(values, np.log(times), 1)[0]):.2f} a batch"
        else:
            fit = f"{timing.exponent(values, times):.2f}"
        made.add_row(name, ", ".join(map(str, values)), ", ".join(f"{time:.3f}" for time in times), fit)
    return made


def main() -> None:
    """Print the table."""
    Console(width=118).print(growth())


if __name__ == "__main__":
    main()
