"""Modes of Z on features that double precision can barely tell apart."""

import numpy as np
import pytest
from flint import acb_mat, arb, arb_mat, ctx

import reshuffle as rs
from tests.looped import for_all


@for_all("size", [4, 40])
@for_all("step", [1e3, 1e6])
def test_slow_modes_beside_growing_ones_are_not_frozen(size, step):
    """Two batches: Z = (W_1 + W_2) / 2 - step / 4 (W_1 W_2 + W_2 W_1), in 600 bits."""
    rng = np.random.default_rng(3)
    singular = np.logspace(0, -10, size)
    turn, _ = np.linalg.qr(rng.standard_normal((size, size)))
    X = (turn * singular) @ np.linalg.qr(rng.standard_normal((size, size)))[0].T
    run = rs.descend(rs.LeastSquares(X, np.ones(size)), rs.RandomReshuffling(batches=2), step=step)
    assert run.frozen.dimension == 0
    assert (run.epoch.decay_rates < 0).any()
    with ctx.workprec(600):
        exact = arb_mat(size, size, X.ravel().tolist())
        tops, bottoms = range(size // 2), range(size // 2, size)
        first, second = (
            arb_mat(len(rows), size, [exact[i, j] for i in rows for j in range(size)])
            for rows in (tops, bottoms)
        )
        one, other = (rows.transpose() * rows * (arb(2) / size) for rows in (first, second))
        product = one * other
        lost = (one + other) * step - (product + product.transpose()) * (arb(step) ** 2 / 2)
        expected = sorted(float(x.real) for x in acb_mat(lost).eig(algorithm="approx"))
    # The smallest singular value, 1e-10, is known to six digits, and so is its square.
    np.testing.assert_allclose(run.epoch.decay_rates, expected, rtol=1e-6)


def test_a_null_space_inside_the_row_space_is_found():
    # W_1 = W_2 = I and step 2: the two visits cancel, Z = W - (step/4)(W_1 W_2 + W_2 W_1) = 0.
    X = np.sqrt(2) * np.vstack([np.eye(2), np.eye(2)])
    run = rs.descend(rs.LeastSquares(X, np.ones(4)), rs.RandomReshuffling(batches=2), step=2.0)
    assert run.frozen.dimension == 2
    np.testing.assert_allclose(run.iterate([0, 1, 7, np.inf]), 0, atol=1e-15)
    assert run.range_assumption.holds


@for_all("points, degree", [(16, 5), (16, 8), (16, 11), (30, 14)])
@for_all("batches", [1, 2, 3])
def test_the_limit_on_polynomial_features_is_as_accurate_as_least_squares(points, degree, batches):
    X = np.vander(np.linspace(0, 1, points), degree)
    truth = np.ones(degree)
    condition = np.linalg.cond(X)
    scheme = rs.RandomReshuffling(batches=batches)
    problem = rs.LeastSquares(X, X @ truth, beta_star=truth, noise=0.0)
    run = rs.descend(problem, scheme, 0.2 * rs.critical_step(problem, scheme, mean_square=False), start=truth)
    allowed = 1e-14 * condition * np.sqrt(degree)
    assert np.linalg.norm(run.limit().parameters - truth) < 20 * allowed
    assert run.compare_limit().distance < 20 * allowed
    assert run.limit().converges


def test_a_mode_that_grows_too_slowly_to_be_resolved_still_diverges():
    X = np.array([[0.43, 7e-12], [-1.18, -6.6e-12]])
    problem, scheme = rs.LeastSquares(X, [1.0, 2.0]), rs.RandomReshuffling(batches=2)
    critical = rs.critical_step(problem, scheme, mean_square=False)
    for factor in (1 + 1e-7, 1.5, 3):
        run = rs.descend(problem, scheme, factor * critical)
        assert not run.converges
        assert np.isinf(run.limit().parameters).any()
    assert rs.descend(problem, scheme, (1 - 1e-7) * critical).converges


def test_a_row_of_zeros_beside_rows_that_are_never_visited_is_no_direction():
    """It was left over by rounding, with a decay rate of 1e-30, and counted as learned in the limit."""
    rng = np.random.default_rng(12)
    X, y, start = rng.standard_normal((12, 20)), rng.standard_normal(12), rng.standard_normal(20)
    X[4], y[4] = 0.0, 0.0
    run = rs.descend(
        rs.LeastSquares(X, y), rs.RandomReshuffling(batch_size=7, drop_last=True), step=0.1, start=start
    )
    np.testing.assert_allclose(run.iterate(np.inf), run.iterate(10**6), atol=1e-10)
    assert run.frozen.dimension == 20 - 6


def test_a_small_violation_of_the_range_assumption_is_a_violation():
    # W_1 = 1, W_2 = w: Z vanishes at step (1 + w) / w, and Xtilde is smaller the nearer w is to 1.
    for gap in (1e-1, 1e-3, 1e-5):
        w = 1 + gap
        X = np.array([[1.0], [np.sqrt(w)]])
        run = rs.descend(rs.LeastSquares(X, [1.0, -1.0]), rs.RandomReshuffling(batches=2), step=(1 + w) / w)
        assert not run.range_assumption.holds
        assert run.range_assumption.violation == pytest.approx(gap / 2, rel=0.5)
