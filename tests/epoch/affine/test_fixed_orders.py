"""Fixed orders: maps that are not symmetric, for any number of epochs, and the average over one draw."""

import math

import mpmath
import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all
from tests.problems import case


def exact_iterate(problem, partition, step, start, epochs):
    """The iterate of a fixed order in 60 digits, by powers of the affine map of an epoch."""
    with mpmath.workdps(60):
        p = problem.p
        A, b = mpmath.eye(p), mpmath.zeros(p, 1)
        for rows in partition:
            X, y = mpmath.matrix(problem.X[rows].tolist()), mpmath.matrix(problem.y[rows].tolist())
            visit = mpmath.eye(p) - mpmath.mpf(step) / len(rows) * (X.T * X)
            A, b = visit * A, visit * b + mpmath.mpf(step) / len(rows) * (X.T * y)
        joint = mpmath.zeros(p + 1)
        joint[:p, :p], joint[:p, p], joint[p, p] = A, b, 1
        power = joint ** int(epochs)
        end = power[:p, :p] * mpmath.matrix(start.tolist()) + power[:p, p]
        return np.array([float(entry) for entry in end])


@for_all("epochs", [1, 7, 1000, 10**6, 10**9])
@for_all("scales", [(1.0, 1.0, 1.0), (1.0, 0.1, 1e-3)])
def test_cyclic_descent_in_many_digits(epochs, scales):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((7, 3)) * scales
    problem = rs.LeastSquares(X, rng.standard_normal(7))
    scheme, start = rs.Cyclic(batch_size=3), np.ones(3)
    run = rs.descend(problem, scheme, 0.2, start=start)
    expected = exact_iterate(problem, [p.tolist() for p in scheme.partition(7)], 0.2, start, epochs)
    # The slowest mode is known as well as least squares knows it: to eps times the condition number of X'X.
    condition = np.linalg.cond(X) ** 2
    np.testing.assert_allclose(run.iterate(epochs), expected, rtol=1e-14 * condition, atol=1e-13)


def test_a_defective_epoch():
    """At cos^2 = 4 (step - 1) / step^2 the two eigenvalues of two unit samples coincide: there is no eigenbasis."""
    step = 1.2
    cosine = math.sqrt(4 * (step - 1)) / step
    X = np.array([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]])
    problem, start = rs.LeastSquares(X, [1.0, -2.0]), np.array([3.0, 1.0])
    run = rs.descend(problem, rs.Cyclic(batches=2), step, start=start)
    assert run.stability().rate == pytest.approx(0.2, abs=1e-7)
    for epochs in (1, 2, 5, 20):
        expected = exact_iterate(problem, [[0], [1]], step, start, epochs)
        np.testing.assert_allclose(run.iterate(epochs), expected, rtol=1e-13)


def test_divergence_is_an_answer():
    tiny = case(8, 3, 3)
    run = rs.descend(tiny.problem, rs.Cyclic(batches=tiny.partition), 50.0)
    assert not run.stability().converges
    assert run.stability().rate > 1
    assert np.isinf(run.iterate([10**6, math.inf])).all()
    assert np.isinf(run.risk([10**9, math.inf]).total).all()
    assert np.isinf(run.training_loss(math.inf))
    assert np.isfinite(run.risk(1).total)
    assert np.isinf(run.expected_risk(math.inf).total)
    assert run.best_epoch().epoch == 0


def test_sampled_orders_carry_an_error_that_covers_the_truth():
    tiny = case(10, 4, 5, step=0.25)
    every = rs.descend(tiny.problem, rs.ShuffleOnce(batches=tiny.partition), 0.25, start=tiny.start)
    some = rs.descend(
        tiny.problem, rs.ShuffleOnce(batches=tiny.partition, draws=40, seed=1), 0.25, start=tiny.start
    )
    epochs = [0, 1, 3, 30, math.inf]
    assert (every.risk(epochs).error == 0).all()
    for exact, found in (
        (every.risk(epochs), some.risk(epochs)),
        (every.expected_risk(epochs), some.expected_risk(epochs)),
        (every.expected_risk(epochs, given_responses=True), some.expected_risk(epochs, given_responses=True)),
    ):
        assert (np.abs(found.total - exact.total) <= found.error + 1e-12).all()
        assert (found.error[1:] > 0).all()
        assert (found.error < 0.3 * exact.total).all()
    distance = np.linalg.norm(some.iterate(epochs) - every.iterate(epochs), axis=-1)
    assert (distance <= some.iterate_error(epochs) + 1e-12).all()
    assert some.limit().error == some.iterate_error(math.inf)
    many = rs.ShuffleOnce(batch_size=1)
    assert many.samples_orders(10)
    assert len(many.timelines(10)) == 256


def test_best_epoch_of_a_fixed_order_is_the_best_of_all():
    tiny = case(20, 12, 4, step=0.1, noise=2.0, covariance="identity")
    run = rs.descend(tiny.problem, rs.Cyclic(batches=tiny.partition), 0.1)
    risks = run.risk(np.arange(3000)).total
    assert run.best_epoch().epoch == int(np.argmin(risks))
    assert run.best_epoch().risk == pytest.approx(float(risks.min()), rel=1e-12)
    assert run.best_epoch().error == 0
    scheduled = rs.descend(tiny.problem, rs.Cyclic(batches=tiny.partition), step=[0.1] * 5)
    assert scheduled.best_epoch().epoch == int(np.argmin(risks[:6]))


def test_a_penalty_may_diverge_outside_the_row_space_if_anything_starts_there():
    tiny = case(3, 5, 2, covariance="identity")
    for start in (np.zeros(5), tiny.start):
        run = rs.descend(tiny.problem, rs.Cyclic(batches=tiny.partition), 0.001, penalty=3000.0, start=start)
        assert not run.stability().converges
        assert np.isfinite(run.risk(1).total)
        assert np.isinf(run.risk(math.inf).total)
        assert (np.abs(run.frozen.project(tiny.start)) == 0).all()
        assert np.isfinite(run.iterate(1)).all()
