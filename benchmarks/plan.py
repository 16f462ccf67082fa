"""A plan beside a grid search that really trains: how long both take, and how good their choices are on other rows.

python -m benchmarks.plan [splits]
"""

import resource
import sys
import time

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import GridSearchCV, KFold

import reshuffle as rs
from reshuffle._core import FloatArray
from reshuffle._core.progress import track

STEPS = (0.003, 0.01, 0.03, 0.1, 0.3)
BATCH_SIZES = (16, 32, 64, 128, 256)
EPOCHS = (3, 10, 30, 100)


class TrainedRegressor(RegressorMixin, BaseEstimator):
    """Mini-batch descent as people write it, on centred and scaled columns."""

    def __init__(self, batch_size: int = 32, step: float = 0.1, epochs: int = 10, seed: int = 0):
        self.batch_size, self.step, self.epochs, self.seed = batch_size, step, epochs, seed

    def fit(self, X: FloatArray, y: FloatArray) -> "TrainedRegressor":
        """Train."""
        for _ in self.train(X, y):
            pass
        return self

    def train(self, X: FloatArray, y: FloatArray):
        """Train, and stop after every epoch."""
        self.mean_, self.middle_ = X.mean(axis=0), y.mean(axis=0)
        spread = X.std(axis=0)
        self.scale_ = np.where(spread > 0, spread, 1.0)
        X, y = (X - self.mean_) / self.scale_, y - self.middle_
        self.coef_ = np.zeros((X.shape[1], *y.shape[1:]))
        rng = np.random.default_rng(self.seed)
        for _ in range(self.epochs):
            order = rng.permutation(len(X))
            with np.errstate(over="ignore", invalid="ignore"):
                for start in range(0, len(X), self.batch_size):
                    rows = order[start : start + self.batch_size]
                    self.coef_ -= self.step * (X[rows].T @ (X[rows] @ self.coef_ - y[rows])) / len(rows)
            yield self

    def predict(self, X: FloatArray) -> FloatArray:
        """What the last iterate says; a very large number where it has diverged."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = (X - self.mean_) / self.scale_ @ self.coef_ + self.middle_
        return np.where(np.isfinite(found), np.clip(found, -1e100, 1e100), 1e100)


def grid_choice(X: FloatArray, y: FloatArray) -> dict[str, float]:
    """What GridSearchCV would choose of 100 candidates in 5 folds, each trained once for all of its epochs."""
    errors: dict[tuple[int, float, int], float] = {}
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        for batch_size in BATCH_SIZES:
            for step in STEPS:
                learner = TrainedRegressor(batch_size, step, max(EPOCHS))
                for epoch, now in enumerate(learner.train(X[train], y[train]), 1):
                    if epoch in EPOCHS:
                        with np.errstate(over="ignore"):
                            off = float(np.square(now.predict(X[test]) - y[test]).sum())
                        key = batch_size, step, epoch
                        errors[key] = errors.get(key, 0.0) + off
    batch_size, step, epochs = min(errors, key=errors.__getitem__)
    return {"batch_size": batch_size, "step": step, "epochs": epochs}


def timed_grid(X: FloatArray, y: FloatArray) -> float:
    """Seconds of the search itself, by scikit-learn's GridSearchCV, 100 candidates in 5 folds."""
    grid = {"batch_size": BATCH_SIZES, "step": STEPS, "epochs": EPOCHS}
    search = GridSearchCV(
        TrainedRegressor(), grid, cv=5, scoring="neg_mean_squared_error", refit=False, error_score=-1e300
    )
    begin = time.perf_counter()
    with np.errstate(over="ignore", invalid="ignore"):
        search.fit(X, y)
    return time.perf_counter() - begin


def held_out(
    X: FloatArray, y: FloatArray, chosen: dict[str, float], other: tuple[FloatArray, FloatArray]
) -> float:
    """The error on other rows of really training so, over five seeds on average."""
    errors = []
    for seed in range(5):
        learner = TrainedRegressor(
            int(chosen["batch_size"]), chosen["step"], int(chosen["epochs"]), seed
        ).fit(X, y)
        errors.append(float(np.square(learner.predict(other[0]) - other[1]).mean()))
    return float(np.mean(errors))


def compare(name: str, X: FloatArray, y: FloatArray, splits: int) -> None:
    """Print both, on random halves."""
    rng, differences, levels, times = np.random.default_rng(0), [], [], []
    for _ in track(range(splits), splits, name):
        order = rng.permutation(len(X))
        train, test = order[: len(X) // 2], order[len(X) // 2 :]
        begin = time.perf_counter()
        sizes = [size for size in BATCH_SIZES if size < len(train)]
        best = rs.plan(X[train], y[train], batch_sizes=sizes, epochs=max(EPOCHS)).best
        times.append(time.perf_counter() - begin)
        planned = {"batch_size": best.batch_size, "step": best.step, "epochs": best.epochs}
        searched = grid_choice(X[train], y[train])
        errors = [held_out(X[train], y[train], each, (X[test], y[test])) for each in (planned, searched)]
        differences.append(errors[0] - errors[1])
        levels.append(errors[1])
    took = timed_grid(X[train], y[train])
    error = np.std(differences, ddof=1) / np.sqrt(splits)
    outputs = 1 if y.ndim == 1 else y.shape[1]
    print(
        f"{name} ({len(train)} x {X.shape[1]}, {outputs} outputs): plan {np.median(times):.2f} s, "
        f"GridSearchCV {took:.1f} s, {took / np.median(times):.0f} times longer; error on other rows "
        f"{np.mean(levels):.5g} by the grid, by the plan {np.mean(differences):+.2g} +- {error:.1g}"
        f" ({splits} splits)"
    )


def large() -> None:
    """A plan for 100,000 rows and 500 columns."""
    drawn = rs.gaussian(100_000, 500, noise=2.0, covariance=np.geomspace(1, 1e-2, 500), seed=0)
    begin = time.perf_counter()
    plan = rs.plan(drawn.X, drawn.y)
    took, memory = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"100,000 x 500: a plan in {took:.0f} s, {memory:.1f} GB with the data; {plan.best!r}")


def main() -> None:
    """Both data sets, and a large one."""
    splits = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    compare("diabetes", *load_diabetes(return_X_y=True), splits)
    X, labels = load_digits(return_X_y=True)
    compare("digits", X, np.eye(10)[labels], splits)
    large()


if __name__ == "__main__":
    main()
