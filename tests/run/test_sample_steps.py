"""Critical steps of shuffled samples, against the polynomial that the mean over orders is.

Those of few samples are beside all orders in tests/schemes/test_designs.py.
"""

import math

import mpmath
import numpy as np
import pytest

import reshuffle as rs
from reshuffle.run import critical_polynomials
from tests.looped import for_all

GRID = np.geomspace(0.02, 0.999, 60)
"""Shares of a critical step at which a run is to be stable."""


def mean_in_one_column(squares, batches):
    """sum_i (-step)^i binom(B, i) e_i(a) / binom(n, i) as a function of the step, with digits to spare."""
    n = len(squares)
    with mpmath.workdps(40 + n):
        sums = [mpmath.mpf(1)] + [mpmath.mpf(0)] * batches
        for square in squares:
            for i in range(batches, 0, -1):
                sums[i] += mpmath.mpf(float(square)) * sums[i - 1]
        weighted = [
            (-1) ** i * sums[i] * math.comb(batches, i) / math.comb(n, i) for i in range(batches, -1, -1)
        ]

    def mean(step):
        with mpmath.workdps(40 + n):
            return float(mpmath.polyval(weighted, mpmath.mpf(float(step))))

    return mean


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


def two_that_dominate():
    squares = np.full(30, 0.02)
    squares[:2] = 1, 7.4
    return squares


def test_a_window_of_instability_is_not_stepped_over():
    squares = two_that_dominate()
    found = rs.critical_step(column(squares), rs.SampleReshuffling(batch_size=1), mean_square=False)
    assert found == pytest.approx(0.4568, abs=1e-4)
    assert (found.error, found.error_kind) == (0.0, "exact")
    assert is_first_end(lambda step: abs(np.prod(1 - step * squares)), found)
    assert abs(np.prod(1 - 0.6 * squares)) < 1


@for_all("first", range(0, 32, 4))
def test_one_column_is_exact(first):
    for seed in range(first, first + 4):
        squares, batch_size = heavy_column(seed)
        mean = mean_in_one_column(squares, -(-len(squares) // batch_size))
        found = rs.critical_step(
            column(squares), rs.SampleReshuffling(batch_size=batch_size), mean_square=False
        )
        assert found.error_kind == "exact"
        assert is_first_end(lambda step, mean=mean: abs(mean(step)), found)


def test_many_fixed_batches_of_rank_one_do_the_same_in_every_order():
    squares = np.random.default_rng(4).exponential(1, 60)
    found = rs.critical_step(column(squares), rs.RandomReshuffling(batches=30), mean_square=False)
    pairs = squares.reshape(-1, 2).mean(axis=1)
    assert is_first_end(lambda step: abs(np.prod(1 - step * pairs)), found)
    assert rs.critical_step(column(squares), rs.RandomReshuffling(batches=30), mean_square=True) == found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_searched_step_of_few_rows_covers(monkeypatch, seed):
    """Two rows dominate: slow modes, which are known well, hide a fast one that is not."""
    n, p, m = 11, 3, 2
    X = np.random.default_rng(seed).standard_normal((n, p)) * np.r_[[3.0] * 2, [0.2] * (n - 2)][:, np.newaxis]
    problem, scheme = rs.LeastSquares(X, np.zeros(n)), rs.SampleReshuffling(batch_size=m)
    exact = rs.critical_step(problem, scheme, mean_square=False)
    assert exact.error_kind == "exact"
    monkeypatch.setattr(critical_polynomials, "exact_step", lambda *rest: None)
    found = rs.critical_step(problem, scheme, mean_square=False)
    assert abs(found - exact) <= found.error
