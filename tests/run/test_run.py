"""One run: what it is, its risk, its excess loss, gradient flow, other steps, and what it refuses."""

import copy
import math
import pickle

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings

import reshuffle as rs
from tests.looped import for_all
from tests.problems import SCHEMES, case, cases, close
from tests.schemes.test_designs import DESIGNS, averaged

PROBLEM, MANY = rs.gaussian(12, 5, noise=0.5, seed=2), rs.gaussian(60, 5, noise=0.5, seed=2)


def test_what_has_no_answer_says_so_in_one_way():
    heavy = rs.descend(PROBLEM, rs.RandomReshuffling(batches=2), 0.05, momentum=0.5)
    for question in (lambda: heavy.epoch, lambda: heavy.range_assumption, lambda: heavy.risk_interval(3)):
        with pytest.raises(rs.UnsupportedError, match=r"has no answer for Run\(.*momentum=0.5\); it needs"):
            question()
    with pytest.raises(ValueError, match=r"X_new must have 5 columns"):
        heavy.predict(np.eye(4), 1)


def test_a_computation_tells_what_was_not_done_and_why():
    few = rs.descend(PROBLEM, rs.RandomReshuffling(batches=3), 0.05).computation
    assert (few.mean.taken, few.second_moment.taken) == ("exact", "recursion")
    assert "not sampling: the exact mean is affordable" in repr(few)
    many = rs.descend(rs.gaussian(600, 3, seed=1), rs.SampleReshuffling(batch_size=20), alpha=1.0, rtol=0.1)
    told = repr(many.computation)
    assert many.computation.mean.taken == many.method
    assert "known for at most 4 batches" in told
    assert many.computation.second_moment.taken == "centred maps"
    warm = rs.descend(
        rs.gaussian(600, 3, seed=1), rs.SampleReshuffling(batch_size=20), step=[0.1, 0.2], rtol=0.1
    )
    assert warm.computation.second_moment.taken == "simulation"
    assert "not centred maps: they are for a fresh order in every epoch, at a step that stays" in repr(
        warm.computation
    )
    insisted = rs.descend(
        PROBLEM, rs.RandomReshuffling(batches=3), 0.01, method="cavity", rtol=1.0
    ).computation.mean
    assert insisted.taken == "cavity"
    assert all(
        "method is 'cavity'" in way.rejected_because for way in insisted.methods if way.name != "cavity"
    )
    dear = rs.descend(
        rs.gaussian(60, 3, seed=1), rs.RandomReshuffling(batches=30), 0.01, momentum=0.5, rtol=1.0
    )
    assert "more memory" in dear.computation.mean.methods[0].rejected_because


REFUSED = [
    *((lambda decay=decay: rs.EMA(decay), "decay must be") for decay in (-0.1, 1.0, math.nan, "0.9", None)),
    *((lambda start=start: rs.TailAverage(start), "start must be") for start in (-1, 2.5, math.inf, "2")),
    (lambda: rs.EMA(0.5, per="step"), "per must be"), (lambda: rs.TailAverage(per="step"), "per must be"),
    *((lambda average=average: asked(average=average), r"average must be EMA\(decay\) or TailAverage")
      for average in (0.9, rs.EMA, "ema")),
    (lambda: rs.simulate(PROBLEM, rs.FullBatch(), 0.1, epochs=1, runs=4, average=0.9), "average must be"),
    (lambda: asked(batches=2, average=rs.EMA(0.9)).risk_interval(3), "risk_interval"),
    *((lambda scheme=scheme, way=way: asked(scheme, momentum=0.5, method=way), f"method must be {known} for")
      for scheme, way, known in (
        (rs.RandomReshuffling(batches=3), "cavity", '"auto", "exact" or "sampling"'),
        (rs.SampleReshuffling(batches=3), "exact", '"auto", "cavity" or "sampling"'),
        (rs.Cyclic(batches=3), "sampling", '"auto" or "exact"'),
        (rs.ShuffleOnce(batches=8), "exact", '"auto" or "sampling"'),
      )),
    (lambda: asked(step=[0.1, math.nan]), r"step\[1\] is nan; give a number >= 0 for every epoch"),
    (lambda: asked(penalty=-3.0, unpenalized=[0, 1, 2, 3, 4]), "penalty must be"),
    (lambda: asked().predict([[1.0, 2.0]], 3, return_std=True), "X_new must have 5 columns"),
    (lambda: asked().covariance(3).deviation([[1.0, 2.0]]), "X_new must have 5 columns"),
    (lambda: asked().excess_training_loss(-1), "epochs must be whole"),
    (lambda: rs.descend(MANY, rs.RandomReshuffling(batches=30), alpha=0.5).expected_risk(10**12),
     r"epochs must be at most .* for RandomReshuffling\(batches=30\)"),
    (lambda: rs.descend(rs.LeastSquares([[1.0]], [1.0]), rs.FullBatch(), 0.1).leave_one_out(1), "at least 2 rows"),
]  # fmt: skip


def asked(scheme=None, *, batches=3, step=0.1, **recipe):
    return rs.descend(PROBLEM, scheme or rs.RandomReshuffling(batches=batches), step, **recipe)


@for_all("ask, message", REFUSED)
def test_what_is_refused(ask, message):
    with pytest.raises((ValueError, TypeError, rs.UnsupportedError), match=message):
        ask()


def test_ten_thousand_epochs_at_once_equal_one_at_a_time():
    run = case(30, 20, 3).run("reshuffling")
    epochs = np.arange(10_000)
    together = run.risk(epochs)
    for epoch in (0, 1, 4095, 9999):
        alone = run.risk(epoch)
        for part in ("frozen", "bias", "cross", "variance", "total"):
            assert getattr(together, part)[epoch] == pytest.approx(float(getattr(alone, part)), rel=1e-13)


def test_answers_carry_the_shape_of_the_question():
    run = case(8, 5, 2).run("reshuffling")
    grid = np.array([[0, 1, 2], [3, 10, math.inf]])
    assert run.iterate(grid).shape == (2, 3, 5)
    assert run.training_loss(grid).shape == (2, 3)
    assert run.risk(grid).total.shape == (2, 3)
    assert run.risk(7).total.shape == ()
    assert run.risk([]).total.shape == (0,)
    assert repr(run.risk([])) == "Risk(shape=(0,))"
    assert repr(run.risk([1, 2])).startswith("Risk(shape=(2,), total from ")
    for row, column in np.ndindex(grid.shape):
        close(run.iterate(grid)[row, column], run.iterate(grid[row, column]))
        assert run.risk(grid).variance[row, column] == pytest.approx(run.risk(grid[row, column]).variance)


@pytest.mark.parametrize(("n", "p"), [(9, 5), (5, 9)])
def test_the_flow_is_the_matrix_exponential(n, p):
    tiny = case(n, p, 1)
    X, y, beta_star = tiny.problem.X, tiny.problem.y, tiny.problem.beta_star
    W = X.T @ X / n
    flow = rs.gradient_flow(tiny.problem, start=tiny.start)
    for time in (0.0, 0.3, 7.0):
        decay = scipy.linalg.expm(-time * W)
        noise_map = (np.eye(p) - decay) @ np.linalg.pinv(W) @ X.T / n
        close(flow.iterate(time), decay @ tiny.start + noise_map @ y)
        bias = decay @ (tiny.start - beta_star)
        expected = bias @ tiny.covariance @ bias + 0.25 * np.trace(noise_map.T @ tiny.covariance @ noise_map)
        assert float(flow.risk(time).total) == pytest.approx(expected, rel=1e-10)


def test_the_flow_ends_where_full_batch_descent_ends():
    tiny = case(9, 12, 1, step=0.01)
    flow = rs.gradient_flow(tiny.problem, start=tiny.start)
    close(flow.limit().parameters, tiny.run("full").limit().parameters)
    assert flow.limit().converges
    close(flow.iterate(1e200), flow.iterate(math.inf))


def test_negative_times_are_refused():
    flow = rs.gradient_flow(case(5, 3, 1).problem)
    with pytest.raises(ValueError, match=r"times must be numbers >= 0 or math.inf, but one is -1.0"):
        flow.iterate([-1.0])


EPOCHS = np.array([[0.0, 1.0], [7.0, math.inf]])
TALL = rs.LeastSquares(*(lambda p: (p.X, p.y))(rs.gaussian(20, 4, noise=1.0, seed=1)))
WIDE = rs.LeastSquares(*(lambda p: (p.X, p.y))(rs.gaussian(6, 9, noise=1.0, seed=2)))


def loss(problem, parameters):
    return np.square(parameters @ problem.X.T - problem.y).sum(axis=-1) / (2 * problem.n)


@for_all("problem", [TALL, WIDE])
@for_all("momentum", [0.0, 0.4])
def test_of_the_mean_it_is_the_difference_of_two_losses(problem, momentum):
    start = np.linspace(-1, 1, problem.p)
    run = rs.descend(problem, rs.RandomReshuffling(batches=2), 0.05, start=start, momentum=momentum)
    least = loss(problem, np.linalg.lstsq(problem.X, problem.y, rcond=None)[0])
    plain = loss(problem, run.iterate(EPOCHS)) - least
    np.testing.assert_allclose(run.excess_training_loss(EPOCHS), plain, rtol=1e-10, atol=1e-13)
    assert run.excess_training_loss(3).shape == ()


def test_next_to_the_optimum_no_digits_are_lost():
    """A difference of losses of size one cannot tell 1e-25 from nothing."""
    run = rs.descend(TALL, rs.FullBatch(), 0.5)
    when = np.array([60.0, 70.0])
    excess = run.excess_training_loss(when)
    assert (excess > 0).all()
    slowest = run.stability().rate ** 2
    assert excess[0] < 1e-9
    assert excess[1] / excess[0] == pytest.approx(slowest**10, rel=0.1)


def test_what_diverges_is_infinite():
    run = rs.descend(TALL, rs.RandomReshuffling(batches=2), 60.0)
    assert np.isinf(run.excess_training_loss(math.inf))
    assert np.isinf(run.excess_training_loss([5, math.inf], of_run=True)[1])


A, B, C = rs.RandomReshuffling(batches=2), rs.Cyclic(batches=3), rs.FullBatch()


@pytest.mark.parametrize(
    ("stages", "epochs"), [([(2, A), (2, B), (None, C)], [0, 3, 5, math.inf]), ([(1, A), (3, C)], [0, 2, 4])]
)
def test_a_constant_step_reaches_stages_that_a_schedule_did_not(stages, epochs):
    problem, scheme = rs.gaussian(12, 4, noise=0.5, seed=3), rs.Stages(stages)
    moved = rs.descend(problem, scheme, step=[0.1, 0.1]).with_step(0.07)
    fresh = rs.descend(problem, scheme, step=0.07)
    np.testing.assert_array_equal(moved.risk(epochs).total, fresh.risk(epochs).total)
    np.testing.assert_array_equal(moved.iterate(epochs), fresh.iterate(epochs))
    finite = [epoch for epoch in epochs if math.isfinite(epoch)]
    np.testing.assert_array_equal(moved.expected_risk(finite).total, fresh.expected_risk(finite).total)


@for_all("recipe", [{}, {"momentum": 0.5}, {"penalty": 0.1}, {"penalty": 0.1, "unpenalized": [0]}])
@for_all("scheme", [A, B, rs.SampleReshuffling(batches=2), rs.ShuffleOnce(batches=3)])
def test_all_answers_are_those_of_a_run_made_for_it(scheme, recipe):
    problem = rs.gaussian(12, 4, noise=0.5, seed=3)
    run = rs.descend(problem, scheme, step=3.0, **recipe)
    # What is found out about a run that grows must not be said of one that does not.
    _ = run.risk([1, 5]), run.converges
    moved, fresh = run.with_step(0.05), rs.descend(problem, scheme, step=0.05, **recipe)
    assert moved.converges is fresh.converges is True
    np.testing.assert_allclose(moved.risk([1, 20]).total, fresh.risk([1, 20]).total, rtol=1e-13)
    np.testing.assert_allclose(moved.iterate(7), fresh.iterate(7), rtol=0, atol=1e-13)
    assert moved.method == fresh.method


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
    # One mode that comes from both sides: the risk is smallest after some even epoch, and larger beside it.
    single = rs.LeastSquares([[1.0]], [1.0], beta_star=[1.0], noise=1.0)
    for each in (run, rs.descend(single, rs.FullBatch(), 1.9)):
        best = each.best_epoch()
        assert best.risk == pytest.approx(each.risk(np.arange(1000)).total.min(), rel=1e-12)
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


RECIPES = [{}, {"momentum": 0.5}, {"penalty": 0.1}, {"average": rs.TailAverage(start=1)}]


def answers(run):
    """What a run says of two epochs, as far as its recipe has answers, by name."""
    asked = {
        "iterate": lambda: run.iterate(2),
        "iterate_error": lambda: run.iterate_error(2),
        "training_loss": lambda: run.training_loss(2),
        "risk": lambda: run.risk(2).total,
        "expected_risk": lambda: run.expected_risk(2).total,
        "covariance": lambda: run.covariance(2).matrix,
        "leave_one_out": lambda: run.leave_one_out(2).mean_square,
        "limit": lambda: run.limit().parameters,
        "rate": lambda: run.stability().rate,
        "Z": lambda: run.epoch.Z,
    }
    found = {}
    for name, question in asked.items():
        try:
            found[name] = question()
        except rs.UnsupportedError:
            found[name] = np.nan
    return found


def compare(run):
    expected = answers(run)
    found = answers(pickle.loads(pickle.dumps(run)))
    for name, answer in expected.items():
        np.testing.assert_allclose(found[name], answer, rtol=1e-9, atol=1e-12, err_msg=name)
    np.testing.assert_allclose(copy.deepcopy(run).iterate(2), expected["iterate"], rtol=1e-9, atol=1e-12)


@for_all("name", [name for name in DESIGNS if "dropped" not in name])
def test_every_design(name):
    design, recipe = DESIGNS[name], RECIPES[list(DESIGNS).index(name) % 4]
    if "average" in recipe and averaged(design, recipe["average"]) is None:
        recipe = {"step": [0.05, 0.04, 0.03]}
    compare(rs.descend(rs.gaussian(design.n, 2, noise=0.5), design.scheme, **{"step": 0.05, **recipe}))


@pytest.mark.parametrize(
    ("recipe", "method"), [({}, "cavity"), ({"method": "sampling", "rtol": 0.1}, "sampling")]
)
def test_shuffled_samples_that_are_estimated(recipe, method):
    run = rs.descend(
        rs.gaussian(20, 2, noise=0.5, seed=0), rs.SampleReshuffling(batch_size=2), step=0.05, **recipe
    )
    assert run.method == method
    compare(run)


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copied", "pickled"]
)
def test_what_belongs_to_a_run(copied):
    """One of its outputs, the same with another step, its epoch, and a plan that holds it."""
    drawn = rs.gaussian(24, 3, noise=0.5, seed=0)
    both = rs.LeastSquares(drawn.X, np.column_stack([drawn.y, drawn.y**2]))
    run = rs.descend(both, rs.WithReplacement(batches=4), step=0.05)
    for other in (run, run.output(1), run.with_step(0.02)):
        expected = other.iterate(2)
        np.testing.assert_allclose(copied(other).iterate(2), expected, rtol=1e-12)
    Z = run.epoch.Z
    np.testing.assert_allclose(copied(run.epoch).Z, Z, rtol=1e-12)
    plan = rs.plan(drawn.X, drawn.y, batch_sizes=[24], epochs=20)
    expected = plan.single_run_error
    assert copied(plan).single_run_error == pytest.approx(expected, rel=1e-9)
