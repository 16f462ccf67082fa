"""The expected risk of a run against simulation to the same accuracy, and how its time grows."""

import numpy as np
from rich.console import Console
from rich.table import Table

import reshuffle as rs
from benchmarks import timing
from benchmarks.core import table

ACCURACY = 1e-3
RUNS = 400
ALPHA = 0.5


def fresh(problem: rs.LeastSquares) -> rs.LeastSquares:
    """The same problem with nothing computed yet."""
    return rs.LeastSquares(problem.X, problem.y, beta_star=problem.beta_star, noise=problem.noise)


def against_simulation(epochs: int = 100) -> Table:
    """All of the curve at n = 400, p = 200, B = 4, against our own batched simulator with fresh noise.

    The simulator is timed on a few hundred runs, and the time scaled to the number of runs that would bring the
    largest relative standard error of the curve to 0.1%: standard errors shrink like one over the root of the runs.
    """
    problem, scheme = rs.gaussian(400, 200, noise=0.5, seed=0), rs.RandomReshuffling(batches=4)
    when = np.arange(epochs + 1)
    # The two are timed in turns, since the machine may be busy with something else for a while.
    exact_seconds = simulated_seconds = float("inf")
    for _ in range(3):
        seconds, exact = timing.timed(
            lambda: rs.descend(fresh(problem), scheme, alpha=ALPHA).expected_risk(when)
        )
        exact_seconds = min(exact_seconds, seconds)
        seconds, simulated = timing.timed(
            lambda: rs.simulate(
                problem,
                scheme,
                step=ALPHA / 4,
                epochs=when,
                runs=RUNS,
                fresh_noise=True,
                seed=1,
                progress=False,
            )
        )
        simulated_seconds = min(simulated_seconds, seconds)
    relative = simulated.expected_risk.standard_error / simulated.expected_risk.mean
    needed = float(relative.max() / ACCURACY) ** 2
    deviation = (
        np.abs(simulated.expected_risk.mean - exact.total)[1:] / simulated.expected_risk.standard_error[1:]
    )
    made = table(
        f"Expected risk, {epochs} epochs, B = 4, n = 400, p = 200, against simulation to a standard error of 0.1%",
        "way", "seconds", "exact is faster by", "target",
    )  # fmt: skip
    made.add_row("exact second moments, every epoch", f"{exact_seconds:.2f}", "", "")
    made.add_row(
        f"{needed * RUNS:.0f} runs of our simulator (from {RUNS}, relative standard error {relative.max():.4f})",
        f"{simulated_seconds * needed:.1f}",
        f"{simulated_seconds * needed / exact_seconds:.1f} x",
        ">= 20 x",
    )
    made.add_row("largest deviation, standard errors", f"{deviation.max():.2f}", "", "< 4")
    return made


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
    """Print every table as soon as it is there."""
    console = Console(width=118)
    for part in (against_simulation, growth):
        console.print(part())


if __name__ == "__main__":
    main()
