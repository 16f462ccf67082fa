"""Draw the picture of the README.

Run with ``python docs/readme_pictures.py``; it calls public names only, and prints how long each part took.
"""

import time
from pathlib import Path

import numpy as np
from sklearn import datasets, preprocessing

import reshuffle as rs
from reshuffle import plotting

STEP, BATCHES, RUNS = 0.14, 8, 60
EPOCHS = np.arange(0, 31)
SHOWN = (
    ("8 batches, drawn with replacement", rs.WithReplacement(batches=BATCHES), "with-replacement"),
    ("8 batches, reshuffled every epoch", rs.RandomReshuffling(batches=BATCHES), "reshuffling"),
)


def training_runs(problem, scheme, seed):
    """Return the test error of single runs, really trained one after the other, (runs, epochs)."""
    rng, found = np.random.default_rng(seed), np.empty((RUNS, len(EPOCHS)))
    batches = scheme.partition(problem.n)
    for run in range(RUNS):
        beta, orders = np.zeros(problem.p), scheme.draw(problem.n, rng, 1)
        for epoch in range(len(EPOCHS)):
            found[run, epoch] = np.square(beta - problem.beta_star).sum()
            for rows in (batches[number] for number in next(orders)[0]):
                X, y = problem.X[rows], problem.y[rows]
                beta -= STEP * X.T @ (X @ beta - y) / len(rows)
    return found


def draw_runs(ax):
    """Draw what training does, under two ways of shuffling: single runs, and what was computed without them."""
    problem = rs.gaussian(160, 40, noise=0.5, seed=3)
    for label, scheme, name in SHOWN:
        colour = plotting.SCHEME_COLOURS[name]
        begin = time.perf_counter()
        exact = rs.descend(problem, scheme, STEP).expected_risk(EPOCHS, given_responses=True).total
        between = time.perf_counter()
        real = training_runs(problem, scheme, seed=1)
        print(label, "computed in", between - begin, "s, trained in", time.perf_counter() - between, "s")
        ax.plot(EPOCHS, real.T, color=colour, alpha=0.3, linewidth=0.7, zorder=1)
        ax.plot(EPOCHS, exact, color="white", linewidth=4.0, zorder=2)
        ax.plot(EPOCHS, exact, color=colour, linewidth=2.2, zorder=3)
        place = (
            real.max(axis=0)[15:].max() * 1.12 if name != "reshuffling" else real.min(axis=0)[15:].min() * 0.9
        )
        # Words are darker than lines: a contrast of 4.5 to 1 with the background.
        dark = plotting.scheme_colour(name, 4)
        ax.annotate(label, (EPOCHS[-1], place), ha="right", va="center", color=dark, fontsize=11)
    full = (
        rs.descend(problem, rs.FullBatch(), BATCHES * STEP).expected_risk(EPOCHS, given_responses=True).total
    )
    ax.plot(EPOCHS, full, color=plotting.SCHEME_COLOURS["full-batch"], linewidth=2.2)
    ax.annotate("full batch diverges", (3.0, 0.92), color=plotting.SCHEME_COLOURS["full-batch"], fontsize=11)
    ax.plot([], [], color="0.4", linewidth=2.2, label="computed: nothing was trained")
    ax.plot([], [], color="0.4", linewidth=0.6, alpha=0.6, label=f"{RUNS} real training runs each")
    ax.set(xlim=(0, EPOCHS[-1]), ylim=(0.09, 1.2), yscale="log")
    ax.set_yticks([0.1, 0.2, 0.5, 1.0], ["0.1", "0.2", "0.5", "1"])
    ax.minorticks_off()
    ax.legend(frameon=False, fontsize=10, loc="upper right")
    ax.set_title("What will training do?", fontsize=13, loc="left")
    plotting.plain(ax, "epochs", "test error above the noise")


def diabetes():
    """Return diabetes with squares and products and a column of ones, and its rows in two random halves."""
    X, y = map(preprocessing.scale, datasets.load_diabetes(return_X_y=True))
    squares = preprocessing.PolynomialFeatures(2, include_bias=False).fit_transform(X)
    features = np.column_stack([np.ones(len(X)), preprocessing.scale(squares)])
    return features, y, np.split(np.random.default_rng(0).permutation(len(X)), 2)


def draw_promise(ax):
    """Draw the test error predicted from the training rows, and the one on held-out rows."""
    features, y, (kept, held) = diabetes()
    epochs = np.unique(np.geomspace(1, 3000, 80).round())
    run = rs.descend(rs.LeastSquares(features[kept], y[kept]), rs.RandomReshuffling(batches=4), step=0.05)
    predicted = run.leave_one_out(epochs)
    found = np.square(y[held] - run.predict(features[held], epochs)).mean(axis=1)
    blue, best = plotting.COLOURS[0], run.best_epoch()
    low, high = (predicted.mean_square + sign * predicted.standard_error for sign in (-1, 1))
    ax.fill_between(epochs, low, high, color=blue, alpha=0.15, linewidth=0)
    ax.plot(
        epochs,
        predicted.mean_square,
        color=blue,
        linewidth=2.2,
        label="predicted from the training rows alone",
    )
    ax.plot(epochs, found, ":", color="black", linewidth=2.0, label=f"found on {len(held)} rows held out")
    ax.plot(epochs, 2 * run.training_loss(epochs), color="0.6", linewidth=1.2, label="training error")
    ax.plot(best.epoch, best.risk, "v", color=blue, markersize=10, zorder=4)
    ax.annotate(f"stop after {best.epoch} epochs", (best.epoch, best.risk), xytext=(0, -44), color=blue,
                textcoords="offset points", ha="left", fontsize=11)  # fmt: skip
    ax.set(xscale="log", xlim=(1, epochs[-1]), ylim=(0.3, 0.86))
    ax.legend(frameon=False, fontsize=10, loc="upper center")
    ax.set_title("How good will it be, and when to stop?", fontsize=13, loc="left")
    plotting.plain(ax, "epochs", "mean square error")


def readme():
    """Return both beside each other."""
    figure = plotting.figure(11.6, 4.4)
    left, right = figure.subplots(1, 2)
    draw_runs(left)
    draw_promise(right)
    return figure


if __name__ == "__main__":
    readme().savefig(Path(__file__).parent / "pictures" / "readme.png", dpi=110)
