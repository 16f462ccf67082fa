"""How often the stated error of the cavity equation covers the truth, on generated problems whose means are exact.

Run with `python -m benchmarks.cavity_coverage [problems]`. Rows are Gaussian, heavy-tailed, sparse, with outliers,
of different scales, or far from the origin; steps go up to the edge of divergence. The exact means are those of
three and four batches of shuffled samples, and of batches of one row, on the lattice.

`python -m benchmarks.cavity_coverage batches [problems]` does the same for 8 to 14 fixed batches of 2 to 30
rows, against the lattice.

`python -m benchmarks.cavity_coverage rows [problems]` does the same for leave-one-out, whichever way it takes: for
rows of one column and for rows of a few kinds, the largest of which have a self response of 0.03 to 3.2.
"""

import contextlib
import warnings

import numpy as np
from tests.validation.known_means import of_kinds, of_one_column

import reshuffle as rs
from benchmarks.harness import arguments

EPOCHS = np.array([1.0, 3.0, 10.0, 100.0])
KINDS = ("gaussian", "t3", "rows", "outlier", "scales", "sparse", "far")


def features(rng, kind, n, p):
    """Rows (n, p) of mean square 1."""
    X = rng.standard_t(3, (n, p)) if kind == "t3" else rng.standard_normal((n, p))
    if kind == "rows":
        X *= rng.standard_t(2, (n, 1))
    if kind == "outlier":
        X[0] *= 10
    if kind == "scales":
        X *= 10.0 ** rng.uniform(-1.5, 0, p)
    if kind == "sparse":
        X *= (rng.random((n, p)) < 0.2) + 1e-3
    if kind == "far":
        X += rng.normal(0, 2, p)
    return X / np.sqrt(np.square(X).mean())


def noisy(rng, n, p):
    """A kind of rows, and a problem of this kind that knows its truth."""
    kind = str(rng.choice(KINDS))
    X, beta = features(rng, kind, n, p), rng.standard_normal(p)
    return kind, rs.LeastSquares(X, X @ beta + 0.5 * rng.standard_normal(n), beta_star=beta, noise=0.5)


def draw(seed):
    """A problem, a scheme whose mean is known exactly, and a step."""
    rng = np.random.default_rng(seed)
    one_by_one = rng.random() < 0.4
    n = int(rng.integers(5, 13) if one_by_one else rng.integers(8, 200))
    p = int(rng.integers(1, max(2, min(n // 2, 20))))
    kind, problem = noisy(rng, n, p)
    X = problem.X
    fastest = 2 * n / np.linalg.norm(X, 2) ** 2
    if one_by_one:
        step = min(rng.choice([0.1, 0.3, 1.0, 3.0]) * fastest / n, 1.8 / np.square(X).sum(axis=1).max())
        return kind, problem, rs.RandomReshuffling(batch_size=1), float(step)
    scheme = rs.SampleReshuffling(batches=int(rng.choice([3, 4])))
    return kind, problem, scheme, float(rng.choice([0.03, 0.1, 0.3, 0.6]) * fastest)


def draw_batches(seed):
    """A problem, 8 to 14 fixed batches, and a step at which every visit shrinks what it sees."""
    rng = np.random.default_rng(seed)
    batches, size = int(rng.integers(8, 15)), int(rng.choice([2, 3, 5, 10, 30]))
    n = batches * size + int(rng.integers(0, batches))
    p = int(rng.integers(1, min(n // 2, 16)))
    kind, problem = noisy(rng, n, p)
    parts = np.array_split(np.arange(n), batches)
    strongest = max(np.linalg.norm(problem.X[rows], 2) ** 2 / len(rows) for rows in parts)
    step = rng.choice([0.03, 0.1, 0.3, 0.6, 1.0]) * 1.8 / strongest
    return kind, problem, rs.RandomReshuffling(batches=batches), float(step)


def ratios(problem, scheme, step):
    """True error over stated error, of training loss, risk and iterate at each of the epochs."""
    exact = rs.descend(problem, scheme, step, method="exact")
    cavity = rs.descend(problem, scheme, step, method="cavity", rtol=10.0)
    loss, risk = cavity.training_loss(EPOCHS), cavity.risk(EPOCHS)
    off = [np.abs(loss - exact.training_loss(EPOCHS)), np.abs(risk.total - exact.risk(EPOCHS).total)]
    off.append(np.linalg.norm(cavity.iterate(EPOCHS) - exact.iterate(EPOCHS), axis=1))
    said = [cavity.training_loss_error(EPOCHS), risk.error, cavity.iterate_error(EPOCHS)]
    rounding = 1e-12 * np.array([loss.max(), risk.total.max(), np.linalg.norm(problem.beta_star)])
    return np.array(off) / (np.array(said) + rounding[:, np.newaxis])


SELF_RESPONSES = (0.03, 0.1, 0.3, 0.6, 0.9, 1.2, 1.6, 2.0, 2.5, 3.2)
"""What a visit to the largest row does to it, in units of what would fit it."""
EPOCHS_LEFT_OUT = (1, 3, 10, 100)


def one_column(rng, n):
    """Rows (n,): Gaussian, heavy-tailed, with one or two that dominate, or alike."""
    kind = rng.choice(["gaussian", "t3", "t1.3", "one", "two", "alike"])
    if kind == "t3":
        return rng.standard_t(3, n)
    if kind == "t1.3":
        return rng.standard_t(1.3, n)
    x = 1 + 0.2 * rng.standard_normal(n) if kind == "alike" else rng.standard_normal(n)
    dominant = {"one": 1, "two": 2}.get(str(kind), 0)
    x[:dominant] = rng.uniform(3, 8, dominant)
    return x


def left_out(seed):
    """A problem, a step and the self response of its largest row, and its leave-one-out."""
    rng = np.random.default_rng(seed)
    response = float(rng.choice(SELF_RESPONSES))
    if seed % 2:
        n = int(rng.integers(6, 61))
        x = one_column(rng, n)
        y = x * rng.standard_normal() + 0.5 * rng.standard_normal(n)
        step = response / np.square(x).max()
        truth = np.square(of_one_column(x, y, step, EPOCHS_LEFT_OUT)).mean(axis=1)
        return rs.LeastSquares(x[:, np.newaxis], y), step, response, truth
    p, kinds = int(rng.integers(2, 5)), int(rng.integers(4, 7))
    counts = (*[1] * (kinds - 2), *rng.integers(6, 16, 2).tolist())
    X = rng.standard_normal((kinds, p)) * np.append(rng.uniform(1, 5, kinds - 2), [1, 1])[:, np.newaxis]
    y = X @ rng.standard_normal(p) + 0.5 * rng.standard_normal(kinds)
    step = response / np.square(X).sum(axis=1).max()
    truth = of_kinds(X, y, counts, step, EPOCHS_LEFT_OUT)
    return rs.LeastSquares(np.repeat(X, counts, axis=0), np.repeat(y, counts)), step, response, truth


def left_out_ratios(problem, step, truth):
    """The method, true error over stated error at each of the epochs, and stated error over the answer."""
    found = rs.descend(problem, rs.SampleReshuffling(batch_size=1), step).leave_one_out(EPOCHS_LEFT_OUT)
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(found.mean_square - truth)
        ratio = np.where(np.isfinite(off), off / (found.error + 1e-9 * truth), 0.0)
        return found.method, ratio, found.error / found.mean_square


def of_rows(problems):
    """Print how many answers of leave-one-out are covered, and how wide their errors are."""
    made = {}
    for seed in range(problems):
        problem, step, response, truth = left_out(seed)
        method, *found = left_out_ratios(problem, step, truth)
        for key in ((f"{response:g}", method), ("all", "")):
            made.setdefault(key, []).append(found)
    print(
        f"{'response':>10} {'method':>14} {'problems':>9} {'covered':>8} {'largest':>8} {'median error':>13}"
    )
    for (response, method), rows in sorted(made.items()):
        ratio, width = np.array(rows).transpose(1, 0, 2)
        print(
            f"{response:>10} {method:>14} {len(rows):>9} {np.mean(ratio <= 1):>8.4f} {ratio.max():>8.2f} "
            f"{np.median(width[np.isfinite(width)]):>13.1e}"
        )


def main(problems, draw=draw):
    """Print how many answers are covered, and how much wider errors are than needed."""
    found = {}
    for seed in range(problems):
        kind, *made = draw(seed)
        # Near the edge of divergence the equation may have no solution, and says so.
        with contextlib.suppress(rs.UnsupportedError):
            found.setdefault(kind, []).append(ratios(*made))
    print(f"{'rows':>10} {'problems':>9} {'covered':>8} {'median ratio':>13} {'largest':>8}")
    for kind in (*sorted(found), "all"):
        here = np.array(found[kind] if kind != "all" else [each for many in found.values() for each in many])
        here = here[np.isfinite(here)]
        count = len(found[kind]) if kind != "all" else sum(map(len, found.values()))
        print(f"{kind:>10} {count:>9} {np.mean(here <= 1):>8.4f} {np.median(here):>13.3f} {here.max():>8.2f}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    words = arguments(__doc__, _words=[]).words
    problems = next((int(word) for word in words if word.isdigit()), 200)
    if "rows" in words:
        of_rows(problems)
    else:
        main(problems, draw_batches if "batches" in words else draw)
