"""How often the stated error of the cavity equation covers the truth, on generated problems whose means are exact.

Run with `python benchmarks/cavity_coverage.py [problems]`. Rows are Gaussian, heavy-tailed, sparse, with outliers,
of different scales, or far from the origin; steps go up to the edge of divergence. The exact means are those of
three and four batches of shuffled samples, and of batches of one row, on the lattice.
"""

import sys
import warnings

import numpy as np

import reshuffle as rs

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


def draw(seed):
    """A problem, a scheme whose mean is known exactly, and a step."""
    rng = np.random.default_rng(seed)
    one_by_one = rng.random() < 0.4
    n = int(rng.integers(5, 13) if one_by_one else rng.integers(8, 200))
    p = int(rng.integers(1, max(2, min(n // 2, 20))))
    kind = str(rng.choice(KINDS))
    X, beta = features(rng, kind, n, p), rng.standard_normal(p)
    problem = rs.LeastSquares(X, X @ beta + 0.5 * rng.standard_normal(n), beta_star=beta, noise=0.5)
    fastest = 2 * n / np.linalg.norm(X, 2) ** 2
    if one_by_one:
        step = min(rng.choice([0.1, 0.3, 1.0, 3.0]) * fastest / n, 1.8 / np.square(X).sum(axis=1).max())
        return kind, problem, rs.RandomReshuffling(batch_size=1), float(step)
    scheme = rs.SampleReshuffling(int(rng.choice([3, 4])))
    return kind, problem, scheme, float(rng.choice([0.03, 0.1, 0.3, 0.6]) * fastest)


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


def main(problems):
    """Print how many answers are covered, and how much wider errors are than needed."""
    found = {}
    for seed in range(problems):
        kind, *made = draw(seed)
        found.setdefault(kind, []).append(ratios(*made))
    print(f"{'rows':>10} {'problems':>9} {'covered':>8} {'median ratio':>13} {'largest':>8}")
    for kind in (*sorted(found), "all"):
        here = np.array(found[kind] if kind != "all" else [each for many in found.values() for each in many])
        here = here[np.isfinite(here)]
        count = len(found[kind]) if kind != "all" else problems
        print(f"{kind:>10} {count:>9} {np.mean(here <= 1):>8.4f} {np.median(here):>13.3f} {here.max():>8.2f}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
