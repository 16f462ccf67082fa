"""The accuracy that is expected of single runs, against that of trained ones on held-out rows.

python -m benchmarks.accuracy [splits]

Half of the rows of each data set are trained on, in batches of shuffled rows, with one output per class and a
column of ones; 100 runs are trained for each split. `expected` and `found` are means over splits, `standard error`
is that of the difference in one split (rows to learn from and rows held out are both samples), `off` the mean
difference in these units. `mean iterate` is what leave-one-out says of the mean of all runs.
"""

import math

import numpy as np
from sklearn import datasets

import reshuffle as rs
from benchmarks.harness import arguments, batches, markdown, row

RUNS = 100
SETTINGS = (
    ("wine", 8, 0.01, 10),
    ("wine", 8, 0.2, 5),
    ("breast cancer", 16, 0.01, 10),
    ("breast cancer", 8, 0.06, 3),
    ("digits", 16, 0.02, 10),
    ("digits", 16, 0.1, 10),
)
"""Data, batch size, a small or a large step, and epochs."""
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def split(name: str, seed: int, part: float = 0.5) -> Split:
    """Rows and labels to learn from, and held-out ones: pixels over 16, others standardised by the former."""
    X, y = getattr(datasets, f"load_{name.replace(' ', '_')}")(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(X))
    some, others = np.split(order, [int(part * len(X))])
    mean, scale = (0.0, 16.0) if name == "digits" else (X[some].mean(axis=0), X[some].std(axis=0))
    X = np.column_stack([(X - mean) / scale, np.ones(len(X))])
    return X[some], y[some], X[others], y[others]


def trained(X: np.ndarray, Y: np.ndarray, batch_size: int, step: float, epochs: int, seed: int) -> np.ndarray:
    """Weights (runs, p, classes) of runs that are trained from zero."""
    rng, weights = np.random.default_rng(seed), np.zeros((RUNS, X.shape[1], Y.shape[1]))
    for _ in range(epochs):
        for rows in batches(rng, len(X), batch_size, RUNS):
            weights -= step / rows.shape[1] * X[rows].swapaxes(1, 2) @ (X[rows] @ weights - Y[rows])
    return weights


def compared(name: str, batch_size: int, step: float, epochs: int, seed: int) -> tuple[float, ...]:
    """Accuracy expected and found, error of the difference, deviations over runs, and that of the mean iterate."""
    X, y, X_new, y_new = split(name, seed)
    Y = np.eye(y.max() + 1)[y]
    hits = (X_new @ trained(X, Y, batch_size, step, epochs, seed)).argmax(axis=-1) == y_new
    # Held-out rows are a sample of probabilities to be told right.
    chance = hits.mean(axis=0).std() / math.sqrt(len(y_new))
    run = rs.descend(rs.LeastSquares(X, Y), rs.SampleReshuffling(batch_size=batch_size), step=step)
    told = run.leave_one_out(epochs).classification
    accuracies = hits.mean(axis=1)
    error = math.hypot(float(told.standard_error), chance)
    spreads = float(told.deviation), accuracies.std()
    return float(told.accuracy), accuracies.mean(), error, *spreads, float(told.of_mean)


def main() -> None:
    """Print a line per setting."""
    count = arguments(__doc__, _splits=10).splits
    headings = "expected", "found", "standard error", "off", "deviations", "mean iterate"
    markdown("data", "batch", "step", "epochs", *headings)
    for setting in SETTINGS:
        means = np.mean([compared(*setting, seed) for seed in range(count)], axis=0)
        told, found, error, spread, real, mean = means
        off, spreads = f"{(told - found) / error:+.2f}", f"{spread:.3f}, {real:.3f}"
        row(*setting, f"{told:.3f}", f"{found:.3f}", f"{error:.3f}", off, spreads, f"{mean:.3f}")


if __name__ == "__main__":
    main()
