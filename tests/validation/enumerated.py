"""Leave-one-out by brute force: every order is followed, every row is left out in turn, in plain numpy."""

from itertools import combinations, permutations

import numpy as np

import reshuffle as rs


def problem(n, p, outputs=None, seed=0):
    """Columns of different sizes, and responses that follow the first of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) * rng.uniform(0.3, 2.0, size=p)
    y = rng.standard_normal((n, outputs or 1)) + X[:, :1]
    return rs.LeastSquares(X, y if outputs else y[:, 0])


def parts(*sizes):
    """Batches of consecutive rows of these sizes, with their divisors."""
    ends = np.cumsum(sizes)
    return [(np.arange(end - size, end), size) for size, end in zip(sizes, ends, strict=True)]


def batch_orders(partition):
    """All orders of fixed batches, as lists of (rows, divisor)."""
    return [list(order) for order in permutations(partition)]


def sample_splits(n, sizes):
    """All ways to cut n samples into batches of these sizes, one after the other."""

    def cut(left, sizes):
        if not sizes:
            return [[]]
        return [
            [(np.array(chosen), sizes[0]), *rest]
            for chosen in combinations(sorted(left), sizes[0])
            for rest in cut(left - set(chosen), sizes[1:])
        ]

    return cut(set(range(n)), list(sizes))


def mean_epoch(X, y, orders, step, penalty=0.0, left_out=None):
    """(A, g) of beta -> A beta + g, averaged over the orders, without the gradient of one row."""
    p = X.shape[1]
    weights = np.ones(len(X))
    if left_out is not None:
        weights[left_out] = 0.0
    total, added = np.zeros((p, p)), np.zeros((p, y.shape[1]))
    for order in orders:
        A, g = np.eye(p), np.zeros((p, y.shape[1]))
        for rows, divisor in order:
            scaled = X[rows].T * weights[rows] / divisor
            visit = (1 - step * penalty) * np.eye(p) - step * scaled @ X[rows]
            A, g = visit @ A, visit @ g + step * scaled @ y[rows]
        total, added = total + A, added + g
    return total / len(orders), added / len(orders)


def residuals(X, y, orders, step, epochs, start=None, penalty=0.0, repeats=1):
    """y_i - x_i'b (epochs, n, t) of the mean iterate without row i."""
    y = y if y.ndim == 2 else y[:, np.newaxis]
    begin = (
        np.zeros((X.shape[1], y.shape[1]))
        if start is None
        else np.repeat(start[:, np.newaxis], y.shape[1], 1)
    )
    found = np.zeros((len(epochs), *y.shape))
    for i in range(len(X)):
        A, g = mean_epoch(X, y, orders, step, penalty, i)
        for number, epoch in enumerate(epochs):
            iterate = begin
            for _ in range(int(epoch) * repeats):
                iterate = A @ iterate + g
            found[number, i] = y[i] - X[i] @ iterate
    return found
