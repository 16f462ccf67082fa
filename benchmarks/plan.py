"""A plan beside a grid search over real training: how long each takes, and what its choice does on held-out rows.

The grid has 5 batch sizes, 4 steps and 5 lengths, each trained in 5 folds, as GridSearchCV does. Batches of a size
and step are trained once for the longest, which makes the same choices; the time is that of training each of the
100 by itself, told by the epochs. The plan looks at all epochs up to the longest.

And a plan for 100,000 rows of 500 columns, with its memory.

python -m benchmarks.plan [splits of diabetes] [splits of digits]
"""

import resource
from functools import partial

import numpy as np
from sklearn.datasets import load_diabetes, load_digits

import reshuffle as rs
from benchmarks.harness import arguments, batches, timed
from reshuffle._progress import track

BATCH_SIZES = (16, 32, 64, 128, 256)
LENGTHS = (10, 30, 100, 300, 1000)
STEPS = {"diabetes": (0.1, 0.03, 0.01, 0.003), "digits": (0.01, 0.003, 0.001, 0.0003)}
FOLDS = 5


def trained(X, y, batch_size, step, lengths, seed):
    """Parameters after each of some numbers of epochs of real training on shuffled samples."""
    rng, beta, found = np.random.default_rng(seed), np.zeros((X.shape[1], y.shape[1])), []
    for epoch in range(1, max(lengths) + 1):
        for rows in batches(rng, len(X), batch_size):
            batch = X[rows]
            beta = beta - step / len(rows) * (batch.T @ (batch @ beta - y[rows]))
        found += [beta] if epoch in lengths else []
    return found


def scaled(X, y):
    """Centred and scaled, and what does the same to other rows."""
    mean, scale, centre = X.mean(axis=0), X.std(axis=0), y.mean(axis=0)
    scale[scale == 0] = 1.0

    def error(beta, others, responses):
        return float(np.square((others - mean) / scale @ beta + centre - responses).mean())

    return (X - mean) / scale, y - centre, error


def searched(X, y, steps, seed):
    """The best of the grid in five folds, and how long it takes to train all of it."""
    folds = np.array_split(np.random.default_rng(seed).permutation(len(X)), FOLDS)
    scores, took = {}, 0.0
    grid = [(size, step) for size in BATCH_SIZES for step in steps]
    for size, step in track(grid, len(grid), "training"):
        sums = np.zeros(len(LENGTHS))
        for fold in folds:
            rest = np.setdiff1d(np.arange(len(X)), fold)
            features, responses, error = scaled(X[rest], y[rest])
            taken, path = timed(partial(trained, features, responses, size, step, LENGTHS, seed))
            took += taken * sum(LENGTHS) / max(LENGTHS)
            sums += [error(beta, X[fold], y[fold]) for beta in path]
        scores.update({(size, step, length): total for length, total in zip(LENGTHS, sums, strict=True)})
    finite = {recipe: total for recipe, total in scores.items() if np.isfinite(total)}
    return min(finite, key=finite.__getitem__), took


def compared(name, X, y, splits):
    """Print the times of both and the paired difference of their errors on the quarter that is held out."""
    differences, plans, searches = [], [], []
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(X))
        inside, outside = np.split(order, [3 * len(X) // 4])
        taken, plan = timed(
            partial(rs.plan, X[inside], y[inside], batch_sizes=BATCH_SIZES, epochs=max(LENGTHS))
        )
        plans.append(taken)
        found, took = searched(X[inside], y[inside], STEPS[name], split)
        searches.append(took)
        features, responses, error = scaled(X[inside], y[inside])
        chosen = (plan.best.batch_size, plan.best.step, plan.best.epochs)
        mine, theirs = (
            error(trained(features, responses, size, step, (length,), split)[0], X[outside], y[outside])
            for size, step, length in (chosen, found)
        )
        differences.append(mine / theirs - 1)
    off = np.std(differences, ddof=1) / np.sqrt(splits) if splits > 1 else np.nan
    print(
        f"{name}: plan {np.median(plans):.2f} s, grid search {np.median(searches):.0f} s, "
        f"{np.median(np.array(searches) / plans):.0f} times as long; "
        f"held-out error of the plan's choice {np.mean(differences):+.2%} +- {off:.2%} beside the search's"
    )


def large() -> None:
    """A plan for many rows."""
    drawn = rs.gaussian(100_000, 500, noise=2.0, covariance=np.geomspace(1, 1e-2, 500), seed=0)
    took, _ = timed(lambda: rs.plan(drawn.X, drawn.y))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"100,000 x 500: a plan in {took:.0f} s, {memory:.1f} GB with the data")


def main() -> None:
    """The large one first, so that memory is its own; then both data sets."""
    large()
    given = arguments(__doc__, _diabetes=20, _digits=3)
    X, y = load_diabetes(return_X_y=True)
    with np.errstate(over="ignore", invalid="ignore"):
        if given.diabetes:
            compared("diabetes", X, y[:, np.newaxis], given.diabetes)
        X, y = load_digits(return_X_y=True)
        if given.digits:
            compared("digits", X, np.eye(10)[y], given.digits)


if __name__ == "__main__":
    main()
