"""The loop that everyone writes, with the protocol of the paper's Appendix D."""

import numpy as np

from reshuffle import LeastSquares, Scheme


def plain_loop(
    problem: LeastSquares, scheme: Scheme, step: float, epochs: int, runs: int, test_samples: int
) -> np.ndarray:
    """Mean test error after every epoch: one run after the other, each with fresh noise.

    The paper's protocol estimates the error from 1,000 test samples a run; with none, the loop is handed the error
    |beta - beta_star|^2 itself, and saves itself that work.
    """
    rng = np.random.default_rng(0)
    batches = [(problem.X[rows], rows) for rows in scheme.partition(problem.n)]
    errors = np.zeros(epochs + 1)
    for _ in range(runs):
        y = problem.X @ problem.beta_star + problem.noise * rng.standard_normal(problem.n)
        new = rng.standard_normal((test_samples, problem.p))
        beta = np.zeros(problem.p)
        errors[0] += _error(beta - problem.beta_star, new)
        for epoch in range(1, epochs + 1):
            for batch in rng.permutation(len(batches)):
                X, rows = batches[batch]
                beta -= step / len(X) * (X.T @ (X @ beta - y[rows]))
            errors[epoch] += _error(beta - problem.beta_star, new)
    return errors / runs


def _error(difference: np.ndarray, new: np.ndarray) -> float:
    return float(np.mean((new @ difference) ** 2) if len(new) else difference @ difference)
