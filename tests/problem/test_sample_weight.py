"""Weights of the rows, against torch and against rows that are there several times."""

import numpy as np
import pytest
import torch

import reshuffle as rs
from tests.looped import for_all


def posed(n=12, p=3, outputs=None, seed=0):
    rng = np.random.default_rng(seed)
    X, weights = rng.standard_normal((n, p)), rng.integers(1, 5, n)
    y = rng.standard_normal(n if outputs is None else (n, outputs))
    return X, y, weights


def trained(X, y, weights, batch_size, epochs, **optimizer):
    """What torch ends in, in a fixed order, with the loss (w * (x b - y)^2).mean() / 2."""
    features, responses, w = (torch.tensor(part, dtype=torch.float64) for part in (X, y, weights))
    b = torch.zeros(X.shape[1], dtype=torch.float64, requires_grad=True)
    descent = torch.optim.SGD([b], **optimizer)
    for _ in range(epochs):
        for first in range(0, len(X), batch_size):
            part = slice(first, first + batch_size)
            descent.zero_grad()
            loss = (w[part] * (features[part] @ b - responses[part]) ** 2).mean() / 2
            loss.backward()
            descent.step()
    return b.detach().numpy()


@for_all("batch_size", [4, 5])
@for_all("momentum", [0.0, 0.5])
def test_torch_in_a_fixed_order(batch_size, momentum):
    X, y, weights = posed()
    problem = rs.LeastSquares(X, y, sample_weight=weights)
    run = rs.descend(problem, rs.Cyclic(batch_size=batch_size), step=0.05, momentum=momentum, penalty=0.01)
    end = trained(X, y, weights, batch_size, 4, lr=0.05, momentum=momentum, weight_decay=0.01)
    np.testing.assert_allclose(run.iterate(4), end, rtol=0, atol=1e-12)
    loss = (weights * (y - X @ end) ** 2).sum() / (2 * len(y))
    np.testing.assert_allclose(run.training_loss(4), loss, rtol=1e-12)


def test_noise_is_that_of_weight_one():
    """The risk is that of runs on responses whose noise is smaller where the weight is larger."""
    X, _, weights = posed()
    truth, noise, step = np.array([1.0, -2.0, 0.5]), 0.7, 0.05
    problem = rs.LeastSquares(X, X @ truth, beta_star=truth, noise=noise, sample_weight=weights)
    found = rs.descend(problem, rs.FullBatch(), step=step).risk(3)
    # b_3 is linear in the responses: its map, and hence its variance, by columns of unit vectors.
    units = rs.LeastSquares(X, np.eye(len(X)), sample_weight=weights)
    reply = rs.descend(units, rs.FullBatch(), step=step).iterate(3)
    np.testing.assert_allclose(found.variance, noise**2 * (np.square(reply) / weights).sum(), rtol=1e-10)


def test_simulated_runs_honour_weights():
    X, _, weights = posed()
    truth = np.array([1.0, -2.0, 0.5])
    problem = rs.LeastSquares(X, X @ truth, beta_star=truth, noise=0.7, sample_weight=weights)
    setting = {"step": 0.05, "start": np.ones(3)}
    found = rs.simulate(
        problem, rs.RandomReshuffling(batches=3), epochs=3, runs=2000, fresh_noise=True, **setting
    )
    run = rs.descend(problem, rs.RandomReshuffling(batches=3), **setting)
    off = np.abs(found.expected_risk.mean - run.expected_risk(3).total)
    assert off <= 4.5 * found.expected_risk.standard_error
    assert (np.abs(found.iterate.mean - run.iterate(3)) <= 4.5 * found.iterate.standard_error).all()


def test_weights_of_many_outputs_and_of_one():
    X, y, weights = posed(outputs=2)
    problem = rs.LeastSquares(X, y, sample_weight=weights)
    assert repr(problem) == "LeastSquares(n=12, p=3, outputs=2, weighted, truth unknown)"
    assert (problem.output(1).sample_weight == weights).all()
    run = rs.descend(problem, rs.Cyclic(batch_size=4), step=0.05)
    np.testing.assert_allclose(
        run.iterate(3)[:, 1], trained(X, y[:, 1], weights, 4, 3, lr=0.05), rtol=0, atol=1e-12
    )
    plain, of_one = (rs.LeastSquares(X, y, **given) for given in ({}, {"sample_weight": np.ones(12)}))
    assert (plain.X == of_one.X).all()
    assert (plain.y == of_one.y).all()
    assert plain.sample_weight is None


@for_all(
    "weights, message",
    [
        ([1.0, 2.0], r"sample_weight must have shape \(3,\), one entry per row of X"),
        ([1.0, 0.0, 1.0], r"sample_weight must be positive, but sample_weight\[1\] is 0.0; drop rows"),
        ([1.0, 1.0, -1.0], r"sample_weight must be positive, but sample_weight\[2\] is -1.0"),
        ([1.0, np.inf, 1.0], r"sample_weight must be finite, but sample_weight\[1\] is inf"),
        ([np.nan, 1.0, 1.0], r"sample_weight must be finite, but sample_weight\[0\] is nan"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        rs.LeastSquares([[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0], sample_weight=weights)
