"""Rows left out of shuffled samples where one epoch learns all there is, many times over; or nothing at all."""

import numpy as np
import pytest

import reshuffle as rs


@pytest.mark.parametrize("penalty", [0.0, 0.05])
def test_residuals_are_those_of_runs_without_the_row(penalty):
    problem = rs.gaussian(120, 3, seed=0)
    run = rs.descend(problem, rs.SampleReshuffling(batch_size=2), step=0.3, penalty=penalty)
    found = run.leave_one_out([1, 3, 100])
    for row in (0, 50, 100):
        # A row of zeros has no gradient, and leaves the divisors as they are.
        kept = np.arange(120) != row
        without = run.on(rs.LeastSquares(problem.X * kept[:, np.newaxis], problem.y * kept))
        known = problem.y[row] - without.iterate([1, 3, 100]) @ problem.X[row]
        error = without.iterate_error([1, 3, 100]) * np.linalg.norm(problem.X[row])
        assert (error < 0.02).all()
        assert (np.abs(found.residuals[:, row] - known) < error + 1e-4).all()


@pytest.mark.parametrize(
    "scheme",
    [
        rs.FullBatch(),
        rs.SampleReshuffling(batches=3),
        rs.RandomReshuffling(batches=2),
        rs.SampleWithReplacement(batch_size=2),
        rs.Cyclic(batches=2),
    ],
)
def test_nothing_is_learned_from_features_that_are_zero(scheme):
    problem = rs.LeastSquares(np.zeros((4, 2)), [1.0, 2.0, 3.0, 4.0])
    found = rs.descend(problem, scheme, step=0.1).leave_one_out([1, 5])
    np.testing.assert_array_equal(found.residuals, [problem.y, problem.y])
