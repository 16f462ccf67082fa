"""One pass over fresh data with a million eigenvalues: all of them step by step, and grouped."""

import math
from functools import partial

import numpy as np
from rich.table import Table

from benchmarks.harness import show, table, timed
from reshuffle import asymptotics
from reshuffle.asymptotics.fresh_samples import ModeNodes, walked_risk

SIZE = 10**6
STEPS = 300
BATCH_SIZE, NOISE = 8, 1.0


def a_million_eigenvalues() -> Table:
    """Milliseconds per step, the error that is stated, and the one that was made, over 300 steps."""
    made = table(
        f"one pass, p = {SIZE}, {STEPS} steps",
        "spectrum, source, step", "ms per step, all p", "ms per step, grouped", "any number of steps, ms",
        "stated error", "error made",
    )  # fmt: skip
    steps = np.arange(STEPS + 1.0)
    for a, b, step in ((1.2, 0.5, 0.3), (1.5, 0.5, 0.3), (2.0, -0.5, 0.5)):
        spectrum, source = (asymptotics.PowerLaw(exponent, SIZE) for exponent in (a, b))
        values, start = spectrum.values(), source.values()
        modes, each = ModeNodes(values, values * start, values**2), np.full(STEPS, step)
        seconds, path = timed(partial(walked_risk, modes, BATCH_SIZE, each, 0.0, NOISE, steps))
        ask = partial(asymptotics.one_pass, spectrum, source, batch_size=BATCH_SIZE, noise=NOISE)
        walked, _ = timed(partial(ask, step=each, steps=steps), 3)
        grouped, found = timed(partial(ask, step=step, steps=np.append(steps, [1e6, 1e9, math.inf])), 3)
        risk, error = found.risk[: STEPS + 1], found.error[: STEPS + 1]
        made.add_row(
            f"j^-{a:g}, j^{-b:g}, {step:g}",
            f"{1e3 * seconds / STEPS:.1f}",
            f"{1e3 * walked / STEPS:.2f}",
            f"{1e3 * grouped:.0f}",
            f"{(error / risk).max():.1e}",
            f"{np.abs(risk / path - 1).max():.1e}",
        )
    return made


if __name__ == "__main__":
    show(a_million_eigenvalues, width=160)
