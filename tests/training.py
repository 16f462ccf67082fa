"""Plain mini-batch SGD and the enumeration of all shuffles, written from the definitions alone."""

from itertools import chain, permutations, product

import numpy as np


def train(X, y, batches, *, rate, momentum=0.0, nesterov=False, decay=0.0, weights=None):
    """Parameters after visiting `batches`, lists of rows, one after the other from zero."""
    weights = np.ones(len(X)) if weights is None else weights
    b, buffer = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for rows in batches:
        rows = list(rows)
        gradient = X[rows].T @ (weights[rows] * (X[rows] @ b - y[rows])) / len(rows) + decay * b
        buffer = momentum * buffer + gradient
        b = b - rate * (gradient + momentum * buffer if nesterov else buffer)
    return b


def cut(order, size, drop_last=False):
    """An order of the rows in batches of `size`."""
    batches = [order[first : first + size] for first in range(0, len(order), size)]
    return batches[:-1] if drop_last and len(batches[-1]) < size else batches


def every_training(n, size, epochs, shuffle, drop_last=False):
    """The batches of every equally likely training."""
    fixed = cut(range(n), size, drop_last)
    if shuffle is False:
        return [fixed * epochs]
    if shuffle == "once":
        return [list(order) * epochs for order in permutations(fixed)]
    if shuffle == "batches":
        one = [list(order) for order in permutations(fixed)]
    elif shuffle == "replacement":
        draws = [list(product(range(n), repeat=len(rows))) for rows in fixed]
        one = [list(steps) for steps in product(*draws)]
    else:
        one = [cut(order, size, drop_last) for order in permutations(range(n))]
    return [list(chain(*parts)) for parts in product(one, repeat=epochs)]


def centred(X, y, weights=None):
    return X - np.average(X, axis=0, weights=weights), y - np.average(y, axis=0, weights=weights)


def data(n=40, p=3, seed=0, outputs=None, signal=1.0, noise=0.5):
    """Rows away from zero, and responses with an intercept."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + rng.standard_normal(p)
    y = X @ (signal * rng.standard_normal((p,) if outputs is None else (p, outputs))) + 3.0
    return X, y + noise * rng.standard_normal(y.shape)
