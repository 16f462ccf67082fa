"""Which method auto takes, that it works from one batch to thousands, and what drawn orders answer."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_digits

import reshuffle as rs
from tests.looped import for_all
from tests.problems import case, close


@for_all(
    "scheme, alpha, method",
    [
        (rs.RandomReshuffling(batches=1), 0.1, "exact"),
        (rs.RandomReshuffling(batches=8), 0.1, "exact"),
        (rs.RandomReshuffling(batches=100), 1e-3, "cavity"),
        (rs.RandomReshuffling(batches=100), 0.5, "cavity"),
        (rs.RandomReshuffling(batches=400), 0.1, "cavity"),
        (rs.RandomReshuffling(batches=400), 0.5, "cavity"),
        (rs.SampleReshuffling(batches=4), 0.1, "exact"),
        (rs.SampleReshuffling(batches=40), 1e-3, "cavity"),
        (rs.SampleReshuffling(batch_size=10), 0.5, "cavity"),
        (rs.SampleReshuffling(batches=150, normalize="equal"), 0.5, "sampling"),
        (rs.FullBatch(), 0.1, "exact"),
        (rs.WithReplacement(batches=100), 0.1, "exact"),
    ],
)
def test_auto_takes_the_method_that_fits(scheme, alpha, method):
    problem = rs.gaussian(400, 5, noise=0.5, seed=0)
    run = rs.descend(problem, scheme, alpha=alpha, rtol=1e-4)
    assert run.epoch.method == method
    assert run.epoch.mean.missed <= 1e-4
    assert (run.epoch.error == 0) == (method == "exact")
    risk = run.risk([0, 1, 10, math.inf])
    assert (risk.error <= 2e-3 * risk.total.max()).all()
    assert risk.error[0] <= 1e-12
    assert run.limit().error == pytest.approx(float(run.iterate_error(math.inf)))


def test_auto_is_exact_only_within_its_budget():
    problem = rs.gaussian(400, 5, noise=0.5, seed=0)
    exact = rs.descend(problem, rs.RandomReshuffling(batches=10), alpha=0.3)
    cheaper = rs.descend(problem, rs.RandomReshuffling(batches=10), alpha=0.3, budget=1e7, rtol=1e-2)
    assert exact.epoch.method == "exact"
    assert cheaper.epoch.method == "sampling"
    assert np.abs(cheaper.risk(5).total - exact.risk(5).total) <= 2 * cheaper.risk(5).error


@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5}], ids=str)
def test_the_choice_is_the_method_that_was_taken_once_the_mean_is_known(recipe):
    """Twelve samples are too few for the cavity equation, as only its solution tells."""
    problem = rs.gaussian(12, 2, noise=0.5, seed=0)
    run = rs.descend(problem, rs.SampleReshuffling(batches=6), 0.1, rtol=2e-3, **recipe)
    assert run.method == "sampling"
    chosen = run.computation.mean
    assert chosen.taken == "sampling"
    (cavity,) = (way for way in chosen.methods if way.name == "cavity")
    assert cavity.rejected_because.startswith("it may be off by ")
    assert cavity.rejected_because.endswith("but rtol is 0.002")
    assert "not cavity" in repr(chosen)


def test_of_ways_that_all_miss_the_choice_is_the_best():
    epoch = rs.descend(
        rs.gaussian(300, 2, seed=0), rs.SampleReshuffling(batches=6), 0.1, rtol=1e-9, budget=1e8
    ).epoch
    with pytest.warns(rs.AccuracyWarning, match=r"by cavity, but rtol is 1e-09"):
        assert epoch.method == "cavity"
    missed = {way.name: way.rejected_because for way in epoch.choice.methods}
    assert epoch.choice.taken == "cavity"
    assert missed["sampling"].startswith("it may be off by ")


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [{"step": 0.15}, {"step": 0.03, "momentum": 0.9}], ids=repr)
def test_digits_of_what_grows_are_not_drawn_for(recipe):
    """rtol is out of reach of the cavity equation, but a mean that explodes is answered at once, with its error."""
    X, y = load_digits(return_X_y=True)
    X = X[:500, X[:500].std(axis=0) > 0]
    problem = rs.LeastSquares((X - X.mean(axis=0)) / X.std(axis=0), y[:500] - y[:500].mean())
    scheme = rs.SampleReshuffling(batch_size=32)
    quick = rs.descend(problem, scheme, **recipe)
    stability = quick.stability()
    assert quick.method == "cavity"
    assert stability.rate - stability.error > 1
    drawn = rs.descend(problem, scheme, **recipe, method="sampling", rtol=0.05)
    errors = quick.iterate_error(1) + drawn.iterate_error(1)
    assert np.linalg.norm(quick.iterate(1) - drawn.iterate(1)) <= errors


@for_all(
    "arguments, message",
    [
        (
            {"method": "guess"},
            r'must be "auto", "exact", "cavity" or "sampling", but it is \'guess\'',
        ),
        ({"method": "series"}, r'but it is \'series\', which is no more; try "cavity"'),
        ({"rtol": 0}, r"rtol must be a finite number > 0, but it is 0"),
        ({"rtol": math.nan}, r"rtol must be a finite number > 0, but it is nan"),
        ({"budget": -1}, r"budget must be a finite number > 0, but it is -1"),
        ({"seed": 0.5}, r"seed must be a whole number of at least 0, but it is 0.5"),
    ],
)
def test_wishes_that_are_none(arguments, message):
    with pytest.raises(ValueError, match=message):
        rs.descend(rs.gaussian(20, 3, seed=0), rs.RandomReshuffling(batches=4), 0.1, **arguments)


@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5}])
def test_insisting_on_the_exact_mean_does_not_lift_the_budget(recipe):
    problem = rs.gaussian(400, 50, noise=0.5, seed=0)
    run = rs.descend(problem, rs.RandomReshuffling(batches=18), 0.01, method="exact", **recipe)
    with pytest.raises(
        rs.BudgetError, match=r"18 batches takes .* (operations|memory).*; try .* a larger budget"
    ):
        run.risk(3)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [{}, {"momentum": 0.5}])
def test_first_draws_beyond_the_budget_are_refused(recipe):
    problem = rs.gaussian(800, 600, noise=0.5, seed=0)
    run = rs.descend(
        problem, rs.RandomReshuffling(batches=100), alpha=1.0, budget=1e9, method="sampling", **recipe
    )
    with pytest.raises(rs.BudgetError, match=r"few .* orders takes .* operations, .*; try a larger budget"):
        run.stability()


def test_a_search_for_the_best_epoch_keeps_to_its_budget():
    problem = rs.gaussian(40, 5, noise=0.5, seed=0)
    short = rs.descend(problem, rs.Cyclic(batches=4), 1e-4, budget=2e8).best_epoch()
    assert short.error == short.risk
    assert short.epoch in (math.inf, 0) or short.epoch <= 200


def test_where_even_a_few_orders_cost_more_than_the_cavity_none_are_drawn(monkeypatch):
    """Orders are tried first where the equation takes long; a price above its own is no reason to give up."""
    for home in ("reshuffle._budget", "reshuffle.epoch.select"):
        monkeypatch.setattr(f"{home}.A_SECOND", 1.0)
    run = rs.descend(rs.gaussian(2000, 100, seed=0), rs.SampleReshuffling(batch_size=250), step=0.3)
    assert 0 < run.risk(5).error < 1e-6 * run.risk(5).total
    assert run.method == "cavity"


def test_answers_say_how_far_they_may_be_off():
    run = rs.descend(rs.gaussian(400, 5, noise=0.5, seed=0), rs.RandomReshuffling(batches=100), alpha=0.5)
    assert " +- " in repr(run.risk(3))
    assert run.risk(np.ones((2, 3))).error.shape == (2, 3)
    assert run.iterate_error(np.ones((2, 3))).shape == (2, 3)
    exact = rs.descend(rs.gaussian(40, 5, seed=0), rs.RandomReshuffling(batches=4), alpha=0.5)
    assert " +- " not in repr(exact.risk(3))
    assert exact.risk([1, 2]).error.tolist() == [0, 0]
    assert exact.iterate_error([1, 2]).tolist() == [0, 0]


def test_a_budget_that_is_too_small_is_told():
    problem = rs.gaussian(200, 20, noise=0.5, seed=0)
    run = rs.descend(problem, rs.RandomReshuffling(batches=25), alpha=1.0, rtol=1e-9, budget=1e9)
    with pytest.warns(
        UserWarning, match=r"relative error of .* by sampling, but rtol is 1e-09; .* larger budget"
    ):
        risk = run.risk([1, 10])
    assert run.epoch.method == "sampling"
    assert (risk.error > 0).all()
    assert (risk.error < 1e-2 * risk.total).all()


@pytest.mark.filterwarnings("ignore:at step .* the mean iterate diverges")
def test_an_indefinite_estimate_does_not_crash():
    """Near and beyond the critical step, from few draws: no exception, no nan."""
    problem = case(24, 30, 1).problem
    for step in (0.3, 0.6, 3.0):
        run = rs.descend(problem, rs.RandomReshuffling(batches=24), step, method="sampling", budget=1.0)
        for epochs in (1, 10, np.inf):
            assert not np.isnan(run.iterate(epochs)).any()
            assert not np.isnan(run.risk(epochs).error)
        assert not np.isnan(run.limit().error)
        assert not np.isnan(run.best_epoch().risk)


def test_the_modifier_of_sampled_orders():
    problem, scheme = case(12, 4, 1).problem, rs.RandomReshuffling(batches=6)
    run = rs.descend(problem, scheme, 0.02, method="sampling", rtol=1e-4)
    exact = rs.descend(problem, scheme, 0.02, method="exact")
    assert np.linalg.norm(run.epoch.modifier(2) - exact.epoch.modifier(2)) < 0.02
    close(run.epoch.matrix, run.epoch.matrix.T)
    close(run.epoch.modified_features.T @ problem.X / 12, run.epoch.Z, 1e-10)
