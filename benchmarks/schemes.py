"""Many batches and shuffled samples: against the floor, against simulation, and how they grow."""

from functools import partial

import numpy as np
from rich.table import Table

import reshuffle as rs
from benchmarks.harness import exponent, fresh, product_rate, show, table, timed
from reshuffle.epoch.averaging import lattice

EPOCHS = np.arange(21)
ACCURACY = 1e-4


def twelve_batches_against_their_floor() -> Table:
    """The exact mean at n = 1200, p = 200, B = 12, against the operations of the lattice and those through X_b."""
    n, p, batches = 1200, 200, 12
    blocks = rs.gaussian(n, p, seed=0).blocks(rs.RandomReshuffling(batches=batches).partition(n))
    rate = product_rate(p, p, p)
    seconds, _ = timed(lambda: lattice.reshuffled_mean_map(blocks, 0.01))
    cheaper = lattice.flops(blocks)
    through_features = batches * 2 ** (batches - 1) * 4 * (n // batches) * p**2
    made = table("Twelve batches exactly, n = 1200, p = 200", "quantity", "measured", "target")
    made.add_row(
        "time / (operations of the cheaper lattice / product rate)", f"{seconds * rate / cheaper:.2f}", "<= 3"
    )
    made.add_row(
        "time / (operations through X_b / product rate)", f"{seconds * rate / through_features:.2f}", "<= 3"
    )
    made.add_row("  seconds; rate of products beside it", f"{seconds:.1f} s; {rate / 1e9:.0f} Gflop/s", "")
    return made


def thousand_batches_against_simulation(runs: int = 20) -> Table:
    """The risk curve of 1,000 batches to a relative error of 1e-4, against simulating to that standard error.

    Simulated runs average over orders and noise. The harder rival is spared the noise: it keeps the responses
    fixed, and only has to average over orders. Both are scaled up from a few runs by their own standard errors.
    """
    problem = rs.gaussian(10_000, 100, noise=0.5, seed=0)
    made = table(
        f"1,000 batches, n = 10,000, p = 100, alpha = 0.5: the risk of {EPOCHS[-1]} epochs to {ACCURACY:g}",
        "way", "seconds", "relative error", "slower by", "target",
    )  # fmt: skip
    for scheme in (rs.RandomReshuffling(batches=1000), rs.SampleReshuffling(batches=1000)):
        seconds, (run, risk) = timed(partial(_curve, problem, scheme, 0.5, rtol=ACCURACY / 5), 2)
        error = float(np.max(risk.error / risk.total))
        made.add_row(
            f"{type(scheme).__name__}, {run.epoch.method}", f"{seconds:.2f}", f"{error:.1e}", "", "<= 1e-4"
        )
        for name, fresh_noise in (("orders alone", False), ("orders and noise", True)):
            rival = _simulation_seconds(problem, scheme, 0.5, runs, fresh_noise)
            slower = f"{rival / seconds:,.0f} x"
            made.add_row(
                f"  simulating {name} (from {runs} runs)", f"{rival:,.0f}", "1.0e-04", slower, ">= 20 x"
            )
    return made


def _simulation_seconds(
    problem: rs.LeastSquares, scheme: rs.Scheme, alpha: float, runs: int, fresh_noise: bool
) -> float:
    """The time after which simulation would know every point of the curve to a relative standard error of 1e-4."""
    seconds, result = timed(
        lambda: rs.simulate(
            problem, scheme, step=alpha / scheme.steps(problem.n), epochs=EPOCHS, runs=runs,
            fresh_noise=fresh_noise, seed=1, progress=False,
        )
    )  # fmt: skip
    relative = result.risk.standard_error / result.risk.mean
    return seconds * (float(relative.max()) / ACCURACY) ** 2


def _curve(
    problem: rs.LeastSquares, scheme: rs.Scheme, alpha: float, **wishes: float
) -> tuple[rs.Run, rs.Risk]:
    run = rs.descend(fresh(problem), scheme, alpha=alpha, **wishes)
    return run, run.risk(EPOCHS)


def growth() -> Table:
    """How the time of one risk curve grows with B, n and p beyond the lattice, and for shuffled samples."""
    headings = "varied", "values", "seconds", "method", "exponent"
    made = table("Growth of one risk curve, alpha = 0.3, rtol = 1e-4", *headings)
    fixed, samples = rs.RandomReshuffling, rs.SampleReshuffling
    sweeps = [
        (
            "B, at n = 10,000, p = 50",
            [30, 100, 300, 1000, 3000, 10_000],
            lambda B: (10_000, 50, fixed(batches=B)),
        ),
        ("n, at p = 50, B = 100", [1000, 3000, 10_000, 30_000], lambda n: (n, 50, fixed(batches=100))),
        ("p, at n = 3000, B = 100", [25, 50, 100, 200], lambda p: (3000, p, fixed(batches=100))),
        ("B, samples, n = 3000, p = 50", [5, 30, 300, 3000], lambda B: (3000, 50, samples(batches=B))),
        ("n, samples, B = 4, p = 50", [1000, 2000, 4000, 8000], lambda n: (n, 50, samples(batches=4))),
        ("p, samples, n = 2000, B = 4", [50, 100, 200, 400], lambda p: (2000, p, samples(batches=4))),
    ]
    for name, values, shape in sweeps:
        times, methods = [], []
        for value in values:
            n, p, scheme = shape(value)
            problem = rs.gaussian(n, p, noise=0.5, seed=0)
            seconds, (run, _) = timed(partial(_curve, problem, scheme, 0.3))
            times.append(seconds)
            methods.append(run.epoch.method)
        made.add_row(
            name,
            ", ".join(map(str, values)),
            ", ".join(f"{seconds:.2f}" for seconds in times),
            ", ".join(dict.fromkeys(methods)),
            f"{exponent(values, times):.2f}",
        )
    return made


if __name__ == "__main__":
    show(twelve_batches_against_their_floor, thousand_batches_against_simulation, growth)
