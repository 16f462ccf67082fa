"""Modes of Z on features that double precision can barely tell apart."""

import numpy as np
import pytest

import reshuffle as rs


@pytest.mark.parametrize("ratio", [1e-4, 1e-8, 1e-11])
@pytest.mark.parametrize("scheme", [rs.FullBatch(), rs.RandomReshuffling(3), rs.WithReplacement(3)])
def test_a_badly_scaled_column_still_converges_to_the_solution(ratio, scheme):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    X[:, 2] *= ratio
    truth = np.array([1.0, -2.0, 3.0 / ratio, 4.0])
    problem = rs.LeastSquares(X, X @ truth)
    run = rs.descend(problem, scheme, step=0.1)
    limit = run.limit()
    assert limit.converges
    assert problem.rank == 4
    np.testing.assert_allclose(limit.parameters, truth, rtol=1e-3)
    rounding = 1e-15 * np.linalg.norm(X) * np.linalg.norm(truth)
    assert limit.training_loss < 100 * rounding**2
    # The slow mode moves at the rate step * ratio^2, invisible in the eigenvalues of Z itself.
    slow = run.iterate(1 / ratio**2)[2] if ratio > 1e-5 else run.iterate(10.0**15)[2]
    assert np.isfinite(slow)


def test_the_smallest_eigenvalue_of_ill_conditioned_features_is_the_square_of_the_singular_value():
    rng = np.random.default_rng(1)
    U, _ = np.linalg.qr(rng.standard_normal((40, 5)))
    V, _ = np.linalg.qr(rng.standard_normal((5, 5)))
    singular = np.array([1e-8, 1e-5, 1e-3, 0.5, 1.0])
    run = rs.descend(rs.LeastSquares((U * singular) @ V.T, np.ones(40)), rs.FullBatch(), step=1.0)
    np.testing.assert_allclose(run.epoch.rates, singular**2 / 40, rtol=1e-6)


def test_a_null_space_inside_the_row_space_is_found():
    # W_1 = W_2 = I and step 2: the two visits cancel, Z = W - (step/4)(W_1 W_2 + W_2 W_1) = 0.
    X = np.sqrt(2) * np.vstack([np.eye(2), np.eye(2)])
    run = rs.descend(rs.LeastSquares(X, np.ones(4)), rs.RandomReshuffling(2), step=2.0)
    assert run.frozen.dimension == 2
    np.testing.assert_allclose(run.iterate([0, 1, 7, np.inf]), 0, atol=1e-15)
    assert run.range_assumption.holds
