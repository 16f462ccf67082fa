"""Leave-one-out by brute force: every order is followed, every row is left out in turn."""

import numpy as np

import reshuffle as rs
from tests.oracles.every_order import Design, Enumeration
from tests.problems import Case


def problem(n, p, outputs=None, seed=0):
    """Columns of different sizes, and responses that follow the first of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * rng.uniform(0.3, 2.0, size=p)
    y = rng.standard_normal((n, outputs or 1)) + X[:, :1]
    return rs.LeastSquares(X, y if outputs else y[:, 0])


def residuals(X, y, orders, step, epochs, start=None, penalty=0.0):
    """y_i - x_i'b (epochs, n) of the mean iterate without row i, where an epoch is one of `orders`."""
    start = np.zeros(X.shape[1]) if start is None else start
    posed = Case(rs.LeastSquares(X, y), None, step, start, None)
    oracle = Enumeration(posed, Design(len(X), rs.FullBatch(), [orders]), {"penalty": penalty})
    left = [y[row] - oracle.without(row).means(epochs) @ X[row] for row in range(len(X))]
    return np.transpose(left)
