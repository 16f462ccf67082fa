"""Fixed dimension: the eigenvalue map, and convergence of exact runs to it."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.asymptotics import fixed_dimension, shrinkage


@pytest.mark.parametrize("batches", [1, 2, 3, 4, 7, 16, 64])
@pytest.mark.parametrize("alpha", [1e-8, 0.3, 2.0, 10.0])
def test_polynomial_and_closed_form_agree_to_rounding(batches, alpha):
    map_ = shrinkage(batches, alpha)
    eigenvalues = np.array([0.0, 1e-9, 0.01, 0.7, 1.0, 1.9])
    assert map_(eigenvalues) == pytest.approx(
        map_.polynomial(eigenvalues), rel=1e-14, abs=1e-14 / alpha * 1e-3
    )


@given(st.integers(1, 64), st.floats(1e-6, 5.0), st.floats(0.0, 2.0))
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


def test_many_batches_approach_gradient_flow():
    eigenvalues = np.linspace(0.1, 3, 5)
    assert shrinkage(10**6, 0.5)(eigenvalues) == pytest.approx(-np.expm1(-0.5 * eigenvalues) / 0.5, rel=1e-5)


@pytest.mark.parametrize("batches", [1, 2, 4])
def test_full_rank_trajectories_converge_at_the_rate_of_the_covariances(batches):
    errors = []
    for n in (400, 6400):
        distances = []
        for seed in range(16):
            problem = rs.gaussian(n, 4, covariance=[0.5, 1.0, 1.5, 2.0], noise=1.0, seed=seed)
            exact = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=0.8)
            limit = fixed_dimension(problem, batches, 0.8)
            distances.append(np.abs(exact.iterate([1, 3, 9]) - limit.iterate([1, 3, 9])).max())
        errors.append(np.median(distances))
    if batches == 1:
        assert max(errors) < 1e-12
    else:
        # The distances of the W_b from W are n^(-1/2) and sum to zero: what is left is 1/n.
        assert 9 < errors[0] / errors[1] < 28


def test_the_spectrum_of_Z_converges_at_the_rate_of_the_covariances():
    errors = []
    for n in (400, 6400):
        gaps = []
        for seed in range(16):
            problem = rs.gaussian(n, 4, covariance=[0.5, 1.0, 1.5, 2.0], seed=seed)
            Z = rs.descend(problem, rs.RandomReshuffling(batches=3), alpha=0.8).epoch.Z
            gaps.append(np.abs(Z - np.diag(shrinkage(3, 0.8)([0.5, 1.0, 1.5, 2.0]))).max())
        errors.append(np.median(gaps))
    assert 2.5 < errors[0] / errors[1] < 6.5


def test_the_risk_is_the_printed_sum_with_its_square():
    problem = rs.gaussian(300, 3, noise=0.7, seed=1)
    limit = fixed_dimension(problem, batches=3, alpha=0.9)
    eigenvalues, vectors = np.linalg.eigh(problem.X.T @ problem.X / 300)
    start = vectors.T @ (0 - problem.beta_star)
    for k in (0, 1, 5, 40):
        factor = (1 - 0.9 * eigenvalues / 3) ** (3 * k)
        bias = np.sum(factor**2 * start**2)
        variance = 0.49 / 300 * np.sum((1 - factor) ** 2 / eigenvalues)
        assert limit.risk(k).total == pytest.approx(bias + variance, rel=1e-12)


def test_infinitely_many_epochs_end_at_least_squares():
    problem = rs.gaussian(50, 4, seed=2)
    limit = fixed_dimension(problem, batches=5, alpha=0.5, start=np.ones(4))
    assert limit.iterate(math.inf) == pytest.approx(np.linalg.lstsq(problem.X, problem.y, rcond=None)[0])
    assert limit.iterate(0) == pytest.approx(np.ones(4))


def test_what_diverges_is_infinite():
    problem = rs.gaussian(50, 2, seed=0)
    assert np.isinf(fixed_dimension(problem, batches=1, alpha=5.0).iterate(math.inf)).all()
    assert shrinkage(64, 100.0).polynomial(1e6) == -math.inf


def test_it_refuses_a_problem_without_full_rank():
    with pytest.raises(ValueError, match=r"problem must have rank p = 8 .* but its rank is 5"):
        fixed_dimension(rs.gaussian(5, 8), batches=2, alpha=0.1)
