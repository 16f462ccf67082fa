"""The spread of shuffled samples by centred maps: against simulation, and how often errors cover."""

import warnings
from functools import partial

import numpy as np
from rich.table import Table
from sklearn import datasets

import reshuffle as rs
from benchmarks.harness import arguments, fresh, show, standardized, table, timed
from reshuffle._uncertainty import MOST_GROUPS, quantile
from reshuffle.run import expected_risk

SCHEME, STEP = rs.SampleReshuffling(batch_size=32), 0.01


def prepared(load: object, noise: float, intercept: bool) -> rs.LeastSquares:
    """A problem of scikit-learn, with its least-squares solution for the truth."""
    X, y = load(return_X_y=True)  # type: ignore[operator]
    X = standardized(X)
    if intercept:
        X = np.column_stack([X, np.ones(len(X))])
    y = y - y.mean()
    return rs.LeastSquares(X, y, beta_star=np.linalg.lstsq(X, y, rcond=None)[0], noise=noise)


def against_simulation(runs: int = 300) -> Table:
    """The spread after the last epoch, against simulating it to the standard error that centred maps have there.

    The simulator is timed on a few runs, and its time scaled by the square of the ratio of the standard errors.
    """
    made = table(
        "Expected risk of shuffled samples, batches of 32, step 0.01, to the same standard error of the spread",
        "data", "epochs", "way", "seconds", "standard error / spread", "slower by", "target",
    )  # fmt: skip
    digits = prepared(datasets.load_digits, 2.0, intercept=False)
    cancer = prepared(datasets.load_breast_cancer, 0.3, intercept=True)
    for name, problem, epochs, target in (
        ("digits", digits, 100, ">= 10 x"),
        ("cancer", cancer, 200, "> 1 x"),
    ):

        def ours(problem: rs.LeastSquares = problem, epochs: int = epochs) -> rs.ExpectedRisk:
            return rs.descend(fresh(problem), SCHEME, step=STEP).expected_risk(epochs)

        seconds, found = timed(ours)
        run = rs.descend(problem, SCHEME, step=STEP)
        mean = run.risk(epochs).error
        share = float(np.sqrt(max(found.error**2 - mean**2, 0.0)) / quantile(MOST_GROUPS) / found.spread)
        recipe = {"step": STEP, "epochs": [epochs], "runs": runs, "seed": 1}
        simulate = partial(rs.simulate, problem, SCHEME, fresh_noise=True, progress=False, **recipe)
        rival, simulated = timed(simulate)
        other = float(simulated.spread.standard_error[0] / simulated.spread.mean[0])
        needed = rival * (other / share) ** 2
        made.add_row(name, str(epochs), "centred maps", f"{seconds:.1f}", f"{share:.4f}", "", "")
        slower = f"{needed / seconds:.0f} x"
        made.add_row("", "", f"simulation, from {runs} runs", f"{needed:.0f}", f"{share:.4f}", slower, target)
    return made


def coverage(problems: int = 100) -> Table:
    """How often the error covers the exact spread, on problems so small that all cuts are known."""
    made = table(f"Errors over {problems} problems", "rows", "covered", "largest distance / error")
    for name in ("normal", "heavy tails", "one outlier"):
        ratios = []
        for seed in range(problems):
            exact, run = _small(name, seed, 1e12), _small(name, seed, 1e8)
            when = np.array([1.0, 6.0, np.inf])
            found = expected_risk._Question(run._affine, run._modes, when, False).by_centred_maps()
            known = exact.expected_risk(when)
            assert known.error_kind != "confidence 99%"
            ratios.extend(np.abs(found.spread - known.spread) / found.error)
        inside = np.mean(np.array(ratios) <= 1)
        made.add_row(name, f"{100 * inside:.1f}%", f"{max(ratios):.2f}")
    return made


def _small(name: str, seed: int, budget: float) -> rs.Run:
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (8, 2)) if name == "heavy tails" else rng.standard_normal((8, 2))
    if name == "one outlier":
        X[0] *= 5
    X /= np.sqrt(np.square(X).sum(axis=1).mean())
    problem = rs.LeastSquares(X, X @ [1.0, -1.0], beta_star=[1.0, -1.0], noise=0.5)
    return rs.descend(problem, rs.SampleReshuffling(batches=4), 0.3, budget=budget, seed=seed)


def main() -> None:
    """Print every table as soon as it is there; a number on the command line is that of the problems."""
    problems = arguments(__doc__, _problems=100).problems
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rs.AccuracyWarning)
        show(against_simulation, lambda: coverage(problems))


if __name__ == "__main__":
    main()
