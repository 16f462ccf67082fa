"""One run for every scheme and recipe: what it is, how it is computed, and what it refuses."""

import math

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all

PROBLEM, MANY = rs.gaussian(12, 5, noise=0.5, seed=2), rs.gaussian(60, 5, noise=0.5, seed=2)


def test_what_has_no_answer_says_so_in_one_way():
    heavy = rs.descend(PROBLEM, rs.RandomReshuffling(batches=2), 0.05, momentum=0.5)
    for question in (lambda: heavy.epoch, lambda: heavy.range_assumption, lambda: heavy.risk_interval(3)):
        with pytest.raises(rs.UnsupportedError, match=r"has no answer for Run\(.*momentum=0.5\); it needs"):
            question()
    with pytest.raises(ValueError, match=r"X_new must have 5 columns"):
        heavy.predict(np.eye(4), 1)


def test_a_computation_tells_what_was_not_done_and_why():
    few = rs.descend(PROBLEM, rs.RandomReshuffling(batches=3), 0.05).computation
    assert (few.mean.taken, few.second_moment.taken) == ("exact", "recursion")
    assert "not sampling: the exact mean is affordable" in repr(few)
    many = rs.descend(rs.gaussian(600, 3, seed=1), rs.SampleReshuffling(batch_size=20), alpha=1.0, rtol=0.1)
    told = repr(many.computation)
    assert many.computation.mean.taken == many.method
    assert "known for at most 4 batches" in told
    assert many.computation.second_moment.taken == "centred maps"
    warm = rs.descend(
        rs.gaussian(600, 3, seed=1), rs.SampleReshuffling(batch_size=20), step=[0.1, 0.2], rtol=0.1
    )
    assert warm.computation.second_moment.taken == "simulation"
    assert "not centred maps: they are for a fresh order in every epoch, at a step that stays" in repr(
        warm.computation
    )
    insisted = rs.descend(
        PROBLEM, rs.RandomReshuffling(batches=3), 0.01, method="cavity", rtol=1.0
    ).computation.mean
    assert insisted.taken == "cavity"
    assert all(
        "method is 'cavity'" in way.rejected_because for way in insisted.methods if way.name != "cavity"
    )
    dear = rs.descend(
        rs.gaussian(60, 3, seed=1), rs.RandomReshuffling(batches=30), 0.01, momentum=0.5, rtol=1.0
    )
    assert "more memory" in dear.computation.mean.methods[0].rejected_because


REFUSED = [
    *((lambda decay=decay: rs.EMA(decay), "decay must be") for decay in (-0.1, 1.0, math.nan, "0.9", None)),
    *((lambda start=start: rs.TailAverage(start), "start must be") for start in (-1, 2.5, math.inf, "2")),
    (lambda: rs.EMA(0.5, per="step"), "per must be"), (lambda: rs.TailAverage(per="step"), "per must be"),
    *((lambda average=average: asked(average=average), r"average must be EMA\(decay\) or TailAverage")
      for average in (0.9, rs.EMA, "ema")),
    (lambda: rs.simulate(PROBLEM, rs.FullBatch(), 0.1, epochs=1, runs=4, average=0.9), "average must be"),
    (lambda: asked(batches=2, average=rs.EMA(0.9)).risk_interval(3), "risk_interval"),
    *((lambda scheme=scheme, way=way: asked(scheme, momentum=0.5, method=way), f"method must be {known} for")
      for scheme, way, known in (
        (rs.RandomReshuffling(batches=3), "cavity", '"auto", "exact" or "sampling"'),
        (rs.SampleReshuffling(batches=3), "exact", '"auto", "cavity" or "sampling"'),
        (rs.Cyclic(batches=3), "sampling", '"auto" or "exact"'),
        (rs.ShuffleOnce(batches=8), "exact", '"auto" or "sampling"'),
      )),
    (lambda: asked(step=[0.1, math.nan]), r"step\[1\] is nan; give a number >= 0 for every epoch"),
    (lambda: asked(penalty=-3.0, unpenalized=[0, 1, 2, 3, 4]), "penalty must be"),
    (lambda: asked().predict([[1.0, 2.0]], 3, return_std=True), "X_new must have 5 columns"),
    (lambda: asked().covariance(3).deviation([[1.0, 2.0]]), "X_new must have 5 columns"),
    (lambda: asked().excess_training_loss(-1), "epochs must be whole"),
    (lambda: rs.descend(MANY, rs.RandomReshuffling(batches=30), alpha=0.5).expected_risk(10**12),
     r"epochs must be at most .* for RandomReshuffling\(batches=30\)"),
    (lambda: rs.descend(rs.LeastSquares([[1.0]], [1.0]), rs.FullBatch(), 0.1).leave_one_out(1), "at least 2 rows"),
]  # fmt: skip


def asked(scheme=None, *, batches=3, step=0.1, **recipe):
    return rs.descend(PROBLEM, scheme or rs.RandomReshuffling(batches=batches), step, **recipe)


@for_all("ask, message", REFUSED)
def test_what_is_refused(ask, message):
    with pytest.raises((ValueError, TypeError, rs.UnsupportedError), match=message):
        ask()
