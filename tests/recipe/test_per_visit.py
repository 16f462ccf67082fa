"""Steps that change with every visit, against the enumeration of orders: all schemes, means and second moments."""

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.epoch import timeline
from tests.oracles import every_order
from tests.oracles.every_scheme import agree, schemes
from tests.oracles.extended import DIGITS, Extended, rounded
from tests.problems import case, close

RECIPES = {
    "plain": {},
    "penalty": {"penalty": 0.3},
    "momentum": {"momentum": 0.6},
    "nesterov": {"momentum": 0.5, "nesterov": True, "penalty": 0.2},
}


def steps_of(visits, epochs, seed=0):
    """Steps (epochs, visits) that are all different, and a pause among them."""
    steps = np.random.default_rng(seed).uniform(0.01, 0.15, (epochs, visits))
    steps[0, -1] = 0.0
    return steps


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(("n", "p", "batches", "equal"), [(6, 3, 3, True), (4, 6, 2, False), (4, 3, 2, True)])
def test_all_schemes(recipe, n, p, batches, equal):
    tiny = case(n, p, batches, equal=equal, seed=n + p)
    for scheme, epochs, fresh in schemes(tiny):
        steps = steps_of(scheme.steps(n), 2 if len(epochs) < 100 else 1)
        agree(tiny, scheme, epochs, fresh, list(steps), rs.PerVisit(steps.ravel()), **RECIPES[recipe])


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(0, 10**6),
    st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.8]), st.booleans(),
)  # fmt: skip
def test_any_shape(n, p, seed, penalty, momentum, nesterov):
    tiny = case(n, p, min(3, n), seed=seed, equal=False)
    recipe = {"penalty": penalty, "momentum": momentum, "nesterov": nesterov and momentum > 0}
    for scheme, epochs, fresh in schemes(tiny):
        if len(epochs) <= 27:
            steps = steps_of(scheme.steps(n), 2, seed)
            agree(tiny, scheme, epochs, fresh, list(steps), rs.PerVisit(steps.ravel()), **recipe)


def test_a_ready_schedule_goes_by_visits():
    tiny = case(6, 3, 3)
    schedule = rs.schedules.ExponentialDecay(0.1, 0.8, per="visit")
    steps = 0.1 * 0.8 ** np.arange(6).reshape(2, 3)
    for scheme, epochs, fresh in schemes(tiny):
        agree(tiny, scheme, epochs, fresh, list(steps), schedule, momentum=0.4)


def test_alpha_is_divided_by_the_visits():
    tiny = case(6, 3, 3)
    schedule = rs.schedules.ExponentialDecay(0.3, 0.8, per="visit")
    of_alpha = rs.descend(tiny.problem, rs.RandomReshuffling(batches=tiny.partition), alpha=schedule)
    of_step = rs.descend(
        tiny.problem,
        rs.RandomReshuffling(batches=tiny.partition),
        step=rs.schedules.ExponentialDecay(0.1, 0.8, per="visit"),
    )
    close(of_alpha.iterate([1, 3]), of_step.iterate([1, 3]))


def test_the_same_step_at_every_visit_is_a_constant_step():
    tiny = case(6, 3, 3)
    for scheme, _, _ in schemes(tiny):
        one, other = (
            rs.descend(tiny.problem, scheme, step, momentum=0.3)
            for step in (0.1, rs.PerVisit(lambda visit: 0.1))
        )
        close(one.iterate([1, 4]), other.iterate([1, 4]))
        close(one.expected_risk([1, 4]).total, other.expected_risk([1, 4]).total)


@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.6, "nesterov": True, "penalty": 0.1}])
def test_drawn_orders(recipe):
    scheme = rs.RandomReshuffling(batches=6)
    problem = rs.gaussian(6, 3, noise=0.5, seed=1)
    warm = rs.schedules.LinearWarmup(0.6, until=6, start=0.0, per="visit")
    exact = rs.descend(problem, scheme, warm, **recipe)
    drawn = rs.descend(problem, scheme, warm, method="sampling", rtol=3e-3, **recipe)
    when = [1, 2, 5]
    error = drawn.iterate_error(when)
    assert (error > 0).all()
    assert (np.linalg.norm(drawn.iterate(when) - exact.iterate(when), axis=1) <= error).all()
    constant = rs.descend(problem, scheme, lambda epoch: 0.25 if epoch == 0 else 0.6, **recipe)
    assert (np.linalg.norm(constant.iterate(when) - exact.iterate(when), axis=1) > 2 * error).any()


def test_drawn_samples():
    problem = rs.gaussian(40, 3, noise=0.5, seed=1)
    recipe = {"step": rs.schedules.OneCycle(0.5, total=50, per="visit"), "momentum": 0.5}
    drawn = rs.descend(problem, rs.SampleReshuffling(batch_size=8), rtol=3e-3, **recipe)
    assert drawn.method == "sampling"
    simulated = rs.simulate(problem, rs.SampleReshuffling(batch_size=8), epochs=[1, 5], runs=4000, **recipe)
    off = np.abs(drawn.iterate([1, 5]) - simulated.iterate.mean)
    assert (off <= 4 * simulated.iterate.standard_error + drawn.iterate_error([1, 5])[:, np.newaxis]).all()
    expected = drawn.expected_risk([1, 5], given_responses=True)
    again = rs.simulate(
        problem, rs.SampleReshuffling(batch_size=8), epochs=[1, 5], runs=4000, seed=7, **recipe
    ).expected_risk
    assert (np.abs(expected.total - again.mean) <= 4 * again.standard_error + expected.error).all()


def test_simulated_runs_take_the_step_of_their_place_in_the_order():
    tiny = case(6, 3, 3)
    steps = steps_of(3, 2)
    training = every_order.Training(tiny.problem.X, tiny.problem.y, list(steps), tiny.start, 0.1, 0.5, True)
    runs = every_order.all_runs(training, every_order.epochs_reshuffled(tiny.partition, [2, 2, 2]))
    simulated = rs.simulate(
        tiny.problem, rs.RandomReshuffling(batches=tiny.partition), rs.PerVisit(steps.ravel()),
        epochs=2, runs=4000, start=tiny.start, penalty=0.1, momentum=0.5, nesterov=True,
    )  # fmt: skip
    off = np.abs(simulated.iterate.mean - every_order.mean_iterate(training, runs))
    assert (off <= 4 * simulated.iterate.standard_error).all()
    assert (simulated.iterate.standard_error < 0.01).all()


def test_what_is_outside_the_row_space_fades_visit_by_visit():
    tiny = case(2, 5, 2)
    steps = steps_of(2, 3)
    training = every_order.Training(tiny.problem.X, tiny.problem.y, list(steps), tiny.start, 0.4, 0.7)
    order = [every_order.batches_in([0, 1], tiny.partition, [1, 1])]
    run = rs.descend(
        tiny.problem, rs.Cyclic(batches=tiny.partition), rs.PerVisit(steps.ravel()),
        start=tiny.start, penalty=0.4, momentum=0.7,
    )  # fmt: skip
    ends = every_order.mean_iterate(training, every_order.all_runs(training, order))
    outside = tiny.problem.row_space.outside
    close(outside(run.iterate(3)), outside(ends))
    assert np.abs(outside(ends)).max() > 0.1


def test_steps_that_are_too_large_diverge():
    problem = rs.gaussian(6, 3, noise=0.5, seed=1)
    run = rs.descend(problem, rs.RandomReshuffling(batches=3), rs.PerVisit(lambda visit: 1e3 + visit))
    assert np.isinf(run.iterate(200)).all()
    assert np.isinf(run.expected_risk(200).total)


def test_the_best_epoch_is_within_the_schedule():
    problem = rs.gaussian(40, 60, noise=1.0, seed=1)
    run = rs.descend(
        problem, rs.RandomReshuffling(batches=4), rs.schedules.OneCycle(0.1, total=80, per="visit")
    )
    found = run.best_epoch()
    assert 0 < found.epoch <= 20
    assert found.risk == pytest.approx(run.risk(np.arange(21)).total.min(), rel=1e-12)


@pytest.mark.parametrize(
    "recipe", [{}, {"momentum": 0.6}, {"penalty": 1e-7, "momentum": 0.9, "nesterov": True}]
)
@pytest.mark.parametrize("condition", [1.0, 1e6, 1e12])
def test_digits_survive_epochs_that_are_followed_by_themselves(condition, recipe):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(7, 3)) * condition ** -np.linspace(0, 1, 3), rng.normal(size=7)
    batches, steps = [[0, 1], [2, 3], [4, 5, 6]], [0.03, 1e-9, 0.02]
    with flint.ctx.workdps(DIGITS):
        state = flint.arb_mat(6, 1)
        for step in steps:
            epoch = Extended(X, y, batches, step, **recipe)
            state = epoch.A * state + epoch.g
        true = rounded(state, 3)
    run = rs.descend(rs.LeastSquares(X, y), rs.RandomReshuffling(batches=batches), steps, **recipe)
    np.testing.assert_allclose(run.iterate(3), true, rtol=1e-10)


def test_epochs_alike_and_unlike_follow_one_another():
    tiny = case(6, 4, 3)
    steps = [0.1, 0.1, 0.1, 0.02, 0.02, 0.1]
    for scheme, _, _ in schemes(tiny):
        run = rs.descend(tiny.problem, scheme, steps, start=tiny.start, momentum=0.5, penalty=0.1)
        one_by_one = rs.descend(
            tiny.problem, scheme, [s * (1 + 1e-15 * k) for k, s in enumerate(steps)],
            start=tiny.start, momentum=0.5, penalty=0.1,
        )  # fmt: skip
        assert len(set(one_by_one.step)) > 2
        close(run.iterate(np.arange(7)), one_by_one.iterate(np.arange(7)))
        close(run.risk(np.arange(7)).total, one_by_one.risk(np.arange(7)).total)


def test_more_drawn_epochs_than_fit_into_memory_are_refused(monkeypatch):
    problem = rs.gaussian(40, 3, noise=0.5, seed=1)
    decay = rs.schedules.ExponentialDecay(0.2, 0.99, per="visit")
    run = rs.descend(problem, rs.SampleReshuffling(batch_size=8), decay, rtol=0.1)
    run.iterate(3)
    monkeypatch.setattr(timeline, "DRAWN_BYTES", 5e4)
    with pytest.raises(rs.BudgetError, match=r"the drawn orders of 3 epochs with steps of their own take"):
        run.iterate(3)
    # Epochs that are alike share theirs.
    warm = rs.schedules.LinearWarmup(0.2, until=5, per="visit")
    assert np.isfinite(
        rs.descend(problem, rs.SampleReshuffling(batch_size=8), warm, rtol=0.1).iterate(500)
    ).all()
