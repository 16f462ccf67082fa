"""Leave-one-out of single rows in random order, where the mean over all orders is known for any number of rows.

In one column, what comes after row j is the mean over u from 0 to 1 of prod (1 - step u x_l^2): every other row is
after it with probability u, independently. Rows of a few kinds are averaged by how many of each kind are visited.
"""

import math
from itertools import product

import numpy as np


def of_one_column(x, y, step, epochs):
    """y_i - x_i b (epochs, n) of the mean iterate without row i, from zero."""
    n, taken = len(x), step * np.square(x)
    places, weights = np.polynomial.legendre.leggauss(n // 2 + 1)
    factors = 1 - np.multiply.outer((places + 1) / 2, taken)
    found = np.zeros((len(epochs), n))
    for i in range(n):
        others = np.delete(np.arange(n), i)
        rate = math.prod(1 - taken[others])
        after = [weights / 2 @ np.prod(factors[:, others[others != j]], axis=1) for j in others]
        gained = step * x[others] * y[others] @ np.array(after)
        for place, epoch in enumerate(epochs):
            learned = gained * (epoch if rate == 1 else (1 - rate**epoch) / (1 - rate))
            found[place, i] = y[i] - x[i] * learned
    return found


def of_batches_of_one_column(x, y, batches, step, epochs, rows):
    """y_i - x_i b (epochs, rows) of fixed batches in random order, without the gradient of row i."""
    places, weights = np.polynomial.legendre.leggauss(len(batches) // 2 + 1)
    found = np.zeros((len(epochs), len(rows)))
    for column, i in enumerate(rows):
        kept = np.arange(len(x)) != i
        taken, gained = (step * np.array([(kept * x * z)[b].mean() for b in batches]) for z in (x, y))
        factors = 1 - np.multiply.outer((places + 1) / 2, taken)
        after = [weights / 2 @ np.prod(np.delete(factors, b, axis=1), axis=1) for b in range(len(batches))]
        rate, learned = math.prod(1 - taken), gained @ np.array(after)
        found[:, column] = [y[i] - x[i] * learned * (1 - rate**k) / (1 - rate) for k in epochs]
    return found


def of_kinds(X, y, counts, step, epochs):
    """The mean square (epochs,) of rows of a few kinds X (kinds, p), y (kinds,), each as often as `counts` says."""
    p, means = X.shape[1], {}
    for some in product(*(range(count + 1) for count in counts)):
        means[some] = np.zeros((p, p + 1))
        for kind, count in enumerate(some):
            if count:
                before = means[_less(some, kind)]
                seen = np.append(X[kind], y[kind]) - X[kind] @ before
                means[some] += count / sum(some) * (before + step * np.outer(X[kind], seen))
    found = np.zeros(len(epochs))
    for kind, count in enumerate(counts):
        lost, gained = np.split(means[_less(counts, kind)], [p], axis=1)
        for place, epoch in enumerate(epochs):
            learned = np.zeros((p, 1))
            for _ in range(epoch):
                learned = learned - lost @ learned + gained
            found[place] += count / sum(counts) * (y[kind] - X[kind] @ learned[:, 0]) ** 2
    return found


def _less(counts, kind):
    return tuple(count - (place == kind) for place, count in enumerate(counts))
