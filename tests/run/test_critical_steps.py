"""Critical steps: searched, of shuffled samples, by norms and in closed form; against exact ones and real runs."""

import math
import pickle
from itertools import permutations, product
from math import factorial, prod

import numpy as np
import pytest
import scipy.linalg
from benchmarks.step_coverage import rate_in_one_column
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import Polynomial

import reshuffle as rs
from reshuffle.problem import row_space
from reshuffle.run import critical_polynomials, critical_steps
from reshuffle.run.critical_steps import (
    STABLE,
    UNSTABLE,
    CriticalStep,
    Rate,
    first_crossing,
    largest_eigenvalue,
)
from tests.looped import for_all, pairwise
from tests.problems import case


@pytest.fixture
def searched(monkeypatch):
    """Every threshold is searched, whatever is known better."""
    monkeypatch.setattr(critical_steps, "_is_drawn", lambda *rest, **options: True)
    monkeypatch.setattr(critical_polynomials, "exact_step", lambda *rest: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "mean_square"),
    [
        *product([{}, {"momentum": 0.5}, {"penalty": 0.2}], [False, True]),
        ({"momentum": 0.4, "nesterov": True, "penalty": 0.1}, False),
    ],
    ids=repr,
)
def test_a_searched_step_covers_the_exact_one(request, recipe, mean_square):
    problem, scheme = rs.gaussian(12, 3, seed=1), rs.RandomReshuffling(batches=4)
    exact = rs.critical_step(problem, scheme, mean_square=mean_square, **recipe)
    assert (exact.error, exact.error_kind) == (0.0, "exact")
    request.getfixturevalue("searched")
    found = rs.critical_step(problem, scheme, mean_square=mean_square, **recipe)
    assert found.error_kind != "exact"
    assert abs(found - exact) <= found.error
    # With no more batches than blocks every draw of the mean is exact: only the search is left to be off.
    assert found.error < (0.25 if mean_square else 2e-3) * exact


@pytest.mark.slow
def test_shuffled_samples_have_thresholds_of_both_kinds():
    problem, scheme = rs.gaussian(30, 2, seed=0), rs.SampleReshuffling(batch_size=5)
    mean = rs.critical_step(problem, scheme, mean_square=False)
    square = rs.critical_step(problem, scheme, mean_square=True)
    assert 0 < square <= mean + mean.error
    assert isinstance(square, float)
    assert float(square) * 2 == 2 * square
    below, above = square - 2 * square.error, square + 2 * square.error
    for step, grows in ((below, False), (above, True)):
        epochs = np.array([0, 60])
        real = rs.simulate(
            rs.LeastSquares(problem.X, np.zeros(30), beta_star=np.zeros(2), noise=0.0), scheme, step=step,
            epochs=epochs, runs=400, start=np.ones(2), seed=1, progress=False,
        )  # fmt: skip
        assert (real.expected_risk.mean[-1] > real.expected_risk.mean[0]) == grows


@pytest.mark.slow
def test_a_mean_that_outlasts_its_runs_advises_the_mean_square():
    """At the critical step of the mean, real runs grow: the advice says so, and survives a pickle."""
    problem, scheme = rs.gaussian(60, 3, seed=2), rs.SampleReshuffling(batches=20)
    mean = rs.critical_step(problem, scheme, mean_square=False)
    assert "mean_square=True" in mean.advice
    assert mean.advice in repr(mean)
    assert pickle.loads(pickle.dumps(mean)).advice == mean.advice
    square = rs.critical_step(problem, scheme, mean_square=True)
    assert square + square.error < mean
    assert not square.advice
    at_rest = rs.LeastSquares(problem.X, np.zeros(60), beta_star=np.zeros(3), noise=0.0)
    real = rs.simulate(at_rest, scheme, step=float(mean), epochs=[0, 9], runs=40, start=np.ones(3), seed=1)
    assert real.expected_risk.mean[1] > 100 * real.expected_risk.mean[0]


@pytest.mark.slow
def test_many_fixed_batches_have_a_threshold():
    """In batches of a row along each of two axes, visits commute: every order has the product of all of them."""
    squares = np.random.default_rng(0).exponential(1, (25, 2))
    X = np.zeros((50, 2))
    X[0::2, 0], X[1::2, 1] = np.sqrt(2 * squares).T
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    problem = rs.LeastSquares(X @ turn, np.zeros(50))
    found = rs.critical_step(problem, rs.RandomReshuffling(batches=25), mean_square=False)
    assert 0 < found.error < 0.01 * found
    before, after = (
        np.abs(np.prod(1 - step * squares, axis=0)).max()
        for step in (found - found.error, found + found.error)
    )
    assert before < 1 < after
    assert all(
        np.abs(np.prod(1 - step * squares, axis=0)).max() < 1 for step in np.linspace(0.01, 0.999, 99) * found
    )
    assert (
        rs.critical_step(problem, rs.RandomReshuffling(batches=25), mean_square=True) <= found + found.error
    )


@pytest.mark.slow
def test_a_mean_that_draws_leave_open_has_an_error_that_says_so():
    """In 240,000 orders the rate at 1.45 is 0.02 +- 0.04, and not until 1.6 might it be one."""
    problem = rs.gaussian(50, 2, seed=0)
    found = rs.critical_step(problem, rs.RandomReshuffling(batches=25), mean_square=False)
    assert found + found.error > 1.6
    square = rs.critical_step(problem, rs.RandomReshuffling(batches=25), mean_square=True)
    assert square <= found + found.error
    assert 0 < square.error < 0.5 * square


def drawn(value, error):
    return Rate(value, value - error, value + error, "estimate")


def searched_crossing(rate, start):
    return first_crossing(rate, start, growth=1.1, precision=1e-3)


def rate_with_a_window(step):
    """Above one from 2 to 2.3, and from 5 on; below 0.6 outside of 1.8 to 2.5."""
    return 1.2 if 2 <= step <= 2.3 or step >= 5 else 0.7 if 1.8 <= step <= 2.5 else 0.3


def test_the_first_window_is_found_with_its_error():
    found = searched_crossing(lambda step: drawn(rate_with_a_window(step), 0.05), 0.1)
    assert abs(found - 2) <= found.error < 0.01


@pytest.mark.parametrize("number", [lambda step: step**8, lambda step: 0.2 * step / (1.2 - step)])
def test_a_rate_that_is_a_number_is_narrowed_in_few_evaluations(number):
    tried = []

    def rate(step):
        tried.append(step)
        value = number(step)
        return Rate(value, value, value)

    found = first_crossing(rate, 0.5, precision=1e-9)
    assert 0 <= 1 - found < 2e-9
    # Those below lie on the grid from the start to the first step beyond one.
    assert len(tried) - math.ceil(math.log(2) / math.log(1.02)) <= 7


def test_a_step_is_a_number_with_an_error():
    step = CriticalStep(0.5, 0.1, "estimate")
    assert repr(step) == "0.50 +- 0.10 (estimate)"
    assert f"{step:.3f}" == "0.500"
    assert math.isclose(step / 2, 0.25)
    again = pickle.loads(pickle.dumps(step))
    assert (again, again.error, again.error_kind) == (0.5, 0.1, "estimate")


def test_a_rate_that_stays_near_one_leaves_everything_open():
    flat, stable = drawn(1.0, 0.1), drawn(0.5, 0.0)
    assert searched_crossing(lambda step: flat if step > 1 else stable, 1.0).error == math.inf


def test_what_may_be_one_earlier_is_in_the_error():
    found = searched_crossing(lambda step: drawn(step, 0.1), 0.5)
    assert found == pytest.approx(1, rel=1e-2)
    assert 0.1 <= found.error < 0.13


def test_a_rate_that_rises_with_its_error_leaves_open_how_far():
    found = searched_crossing(lambda step: drawn(step**4, step**4), 0.5)
    assert found == pytest.approx(1, rel=5e-2)
    assert found.error == pytest.approx(found, rel=5e-2)
    assert found.error_kind == "estimate"


def test_an_exact_rate_is_bisected_from_any_start():
    found = first_crossing(lambda step: STABLE if step < 0.3 else UNSTABLE, 1.0, precision=1e-9)
    assert found == pytest.approx(0.3, rel=2e-9)
    assert (found.error, found.error_kind) == (0.0, "exact")
    assert first_crossing(lambda step: STABLE, 1.0, 7.0, precision=1e-9) == 7.0


def test_no_stable_step_is_an_error():
    with pytest.raises(ArithmeticError, match=r"no step between .* is stable up to rounding; try a smaller"):
        first_crossing(lambda step: UNSTABLE, 1.0, precision=1e-9)


def test_what_has_no_features_never_diverges():
    problem = rs.LeastSquares(np.zeros((40, 2)), np.zeros(40))
    assert rs.critical_step(problem, rs.SampleReshuffling(batches=8), mean_square=False) == math.inf


def mean_map_coefficients(X, partition):
    """A_i with E A(step) = sum_i step^i A_i, by enumerating ordered tuples of distinct batches."""
    W = [X[rows].T @ X[rows] / len(rows) for rows in partition]
    coefficients = [np.eye(X.shape[1])]
    for length in range(1, len(W) + 1):
        words = sum(
            np.linalg.multi_dot([*map(W.__getitem__, word), np.eye(len(W[0]))])
            for word in permutations(range(len(W)), length)
        )
        coefficients.append((-1) ** length * words / factorial(length))
    return coefficients


def crossings(X, partition):
    """All steps > 0 at which an eigenvalue of E A(step), on the row space of X, is 1 or -1."""
    V = scipy.linalg.orth(X.T)
    inside = [V.T @ matrix @ V for matrix in mean_map_coefficients(X, partition)]
    steps = []
    for target, polynomial in ((1, inside[1:]), (-1, [inside[0] + np.eye(V.shape[1]), *inside[1:]])):
        if target == 1:
            # E A - I is divisible by the step.
            polynomial = inside[1:]
        steps += list(real_positive_roots(polynomial))
    return np.sort(steps)


def real_positive_roots(polynomial):
    """Real positive s with det(sum_i s^i P_i) = 0, by a companion linearization."""
    degree, size = len(polynomial) - 1, len(polynomial[0])
    if degree == 0:
        return np.array([])
    left = np.eye(degree * size)
    left[-size:, -size:] = polynomial[-1]
    right = np.eye(degree * size, k=size)
    right[-size:] = -np.hstack(polynomial[:-1])
    roots = scipy.linalg.eigvals(right, left)
    roots = roots[np.isfinite(roots)]
    return roots.real[(np.abs(roots.imag) < 1e-7 * np.abs(roots)) & (roots.real > 1e-6)]


@settings(max_examples=40)
@given(st.integers(2, 8), st.integers(1, 6), st.integers(2, 4), st.integers(0, 10**6), st.booleans())
def test_the_critical_step_is_the_first_crossing(n, p, batches, seed, equal):
    tiny = case(max(n, batches), p, batches, seed=seed, equal=equal)
    critical = rs.critical_step(tiny.problem, tiny.scheme("reshuffling"), mean_square=False)
    every = crossings(tiny.problem.X, tiny.partition)
    assert np.abs(every / critical - 1).min() < 1e-6
    # Nothing is crossed before.
    assert every[0] > critical * (1 - 1e-6)


def test_a_mode_that_flips_for_ever_does_not_converge():
    run = rs.descend(rs.LeastSquares([[1.0]], [1.0]), rs.FullBatch(), step=2.0)
    assert not run.stability().converges
    assert run.stability().rate == 1.0
    np.testing.assert_array_equal(run.iterate([0, 1, 2, 3]).ravel(), [0, 2, 0, 2])


@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5}], ids=["plain", "momentum"])
def test_convergence_that_nobody_will_see_comes_with_advice(recipe):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3)) * [1.0, 1.0, 1e6]
    run = rs.descend(rs.LeastSquares(X, X[:, 0]), rs.RandomReshuffling(batches=2), 1e-13, **recipe)
    found = run.stability()
    assert found.converges
    assert "epochs; the columns of X differ in size by a factor of 1e+06: scale them" in found.advice
    assert found.advice in repr(found)
    scaled = rs.descend(
        rs.LeastSquares(X / [1.0, 1.0, 1e6], X[:, 0]), rs.RandomReshuffling(batches=2), 0.1, **recipe
    )
    assert scaled.stability().advice == ""
    assert "advice" not in repr(scaled.stability())


def test_how_long_a_factor_takes_is_told_where_the_rate_rounds_to_one():
    run = rs.descend(rs.LeastSquares([[1.0, 0.0], [0.0, 1e9]], [1.0, 1.0]), rs.FullBatch(), 1e-18)
    assert run.stability().rate == 1.0
    # The first column: step w = 1e-18 / 2 an epoch.
    assert "a factor 1/e takes about 2e+18 epochs; the columns of X differ" in run.stability().advice


@for_all("excess", [1e-2, 1e-5, 1e-8, -1e-2, -1e-5, -1e-8])
def test_a_mode_that_all_but_touches_one_is_followed_to_its_first_crossing(excess):
    """In one dimension visits commute: the rate is a product whose crossings are roots of a polynomial."""
    rows = np.array([2.0, 1.0, 2.0 + excess, 0.0])
    found = rs.critical_step(
        rs.LeastSquares(rows[:, np.newaxis], np.ones(4)), rs.RandomReshuffling(batches=4), mean_square=False
    )
    product = prod(Polynomial([1.0, -(row**2)]) for row in rows)
    crossings = np.concatenate([(product - 1).roots(), (product + 1).roots()])
    real = crossings[np.abs(crossings.imag) < 1e-12].real
    assert found == pytest.approx(min(real[real > 1e-6]), rel=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-30])
def test_a_mode_that_stands_still_at_one_step_alone(scale):
    """(1 - 4 step)^2 (1 - step) touches one at 3/4: there, and only there before 1.0888, nothing moves."""
    problem = rs.LeastSquares(scale * np.array([[2.0], [1.0], [2.0], [0.0]]), np.ones(4))
    found = rs.critical_step(problem, rs.RandomReshuffling(batches=4), mean_square=False)
    assert found * scale**2 == pytest.approx(0.75, rel=2e-9)


GRID = np.geomspace(0.02, 0.999, 60)
"""Shares of a critical step at which a run is to be stable."""


def is_first_end(rate, step, rel=1e-8):
    """Whether a rate is one at a step, and nowhere before."""
    return abs(rate(step) - 1) < rel * 1e3 and all(rate(share * step) < 1 for share in GRID)


def heavy_column(seed):
    """Squares of a column of 5 to 24 rows, of which a few may dominate, and a batch size."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 25))
    squares = [
        rng.standard_normal(n) ** 2, np.abs(rng.standard_t(1.5, n)), 0.02 * rng.uniform(0.5, 1.5, n),
        0.05 * rng.exponential(1, n),
    ][seed % 4]  # fmt: skip
    squares[: (0, 0, 2, 1)[seed % 4]] = rng.uniform(0.5, 10)
    return squares, int(rng.integers(1, max(2, n // 4)))


def column(squares):
    return rs.LeastSquares(np.sqrt(squares)[:, np.newaxis], np.zeros(len(squares)))


@for_all("first", range(0, 32, 4))
def test_one_column_is_exact(first):
    for seed in range(first, first + 4):
        squares, batch_size = heavy_column(seed)
        rate = rate_in_one_column(squares, -(-len(squares) // batch_size))
        found = rs.critical_step(
            column(squares), rs.SampleReshuffling(batch_size=batch_size), mean_square=False
        )
        assert found.error_kind == "exact"
        assert is_first_end(lambda step, rate=rate: rate(float(step)), found)


def test_many_fixed_batches_of_rank_one_do_the_same_in_every_order():
    squares = np.random.default_rng(4).exponential(1, 60)
    found = rs.critical_step(column(squares), rs.RandomReshuffling(batches=30), mean_square=False)
    pairs = squares.reshape(-1, 2).mean(axis=1)
    assert is_first_end(lambda step: abs(np.prod(1 - step * pairs)), found)
    assert rs.critical_step(column(squares), rs.RandomReshuffling(batches=30), mean_square=True) == found


RNG = np.random.default_rng(3)


def with_singular_values(n, p, values):
    left, _ = np.linalg.qr(RNG.standard_normal((n, len(values))))
    right, _ = np.linalg.qr(RNG.standard_normal((p, len(values))))
    return (left * values) @ right.T


MATRICES = {
    "gaussian": RNG.standard_normal((70, 90)),
    "tall": RNG.standard_normal((120, 60)),
    "rank one": np.outer(RNG.standard_normal(70), RNG.standard_normal(90)),
    "clustered": with_singular_values(80, 90, 1 + 1e-9 * RNG.random(60)),
    "all equal": with_singular_values(80, 90, np.ones(80)),
    "two at the top": with_singular_values(90, 80, np.r_[1.0, 1.0, 0.5 * RNG.random(60)]),
    "ill-conditioned": with_singular_values(80, 90, np.geomspace(1.0, 1e-15, 70)),
    "one large row": np.vstack([1e8 * np.ones(90), RNG.standard_normal((69, 90))]),
    "tiny": 1e-140 * RNG.standard_normal((70, 90)),
    "huge": 1e140 * RNG.standard_normal((70, 90)),
    "signs that cancel": np.outer(np.tile([1.0, -1.0], 40), np.tile([1.0, -1.0], 45)),
}


@for_all("name, small, equal", pairwise(list(MATRICES), [0, 1000], [True, False]))
def test_it_is_that_of_the_decomposition(monkeypatch, name, small, equal):
    monkeypatch.setattr(critical_steps, "_SMALL", small)
    X = MATRICES[name]
    weights = np.full(len(X), 0.25) if equal else 0.1 + RNG.random(len(X))
    scale = row_space.scale_of(X)
    expected = scipy.linalg.svdvals(np.sqrt(weights)[:, np.newaxis] * X / scale)[0] ** 2
    assert math.isclose(largest_eigenvalue(X, weights, scale), expected, rel_tol=1e-12)


def test_no_decomposition_is_made(monkeypatch):
    problem = rs.gaussian(500, 450, seed=0)

    def never(*arguments):
        raise AssertionError("the row space is not needed")

    monkeypatch.setattr(row_space, "reduce", never)
    norm = np.linalg.norm(problem.X, 2)
    assert math.isclose(rs.critical_step(problem, rs.FullBatch()), 2 * 500 / norm**2, rel_tol=1e-12)


def test_an_iteration_that_does_not_end_is_replaced(monkeypatch):
    monkeypatch.setattr(critical_steps, "_SMALL", 0)
    X, weights = MATRICES["gaussian"], np.ones(70)
    expected = largest_eigenvalue(X, weights, 1.0)

    def never(*arguments, **options):
        raise critical_steps.ArpackNoConvergence("none", np.zeros(0), np.zeros((0, 0)))

    monkeypatch.setattr(critical_steps, "eigsh", never)
    assert math.isclose(largest_eigenvalue(X, weights, 1.0), expected, rel_tol=1e-12)
