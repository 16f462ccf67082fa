"""Averages of iterates: against every sequence of orders, and beside the rest of a run."""

import functools
import math

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all, pairwise
from tests.oracles.exact_runs import Scheme, floats, posed


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


AVERAGES = [rs.EMA(0.8), rs.EMA(0.9, per="visit"), rs.TailAverage(2), rs.TailAverage(2, per="visit")]
PROBLEM = rs.gaussian(24, 3, noise=0.5, seed=1)


def test_averages_are_equal_if_their_settings_are():
    assert rs.EMA(0.9) == rs.EMA(np.float64(0.9))
    assert rs.EMA(0.9) != rs.EMA(0.9, per="visit")
    assert len({rs.TailAverage(3), rs.TailAverage(3.0), rs.TailAverage()}) == 2
    assert rs.EMA(0) != rs.TailAverage(0)


@for_all("per", ["epoch", "visit"])
@for_all("epochs", [0, 5, 10, [11, 10]])
def test_nothing_is_averaged_before_the_tail_begins(per, epochs):
    average = rs.TailAverage(10, per=per)
    run = rs.descend(PROBLEM, rs.RandomReshuffling(batches=3), 0.1, average=average)
    message = "epochs must be at least 11 for TailAverage"
    for question in (run.iterate, run.risk, run.expected_risk, run.training_loss, run.iterate_error):
        with pytest.raises(ValueError, match=message):
            question(epochs)
    with pytest.raises(ValueError, match=message):
        rs.simulate(PROBLEM, rs.RandomReshuffling(batches=3), 0.1, epochs=epochs, runs=4, average=average)
    assert run.risk(11).total > 0


def test_a_tail_begins_before_the_schedule_ends():
    with pytest.raises(ValueError, match="average must start before the step schedule ends, after 3 epochs"):
        rs.descend(PROBLEM, rs.Cyclic(batches=3), [0.1, 0.1, 0.1], average=rs.TailAverage(3))
    run = rs.descend(PROBLEM, rs.Cyclic(batches=3), [0.1, 0.1, 0.1], average=rs.TailAverage(2))
    plain = rs.descend(PROBLEM, rs.Cyclic(batches=3), [0.1, 0.1, 0.1])
    np.testing.assert_allclose(run.iterate(3), plain.iterate(3), rtol=1e-13)


@for_all("average", AVERAGES)
def test_what_is_said_of_epochs_and_convergence_is_said_of_the_iterates(average):
    scheme = rs.RandomReshuffling(batches=3)
    run, plain = (rs.descend(PROBLEM, scheme, 0.1, average=each) for each in (average, None))
    np.testing.assert_array_equal(run.epoch.Z, plain.epoch.Z)
    assert run.stability() == plain.stability()
    assert run.mean_square_stability() == plain.mean_square_stability()
    assert run.converges
    assert run.range_assumption == plain.range_assumption
    assert run.frozen.dimension == 0
    assert "second moments" in repr(run.computation)
    assert repr(average) in repr(run)


@for_all("average", [*AVERAGES, rs.TailAverage()])
@for_all(
    "scheme, recipe",
    [
        (rs.RandomReshuffling(batches=4), {"alpha": 0.3}),
        (rs.WithReplacement(batches=4), {"alpha": 0.3}),
        (rs.FullBatch(), {"step": 0.55}),
        (rs.Cyclic(batches=4), {"alpha": 0.3, "momentum": 0.3}),
        (rs.Cyclic(batches=4), {"step": [0.3] * 30 + [0.01] * 50}),
    ],
)
def test_no_epoch_is_better_than_the_best(scheme, recipe, average):
    problem = rs.gaussian(20, 15, noise=0.8, seed=2)
    # A budget for some hundred epochs, where they are looked at one by one.
    run = rs.descend(problem, scheme, average=average, budget=1e8, **recipe)
    best = run.best_epoch()
    first = average.start + 1 if isinstance(average, rs.TailAverage) else 0
    risks = run.risk(np.arange(first, 81)).total
    assert best.epoch == first + np.argmin(risks)
    assert best.risk == pytest.approx(risks.min(), rel=1e-12)


@for_all("average", AVERAGES)
def test_what_grows_is_infinite(average):
    run = rs.descend(PROBLEM, rs.RandomReshuffling(batches=2), 25.0, average=average)
    assert np.isfinite(run.risk(5).total)
    assert np.isinf(run.risk([2000, math.inf]).total).all()
    assert np.isinf(run.expected_risk([2000, math.inf]).total).all()
    assert np.isinf(run.iterate([2000, math.inf])).all()
    assert np.isinf(run.training_loss([2000, math.inf])).all()
    assert not run.limit().converges
