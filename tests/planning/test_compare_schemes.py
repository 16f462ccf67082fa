"""Schemes beside each other: every number is the one that the run itself gives, and nothing crashes."""

import math

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all
from tests.oracles import every_order
from tests.schemes.test_a_new_scheme import RandomRotation

PROBLEM = rs.gaussian(24, 6, noise=0.5, seed=4)
SCHEMES = {
    "fresh": rs.RandomReshuffling(batches=4),
    "fixed": rs.Cyclic(batches=4),
    "once": rs.ShuffleOnce(batches=4),
    "drawn": rs.WithReplacement(batches=4),
    "subsets": rs.SampleSubsets(batch_size=6),
    "rotated": RandomRotation(batches=4),
}
EPOCHS = np.array([[1.0, 7.0], [40.0, math.inf]])


@pytest.fixture(scope="module")
def compared():
    return rs.compare_schemes(PROBLEM, SCHEMES, step=0.1, epochs=EPOCHS)


@pytest.mark.slow
def test_every_number_is_that_of_the_run(compared):
    assert [row.name for row in compared] == ["full batch", *SCHEMES]
    assert compared.measure == "risk"
    for name, scheme in SCHEMES.items():
        row, run = compared[name], rs.descend(PROBLEM, scheme, 0.1)
        expected = run.expected_risk(EPOCHS)
        np.testing.assert_allclose(row.mean.value, run.risk(EPOCHS).total, rtol=1e-12)
        np.testing.assert_allclose(row.total.value, expected.total, rtol=1e-10)
        np.testing.assert_allclose(row.spread.value, expected.spread, rtol=1e-8, atol=1e-15)
        assert row.distance.value == pytest.approx(run.compare_limit().distance, abs=1e-12)
        for mean_square, answer in ((False, row.critical_alpha), (True, row.mean_square_alpha)):
            step = rs.critical_step(PROBLEM, scheme, mean_square=mean_square)
            assert answer.value == pytest.approx(row.steps * step, rel=1e-9)
        assert not any(answer.reason for answer in row.answers.values())


def test_the_full_batch_takes_as_long_a_step_as_an_epoch(compared):
    run = rs.descend(PROBLEM, rs.FullBatch(), 0.4)
    np.testing.assert_allclose(compared.full_batch.total.value, run.risk(EPOCHS).total, rtol=1e-12)
    assert not compared.full_batch.spread.value.any()
    totals = np.array([row.total.value for row in compared])
    np.testing.assert_array_equal(compared.prices, totals - totals[0])
    by_alpha = rs.compare_schemes(PROBLEM, {"fresh": SCHEMES["fresh"]}, alpha=0.4, epochs=7, thresholds=False)
    np.testing.assert_allclose(by_alpha["fresh"].total.value, compared["fresh"].total.value[0, 1], rtol=1e-12)
    np.testing.assert_allclose(
        by_alpha.full_batch.total.value, compared.full_batch.total.value[0, 1], rtol=1e-12
    )


def test_without_the_truth_it_is_the_training_loss():
    """Against the mean of the loss over every sequence of two epochs."""
    data = rs.LeastSquares(PROBLEM.X[:6], PROBLEM.y[:6])
    (_, row) = rs.compare_schemes(data, [rs.RandomReshuffling(batches=3)], step=0.1, epochs=[1, 2])
    training = every_order.Training(data.X, data.y, [0.1, 0.1], np.zeros(6))
    parts = [[0, 1], [2, 3], [4, 5]]
    runs = every_order.all_runs(training, every_order.epochs_reshuffled(parts, [2, 2, 2]))
    ends = runs @ np.concatenate([[1.0], data.y])
    losses = np.square(ends @ data.X.T - data.y).sum(axis=1) / 12
    assert row.total.value[1] == pytest.approx(losses.mean(), rel=1e-10)
    at_mean = np.square(data.X @ ends.mean(axis=0) - data.y).sum() / 12
    assert row.mean.value[1] == pytest.approx(at_mean, rel=1e-10)
    assert row.spread.value[1] == pytest.approx(losses.mean() - at_mean, rel=1e-8)


def test_the_table_is_readable(compared):
    lines = repr(compared).splitlines()
    assert lines[0] == "risk in the limit"
    assert lines[1].split() == [
        "scheme", "steps", "mean", "iterate", "spread", "one", "run", "limit", "off", "by",
        "critical", "alpha", "in", "mean", "square", "price",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[2:]] == ["full", *SCHEMES]
    assert compared.table(7).startswith("risk after 7 epochs\n")
    price = 100 * (compared["drawn"].total.value / compared.full_batch.total.value - 1)[0, 1]
    assert f"{price:+.3g}%" in compared.table(7)
    with pytest.raises(ValueError, match=r"epoch must be one of \[1.0, 7.0, 40.0, inf\]"):
        compared.table(8)
    with pytest.raises(KeyError, match="name must be one of 'full batch', 'fresh'"):
        compared["nobody"]


def test_what_cannot_be_answered_is_said_and_why():
    schemes = [rs.SampleReshuffling(batch_size=4), rs.Cyclic(batches=2)]
    found = rs.compare_schemes(PROBLEM, schemes, step=[0.1] * 3, epochs=[3], rtol=0.1, thresholds=False)
    row = found["SampleReshuffling(batch_size=4)"]
    assert np.isfinite(row.total.value).all()
    assert (row.total.error > 0).all()
    assert "schedule" in row.distance.reason
    assert "without" in repr(row)
    assert "? [1]" in found.table()
    scheduled = rs.compare_schemes(PROBLEM, schemes[1:], step=[0.1, 0.05], epochs=[1, 2])
    assert scheduled["Cyclic(batches=2)"].distance.reason
    full = rs.descend(PROBLEM, rs.FullBatch(), step=[0.2, 0.1])
    np.testing.assert_allclose(scheduled.full_batch.mean.value, full.risk([1, 2]).total)
    of_function = rs.compare_schemes(PROBLEM, schemes[1:], step=lambda k: 0.1 / (1 + k), epochs=[1, 2])
    np.testing.assert_allclose(
        of_function["Cyclic(batches=2)"].total.value, scheduled["Cyclic(batches=2)"].total.value
    )


def test_divergence_still_problems_and_names_that_come_twice():
    scheme, twice = rs.RandomReshuffling(batches=4), rs.Cyclic(batches=2)
    wild = rs.compare_schemes(PROBLEM, [scheme], step=50.0, epochs=[10**6], thresholds=False)
    assert all(np.isinf(row.total.value).all() and np.isinf(row.distance.value) for row in wild)
    assert repr(wild).count("diverges") == 8
    assert "alpha" not in repr(wild)
    assert "%" not in repr(wild)
    still = rs.compare_schemes(rs.LeastSquares(np.zeros((4, 2)), np.ones(4)), [twice], step=0.1, epochs=1)
    assert repr(still).splitlines()[-1].split()[-3:] == ["any", "any", "+0%"]
    found = rs.compare_schemes(PROBLEM, [twice, rs.FullBatch(), twice], step=0.1, epochs=1, thresholds=False)
    assert [row.name for row in found] == ["full batch", "Cyclic(batches=2)", "Cyclic(batches=2) (2)"]
    assert len(found) == 3


@for_all(
    "arguments, error, message",
    [
        ({"schemes": rs.Cyclic(batches=2)}, TypeError, "schemes must be a dict of schemes by name, or a list"),
        ({"schemes": 3}, TypeError, "schemes must be a dict of schemes by name, or a list"),
        ({"schemes": []}, ValueError, "schemes must hold at least one scheme"),
        ({"schemes": [rs.FullBatch()]}, ValueError, "schemes must hold at least one scheme"),
        ({"schemes": {"full batch": rs.Cyclic(batches=2)}}, ValueError, "names that are words other than"),
        ({"schemes": {3: rs.Cyclic(batches=2)}}, ValueError, "names that are words other than"),
        ({"schemes": [rs.Cyclic]}, TypeError, "scheme must be made before it is used"),
        ({"schemes": ["cyclic"]}, TypeError, "scheme must be a scheme"),
        ({"schemes": [rs.Cyclic(batches=25)]}, ValueError, "batches"),
        ({"step": None}, TypeError, "exactly one of step and alpha"),
        ({"alpha": 0.1}, TypeError, "exactly one of step and alpha"),
        ({"step": -1.0}, ValueError, "step must be"),
        ({"step": [0.1, -0.1]}, ValueError, "step"),
        ({"epochs": []}, ValueError, "epochs must hold at least one epoch"),
        ({"epochs": -1}, ValueError, "epochs"),
        ({"step": [0.1], "epochs": 2}, ValueError, "epochs must be at most 1"),
        ({"momentum": 1.0}, ValueError, "momentum must be"),
        ({"thresholds": 1}, ValueError, "thresholds must be True or False"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_at_the_door(arguments, error, message):
    wanted = {"schemes": [rs.Cyclic(batches=2)], "step": 0.1, "epochs": 1, **arguments}
    with pytest.raises(error, match=message):
        rs.compare_schemes(PROBLEM, wanted.pop("schemes"), **wanted)
