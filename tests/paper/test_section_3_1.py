"""Section 3.1: training error dynamics."""

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import reshuffle as rs
from tests.problems import Case, case, cases, close


@given(cases(), st.integers(0, 20))
def test_theorem_batch_dynamics(tiny, epochs):
    run = tiny.run("reshuffling")
    X, n, batches = tiny.problem.X, tiny.problem.n, len(tiny.partition)
    assume(run.range_assumption.holds and tiny.step > 0)
    error, eta = tiny.start - tiny.problem.beta_star, tiny.problem.y - X @ tiny.problem.beta_star
    Z, modified = run.epoch.Z, run.epoch.modified_features
    power = np.linalg.matrix_power(np.eye(X.shape[1]) - batches * tiny.step * Z, epochs)
    inverse = np.linalg.pinv(Z, rcond=1e-11, hermitian=True)
    expected = power @ error + (np.eye(len(Z)) - power) @ inverse @ modified.T @ eta / n
    close(run.iterate(epochs) - tiny.problem.beta_star, expected, 1e-8)


def test_theorem_batch_dynamics_decomposition_into_frozen_and_learnable():
    tiny = case(6, 9, 3)
    run = tiny.run("reshuffling")
    error = tiny.start - tiny.problem.beta_star
    null = np.eye(9) - np.linalg.pinv(run.epoch.Z, rcond=1e-10, hermitian=True) @ run.epoch.Z
    close(run.frozen.project(error), null @ error)
    assert run.frozen.dimension == 3
    power = np.linalg.matrix_power(run.epoch.matrix, 7)
    close(power @ error, null @ error + power @ (error - null @ error))


def test_remark_with_replacement():
    tiny = case(9, 6, 3)
    W, X, n = tiny.problem.X.T @ tiny.problem.X / 9, tiny.problem.X, 9
    error, eta = tiny.start - tiny.problem.beta_star, tiny.problem.y - X @ tiny.problem.beta_star
    for epochs in (1, 2, 10):
        power = np.linalg.matrix_power(np.eye(6) - tiny.step * W, 3 * epochs)
        expected = power @ error + (np.eye(6) - power) @ np.linalg.pinv(W) @ X.T @ eta / n
        close(tiny.run("replacement").iterate(epochs) - tiny.problem.beta_star, expected, 1e-11)
        close(tiny.run("replacement").iterate(epochs), tiny.run("full").iterate(3 * epochs), 1e-11)


@pytest.mark.parametrize(("n", "p"), [(6, 10), (12, 5)])
def test_equation_min_norm_is_the_limit_of_full_batch_and_of_sampling_with_replacement(n, p):
    tiny = case(n, p, 3)
    X, y = tiny.problem.X, tiny.problem.y
    expected = tiny.start - np.linalg.pinv(X) @ X @ tiny.start + np.linalg.pinv(X) @ y
    for scheme in ("full", "replacement"):
        for step in (0.01, 0.05):
            run = rs.descend(tiny.problem, tiny.scheme(scheme), step, start=tiny.start)
            close(run.limit().parameters, expected, 1e-10)
    close(tiny.run("full").compare_limit().minimum_norm, expected, 1e-10)


@pytest.mark.parametrize(("n", "p"), [(6, 10), (12, 5)])
def test_corollary_batch_limit_vector(n, p):
    tiny = case(n, p, 3)
    run = tiny.run("reshuffling")
    Z, modified = run.epoch.Z, run.epoch.modified_features
    assert np.linalg.eigvalsh(Z).min() > -1e-12
    assert 3 * tiny.step < 2 / np.linalg.norm(Z, 2)
    inverse = np.linalg.pinv(modified.T @ tiny.problem.X, rcond=1e-10)
    null = np.eye(p) - np.linalg.pinv(Z, rcond=1e-10, hermitian=True) @ Z
    expected = null @ tiny.start + inverse @ modified.T @ tiny.problem.y
    assert run.limit().converges
    close(run.limit().parameters, expected, 1e-9)
    close(run.iterate(10**7), expected, 1e-9)


def test_the_limits_agree_when_overparameterized():
    tiny = case(6, 10, 3)
    comparison = tiny.run("reshuffling").compare_limit()
    assert comparison.regime == "overparameterized"
    assert comparison.distance < 1e-10
    # The trajectories still differ.
    assert np.linalg.norm(tiny.run("reshuffling").iterate(2) - tiny.run("replacement").iterate(2)) > 1e-4


def test_the_limits_differ_when_underparameterized_and_depend_on_the_step():
    tiny = case(12, 5, 3)
    X, y = tiny.problem.X, tiny.problem.y
    xi = y - X @ np.linalg.pinv(X) @ y
    distances = []
    for step in (0.02, 0.01, 0.005):
        run = rs.descend(tiny.problem, tiny.scheme("reshuffling"), step, start=tiny.start)
        comparison = run.compare_limit()
        modified = run.epoch.modified_features
        close(comparison.difference, np.linalg.solve(modified.T @ X, modified.T @ xi), 1e-10)
        assert comparison.regime == "underparameterized"
        distances.append(comparison.distance)
    order = np.polyfit(np.log([0.02, 0.01, 0.005]), np.log(distances), 1)[0]
    assert order == pytest.approx(1, abs=0.1)


def test_remark_gradient_flow():
    """Over a fixed time, B batches at step alpha / B follow the flow up to O(alpha), and so each other."""
    tiny = case(10, 6, 2)
    flow = rs.gradient_flow(tiny.problem, start=tiny.start)
    alphas = np.array([0.08, 0.04, 0.02, 0.01])
    for batches in (1, 2, 5):
        gaps = []
        for alpha in alphas:
            epochs = np.arange(0, round(4 / alpha) + 1)
            run = rs.descend(
                tiny.problem, rs.RandomReshuffling(batches=batches), alpha=alpha, start=tiny.start
            )
            gaps.append(np.abs(run.iterate(epochs) - flow.iterate(alpha * epochs)).max())
        order = np.polyfit(np.log(alphas), np.log(gaps), 1)[0]
        assert order == pytest.approx(1, abs=0.15), batches


def test_the_linear_scaling_rule_holds_to_leading_order_and_not_beyond():
    tiny = case(10, 6, 2)
    alphas, gaps = np.array([0.08, 0.04, 0.02]), []
    for alpha in alphas:
        epochs = round(2 / alpha)
        full = rs.descend(tiny.problem, rs.FullBatch(), alpha=alpha, start=tiny.start).iterate(epochs)
        mini = rs.descend(
            tiny.problem, rs.RandomReshuffling(batches=5), alpha=alpha, start=tiny.start
        ).iterate(epochs)
        gaps.append(np.linalg.norm(full - mini))
    assert np.polyfit(np.log(alphas), np.log(gaps), 1)[0] == pytest.approx(1, abs=0.15)
    assert gaps[0] > 1e-3


def test_remark_gd_diverge():
    """Appendix D.1 in small: gamma = 3/2 and alpha = 1/2, beyond 2 / (1 + sqrt(3/2))^2 = 0.404."""
    problem = rs.gaussian(200, 300, noise=1.0, seed=0)
    full = rs.descend(problem, rs.FullBatch(), alpha=0.5)
    two = rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=0.5)
    # Full batch takes the step alpha and two batches alpha/2; the remark's conditions have one step for both.
    assert full.epoch.step == 2 * two.epoch.step == 0.5
    # The footnote's limit, 2 / (1 + sqrt(p/n))^2, is that of 2 / |W|, not of the norm of X.
    norm = np.linalg.norm(problem.X.T @ problem.X / 200, 2)
    assert norm > 2 / 0.5
    assert 2 / norm == pytest.approx(2 / (1 + math.sqrt(1.5)) ** 2, rel=0.05)
    assert not full.stability().converges
    assert two.stability().converges
    assert full.risk(math.inf).total == math.inf
    assert math.isfinite(two.risk(math.inf).total)
    assert full.risk(100).total > 1e6 > two.risk(100).total
    assert (
        rs.critical_step(problem, rs.FullBatch())
        < 0.5
        < 2 * rs.critical_step(problem, rs.RandomReshuffling(batches=2), mean_square=False)
    )


@pytest.mark.slow
@given(st.integers(1, 10), st.integers(2, 10), st.integers(0, 10**6), st.floats(0.05, 0.999))
def test_proposition_twobatch_step_cond(p, n, seed, share):
    tiny = case(2 * (n // 2), p, 2, seed=seed)
    X = tiny.problem.X
    step = share / np.linalg.norm(X.T @ X / len(X), 2)
    run = rs.descend(tiny.problem, rs.RandomReshuffling(batches=2), step)
    assert run.stability().converges
    assert rs.critical_step(tiny.problem, rs.RandomReshuffling(batches=2), mean_square=False) > step


def test_proposition_twobatch_step_cond_has_no_converse():
    problem = rs.gaussian(40, 60, seed=0)
    norm = np.linalg.norm(problem.X.T @ problem.X / 40, 2)
    assert rs.descend(problem, rs.RandomReshuffling(batches=2), 1.1 / norm).stability().converges


@given(cases())
def test_the_range_assumption_is_checked_and_reported(tiny):
    run = tiny.run("reshuffling")
    A, N = tiny.mean_map("reshuffling")
    values, vectors = np.linalg.eigh(np.eye(len(A)) - A)
    null = vectors[:, np.abs(values) < 1e-11]
    outside = np.linalg.norm(null.T @ N)
    if tiny.step > 1e-6:
        assert run.range_assumption.holds == (outside < 1e-9)


def test_where_the_range_assumption_fails_the_noise_adds_up():
    """W_1 = 1, W_2 = 2 and step 3/2: Z = (W_1 + W_2)/2 - step W_1 W_2 / 2 = 0, but Xtilde is not."""
    X = np.array([[1.0], [math.sqrt(2)]])
    problem = rs.LeastSquares(X, [1.0, -1.0], beta_star=[0.0], noise=1.0)
    run = rs.descend(problem, rs.RandomReshuffling(batches=2), step=1.5)
    assert not run.range_assumption.holds
    assert run.range_assumption.violation > 0.1
    assert run.frozen.dimension == 1
    tiny = Case(problem, [[0], [1]], 1.5, np.zeros(1), np.eye(1))
    once = run.iterate(1)[0]
    assert abs(once) > 0.1
    for epochs in (1, 2, 5, 30):
        close(run.iterate(epochs), tiny.iterate("reshuffling", epochs))
        close(run.iterate(epochs), [epochs * once])
        assert float(run.risk(epochs).variance) == pytest.approx(epochs**2 * float(run.risk(1).variance))
    assert not run.stability().converges
    assert run.limit().risk.variance == math.inf
    assert np.isinf(run.limit().parameters).all()


def test_the_regime_is_that_of_the_rank():
    X = np.vstack([np.eye(3, 5), np.eye(1, 5)])
    run = rs.descend(rs.LeastSquares(X, np.ones(4)), rs.RandomReshuffling(batches=2), 0.1)
    assert run.compare_limit().regime == "underparameterized"
