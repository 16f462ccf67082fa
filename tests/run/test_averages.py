"""Averages of iterates: against every sequence of orders, written down and averaged."""

import functools
import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle._linalg import overflow_is_inf
from tests.looped import for_all, pairwise
from tests.oracles.exact_runs import Scheme, floats, posed

LATE = np.array([8, 9, 30, 1000, 10**6, 10**12, math.inf])


@for_all(
    "average, scheme, alpha",
    pairwise(
        [rs.EMA(0.9), rs.EMA(0.0), rs.EMA(0.99999), rs.TailAverage(7)],
        [
            rs.RandomReshuffling(batches=4),
            rs.WithReplacement(batches=4),
            rs.WithReplacement(batches=3),
            rs.FullBatch(),
        ],
        [0.3, 1.5],
    ),
)
@overflow_is_inf
def test_closed_forms_in_the_modes_agree_with_the_affine_map(scheme, average, alpha):
    problem = rs.gaussian(20, 8, noise=0.5, seed=1)
    run = rs.descend(problem, scheme, alpha=alpha, average=average)
    modes, affine = run._modes, run._affine
    assert modes is not None
    np.testing.assert_allclose(modes.iterate(LATE), affine.iterate(LATE), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(modes.risk(LATE).total, affine.risk(LATE).total, rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("average", "scheme", "recipe"),
    pairwise(
        [rs.EMA(0.8), rs.EMA(0.9, per="visit")],
        [
            *(
                kind(batches=3)
                for kind in (rs.RandomReshuffling, rs.WithReplacement, rs.ShuffleOnce, rs.Cyclic)
            ),
            rs.SampleWithReplacement(batch_size=4),
        ],
        [{}, {"momentum": 0.3}, {"penalty": 0.2}],
    ),
    ids=repr,
)
def test_the_limit_of_a_moving_average_is_that_of_many_epochs(scheme, average, recipe):
    run = rs.descend(rs.gaussian(12, 2, noise=0.7, seed=3), scheme, step=0.15, average=average, **recipe)
    assert run.stability().rate ** 400 < 1e-12
    iterates = run.iterate([400, math.inf])
    np.testing.assert_allclose(iterates[0], iterates[1], rtol=0, atol=1e-13)
    for given_responses in (False, True):
        found = run.expected_risk([400, math.inf], given_responses=given_responses)
        assert found.total[0] == pytest.approx(float(found.total[1]), rel=1e-11)
        assert found.spread[0] == pytest.approx(float(found.spread[1]), rel=1e-9, abs=1e-15)
    assert run.limit().risk.total == pytest.approx(float(run.risk(400).total), rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("per", "scheme", "momentum"),
    pairwise(
        ["epoch", "visit"],
        [rs.RandomReshuffling(batches=3), rs.Cyclic(batches=3), rs.ShuffleOnce(batches=3)],
        [0.0, 0.4],
    ),
    ids=repr,
)
def test_a_tail_average_comes_as_near_to_its_limit_as_there_are_epochs(scheme, per, momentum):
    problem = rs.gaussian(12, 2, noise=0.7, seed=3)
    run = rs.descend(problem, scheme, step=0.1, momentum=momentum, average=rs.TailAverage(2, per=per))
    limit, near = run.limit(), run.iterate([10**5, 10**6])
    gaps = np.linalg.norm(near - limit.parameters, axis=1)
    assert gaps[1] == pytest.approx(gaps[0] / 10, rel=1e-3)
    expected = run.expected_risk([10**5, 10**6, math.inf])
    gaps = np.abs(expected.total[:2] - expected.total[2])
    assert gaps[1] == pytest.approx(gaps[0] / 10, rel=1e-3)
    if scheme == rs.RandomReshuffling(batches=3):
        # Orders that are drawn afresh average out, to the last one.
        assert expected.spread[1] == pytest.approx(float(expected.spread[0]) / 10, rel=1e-1)
        assert expected.spread[2] == 0
        assert 0 < expected.spread[1] < 1e-6


def test_features_of_any_condition_keep_their_digits():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((6, 3)) * np.array([1.0, 1e-4, 1e-9])
    y = X @ np.array([1.0, 1e4, 1e9]) + rng.standard_normal(6)
    batches, epochs = [[0, 1], [2, 3], [4, 5]], 40
    exact = posed(X, y, Scheme("RandomReshuffling", {"batches": batches}), 0.3, momentum=0.5)
    history = floats(exact.iterates(range(epochs + 1)))
    scheme = rs.RandomReshuffling(batches=batches)
    moving = functools.reduce(lambda average, each: 0.9 * average + 0.1 * each, history)
    for average, expected in ((rs.TailAverage(10), history[11:].mean(axis=0)), (rs.EMA(0.9), moving)):
        run = rs.descend(rs.LeastSquares(X, y), scheme, 0.3, momentum=0.5, average=average)
        np.testing.assert_allclose(run.iterate(epochs), expected, rtol=1e-10)
