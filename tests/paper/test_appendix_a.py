"""Appendix A: full-batch gradient descent."""

import math

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all
from tests.problems import case, close


@for_all("n, p", [(9, 5), (5, 9)])
@for_all("epochs", [0, 1, 7])
def test_lemma_gd_dynamics(n, p, epochs):
    tiny = case(n, p, 1, step=0.1)
    X = tiny.problem.X
    W, error = X.T @ X / n, tiny.start - tiny.problem.beta_star
    eta = tiny.problem.y - X @ tiny.problem.beta_star
    power = np.linalg.matrix_power(np.eye(p) - 0.1 * W, epochs)
    expected = power @ error + (np.eye(p) - power) @ np.linalg.pinv(W) @ X.T @ eta / n
    close(tiny.run("full").iterate(epochs) - tiny.problem.beta_star, expected, 1e-10)


@pytest.mark.parametrize(("n", "p"), [(9, 5), (5, 9)])
def test_lemma_gd_generr(n, p):
    tiny = case(n, p, 1, step=0.1)
    X, sigma = tiny.problem.X, tiny.covariance
    W, error = X.T @ X / n, tiny.start - tiny.problem.beta_star
    null = np.eye(p) - np.linalg.pinv(X) @ X
    for epochs in (0, 1, 7):
        power = np.linalg.matrix_power(np.eye(p) - 0.1 * W, epochs)
        stuck, moving, learned = null @ error, power @ (error - null @ error), np.eye(p) - power
        expected = {
            "frozen": stuck @ sigma @ stuck,
            "bias": moving @ sigma @ moving,
            # The term that the lemma lacks.
            "cross": 2 * stuck @ sigma @ moving,
            "variance": 0.25 / n * np.trace(learned @ sigma @ learned @ np.linalg.pinv(W)),
        }
        risk = tiny.run("full").risk(epochs)
        for part, value in expected.items():
            assert float(getattr(risk, part)) == pytest.approx(value, rel=1e-9, abs=1e-12), part
        assert float(risk.total) == pytest.approx(tiny.true_risk("full", epochs), rel=1e-10)


@pytest.mark.parametrize(("n", "p"), [(9, 5), (5, 9)])
def test_corollary_gd_limit_risk(n, p):
    tiny = case(n, p, 1, step=0.1)
    X, sigma = tiny.problem.X, tiny.covariance
    W = X.T @ X / n
    assert np.linalg.norm(W, 2) < 2 / 0.1
    null = np.eye(p) - np.linalg.pinv(X) @ X
    stuck = null @ (tiny.start - tiny.problem.beta_star)
    limit = tiny.run("full").limit()
    close(limit.parameters, null @ tiny.start + np.linalg.pinv(X) @ tiny.problem.y, 1e-10)
    expected = stuck @ sigma @ stuck + 0.25 / n * np.trace(sigma @ np.linalg.pinv(W))
    assert float(limit.risk.total) == pytest.approx(expected, rel=1e-9)


def test_corollary_gd_limit_risk_needs_a_small_step():
    problem = rs.gaussian(20, 10, seed=0)
    critical = rs.critical_step(problem, rs.FullBatch())
    assert math.isfinite(rs.descend(problem, rs.FullBatch(), 0.999 * critical).limit().risk.total)
    assert rs.descend(problem, rs.FullBatch(), 1.001 * critical).limit().risk.total == math.inf
