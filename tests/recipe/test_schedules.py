"""Schedules as values: equal, hashable, readable; and what they refuse."""

import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.errors import UnsupportedError
from tests.looped import for_all

S = rs.schedules
PROBLEM = rs.gaussian(12, 3, noise=0.5, seed=0)


def flat(visit):
    return 0.1


READY = [
    S.StepDecay(0.1, 3, 0.5),
    S.ExponentialDecay(0.1, 0.9),
    S.CosineAnnealing(0.1, 10, 0.01),
    S.ConstantWarmup(0.1, 2, 0.5),
    S.LinearWarmup(0.1, 2, 0.5),
    S.OneCycle(0.1, 10),
    S.WarmupStableDecay(0.1, 10, 2, 3),
]


@for_all("schedule", READY)
def test_schedules_are_values(schedule):
    again = eval(repr(schedule), vars(S))
    assert again == schedule
    assert hash(again) == hash(schedule)
    given = {name: getattr(schedule, name) for name in schedule.__dataclass_fields__}
    by_visits = type(schedule)(**given | {"per": "visit"})
    assert by_visits != schedule
    assert eval(repr(by_visits), vars(S)) == by_visits
    with pytest.raises(AttributeError):
        schedule.per = "visit"
    run, other = (rs.descend(PROBLEM, rs.Cyclic(batches=3), step=step) for step in (schedule, again))
    assert run.recipe == other.recipe
    assert repr(schedule) in repr(run)
    assert run.step == schedule
    # Numbers of any kind are cleaned.
    given = {name: np.float64(v) if isinstance(v, float) else v for name, v in given.items()}
    assert type(schedule)(**given) == schedule


def test_lists_of_visits_are_values():
    assert rs.PerVisit([1, 2]) == rs.PerVisit(np.array([1.0, 2.0])) == rs.PerVisit((1, 2))
    assert hash(rs.PerVisit([1, 2])) == hash(rs.PerVisit((1, 2)))
    assert rs.PerVisit([1, 2]) != rs.PerVisit([1, 3])
    assert rs.PerVisit(flat) == rs.PerVisit(flat)
    assert repr(rs.PerVisit(flat)) == "PerVisit(flat)"
    assert repr(rs.PerVisit(range(100))) == "PerVisit([0, 1, 2, 3, ...])"
    joined = S.Joined([S.LinearWarmup(0.1, 3), S.StepDecay(0.1, 3)], at=[3])
    assert joined == S.Joined((S.LinearWarmup(0.1, 3), S.StepDecay(0.1, 3)), at=(3,))
    assert len({joined, joined}) == 1


@for_all(
    "make, message",
    [
        (lambda: S.StepDecay(-0.1, 3), "step must be a finite number >= 0, but it is -0.1"),
        (lambda: S.StepDecay(math.nan, 3), "step must be a finite number >= 0, but it is nan"),
        (lambda: S.StepDecay(0.1, 0), "every must be a whole number of at least 1, but it is 0"),
        (lambda: S.StepDecay(0.1, 3, 1.5), "factor must be above 0 and at most 1, but it is 1.5"),
        (lambda: S.StepDecay(0.1, 3, 0.0), "factor must be a finite number > 0, but it is 0.0"),
        (lambda: S.ExponentialDecay(0.1, 1.01), "factor must be above 0 and at most 1, but it is 1.01"),
        (lambda: S.ExponentialDecay(0.1, -0.5), "factor must be a finite number > 0, but it is -0.5"),
        (lambda: S.CosineAnnealing(0.1, 2.5), "until must be a whole number of at least 1, but it is 2.5"),
        (lambda: S.CosineAnnealing(0.1, 5, -1), "end must be a finite number >= 0, but it is -1"),
        (lambda: S.ConstantWarmup(0.1, -1), "until must be a whole number of at least 0, but it is -1"),
        (lambda: S.ConstantWarmup(0.1, 5, 2.0), "factor must be between 0 and 1, but it is 2.0"),
        (lambda: S.LinearWarmup(0.1, 5, 1.1), "start must be between 0 and 1, but it is 1.1"),
        (lambda: S.LinearWarmup(0.1, 5, end=-1), "end must be a finite number >= 0, but it is -1"),
        (lambda: S.OneCycle(0.1, 10, warmup=1.2), "warmup must be between 0 and 1, but it is 1.2"),
        (lambda: S.OneCycle(0.1, 10, 0.6, three_phase=True), "warmup must be between 0 and 0.5, but it is 0.6"),
        (lambda: S.OneCycle(0.1, 0), "total must be a whole number of at least 1, but it is 0"),
        (lambda: S.OneCycle(0.1, 5, shape="cos"), 'shape must be "cosine" or "linear", but it is \'cos\''),
        (lambda: S.OneCycle(0.1, 5, divisor=0), "divisor must be a finite number > 0, but it is 0"),
        (lambda: S.WarmupStableDecay(0.1, 10, 6, 5), "warmup is 6, decay is 5 and total is 10"),
        (lambda: S.WarmupStableDecay(0.1, 10, 11, 0), "warmup and decay must fit into total, but warmup is 11"),
        (lambda: S.StepDecay(0.1, 3, per="batch"), 'per must be "epoch" or "visit", but it is \'batch\''),
        (lambda: S.OneCycle(0.1, 3, per=None), 'per must be "epoch" or "visit", but it is None'),
        (lambda: rs.PerVisit([0.1, -0.2]), r"steps must hold numbers >= 0, but steps\[1\] is -0.2"),
        (lambda: rs.PerVisit([0.1, math.inf]), r"steps must be finite, .* give a number >= 0 for every visit"),
        (lambda: rs.PerVisit([]), r"steps must be a list with one entry per visit .* shape is \(0,\)"),
        (lambda: rs.PerVisit(0.1), r"steps must be a list with one entry per visit .* shape is \(\)"),
        (lambda: S.Joined([S.StepDecay(1, 1), S.StepDecay(1, 1, per="visit")], [2]), "all per epoch or"),
        (lambda: S.Joined([S.StepDecay(1, 1), S.StepDecay(1, 1)], []), "at must hold 1 ascending whole numbers"),
        (lambda: S.Joined([S.StepDecay(1, 1)] * 3, [5, 5]), r"at must hold 2 ascending .* but it is \[5, 5\]"),
        (lambda: S.Joined([S.OneCycle(1, 3), S.StepDecay(1, 1)], [4]), "has 3 steps between 0 and 4"),
    ],
)  # fmt: skip
def test_what_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_what_is_no_schedule():
    with pytest.raises(TypeError, match=r"schedules must be a list of schedules, such as StepDecay\(...\)"):
        S.Joined([0.1, 0.2], [3])
    with pytest.raises(
        TypeError, match=r"step must be a schedule that is made, .* the class StepDecay; call it"
    ):
        rs.descend(PROBLEM, rs.Cyclic(batches=3), step=S.StepDecay)


def asks(step, epochs):
    scheme = rs.RandomReshuffling(batches=3)
    yield lambda: rs.descend(PROBLEM, scheme, step=step).risk(epochs)
    yield lambda: rs.descend(PROBLEM, scheme, step=step).iterate(epochs)
    yield lambda: rs.descend(PROBLEM, scheme, step=step).expected_risk(epochs)
    yield lambda: rs.simulate(PROBLEM, scheme, step=step, epochs=epochs, runs=4)


@for_all(
    "step, epochs, message",
    [
        (rs.PerVisit([0.1] * 8), 3, "epochs must be at most 2, the length of the step schedule of 8 visits, 3 per"),
        (S.OneCycle(0.1, 7, per="visit"), 3, "at most 2, the length of the step schedule of 7 visits, 3 per epoch"),
        (S.OneCycle(0.1, 7), 8, "epochs must be at most 7, the length of the step schedule, but one is 8"),
        (rs.PerVisit(lambda visit: 0.1 - 0.04 * visit), 2, r"step\(3\) must be a finite number >= 0, but it is -"),
        (rs.PerVisit(lambda visit: math.nan if visit == 4 else 0.1), 2, r"step\(4\) must be .* but it is nan"),
        (rs.PerVisit(lambda visit: "a"), 1, r"step\(0\) must be a finite number >= 0, but it is 'a'"),
    ],
)  # fmt: skip
def test_schedules_that_end_too_early_or_go_wrong(step, epochs, message):
    for ask in asks(step, epochs):
        with pytest.raises(ValueError, match=message):
            ask()


def test_schedules_have_no_limit():
    for schedule in (*READY, rs.PerVisit(flat)):
        run = rs.descend(PROBLEM, rs.RandomReshuffling(batches=3), step=schedule)
        with pytest.raises(ValueError, match="epochs must be"):
            run.risk(math.inf)
        with pytest.raises(
            UnsupportedError, match=r"mean_square_stability has no answer .* needs a constant step"
        ):
            run.mean_square_stability()
