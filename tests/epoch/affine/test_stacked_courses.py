"""Courses followed at once, against each of them by itself."""

import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch.affine.course import can_be_stacked, stacked_states

EPOCHS = np.array([0.0, 1.0, 2.0, 3.0, 50.0, 51.0, 52.0, 4096.0, 1e12, math.inf])


@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5}, {"penalty": 0.1}], ids=str)
@pytest.mark.parametrize("step", [0.0, 1e-3, 0.4, 1.5, 40.0])
@pytest.mark.parametrize("fed", [False, True])
def test_courses_at_once_are_those_one_by_one(recipe, step, fed):
    problem = rs.gaussian(6, 4, noise=0.5, seed=3)
    run = rs.descend(problem, rs.ShuffleOnce(3), step=step, start=[1.0, -1.0, 2.0, 0.5], **recipe)
    engine = run._affine
    courses, start = engine.courses, engine.inside(run.start)
    inputs = np.concatenate([[1.0], engine.blocks.response]) if fed else None
    assert can_be_stacked(courses)
    together = [states.copy() for states in stacked_states(courses, start, EPOCHS, inputs)]
    one_by_one = [list(course.states(start, EPOCHS, inputs)) for course in courses]
    for number, alone in enumerate(one_by_one):
        for states, expected in zip(together, alone, strict=True):
            size = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
            np.testing.assert_allclose(states[number], expected, rtol=1e-9, atol=1e-12 * size)


def test_one_course_a_schedule_and_large_states_are_followed_by_themselves():
    few, large = rs.gaussian(6, 4, seed=3), rs.gaussian(70, 66, seed=3)
    assert not can_be_stacked(rs.descend(few, rs.Cyclic(3), step=0.1)._affine.courses)
    assert not can_be_stacked(
        rs.descend(few, rs.ShuffleOnce(3), step=lambda epoch: 0.1 / (1 + epoch))._affine.courses
    )
    assert not can_be_stacked(rs.descend(large, rs.ShuffleOnce(2), step=0.1)._affine.courses)
