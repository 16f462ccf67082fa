"""Populations from sample eigenvalues by `free.divide`: distances from the truth, and whether errors cover.

Run with ``python -m benchmarks.divide``; ``--samples``, ``--size`` and ``--seed`` choose others. Distances are
Wasserstein-1 distances from the population over its mean. The last two populations had no part in setting the
constants of `divide`.
"""

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.harness import arguments
from reshuffle import free

LEVELS = (np.arange(20_000) + 0.5) / 20_000


def populations(p):
    """Return the eigenvalues of Sigma (p,) and p / n, by name."""
    thirds = np.array([1.0, 3.0, 10.0])[np.arange(p) * 3 // p]
    toeplitz = np.linalg.eigvalsh(0.5 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p))))
    return {
        "1, 3, 10; 1/3": (thirds, 1 / 3),
        "1, 2; 1/2": (np.array([1.0, 2.0])[np.arange(p) * 2 // p], 1 / 2),
        "1, 3, 10; 2": (thirds, 2.0),
        "Toeplitz 0.5; 1/2": (toeplitz, 1 / 2),
        "20/j; 1/2": (20 / np.arange(1, p + 1), 1 / 2),
        "evenly from 1 to 5; 1/2": (np.linspace(1.0, 5.0, p), 1 / 2),
        "j^-0.6; 1/4": (np.arange(1, p + 1) ** -0.6, 1 / 4),
    }


def distance(law, sigma):
    """Return the Wasserstein-1 distance of a law from the population, over its mean."""
    return np.abs(law.quantile(LEVELS) - free.Discrete(sigma).quantile(LEVELS)).mean() / sigma.mean()


def main(given=None):
    """Print a row per population."""
    options = arguments(__doc__, given, samples=20, size=200, seed=1000)
    headings = (
        "population; p/n",
        "eigenvalues",
        "divide",
        "worse than eigenvalues",
        "covered",
        "worst / stated",
    )
    table = Table(*headings, title=f"p = {options.size}, {options.samples} samples each")
    for name, (sigma, ratio) in populations(options.size).items():
        n, rows = round(options.size / ratio), []
        for seed in range(options.seed, options.seed + options.samples):
            x = np.random.default_rng(seed).standard_normal((n, options.size)) * np.sqrt(sigma)
            seen = np.maximum(np.linalg.eigvalsh(x.T @ x / n), 0.0)
            found = free.divide(seen, free.MarchenkoPastur(ratio))
            off = distance(found.law, sigma)
            rows.append((distance(free.Discrete(seen), sigma), off, off * sigma.mean() / found.error))
        raw, off, share = np.array(rows).T
        counts = f"{np.sum(off > raw)}", f"{np.sum(share <= 1)} of {len(share)}", f"{share.max():.2f}"
        table.add_row(name, f"{raw.mean():.3f}", f"{off.mean():.3f}", *counts)
    Console().print(table)


if __name__ == "__main__":
    main()
