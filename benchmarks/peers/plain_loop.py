"""The loop that everyone writes: one run after the other, one batch after the other."""

import numpy as np

from reshuffle import LeastSquares, Scheme


def plain_loop(problem: LeastSquares, scheme: Scheme, step: float, epochs: int, runs: int) -> np.ndarray:
    """Mean risk after every epoch over runs with fresh noise, with matrix-vector products."""
    rng = np.random.default_rng(0)
    partition = scheme.partition(problem.n)
    risks = np.zeros(epochs + 1)
    for _ in range(runs):
        y = problem.X @ problem.beta_star + problem.noise * rng.standard_normal(problem.n)
        beta = np.zeros(problem.p)
        risks[0] += np.sum((beta - problem.beta_star) ** 2)
        for epoch in range(1, epochs + 1):
            for batch in rng.permutation(len(partition)):
                rows = slice(partition[batch][0], partition[batch][-1] + 1)
                X = problem.X[rows]
                beta -= step / len(X) * (X.T @ (X @ beta - y[rows]))
            risks[epoch] += np.sum((beta - problem.beta_star) ** 2)
    return risks / runs
