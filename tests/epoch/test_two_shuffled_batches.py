"""Samples shuffled and cut in two: the recursion against all cuts, and what runs make of it."""

import itertools
import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch.moments import two_batches, two_shuffled_batches
from reshuffle.epoch.moments.two_shuffled_batches import TwoShuffledBatches
from reshuffle.run import expected_risk
from tests.problems import case

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


@pytest.mark.parametrize(
    "arguments", [{"batches": 2}, {"batch_size": 5}, {"batch_size": 3, "drop_last": True}]
)
def test_a_run_agrees_with_the_walk_over_all_cuts(arguments):
    tiny = case(8 if "batches" in arguments else 7, 3, 1, step=0.3)
    scheme = rs.SampleReshuffling(**arguments)
    run = rs.descend(tiny.problem, scheme, 0.3, start=tiny.start)
    epochs = [0, 1, 7, math.inf]
    walked = run.expected_risk(epochs)
    moment = two_batches.TwoBatchMoment(run._modes.epoch, tiny.problem.noise)
    found = expected_risk.of_reshuffling(run._modes, run.start, np.array(epochs), moment)
    np.testing.assert_allclose(found.total, walked.total, rtol=1e-10)
    exact = run.mean_square_stability()
    rate, gain = two_batches.radii(run._modes.epoch, 1e12)
    assert rate.estimate == pytest.approx(exact.rate, rel=1e-6)
    assert gain.estimate == pytest.approx(exact.gain, rel=1e-6)


@pytest.mark.slow
def test_many_samples_in_two_batches_are_exact():
    problem = rs.gaussian(300, 4, noise=0.5, seed=0)
    run = rs.descend(problem, rs.SampleReshuffling(2), step=0.4)
    assert run.second_moment_choice([10, math.inf]).taken == "two batches"
    found = run.expected_risk([1, 10, math.inf])
    assert found.error_kind in ("exact", "estimate")
    real = rs.simulate(
        problem,
        rs.SampleReshuffling(2),
        step=0.4,
        epochs=[1, 10],
        runs=2000,
        fresh_noise=True,
        progress=False,
    )
    assert (np.abs(real.spread.mean - found.spread[:2]) <= 4 * real.spread.standard_error).all()
    square = run.mean_square_stability()
    assert square.error_kind == "exact"
    assert square.converges
    given = run.second_moment_choice(10, given_responses=True)
    assert given.taken == "centred maps"
