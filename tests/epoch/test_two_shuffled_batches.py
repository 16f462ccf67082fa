"""Samples shuffled and cut in two: the exact recursion against all cuts, and centred maps against it."""

import itertools

import numpy as np
import pytest

import reshuffle as rs
from tests.oracles import two_shuffled_batches
from tests.oracles.two_shuffled_batches import TwoShuffledBatches

CUTS = [(2, (1, 1)), (3, (2, 1)), (5, (3, 2)), (6, (3, 3)), (6, (2, 3)), (7, (4, 3))]


def after_all_cuts(X, sizes, divisors, step, second, cross, noise):
    """E e e' after an epoch over every order of the samples."""
    n, rank = X.shape
    total, ways = np.zeros((rank, rank)), 0
    for order in itertools.permutations(range(n)):
        A, N = np.eye(rank), np.zeros((rank, n))
        for first, size, divisor in ((0, sizes[0], divisors[0]), (sizes[0], sizes[1], divisors[1])):
            batch = list(order[first : first + size])
            visit = np.eye(rank) - step / divisor * X[batch].T @ X[batch]
            A, N = visit @ A, visit @ N
            N[:, batch] += step / divisor * X[batch].T
        total += A @ second @ A.T + A @ cross @ N.T + N @ cross.T @ A.T + noise**2 * N @ N.T
        ways += 1
    return total / ways


@pytest.mark.parametrize(("n", "sizes"), CUTS)
@pytest.mark.parametrize("noise", [0.0, 0.7])
@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_an_epoch_is_the_mean_over_all_cuts(monkeypatch, n, sizes, noise, chunk):
    monkeypatch.setattr(two_shuffled_batches, "_CHUNK", chunk)
    rng = np.random.default_rng(n)
    X, divisors, root = rng.standard_normal((n, 2)), (sizes[0], sizes[1] + 0.5), rng.standard_normal((2, 2))
    second, cross = root @ root.T, noise * rng.standard_normal((2, n))
    expected = after_all_cuts(X, sizes, divisors, 0.7, second, cross, noise)
    found = TwoShuffledBatches(X, sizes, divisors, 0.7, noise)
    np.testing.assert_allclose(second + found.change(second, cross), expected, atol=1e-12)
    if not noise:
        np.testing.assert_allclose(second + found.change(second), expected, atol=1e-12)


def exact_spreads(problem, step, sizes, epochs):
    """E |e - E e|^2 over the cuts, from zero, by the recursion of E e e' and E e eta'."""
    X, noise, n = problem.X, problem.noise, problem.n
    c, once = [step / m for m in sizes], TwoShuffledBatches(problem.X, sizes, sizes, step, problem.noise)
    S, norms = X.T @ X, np.square(X).sum(axis=1)
    pairs = once.pairs
    twice = S @ S - X.T @ (norms[:, np.newaxis] * X)
    A = np.eye(problem.p) - (c[0] * sizes[0] + c[1] * sizes[1]) / n * S + c[0] * c[1] * pairs * twice
    alone = (c[0] * sizes[0] + c[1] * sizes[1]) / n * X.T
    N = alone - c[0] * c[1] * pairs * (S @ X.T - norms * X.T)
    mean, cross, found = -np.asarray(problem.beta_star), np.zeros((problem.p, n)), []
    second = np.outer(mean, mean)
    for epoch in range(1, max(epochs) + 1):
        second = second + once.change(second, cross)
        mean, cross = A @ mean, A @ cross + noise**2 * N
        if epoch in epochs:
            found.append(np.trace(second) - mean @ mean - np.square(cross).sum() / noise**2)
    return np.array(found)


@pytest.mark.parametrize("arguments", [{"batches": 2}, {"batch_size": 36}])
def test_centred_maps_cover_the_exact_recursion(arguments):
    problem, step, epochs = rs.gaussian(60, 4, noise=0.5, seed=0), 0.4, [1, 3, 12]
    run = rs.descend(problem, rs.SampleReshuffling(**arguments), step=step)
    assert run.second_moment_choice(epochs).taken == "centred maps"
    sizes = (arguments.get("batch_size", 30), 60 - arguments.get("batch_size", 30))
    exact, found = exact_spreads(problem, step, sizes, epochs), run.expected_risk(epochs)
    assert (np.abs(found.spread - exact) <= found.error).all()
    assert (found.error <= 0.1 * exact).all()
    once, square = TwoShuffledBatches(problem.X, sizes, sizes, step), run.mean_square_stability()
    matrix, rate = np.eye(4), 0.0
    for _ in range(300):
        matrix = matrix + once.change(matrix)
        rate, matrix = np.trace(matrix), matrix / np.trace(matrix)
    assert abs(square.rate - rate) <= square.error < 0.02
