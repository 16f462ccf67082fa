"""Whole runs by enumeration: every sequence of orders over several epochs, in plain p coordinates.

A run is carried as the matrix R (p, 1 + n) with beta = R (1, y), so that its dependence on the responses is known.
"""

from dataclasses import dataclass
from itertools import permutations, product

import numpy as np


@dataclass(frozen=True)
class Training:
    """What is trained: data, the step of each epoch, weight decay, momentum, the start."""

    X: np.ndarray
    y: np.ndarray
    steps: list
    start: np.ndarray
    penalty: float = 0.0
    momentum: float = 0.0


def run(training, epochs_of_visits):
    """R after the given visits: for each epoch a list of (rows, divisor)."""
    n, p = training.X.shape
    responses = np.hstack([np.zeros((n, 1)), np.eye(n)])
    beta = np.hstack([training.start[:, np.newaxis], np.zeros((p, n))])
    buffer = np.zeros_like(beta)
    for step, visits in zip(training.steps, epochs_of_visits, strict=True):
        for rows, divisor in visits:
            x = training.X[rows]
            gradient = x.T @ (x @ beta - responses[rows]) / divisor + training.penalty * beta
            buffer = training.momentum * buffer + gradient
            beta = beta - step * buffer
    return beta


def batches_in(order, partition, divisors):
    return [(partition[b], divisors[b]) for b in order]


def epochs_reshuffled(partition, divisors):
    return [batches_in(order, partition, divisors) for order in permutations(range(len(partition)))]


def epochs_with_replacement(partition, divisors):
    B = len(partition)
    return [batches_in(order, partition, divisors) for order in product(range(B), repeat=B)]


def epochs_of_drawn_samples(n, sizes):
    draws = [[(list(rows), size) for rows in product(range(n), repeat=size)] for size in sizes]
    return [list(visits) for visits in product(*draws)]


def all_runs(training, epochs, fresh=True):
    """R of every run, all equally likely: epochs chosen afresh, or one kept throughout."""
    count = len(training.steps)
    sequences = product(epochs, repeat=count) if fresh else ([epoch] * count for epoch in epochs)
    return [run(training, sequence) for sequence in sequences]


def mean_iterate(training, runs):
    return np.mean(runs, axis=0) @ np.concatenate([[1.0], training.y])


def _risk_over_noise(R, training, beta_star, covariance, noise):
    error = R @ np.concatenate([[1.0], training.X @ beta_star]) - beta_star
    return error @ covariance @ error + noise**2 * np.trace(R[:, 1:].T @ covariance @ R[:, 1:])


def expected_risk(training, runs, beta_star, covariance, noise):
    """Over orders and noise; and that of the mean iterate."""
    each = [_risk_over_noise(R, training, beta_star, covariance, noise) for R in runs]
    return np.mean(each), _risk_over_noise(np.mean(runs, axis=0), training, beta_star, covariance, noise)


def expected_risk_given(training, runs, beta_star, covariance):
    """Over orders alone; and that of the mean iterate."""
    inputs = np.concatenate([[1.0], training.y])
    errors = [R @ inputs - beta_star for R in runs]
    mean = np.mean(errors, axis=0)
    return np.mean([e @ covariance @ e for e in errors]), mean @ covariance @ mean
