"""Fixed orders: maps that are not symmetric, for any number of epochs, and the average over one draw."""

import math

import numpy as np
import pytest

import reshuffle as rs
from tests.oracles.exact_runs import Scheme, floats, posed
from tests.problems import case


def test_a_defective_epoch():
    """At cos^2 = 4 (step - 1) / step^2 the two eigenvalues of two unit samples coincide: there is no eigenbasis."""
    step = 1.2
    cosine = math.sqrt(4 * (step - 1)) / step
    X = np.array([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]])
    run = rs.descend(rs.LeastSquares(X, [1.0, -2.0]), rs.Cyclic(batches=2), step)
    assert run.stability().rate == pytest.approx(0.2, abs=1e-7)
    epochs, exact = [1, 2, 5, 20], posed(X, [1.0, -2.0], Scheme("Cyclic", {"batches": 2}), step)
    np.testing.assert_allclose(run.iterate(epochs), floats(exact.iterates(epochs)), rtol=1e-13)


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
