"""How runs spread around their mean: against the enumeration of all sequences of orders, and sampled runs."""

import math
from itertools import permutations

import mpmath
import numpy as np
import pytest

import reshuffle as rs
from reshuffle.run import covariance
from tests.looped import for_all
from tests.problems import case


def test_runs_that_hardly_differ_keep_their_digits():
    """At step 1e-7 the spread is 1e-14 of the parameters, and its square beyond what second moments know."""
    tiny = case(6, 3, 3, step=1e-7, noise=0.0)
    exact = in_many_digits(tiny)
    found = rs.descend(
        tiny.problem, rs.RandomReshuffling(batches=tiny.partition), 1e-7, start=tiny.start
    ).covariance(1)
    np.testing.assert_allclose(found.matrix, exact, rtol=1e-6, atol=1e-6 * np.abs(exact).max())


def in_many_digits(tiny):
    """The covariance after one epoch of three batches in 60 digits."""
    with mpmath.workdps(60):
        ends = []
        for order in permutations(range(3)):
            beta = mpmath.matrix(tiny.start.tolist())
            for batch in order:
                X = mpmath.matrix(tiny.problem.X[tiny.partition[batch]].tolist())
                y = mpmath.matrix(tiny.problem.y[tiny.partition[batch]].tolist())
                beta = beta - mpmath.mpf(tiny.step) / 2 * (X.T * (X * beta - y))
            ends.append(beta)
        mean = sum(ends[1:], ends[0]) / len(ends)
        total = sum(
            ((end - mean) * (end - mean).T for end in ends[1:]), (ends[0] - mean) * (ends[0] - mean).T
        )
        return np.array((total / len(ends)).tolist(), dtype=float)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5}, {"penalty": 0.2}], ids=str)
def test_the_limit_of_an_order_that_stays_is_that_of_many_epochs(recipe):
    """Of orders that are drawn afresh, the enumeration of tests/schemes/test_designs.py has the limit."""
    tiny = case(9, 4, 3)
    run = rs.descend(tiny.problem, rs.ShuffleOnce(batches=3), 0.1, **recipe)
    found = run.covariance([[3000, math.inf]])
    assert found.matrix.shape == (1, 2, 4, 4)
    size = np.abs(found.matrix[0, 1]).max()
    assert size > 1e-6
    np.testing.assert_allclose(found.matrix[0, 0], found.matrix[0, 1], rtol=0, atol=1e-11 * size)
    assert (found.error <= 1e-11 * size).all()
    for given_responses in (False, True):
        end = run.expected_risk([3000, math.inf], given_responses=given_responses)
        assert end.total[1] == pytest.approx(float(end.total[0]), rel=1e-10)
        assert end.spread[1] == pytest.approx(float(end.spread[0]), rel=1e-7)
        assert end.error[1] <= 1e-12 * end.total[1]


@for_all(
    "scheme", [rs.RandomReshuffling(batches=2), rs.ShuffleOnce(batches=3), rs.SampleSubsets(batch_size=2)]
)
def test_features_of_zero_and_no_epochs_at_all(scheme):
    nothing = rs.LeastSquares(np.zeros((4, 3)), np.ones(4))
    found = rs.descend(nothing, scheme, 0.1, start=np.ones(3), penalty=0.1).covariance([[0, 2, math.inf]])
    assert found.matrix.shape == (1, 3, 3, 3)
    assert found.factor.shape == (1, 3, 3, 0)
    assert not found.matrix.any()
    assert not found.deviation(np.eye(3)).any()
    empty = rs.descend(rs.gaussian(6, 3), scheme, 0.1).covariance([])
    assert empty.matrix.shape == empty.factor.shape == (0, 3, 3)
    assert empty.deviation(np.eye(3)).shape == empty.deviation_error(np.eye(3)).shape == (0, 3)


def test_divergence_is_an_answer_and_infinite_as_a_whole():
    X = np.column_stack([np.random.default_rng(0).standard_normal((6, 2)), np.zeros(6)])
    run = rs.descend(rs.LeastSquares(X, np.ones(6)), rs.RandomReshuffling(batches=3), step=30.0)
    for epochs in (10**6, math.inf):
        found = run.covariance(epochs)
        assert np.isinf(found.matrix).all()
        assert np.isinf(found.trace)
        assert found.error == 0
        assert np.isinf(found.factor).all()
        assert np.isinf(found.standard_deviations).all()
        _, deviation = run.predict([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], epochs, return_std=True)
        assert np.isinf(deviation).all()
    assert np.isfinite(run.covariance(1).matrix).all()


def test_simulated_deviations_are_known_to_five_percent_or_as_well_as_asked():
    """Within 99% bounds of the exact ones, which are about three standard errors; half the rtol, half the error."""
    problem, rows = rs.gaussian(16, 4, noise=0.5, seed=7), np.eye(4)
    scheme = rs.RandomReshuffling(batches=8)
    exact = rs.descend(problem, scheme, 0.1).covariance([1, 6]).deviation(rows)
    sizes = []
    for rtol in (0.1, 5e-3, 2.5e-3):
        found = rs.descend(problem, scheme, 0.1, method="sampling", rtol=rtol, seed=1).covariance([1, 6])
        off = found.deviation_error(rows)
        assert (np.abs(found.deviation(rows) - exact) <= off).all()
        sizes.append((off / exact).mean())
    assert 0.08 < sizes[0] == sizes[1] < 0.25
    assert sizes[2] == pytest.approx(sizes[1] / 2, rel=0.3)


def test_epochs_of_many_rows_and_few_features_are_drawn_once_for_all_epochs(monkeypatch):
    """One column of equal rows with targets +-t, one a visit: S_k = V (1 - a^2nk) / (1 - a^2n), a = 1 - step h."""
    n, curvature, target, step = 400, 0.5, 2.0, 0.08
    X, y = np.full((n, 1), np.sqrt(curvature)), np.where(np.arange(n) % 2, target, -target)
    epochs, a = np.array([1, 3, 20]), 1 - step * curvature
    powers = a ** np.arange(n)
    spread = n / (n - 1) * np.sum(powers**2) - np.sum(powers) ** 2 / (n - 1)
    exact = step**2 * target**2 * curvature * spread * (1 - a ** (2 * n * epochs)) / (1 - a ** (2 * n))
    monkeypatch.setattr(covariance, "simulated_states", None)
    run = rs.descend(rs.LeastSquares(X, y), rs.SampleReshuffling(batch_size=1), step=step, seed=3)
    found = run.covariance(epochs)
    assert found.error_kind == "confidence 99%"
    assert (np.abs(found.trace - exact) <= found.error).all()
    assert (found.error < 0.5 * exact).all()
    deviations, errors = found.deviation([[2.0]])[:, 0], found.deviation_error([[2.0]])[:, 0]
    assert (np.abs(deviations - 2 * np.sqrt(exact)) <= errors).all()
    assert (errors < 0.3 * deviations).all()


def test_runs_that_diverge_before_their_mean_are_warned_of():
    problem, scheme = rs.gaussian(60, 3, seed=2), rs.SampleReshuffling(batches=20)
    square = float(rs.critical_step(problem, scheme, mean_square=True))
    with pytest.warns(rs.AccuracyWarning, match="mean_square=True"):
        rs.descend(problem, scheme, step=1.3 * square).covariance(30)
    assert rs.descend(problem, scheme, step=0.5 * square).covariance(30).trace > 0


def test_more_memory_than_there_is_is_refused_beforehand(monkeypatch):
    monkeypatch.setattr("reshuffle._budget.available_bytes", lambda: 1e5)
    run = rs.descend(rs.gaussian(40, 20, seed=0), rs.RandomReshuffling(batches=2), 0.1)
    assert run.covariance([1, 2]).matrix.shape == (2, 20, 20)
    with pytest.raises(rs.BudgetError, match=r"needs .* GiB .*fewer epochs"):
        run.covariance(np.arange(50))


def test_wide_problems_need_no_square_matrix():
    problem = rs.gaussian(8, 200_000, noise=0.1, seed=0)
    found = rs.descend(problem, rs.RandomReshuffling(batches=2), alpha=1e-5).covariance(3)
    assert found.factor.shape == (200_000, 8)
    assert found.standard_deviations.shape == (200_000,)
    np.testing.assert_allclose(found.trace, np.square(found.standard_deviations).sum(), rtol=1e-10)


def test_shuffled_samples_are_simulated():
    problem = rs.gaussian(40, 4, noise=0.5, seed=7)
    run = rs.descend(rs.LeastSquares(problem.X, problem.y), rs.SampleReshuffling(batch_size=8), 0.1, rtol=0.1)
    found = run.covariance(3)
    assert 0 < found.error < 0.5 * np.linalg.norm(found.matrix)
    with pytest.raises(ValueError, match="epochs must be finite"):
        run.covariance(math.inf)
