"""Slow, obviously right references: the linearization on all subsets, free expressions, finite matrices."""

import itertools
import math

import numpy as np

import reshuffle as rs
from reshuffle import free


def marchenko_pastur(aspect, count=2000):
    """Points and weights of the law of W without its atom, by Gauss-Chebyshev quadrature of its density."""
    low, high = (1 - math.sqrt(aspect)) ** 2, (1 + math.sqrt(aspect)) ** 2
    angle = (np.arange(count) + 0.5) * math.pi / count
    x = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
    return x, ((high - low) / 2 * np.sin(angle)) ** 2 / (2 * math.pi * aspect * x) * math.pi / count


def expression(aspect, alpha, batches, covariance=None):
    """The expressions alpha Z, alpha M and Sigma of free variables, with Sigma^(1/2) one more of them if given."""
    law = free.MarchenkoPastur(batches * aspect, alpha / batches)
    laws = [law] * batches
    if covariance is not None:
        points, weights = np.unique(covariance, return_counts=True)
        laws.append(free.Discrete(np.sqrt(points), weights / weights.sum()))
    variables = list(free.variables(*laws))
    root = variables.pop() if covariance is not None else None
    w = [root * x * root if root is not None else x for x in variables]
    one = w[0] * 0 + 1
    total = one * 0
    for order in itertools.permutations(range(batches)):
        product = one
        for b in order:
            product = product * (one - w[b])
        total = total + product / math.factorial(batches)
    return one - total, _noise(w, one), one if root is None else root * root


def _noise(w, one):
    """The noise alpha M = sum_b Pi_b w_b Pi_b, Pi_b the mean over orders of what comes before b."""
    batches = len(w)
    result = one * 0
    for b in range(batches):
        modifier = one * 0
        for order in itertools.permutations(range(batches)):
            product = one
            for c in order[: order.index(b)]:
                product = product * (one - w[c])
            modifier = modifier + product / math.factorial(batches)
        result = result + modifier.adjoint() * w[b] * modifier
    return result


def finite_risk(problem, batches, alpha, epochs):
    """Bias (frozen part aside) and variance of Core at noise and signal 1, the signal's direction averaged out."""
    run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=alpha)
    modes = run.epoch.modes
    decay = np.power.outer(1 - run.epoch.decay_rates, np.asarray(epochs, dtype=float)).T
    sigma = problem.covariance.gram(problem.row_space.lift(modes.vectors))
    bias = decay**2 @ np.diagonal(sigma) / problem.p
    return bias, run.risk(epochs).variance / problem.noise**2
