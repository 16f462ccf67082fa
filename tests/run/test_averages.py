"""Averages of iterates: against every sequence of orders, written down and averaged."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.epoch.moments import averages
from tests.looped import pairwise
from tests.oracles import averaged_runs, every_order
from tests.oracles.extended import Extended
from tests.problems import case

AVERAGES = [
    rs.EMA(0.6),
    rs.EMA(0.7, per="visit"),
    rs.TailAverage(),
    rs.TailAverage(start=1),
    rs.TailAverage(per="visit"),
    rs.TailAverage(start=1, per="visit"),
]
RECIPES = [
    {"step": 0.2},
    {"step": 0.15, "penalty": 0.3},
    {"step": 0.1, "momentum": 0.6},
    {"step": 0.1, "momentum": 0.6, "penalty": 0.3},
    {"step": [0.3, 0.2, 0.1], "momentum": 0.4, "penalty": 0.2},
]


def setting(batches, p=3, seed=0):
    """A case with more columns than its rows see, and the ways through an epoch of each scheme."""
    made = case(6, p, batches, seed=seed, rank=2, noise=0.8, equal=batches != 2)
    sizes = [len(rows) for rows in made.partition]
    return made, sizes


def schemes(made, sizes):
    partition = made.partition
    order = list(range(len(partition)))[::-1]
    fixed = [every_order.batches_in(order, partition, sizes)]
    reshuffled = every_order.epochs_reshuffled(partition, sizes)
    return {
        "reshuffling": (rs.RandomReshuffling(batches=partition), reshuffled, True),
        "cyclic": (rs.Cyclic(batches=partition, order=order), fixed, True),
        "once": (rs.ShuffleOnce(batches=partition), reshuffled, False),
        "replacement": (
            rs.WithReplacement(batches=partition),
            every_order.epochs_with_replacement(partition, sizes),
            True,
        ),
    }


def enumerated(made, recipe, average, epochs, fresh, count):
    """R of the average of every run, (runs, p, 1 + n), and how it was trained."""
    steps = recipe["step"][:count] if isinstance(recipe["step"], list) else [recipe["step"]] * count
    training = every_order.Training(
        made.problem.X,
        made.problem.y,
        steps,
        made.start,
        recipe.get("penalty", 0.0),
        recipe.get("momentum", 0.0),
    )
    iterates = averaged_runs.histories(training, epochs, fresh)
    return training, averaged_runs.averaged(average, iterates, len(epochs[0]))


SEQUENCES = [
    ("reshuffling", 2, 3), ("reshuffling", 3, 2), ("reshuffling", 3, 3), ("cyclic", 3, 3), ("once", 3, 3),
    ("replacement", 2, 3), ("replacement", 3, 2),
]  # fmt: skip
"""Scheme, batches, epochs."""


@pytest.mark.parametrize(("sequence", "average", "recipe"), pairwise(SEQUENCES, AVERAGES, RECIPES))
def test_every_sequence_of_orders_agrees(sequence, average, recipe):
    name, batches, count = sequence
    made, sizes = setting(batches)
    scheme, epochs, fresh = schemes(made, sizes)[name]
    training, runs = enumerated(made, recipe, average, epochs, fresh, count)
    run = rs.descend(made.problem, scheme, start=made.start, average=average, **recipe)
    truth = made.problem.beta_star, made.covariance
    mean = every_order.mean_iterate(training, runs)
    np.testing.assert_allclose(run.iterate(count), mean, rtol=0, atol=1e-12)
    loss = np.square(made.problem.y - made.problem.X @ mean).sum() / (2 * made.problem.n)
    assert run.training_loss(count) == pytest.approx(loss, rel=1e-11)
    np.testing.assert_allclose(run.predict(made.problem.X, count), made.problem.X @ mean, rtol=0, atol=1e-12)
    total, of_mean = every_order.expected_risk(training, runs, *truth, made.problem.noise)
    assert run.risk(count).total == pytest.approx(of_mean, rel=1e-11)
    found = run.expected_risk(count)
    assert found.total == pytest.approx(total, rel=1e-11)
    assert found.spread == pytest.approx(total - of_mean, rel=1e-8, abs=1e-13)
    total, of_mean = every_order.expected_risk_given(training, runs, *truth)
    found = run.expected_risk(count, given_responses=True)
    assert found.total == pytest.approx(total, rel=1e-11)
    assert found.mean == pytest.approx(of_mean, rel=1e-11)


@pytest.mark.parametrize("average", AVERAGES, ids=repr)
def test_drawing_single_samples_agrees_with_every_draw(average):
    made = case(3, 2, 3, seed=1, noise=0.8)
    epochs = every_order.epochs_of_drawn_samples(3, [1, 1, 1])
    scheme = rs.SampleWithReplacement(batch_size=1)
    for recipe in ({"step": 0.2}, {"step": 0.1, "momentum": 0.5, "penalty": 0.2}):
        training, runs = enumerated(made, recipe, average, epochs, True, 2)
        run = rs.descend(made.problem, scheme, start=made.start, average=average, **recipe)
        np.testing.assert_allclose(
            run.iterate(2), every_order.mean_iterate(training, runs), rtol=0, atol=1e-12
        )
        truth = made.problem.beta_star, made.covariance
        total, _ = every_order.expected_risk(training, runs, *truth, made.problem.noise)
        assert run.expected_risk(2).total == pytest.approx(total, rel=1e-11)
        total, _ = every_order.expected_risk_given(training, runs, *truth)
        assert run.expected_risk(2, given_responses=True).total == pytest.approx(total, rel=1e-11)


LATE = np.array([8, 9, 30, 1000, 10**6, 10**12, math.inf])


@pytest.mark.parametrize("average", [rs.EMA(0.9), rs.EMA(0.0), rs.EMA(0.99999), rs.TailAverage(7)], ids=repr)
@pytest.mark.parametrize(
    "scheme",
    [
        rs.RandomReshuffling(batches=4),
        rs.WithReplacement(batches=4),
        rs.WithReplacement(batches=3),
        rs.FullBatch(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("alpha", [0.3, 1.5])
def test_closed_forms_in_the_modes_agree_with_the_affine_map(scheme, average, alpha):
    problem = rs.gaussian(20, 8, noise=0.5, seed=1)
    run = rs.descend(problem, scheme, alpha=alpha, average=average)
    modes, affine = run._modes, run._affine
    assert modes is not None
    np.testing.assert_allclose(modes.iterate(LATE), affine.iterate(LATE), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(modes.risk(LATE).total, affine.risk(LATE).total, rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("average", [rs.EMA(0.8), rs.EMA(0.9, per="visit")], ids=repr)
@pytest.mark.parametrize(
    "scheme",
    [
        rs.RandomReshuffling(batches=3),
        rs.WithReplacement(batches=3),
        rs.ShuffleOnce(batches=3),
        rs.Cyclic(batches=3),
        rs.SampleWithReplacement(batch_size=4),
    ],
    ids=repr,
)
@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.3}, {"penalty": 0.2}], ids=repr)
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
@pytest.mark.parametrize("per", ["epoch", "visit"])
@pytest.mark.parametrize(
    "scheme", [rs.RandomReshuffling(batches=3), rs.Cyclic(batches=3), rs.ShuffleOnce(batches=3)], ids=repr
)
@pytest.mark.parametrize("momentum", [0.0, 0.4])
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


def test_averages_over_visits_have_a_limit_of_their_own():
    problem = rs.gaussian(12, 2, noise=0.7, seed=3)
    scheme = rs.Cyclic(batches=3)
    ends = [
        rs.descend(problem, scheme, step=0.1, average=average).limit().parameters
        for average in (None, rs.EMA(0.9), rs.TailAverage(5), rs.TailAverage(per="visit"))
    ]
    np.testing.assert_allclose(ends[1], ends[0], rtol=1e-12)
    np.testing.assert_allclose(ends[2], ends[0], rtol=1e-12)
    # Of a fixed order the mean over a late epoch's visits, one after the other.
    state, sizes, visited = ends[0], [4, 4, 4], []
    for batch, size in enumerate(sizes):
        rows = slice(4 * batch, 4 * batch + 4)
        gradient = problem.X[rows].T @ (problem.X[rows] @ state - problem.y[rows]) / size
        state = state - 0.1 * gradient
        visited.append(state)
    np.testing.assert_allclose(ends[3], np.mean(visited, axis=0), rtol=1e-11)
    assert np.linalg.norm(ends[3] - ends[0]) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("average", AVERAGES, ids=repr)
@pytest.mark.parametrize(
    "scheme", [rs.RandomReshuffling(batches=3), rs.SampleWithReplacement(batch_size=4)], ids=repr
)
def test_a_leap_over_epochs_that_stand_is_what_every_one_of_them_does(monkeypatch, scheme, average):
    run = rs.descend(rs.gaussian(12, 2, noise=0.7, seed=3), scheme, step=0.3, momentum=0.1, average=average)
    leapt = run.expected_risk([60, 250])
    monkeypatch.setattr(averages, "is_stationary", lambda now, before: False)
    walked = run.expected_risk([60, 250])
    np.testing.assert_allclose(leapt.spread, walked.spread, rtol=1e-11)


def test_features_of_any_condition_keep_their_digits():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((6, 3)) * np.array([1.0, 1e-4, 1e-9])
    y = X @ np.array([1.0, 1e4, 1e9]) + rng.standard_normal(6)
    batches, epochs = [[0, 1], [2, 3], [4, 5]], 40
    exact = Extended(X, y, batches, 0.3, momentum=0.5)
    history = np.array([exact.iterate(epoch) for epoch in range(epochs + 1)])
    scheme = rs.RandomReshuffling(batches=batches)
    for average, expected in (
        (rs.TailAverage(10), history[11:].mean(axis=0)),
        (rs.EMA(0.9), averaged_runs.moving(history[:, :, np.newaxis], 0.9)[:, 0]),
    ):
        run = rs.descend(rs.LeastSquares(X, y), scheme, 0.3, momentum=0.5, average=average)
        np.testing.assert_allclose(run.iterate(epochs), expected, rtol=1e-10)


@pytest.mark.slow
@given(
    decay=st.floats(0.0, 0.999),
    step=st.floats(0.01, 0.5),
    momentum=st.sampled_from([0.0, 0.5]),
    penalty=st.sampled_from([0.0, 0.3]),
    start=st.integers(0, 4),
)
@settings(max_examples=25, deadline=None)
def test_averages_over_epochs_are_those_of_the_iterates(decay, step, momentum, penalty, start):
    made = case(6, 4, 3, seed=5, rank=2)
    scheme, recipe = rs.RandomReshuffling(batches=made.partition), {"momentum": momentum, "penalty": penalty}
    iterates = rs.descend(made.problem, scheme, step, start=made.start, **recipe).iterate(np.arange(6))
    moving = rs.descend(made.problem, scheme, step, start=made.start, average=rs.EMA(decay), **recipe)
    expected = averaged_runs.moving(iterates[:, :, np.newaxis], decay)[:, 0]
    np.testing.assert_allclose(moving.iterate(5), expected, rtol=1e-11, atol=1e-11 * np.abs(iterates).max())
    np.testing.assert_allclose(moving.iterate(0), made.start, rtol=1e-14)
    tail = rs.descend(made.problem, scheme, step, start=made.start, average=rs.TailAverage(start), **recipe)
    expected = [iterates[start + 1], iterates[start + 1 :].mean(axis=0)]
    np.testing.assert_allclose(
        tail.iterate([start + 1, 5]), expected, rtol=1e-11, atol=1e-11 * np.abs(iterates).max()
    )
