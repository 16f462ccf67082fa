"""Sampled orders: one order, the control variate, and whether the stated error is the true one."""

from itertools import pairwise

import numpy as np
import pytest

import reshuffle as rs
from reshuffle._linalg import graded_svd
from reshuffle.epoch.averaging import sampling
from reshuffle.epoch.averaging.sampling import Orders
from reshuffle.epoch.visits import ScaledBlocks, Visits
from reshuffle.recipe import Hyperparameters
from tests.epoch.many import descents, pull_of
from tests.oracles import brute_force
from tests.problems import case, close

PARTITION = [[0, 3, 5], [1, 7], [2, 6], [4]]


def followed(tiny, step, *orders):
    """The maps and the input maps of orders of the batches, on the row space."""
    blocks = tiny.problem.blocks([np.asarray(rows) for rows in PARTITION])
    unit, singular, turn = graded_svd(blocks.rows)
    scaled = ScaledBlocks(unit * singular, blocks.response, blocks.offsets, blocks.divisors, unit, singular)
    scale = tiny.problem.row_space.scale
    visits = Visits(scaled, Hyperparameters(step * scale**2))
    places = [np.arange(start, stop) for start, stop in pairwise(blocks.offsets)]
    rows = np.full((len(orders), 4, 3), len(blocks.rows))
    for number, order in enumerate(orders):
        for slot, batch in enumerate(order):
            rows[number, slot, : len(places[batch])] = places[batch]
    divisors = np.array([[blocks.divisors[batch] for batch in order] for order in orders])
    kernel, _, entries = sampling.follow_each(visits, np.zeros(visits.rank), Orders(rows, divisors))
    maps = np.eye(visits.rank) - visits.left[:, np.newaxis] * kernel * visits.right
    return turn @ maps @ turn.T, turn @ (visits.left * entries).swapaxes(1, 2) / scale


def test_one_order_is_its_affine_map():
    tiny = case(8, 5, 1, step=0.1)
    setting = brute_force.Setting(tiny.problem.X, tiny.problem.y, PARTITION, tiny.step)
    space, members = tiny.problem.row_space, np.concatenate(PARTITION)
    orders = [2, 0, 3, 1], [0, 1, 2, 3]
    maps, inputs = followed(tiny, tiny.step, *orders)
    for order, inner, entered in zip(orders, maps, inputs, strict=True):
        ((A, N),) = brute_force.affine_maps(setting, [order])
        close(space.coordinates(space.coordinates(A).T).T, inner)
        close(space.lift(entered), N[:, members])


def test_an_order_and_its_reverse_make_a_symmetric_pair():
    maps, _ = followed(case(8, 5, 1), 0.1, [3, 1, 0, 2], [2, 0, 1, 3])
    close(maps.mean(axis=0), maps.mean(axis=0).T)
    assert np.abs(maps[0] - maps[0].T).max() > 1e-3


@pytest.mark.slow
def test_the_stated_errors_are_the_true_ones():
    """Over many seeds errors cover the truth as they should, and are not much wider than needed."""
    problem = case(24, 6, 1, noise=0.5).problem
    scheme, epochs = rs.RandomReshuffling(batches=8), np.array([1, 4, 20, np.inf])
    exact = rs.descend(problem, scheme, 0.05)
    truth, iterates = exact.risk(epochs).total, exact.iterate(epochs)
    rates, risks, ways = [], [], []
    for seed in range(60):
        run = rs.descend(problem, scheme, 0.05, method="sampling", rtol=3e-3, seed=seed)
        rates.append(np.abs(run.epoch.decay_rates / exact.epoch.decay_rates - 1) / run.epoch.error)
        risk = run.risk(epochs)
        risks.append(np.abs(risk.total - truth) / risk.error)
        ways.append(np.linalg.norm(run.iterate(epochs) - iterates, axis=-1) / run.iterate_error(epochs))
        assert run.epoch.mean.missed <= 3e-3
    for ratios in (np.max(rates, axis=1), np.array(risks), np.array(ways)):
        assert np.mean(ratios <= 1) >= 0.99
        assert np.sqrt(np.mean(np.square(ratios))) >= 0.1


def test_the_pull_is_estimated_too():
    problem = case(12, 20, 1).problem
    run, exact = descents(problem, rs.RandomReshuffling(batches=6), 0.02, "sampling", rtol=1e-4)
    assert np.linalg.norm(pull_of(run) - pull_of(exact)) < 1e-3 * np.linalg.norm(pull_of(exact))
    close(run.epoch.matrix, run.epoch.matrix.T)
    close(run.epoch.modified_features.T @ problem.X / 12, run.epoch.Z, 1e-10)


def test_seeds_decide_the_draws():
    problem = case(24, 6, 1).problem
    runs = [
        rs.descend(problem, rs.RandomReshuffling(batches=8), 0.05, method="sampling", rtol=1e-2, seed=seed)
        for seed in (1, 1, 2)
    ]
    first, again, other = (run.risk(5).total for run in runs)
    assert first == again != other


def test_the_modifier_of_sampled_orders():
    problem = case(12, 4, 1).problem
    run, exact = descents(problem, rs.RandomReshuffling(batches=6), 0.02, "sampling", rtol=1e-4)
    assert np.linalg.norm(run.epoch.modifier(2) - exact.epoch.modifier(2)) < 0.02


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


def test_dropped_rows_leave_fewer_rows_than_columns_of_very_different_sizes():
    X = np.random.default_rng(0).standard_normal((3, 3)) * [1.0, 1e-4, 1e-8]
    scheme = rs.RandomReshuffling(batch_size=2, drop_last=True)
    drawn, exact = (
        rs.descend(rs.LeastSquares(X, [1.0, 2.0, 3.0]), scheme, step=0.5, method=method).iterate(
            [1, 30, np.inf]
        )
        for method in ("sampling", "exact")
    )
    np.testing.assert_allclose(drawn, exact, rtol=1e-9)
