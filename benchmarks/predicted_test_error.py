"""The test error that leave-one-out promises beside the one on held-out rows, on four data sets, 50 splits each.

python -m benchmarks.predicted_test_error

Columns are brought to mean zero and variance one, a column of ones is added and learned with the others, and rows
are split at random, 70 per cent for training. The promise is `run.leave_one_out` on the training rows alone; it is
compared with what the same run predicts for the rows that were held out. A split is drawn independently of all
others, so that for the data as they are the differences of the splits are independent, however much the splits
have in common: their standard error is their deviation over the root of 50. For other rows from the same source it
would be too small, since all splits share the same rows; what is divided by sqrt(1/50 + 0.3/0.7) in place of
sqrt(1/50) is in the last column (Nadeau and Bengio, 2003).
"""

import argparse
import math
import sys
from dataclasses import dataclass

import numpy as np
from sklearn import datasets

import reshuffle as rs
from reshuffle._core.progress import track

EPOCHS = (1, 10, 100, math.inf)
TRAINED = 0.7
BEST = "best"


@dataclass(frozen=True, eq=False)
class Data:
    """Rows (n, p), responses (n, t), and how they are trained on."""

    X: np.ndarray
    y: np.ndarray
    batch_size: int
    step: float


def standardized(columns: np.ndarray) -> np.ndarray:
    """Mean zero and variance one, without columns that are constant."""
    columns = columns[:, columns.std(axis=0) > 0]
    return np.asarray((columns - columns.mean(axis=0)) / columns.std(axis=0))


def prepared(X: np.ndarray, y: np.ndarray, batch_size: int, step: float) -> Data:
    """Standardised rows and responses, with a column of ones."""
    X = np.column_stack([np.ones(len(X)), standardized(X)])
    return Data(X, standardized(y.reshape(len(y), -1).astype(np.float64)), batch_size, step)


def data_sets() -> dict[str, Data]:
    """The four of scikit-learn, by name."""
    diabetes = datasets.load_diabetes(return_X_y=True)
    digits, classes = datasets.load_digits(return_X_y=True)
    cancer = datasets.load_breast_cancer(return_X_y=True)
    linnerud = datasets.load_linnerud(return_X_y=True)
    return {
        "diabetes": prepared(*diabetes, batch_size=32, step=0.02),
        "digits": prepared(digits, np.eye(10)[classes], batch_size=32, step=0.02),
        "breast cancer": prepared(*cancer, batch_size=32, step=0.02),
        "linnerud": prepared(*linnerud, batch_size=4, step=0.02),
    }


def schemes(data: Data) -> dict[str, rs.Scheme]:
    """How rows are visited: shuffled samples, and four fixed batches in random order."""
    return {
        "shuffled samples": rs.SampleReshuffling(batch_size=data.batch_size),
        "four batches": rs.RandomReshuffling(batches=4),
    }


def promised_and_found(
    data: Data, scheme: rs.Scheme, rng: np.random.Generator
) -> tuple[dict[str, tuple[float, float]], str]:
    """Leave-one-out and the error on held-out rows, means over outputs, at all epochs and at the best; and how."""
    order = rng.permutation(len(data.X))
    kept, held = np.split(order, [round(TRAINED * len(order))])
    run = rs.descend(rs.LeastSquares(data.X[kept], data.y[kept]), scheme, data.step)
    left_out = run.leave_one_out(EPOCHS)
    missed = data.y[held] - np.einsum("ij,kjt->kit", data.X[held], run.iterate(EPOCHS))
    found = {
        f"{epochs:g}": (float(promise.mean()), float(np.square(off).mean()))
        for epochs, promise, off in zip(EPOCHS, left_out.mean_square, missed, strict=True)
    }
    best = run.best_epoch()
    # (t, p, t): each output at its own best epoch.
    learned = np.einsum("tjt->jt", run.iterate(best.epoch))
    off = data.y[held] - data.X[held] @ learned
    found[BEST] = float(np.mean(best.risk)), float(np.square(off).mean())
    return found, left_out.method


def line(name: str, pairs: np.ndarray, method: str) -> str:
    """Means over the splits, and their difference in standard errors."""
    promise, found = pairs.mean(axis=0)
    apart = pairs[:, 0] - pairs[:, 1]
    deviation = apart.std(ddof=1)
    error = deviation / math.sqrt(len(apart))
    corrected = deviation * math.sqrt(1 / len(apart) + (1 - TRAINED) / TRAINED)
    return (
        f"{name:>6} {promise:>10.4f} {found:>10.4f} {100 * (promise / found - 1):>+8.2f}% "
        f"{apart.mean() / error:>+8.2f} {apart.mean() / corrected:>+8.2f}  {method}"
    )


def main(splits: int = 50, names: list[str] | None = None) -> None:
    """Print one line per data set, scheme and epoch."""
    sizes = []
    for name, data in data_sets().items():
        if names and name not in names:
            continue
        for words, scheme in schemes(data).items():
            rng = np.random.default_rng(0)
            drawn = [
                promised_and_found(data, scheme, rng) for _ in track(range(splits), splits, f"{name}, {words}")
            ]
            n, (p, t) = len(data.X), (data.X.shape[1], data.y.shape[1])
            print(f"{name} ({n} x {p}, {t} outputs), {words}")
            print(f"{'epochs':>6} {'promise':>10} {'held out':>10} {'off by':>9} {'in s.e.':>8} {'rows too':>8}")
            for when in drawn[0][0]:
                pairs = np.array([found[when] for found, _ in drawn])
                print(line(when, pairs, drawn[0][1]), flush=True)
                apart = pairs[:, 0] - pairs[:, 1]
                sizes.append(abs(apart.mean()) / apart.std(ddof=1) * math.sqrt(splits))
    print(f"on average {np.mean(sizes):.2f} standard errors apart, {np.max(sizes):.2f} at most")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=50)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    sys.exit(main(given.splits, given.names))
