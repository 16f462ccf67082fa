"""The test error that leave-one-out predicts and the one on held-out rows, on four data sets, 50 splits each.

python -m benchmarks.predicted_test_error
python -m benchmarks.predicted_test_error --choices [--runs 20] [--momentum 0.9] [diabetes "breast cancer" wine]

Columns are brought to mean zero and variance one, a column of ones is added and learned with the others, and rows
are split at random, 70 per cent for training. The prediction is `run.leave_one_out` on the training rows alone,
compared with what the same run predicts for the rows that were held out. A split is drawn independently of all
others, so that for the data as they are the differences of the splits are independent, however much the splits
have in common: their standard error is their deviation over the root of 50. For other rows from the same source it
would be too small, since all splits share the same rows; under "new rows" 1/50 + 0.3/0.7 takes the place of 1/50 in
the root (Nadeau and Bengio, 2003). The last columns have the error on the training rows, and how far that is from
the held-out one: an estimate as poor as that would be seen.

With --choices, every recipe in the table of a plan is trained without each row in turn, means taken without it
too, and its left-out error is compared with the one in the table.
"""

import math
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn import datasets, preprocessing

import reshuffle as rs
from benchmarks.harness import arguments, standardized
from reshuffle._progress import track
from reshuffle.planning import PlannedRecipe

EPOCHS = (1, 10, 100, math.inf)
TRAINED = 0.7


@dataclass(frozen=True, eq=False)
class Data:
    """Rows (n, p), responses (n, t), and how they are trained on."""

    X: np.ndarray
    y: np.ndarray
    batch_size: int
    step: float


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


Found = dict[str, tuple[float, float, float]]
"""Leave-one-out, the error on held-out rows and that on the training rows, by epoch: means over outputs."""


def predicted_and_found(data: Data, scheme: rs.Scheme, rng: np.random.Generator) -> tuple[Found, str]:
    """What a split finds at all epochs and at the best, and how rows were left out."""
    order = rng.permutation(len(data.X))
    kept, held = np.split(order, [round(TRAINED * len(order))])
    run = rs.descend(rs.LeastSquares(data.X[kept], data.y[kept]), scheme, data.step)

    def errors(learned: np.ndarray) -> list[float]:
        return [float(np.square(data.y[rows] - data.X[rows] @ learned).mean()) for rows in (held, kept)]

    left_out, best, found = run.leave_one_out(EPOCHS), run.best_epoch(), {}
    for epochs, predicted, learned in zip(EPOCHS, left_out.mean_square, run.iterate(EPOCHS), strict=True):
        found[f"{epochs:g}"] = (float(predicted.mean()), *errors(learned))
    # (t, p, t): each output at its own best epoch.
    found["best"] = (float(np.mean(best.risk)), *errors(np.einsum("tjt->jt", run.iterate(best.epoch))))
    return found, left_out.method


def line(name: str, found: np.ndarray, method: str) -> str:
    """Means over the splits, and their differences in standard errors."""
    predicted, held, training = found.mean(axis=0)
    corrected = math.sqrt(1 + len(found) * (1 - TRAINED) / TRAINED)
    apart, naive = (
        in_standard_errors(found[:, 0] - found[:, 1]),
        in_standard_errors(found[:, 2] - found[:, 1]),
    )
    return (
        f"{name:>6} {predicted:>10.4f} {held:>10.4f} {100 * (predicted / held - 1):>+9.2f}% "
        f"{apart:>+9.2f} {apart / corrected:>+9.2f} {training:>10.4f} {naive:>+9.2f}  {method}"
    )


def in_standard_errors(differences: np.ndarray) -> float:
    """The mean of independent differences over its standard error."""
    return float(differences.mean() / differences.std(ddof=1) * math.sqrt(len(differences)))


def squared_diabetes() -> tuple[np.ndarray, np.ndarray]:
    """Diabetes with squares and products, and a column of ones: 442 x 66."""
    rows, responses = datasets.load_diabetes(return_X_y=True)
    squares = preprocessing.PolynomialFeatures(2, include_bias=False).fit_transform(standardized(rows))
    features = np.column_stack([np.ones(len(rows)), standardized(squares)])
    return features, standardized(responses[:, np.newaxis])[:, 0]


def stopped(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> dict[str, tuple[float, float]]:
    """When to stop on a random half of the rows, and the error on the other half, by who is asked."""
    kept, held = np.split(rng.permutation(len(X)), 2)
    scheme, step, rows, responses = rs.RandomReshuffling(batches=4), 0.05, X[kept], y[kept]
    run = rs.descend(rs.LeastSquares(rows, responses), scheme, step)
    least = np.linalg.lstsq(rows, responses, rcond=None)[0]
    left = len(rows) - np.linalg.matrix_rank(rows)
    noise = float(np.linalg.norm(responses - rows @ least)) / math.sqrt(left)
    epochs = {"leave-one-out": float(run.best_epoch().epoch)}
    for name, covariance in (("plugged in", None), ("in W", rows.T @ rows / len(rows))):
        known = rs.LeastSquares(rows, responses, beta_star=least, noise=noise, covariance=covariance)
        epochs[f"least squares, {name}"] = float(rs.descend(known, scheme, step).best_epoch().epoch)
    looked_at = np.unique(np.geomspace(1, 1e4, 400).round())

    def missed(when: np.ndarray) -> np.ndarray:
        off = y[held, np.newaxis] - X[held] @ run.iterate(when).T
        return np.asarray(np.square(off).mean(axis=0))

    epochs["the held-out rows"] = float(looked_at[np.argmin(missed(looked_at))])
    return {name: (when, float(missed(np.array([when]))[0])) for name, when in epochs.items()}


def stopping(splits: int) -> None:
    """Print when to stop, by who is asked."""
    (X, y), rng = squared_diabetes(), np.random.default_rng(0)
    drawn = [stopped(X, y, rng) for _ in track(range(splits), splits, "stopping")]
    print(
        f"diabetes with squares, {len(X) // 2} x {X.shape[1]}: when to stop, and the error on the other half"
    )
    print(f"{'':>26} {'epoch (median)':>14} {'error (mean)':>14}")
    for name in drawn[0]:
        epochs, errors = np.array([found[name] for found in drawn]).T
        print(f"{name:>26} {np.median(epochs):>14.4g} {errors.mean():>14.4f}")


def generalized(draws: int = 20) -> None:
    """Print leave-one-out and GCV over the test error, for Gaussian rows of which there are too few."""
    shares = []
    for seed in range(draws):
        problem = rs.gaussian(200, 300, noise=1.0, seed=seed)
        run = rs.descend(rs.LeastSquares(problem.X, problem.y), rs.FullBatch(), step=0.2)
        epochs = np.array([10, 100])
        truth = 1 + np.square(run.iterate(epochs) - problem.beta_star).sum(axis=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            crossed = run.generalized_cross_validation(epochs)
        shares.append([run.leave_one_out(epochs).mean_square / truth, crossed / truth])
    print("Gaussian rows, 200 x 300: leave-one-out and GCV over the test error, after 10 and 100 epochs")
    print(np.mean(shares, axis=0).round(3))


def centring(splits: int = 1500) -> None:
    """Print what it does to the prediction if rows help to centre themselves, on the few rows of Linnerud."""
    data, scheme = data_sets()["linnerud"], rs.FullBatch()
    print(f"linnerud, full batch, 10 epochs, {splits} splits")
    for learned in (True, False):
        rng, found = np.random.default_rng(1), []
        for _ in track(range(splits), splits, "centring"):
            kept, held = np.split(rng.permutation(len(data.X)), [round(TRAINED * len(data.X))])
            X, y = data.X, data.y
            if not learned:
                X, y = X[:, 1:] - X[kept, 1:].mean(axis=0), y - y[kept].mean(axis=0)
            run = rs.descend(rs.LeastSquares(X[kept], y[kept]), scheme, step=0.2)
            error = np.square(y[held] - X[held] @ run.iterate(10)).mean()
            found.append([run.leave_one_out(10).mean_square.mean(), error])
        predicted, held_out = np.transpose(found)
        words = "with a column of ones" if learned else "centred by the training rows"
        print(
            f"{words:>29}: predicted {predicted.mean():.4f}, held out {held_out.mean():.4f}, "
            f"{in_standard_errors(predicted - held_out):+.2f} standard errors"
        )


def trained_without(X: np.ndarray, y: np.ndarray, recipe: PlannedRecipe, runs: int) -> np.ndarray:
    """Left-out mean squares (runs,) of trained runs on X and y (n, t) less their means: a run per row left out."""
    (n, p), rng, found = X.shape, np.random.default_rng(0), []
    others = np.array([np.delete(np.arange(n), row) for row in range(n)])
    means, answers = ((part.sum(axis=0) - part)[:, np.newaxis] / (n - 1) for part in (X, y))
    for _ in track(range(runs), runs, recipe.words()):
        learned, velocity = np.zeros((2, n, p, y.shape[1]))
        for _ in range(recipe.epochs):
            order = rng.permuted(others, axis=1)
            for first in range(0, n - 1, recipe.batch_size):
                batch = order[:, first : first + recipe.batch_size]
                rows = X[batch] - means
                off = rows @ learned + answers - y[batch]
                velocity = recipe.momentum * velocity + rows.mT @ off / batch.shape[1]
                learned -= recipe.step * velocity
        predicted = answers + (X[:, np.newaxis] - means) @ learned
        found.append(np.square(y - predicted[:, 0]).mean())
    return np.array(found)


def choices(names: list[str], runs: int, momentum: float) -> None:
    """Print the table of a plan beside trained runs."""
    for name in names or ("diabetes", "breast cancer", "wine"):
        X, y = getattr(datasets, f"load_{name.replace(' ', '_')}")(return_X_y=True)
        y = y.reshape(len(y), -1).astype(np.float64)
        plan = rs.plan(X, y, momenta=[momentum])
        print(f"{name}, momentum {momentum:g}, {runs} runs without each of {len(X)} rows")
        print(
            f"{'choice':>17} {'test error':>11} {'its error':>10} {'trained':>11} {'s.e.':>7} {'off by':>8}"
        )
        for label, recipe in plan.choices:
            found = trained_without(standardized(X), y, recipe, runs)
            mean, error = found.mean(), found.std(ddof=1) / math.sqrt(runs)
            print(
                f"{label:>17} {recipe.test_error:>11.6g} {recipe.error / recipe.test_error:>10.2%} {mean:>11.6g} "
                f"{error / mean:>7.2%} {recipe.test_error / mean - 1:>+8.2%}  {recipe.words()}",
                flush=True,
            )


def main(splits: int = 50, names: list[str] | None = None) -> None:
    """Print one line per data set, scheme and epoch."""
    sizes = []
    for name, data in data_sets().items():
        if names and name not in names:
            continue
        for words, scheme in schemes(data).items():
            rng, label = np.random.default_rng(0), f"{name}, {words}"
            drawn = [predicted_and_found(data, scheme, rng) for _ in track(range(splits), splits, label)]
            n, (p, t) = len(data.X), (data.X.shape[1], data.y.shape[1])
            print(f"{name} ({n} x {p}, {t} output{'s' if t > 1 else ''}), {words}")
            print(
                f"{'epochs':>6} {'predicted':>10} {'held out':>10} {'off by':>10} {'in s.e.':>9} {'new rows':>9} "
                f"{'training':>10} {'in s.e.':>9}"
            )
            for when in drawn[0][0]:
                found = np.array([split[when] for split, _ in drawn])
                print(line(when, found, drawn[0][1]), flush=True)
                sizes.append(abs(in_standard_errors(found[:, 0] - found[:, 1])))
    print(f"on average {np.mean(sizes):.2f} standard errors apart, {np.max(sizes):.2f} at most")


if __name__ == "__main__":
    names, tables = ([], "data sets, all by default"), (False, "tables of plans beside trained runs")
    given = arguments(__doc__, _names=names, splits=50, choices=tables, runs=20, momentum=0.0)
    if given.choices:
        choices(given.names, given.runs, given.momentum)
    else:
        main(given.splits, given.names)
    if not given.names and not given.choices:
        stopping(given.splits)
        generalized()
        centring()
