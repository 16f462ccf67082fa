"""The best epoch against looking at every epoch."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

import reshuffle as rs
from tests.looped import for_all
from tests.problems import SCHEMES, case, cases

LATE = np.unique(np.geomspace(3000, 1e12, 1000).round())


@settings(max_examples=20)
@given(cases(max_batches=3, steps=(0.0, 1e-4, 0.01, 0.1, 0.3)))
def test_no_epoch_is_better_than_the_best(tiny):
    for scheme in SCHEMES:
        run = tiny.run(scheme)
        best = run.best_epoch()
        every = run.risk(np.concatenate([np.arange(3000), LATE, [math.inf]])).total
        assert best.risk <= every.min() * (1 + 1e-12)
        assert best.error == 0
        assert best.risk == pytest.approx(float(run.risk(best.epoch).total), rel=1e-13)


@pytest.mark.slow
def test_an_optimum_after_billions_of_epochs_is_found():
    run = case(9, 4, 3, seed=3, step=1e-9).run("reshuffling")
    best = run.best_epoch()
    assert 1e9 < best.epoch < 1e11
    around = np.round(best.epoch * (1 + np.linspace(-1e-3, 1e-3, 2001)))
    every = run.risk(np.concatenate([np.arange(3000), LATE, around, [math.inf]])).total
    assert best.risk <= every.min() * (1 + 1e-12)
    assert best.error == 0


def test_alternating_modes_are_handled():
    # x between 1 and 2 makes 1 - x negative, and the risk of odd and even epochs differ.
    problem = rs.gaussian(50, 5, noise=2.0, seed=2)
    step = 0.9 * rs.critical_step(problem, rs.FullBatch())
    run = rs.descend(problem, rs.FullBatch(), step)
    assert (run.epoch.decay_rates > 1).any()
    best = run.best_epoch()
    assert best.risk == pytest.approx(run.risk(np.arange(1000)).total.min(), rel=1e-12)
    assert best.error == 0


@pytest.mark.slow
def test_what_was_not_searched_is_reported_as_error():
    run = rs.descend(rs.gaussian(30, 5, noise=3.0, seed=0), rs.FullBatch(), 1e-13)
    best = run.best_epoch()
    assert best.risk - best.error <= float(run.risk(4.766e12).total)


@pytest.mark.filterwarnings("ignore::reshuffle.AccuracyWarning")
@for_all(
    "scheme, options",
    [
        (rs.RandomReshuffling(batches=3), {"method": "cavity"}),
        (rs.RandomReshuffling(batches=3), {"method": "sampling", "rtol": 0.1}),
        (rs.RandomReshuffling(batches=3), {"method": "sampling", "rtol": 0.1, "momentum": 0.3}),
        (rs.ShuffleOnce(batches=8), {"rtol": 0.1}),
    ],
)
def test_the_risk_at_the_best_epoch_has_its_error(scheme, options):
    problem = rs.gaussian(24, 4, noise=2.0, seed=1)
    best = rs.descend(problem, scheme, 0.05, **options).best_epoch()
    at = rs.descend(problem, scheme, 0.05, **options).risk(best.epoch)
    assert best.risk_error == float(at.error) > 0
    assert " +- " in repr(best)
    exact = rs.descend(problem, rs.RandomReshuffling(batches=3), 0.05).best_epoch()
    assert exact.risk_error == 0
    assert " +- " not in repr(exact)
