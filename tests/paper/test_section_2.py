"""Section 2: the model."""

import numpy as np
import pytest

import reshuffle as rs
from tests.problems import case, close


def test_equation_batch_gd_iter_is_a_gradient_step_on_the_batch_loss():
    tiny = case(8, 5, 4, step=0.1)
    rows = tiny.partition[1]
    X, y = tiny.problem.X[rows], tiny.problem.y[rows]

    def loss(beta):
        return 4 / (2 * 8) * np.sum((y - X @ beta) ** 2)

    numerical = np.array(
        [(loss(tiny.start + 1e-6 * e) - loss(tiny.start - 1e-6 * e)) / 2e-6 for e in np.eye(5)]
    )
    once = rs.descend(rs.LeastSquares(X, y), rs.FullBatch(), 0.1, start=tiny.start).iterate(1)
    np.testing.assert_allclose(once, tiny.start - 0.1 * numerical, atol=1e-8)


def test_equation_batch_gd_avg_is_the_mean_over_all_orders():
    tiny = case(8, 5, 4)
    A, N = tiny.affine_maps("reshuffling")
    assert len(A) == 24
    close(tiny.run("reshuffling").iterate(1), (A @ tiny.start + N @ tiny.problem.y).mean(axis=0))


def test_one_batch_is_full_batch_descent():
    tiny = case(8, 5, 1)
    one = rs.descend(tiny.problem, rs.RandomReshuffling(batches=1), 0.1, start=tiny.start)
    full = rs.descend(tiny.problem, rs.FullBatch(), 0.1, start=tiny.start)
    close(one.iterate([1, 5, 50]), full.iterate([1, 5, 50]))


def test_equation_gen_error_is_the_excess_error_on_a_new_sample():
    tiny = case(8, 5, 2, noise=0.0)
    run = tiny.run("reshuffling")
    new = np.random.default_rng(0).multivariate_normal(np.zeros(5), tiny.covariance, size=400_000)
    errors = (new @ (run.iterate(3) - tiny.problem.beta_star)) ** 2
    standard_error = errors.std() / np.sqrt(len(errors))
    assert float(run.risk(3).total) == pytest.approx(errors.mean(), abs=4 * standard_error)
