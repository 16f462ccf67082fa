"""Draw the pictures of docs/schemes.md and print its numbers.

Run with ``python docs/schemes_pictures.py``; the pictures call public names only.
"""

import math
from pathlib import Path

import numpy as np

import reshuffle as rs
from reshuffle import plotting

EPOCHS = 40
STEP = 0.15


def problem():
    """Return a small, noisy problem on which the way of shuffling can be seen."""
    return rs.gaussian(60, 20, noise=1.0, seed=1)


def schemes():
    """Return every way of visiting 60 rows in batches of 15, by name."""
    return {
        "full batch (step x 4)": rs.FullBatch(),
        "fixed order": rs.Cyclic(batch_size=15),
        "shuffled once": rs.ShuffleOnce(batch_size=15),
        "batches reshuffled": rs.RandomReshuffling(batch_size=15),
        "samples reshuffled": rs.SampleReshuffling(batch_size=15),
        "batches with replacement": rs.WithReplacement(batch_size=15),
        "samples with replacement": rs.SampleWithReplacement(batch_size=15),
    }


def curves():
    """Return the expected risk of every scheme, after 0 to EPOCHS epochs."""
    found = {}
    for name, scheme in schemes().items():
        # One full-batch step stands for the four of an epoch.
        step = 4 * STEP if isinstance(scheme, rs.FullBatch) else STEP
        found[name] = rs.descend(problem(), scheme, step).expected_risk(np.arange(EPOCHS + 1))
    return found


def draw_schemes(path):
    """Draw 'does it matter how I shuffle?': the expected risk of all schemes, whole and at its lowest."""
    figure = plotting.figure(10.0, 4.2)
    whole, spread = figure.subplots(1, 2)
    for (name, risk), colour in zip(curves().items(), plotting.COLOURS, strict=True):
        # Those that nearly coincide are drawn with gaps, so that both can be seen.
        style = {"full batch (step x 4)": ":", "shuffled once": "--", "samples reshuffled": "--"}.get(
            name, "-"
        )
        whole.plot(risk.epochs, risk.total, style, color=colour, label=name, linewidth=1.5)
        shown = risk.spread > 1e-12
        if shown.any():
            spread.plot(risk.epochs[shown], risk.spread[shown], style, color=colour, linewidth=1.5)
    whole.set_ylim(0.2, 0.75)
    whole.set_ylabel("expected risk of a run")
    whole.legend(frameon=False, fontsize=8)
    whole.set_title("n = 60, p = 20, noise 1, batches of 15, step 0.15", fontsize=10)
    spread.set_yscale("log")
    spread.set_ylabel("of which: spread from shuffling")
    spread.set_title("what the draw of the order adds", fontsize=10)
    for ax in (whole, spread):
        ax.set_xlabel("epochs")
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def paths(scheme, runs, epochs, seed):
    """Return single runs at every epoch, (runs, epochs + 1, p), each trained on the same responses."""
    data, rng = problem(), np.random.default_rng(seed)
    found = np.zeros((runs, epochs + 1, data.p))
    for run in range(runs):
        beta = np.zeros(data.p)
        training = scheme.visits(data.n, rng, 1)
        for epoch in range(1, epochs + 1):
            for visit in next(training):
                rows = visit.rows.ravel()
                residual = data.X[rows] @ beta - data.y[rows]
                beta = beta - STEP / visit.divisor * (data.X[rows].T @ residual)
            found[run, epoch] = beta
    return found


def draw_spread(path, runs=12):
    """Draw single runs around the mean iterate: how far the order alone moves the risk, with a band of its size."""
    data = problem()
    figure = plotting.figure(10.0, 4.2)
    for ax, name in zip(
        figure.subplots(1, 2, sharey=True), ("batches reshuffled", "samples with replacement"), strict=True
    ):
        scheme = schemes()[name]
        exact = rs.descend(data, scheme, STEP).expected_risk(np.arange(EPOCHS + 1), given_responses=True)
        single = np.square(paths(scheme, runs, EPOCHS, 0) - data.beta_star).sum(axis=2)
        ax.plot(
            exact.epochs, single.T, color=plotting.COLOURS[5], linewidth=0.7, alpha=0.8,
            label=["single runs", *[None] * (runs - 1)],
        )  # fmt: skip
        ax.fill_between(
            exact.epochs, exact.mean, exact.total, color=plotting.COLOURS[1], alpha=0.35, linewidth=0,
            label="spread from shuffling",
        )  # fmt: skip
        ax.plot(exact.epochs, exact.total, color=plotting.COLOURS[1], label="expected risk of a run")
        ax.plot(exact.epochs, exact.mean, color=plotting.COLOURS[6], label="risk of the mean iterate")
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("epochs")
        ax.set_ylim(0.2, 1.0)
        ax.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("risk, given the responses")
    figure.axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path)


def mistakes():
    """Return what was meant, and what people do instead, in batches of 16: the last of an epoch has 12 rows."""
    return {
        "as intended": rs.SampleReshuffling(batch_size=16),
        "forgot set_epoch": rs.ShuffleOnce(batch_size=16),
        "never shuffled": rs.Cyclic(batch_size=16),
        "dropped the last batch": rs.SampleReshuffling(batch_size=16, drop_last=True),
        "fresh subsets": rs.SampleSubsets(batch_size=16),
        "with replacement": rs.SampleWithReplacement(batch_size=16),
    }


def draw_mistakes(path):
    """Draw what each of them costs."""
    figure = plotting.figure(7.5, 3.2)
    compared = rs.compare_schemes(problem(), mistakes(), step=STEP, epochs=EPOCHS, thresholds=False)
    plotting.scheme_comparison(compared, ax=figure.add_subplot())
    figure.savefig(path)


def main():
    """Draw all pictures into docs/pictures, and print the table and the example of docs/schemes.md."""
    folder = Path(__file__).parent / "pictures"
    folder.mkdir(exist_ok=True)
    draw_schemes(folder / "schemes.png")
    draw_spread(folder / "schemes_spread.png")
    draw_mistakes(folder / "schemes_mistakes.png")
    for name, risk in curves().items():
        best = int(np.argmin(risk.total))
        print(
            f"{name:26s} best {risk.total[best]:.4f} at {best:2d}; after {EPOCHS}: {risk.total[-1]:.4f} "
            f"= {risk.mean[-1]:.4f} + {risk.spread[-1]:.4f} (+- {risk.error[-1]:.0e})"
        )
    angle = math.radians(50)
    two = rs.LeastSquares([[1, 0], [math.cos(angle), math.sin(angle)]], [0, 0], beta_star=[1, 1], noise=0.0)
    for step in (1.9, 2.5):
        run = rs.descend(two, rs.RandomReshuffling(batches=2), step)
        print(step, run.stability(), run.mean_square_stability(), run.expected_risk([0, 5, 10, 20]).total)


if __name__ == "__main__":
    main()
