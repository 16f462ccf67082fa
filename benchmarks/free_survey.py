"""Support, atoms and mass of random expressions: how much processor time they take, and whether the mass is 1.

However many threads BLAS has, one works: `reshuffle.free` holds the others, which would only wait and count too.
Run with ``python -m benchmarks.free_survey``; ``--count`` and ``--seed`` choose others.
"""

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.harness import arguments, processor
from reshuffle import free

COUNT = 50
LAWS = (
    free.Semicircle(),
    free.MarchenkoPastur(0.5),
    free.MarchenkoPastur(2.0, 0.5),
    free.Arcsine(-1.0, 1.0),
    free.Uniform(0.0, 1.0),
    free.Bernoulli(0.3, 0.0, 1.0),
    free.Projection(0.5),
    free.Discrete([-1.0, 0.0, 2.0], [0.25, 0.25, 0.5]),
)


def expression(rng):
    """Return a self-adjoint polynomial of degree at most four in three variables, one of which has atoms."""
    laws = [LAWS[k] for k in rng.integers(len(LAWS), size=2)] + [LAWS[int(rng.integers(5, len(LAWS)))]]
    x = free.variables(*laws)
    total = sum(float(c) * v for c, v in zip(rng.integers(0, 3, size=3) / 2, x, strict=True))
    for _ in range(int(rng.integers(1, 4))):
        word = rng.integers(3, size=int(rng.integers(2, 5)))
        term = float(rng.choice([-1.0, -0.5, 0.5, 1.0]))
        for index in word:
            term = term * x[index]
        total = total + (term + term.adjoint()) / 2
    return total


def measured(count, seed):
    """Return for each expression its text, processor time, mass less one (nan for an error), and what was found."""
    rng = np.random.default_rng(seed)

    def answer(p):
        try:
            s = free.spectrum(p)
            return s.measure.mass - 1, f"{len(s.support)} intervals, {len(s.atoms)} atoms"
        except free.ConvergenceError as error:
            return np.nan, str(error)[:60]

    for _ in range(count):
        p = expression(rng)
        seconds, found = processor(lambda p=p: answer(p))
        yield repr(p), seconds, *found


def main(given=None):
    """Print the survey that a command line asks for."""
    asked = arguments(__doc__, given, count=COUNT, seed=0)
    rows = list(measured(asked.count, asked.seed))
    seconds = np.array([row[1] for row in rows])
    masses = np.array([row[2] for row in rows])
    table = Table("seconds", "mass - 1", "found", "expression", title="the ten slowest")
    for k in np.argsort(seconds)[::-1][:10]:
        table.add_row(f"{rows[k][1]:.2f}", f"{rows[k][2]:.1e}", rows[k][3], rows[k][0][:60])
    console = Console(width=150)
    console.print(table)
    console.print(
        f"{len(rows)} expressions: median {np.median(seconds):.2f} s, longest {seconds.max():.1f} s,"
        f" {np.isnan(masses).sum()} refused, largest |mass - 1| of the others {np.nanmax(np.abs(masses)):.1e}"
    )


if __name__ == "__main__":
    main()
