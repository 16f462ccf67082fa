"""Courses followed at once, against each of them by itself."""

import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch import timeline
from reshuffle.epoch.timeline import Timeline

EPOCHS = np.array([0.0, 1.0, 2.0, 3.0, 50.0, 51.0, 52.0, 4096.0, 1e12, math.inf])


def engine_of(step, recipe, scheme=rs.ShuffleOnce(batches=3)):  # noqa: B008
    problem = rs.gaussian(6, 4, noise=0.5, seed=3)
    return rs.descend(problem, scheme, step=step, start=[1.0, -1.0, 2.0, 0.5], **recipe)._affine


def one_by_one(engine):
    """A timeline for each of the orders."""
    n, recipe, truth = engine.problem.n, engine.recipe, engine.timeline.truth
    schemes = engine.scheme.timelines(n)
    return [Timeline(scheme, n, engine.blocks, engine.space, recipe, truth) for scheme in schemes]


def close_states(states, expected):
    size = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    np.testing.assert_allclose(states, expected, rtol=1e-9, atol=1e-12 * size)


@pytest.mark.parametrize(
    "recipe", [{}, {"momentum": 0.5}, {"penalty": 0.1}, {"average": rs.EMA(0.8)}], ids=str
)
@pytest.mark.parametrize("step", [0.0, 1e-3, 0.4, 1.5, 40.0])
@pytest.mark.parametrize("with_inputs", [False, True])
def test_courses_at_once_are_those_one_by_one(recipe, step, with_inputs):
    engine = engine_of(step, recipe)
    together, timelines, start = engine.timeline, one_by_one(engine), engine.inside(engine.start)
    inputs = np.vstack([[1.0], engine.blocks.response]) if with_inputs else None
    states = [each.copy() for each in together.states(start, EPOCHS, inputs)]
    for number, alone in enumerate(timelines):
        for each, expected in zip(states, alone.states(start, EPOCHS, inputs), strict=True):
            close_states(each[number], expected)
    assert together.converges == all(alone.converges for alone in timelines)
    assert together.rate == pytest.approx(max(alone.rate for alone in timelines), rel=1e-9)


def test_a_schedule_is_followed_by_all_courses():
    engine = engine_of(lambda epoch: 0.4 / (1 + epoch), {"momentum": 0.3})
    timelines, start, epochs = one_by_one(engine), engine.inside(engine.start), np.array([0.0, 2.0, 5.0])
    states = list(engine.timeline.states(start, epochs))
    for number, alone in enumerate(timelines):
        for each, expected in zip(states, alone.states(start, epochs), strict=True):
            close_states(each[number], expected)


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
