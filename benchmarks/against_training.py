"""Every question beside what a person would run instead: `python -m benchmarks.against_training [--only WORD]`.

A row is a function under `@row` that prepares its data and returns two functions without arguments: our answer, and
what is run instead. Both return an `Outcome`. Each runs in a process of its own, under caps on memory and processor
time, with the library loaded beforehand; preparing is not timed. What is run instead is scaled to the accuracy
of our answer. Times are processor seconds, followed by those of the clock.
"""

import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import reshuffle as rs
from benchmarks import harness
from benchmarks.harness import batches, standardized
from reshuffle._uncertainty import quantile

MEMORY = 8 << 30
"""Bytes of address space that each side of a row may have."""


class Outcome(NamedTuple):
    """What a side found: a number to compare, its relative error, and how its time has to be scaled.

    `times` counts how often the timed work has to be done. The work for an error grows like error^-power: 2 for
    means over runs, 1 for the bias of folds. Without an error, it is the distance from our value; one that takes
    work is a function, called when all is measured.
    """

    value: float = math.nan
    error: float | Callable[[], float] | None = 0.0
    times: float = 1.0
    power: int = 0


Pair = tuple[Callable[[], Outcome], Callable[[], Outcome]]


class Row(NamedTuple):
    """A question, and what is wanted: seconds, GB, how many times as long as theirs ours may take."""

    name: str
    make: Callable[..., Pair]
    arguments: dict[str, Any]
    seconds: float | None
    memory: float | None
    slower: float


ROWS: list[Row] = []


def row(
    name: str,
    seconds: float | None = None,
    memory: float | None = None,
    slower: float = 1.0,
    **arguments: Any,
) -> Callable[[Callable[..., Pair]], Callable[..., Pair]]:
    """Register a row; several may share a function, which is given the `arguments`."""

    def register(make: Callable[..., Pair]) -> Callable[..., Pair]:
        shared = sum(question.make is make for question in ROWS)
        # Decorators are applied from the last one up.
        ROWS.insert(len(ROWS) - shared, Row(name, make, arguments, seconds, memory, slower))
        return make

    return register


def data(name: str) -> tuple[np.ndarray, np.ndarray]:
    """X (n, p) and y (n, t) of digits (1797 x 61), diabetes, breast_cancer, or 300 random features of digits."""
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name.removesuffix(' features')}")(return_X_y=True)
    X, responses = standardized(X), np.asarray(y, dtype=float)[:, np.newaxis]
    if name.endswith("features"):
        weights = np.random.default_rng(0).standard_normal((X.shape[1], 300)) / 8
        X, responses = standardized(np.maximum(X @ weights, 0.0)) * math.sqrt(61 / 300), np.eye(10)[y]
    return X, responses - responses.mean(axis=0)


def trained(
    X: np.ndarray,
    y: np.ndarray,
    step: float,
    batch_size: int,
    epochs: int,
    momentum: float = 0.0,
    runs: int = 1,
    seed: int = 1,
) -> np.ndarray:
    """Parameters (runs, p, t) after training on shuffled samples, all runs at once."""
    rng, n = np.random.default_rng(seed), len(X)
    # One run alone is quicker without an axis for runs.
    shape = (X.shape[1], y.shape[1]) if runs == 1 else (runs, X.shape[1], y.shape[1])
    beta, buffer = np.zeros((2, *shape))
    for _ in range(epochs):
        # As in `shape`: no axis for a single run.
        for rows in batches(rng, n, batch_size, runs if runs > 1 else 0):
            batch = X[rows]
            gradient = batch.swapaxes(-1, -2) @ (batch @ beta - y[rows]) / rows.shape[-1]
            buffer = momentum * buffer + gradient if momentum else gradient
            beta = beta - step * buffer
    return beta.reshape(runs, X.shape[1], y.shape[1])


def five_folds(X: np.ndarray, y: np.ndarray, runs: int = 1, seed: int = 0, **recipe: Any) -> float:
    """Mean squared error on rows that were not trained on."""
    total = 0.0
    for fold in np.array_split(np.random.default_rng(seed).permutation(len(X)), 5):
        rest = np.setdiff1d(np.arange(len(X)), fold)
        parameters = trained(X[rest], y[rest], runs=runs, seed=seed, **recipe)
        total += float(np.square(X[fold] @ parameters - y[fold]).sum())
    return total / y.size / runs


def distance_of_folds(X: np.ndarray, y: np.ndarray, **recipe: Any) -> float:
    """Root mean square distance of five folds from leave-one-out of single runs, relative to that.

    Over ten splits and orders: the distance of a single one may be small by chance. Folds train single runs, so
    that what orders add is in both.
    """
    own = {name: value for name, value in recipe.items() if name not in ("epochs", "runs")}
    single = run_of(X, y, **own).leave_one_out(recipe["epochs"], of_run=True)
    found = [five_folds(X, y, seed=seed, **recipe) for seed in range(10)]
    return math.sqrt(np.mean(np.square(np.array(found) / np.mean(single.mean_square) - 1)))


def load_data_sets() -> None:
    """Load what the first of all data sets of xarray loads, dask and more, as the library itself is loaded."""
    import xarray

    xarray.Dataset({"loaded": ("one", [True])})


def run_of(X: np.ndarray, y: np.ndarray, batch_size: int, **recipe: Any) -> rs.Run:
    """Descent on shuffled samples, from a problem of which nothing is known yet."""
    y = y[:, 0] if y.shape[1] == 1 else y
    return rs.descend(rs.LeastSquares(X, y), rs.SampleReshuffling(batch_size=batch_size), **recipe)


def left_out(found: Any) -> Outcome:
    """Mean square of all outputs; an error below a tenth of its standard error does not count."""
    mean = float(np.mean(found.mean_square))
    return Outcome(mean, float(np.mean(np.maximum(found.error, found.standard_error / 10))) / mean)


# Single runs.


@row("standard deviation of predictions over runs: digits, 10 epochs", seconds=0.7)
@row("standard deviation of predictions with momentum 0.9: digits", seconds=1.0, step=0.001, momentum=0.9)
def spread(step: float = 0.01, momentum: float = 0.0) -> Pair:
    """Against 100 runs."""
    X, y = data("digits")
    runs, recipe = 100, {"step": step, "momentum": momentum}

    def ours() -> Outcome:
        found = run_of(X, y, 32, **recipe).covariance(10)
        deviations = found.deviation(X[:100])
        # An error is so many standard errors; that of theirs is one.
        error = found.deviation_error(X[:100]) / quantile(runs)
        return Outcome(float(np.sqrt(np.mean(deviations**2))), float(np.median(error / deviations)))

    def theirs() -> Outcome:
        predictions = X[:100] @ trained(X, y, batch_size=32, epochs=10, runs=runs, **recipe)
        found = math.sqrt(predictions.var(axis=0, ddof=1).mean())
        return Outcome(found, 1 / math.sqrt(2 * (runs - 1)), power=2)

    return ours, theirs


@row("expected risk of runs at 100 epochs: two batches, n = 4000, p = 1000", seconds=30)
@row("expected risk at all of 100 epochs: four batches, n = 400, p = 200", n=400, p=200, batches=4)
def expected_risk(n: int = 4000, p: int = 1000, batches: int = 2) -> Pair:
    """Against simulated runs."""
    problem, scheme = rs.gaussian(n, p, noise=0.5, seed=0), rs.RandomReshuffling(batches=batches)
    epochs = np.arange(1, 101) if n == 400 else np.array([100])

    def ours() -> Outcome:
        risk = rs.descend(problem, scheme, alpha=0.5).expected_risk(epochs)
        return Outcome(float(risk.spread[-1]), max(0.05, float(np.max(risk.error / risk.spread)) / 3))

    def theirs() -> Outcome:
        runs = 1_000_000 // n // 10 * 2
        found = rs.simulate(problem, scheme, alpha=0.5, epochs=epochs, runs=runs, fresh_noise=True).spread
        return Outcome(float(found.mean[-1]), float(np.max(found.standard_error / found.mean)), power=2)

    return ours, theirs


@row("covariance of runs: p = 5, batches of 64, n = 50,000", memory=0.3)
@row("covariance of runs: p = 5, batches of 64, n = 200,000", seconds=10, n=200_000)
def covariance(n: int = 50_000) -> Pair:
    """Against 100 runs."""
    problem = rs.gaussian(n, 5, noise=0.5, seed=0)
    X, y = problem.X, np.asarray(problem.y)[:, np.newaxis]

    def ours() -> Outcome:
        found = run_of(X, y, 64, step=0.1).covariance(10)
        error = found.deviation_error(np.eye(5)) / found.standard_deviations
        return Outcome(float(np.linalg.norm(found.standard_deviations)), float(np.median(error)) / 3)

    def theirs() -> Outcome:
        found = trained(X, y, 0.1, 64, 1, runs=100)
        return Outcome(float(np.sqrt(found.var(axis=0, ddof=1).sum())), 0.07, times=10, power=2)

    return ours, theirs


# Means over orders.


@row("training loss at 1, 10 and 100 epochs: digits, shuffled samples", seconds=0.35)
def training_loss() -> Pair:
    """Against the mean of runs."""
    X, y = data("digits")

    def ours() -> Outcome:
        run = run_of(X, y, 32, step=0.01)
        loss, error = run.training_loss([1, 10, 100]), run.training_loss_error([1, 10, 100])
        return Outcome(float(loss[1]), float(np.max(error / loss)))

    def theirs() -> Outcome:
        # Three standard errors, as ours; by the derivative of the loss along the runs.
        fitted = (X @ trained(X, y, 0.01, 32, 10, runs=30))[..., 0]
        missing = fitted.mean(axis=0) - y[:, 0]
        loss, along = np.square(missing).mean() / 2, fitted @ missing / len(X)
        return Outcome(float(loss), float(3 * along.std(ddof=1) / math.sqrt(30) / loss), times=11.1, power=2)

    return ours, theirs


@row("three learning curves of 300 epochs: n = 1000, p = 1500, 1, 2 and 4 batches", seconds=1.6)
def curves() -> Pair:
    """Against 1,000 runs."""
    problem, runs = rs.gaussian(1000, 1500, noise=0.5, seed=0), 200
    schemes = [rs.FullBatch(), rs.RandomReshuffling(batches=2), rs.RandomReshuffling(batches=4)]

    def ours() -> Outcome:
        return Outcome(
            float(sum(rs.descend(problem, s, alpha=0.2).risk(range(301)).total[-1] for s in schemes))
        )

    def theirs() -> Outcome:
        value = sum(
            rs.simulate(problem, s, alpha=0.2, epochs=300, runs=runs, fresh_noise=True).risk.mean
            for s in schemes
        )
        return Outcome(float(value), None, times=1000 / runs)

    return ours, theirs


@row("mean after 100 epochs: a probe, n = 50,000, p = 768, batches of 256", seconds=60, memory=4)
def probe() -> Pair:
    """Against one run."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50_000, 768)) * np.arange(1, 769) ** -0.5
    X /= np.sqrt(np.square(X).sum(axis=1).mean())
    y = X @ rng.standard_normal((768, 1)) + rng.standard_normal((len(X), 1))

    def ours() -> Outcome:
        run = run_of(X, y, 256, step=1.0, budget=1e14)
        loss = float(run.training_loss(100))
        return Outcome(loss, float(run.training_loss_error(100)) / loss)

    def theirs() -> Outcome:
        trained(X, y, 1.0, 256, 2)
        return Outcome(times=50)

    return ours, theirs


# Rows left out, plans.


@row("leave-one-out after 10 epochs: digits", seconds=0.7)
@row("leave-one-out with momentum 0.9: digits", seconds=1.5, step=0.001, momentum=0.9)
@row("leave-one-out with momentum 0.9 at step 0.003: digits", seconds=1.5, step=0.003, momentum=0.9)
@row("leave-one-out of single runs: digits, against six of each fold", seconds=3, runs=6, of_run=True)
@row("leave-one-out: 300 features, 10 outputs, m = 16", seconds=4, source="digits features", size=16)
def leave_one_out(
    source: str = "digits",
    size: int = 32,
    runs: int = 1,
    step: float = 0.01,
    momentum: float = 0.0,
    of_run: bool = False,
) -> Pair:
    """Against five folds, each trained."""
    X, y = data(source)
    recipe = {"batch_size": size, "step": step, "momentum": momentum}
    trained_by = {"runs": runs, "epochs": 10, **recipe}

    def theirs() -> Outcome:
        return Outcome(
            five_folds(X, y, **trained_by), partial(distance_of_folds, X, y, **trained_by), power=1
        )

    return lambda: left_out(run_of(X, y, **recipe).leave_one_out(10, of_run=of_run)), theirs


@row("leave-one-out after 3 epochs: 1,000,000 x 50 in memory, batches of 256", seconds=60)
def million_left_out() -> Pair:
    """Against five folds, each trained."""
    problem = rs.gaussian(1_000_000, 50, noise=1.0, seed=0)
    X, y = problem.X, np.asarray(problem.y)[:, np.newaxis]
    return (
        lambda: left_out(run_of(X, y, 256, step=0.01).leave_one_out(3)),
        lambda: Outcome(five_folds(X, y, step=0.01, batch_size=256, epochs=3), None, power=1),
    )


@row("leave-one-out at 154 epochs up to 10,000: n = 2000, p = 1000, full batch", seconds=0.9)
def full_batch_left_out() -> Pair:
    """Against 2,000 refits."""
    drawn = rs.gaussian(2000, 1000, noise=1.0, seed=0)
    epochs = np.unique(np.geomspace(1, 10_000, 200).round())

    def ours() -> Outcome:
        problem = rs.LeastSquares(drawn.X, drawn.y)
        found = rs.descend(problem, rs.FullBatch(), alpha=0.2).leave_one_out(epochs)
        return Outcome(float(found.mean_square[-1]))

    def theirs() -> Outcome:
        # A refit without training: the singular values of the other rows, by which every epoch is known.
        left, values, right = np.linalg.svd(drawn.X[1:], full_matrices=False)
        shrunk = (1 - (1 - 0.2 / 2000 * values**2) ** epochs[:, np.newaxis]) / values
        (shrunk * (left.T @ drawn.y[1:])) @ right
        return Outcome(times=2000)

    return ours, theirs


@row("sweep of 9 recipes with leave-one-out: 300 features, 10 outputs")
def sweep() -> Pair:
    """Against five folds, each trained."""
    X, y = data("digits features")
    load_data_sets()
    sizes, steps = [16, 32, 64], [0.003, 0.01, 0.03]

    def ours() -> Outcome:
        over = {"batch_size": sizes, "step": steps}
        found = rs.sweep(X, y, over=over, scheme=rs.SampleReshuffling, metrics="leave_one_out", epochs=10)
        return Outcome(float(found["leave_one_out"].mean("output").min()))

    def theirs() -> Outcome:
        errors = [five_folds(X, y, batch_size=m, step=s, epochs=10) for m in sizes for s in steps]
        return Outcome(min(errors), None)

    return ours, theirs


@row("a point of a sweep that diverges: 300 features, m = 64, step 0.3", seconds=2)
def diverging() -> Pair:
    """Against five folds, each trained."""
    X, y = data("digits features")
    load_data_sets()

    def ours() -> Outcome:
        recipe = {"scheme": rs.SampleReshuffling, "batch_size": 64, "metrics": "leave_one_out", "epochs": 10}
        found = rs.sweep(X, y, over={"step": [0.3]}, **recipe)
        return Outcome(float(found["leave_one_out"].max()))

    return ours, lambda: Outcome(five_folds(X, y, batch_size=64, step=0.3, epochs=10))


@row("reshuffle sweep --batch-size 8,16 --step auto --epochs 30: diabetes", seconds=10)
def sweep_command() -> Pair:
    """Against 20 recipes in five folds, each trained."""
    X, y = data("diabetes")
    folder = tempfile.mkdtemp()
    np.savetxt(
        f"{folder}/data.csv", np.hstack([X, y]), delimiter=",", header="a,b,c,d,e,f,g,h,i,j,y", comments=""
    )
    words = (
        "sweep --data data.csv --target y --standardize --batch-size 8,16 --step auto --epochs 30 --out grid"
    )

    def ours() -> Outcome:
        command = [sys.executable, "-m", "reshuffle", *words.split()]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return Outcome()

    def theirs() -> Outcome:
        for size in (8, 16):
            for step in np.geomspace(0.001, 0.1, 10):
                five_folds(X, y, batch_size=size, step=float(step), epochs=30)
        return Outcome()

    return ours, theirs


@row("plan, five batch sizes, epochs up to 1,000: diabetes", seconds=0.2)
@row("plan: digits, 10 outputs", seconds=1, source="digits", outputs=10)
@row("plan with momenta 0 and 0.9: digits", seconds=3, source="digits", momenta=(0.0, 0.9))
@row("plan: 300 features, 10 outputs", seconds=6, source="digits features")
def plan(source: str = "diabetes", outputs: int = 1, momenta: tuple[float, ...] = (0.0,)) -> Pair:
    """Against 100 recipes in five folds for each momentum, each trained."""
    X, y = data(source)
    y = data("digits features")[1] if outputs > 1 else y
    steps = (0.1, 0.03, 0.01, 0.003) if source == "diabetes" else (0.01, 0.003, 0.001, 0.0003)
    sizes, lengths, timed = (16, 32, 64, 128, 256), (10, 30, 100, 300, 1000), 10

    def ours() -> Outcome:
        found = rs.plan(X, y, batch_sizes=sizes, epochs=max(lengths), momenta=momenta)
        return Outcome(float(np.mean(found.test_error)))

    def theirs() -> Outcome:
        for size in sizes:
            five_folds(X, y, batch_size=size, step=steps[-1], epochs=timed)
        return Outcome(times=len(steps) * len(momenta) * sum(lengths) / timed)

    return ours, theirs


@row("critical step in mean square with momentum 0.9: breast cancer, batches of 32", seconds=8)
def critical_step() -> Pair:
    """Against 30 runs at ten steps."""
    X, y = data("breast_cancer")

    def ours() -> Outcome:
        scheme = rs.SampleReshuffling(batch_size=32)
        found = rs.critical_step(rs.LeastSquares(X, y[:, 0]), scheme, mean_square=True, momentum=0.9)
        return Outcome(float(found), found.error / found)

    def theirs() -> Outcome:
        low, high = 0.0, 0.1
        for _ in range(10):
            middle = (low + high) / 2
            with np.errstate(over="ignore", invalid="ignore"):
                early, late = (trained(X, y, middle, 32, epochs, 0.9, runs=30) for epochs in (30, 60))
                grows = not np.square(late).mean() < 2 * np.square(early).mean()
            low, high = (low, middle) if grows else (middle, high)
        return Outcome(low, None)

    return ours, theirs


@row("explain: diabetes, 20 epochs", seconds=1)
def explain() -> Pair:
    """Against 200 runs."""
    X, y = data("diabetes")
    fit = trained(X, y, 0.02, 32, 20)[0, :, 0]

    def ours() -> Outcome:
        rs.explain(X, y[:, 0], fit, run_of(X, y, 32, step=0.02), epochs=20)
        return Outcome()

    def theirs() -> Outcome:
        trained(X, y, 0.02, 32, 20, runs=200)
        return Outcome()

    return ours, theirs


@row("MiniBatchRegressor in a grid search of 18 x 3: diabetes", slower=2)
def grid_search() -> Pair:
    """Against SGDRegressor in the same search."""
    from sklearn.linear_model import SGDRegressor
    from sklearn.model_selection import GridSearchCV

    from reshuffle.sklearn import MiniBatchRegressor

    X, y = data("diabetes")

    def searched(estimator: Any, grid: dict[str, list[Any]]) -> Outcome:
        found = GridSearchCV(estimator, grid, cv=3, scoring="neg_mean_squared_error").fit(X, y[:, 0])
        return Outcome(-found.best_score_, None)

    rates = {"learning_rate": [0.001, 0.003, 0.01, 0.03, 0.1, 0.3], "epochs": [10, 30, 100]}
    plain = SGDRegressor(penalty=None, learning_rate="constant", tol=None)
    others = {"eta0": [1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3], "max_iter": [10, 30, 100]}
    return lambda: searched(MiniBatchRegressor(), rates), lambda: searched(plain, others)


# Rows on disk, limits with no data.


@row("mean after 100 epochs: 1,000,000 x 50 in a .npy file, batches of 256", seconds=40, memory=1)
@row("mean after 100 epochs: the same in a parquet file", seconds=40, memory=1, kind="parquet")
@row("mean with momentum 0.9: the same rows", seconds=60, memory=1, question="momentum")
@row("plan: the same rows", seconds=60, memory=1, question="plan")
@row("leave-one-out after 3 epochs: the same rows", seconds=60, memory=1, question="leave_one_out")
@row("critical step: the same rows", seconds=60, memory=1, question="critical_step")
def stream(kind: str = "npy", question: str = "mean") -> Pair:
    """Against plain descent through the file in its order, as many epochs as a person would need."""
    folder = Path(tempfile.mkdtemp())
    rng, n, p, height = np.random.default_rng(0), 1_000_000, 50, 50_000
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float64, shape=(n, p))
    y = np.empty(n)
    for first in range(0, n, height):
        part = rng.standard_normal((height, p))
        X[first : first + height] = part
        y[first : first + height] = part.sum(axis=1) + rng.standard_normal(height)
    X.flush()
    source: Any = folder / "X.npy"
    if kind == "parquet":
        import pyarrow
        import pyarrow.parquet

        source = folder / "X.parquet"
        schema = pyarrow.schema([(f"x{j}", pyarrow.float64()) for j in range(p)])
        with pyarrow.parquet.ParquetWriter(source, schema) as writer:
            for first in range(0, n, height):
                arrays = [pyarrow.array(column) for column in X[first : first + height].T]
                writer.write_table(pyarrow.table(arrays, schema=schema))
    scheme, step = rs.SampleReshuffling(batch_size=256), 0.01

    def ours() -> Outcome:
        problem = rs.LeastSquares(source, y)
        if question == "plan":
            return Outcome(float(rs.plan(problem).best.error))
        if question == "critical_step":
            return Outcome(float(rs.critical_step(problem, scheme, mean_square=False)))
        run = rs.descend(problem, scheme, step=step, momentum=0.9 if question == "momentum" else 0.0)
        if question == "leave_one_out":
            return left_out(run.leave_one_out(3))
        return Outcome(float(np.linalg.norm(run.iterate(100))))

    def theirs() -> Outcome:
        epochs = {"mean": 100, "momentum": 100, "leave_one_out": 15, "critical_step": 10, "plan": 60}[
            question
        ]
        if kind == "parquet":
            # Once, into memory.
            table = pyarrow.parquet.read_table(source).to_pandas()
            mapped, done = np.ascontiguousarray(table), epochs
        else:
            mapped, done = np.load(folder / "X.npy", mmap_mode="r"), 1
        beta = np.zeros(p)
        for first in done * list(range(0, n, 256)):
            # In the order of the file: shuffled rows would be read one by one.
            rows = mapped[first : first + 256]
            beta = beta - step / len(rows) * (rows.T @ (rows @ beta - y[first : first + 256]))
        return Outcome(times=epochs / done)

    return ours, theirs


@row("curve of 300 epochs, limit, best epoch: 1,000,000 x 100, 8 batches", seconds=10, memory=1.2)
@row(
    "curve of 300 epochs, limit, best epoch: 500 x 100,000, 4 batches",
    seconds=8,
    memory=1,
    n=500,
    p=100_000,
    batches=4,
    alpha=0.005,
)
def extreme(n: int = 1_000_000, p: int = 100, batches: int = 8, alpha: float = 0.5) -> Pair:
    """Against one run."""
    problem = rs.gaussian(n, p, noise=0.5, seed=0)

    def ours() -> Outcome:
        run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=alpha)
        return Outcome(
            float(run.risk(range(301)).total[-1] + run.limit().risk.total + run.best_epoch().epoch)
        )

    def theirs() -> Outcome:
        trained(problem.X, np.asarray(problem.y)[:, np.newaxis], alpha / batches, n // batches, 1)
        return Outcome(times=300)

    return ours, theirs


@row("critical_alpha(0.5, 3)", seconds=0.1)
def critical_alpha() -> Pair:
    """Against eigenvalues of a sample, 600 x 300, at ten steps."""
    from itertools import permutations

    from reshuffle import asymptotics

    def theirs() -> Outcome:
        X = np.random.default_rng(0).standard_normal((3, 200, 300))
        W, eye, low, high = X.transpose(0, 2, 1) @ X / 200, np.eye(300), 0.0, 4.0
        for _ in range(10):
            middle = (low + high) / 2
            steps = [eye - middle / 3 * part for part in W]
            mean = sum(steps[a] @ steps[b] @ steps[c] for a, b, c in permutations(range(3))) / 6
            low, high = (low, middle) if np.abs(np.linalg.eigvalsh(mean)).max() > 1 else (middle, high)
        return Outcome(low, None)

    return lambda: Outcome(float(asymptotics.critical_alpha(0.5, 3))), theirs


# Measuring.


def processor_seconds() -> float:
    """Of this process and those that it has started, threads included."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def measure(number: int, side: int, seconds: int) -> None:
    """Print what one side of a row takes, as JSON."""
    # Names load when they are first used.
    for name in rs.__all__:
        getattr(rs, name)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    work = ROWS[number].make(**ROWS[number].arguments)[side]
    spent = int(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (spent + seconds, spent + seconds))
    # The peak of memory so far is that of preparing: forget it.
    Path("/proc/self/clear_refs").write_text("5")
    begin, clock = processor_seconds(), time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        outcome = work()
    took, processor = time.perf_counter() - clock, processor_seconds() - begin
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    peak = max(int(status["VmHWM"].split()[0]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    found = {
        **outcome._asdict(),
        "error": outcome.error() if callable(outcome.error) else outcome.error,
        "processor": processor,
        "clock": took,
        "memory": peak / 1e6,
        "warnings": len(caught),
    }
    print(json.dumps(found))


def measured(number: int, side: int, seconds: int) -> dict[str, Any]:
    """One side of a row, in a process of its own; "failed" says why there is nothing."""
    command = [sys.executable, "-m", "benchmarks.against_training", "--measure", f"{number},{side},{seconds}"]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TMPDIR": folder}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode == 0:
        return dict(json.loads(done.stdout.splitlines()[-1]))
    reason = (done.stderr.strip().splitlines() or [""])[-1]
    return {"failed": f"> {seconds} s" if done.returncode < 0 else reason[:160]}


def compared(number: int, seconds: int) -> dict[str, Any]:
    """Both sides of a row, and their ratio at equal accuracy."""
    ours, theirs = measured(number, 0, seconds), measured(number, 1, seconds)
    found = {"name": ROWS[number].name, "ours": ours, "theirs": theirs}
    if "failed" not in theirs:
        if theirs["error"] is None:
            theirs["error"] = abs(theirs["value"] / ours["value"] - 1) if "failed" not in ours else math.nan
        scale = theirs["times"]
        if theirs["power"] and ours.get("error") and theirs["error"] > ours["error"]:
            scale *= (theirs["error"] / ours["error"]) ** theirs["power"]
        theirs.update(processor=theirs["processor"] * scale, clock=theirs["clock"] * scale)
        if "failed" not in ours:
            found["ratio"] = theirs["processor"] / ours["processor"]
    return found


def line(found: dict[str, Any], question: Row) -> str:
    """A row of a table in Markdown; seconds of the clock are in brackets."""

    def side(part: dict[str, Any]) -> str:
        if "failed" in part:
            return str(part["failed"])
        words = [f"{part['processor']:.3g} s ({part['clock']:.3g})", f"{part['memory']:.2g} GB"]
        words += [f"to {part['error']:.1g}"] if part["error"] else []
        return ", ".join(words + ([f"{part['warnings']} warnings"] if part["warnings"] else []))

    wanted = [f"{question.seconds:g} s"] if question.seconds else []
    wanted += [f"{question.memory:g} GB"] if question.memory else []
    wanted += [f"{1 / question.slower:g} times"] if not wanted or question.slower != 1 else []
    ratio = f"{found['ratio']:.2g}" if "ratio" in found else ""
    instead = f"{(question.make.__doc__ or '')[8:].splitlines()[0].rstrip('.')}: {side(found['theirs'])}"
    return f"| {found['name']} | {side(found['ours'])} | {instead} | {ratio} | {', '.join(wanted)} |"


def main() -> None:
    """Print a line per row as soon as it is there."""
    options = harness.arguments(
        __doc__,
        only=("", "rows whose name, or whose function's name, has this word"),
        json=("", "write the measurements to this file, row by row"),
        seconds=(400, "processor seconds after which a side is ended"),
        measure=("", "number,side,seconds: one side of a row, in this process"),
    )
    if options.measure:
        measure(*map(int, options.measure.split(",")))
        return
    found = []
    harness.markdown("question", "here", "instead", "times longer", "wanted")
    for number, question in enumerate(ROWS):
        if options.only in question.name or options.only in question.make.__name__:
            found.append(compared(number, options.seconds))
            print(line(found[-1], question), flush=True)
            if options.json:
                Path(options.json).write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
