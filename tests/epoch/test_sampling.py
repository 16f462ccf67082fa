"""Sampled orders: one order, the control variate, and whether the stated error is the true one."""

import numpy as np
import pytest

import reshuffle as rs
from tests.problems import case, close


def test_a_budget_that_is_too_small_is_told():
    problem = rs.gaussian(200, 20, noise=0.5, seed=0)
    run = rs.descend(problem, rs.RandomReshuffling(batches=25), alpha=1.0, rtol=1e-9, budget=1e9)
    with pytest.warns(
        UserWarning, match=r"relative error of .* by sampling, but rtol is 1e-09; .* larger budget"
    ):
        risk = run.risk([1, 10])
    assert run.epoch.method == "sampling"
    assert (risk.error > 0).all()
    assert (risk.error < 1e-2 * risk.total).all()


@pytest.mark.filterwarnings("ignore:at step .* the mean iterate diverges")
def test_an_indefinite_estimate_does_not_crash():
    """Near and beyond the critical step, from few draws: no exception, no nan."""
    problem = case(24, 30, 1).problem
    for step in (0.3, 0.6, 3.0):
        run = rs.descend(problem, rs.RandomReshuffling(batches=24), step, method="sampling", budget=1.0)
        for epochs in (1, 10, np.inf):
            assert not np.isnan(run.iterate(epochs)).any()
            assert not np.isnan(run.risk(epochs).error)
        assert not np.isnan(run.limit().error)
        assert not np.isnan(run.best_epoch().risk)


def test_the_modifier_of_sampled_orders():
    problem, scheme = case(12, 4, 1).problem, rs.RandomReshuffling(batches=6)
    run = rs.descend(problem, scheme, 0.02, method="sampling", rtol=1e-4)
    exact = rs.descend(problem, scheme, 0.02, method="exact")
    assert np.linalg.norm(run.epoch.modifier(2) - exact.epoch.modifier(2)) < 0.02
    close(run.epoch.matrix, run.epoch.matrix.T)
    close(run.epoch.modified_features.T @ problem.X / 12, run.epoch.Z, 1e-10)


def test_dropped_rows_leave_fewer_rows_than_columns_of_very_different_sizes():
    X = np.random.default_rng(0).standard_normal((3, 3)) * [1.0, 1e-4, 1e-8]
    scheme = rs.RandomReshuffling(batch_size=2, drop_last=True)
    drawn, exact = (
        rs.descend(rs.LeastSquares(X, [1.0, 2.0, 3.0]), scheme, step=0.5, method=method).iterate(
            [1, 30, np.inf]
        )
        for method in ("sampling", "exact")
    )
    np.testing.assert_allclose(drawn, exact, rtol=1e-9)
