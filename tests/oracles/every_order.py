"""Whole runs by enumeration: every sequence of orders over several epochs, in plain p coordinates.

A run is carried as the matrix R (p, 1 + n) with beta = R (1, y), so that its dependence on the responses is known.
"""

from dataclasses import dataclass
from itertools import permutations, product

import numpy as np


@dataclass(frozen=True)
class Training:
    """What is trained: data, the step of each epoch, weight decay, momentum, the start.

    A step is that of all visits of an epoch, or a list with one for each of them.
    """

    X: np.ndarray
    y: np.ndarray
    steps: list
    start: np.ndarray
    penalty: float = 0.0
    momentum: float = 0.0
    nesterov: bool = False
    unpenalized: tuple = ()


def begin(training):
    """R and the momentum buffer before the first visit, (1, p, 1 + n) each: a stack of one."""
    n, p = training.X.shape
    beta = np.hstack([training.start[:, np.newaxis], np.zeros((p, n))])[np.newaxis]
    return beta, np.zeros_like(beta)


def advance(training, step, visits, beta, buffer):
    """A stack of runs (runs, p, 1 + n) after an epoch of the same visits, a list of (rows, divisor)."""
    n = len(training.X)
    return _through(training, step, visits, beta, buffer, np.hstack([np.zeros((n, 1)), np.eye(n)]))


def advance_homogeneous(training, step, visits, beta, buffer):
    """The same for states (p, c) to which nothing responds."""
    return _through(training, step, visits, beta, buffer, np.zeros((len(training.X), 1)))


def _through(training, step, visits, beta, buffer, responses):
    penalties = np.full((training.X.shape[1], 1), training.penalty)
    penalties[list(training.unpenalized)] = 0.0
    for (rows, divisor), now in zip(visits, np.broadcast_to(step, len(visits)), strict=True):
        x = training.X[rows]
        gradient = x.T @ (x @ beta - responses[rows]) / divisor + penalties * beta
        buffer = training.momentum * buffer + gradient
        beta = beta - now * (gradient + training.momentum * buffer if training.nesterov else buffer)
    return beta, buffer


def run(training, epochs_of_visits):
    """R after the given visits, one list per epoch."""
    state = begin(training)
    for step, visits in zip(training.steps, epochs_of_visits, strict=True):
        state = advance(training, step, visits, *state)
    return state[0][0]


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
    """R of every run (runs, p, 1 + n), all equally likely: epochs chosen afresh, or one kept throughout."""
    if not fresh:
        return np.array([run(training, [epoch] * len(training.steps)) for epoch in epochs])
    state = begin(training)
    for step in training.steps:
        followed = [advance(training, step, epoch, *state) for epoch in epochs]
        state = tuple(np.concatenate(part) for part in zip(*followed, strict=True))
    return state[0]


def runs_through(training, epochs):
    """R of every run (runs, p, 1 + n), where each epoch has a list of its own of equally likely visits."""
    state = begin(training)
    for step, equally_likely in zip(training.steps, epochs, strict=True):
        followed = [advance(training, step, visits, *state) for visits in equally_likely]
        state = tuple(np.concatenate(part) for part in zip(*followed, strict=True))
    return state[0]


def mean_iterate(training, runs):
    return np.mean(runs, axis=0) @ np.concatenate([[1.0], training.y])


def _risks_over_noise(runs, training, beta_star, covariance, noise):
    errors = runs @ np.concatenate([[1.0], training.X @ beta_star]) - beta_star
    of_noise = np.einsum("kin,ij,kjn->k", runs[..., 1:], covariance, runs[..., 1:], optimize=True)
    return np.einsum("ki,ij,kj->k", errors, covariance, errors, optimize=True) + noise**2 * of_noise


def expected_risk(training, runs, beta_star, covariance, noise):
    """Over orders and noise; and that of the mean iterate."""
    settings = (training, beta_star, covariance, noise)
    mean = _risks_over_noise(np.mean(runs, axis=0)[np.newaxis], *settings)
    return np.mean(_risks_over_noise(runs, *settings)), mean[0]


def expected_risk_given(training, runs, beta_star, covariance):
    """Over orders alone; and that of the mean iterate."""
    errors = runs @ np.concatenate([[1.0], training.y]) - beta_star
    mean = np.mean(errors, axis=0)
    each = np.einsum("ki,ij,kj->k", errors, covariance, errors, optimize=True)
    return np.mean(each), mean @ covariance @ mean
