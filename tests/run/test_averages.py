"""Averages of iterates: against every sequence of orders, written down and averaged."""

import numpy as np
import pytest

import reshuffle as rs
from tests.oracles import averaged_runs, every_order
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
        "reshuffling": (rs.RandomReshuffling(partition), reshuffled, True),
        "cyclic": (rs.Cyclic(partition, order=order), fixed, True),
        "once": (rs.ShuffleOnce(partition), reshuffled, False),
        "replacement": (
            rs.WithReplacement(partition),
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


@pytest.mark.parametrize("recipe", RECIPES, ids=repr)
@pytest.mark.parametrize("average", AVERAGES, ids=repr)
@pytest.mark.parametrize(
    ("name", "batches", "count"),
    [
        ("reshuffling", 2, 3),
        ("reshuffling", 3, 2),
        ("reshuffling", 3, 3),
        ("cyclic", 3, 3),
        ("once", 3, 3),
        ("replacement", 2, 3),
        ("replacement", 3, 2),
    ],
)
def test_every_sequence_of_orders_agrees(name, batches, count, average, recipe):
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
