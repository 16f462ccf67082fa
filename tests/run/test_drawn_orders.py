"""Answers from drawn orders and the cavity equation beside exact ones: errors cover, and are not too wide."""

import math
import warnings

import numpy as np
import pytest

import reshuffle as rs
from tests.looped import for_all

FIXED, SAMPLES = rs.RandomReshuffling(batches=6), rs.SampleReshuffling(batch_size=5)
NESTEROV = {"momentum": 0.6, "nesterov": True, "penalty": 0.3}
WARM = {"step": rs.schedules.LinearWarmup(0.2, until=6, start=0.0, per="visit")}
DRAWN, ROUGH = ({"method": "sampling", "rtol": rtol} for rtol in (3e-3, 1e-2))
CAVITY = {"method": "cavity", "rtol": 1e-2}
CASES = [
    *((FIXED, recipe, DRAWN) for recipe in ({}, WARM, NESTEROV, {**WARM, **NESTEROV})),
    *((FIXED, {"penalty": 0.7, "unpenalized": (1, 2), "momentum": 0.6, **step}, DRAWN) for step in ({}, WARM)),
    *((FIXED, {"average": rs.EMA(0.8), **recipe}, ROUGH) for recipe in ({}, {"momentum": 0.5, "penalty": 0.2})),
    *((FIXED, {"average": average}, ROUGH)
      for average in (rs.EMA(0.9, per="visit"), rs.TailAverage(2), rs.TailAverage(2, per="visit"))),
    *((rs.RandomReshuffling(batches=10), {"average": average, "step": 0.02}, CAVITY)
      for average in (rs.EMA(0.9), rs.TailAverage(1))),
    *((SAMPLES, recipe, ROUGH) for recipe in ({}, {"momentum": 0.6}, {"penalty": 0.4}, {"step": [0.2, 0.1]})),
    # The mean before the first epoch is zero then, beside which noise enters.
    *((SAMPLES, {"start": "the truth", "seed": 2, **recipe}, ROUGH)
      for recipe in ({}, {"momentum": 0.5}, {"penalty": 0.3})),
    (rs.ShuffleOnce(batches=5), {"step": 0.2}, {"scheme": rs.ShuffleOnce(batches=5, draws=60, seed=1)}),
]  # fmt: skip


def covered(exact, found, epochs):
    """The largest errors of each question, in units of its answers; all are above zero and cover."""
    wide = []

    def within(answer, error, truth):
        axes = tuple(range(np.ndim(error), np.ndim(answer)))
        off, size = (np.sqrt(np.square(each).sum(axis=axes)) for each in (answer - truth, truth))
        assert (off <= error + 1e-12 * size).all()
        assert np.all(error > 0)
        wide.append(np.max(error / size))

    within(found.iterate(epochs), found.iterate_error(epochs), exact.iterate(epochs))
    within(found.risk(epochs).total, found.risk(epochs).error, exact.risk(epochs).total)
    within(found.training_loss(epochs), found.training_loss_error(epochs), exact.training_loss(epochs))
    if found.recipe.average is None:
        for given in (False, True):
            answer, truth = (run.expected_risk(epochs[:2], given_responses=given) for run in (found, exact))
            within(answer.total, answer.error, truth.total)
        rows, answer, truth = np.eye(found.problem.p), *(run.covariance(epochs[:2]) for run in (found, exact))
        within(answer.matrix, answer.error, truth.matrix)
        within(answer.deviation(rows), answer.deviation_error(rows), truth.deviation(rows))
    return wide


@pytest.mark.slow
@for_all("scheme, recipe, way", CASES)
def test_errors_cover_the_exact_answers(scheme, recipe, way):
    # The exact mean of shuffled samples with a recipe is for few of them, the cavity equation for many.
    shapes = {SAMPLES: [(9, 3), (6, 9)], FIXED: [(13, 4), (6, 9)]}.get(scheme, [(300, 5)])
    for n, p in [(10, 4)] if "scheme" in way else shapes[:1] if "start" in recipe else shapes:
        problem = rs.gaussian(n, p, noise=0.5, seed=1)
        asked = {"step": 0.05, **recipe}
        if "start" in recipe:
            asked["start"] = problem.beta_star
        exact = rs.descend(problem, scheme, method="exact", **asked)
        # Of more columns than rows some are hardly seen: there so many digits take long.
        found = rs.descend(problem, **{"scheme": scheme, **asked, **way, **({"rtol": 3e-2} if p > n else {})})
        assert "scheme" in way or found.method == way["method"]
        epochs = [3, 7, 20, math.inf] if np.isscalar(asked["step"]) else [1, 2]
        iterate, risk, _, *spreads = covered(exact, found, epochs)
        assert max(iterate, risk, *spreads[:2]) < 0.2
        assert max(spreads, default=0.0) < 1


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [{"penalty": 0.1}, {"momentum": 0.5}])
def test_thirty_batches_with_a_recipe_are_sampled(recipe):
    problem = rs.gaussian(30, 5, noise=0.5, seed=1)
    run = rs.descend(problem, rs.RandomReshuffling(batches=30), step=0.01, **recipe)
    assert run.method == "sampling"
    risk = run.risk([5, math.inf])
    assert (risk.error > 0).all()
    assert (risk.error < 1e-2 * risk.total).all()
    assert 0 < run.limit().error < 1e-2
    assert float(run.expected_risk(5).error) > 0
    square = run.mean_square_stability()
    assert square.converges
    assert 0 < square.error < 1e-3
    with pytest.raises(rs.BudgetError, match=r"batches is 30"):
        rs.descend(problem, rs.RandomReshuffling(batches=30), step=0.01, method="exact", **recipe).risk(1)


def test_the_exact_mean_square_of_many_plain_batches_is_refused():
    problem, scheme = rs.gaussian(30, 5, noise=0.5, seed=1), rs.RandomReshuffling(batches=14)
    run = rs.descend(problem, scheme, step=0.01, method="exact", budget=1e10)
    with pytest.raises(rs.BudgetError, match=r"try fewer batches"):
        run.mean_square_stability()


@pytest.mark.slow
def test_seed_rtol_and_budget_are_heard():
    problem, scheme = rs.gaussian(24, 4, noise=0.5, seed=1), rs.SampleReshuffling(batches=8)

    def risk(**wanted):
        return rs.descend(problem, scheme, alpha=0.5, momentum=0.5, **wanted).risk(5)

    one, other = risk(seed=0, rtol=1e-2), risk(seed=1, rtol=1e-2)
    assert one.total != other.total
    assert abs(one.total - other.total) <= one.error + other.error
    assert risk(rtol=2e-4).error < one.error
    with pytest.warns(UserWarning, match=r"by sampling, but rtol is 1e-08; .* larger budget") as heard:
        risk(rtol=1e-8, budget=1e9)
    assert heard[0].filename == __file__


@pytest.mark.slow
def test_too_many_batches_with_replacement_are_sampled():
    problem, scheme = rs.gaussian(220, 60, noise=0.5, seed=1), rs.WithReplacement(batches=110)
    exact = rs.descend(problem, scheme, 0.005).expected_risk(2)
    drawn = rs.descend(problem, scheme, 0.005, budget=1e7).expected_risk(2)
    assert exact.error == 0 < drawn.error
    assert abs(drawn.total - exact.total) <= 4 / 3 * drawn.error
    assert drawn.mean == pytest.approx(float(exact.mean), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("scheme", [rs.ShuffleOnce(batches=3), rs.SampleReshuffling(batches=3)], ids=repr)
def test_tiny_steps_with_momentum_end_without_warnings(scheme, seed):
    problem = rs.gaussian(12, 3, noise=0.5, seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = rs.descend(problem, scheme, step=1e-13, momentum=0.5)
        assert np.isfinite(run.risk(math.inf).total) == run.stability().converges
        slow, fast = (rs.descend(problem, scheme, step, momentum=0.5) for step in (1e-10, 1e-7))
        assert slow.risk(math.inf).total == pytest.approx(float(fast.risk(math.inf).total), rel=1e-6)


@for_all("recipe", [{"momentum": 0.5}, {"penalty": 0.1}])
def test_extreme_steps_are_answered_without_warnings(recipe):
    """Where the cavity equation has no solution, orders are drawn, and what they grow to is infinite."""
    problem = rs.gaussian(12, 3, noise=0.5, seed=1)
    huge = rs.descend(problem, rs.SampleReshuffling(batches=4), step=1e10, **recipe)
    assert np.isfinite(huge.risk(0).total)
    assert np.isinf(huge.risk(99).total)
