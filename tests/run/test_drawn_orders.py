"""Answers from drawn orders and from the cavity equation beside exact ones: errors cover, and are not too wide."""

import math

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
