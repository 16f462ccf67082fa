"""Influence of every row on new predictions, against refits, influence functions and TracIn: correlation and time.

python -m benchmarks.influence

Diabetes, standardised, 392 rows trained on and 50 new ones, in batches of 64 with momentum 0.9, after 1, 10 and 100
epochs. Refits are runs on the problem with a row of zeros, for every eighth row. The influence function is that of
least squares at its optimum, (X'X)^-1 x_i e_i, and does not know the epoch. TracIn adds up the step times the
gradients of the row and of the new prediction along the mean run, one checkpoint per epoch; it claims correlations,
not sizes.
"""

import numpy as np
from sklearn import datasets

import reshuffle as rs
from benchmarks.harness import processor, standardized

EPOCHS = np.array([1.0, 10.0, 100.0])
SCHEMES = {
    "full batch": rs.FullBatch(),
    "4 fixed batches": rs.RandomReshuffling(batches=4),
    "shuffled samples, batches of 64": rs.SampleReshuffling(batch_size=64),
    "fixed batches of 64": rs.RandomReshuffling(batch_size=64),
}


def influence_function(run: rs.Run, new: np.ndarray) -> np.ndarray:
    """-x_new'(X'X)^-1 x_i (y_i - x_i'b) (rows, new rows), at the least-squares solution b."""
    X, y = run.problem.X, run.problem.y
    solution = np.linalg.lstsq(X, y, rcond=None)[0]
    weighted = np.linalg.solve(X.T @ X, (X * (y - X @ solution)[:, np.newaxis]).T)
    return np.asarray(-(new @ weighted).T)


def tracin(run: rs.Run, new: np.ndarray) -> np.ndarray:
    """-sum over epochs of step times x_new'x_i (y_i - x_i'b) (epochs, rows, new rows), along the mean run."""
    X, y = run.problem.X, run.problem.y
    residuals = y - run.iterate(np.arange(EPOCHS[-1])) @ X.T
    sums = np.cumsum(residuals, axis=0)[EPOCHS.astype(int) - 1]
    return np.asarray(-float(run.step) * sums[:, :, np.newaxis] * (X @ new.T))


def main() -> None:
    """Print the table."""
    X, y = datasets.load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = standardized(X)[order], (y - y.mean())[order]
    problem, new, some = rs.LeastSquares(X[:392], y[:392]), X[392:], np.arange(0, 392, 8)
    for name, scheme in SCHEMES.items():
        run = rs.descend(problem, scheme, step=0.02, momentum=0.9)
        loo, _ = processor(lambda run=run: run.leave_one_out(EPOCHS).mean_square)
        run = rs.descend(problem, scheme, step=0.02, momentum=0.9)
        taken, found = processor(lambda run=run: run.influence(new, EPOCHS))
        of_refits, others = processor(lambda run=run: [run.without([i]).predict(new, EPOCHS) for i in some])
        refits = np.stack(others, 1) - run.predict(new, EPOCHS)[:, np.newaxis]
        of_classical, classical = processor(lambda run=run: influence_function(run, new))
        of_traced, traced = processor(lambda run=run: tracin(run, new))
        print(f"{name}: influence {taken:.2f} s ({taken / loo:.1f} times leave-one-out, {found.method})")
        scaled = of_refits * len(X) / len(some)
        print(
            f"  seconds: refits of all rows {scaled:.1f}, influence function {of_classical:.4f}, "
            f"TracIn {of_traced:.3f}"
        )
        for place, epoch in enumerate(EPOCHS):
            truth = refits[place].ravel()
            answers = found.values[place, some], classical[some], traced[place, some]
            ours, first, second = (np.corrcoef(truth, each.ravel())[0, 1] for each in answers)
            off = np.abs(found.values[place, some] - refits[place]).max()
            print(
                f"  epoch {epoch:3g}: largest change {np.abs(truth).max():.3g}, off by {off:.1g} (stated "
                f"{found.error[place]:.1g}); correlation with refits: influence {ours:.6f}, influence function "
                f"{first:.3f}, TracIn {second:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
