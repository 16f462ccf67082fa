"""Fixed dimension: the eigenvalue map, and convergence of exact runs to it."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.asymptotics import shrinkage
from tests.looped import for_all


@given(st.integers(1, 64), st.floats(1e-6, 5.0), st.just(0.0) | st.floats(1e-290, 2.0))
def test_the_closed_form_is_exact(batches, alpha, eigenvalue):
    with mpmath.workdps(800):
        exact = (1 - (1 - mpmath.mpf(alpha) * mpmath.mpf(eigenvalue) / batches) ** batches) / mpmath.mpf(
            alpha
        )
    scale = (
        max(1.0, abs(1 - alpha * eigenvalue / batches) ** batches) / alpha if alpha * eigenvalue > 0.5 else 0
    )
    assert float(shrinkage(batches, alpha)(eigenvalue)) == pytest.approx(
        float(exact), rel=2e-14, abs=1e-15 * scale
    )


@for_all("batches", [1, 2, 3, 4, 7])
@for_all("alpha", [1e-8, 0.3, 2.0])
def test_it_is_the_polynomial_of_its_coefficients(batches, alpha):
    eigenvalues = np.array([0.0, 1e-9, 0.01, 0.7, 1.0, 1.9])
    powers = eigenvalues[:, np.newaxis] ** np.arange(1, batches + 1)
    map_ = shrinkage(batches, alpha)
    np.testing.assert_allclose(map_(eigenvalues), powers @ map_.coefficients, rtol=1e-13)


def test_many_batches_approach_gradient_flow():
    eigenvalues = np.linspace(0.1, 3, 5)
    assert shrinkage(10**6, 0.5)(eigenvalues) == pytest.approx(-np.expm1(-0.5 * eigenvalues) / 0.5, rel=1e-5)


@for_all("batches", [1, 2, 4])
def test_full_rank_trajectories_converge_at_the_rate_of_the_covariances(batches):
    errors, epochs = [], np.array([1, 3, 9])
    for n in (400, 6400):
        distances = []
        for seed in range(16):
            problem = rs.gaussian(n, 4, covariance=[0.5, 1.0, 1.5, 2.0], noise=1.0, seed=seed)
            exact = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=0.8)
            left, singular, right = np.linalg.svd(problem.X, full_matrices=False)
            decay = (1 - 0.8 * shrinkage(batches, 0.8)(singular**2 / n)) ** epochs[:, np.newaxis]
            limit = (1 - decay) * (left.T @ problem.y) / singular @ right
            distances.append(np.abs(exact.iterate(epochs) - limit).max())
        errors.append(np.median(distances))
    if batches == 1:
        assert max(errors) < 1e-12
    else:
        # The distances of the W_b from W are n^(-1/2) and sum to zero: what is left is 1/n.
        assert 9 < errors[0] / errors[1] < 28
