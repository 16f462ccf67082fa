"""Federated averaging against its rounds, one after the other."""

import math

import numpy as np
import pytest

import reshuffle as rs
from tests.oracles import every_order
from tests.oracles.every_scheme import RECIPES, trained
from tests.problems import case, close

CLIENTS = [[4, 0], [1, 2, 5], [3]]


def rounds(tiny, recipe, count, local_steps):
    """R (p, 1 + n) with beta = R (1, y) after every round: the mean of what each client makes of the last."""
    training = trained(tiny, recipe, count)
    beta, buffer = every_order.begin(training)
    for step in training.steps:
        ends = [
            every_order.advance(training, step, [(rows, len(rows))] * local_steps, beta, buffer)
            for rows in CLIENTS
        ]
        beta, buffer = (np.mean(part, axis=0) for part in zip(*ends, strict=True))
    return training, beta


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("local_steps", [1, 2, 5])
@pytest.mark.parametrize("p", [3, 8])
def test_every_round_is_the_mean_of_what_the_clients_do(recipe, local_steps, p):
    tiny, count = case(6, p, 1, step=0.08), 2
    scheme = rs.LocalDescent(CLIENTS, local_steps)
    run = rs.descend(tiny.problem, scheme, start=tiny.start, **{"step": tiny.step, **RECIPES[recipe]})
    training, runs = rounds(tiny, RECIPES[recipe], count, local_steps)
    close(run.iterate(count), every_order.mean_iterate(training, runs))
    truth = tiny.problem.beta_star, tiny.covariance
    total, mean = every_order.expected_risk(training, runs, *truth, tiny.problem.noise)
    found = run.expected_risk(count)
    close([run.risk(count).total, found.total, found.spread], [mean, total, 0.0])
    given = run.expected_risk(count, given_responses=True)
    close([given.total, given.spread], [every_order.expected_risk_given(training, runs, *truth)[0], 0.0])
    assert not run.covariance(count).matrix.any()


def test_fixed_point_drift_and_thresholds():
    problem = rs.gaussian(60, 4, noise=1.0, seed=3)
    parts, step = np.split(np.arange(60), 3), 0.1

    def round_of(step, local_steps):
        A, g = np.zeros((4, 4)), np.zeros(4)
        for rows in parts:
            X, y = problem.X[rows], problem.y[rows]
            one = np.eye(4) - step * X.T @ X / 20
            powers = [np.linalg.matrix_power(one, j) for j in range(local_steps + 1)]
            A, g = A + powers[-1] / 3, g + sum(powers[:-1]) @ X.T @ y * step / 60
        return A, g

    for local_steps in (1, 7):
        scheme = rs.LocalDescent(clients=3, local_steps=local_steps)
        A, g = round_of(step, local_steps)
        run = rs.descend(problem, scheme, step)
        end = np.linalg.solve(np.eye(4) - A, g)
        close(run.limit().parameters, end)
        solution = np.linalg.lstsq(problem.X, problem.y, rcond=None)[0]
        close(run.compare_limit().difference, end - solution, 1e-10)
        assert (np.abs(end - solution).max() < 1e-10) == (local_steps == 1)
        assert run.stability().rate == pytest.approx(np.abs(np.linalg.eigvalsh(A)).max(), rel=1e-9)
        for mean_square in (False, True):
            critical = rs.critical_step(problem, scheme, mean_square=mean_square)
            radii = [
                np.abs(np.linalg.eigvalsh(round_of(near * critical, local_steps)[0])).max()
                for near in (1 - 1e-5, 1 + 1e-5)
            ]
            assert radii[0] < 1 < radii[1]
    close(
        rs.descend(problem, rs.LocalDescent(1, 5), step).iterate(4),
        rs.descend(problem, rs.FullBatch(), step).iterate(20),
    )


def test_a_row_that_is_left_out_has_no_gradient():
    problem, scheme = rs.gaussian(12, 2, noise=0.5, seed=1), rs.LocalDescent(clients=3, local_steps=2)
    found = rs.descend(problem, scheme, 0.1).leave_one_out([1, 4])
    for row in (0, 7):
        X, y = problem.X.copy(), problem.y.copy()
        X[row], y[row] = 0.0, 0.0
        refit = rs.descend(rs.LeastSquares(X, y), scheme, 0.1).iterate([1, 4])
        close(found.residuals[:, row], problem.y[row] - refit @ problem.X[row])
    limit = rs.descend(problem, scheme, 0.1).expected_risk(math.inf)
    assert 0 == limit.spread < limit.total


def test_what_has_no_answer():
    problem = rs.gaussian(12, 2, noise=0.5, seed=1)
    with pytest.raises(rs.UnsupportedError, match="averages over its clients after every round"):
        rs.simulate(problem, rs.LocalDescent(clients=3, local_steps=2), 0.1, epochs=1, runs=4)
    for arguments, name in (
        ((0, 2), "clients"),
        ((3, 0), "local_steps"),
        ((3, 1.5), "local_steps"),
        ((2.5, 1), "clients"),
    ):
        with pytest.raises(ValueError, match=f"{name} must be a whole number"):
            rs.LocalDescent(*arguments)
    with pytest.raises(ValueError, match="batches must"):
        rs.descend(problem, rs.LocalDescent(clients=13, local_steps=2), 0.1)
    with pytest.raises(rs.UnsupportedError, match="has clients"):
        rs.LocalDescent(clients=3, local_steps=2).with_batch_size(2)
    assert rs.LocalDescent(3, 2) == rs.LocalDescent(clients=3, local_steps=2) != rs.LocalDescent(3, 1)
    assert (
        repr(rs.LocalDescent(CLIENTS, 2)) == "LocalDescent(an explicit partition, clients=3, local_steps=2)"
    )
