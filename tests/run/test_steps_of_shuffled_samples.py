"""Critical steps of shuffled samples: against the exact polynomial of one column, and against all orders."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from benchmarks import step_coverage

import reshuffle as rs
from tests.oracles import rank_one


def single(squares):
    return rs.LeastSquares(np.sqrt(squares)[:, np.newaxis], np.zeros(len(squares)))


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 2, 1), (3, 2)])
def test_the_polynomial_is_the_mean_over_all_orders(sizes):
    squares, step = [Fraction(1, 3), Fraction(2), Fraction(1, 7), Fraction(5, 2), Fraction(1)], Fraction(3, 4)
    coefficients = rank_one.mean_polynomial(squares, len(sizes))
    value = sum(coefficient * step**i for i, coefficient in enumerate(coefficients))
    assert value == rank_one.enumerated(squares, sizes, step)


def test_a_narrow_window_of_instability_is_not_stepped_over():
    squares = np.full(30, 0.02)
    squares[:2] = 1.0, 7.4
    step = rs.critical_step(single(squares), rs.SampleReshuffling(batch_size=1))
    assert step == pytest.approx(rank_one.first_crossing(squares, 30), rel=1e-9)
    assert step.error_kind == "exact"
    # Beyond the window runs converge again, which is not what is asked for.
    run = rs.descend(single(squares), rs.SampleReshuffling(batch_size=1), step=0.7)
    assert run.stability().rate < 1


@pytest.mark.parametrize("seed", range(40))
def test_one_column_is_exact(seed):
    problem, scheme, truth = step_coverage.one_column(np.random.default_rng(seed))
    step = rs.critical_step(problem, scheme)
    assert step.error == 0
    assert step == pytest.approx(truth, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_searched_steps_are_within_their_error(seed):
    problem, scheme, truth = step_coverage.along_axes(np.random.default_rng(seed))
    step = rs.critical_step(problem, scheme)
    assert abs(step - truth) <= step.error + 1e-8 * truth


def rate(X, size, step):
    """The spectral radius of the mean epoch map over all orders of the rows, cut into batches."""
    n, p = X.shape
    total, count = np.zeros((p, p)), 0
    for order in permutations(range(n)):
        epoch = np.eye(p)
        for start in range(0, n, size):
            rows = X[list(order[start : start + size])]
            epoch -= step * rows.T @ (rows @ epoch) / len(rows)
        total, count = total + epoch, count + 1
    return np.abs(np.linalg.eigvalsh(total / count)).max()


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("p", [2, 3])
def test_few_rows_leave_where_the_mean_over_all_orders_does(p, size):
    X = np.random.default_rng(size).standard_normal((6, p))
    X[0] *= 3
    step = rs.critical_step(rs.LeastSquares(X, np.zeros(6)), rs.SampleReshuffling(batch_size=size))
    assert step.error == 0
    assert rate(X, size, float(step)) == pytest.approx(1.0, abs=1e-6)
    assert all(rate(X, size, share * float(step)) < 1 for share in (0.3, 0.8, 0.999))


@pytest.mark.parametrize("mean_square", [False, True])
def test_single_samples_are_fixed_batches_in_a_random_order(mean_square):
    X = np.random.default_rng(3).standard_normal((6, 2))
    problem = rs.LeastSquares(X, np.zeros(6))
    samples, batches = (
        rs.critical_step(problem, scheme, mean_square=mean_square)
        for scheme in (rs.SampleReshuffling(batch_size=1), rs.RandomReshuffling(6))
    )
    assert samples == pytest.approx(float(batches), rel=1e-6)
    assert samples.error == 0
