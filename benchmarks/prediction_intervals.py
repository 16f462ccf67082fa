"""Coverage of 90% prediction intervals, on simulated problems and on splits of real data.

python -m benchmarks.prediction_intervals [problems] [--only digits]

Simulated problems have 200 new rows each. Real data is brought to mean zero and variance one by all rows, a column
of ones is added, and of every split 70 per cent (or the number of rows named) are trained on, the others are new.
The coverage is the share of new responses inside, on average over problems or splits, with its standard error.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
from sklearn import datasets, preprocessing

import reshuffle as rs
from benchmarks.harness import arguments, standardized
from reshuffle._progress import track

EPOCHS = (1.0, 10.0, 100.0)
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""Training rows and responses, new rows and responses."""


def simulated(n: int, p: int, kind: str, count: int) -> Iterator[Split]:
    """Problems with a signal of norm one and noise 1: Gaussian rows and noise, t5 rows, or t3 noise."""
    rng = np.random.default_rng([n, p, count])
    for _ in range(count):
        X = rng.standard_t(5, (n + 200, p)) if kind == "t5 rows" else rng.standard_normal((n + 200, p))
        noise = rng.standard_t(3, n + 200) if kind == "t3 noise" else rng.standard_normal(n + 200)
        signal = rng.standard_normal(p)
        y = X @ signal / np.linalg.norm(signal) + noise
        yield X[:n], y[:n], X[n:], y[n:]


def splits(X: np.ndarray, y: np.ndarray, count: int, rows: int | None = None) -> Iterator[Split]:
    """Random splits of standardised data, with a column of ones."""
    X, y = np.column_stack([np.ones(len(X)), standardized(X)]), (y - y.mean()) / y.std()
    rng, trained = np.random.default_rng(0), rows or round(0.7 * len(X))
    for _ in range(count):
        order = rng.permutation(len(X))
        yield X[order[:trained]], y[order[:trained]], X[order[trained:]], y[order[trained:]]


def settings(count: int) -> dict[str, Callable[[], Iterator[Split]]]:
    """The sets of problems, by name."""
    diabetes, cancer = datasets.load_diabetes(return_X_y=True), datasets.load_breast_cancer(return_X_y=True)
    wine, digits = datasets.load_wine(return_X_y=True), datasets.load_digits(return_X_y=True)
    linnerud, weights = datasets.load_linnerud(return_X_y=True)
    products = preprocessing.PolynomialFeatures(2, interaction_only=True, include_bias=False)
    crossed = products.fit_transform(diabetes[0])
    return {
        **{
            f"simulated {n} x {p}, {kind}": lambda n=n, p=p, kind=kind: simulated(n, p, kind, count)
            for n, p in ((30, 5), (30, 40), (100, 20), (300, 20))
            for kind in ("Gaussian", "t5 rows", "t3 noise")
        },
        "diabetes": lambda: splits(*diabetes, count),
        "diabetes, 50 rows": lambda: splits(*diabetes, count, 50),
        "diabetes with products": lambda: splits(crossed, diabetes[1], count),
        "breast cancer": lambda: splits(*cancer, count),
        "breast cancer, 50 rows": lambda: splits(*cancer, count, 50),
        "wine": lambda: splits(*wine, count),
        "digits, parity": lambda: splits(digits[0], digits[1] % 2.0, min(count, 5)),
        "linnerud": lambda: splits(linnerud, weights[:, 0], count),
    }


def main() -> None:
    """Print the table."""
    given = arguments(__doc__, _problems=30, only=("", "the beginning of a name"))
    count = given.problems
    recipes = {"plain": (0.1, {}), "momentum 0.9": (0.02, {"momentum": 0.9})}
    print(f"{'coverage of 90% intervals after':34} {'recipe':14}" + "".join(f"{k:>15g}" for k in EPOCHS))
    total = []
    for name, problems in settings(count).items():
        if not name.startswith(given.only):
            continue
        for recipe, (share, more) in recipes.items():
            found = []
            # With momentum, larger steps on digits have no formula, and a run without each row takes too long.
            share = min(share, 0.007) if more and name.startswith("digits") else share
            for X, y, new, response in track(list(problems()), None, name):
                step = share / np.square(np.linalg.svd(X, compute_uv=False)[0]) * len(X)
                scheme = rs.SampleReshuffling(batch_size=max(10, len(X) // 40))
                run = rs.descend(rs.LeastSquares(X, y), scheme, step, **more)
                answer = run.prediction_interval(new, EPOCHS)
                found.append(((answer.lower <= response) & (response <= answer.upper)).mean(axis=1))
            mean, off = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / math.sqrt(len(found))
            total.append(mean)
            cells = (f"{100 * m:7.1f}% ({100 * s:3.1f})" for m, s in zip(mean, off, strict=True))
            print(f"{name:34} {recipe:14}" + "".join(f"{cell:>15}" for cell in cells), flush=True)
    print(f"from {100 * np.min(total):.1f}% to {100 * np.max(total):.1f}%, mean {100 * np.mean(total):.1f}%")


if __name__ == "__main__":
    main()
