"""Gradient flow against the matrix exponential."""

import math

import numpy as np
import pytest
import scipy.linalg

import reshuffle as rs
from tests.problems import case, close


@pytest.mark.parametrize(("n", "p"), [(9, 5), (5, 9)])
def test_the_flow_is_the_matrix_exponential(n, p):
    tiny = case(n, p, 1)
    X, y, beta_star = tiny.problem.X, tiny.problem.y, tiny.problem.beta_star
    W = X.T @ X / n
    flow = rs.gradient_flow(tiny.problem, start=tiny.start)
    for time in (0.0, 0.3, 7.0):
        decay = scipy.linalg.expm(-time * W)
        noise_map = (np.eye(p) - decay) @ np.linalg.pinv(W) @ X.T / n
        close(flow.iterate(time), decay @ tiny.start + noise_map @ y)
        bias = decay @ (tiny.start - beta_star)
        expected = bias @ tiny.covariance @ bias + 0.25 * np.trace(noise_map.T @ tiny.covariance @ noise_map)
        assert float(flow.risk(time).total) == pytest.approx(expected, rel=1e-10)


def test_the_flow_ends_where_full_batch_descent_ends():
    tiny = case(9, 12, 1, step=0.01)
    flow = rs.gradient_flow(tiny.problem, start=tiny.start)
    close(flow.limit().parameters, tiny.run("full").limit().parameters)
    assert flow.limit().converges
    close(flow.iterate(1e200), flow.iterate(math.inf))


def test_negative_times_are_refused():
    flow = rs.gradient_flow(case(5, 3, 1).problem)
    with pytest.raises(ValueError, match=r"times must be numbers >= 0 or math.inf, but one is -1.0"):
        flow.iterate([-1.0])
