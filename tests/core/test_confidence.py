"""The errors of answers from random draws: how wide, how often looked at, at any scale, and for every answer."""

import math
import re
import warnings

import numpy as np
import pytest
from benchmarks import coverage

import reshuffle as rs
from reshuffle import _uncertainty
from reshuffle._budget import warn_of_no_answer
from reshuffle.errors import AccuracyWarning
from tests.problems import case


@pytest.mark.slow
def test_looking_until_the_error_is_small_does_not_select():
    """Normal draws, stopped as soon as their error is small enough: it covers as often as it says."""
    rng, groups, missed = np.random.default_rng(0), _uncertainty.MOST_GROUPS, 0
    trials, target = 4000, 0.5
    for _ in range(trials):
        sums, rounds = rng.standard_normal(groups), 1
        error = float(_uncertainty.error_of_mean(sums))
        while error > target:
            more = _uncertainty.further_rounds(rounds, error / target, 1e9)
            sums, rounds = sums + math.sqrt(more) * rng.standard_normal(groups), rounds + more
            error = float(_uncertainty.error_of_mean(sums / rounds))
        missed += abs(sums.mean() / rounds) > error
    assert missed <= 0.005 * trials


def test_the_bias_of_what_is_not_linear_is_covered():
    """Of the square of a mean of zero, which is never below it."""
    rng, missed = np.random.default_rng(2), 0
    for _ in range(1000):
        values = rng.standard_normal(16)
        without = ((values.sum() - values) / 15) ** 2
        missed += values.mean() ** 2 > _uncertainty.jackknife(np.asarray(values.mean() ** 2), without)
    assert missed <= 10


SHORT = [
    setting
    for setting in coverage.settings()
    if setting.name
    in (
        "6 batches, rtol = 1e-2",
        "8 batches, penalty, fewest draws",
        "shuffled samples, fewest draws",
        "one shuffle, 32 orders",
    )
]


@pytest.mark.slow
@pytest.mark.parametrize("setting", SHORT, ids=lambda setting: setting.name)
def test_stated_errors_cover_and_are_not_much_wider_than_they_must_be(setting):
    """A short part of `python -m benchmarks.coverage`; docs/validation.md has the whole of it."""
    for row in coverage.measured(setting, 12, answers=coverage.MEAN):
        assert row.share >= 0.97, row
        assert row.ratios.max() <= 1.5, row
        assert np.sqrt(np.mean(np.square(row.ratios))) >= 0.04, row


def test_what_is_sampled_shows_its_error():
    problem = rs.gaussian(24, 6, noise=0.5, seed=1)
    for wishes in ({}, {"momentum": 0.5}):
        run = rs.descend(
            problem, rs.RandomReshuffling(batches=8), 0.05, method="sampling", rtol=1e-2, **wishes
        )
        found = run.limit(), run.compare_limit(), run.stability()
        assert all(0 < each.error < math.inf for each in found)
        assert found[1].error == found[0].error
        assert found[0].training_loss_error == run.training_loss_error(math.inf) > 0
        assert all(" +- " in repr(each) for each in found)
        assert "error=" in repr(found[0])


def test_the_slowest_order_need_not_be_among_those_drawn():
    problem = rs.gaussian(24, 6, noise=0.5, seed=1)
    drawn = rs.descend(problem, rs.ShuffleOnce(batches=4, draws=4), 0.05).stability()
    every = rs.descend(problem, rs.ShuffleOnce(batches=4), 0.05).stability()
    assert drawn.error == math.inf
    assert every.error == 0
    assert drawn.rate < every.rate


def test_an_error_beyond_the_answer_is_told():
    epochs, answers = np.array([1.0, 8.0, 9.0]), np.array([2.0, 9.18, math.inf])
    with pytest.warns(AccuracyWarning, match=r"the risk after 8 epochs, 9.18 with an error of 30; try"):
        warn_of_no_answer(epochs, answers, np.array([1.0, 30.0, math.inf]), 10.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_no_answer(epochs, answers, np.array([1.0, 9.0, math.inf]), 10.0)
        # What has faded is known to be small.
        warn_of_no_answer(epochs, 1e-20 * answers, 1e-18 * np.ones(3), 10.0)


def test_a_run_that_diverges_says_so_and_names_a_step_before_it_speaks_of_accuracy():
    problem = case(24, 30, 1).problem
    run = rs.descend(problem, rs.RandomReshuffling(batches=24), 0.6, method="sampling", budget=1.0)
    with pytest.warns(AccuracyWarning) as said:
        run.risk(10)
    (words,) = {str(one.message) for one in said}
    step = float(
        re.fullmatch(r"at step 0.6 the mean iterate diverges, .*; at (\S+) it converges.*", words)[1]
    )
    assert rs.descend(problem, rs.RandomReshuffling(batches=24), step).converges


def test_the_kind_of_drawn_errors_equals_its_old_name_with_a_warning():
    problem = rs.gaussian(20, 4, noise=0.5, seed=7)
    kind = rs.descend(problem, rs.RandomReshuffling(batches=8), 0.1, method="sampling").error_kind
    assert kind == "confidence 99%"
    assert kind != "exact"
    with pytest.warns(DeprecationWarning, match="confidence 99%"):
        assert kind == "three standard errors"
    with pytest.warns(DeprecationWarning, match="confidence 99%"):
        assert not kind != "three standard errors"  # noqa: SIM202


def test_a_run_that_diverges_says_so_before_it_speaks_of_budgets():
    problem = rs.gaussian(300, 40, noise=0.5, seed=2, covariance=np.geomspace(1, 0.01, 40))
    run = rs.descend(problem, rs.RandomReshuffling(batches=15), step=5.0, method="exact", budget=1e5)
    with pytest.raises(rs.BudgetError, match=r"^at step 5 the mean iterate diverges, .* Besides, .* budget"):
        run.risk(1)
