"""Rows of random scales: published edges of a compound free Poisson law, finite problems, closed forms."""

import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import asymptotics, free
from reshuffle.asymptotics import BatchLaw, batch_spectrum, learning_curve
from tests.asymptotics.oracles import finite_risk

SCALES = np.array([0.5, 1.0, 2.0])
SHARES = np.array([0.5, 0.3, 0.2])
LAW = free.Discrete(SCALES, SHARES)


def finite_problem(n, p, batches, covariance, seed):
    """A problem whose batches have the same number of rows of each scale."""
    scales = np.tile(np.repeat(SCALES, np.round(SHARES * n / batches).astype(int)), batches)
    drawn = rs.gaussian(n, p, covariance=covariance, noise=0.5, seed=seed)
    X = scales[:, np.newaxis] * drawn.X
    y = X @ drawn.beta_star + 0.5 * np.random.default_rng(seed).standard_normal(n)
    return rs.LeastSquares(X, y, beta_star=drawn.beta_star, covariance=covariance, noise=0.5)


def test_the_spectrum_of_one_batch_has_the_published_edges_of_a_compound_free_poisson_law():
    # Of X X'/p, ten times as many columns as rows, with squared scales 2 and 5.5.
    law = batch_spectrum(10.0, 0.1, 1, row_scales=free.Discrete(np.sqrt([2.0, 5.5]), [0.75, 0.25]))
    edges = 1.0055181597, 3.1256892314, 4.1627237799, 7.5953545433
    assert np.ravel(law.support) == pytest.approx(edges, abs=1e-10)
    assert law.atoms == ((0.0, pytest.approx(0.9)),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aspect", "alpha", "batches", "eigenvalues"),
    [(0.5, 0.3, 2, (1.0,)), (1.5, 0.2, 3, (1.0,)), (0.5, 0.1, 4, (1.0, 4.0)), (1.5, 0.05, 1, (1.0, 4.0))],
)
def test_curves_are_those_of_finite_problems(aspect, alpha, batches, eigenvalues):
    n = 480
    p = round(aspect * n)
    covariance, epochs = np.repeat(eigenvalues, p // len(eigenvalues)), [1, 5, 20, 100]
    found = learning_curve(aspect, alpha, batches, covariance=eigenvalues, row_scales=LAW).risk(epochs)
    drawn = [
        finite_risk(finite_problem(n, p, batches, covariance, seed), batches, alpha, epochs)
        for seed in range(4)
    ]
    bias, variance = np.mean(drawn, axis=0)
    total = float(np.mean(eigenvalues))
    assert found.bias == pytest.approx(bias, abs=0.005 * total)
    assert found.variance == pytest.approx(variance, rel=0.02)


@pytest.mark.parametrize("aspect", [0.5, 1.5])
def test_the_critical_alpha_is_where_the_end_of_the_spectrum_is_two(aspect):
    alpha = asymptotics.critical_alpha(aspect, 3, row_scales=LAW)
    assert BatchLaw(aspect, alpha, 3, row_scales=LAW).ends[1] == pytest.approx(2.0, abs=1e-9)
    # Below that of rows that have the same mean square.
    assert alpha < asymptotics.critical_alpha(aspect, 3, covariance=float(SHARES @ SCALES**2))


def test_rows_of_one_scale_are_those_of_a_larger_covariance():
    epochs = [1, 10, 100, math.inf]
    scaled = learning_curve(0.5, 0.1, 3, row_scales=2.0).risk(epochs)
    larger = learning_curve(0.5, 0.1, 3, covariance=4.0).risk(epochs)
    assert scaled.variance == pytest.approx(larger.variance / 4, rel=1e-10)
    assert scaled.bias == pytest.approx(larger.bias / 4, rel=1e-10)


def test_the_minimum_norm_solution_weighs_rows_by_their_inverse_squares():
    curve = learning_curve(3.0, 0.1, 3, row_scales=LAW)
    expected = float(SHARES @ SCALES**-2.0) / (3.0 - 1)
    assert curve.limit().variance == pytest.approx(expected, rel=1e-12)
    assert curve.risk(1e5).variance == pytest.approx(expected, rel=1e-9)
