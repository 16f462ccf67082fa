"""The exact dynamics against their floor, and how their time grows."""

import tracemalloc
from math import comb

import numpy as np
from rich.console import Console
from rich.table import Table

import reshuffle as rs
from benchmarks import timing
from reshuffle.epoch.averaging.lattice import over_samples


def table(title: str, *headings: str) -> Table:
    """A table with right-aligned columns after the first."""
    made = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        made.add_column(heading, justify="right" if number else "left")
    return made


def lattice_against_its_floor() -> Table:
    """Time at n = 1000, p = 500, B = 8 against the operations through X_b, memory against two layers."""
    n, p, batches = 1000, 500, 8
    blocks = rs.gaussian(n, p, seed=0).blocks(rs.RandomReshuffling(batches=batches).partition(n))
    rate = timing.product_rate(n // batches, p, p)
    seconds, _ = timing.timed(lambda: over_samples(blocks, 0.01), 3)
    through_features = batches * 2 ** (batches - 1) * 4 * (n // batches) * p**2
    tracemalloc.start()
    over_samples(blocks, 0.01)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    layers = [8 * comb(batches, size) * (size * n // batches) ** 2 for size in range(batches // 2 + 1)]
    in_parameters = 8 * (comb(batches, 4) + comb(batches, 3)) * p**2
    made = table("The lattice at n = 1000, p = 500, B = 8", "quantity", "measured", "target")
    made.add_row(
        "time / (operations through X_b / product rate)", f"{seconds * rate / through_features:.2f}", "<= 1.5"
    )
    made.add_row("  seconds; rate of products beside it", f"{seconds:.2f} s; {rate / 1e9:.0f} Gflop/s", "")
    matrices = (peak - sum(layers[-2:])) / (8 * n**2)
    made.add_row("peak memory beyond its two largest layers, in matrices", f"{matrices:.2f}", "<= 3")
    made.add_row(
        "peak memory / two largest layers of p x p matrices", f"{peak / in_parameters:.2f}", "informative"
    )
    return made


def many_epochs() -> Table:
    """10,000 epochs of risk against the eigendecomposition they come from."""
    made = table("10,000 epochs of risk", "covariance", "risk / one eigendecomposition", "target")
    for name, covariance in (("identity", None), ("diagonal", np.linspace(0.5, 2.0, 1500))):
        problem = rs.gaussian(1000, 1500, noise=0.5, seed=0, covariance=covariance)
        run = rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=0.1)
        Z = run.epoch.mean.factor.T @ run.epoch.mean.weigh(run.epoch.mean.factor)
        decomposition, _ = timing.timed(lambda matrix=Z: np.linalg.eigh(matrix), 3)
        run.risk(0)
        epochs, _ = timing.timed(lambda run=run: run.risk(np.arange(10_000)), 3)
        made.add_row(name, f"{epochs / decomposition:.2f}", "<= 1" if covariance is None else "informative")
    return made


def growth() -> Table:
    """How the time of a whole exact curve grows with B, n and p."""

    def seconds(n: int, p: int, batches: int) -> float:
        problem = rs.gaussian(n, p, noise=0.5, seed=0)
        return timing.timed(
            lambda: rs.descend(
                rs.LeastSquares(problem.X, problem.y, beta_star=problem.beta_star, noise=0.5),
                rs.RandomReshuffling(batches=batches),
                alpha=0.1,
            ).risk(np.arange(301)),
            2,
        )[0]

    made = table("Growth of one exact curve (300 epochs)", "varied", "values", "seconds", "fitted exponent")
    sweeps = [
        ("B, at n = 480, p = 240", [2, 4, 6, 8, 10], lambda B: (480, 240, B)),
        ("n, at p = 2000, B = 4", [200, 400, 800, 1600], lambda n: (n, 2000, 4)),
        ("p, at n = 2000, B = 4", [100, 200, 400, 800], lambda p: (2000, p, 4)),
    ]
    for name, values, shape in sweeps:
        times = [seconds(*shape(value)) for value in values]
        if name.startswith("B"):
            factor = np.exp(np.polyfit(values, np.log(times), 1)[0])
            fit = f"x {factor:.2f} a batch"
        else:
            fit = f"{timing.exponent(values, times):.2f}"
        made.add_row(name, ", ".join(map(str, values)), ", ".join(f"{time:.2f}" for time in times), fit)
    return made


def main() -> None:
    """Print every table as soon as it is there."""
    console = Console(width=118)
    for part in (lattice_against_its_floor, many_epochs, growth):
        console.print(part())


if __name__ == "__main__":
    main()
