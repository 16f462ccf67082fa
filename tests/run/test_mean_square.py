"""Mean-square stability against dense Kronecker products, closed forms, and critical steps of every recipe."""

import math
from functools import partial

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.run import mean_square
from tests.oracles.every_order import Design, Enumeration, cut, epochs_reshuffled, radius
from tests.problems import Case, close


def two_samples(degrees):
    angle = math.radians(degrees)
    X = [[1.0, 0.0], [math.cos(angle), math.sin(angle)]]
    return rs.LeastSquares(X, [0.0, 0.0], beta_star=[1.0, 1.0], noise=0.0)


def all_orders(X, batches, step, **recipe):
    """The spectral radius of the mean of A (x) A over all orders of the batches."""
    tiny = Case(rs.LeastSquares(X, np.zeros(len(X))), None, step, np.zeros(X.shape[1]), None)
    design = Design(len(X), None, [epochs_reshuffled(cut(len(X), batches))])
    return radius(Enumeration(tiny, design, recipe).squared)


def test_the_mean_converges_where_the_mean_square_does_not():
    """Two unit samples 50 degrees apart: visits beyond step 2 expand, but their orders cancel in the mean."""
    problem, scheme = two_samples(50), rs.RandomReshuffling(batches=2)
    run = rs.descend(problem, scheme, 2.5)
    assert run.stability().converges
    assert run.stability().rate == pytest.approx(0.611, abs=1e-3)
    square = run.mean_square_stability()
    assert not square.converges
    assert square.rate == pytest.approx(2.5787, abs=1e-4)
    assert square.gain > 1
    assert rs.critical_step(problem, scheme, mean_square=False) == pytest.approx(2.8986, abs=1e-4)
    # At step 2 every visit is a reflection, which keeps all lengths.
    assert rs.critical_step(problem, scheme, mean_square=True) == pytest.approx(2.0, rel=2e-6)


@pytest.mark.parametrize(
    ("scheme", "recipe"),
    [(rs.RandomReshuffling(batches=2), {}), (rs.SampleWithReplacement(batch_size=1), {"momentum": 0.3})],
)
def test_the_critical_step_is_that_of_single_runs_unless_the_mean_is_asked_for(scheme, recipe):
    problem = rs.gaussian(6, 2, seed=1)
    found = rs.critical_step(problem, scheme, **recipe)
    assert found == rs.critical_step(problem, scheme, mean_square=True, **recipe)
    assert found < rs.critical_step(problem, scheme, mean_square=False, **recipe)
    below, above = (rs.descend(problem, scheme, found * (1 + by), **recipe) for by in (-1e-3, 1e-3))
    assert below.mean_square_stability().converges
    assert not above.mean_square_stability().converges


def test_with_replacement_in_one_dimension():
    """The means of (1 - s) and (1 - 9s), 1 - 5s, and of their squares, 1 - 10 s + 41 s^2."""
    problem, scheme = rs.LeastSquares([[1.0], [3.0]], [0.0, 0.0]), rs.WithReplacement(batches=2)
    assert rs.critical_step(problem, scheme, mean_square=False) == pytest.approx(0.4)
    assert rs.critical_step(problem, scheme, mean_square=True) == pytest.approx(10 / 41, rel=2e-6)
    samples = rs.SampleWithReplacement(batch_size=1)
    assert rs.critical_step(problem, samples, mean_square=True) == pytest.approx(10 / 41, rel=2e-6)
    # Two rows at a time: E G^2 = 1 - 10 s + (25 + 16 / 2) s^2.
    pairs = rs.SampleWithReplacement(batch_size=2)
    assert rs.critical_step(problem, pairs, mean_square=True) == pytest.approx(10 / 33, rel=2e-6)


def test_a_search_among_many_courses_is_refused_with_its_price():
    problem = rs.gaussian(2000, 20, noise=0.5, seed=0)
    with pytest.raises(rs.BudgetError, match=r"critical step of 200 batches takes .* about .*; try fewer"):
        rs.critical_step(problem, rs.ShuffleOnce(batches=200), momentum=0.5, mean_square=False)


@pytest.mark.slow
def test_fourteen_batches_are_exact():
    problem, scheme = rs.gaussian(140, 6, noise=0.5, seed=0), rs.RandomReshuffling(batch_size=10)
    found = rs.descend(problem, scheme, 0.05).mean_square_stability()
    assert found.error_kind == "exact"
    assert found.bounds[1] - found.bounds[0] < 1e-7
    drawn = rs.descend(problem, scheme, 0.05, budget=1e10).mean_square_stability()
    assert drawn.error_kind == "confidence 99%"
    assert abs(drawn.rate - found.rate) <= drawn.error
    assert abs(drawn.gain - found.gain) <= drawn.gain_error


TWO_BATCHES = [
    [0.34558419, 0.82161814],
    [0.33043708, -1.30315723],
    [0.90535587, 0.44637457],
    [-0.53695324, 0.5811181],
]


@pytest.mark.parametrize("rounds", [1, 3])
def test_bounds_hold_however_few_rounds_the_budget_allows(monkeypatch, rounds):
    monkeypatch.setattr(mean_square, "_affordable_rounds", lambda timeline, budget: rounds)
    X, scheme = np.array(TWO_BATCHES), rs.RandomReshuffling(batches=2)
    problem = rs.LeastSquares(X, np.zeros(4))
    found = rs.descend(problem, scheme, 1.0).mean_square_stability()
    lower, upper = found.bounds
    assert found.converges
    assert lower <= all_orders(X, 2, 1.0) * (1 + 1e-9)
    assert all_orders(X, 2, 1.0) <= upper * (1 + 1e-9)
    assert upper - lower > 1e-8
    with pytest.raises(rs.BudgetError, match=r"does not decide whether the mean square converges"):
        rs.descend(problem, scheme, 4.602).mean_square_stability()


def first_failure(X, low, high):
    """By bisection, between a step at which the mean square of two batches converges and one where it does not."""
    assert all_orders(X, 2, low) < 1 < all_orders(X, 2, high)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if all_orders(X, 2, middle) < 1 else (low, middle)
    return low


@pytest.mark.slow
def test_two_batches_whose_gain_has_its_negative_beside_it():
    """A power iteration that cycles between the two would take the gain for half of what it is."""
    X = np.array(TWO_BATCHES)
    problem = rs.LeastSquares(X, np.zeros(4), beta_star=[1.0, 1.0], noise=0.7)
    scheme = rs.RandomReshuffling(batches=2)
    for step in (4.0, 4.5, 4.6, 4.602, 4.603, 4.6085, 4.61):
        exact, run = all_orders(X, 2, step), rs.descend(problem, scheme, step=step)
        found = run.mean_square_stability()
        assert found.rate == pytest.approx(exact, rel=1e-7)
        assert found.converges == (found.gain < 1) == (exact < 1)
        assert np.isfinite(run.expected_risk(math.inf).total) == (exact < 1)
    assert rs.descend(problem, scheme, step=4.6085).mean_square_stability().gain == pytest.approx(
        1.935, abs=1e-3
    )
    critical = rs.critical_step(problem, scheme, mean_square=True)
    assert critical == pytest.approx(first_failure(X, 4.5, 4.6085), rel=2e-6)


def resonant(n=100):
    X = np.sqrt(1 + np.cos(2 * np.pi * np.arange(n) / n))[:, np.newaxis]
    return rs.LeastSquares(X, np.zeros(n), beta_star=[1.0], noise=0.0)


def heavy_ball_radius(curvatures, step, momentum):
    """Of one epoch in a fixed order of visits to one parameter and its momentum buffer."""
    epoch = np.eye(2)
    for w in curvatures:
        epoch = np.array([[1 - step * w, -step * momentum], [w, momentum]]) @ epoch
    return radius(epoch)


@pytest.mark.slow
def test_a_fixed_order_may_drive_what_momentum_lets_oscillate():
    """Parametric resonance: the curvature of the visits swings once per epoch, twice as fast as the heavy ball."""
    problem, momentum = resonant(), 0.999
    curvatures = np.square(problem.X[:, 0])
    found = rs.critical_step(problem, rs.Cyclic(batch_size=1), momentum=momentum, mean_square=False)
    assert 6e-4 < found < 8e-4
    for step in np.append(np.geomspace(found / 1000, found * (1 - 1e-6), 200), found):
        assert heavy_ball_radius(curvatures, step, momentum) < 1
    assert heavy_ball_radius(curvatures, found * (1 + 1e-6), momentum) > 1


@pytest.mark.slow
@pytest.mark.parametrize("small", [1e-2, 1e-11])
def test_slow_modes_do_not_hide_the_spread_of_fast_ones(small):
    """Beside a row that is hardly there the mean square ends where it does without its column."""
    X, momentum = np.array([[1.2, 0.8, 0.0], [0.3, -0.9, 0.0], [0.1, 0.2, small]]), 0.95
    found = rs.critical_step(
        rs.LeastSquares(X, np.zeros(3)), rs.RandomReshuffling(batches=3), mean_square=True, momentum=momentum
    )

    exact = partial(all_orders, X[:, :2], 3, momentum=momentum)
    assert exact(found * (1 - 1e-3)) < 1 < exact(found * (1 + 1e-3))


X = np.array(
    [
        [0.49926395, -0.4284545],
        [0.50660397, -0.29641072],
        [1.76777349, 0.21137197],
        [-0.12281678, 0.80508867],
    ]
)


def test_the_rate_does_not_depend_on_the_method_of_the_mean():
    """A mean over drawn orders is not taken for the exact one."""
    problem = rs.LeastSquares(X, np.zeros(4))
    sampled, exact = (
        rs.descend(problem, rs.RandomReshuffling(batches=3), 0.15, method=method).mean_square_stability()
        for method in ("sampling", "exact")
    )
    assert exact.rate > sampled.error == 0
    close(sampled.rate, exact.rate)
    close(sampled.gain, exact.gain)
