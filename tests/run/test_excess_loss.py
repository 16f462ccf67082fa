"""The training loss above that of least squares, against plain differences and simulated runs."""

import math

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all

EPOCHS = np.array([[0.0, 1.0], [7.0, math.inf]])
TALL = rs.LeastSquares(*(lambda p: (p.X, p.y))(rs.gaussian(20, 4, noise=1.0, seed=1)))
WIDE = rs.LeastSquares(*(lambda p: (p.X, p.y))(rs.gaussian(6, 9, noise=1.0, seed=2)))


def loss(problem, parameters):
    return np.square(parameters @ problem.X.T - problem.y).sum(axis=-1) / (2 * problem.n)


@for_all("problem", [TALL, WIDE])
@for_all("momentum", [0.0, 0.4])
def test_of_the_mean_it_is_the_difference_of_two_losses(problem, momentum):
    start = np.linspace(-1, 1, problem.p)
    run = rs.descend(problem, rs.RandomReshuffling(batches=2), 0.05, start=start, momentum=momentum)
    least = loss(problem, np.linalg.lstsq(problem.X, problem.y, rcond=None)[0])
    plain = loss(problem, run.iterate(EPOCHS)) - least
    np.testing.assert_allclose(run.excess_training_loss(EPOCHS), plain, rtol=1e-10, atol=1e-13)
    assert run.excess_training_loss(3).shape == ()


def test_next_to_the_optimum_no_digits_are_lost():
    """A difference of losses of size one cannot tell 1e-25 from nothing."""
    run = rs.descend(TALL, rs.FullBatch(), 0.5)
    when = np.array([60.0, 70.0])
    excess = run.excess_training_loss(when)
    assert (excess > 0).all()
    slowest = run.stability().rate ** 2
    assert excess[0] < 1e-9
    assert excess[1] / excess[0] == pytest.approx(slowest**10, rel=0.1)


def test_of_a_run_against_simulated_ones():
    """With least squares for the truth and X'X / (2n) for Sigma, the risk of a trained run is its excess loss."""
    scheme, when = rs.SampleReshuffling(batch_size=5), [1, 8]
    best = np.linalg.lstsq(TALL.X, TALL.y, rcond=None)[0]
    declared = rs.LeastSquares(TALL.X, TALL.y, best, TALL.X.T @ TALL.X / (2 * TALL.n), noise=0.0)
    simulated = rs.simulate(declared, scheme, 0.4, epochs=when, runs=4000, seed=5).expected_risk
    # Spreads to one per cent.
    run = rs.descend(TALL, scheme, 0.4, rtol=1e-3)
    found = run.excess_training_loss(when, of_run=True)
    assert (np.abs(found - simulated.mean) < 4 * simulated.standard_error).all()
    assert (found > run.excess_training_loss(when) + 5 * simulated.standard_error).all()


def test_what_diverges_is_infinite():
    run = rs.descend(TALL, rs.RandomReshuffling(batches=2), 60.0)
    assert np.isinf(run.excess_training_loss(math.inf))
    assert np.isinf(run.excess_training_loss([5, math.inf], of_run=True)[1])
