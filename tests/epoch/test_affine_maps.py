"""Affine maps: orders that are fixed or drawn once, and features of any condition, against exact arithmetic."""

import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch import timeline
from tests.looped import for_all, pairwise
from tests.oracles.exact_runs import Scheme, floats, matrix, posed
from tests.problems import case

BATCHES = [[0, 1], [2, 3], [4, 5, 6]]
RECIPES = [
    {"momentum": 0.6},
    {"penalty": 1e-11},
    {"momentum": 0.9, "penalty": 1e-7},
    {},
    {"momentum": 0.9, "nesterov": True, "penalty": 1e-7},
    {"penalty": 1e-3, "unpenalized": (2,)},
    {"momentum": 0.6, "penalty": 1e-9, "unpenalized": (0, 1)},
]
KINDS = ["Cyclic", "RandomReshuffling"]
EPOCHS = [1, 1000, 10**9, 10**15, math.inf]


def features(condition, rng):
    """Columns in units that are further and further apart: the answers are well determined all the same."""
    return rng.normal(size=(7, 3)) * condition ** -np.linspace(0, 1, 3)


@for_all("kind, recipe, condition", pairwise(KINDS, RECIPES, [1.0, 1e4, 1e8, 1e12]))
def test_all_digits_survive(kind, recipe, condition):
    rng = np.random.default_rng(3)
    X, y = features(condition, rng), rng.normal(size=7)
    true = posed(X, y, Scheme(kind, {"batches": BATCHES}), 0.03, **recipe)
    run = rs.descend(rs.LeastSquares(X, y), getattr(rs, kind)(batches=BATCHES), 0.03, **recipe)
    assert run.stability().converges
    np.testing.assert_allclose(run.iterate(EPOCHS), floats(true.iterates(EPOCHS)), rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("small", [1e-2, 1e-9, 1e-13])
@pytest.mark.parametrize(("scheme", "true"), [(rs.FullBatch(), 6.0), (rs.RandomReshuffling(batches=2), 2.0)])
def test_the_critical_step_does_not_depend_on_a_small_column(scheme, true, small):
    problem = rs.LeastSquares(np.diag([1.0, small]), [0.0, 0.0])
    assert rs.critical_step(problem, scheme, momentum=0.5, mean_square=False) == pytest.approx(true, rel=1e-8)


def test_visits_that_undo_each_other_leave_what_they_agree_on():
    scheme = rs.Cyclic(batches=2)
    agreed = rs.descend(rs.LeastSquares([[1.0], [1.0]], [1.0, 1.0]), scheme, 2.0)
    assert not agreed.stability().converges
    assert abs(agreed.iterate(math.inf)).max() < 1e-12
    torn = rs.descend(rs.LeastSquares([[1.0], [1.0]], [1.0, 2.0]), scheme, 2.0)
    assert torn.iterate(math.inf)[0] == math.inf
    np.testing.assert_allclose(torn.iterate([1, 2, 1000])[:, 0], [2, 4, 2000], rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6, 1e9, 1e12])
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_the_expected_risk_of_the_limit_keeps_its_digits(condition, momentum):
    rng = np.random.default_rng(5)
    X, batches = rng.normal(size=(4, 2)) * [1, 1 / condition], [[0, 1], [2, 3]]
    problem = rs.LeastSquares(X, np.zeros(4), beta_star=[0.0, 0.0], noise=1.0)
    run = rs.descend(problem, rs.RandomReshuffling(batches=batches), 0.1, momentum=momentum)
    true = posed(
        X, np.zeros(4), Scheme("RandomReshuffling", {"batches": batches}), 0.1,
        momentum=momentum, beta_star=matrix(np.zeros((2, 1))), noise=1,
    )  # fmt: skip
    ((exact, _),) = floats(true.expected_risks([math.inf], False))
    assert float(run.expected_risk(math.inf).total) == pytest.approx(exact, rel=1e-11)
    assert run.mean_square_stability().converges


def test_a_defective_epoch():
    """At cos^2 = 4 (step - 1) / step^2 the two eigenvalues of two unit samples coincide: there is no eigenbasis."""
    step = 1.2
    cosine = math.sqrt(4 * (step - 1)) / step
    X = np.array([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]])
    run = rs.descend(rs.LeastSquares(X, [1.0, -2.0]), rs.Cyclic(batches=2), step)
    assert run.stability().rate == pytest.approx(0.2, abs=1e-7)
    epochs, exact = [1, 2, 5, 20], posed(X, [1.0, -2.0], Scheme("Cyclic", {"batches": 2}), step)
    np.testing.assert_allclose(run.iterate(epochs), floats(exact.iterates(epochs)), rtol=1e-13)


def test_a_penalty_may_diverge_outside_the_row_space_if_anything_starts_there():
    tiny = case(3, 5, 2, covariance="identity")
    for start in (np.zeros(5), tiny.start):
        run = rs.descend(tiny.problem, rs.Cyclic(batches=tiny.partition), 0.001, penalty=3000.0, start=start)
        assert not run.stability().converges
        assert np.isfinite(run.risk(1).total)
        assert np.isinf(run.risk(math.inf).total)
        assert (np.abs(run.frozen.project(tiny.start)) == 0).all()
        assert np.isfinite(run.iterate(1)).all()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [rs.ShuffleOnce(batches=4), rs.ShuffleOnce(batches=6, draws=8)], ids=str)
def test_small_chunks_say_the_same_as_large_ones(scheme, monkeypatch):
    """Memory that holds two timelines, and means of sixteen epochs."""
    problem = rs.gaussian(12, 5, noise=0.5, seed=2)

    def answers():
        run = rs.descend(problem, scheme, step=0.2, penalty=0.05)
        epochs = [*range(40), math.inf]
        risk, expected = run.risk(epochs), run.expected_risk(epochs)
        given, best = run.expected_risk(epochs, given_responses=True), run.best_epoch()
        return [
            risk.total, risk.error, expected.total, expected.error, given.total, run.iterate(epochs),
            run.iterate_error(epochs), run.training_loss_error(epochs), run.epoch.matrix,
            [run.stability().rate, best.epoch, best.risk],
        ]  # fmt: skip

    at_once = answers()
    monkeypatch.setattr(timeline, "CHUNK_BYTES", 1.0)
    monkeypatch.setattr(timeline, "BLOCK_BYTES", 1.0)
    assert rs.descend(problem, scheme, step=0.2)._affine.timeline.chunks > 1
    for one, other in zip(at_once, answers(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-13)
