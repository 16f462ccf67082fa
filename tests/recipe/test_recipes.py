"""Nesterov, steps that change with every visit, penalties that leave parameters out: against enumeration."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch import timeline
from tests.looped import for_all
from tests.problems import case, close


def test_alpha_is_divided_by_the_visits_and_steps_that_are_equal_are_one():
    tiny, decay = case(6, 4, 3), rs.schedules.ExponentialDecay
    recipe = {"momentum": 0.5, "penalty": 0.1, "start": tiny.start}
    steps = [0.1, 0.1, 0.1, 0.02, 0.02, 0.1]
    apart = [step * (1 + 1e-15 * k) for k, step in enumerate(steps)]
    visits = [0.1 * 0.8**k for k in range(18)]
    for kind in (rs.RandomReshuffling, rs.Cyclic, rs.ShuffleOnce, rs.WithReplacement):
        scheme, when = kind(batches=tiny.partition), np.arange(7)
        for one, other in (
            ({"step": steps}, {"step": apart}),
            ({"step": 0.1}, {"step": rs.PerVisit(lambda visit: 0.1)}),
            ({"step": rs.PerVisit(visits)}, {"step": decay(0.1, 0.8, per="visit")}),
            ({"step": decay(0.1, 0.8, per="visit")}, {"alpha": decay(0.3, 0.8, per="visit")}),
            ({"step": [0.1, 0.05, 0.2] * 2}, {"alpha": [0.3, 0.15, 0.6] * 2}),
        ):
            runs = [rs.descend(tiny.problem, scheme, **each, **recipe) for each in (one, other)]
            close(runs[0].iterate(when[:7]), runs[1].iterate(when))
            close(runs[0].expected_risk(when[:3]).total, runs[1].expected_risk(when[:3]).total)


@pytest.mark.parametrize("mean_square", [False, True])
def test_critical_steps(mean_square):
    problem, scheme = case(6, 8, 3).problem, rs.RandomReshuffling(batches=3)
    recipe = {"penalty": 2.0, "unpenalized": [0, 4]}
    step = rs.critical_step(problem, scheme, mean_square=mean_square, **recipe)
    for near, stable in ((0.999, True), (1.001, False)):
        run = rs.descend(problem, scheme, near * step, **recipe)
        assert (run.mean_square_stability() if mean_square else run.stability()).converges == stable
    others = [rs.critical_step(problem, scheme, penalty=q, mean_square=False) for q in (0.0, 2.0)]
    assert not any(step == pytest.approx(other, rel=1e-3) for other in others)
    # One row x = 1: a visit multiplies parameter and buffer by [[1 - (1 + m) s, -m^2 s], [1, m]], whose trace is
    # 1 + m - (1 + m) s and whose determinant is m - m s; an eigenvalue is -1 where 1 + both is zero.
    for momentum in (0.3, 0.9):
        recipe = {"momentum": momentum, "nesterov": True, "mean_square": mean_square}
        found = rs.critical_step(rs.LeastSquares([[1.0]], [1.0]), rs.FullBatch(), **recipe)
        assert found == pytest.approx((2 + 2 * momentum) / (1 + 2 * momentum), rel=1e-8)


def test_steps_that_are_too_large_diverge_and_the_best_epoch_is_within_the_schedule():
    problem, scheme = rs.gaussian(40, 60, noise=1.0, seed=1), rs.RandomReshuffling(batches=4)
    run = rs.descend(problem, scheme, rs.PerVisit(lambda visit: 1e3 + visit))
    assert np.isinf(run.iterate(200)).all()
    assert np.isinf(run.expected_risk(200).total)
    run = rs.descend(problem, scheme, rs.schedules.OneCycle(0.1, total=80, per="visit"))
    found = run.best_epoch()
    assert 0 < found.epoch <= 20
    assert found.risk == pytest.approx(run.risk(np.arange(21)).total.min(), rel=1e-12)


def test_more_drawn_epochs_than_fit_into_memory_are_refused(monkeypatch):
    problem, scheme = rs.gaussian(40, 3, noise=0.5, seed=1), rs.SampleReshuffling(batch_size=8)
    run = rs.descend(problem, scheme, rs.schedules.ExponentialDecay(0.2, 0.99, per="visit"), rtol=0.1)
    run.iterate(3)
    monkeypatch.setattr(timeline, "DRAWN_BYTES", 5e4)
    with pytest.raises(rs.BudgetError, match=r"the drawn orders of 3 epochs with different steps take"):
        run.iterate(3)
    # Epochs that are alike share theirs.
    warm = rs.schedules.LinearWarmup(0.2, until=5, per="visit")
    assert np.isfinite(rs.descend(problem, scheme, warm, rtol=0.1).iterate(500)).all()


def test_columns_that_no_row_tells_apart():
    X = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [1.0, 2.0, 5.0]])
    problem = rs.LeastSquares(X, np.ones(3))
    run = rs.descend(problem, rs.FullBatch(), 0.01, penalty=0.1, unpenalized=[0, 1])
    message = r"linearly independent .* but \[0, 1\] have rank 1: nothing would act"
    with pytest.raises(ValueError, match=message):
        run.iterate(3)
    # One of them is enough to be told apart from the other.
    one = rs.descend(problem, rs.FullBatch(), 0.01, penalty=0.1, unpenalized=[1])
    ridge = np.linalg.solve(X.T @ X / 3 + np.diag([0.1, 0, 0.1]), X.T @ np.ones(3) / 3)
    close(one.limit().parameters, ridge, 1e-11)


@for_all(
    "recipe, message",
    [
        ({"unpenalized": [4]}, "unpenalized must be a whole number between -4 and 3, but it is 4"),
        ({"unpenalized": [-5]}, "unpenalized must be a whole number between -4 and 3, but it is -5"),
        ({"unpenalized": [0, 0]}, r"unpenalized must name a column once, but it is \[0, 0\]"),
        ({"unpenalized": [0, -4]}, r"unpenalized must name a column once, but it is \[0, -4\]"),
        ({"unpenalized": [0.5]}, r"unpenalized must be a list of column numbers, such as \[0\], but it is \[0.5\]"),
        ({"unpenalized": [True, False, False, False]}, "unpenalized must be a list of column numbers"),
        ({"unpenalized": 0}, "unpenalized must be a list of column numbers"),
        ({"unpenalized": "x"}, "unpenalized must be a list of column numbers"),
        ({"nesterov": True}, r"momentum must be above 0 with nesterov=True, .* but it is 0.0"),
        ({"nesterov": 1, "momentum": 0.5}, "nesterov must be True or False, but it is 1"),
    ],
)  # fmt: skip
def test_what_is_refused(recipe, message):
    problem, recipe = case(6, 4, 3).problem, {"penalty": 0.1, **recipe}
    for ask in (
        lambda: rs.descend(problem, rs.FullBatch(), 0.1, **recipe),
        lambda: rs.simulate(problem, rs.FullBatch(), 0.1, epochs=1, runs=4, **recipe),
        lambda: rs.critical_step(problem, rs.FullBatch(), **recipe),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


def test_no_column_and_all_columns():
    problem, scheme = case(6, 4, 3).problem, rs.RandomReshuffling(batches=3)

    def recipe(**given):
        return rs.descend(problem, scheme, 0.1, **given).recipe

    assert recipe() == recipe(unpenalized=[0, 1]) == recipe(penalty=0.3, unpenalized=[3, 0, 1, 2])
    assert recipe(penalty=0.3) == recipe(penalty=0.3, unpenalized=[])
    some = recipe(penalty=0.3, unpenalized=[-1, 0])
    assert some.unpenalized == (0, 3)
    assert "penalty=0.3, unpenalized=[0, 3]" in repr(some)
    assert "nesterov=True" in repr(recipe(momentum=0.5, nesterov=True))
