"""The test error that a plan predicts, and the one on fresh rows: its bias, and the coverage of its 95% interval.

python -m benchmarks.plan_coverage [--problems 1020] [--few 150] [--splits 30] [--jobs 2]
python -m benchmarks.plan_coverage --explain 200

Problems are drawn: n rows from 8 to 300, evenly in the logarithm, and --few more of each kind with 15 to 29 rows;
columns from n / 20 to 2 n, three signal-to-noise ratios, columns alike or correlated, of equal or decaying
variance, in units of their own. The truth is the error on 4,000 fresh rows. Data sets are split: n rows to plan
with, all others are the truth. Both are for a single run of the recommended recipe: the mean over its orders plus
the spread. The bias is the geometric mean of predicted over true error, less one; in brackets that of the estimate
of the recipe before it is corrected for the choice.

With --explain, so many runs of each of 36 recipes are trained as stated, and `explain` judges each: the shares of
probabilities below 0.05 and 0.01 should be as large.
"""

import math
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
from sklearn import datasets, preprocessing

import reshuffle as rs
from benchmarks.harness import arguments, markdown, row
from reshuffle._linalg import one_thread
from reshuffle._progress import track
from reshuffle.simulation import simulated_states

KINDS = ("Gaussian", "t5 rows", "t3 noise", "one-hot", "outlier rows", "binary y")
FRESH = 4000
SIZES = ((8, 15), (15, 30), (30, 60), (60, 301))
SETS = {
    "diabetes": (25, 50, 150),
    "diabetes with products": (50, 150),
    "breast cancer": (25, 60, 200),
    "wine": (25, 60),
    "digits": (100, 300),
    "linnerud": (14,),
}
"""Rows to plan with, of each data set."""

Rows = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """The predicted error, the estimate without correction, and the truth."""

    group: str
    n: int
    predicted: float
    naive: float
    truth: float
    low: float
    high: float


def drawn(kind: str, seed: int, few: bool = False) -> tuple[Rows, Rows]:
    """Rows and responses to plan with, 8 to 300 or 15 to 29 of them, and fresh ones from the same source."""
    rng = np.random.default_rng([seed, KINDS.index(kind), few] if few else [seed, KINDS.index(kind)])
    n = round(math.exp(rng.uniform(*np.log([15, 29] if few else [8, 300]))))
    p = max(1, round(n * math.exp(rng.uniform(math.log(0.05), math.log(2.0)))))
    sizes = np.arange(1, p + 1.0) ** -rng.choice([0.0, 0.5, 1.0])
    truth = rng.standard_normal(p) / math.sqrt(np.square(sizes).sum())
    noise = rng.choice([0.3, 1.0, 3.0]) ** -0.5
    factors = rng.standard_normal((p, max(1, p // 3))) / math.sqrt(max(1, p // 3)) * rng.integers(2)
    levels, units = rng.integers(2, 6, size=max(1, p // 4)), rng.lognormal(size=p)

    def rows(count: int) -> np.ndarray:
        drawn = (
            rng.standard_t(5, (count, p)) * 0.6**0.5 if kind == "t5 rows" else rng.standard_normal((count, p))
        )
        if kind == "one-hot":
            shares = [np.arange(1, level + 1) for level in levels]
            words = [rng.choice(len(each), count, p=each / each.sum()) for each in shares]
            both = np.hstack(
                [*(np.eye(len(each))[word] for each, word in zip(shares, words, strict=True)), drawn]
            )
            return both[:, :p]
        drawn = (drawn + rng.standard_normal((count, factors.shape[1])) @ factors.T) * sizes
        return drawn * np.where(rng.random(count) < 0.03 * (kind == "outlier rows"), 6.0, 1.0)[:, np.newaxis]

    def responses(X: np.ndarray) -> np.ndarray:
        off = rng.standard_t(3, len(X)) / 3**0.5 if kind == "t3 noise" else rng.standard_normal(len(X))
        found = X @ truth + noise * off
        return (found > 0) * 1.0 if kind == "binary y" else found + 3.0

    X, fresh = rows(n), rows(FRESH)
    return (X * units, responses(X)), (fresh * units, responses(fresh))


@cache
def data_set(name: str) -> Rows:
    """Rows and responses of a data set of scikit-learn."""
    if name == "digits":
        X, y = datasets.load_digits(return_X_y=True)
        return X, np.eye(10)[y]
    load = {"diabetes with products": "diabetes", "breast cancer": "breast_cancer"}.get(name, name)
    X, y = getattr(datasets, f"load_{load}")(return_X_y=True)
    if name == "diabetes with products":
        X = preprocessing.PolynomialFeatures(2, include_bias=False).fit_transform(preprocessing.scale(X))
    y = np.asarray(y, dtype=float)
    return X, y / y.std(axis=0)


def split(name: str, n: int, seed: int) -> tuple[Rows, Rows]:
    """Some rows of a data set, and all others."""
    (X, y), order = data_set(name), np.random.default_rng([seed, n]).permutation(len(data_set(name)[0]))
    return (X[order[:n]], y[order[:n]]), (X[order[n:]], y[order[n:]])


def outcome(task: tuple[str, int, int]) -> Outcome | None:
    """The prediction and the truth; nothing where there is nothing to learn. n = 0, or -1 for few rows: drawn."""
    name, n, seed = task
    (X, y), (fresh, answers) = split(name, n, seed) if n > 0 else drawn(name, seed, few=n < 0)
    if not np.ptp(y, axis=0).all() or not np.ptp(X, axis=0).any():
        return None
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")
        plan = rs.plan(X, y)
        found = plan.check_on(fresh, answers).found + plan.best.spread
    return Outcome(name, len(X), plan.test_error, plan.naive_test_error, found, *plan.interval)


def line(name: str, sizes: str, found: Sequence[Outcome]) -> None:
    """Print a row of the table, unless it would have a single problem."""
    if len(found) < 2:
        return
    predicted, naive = (
        np.log([getattr(one, which) / one.truth for one in found]) for which in ("predicted", "naive")
    )
    covered = np.mean([one.low <= one.truth <= one.high for one in found])
    width = np.median([one.high / one.predicted for one in found])
    error = 100 * predicted.std(ddof=1) / math.sqrt(len(found))
    bias, before = (f"{100 * math.expm1(logs.mean()):+.1f}%" for logs in (predicted, naive))
    row(name, sizes, len(found), f"{bias} ± {error:.1f} ({before})", f"{covered:.0%}", f"{width:.2f}")


def explained(runs: int, seed: int) -> None:
    """Print how often `explain` finds runs improbable that were trained as stated."""
    problems = {"Gaussian, 100 x 10": rs.gaussian(100, 10, noise=1.0, seed=0)}
    for name in ("diabetes", "breast cancer"):
        X, y = (preprocessing.scale(part) for part in data_set(name))
        problems[name] = rs.LeastSquares(X, y)
    print(f"{runs} runs each\n{'':20} momentum  batch size  epochs  below 0.05  below 0.01")
    every = []

    def shares(found: list[float]) -> str:
        return "".join(f"{np.mean(np.less(found, level)):>12.2%}" for level in (0.05, 0.01))

    for name, momentum, size, epochs in product(problems, (0.0, 0.9), (4, 16, 64), (3, 30)):
        problem, scheme = problems[name], rs.SampleReshuffling(batch_size=size)
        step = 0.1 * (1 - momentum) * min(1, size / 16) * problem.n / np.linalg.norm(problem.X, 2) ** 2
        run = rs.descend(problem, scheme, step, momentum=momentum)
        when = np.array([float(epochs)])
        made = simulated_states(
            problem, scheme, run.recipe, run.start, when, runs, seed + size + epochs, np.copy
        )
        fits = made.reshape(runs, -1)[:, : problem.p]
        found = [rs.explain(problem.X, problem.y, fit, run, epochs=epochs).spread.probability for fit in fits]
        every += found
        print(f"{name:20} {momentum:>8g} {size:>11} {epochs:>7}{shares(found)}", flush=True)
    print(f"{'all':20} {len(every):>28}{shares(every)}")


def main() -> None:
    """Print the table."""
    explain = 0, "how many runs of each recipe are explained"
    given = arguments(__doc__, problems=1020, few=150, splits=30, jobs=2, seed=70_000, explain=explain)
    if given.explain:
        explained(given.explain, given.seed)
        return
    each = -(-given.problems // len(KINDS))
    tasks = [(kind, 0, given.seed + seed) for kind in KINDS for seed in range(each)]
    tasks += [(kind, -1, given.seed + seed) for kind in KINDS for seed in range(given.few)]
    splits = range(given.seed, given.seed + given.splits)
    tasks += [(name, n, seed) for name, sizes in SETS.items() for n in sizes for seed in splits]
    with ProcessPoolExecutor(given.jobs) as pool:
        made = pool.map(outcome, tasks, chunksize=10)
        found = [one for one in track(made, len(tasks), "plans") if one is not None]
    markdown("data", "rows", "problems", "bias (naive)", "coverage", "high / predicted")
    for kind in (*KINDS, "all drawn"):
        of_kind = [one for one in found if one.group in (KINDS if kind == "all drawn" else [kind])]
        for first, last in SIZES:
            line(kind, f"{first} to {last - 1}", [one for one in of_kind if first <= one.n < last])
        line(kind, "30 or more", [one for one in of_kind if one.n >= 30])
    for name, sizes in SETS.items():
        for n in sizes:
            line(name, str(n), [one for one in found if (one.group, one.n) == (name, n)])


if __name__ == "__main__":
    main()
