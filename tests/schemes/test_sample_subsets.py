"""Distinct rows in every step: against the enumeration of all subsets, and against its two ends."""

import math
from itertools import combinations, product

import numpy as np
import pytest

import reshuffle as rs
from tests.oracles import every_order
from tests.oracles.every_scheme import RECIPES, check
from tests.problems import case, close
from tests.run.test_covariance import check as check_covariance


def epochs_of_subsets(n, sizes):
    """Every choice of a subset for every step of an epoch."""
    draws = [[(list(rows), size) for rows in combinations(range(n), size)] for size in sizes]
    return [list(visits) for visits in product(*draws)]


CUTS = [
    (4, 2, False, [2, 2]),
    (5, 3, False, [3, 2]),
    (5, 3, True, [3]),
    (3, 2, False, [2, 1]),
    (4, 3, True, [3]),
]


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("n", "size", "drop_last", "sizes"), CUTS)
@pytest.mark.parametrize("p", [3, 6])
def test_means_and_second_moments_are_those_of_all_subsets(n, size, drop_last, sizes, p, recipe):
    tiny = case(n, p, 1, step=0.08, seed=n)
    scheme = rs.SampleSubsets(batch_size=size, drop_last=drop_last)
    assert scheme.sizes(n).tolist() == sizes
    epochs = epochs_of_subsets(n, sizes)
    count = 2 if len(epochs) < 40 else 1
    check(tiny, scheme, epochs, True, RECIPES[recipe], count)
    check_covariance(tiny, scheme, epochs, True, RECIPES[recipe], count)


def test_one_row_is_with_replacement_and_all_rows_are_the_full_batch():
    tiny = case(6, 4, 1, step=0.1)
    epochs = [0, 1, 7, math.inf]

    def risks(scheme):
        run = rs.descend(tiny.problem, scheme, 0.1, momentum=0.3)
        return run.expected_risk(epochs)

    one, other = risks(rs.SampleSubsets(batch_size=1)), risks(rs.SampleWithReplacement(batch_size=1))
    close(one.total, other.total)
    for size in (6, 9):
        whole, full = risks(rs.SampleSubsets(batch_size=size)), risks(rs.FullBatch())
        close(whole.total, full.total)
        assert not whole.spread.any()
    assert rs.descend(rs.gaussian(1, 2), rs.SampleSubsets(batch_size=1), 0.1).expected_risk(3).spread == 0


def test_the_mean_square_is_that_of_all_subsets():
    tiny = case(5, 2, 1, covariance="identity")
    X, step = tiny.problem.X, 0.3

    def moments(step):
        """E[A kron A] of a step of two rows."""
        maps = [np.eye(2) - step * X[list(rows)].T @ X[list(rows)] / 2 for rows in combinations(range(5), 2)]
        last = [np.eye(2) - step * np.outer(x, x) for x in X]
        two, one = (np.mean([np.kron(A, A) for A in each], axis=0) for each in (maps, last))
        return one @ two @ two

    scheme = rs.SampleSubsets(batch_size=2)
    rate = np.abs(np.linalg.eigvals(moments(step))).max()
    found = rs.descend(tiny.problem, scheme, step).mean_square_stability()
    assert found.rate == pytest.approx(rate, rel=1e-7)
    critical = rs.critical_step(tiny.problem, scheme, mean_square=True)
    radii = [np.abs(np.linalg.eigvals(moments(factor * critical))).max() for factor in (1 - 1e-4, 1 + 1e-4)]
    assert radii[0] < 1 < radii[1]
    assert rs.critical_step(tiny.problem, scheme, mean_square=False) == pytest.approx(
        rs.critical_step(tiny.problem, rs.FullBatch()), rel=1e-8
    )
    assert critical > rs.critical_step(tiny.problem, rs.SampleWithReplacement(batch_size=2), mean_square=True)


def test_it_is_simulated():
    problem = rs.gaussian(20, 4, noise=0.5, seed=1)
    scheme = rs.SampleSubsets(batch_size=8)
    drawn = next(scheme.draw(20, np.random.default_rng(0), 50))
    assert drawn.shape == (50, 20)
    for rows in (drawn[:, :8], drawn[:, 8:16], drawn[:, 16:]):
        assert all(len(set(one)) == len(one) for one in rows.tolist())
    exact = rs.descend(problem, scheme, 0.2).expected_risk([1, 10])
    found = rs.simulate(problem, scheme, 0.2, epochs=[1, 10], runs=4000, fresh_noise=True, seed=3)
    assert (np.abs(found.spread.mean - exact.spread) <= 4 * found.spread.standard_error).all()
    # With replacement the spread would be 19/12 as large at first.
    other = rs.descend(problem, rs.SampleWithReplacement(batch_size=8), 0.2).expected_risk([1, 10])
    assert (np.abs(found.spread.mean - other.spread) > 4 * found.spread.standard_error).all()


def test_every_order_knows_the_oracle():
    """The oracle of subsets has every subset of every step."""
    assert len(epochs_of_subsets(5, [3, 2])) == math.comb(5, 3) * math.comb(5, 2)
    assert every_order.epochs_of_drawn_samples(3, [1]) == epochs_of_subsets(3, [1])


def test_bad_sizes_are_refused():
    for size in (0, None, 2.5):
        with pytest.raises(ValueError, match="batch_size"):
            rs.SampleSubsets(batch_size=size)
