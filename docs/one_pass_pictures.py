"""Draw the pictures of docs/one_pass.md.

Run with ``python docs/one_pass_pictures.py``.
"""

from pathlib import Path

import numpy as np

from reshuffle import asymptotics, plotting
from reshuffle.asymptotics import PowerLaw, replacement_curve

PICTURES = Path(__file__).parent / "pictures"


def frontier():
    """Risk over compute for several model sizes, with the frontier below all of them; the best size beside it."""
    figure = plotting.figure(10.0, 3.8)
    left, right = figure.subplots(1, 2)
    a, b, step = 1.5, 0.3, 0.2
    compute = np.geomspace(1e4, 1e10, 13)
    found = asymptotics.compute_frontier(PowerLaw(a), PowerLaw(b), 1, step, compute)
    whole = PowerLaw(a + b).total()
    for colour, size in zip(plotting.COLOURS, (10, 100, 1000, 10_000), strict=False):
        steps = np.unique(np.round(np.geomspace(10, 1e10 / size, 120)))
        rest = whole - PowerLaw(a + b, size).total()
        run = asymptotics.one_pass(PowerLaw(a, size), PowerLaw(b, size), 1, step, steps, noise=rest**0.5)
        left.plot(steps * size, run.risk + rest, color=colour, linewidth=1.4, label=f"p = {size:,}")
    left.plot(compute, found.risk, color="black", linewidth=2, linestyle="--", label="frontier")
    plotting.plain(left, "compute = steps × batch × p", "risk, features left out included")
    left.set(xscale="log", yscale="log", title=f"eigenvalues j^-{a:g}, parameters² j^-{b:g}")
    left.legend(frameon=False, fontsize=8)
    right.plot(compute, found.size, "o", color=plotting.COLOURS[0], label="best size")
    line = found.size[-1] * (compute / compute[-1]) ** found.theory[1]
    right.plot(compute, line, color=plotting.GREY, linewidth=1, label=f"slope {found.theory[1]:.2f}")
    plotting.plain(right, "compute", "best model size p")
    right.set(
        xscale="log", yscale="log", title=f"fitted {found.size_exponent:.3f}, theory {found.theory[1]:.3f}"
    )
    right.legend(frameon=False, fontsize=8)
    return figure


def spread_of_runs():
    """Single runs with replacement, trained, on the limit of their risk, and that of the mean iterate below it."""
    figure = plotting.figure(10.0, 3.8)
    panels = figure.subplots(1, 2)
    n, noise, rng = 600, 0.5, np.random.default_rng(0)
    for ax, (aspect, alpha) in zip(panels, ((0.5, 1.0), (1.5, 0.5)), strict=True):
        p = round(aspect * n)
        X, start = rng.standard_normal((n, p)), rng.standard_normal((6, p))
        errors = start / np.linalg.norm(start, axis=1, keepdims=True)
        labels, path = noise * rng.standard_normal((6, n)), [np.ones(6)]
        for _ in range(30):
            for _ in range(n // 10):
                rows = rng.integers(n, size=(6, 10))
                residuals = np.einsum("rmj,rj->rm", X[rows], errors) - np.take_along_axis(
                    labels, rows, axis=1
                )
                errors = errors - alpha / n * np.einsum("rmj,rm->rj", X[rows], residuals)
            path.append((errors**2).sum(axis=1))
        epochs = np.arange(31)
        curve = replacement_curve(aspect, alpha, noise=noise).expected_risk(epochs)
        ax.plot(epochs, np.array(path), color=plotting.GREY, alpha=0.5, linewidth=0.8)
        ax.plot(epochs, curve.total, color=plotting.COLOURS[0], linewidth=2, label="a run, in the limit")
        ax.plot(
            epochs,
            curve.mean,
            color=plotting.COLOURS[1],
            linewidth=2,
            linestyle="--",
            label="the mean over runs",
        )
        plotting.plain(ax, "epochs", "risk")
        ax.set_title(f"p/n = {aspect:g}, α = {alpha:g}; thin: six runs of n = {n}, batches of 10", fontsize=9)
        ax.set_ylim(0, 1.05)
        ax.legend(frameon=False, fontsize=8)
    return figure


if __name__ == "__main__":
    for draw in (frontier, spread_of_runs):
        draw().savefig(PICTURES / f"{draw.__name__}.png", dpi=105)
