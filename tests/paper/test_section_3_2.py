"""Section 3.2: generalization error dynamics."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from tests.looped import for_all
from tests.problems import case, close


def printed_formula(tiny, epochs, with_cross):
    """Theorem batch_generr_exact as printed, with pseudoinverses; optionally with the missing cross term."""
    run = tiny.run("reshuffling")
    Z, modified, sigma = run.epoch.Z, run.epoch.modified_features, tiny.covariance
    n, p = tiny.problem.X.shape
    inverse = np.linalg.pinv(Z, rcond=1e-10, hermitian=True)
    null = np.eye(p) - inverse @ Z
    error = tiny.start - tiny.problem.beta_star
    stuck, power = null @ error, np.linalg.matrix_power(run.epoch.matrix, epochs)
    moving = power @ (error - stuck)
    learned = np.eye(p) - power
    variance = np.trace(learned @ sigma @ learned @ inverse @ (modified.T @ modified / n) @ inverse)
    total = stuck @ sigma @ stuck + moving @ sigma @ moving + tiny.problem.noise**2 / n * variance
    return total + 2 * stuck @ sigma @ moving if with_cross else total


@for_all("n, p, covariance", [(12, 5, "dense"), (6, 9, "dense"), (6, 9, "identity")])
@for_all("epochs", [0, 1, 4, 30])
def test_theorem_batch_generr_exact(n, p, covariance, epochs):
    tiny = case(n, p, 3, covariance=covariance)
    expected = tiny.true_risk("reshuffling", epochs)
    risk = tiny.run("reshuffling").risk(epochs)
    assert float(risk.total) == pytest.approx(expected, rel=1e-10)
    assert printed_formula(tiny, epochs, with_cross=True) == pytest.approx(expected, rel=1e-8)
    # As printed the theorem holds when nothing is frozen or Sigma is a multiple of the identity.
    if p < n or covariance == "identity":
        assert printed_formula(tiny, epochs, with_cross=False) == pytest.approx(expected, rel=1e-8)


def test_theorem_batch_generr_exact_needs_the_cross_term():
    tiny = case(6, 9, 2, seed=1)
    true = tiny.true_risk("reshuffling", 3)
    printed = printed_formula(tiny, 3, with_cross=False)
    assert abs(printed - true) > 0.05 * true
    assert float(tiny.run("reshuffling").risk(3).total) == pytest.approx(true, rel=1e-11)
    assert float(tiny.run("reshuffling").risk(3).cross) == pytest.approx(true - printed, rel=1e-8)


@pytest.mark.parametrize(("n", "p"), [(12, 5), (6, 9)])
def test_corollary_batch_limit_risk(n, p):
    tiny = case(n, p, 3, covariance="identity")
    run = tiny.run("reshuffling")
    Z, modified = run.epoch.Z, run.epoch.modified_features
    inverse = np.linalg.pinv(Z, rcond=1e-10, hermitian=True)
    stuck = run.frozen.project(tiny.start - tiny.problem.beta_star)
    expected = stuck @ stuck + 0.25 / n * np.trace(inverse @ (modified.T @ modified / n) @ inverse)
    assert run.stability().rate < 1
    assert float(run.limit().risk.total) == pytest.approx(expected, rel=1e-8)
    assert float(run.risk(10**8).total) == pytest.approx(expected, rel=1e-8)
    assert run.limit().risk.bias == 0


@given(st.integers(2, 10), st.integers(1, 8), st.integers(0, 10**6), st.floats(0.01, 1.0), st.booleans())
def test_proposition_twobatch_generr_Zonly(n, p, seed, share, equal):
    tiny = case(2 * (n // 2), p, 2, seed=seed, equal=equal)
    W = sum(tiny.W) / 2
    run = rs.descend(tiny.problem, tiny.scheme("reshuffling"), share / np.linalg.norm(W, 2), start=tiny.start)
    epochs = [0, 1, 2, 10, 1000, math.inf]
    interval, exact = run.risk_interval(epochs), run.risk(epochs).total
    rounding = 1e-9 * (1 + np.abs(exact))
    assert (interval.lower <= exact + rounding).all()
    assert (exact <= interval.upper + rounding).all()


def test_proposition_twobatch_generr_Zonly_is_the_printed_interval_for_equal_batches():
    tiny = case(10, 6, 2, step=0.05)
    run = tiny.run("reshuffling")
    norm = np.linalg.norm(tiny.problem.X.T @ tiny.problem.X / 10, 2)
    Z, sigma = run.epoch.Z, tiny.covariance
    learned = np.eye(6) - np.linalg.matrix_power(run.epoch.matrix, 4)
    spread = 0.25 / 10 * np.trace(learned @ sigma @ learned @ np.linalg.inv(Z))
    risk, interval = run.risk(4), run.risk_interval(4)
    rest = float(risk.frozen + risk.bias + risk.cross)
    assert float(interval.upper) == pytest.approx(rest + (1 + 0.05 * norm) * spread, rel=1e-9)
    assert float(interval.lower) == pytest.approx(rest + (1 - 0.05 * norm) * spread, rel=1e-9)


def test_proposition_twobatch_generr_Zonly_shrinks_linearly_with_the_step():
    tiny = case(12, 6, 2)
    steps, widths = np.array([0.02, 0.01, 0.005]), []
    for step in steps:
        interval = rs.descend(tiny.problem, tiny.scheme("reshuffling"), step).risk_interval(math.inf)
        widths.append(float(interval.upper - interval.lower))
    assert np.polyfit(np.log(steps), np.log(widths), 1)[0] == pytest.approx(1, abs=0.05)


def equal_batches(size, step):
    """Two batches with W_1 = W_2 = size I, noise one and nothing to learn."""
    X = math.sqrt(2 * size) * np.vstack([np.eye(2), np.eye(2)])
    problem = rs.LeastSquares(X, np.zeros(4), beta_star=[0, 0], noise=1.0)
    return rs.descend(problem, rs.RandomReshuffling(batches=2), step=step)


@pytest.mark.parametrize("c", [0.2, 0.5])
def test_proposition_twobatch_generr_Zonly_is_not_tight_where_it_is_said_to_be(c):
    """W_1 = W_2 = c^2 I, step 2/c: Z = c^2 (1 - c) I, and for c <= 1/2 the step satisfies the assumption."""
    run = equal_batches(c**2, 2 / c)
    close(run.epoch.Z, c**2 * (1 - c) * np.eye(2))
    # Xtilde'Xtilde/n = c^2 (1 - c)^2 I; two parameters and four rows.
    assert run.risk(math.inf).total == pytest.approx(1 / (2 * c**2), rel=1e-12)
    bound = (1 + 2 * c) / (2 * c**2 * (1 - c))
    assert run.risk_interval(math.inf).upper == pytest.approx(bound, rel=1e-12)
    assert bound >= 1.74 * float(run.risk(math.inf).total)


@for_all("c", [0.7, 1.0, 3.0])
def test_proposition_twobatch_generr_Zonly_is_tight_in_the_proof_only_where_everything_vanishes(c):
    """W_1 = W_2 = c I, step 2/c, as the proof has it: the equality is 0 = 0, and the step is too large."""
    run = equal_batches(c, 2 / c)
    close(run.epoch.Z, np.zeros((2, 2)))
    assert run.risk(5).variance == pytest.approx(0, abs=1e-20)
    with pytest.raises(
        ValueError, match=rf"risk_interval needs step <= 1 / \|W\| = {1 / c:.6g}, but step is {2 / c:.6g}"
    ):
        run.risk_interval(5)


def test_closing_remark_the_mean_iterate_bounds_the_expected_risk_from_below():
    """Over all sequences of orders and the noise, E |run|^2 = risk of the mean iterate + spread."""
    tiny = case(6, 4, 3, covariance="identity", step=0.3)
    maps = list(zip(*tiny.affine_maps("reshuffling"), strict=True))
    error = tiny.start - tiny.problem.beta_star
    runs = [(A2 @ A1 @ error, A2 @ N1 + N2) for A1, N1 in maps for A2, N2 in maps]
    expected = np.mean([e @ e + 0.25 * np.sum(N**2) for e, N in runs])
    mean_error, mean_noise = np.mean([e for e, _ in runs], axis=0), np.mean([N for _, N in runs], axis=0)
    spread = np.mean([np.sum((e - mean_error) ** 2) + 0.25 * np.sum((N - mean_noise) ** 2) for e, N in runs])
    exact = float(tiny.run("reshuffling").risk(2).total)
    assert exact + spread == pytest.approx(expected, rel=1e-12)
    assert spread > 1e-4
    found = tiny.run("reshuffling").expected_risk(2)
    close([found.total, found.mean, found.spread], [expected, exact, spread])


def test_risk_interval_is_for_two_batches():
    with pytest.raises(ValueError, match=r"risk_interval holds for RandomReshuffling with 2 batches"):
        case(8, 4, 3).run("reshuffling").risk_interval(1)
