"""Many batches with momentum, a penalty or a schedule: the accuracy that was asked for, and the errors carried."""

import math
import warnings

import numpy as np
import pytest

import reshuffle as rs
from reshuffle._uncertainty import quantile
from reshuffle.epoch.averaging.lattice import Walk, follow
from reshuffle.epoch.averaging.sampling import drawn_rate_error
from reshuffle.run.trajectory import AffineTrajectory
from tests.oracles import every_order
from tests.problems import case

RECIPES = [{"step": 0.1, "penalty": 0.1}, {"step": 0.1, "momentum": 0.5}, {"step": [0.2, 0.1]}]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    "scheme", [rs.RandomReshuffling(batches=4), rs.RandomReshuffling(batch_size=4)], ids=repr
)
def test_drawn_orders_of_fixed_batches_cover_the_exact_mean(recipe, scheme):
    problem = rs.gaussian(13, 4, noise=0.5, seed=1)
    start = np.ones(4)
    exact = rs.descend(problem, scheme, start=start, **recipe)
    drawn = rs.descend(problem, scheme, start=start, method="sampling", rtol=1e-3, **recipe)
    assert (exact.method, drawn.method) == ("exact", "sampling")
    true, found = exact.risk([1, 2]), drawn.risk([1, 2])
    assert (np.abs(found.total - true.total) <= 4 / 3 * found.error).all()
    assert (found.error > 0).all()
    assert (found.error < 0.02 * true.total).all()
    distance = np.linalg.norm(drawn.iterate(2) - exact.iterate(2))
    assert 0 < distance <= 4 / 3 * drawn.iterate_error(2)
    spread = drawn.expected_risk(2)
    assert abs(float(spread.total - exact.expected_risk(2).total)) <= 4 / 3 * float(spread.error)


def test_all_orders_drawn_once_are_the_enumeration():
    tiny = case(5, 3, 2, step=0.3)
    training = every_order.Training(tiny.problem.X, tiny.problem.y, [0.3, 0.3], tiny.start, 0.2, 0.4)
    cut = [[([i], 1) for i in order] for order in every_order.permutations(range(5))]
    runs = every_order.all_runs(training, cut)
    run = rs.descend(
        tiny.problem, rs.SampleReshuffling(batches=5), 0.3, start=tiny.start, penalty=0.2, momentum=0.4
    )
    assert run.method == "exact"
    np.testing.assert_allclose(run.iterate(2), every_order.mean_iterate(training, runs), rtol=1e-11)


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


@pytest.mark.parametrize(
    ("scheme", "method", "known"),
    [
        (rs.RandomReshuffling(batches=3), "cavity", '"auto", "exact" or "sampling"'),
        (rs.SampleReshuffling(batches=3), "exact", '"auto", "cavity" or "sampling"'),
        (rs.Cyclic(batches=3), "sampling", '"auto" or "exact"'),
        (rs.ShuffleOnce(batches=8), "exact", '"auto" or "sampling"'),
    ],
    ids=repr,
)
def test_a_method_that_does_not_apply_is_refused(scheme, method, known):
    with pytest.raises(ValueError, match=f"method must be {known} for .* but it is '{method}'"):
        rs.descend(rs.gaussian(24, 4, seed=1), scheme, 0.1, momentum=0.5, method=method)


def test_single_rows_with_replacement_are_samples_with_replacement():
    problem = rs.gaussian(40, 6, noise=0.5, seed=1)
    one, other = (
        rs.descend(problem, scheme, 0.05, momentum=0.3)
        for scheme in (rs.WithReplacement(batch_size=1), rs.SampleWithReplacement(batch_size=1))
    )
    assert one.expected_risk(3).total == pytest.approx(float(other.expected_risk(3).total), rel=1e-12)
    # The walk over batches, which knows nothing of this, agrees.
    few = rs.gaussian(9, 3, noise=0.5, seed=1)
    batches = rs.descend(few, rs.WithReplacement(batch_size=3), 0.05, penalty=0.1)
    timeline = AffineTrajectory(few, batches.scheme, batches.recipe, np.zeros((3, 1))).timeline
    visits = timeline.visits(0)
    left, right = visits.left[:, np.newaxis], visits.right[:, np.newaxis]

    def move(batch, columns, slot):
        return columns - left * visits.kernel(batch, right * columns, slot)

    *_, (walked,) = follow(Walk(batches.scheme, 9).layers, move, np.eye(visits.dimension))
    # In the coordinates of the singular vectors the mean step is diagonal: what is beside it is rounding.
    np.testing.assert_allclose(np.eye(len(walked)) - timeline.map(0).loss, walked, rtol=1e-12, atol=1e-15)


@pytest.mark.slow
def test_too_many_batches_with_replacement_are_sampled():
    problem, scheme = rs.gaussian(220, 60, noise=0.5, seed=1), rs.WithReplacement(batches=110)
    exact = rs.descend(problem, scheme, 0.005).expected_risk(2)
    drawn = rs.descend(problem, scheme, 0.005, budget=1e7).expected_risk(2)
    assert exact.error == 0 < drawn.error
    assert abs(drawn.total - exact.total) <= 4 / 3 * drawn.error
    assert drawn.mean == pytest.approx(float(exact.mean), rel=1e-12)


def test_one_batch_of_shuffled_samples_is_the_full_batch():
    problem = rs.gaussian(12, 3, noise=0.5, seed=1)
    for recipe in ({}, {"momentum": 0.4}, {"penalty": 0.3}):
        one = rs.descend(problem, rs.SampleReshuffling(batches=1), 0.1, **recipe)
        full = rs.descend(problem, rs.FullBatch(), 0.1, **recipe)
        assert one.mean_square_stability() == full.mean_square_stability()
        found = one.expected_risk([2, math.inf])
        np.testing.assert_allclose(found.total, full.expected_risk([2, math.inf]).total, rtol=1e-12)
        assert (found.spread <= 1e-14).all()
    assert rs.critical_step(problem, rs.SampleReshuffling(batches=1), mean_square=True) == pytest.approx(
        rs.critical_step(problem, rs.FullBatch()), rel=1e-5
    )


@pytest.mark.slow
def test_shuffled_single_samples_are_reshuffled_single_rows():
    problem = rs.gaussian(5, 3, noise=0.5, seed=1)
    for recipe in ({}, {"momentum": 0.4}):
        one = rs.descend(problem, rs.SampleReshuffling(batch_size=1), 0.1, **recipe)
        other = rs.descend(problem, rs.RandomReshuffling(batch_size=1), 0.1, **recipe)
        assert one.mean_square_stability() == other.mean_square_stability()
        found, true = one.expected_risk([3, math.inf]), other.expected_risk([3, math.inf])
        np.testing.assert_allclose(found.total, true.total, rtol=1e-10)


@pytest.mark.parametrize("recipe", [{"momentum": 0.5}, {"penalty": 0.1}])
def test_extreme_steps_are_answered_without_warnings(recipe):
    problem = rs.gaussian(12, 3, noise=0.5, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        huge = rs.descend(problem, rs.SampleReshuffling(batches=4), step=1e10, **recipe)
        assert np.isfinite(huge.risk(0).total)
        assert np.isinf(huge.risk(99).total)


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


def test_what_was_wrong_is_named():
    with pytest.raises(ValueError, match=r"^batch_size must be a whole number of at least 1, but it is None"):
        rs.SampleWithReplacement(batch_size=None)
    with pytest.raises(ValueError, match=r"step\[1\] is nan; give a number >= 0 for every epoch"):
        rs.descend(rs.gaussian(5, 2, seed=0), rs.Cyclic(batches=2), step=[0.1, math.nan])


def test_rtol_is_of_the_root_mean_square_over_the_modes():
    """Eight groups of maps without anything off the diagonal; the last two modes fade at once, as buffers do."""
    deviations = np.random.default_rng(0).standard_normal((8, 4)) * [0.1, 0.001, 0.2, 0.2]
    deviations -= deviations.mean(axis=0)
    decay_rates = np.array([1.5, 0.25, 1.0, 1.0])
    losses = np.array([np.diag(decay_rates + each) for each in deviations])
    standard_errors = deviations.std(axis=0, ddof=1) / np.sqrt(8)
    shares = [0.5 * standard_errors[0] / 1.5, 0.75 * standard_errors[1] / 0.25]
    assert drawn_rate_error(losses, 2) == pytest.approx(
        quantile(8) * np.sqrt(np.mean(np.square(shares))), rel=1e-12
    )
    assert drawn_rate_error(np.zeros((8, 2, 2)), 2) == 0
    assert drawn_rate_error(np.full((8, 2, 2), np.inf), 2) == math.inf
