"""Draw the picture of the README.

Run with ``python docs/readme_pictures.py``; it calls public names only.
"""

from pathlib import Path

import numpy as np

import reshuffle as rs
from reshuffle import plotting

ALPHA, BATCHES, RUNS = 0.5, 4, 4000
EPOCHS = np.unique(np.geomspace(1, 200, 60).round().astype(int))
SIMULATED = np.array([1, 2, 3, 4, 6, 8, 12, 18, 28, 45, 70, 110, 200])
CURVES = (
    ("full batch diverges", rs.FullBatch(), "full-batch", (8.6, 1.0)),
    ("4 batches,\nreshuffled every epoch", rs.RandomReshuffling(BATCHES), "reshuffling", (10.2, 0.92)),
    ("4 batches,\ndrawn with replacement", rs.WithReplacement(BATCHES), "with-replacement", (24, 0.735)),
)


def readme():
    """One data set, one step: full batch diverges, four batches do not, and how they are drawn can be seen."""
    problem = rs.gaussian(200, 300, noise=0.5, seed=0)
    figure = plotting.figure(7.6, 4.3)
    ax = figure.add_subplot()
    for label, scheme, name, place in CURVES:
        step = ALPHA if name == "full-batch" else ALPHA / BATCHES
        colour = plotting.SCHEME_COLOURS[name]
        exact = rs.descend(problem, scheme, step).expected_risk(EPOCHS).total
        runs = rs.simulate(
            problem, scheme, step=step, epochs=SIMULATED, runs=RUNS, seed=1, fresh_noise=True
        ).risk
        plotting.curve(EPOCHS, exact, label="", colour=colour, ax=ax)
        ax.plot(SIMULATED, runs.mean, "o", color=colour, markersize=5, markerfacecolor="white")
        best = int(np.argmin(exact))
        ax.plot(EPOCHS[best], exact[best], "v", color=colour, markersize=8, zorder=4)
        ax.text(*place, label, color=colour, fontsize=10, va="center")
        print(
            label, exact[best], "at", EPOCHS[best], "standard error", (runs.standard_error / runs.mean).max()
        )
    ax.plot([], [], color="grey", label="exact, nothing was trained")
    ax.plot([], [], "o", color="grey", markersize=5, markerfacecolor="white", label=f"mean of {RUNS:,} runs")
    ax.plot([], [], "v", color="grey", markersize=8, label="best epoch to stop")
    plotting.plain(ax, "epochs", "expected test error of a run, above the noise")
    ax.set(xscale="log", xlim=(0.93, 215), ylim=(0.58, 1.05))
    ticks = (1, 2, 5, 10, 20, 50, 100, 200)
    ax.set_xticks(ticks, labels=[str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.set_title("One data set (n = 200, p = 300), one step under linear scaling (α = 0.5)", fontsize=10)
    ax.legend(frameon=False, fontsize=9, loc="upper left")
    return figure


if __name__ == "__main__":
    readme().savefig(Path(__file__).parent / "pictures" / "readme.png")
