"""The same run at another step: what is shared is right, and what is not is made anew."""

import math

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all

A, B, C = rs.RandomReshuffling(batches=2), rs.Cyclic(batches=3), rs.FullBatch()


@pytest.mark.parametrize(
    ("stages", "epochs"), [([(2, A), (2, B), (None, C)], [0, 3, 5, math.inf]), ([(1, A), (3, C)], [0, 2, 4])]
)
def test_a_constant_step_reaches_stages_that_a_schedule_did_not(stages, epochs):
    problem, scheme = rs.gaussian(12, 4, noise=0.5, seed=3), rs.Stages(stages)
    moved = rs.descend(problem, scheme, step=[0.1, 0.1]).with_step(0.07)
    fresh = rs.descend(problem, scheme, step=0.07)
    np.testing.assert_array_equal(moved.risk(epochs).total, fresh.risk(epochs).total)
    np.testing.assert_array_equal(moved.iterate(epochs), fresh.iterate(epochs))
    finite = [epoch for epoch in epochs if math.isfinite(epoch)]
    np.testing.assert_array_equal(moved.expected_risk(finite).total, fresh.expected_risk(finite).total)


@for_all("recipe", [{}, {"momentum": 0.5}, {"penalty": 0.1}, {"penalty": 0.1, "unpenalized": [0]}])
@for_all("scheme", [A, B, rs.SampleReshuffling(batches=2), rs.ShuffleOnce(batches=3)])
def test_all_answers_are_those_of_a_run_made_for_it(scheme, recipe):
    problem = rs.gaussian(12, 4, noise=0.5, seed=3)
    run = rs.descend(problem, scheme, step=3.0, **recipe)
    # What is found out about a run that grows must not be said of one that does not.
    _ = run.risk([1, 5]), run.converges
    moved, fresh = run.with_step(0.05), rs.descend(problem, scheme, step=0.05, **recipe)
    assert moved.converges is fresh.converges is True
    np.testing.assert_allclose(moved.risk([1, 20]).total, fresh.risk([1, 20]).total, rtol=1e-13)
    np.testing.assert_allclose(moved.iterate(7), fresh.iterate(7), rtol=0, atol=1e-13)
    assert moved.method == fresh.method
