"""Sampled orders: one order, the control variate, and whether the stated error is the true one."""

from itertools import permutations

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch.averaging import base, draws, series
from reshuffle.epoch.averaging.control_variates import LowDegrees
from reshuffle.epoch.averaging.draws import Order, Stack
from tests.epoch.many import descents, pull_of, whitened
from tests.oracles import brute_force
from tests.problems import case, close

PARTITION = [[0, 3, 5], [1, 7], [2, 6], [4]]


def order_of(rows, batches):
    places = [np.arange(rows.offsets[batch], rows.offsets[batch + 1]) for batch in batches]
    offsets = np.concatenate([[0], np.cumsum([len(place) for place in places])])
    return Order(np.concatenate(places), offsets, np.ones(len(places)))


def test_one_order_is_its_affine_map():
    tiny = case(8, 5, 1, step=0.1)
    rows = whitened(tiny.problem, PARTITION, tiny.step)
    setting = brute_force.Setting(tiny.problem.X, tiny.problem.y, PARTITION, tiny.step)
    members = np.concatenate(PARTITION)
    space = tiny.problem.row_space
    for batches in ([2, 0, 3, 1], [0, 1, 2, 3]):
        ((A, N),) = brute_force.affine_maps(setting, [batches])
        # Beside another one, which is none of its business.
        stacked = np.zeros((2, *rows.orthonormal.shape))
        draws.follow(rows, Stack.of([order_of(rows, [3, 2, 1, 0]), order_of(rows, batches)]), stacked)
        full = stacked[1]
        basis = rows.factor / np.sqrt(rows.paces / rows.unit)[:, np.newaxis]
        entered = rows.unit / space.scale * rows.factor.T @ (full.T * rows.roots)
        close(space.lift(entered), N[:, members])
        root = np.sqrt(rows.paces)[:, np.newaxis]
        close(basis @ (np.eye(5) - A) @ basis.T, root * (full.T @ rows.orthonormal) * root.T)


def test_the_mean_of_the_control_variate_is_known():
    tiny = case(8, 5, 1)
    rows = whitened(tiny.problem, PARTITION, 0.1)
    full, control = np.zeros((2, 24, *rows.orthonormal.shape))
    variate = LowDegrees(rows, series.batch_coefficients())
    orders = Stack.of([order_of(rows, batches) for batches in permutations(range(4))])
    draws.follow(rows, orders, full, (variate, control))
    close(control.mean(axis=0), variate.mean)


@pytest.mark.parametrize(
    "arguments", [{"batches": 3}, {"batch_size": 4}, {"batch_size": 4, "drop_last": True}]
)
def test_the_mean_of_the_control_variate_of_samples_is_known(arguments):
    problem = case(6, 3, 1).problem
    scheme = rs.SampleReshuffling(**arguments, normalize="equal")
    blocks = problem.blocks(scheme.partition(6), scheme.divisors(6))
    approximation = base.task(scheme, 6, blocks, 0.2).approximation
    rows = approximation.whitened()
    template = approximation.draw(rows)(np.random.default_rng(0))
    variate = approximation.control(rows)
    full, control = np.zeros((2, 720, *rows.orthonormal.shape))
    end = template.offsets[-1]
    orders = Stack.of(
        [
            Order(each[:end], template.offsets, template.shares)
            for each in np.array(list(permutations(range(6))))
        ]
    )
    for each in (orders, orders.reversed()):
        draws.follow(rows, each, full, (variate, control))
    close(control.mean(axis=0) / 2, variate.mean)


def test_an_order_and_its_reverse_make_a_symmetric_pair():
    tiny = case(8, 5, 1)
    rows = whitened(tiny.problem, PARTITION, 0.1)
    order = Stack.of([order_of(rows, [3, 1, 0, 2])])
    full = np.zeros((1, *rows.orthonormal.shape))
    draws.follow(rows, order, full)
    alone = full[0].T @ rows.orthonormal
    draws.follow(rows, order.reversed(), full)
    together = full[0].T @ rows.orthonormal
    close(together, together.T)
    assert np.abs(alone - alone.T).max() > 1e-3


@pytest.mark.slow
def test_the_stated_errors_are_the_true_ones():
    """Over many seeds errors cover the truth as they should, and are not much wider than needed."""
    problem = case(24, 6, 1, noise=0.5).problem
    scheme, epochs = rs.RandomReshuffling(8), np.array([1, 4, 20, np.inf])
    exact = rs.descend(problem, scheme, 0.05)
    truth, iterates = exact.risk(epochs).total, exact.iterate(epochs)
    rates, risks, ways = [], [], []
    for seed in range(60):
        run = rs.descend(problem, scheme, 0.05, method="sampling", rtol=3e-3, seed=seed)
        rates.append(np.abs(run.epoch.paces / exact.epoch.paces - 1) / run.epoch.error)
        risk = run.risk(epochs)
        risks.append(np.abs(risk.total - truth) / risk.error)
        ways.append(np.linalg.norm(run.iterate(epochs) - iterates, axis=-1) / run.iterate_error(epochs))
        assert run.epoch.mean.missed <= 3e-3
    for ratios in (np.max(rates, axis=1), np.array(risks), np.array(ways)):
        assert np.mean(ratios <= 1) >= 0.99
        assert np.sqrt(np.mean(np.square(ratios))) >= 0.1


def test_the_pull_is_estimated_too():
    problem = case(12, 20, 1).problem
    run, exact = descents(problem, rs.RandomReshuffling(6), 0.02, "sampling", rtol=1e-4)
    assert np.linalg.norm(pull_of(run) - pull_of(exact)) < 1e-3 * np.linalg.norm(pull_of(exact))
    close(run.epoch.matrix, run.epoch.matrix.T)
    close(run.epoch.modified_features.T @ problem.X / 12, run.epoch.Z, 1e-10)


def test_the_control_variate_is_used_where_it_pays():
    """The same draws reach further with it, when the degrees beyond are small."""
    tiny = case(30, 6, 1)
    rows = whitened(tiny.problem, np.split(np.arange(30), 10), 0.005)
    scheme_draw = base._batch_orders(rows)
    errors = []
    for control in (None, LowDegrees(rows, series.batch_coefficients())):
        tally = draws._Tally(rows, control, 10, 1e12)
        tally.draw(scheme_draw, np.random.default_rng(0), 2)
        errors.append(tally.error())
    assert errors[1] < errors[0] / 5


def test_the_control_variate_of_samples_pays_where_the_last_batch_is_short():
    problem = rs.gaussian(392, 10, noise=0.5, seed=0)
    scheme = rs.SampleReshuffling(batch_size=10)
    blocks = problem.blocks(scheme.partition(392), scheme.divisors(392))
    approximation = base.task(scheme, 392, blocks, 1.0 / 40 * problem.row_space.scale**2).approximation
    rows = approximation.whitened()
    errors = []
    for control in (None, approximation.control(rows)):
        tally = draws._Tally(rows, control, 40, 1e12)
        tally.draw(approximation.draw(rows), np.random.default_rng(0), 2)
        errors.append(tally.error())
    assert errors[1] < errors[0] / 5


def test_seeds_decide_the_draws():
    problem = case(24, 6, 1).problem
    runs = [
        rs.descend(problem, rs.RandomReshuffling(8), 0.05, method="sampling", rtol=1e-2, seed=seed)
        for seed in (1, 1, 2)
    ]
    first, again, other = (run.risk(5).total for run in runs)
    assert first == again != other


def test_the_modifier_of_sampled_orders():
    problem = case(12, 4, 1).problem
    run, exact = descents(problem, rs.RandomReshuffling(6), 0.02, "sampling", rtol=1e-4)
    assert np.linalg.norm(run.epoch.modifier(2) - exact.epoch.modifier(2)) < 0.02


def test_a_budget_that_is_too_small_is_told():
    problem = rs.gaussian(200, 20, noise=0.5, seed=0)
    run = rs.descend(problem, rs.RandomReshuffling(25), alpha=1.0, rtol=1e-9, budget=1e9)
    with pytest.warns(
        UserWarning, match=r"relative error of .* by sampling, but rtol is 1e-09; .* larger budget"
    ):
        risk = run.risk([1, 10])
    assert run.epoch.method == "sampling"
    assert (risk.error > 0).all()
    assert (risk.error < 1e-2 * risk.total).all()


@pytest.mark.filterwarnings("ignore:the mean over orders")
def test_an_indefinite_estimate_does_not_crash():
    """Near and beyond the critical step, from few draws: no exception, no nan."""
    problem = case(24, 30, 1).problem
    for step in (0.3, 0.6, 3.0):
        run = rs.descend(problem, rs.RandomReshuffling(24), step, method="sampling", budget=1.0)
        for epochs in (1, 10, np.inf):
            assert not np.isnan(run.iterate(epochs)).any()
            assert not np.isnan(run.risk(epochs).error)
        assert not np.isnan(run.limit().error)
        assert not np.isnan(run.best_epoch().risk)
