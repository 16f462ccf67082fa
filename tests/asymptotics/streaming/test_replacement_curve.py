"""Runs that draw with replacement, in the limit: against the Volterra equation as printed, and exact runs."""

import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.asymptotics import replacement_curve
from tests.asymptotics.oracles import marchenko_pastur
from tests.looped import for_all


def solved_volterra(aspect, alpha, noise, signal, end, steps):
    """rho and the spread at `end`, by the trapezoidal rule in time on the equation as it is printed."""
    x, weights = marchenko_pastur(aspect, 400)
    times = np.linspace(0, end, steps + 1)
    fading = np.exp(-2 * alpha * np.outer(times, x))
    forcing = fading @ (weights * (signal**2 * x + noise**2 * aspect)) + noise**2 * max(1 - aspect, 0.0)
    kernel = alpha**2 * aspect * fading @ (weights * x**2)
    of_risk = alpha**2 * aspect * fading @ (weights * x)
    width = end / steps
    rho = np.zeros(steps + 1)
    rho[0] = forcing[0]
    for k in range(1, steps + 1):
        past = kernel[k:0:-1] @ rho[:k] - kernel[k] * rho[0] / 2
        rho[k] = (forcing[k] + width * past) / (1 - width * kernel[0] / 2)
    ends = np.ones(steps + 1)
    ends[[0, -1]] = 0.5
    return rho[-1], width * (ends * of_risk[::-1]) @ rho


@for_all("aspect, alpha", [(0.5, 0.5), (0.25, 4.0), (1.0, 0.4), (1.5, 0.4), (3.0, 0.5)])
def test_it_solves_the_equation(aspect, alpha):
    curve = replacement_curve(aspect, alpha, noise=0.5, signal=2.0)
    for end in (1.0, 4.0):
        coarse, fine = (np.array(solved_volterra(aspect, alpha, 0.5, 2.0, end, k)) for k in (500, 1000))
        # The trapezoidal rule is off in the second order of its step.
        expected = (4 * fine - coarse) / 3
        assert curve.training_loss(end) == pytest.approx(expected[0], rel=1e-6)
        assert curve.spread(end) == pytest.approx(expected[1], rel=1e-6)


@pytest.mark.parametrize("size", [10, 50])
def test_runs_of_two_thousand_rows_have_this_risk(size):
    """Whatever the batch size: runs on one X, each with a direction and noise of its own."""
    n, p, alpha, runs = 2000, 500, 1.0, 32
    rng = np.random.default_rng(size)
    X = rng.standard_normal((n, p))
    errors, noise = rng.standard_normal((runs, p)), 0.5 * rng.standard_normal((runs, n))
    errors /= np.linalg.norm(errors, axis=1, keepdims=True)
    risks, losses = [], []
    for _ in range(2):
        for _ in range(n // size):
            rows = rng.integers(n, size=(runs, size))
            chosen = X[rows]
            residuals = np.einsum("rmj,rj->rm", chosen, errors) - np.take_along_axis(noise, rows, axis=1)
            errors = errors - alpha / n * np.einsum("rmj,rm->rj", chosen, residuals)
        risks.append((errors**2).sum(axis=1))
        losses.append(((errors @ X.T - noise) ** 2).mean(axis=1))
    curve = replacement_curve(p / n, alpha, noise=0.5)
    for found, limit in ((risks, curve.expected_risk([1, 2]).total), (losses, curve.training_loss([1, 2]))):
        error = np.std(found, axis=1, ddof=1) / math.sqrt(runs)
        assert (np.abs(np.mean(found, axis=1) - limit) <= 4 * error + 2 / n * limit).all()
        # And each of them is near it: the risk of a single run is not random in the limit.
        assert (np.std(found, axis=1) < 0.15 * limit).all()


@pytest.mark.slow
def test_its_modes_are_those_of_a_sampled_matrix():
    """Another Sigma: the same equations with the eigenvalues of one sampled W of 800 columns."""
    p, n, alpha = 800, 1600, 0.6
    sigma = np.repeat([0.2, 1.0, 3.0], [400, 200, 200])
    X = np.random.default_rng(0).standard_normal((n, p)) * np.sqrt(sigma)
    values, vectors = np.linalg.eigh(X.T @ X / n)
    sight = np.einsum("jk,j,jk->k", vectors, sigma, vectors)
    rho, risks, residuals = 0.0, np.zeros(p), (values + 0.25 * p / n) / p
    steps, end = 2000, 4
    for _ in range(end * steps):
        rho = residuals.sum() + risks @ values + 0.25 * (1 - p / n)
        risks = risks + (-2 * alpha * values * risks + alpha**2 / n * values * rho) / steps
        residuals = residuals * (1 - 2 * alpha * values / steps)
    curve = replacement_curve(p / n, alpha, noise=0.5, covariance=sigma)
    assert curve.training_loss(end) == pytest.approx(rho, rel=0.02)
    assert curve.spread(end) == pytest.approx(risks @ sight, rel=0.02)
    learned = -np.expm1(-alpha * end * values)
    flow = (1 - learned) ** 2 @ sight / p + 0.25 / n * (learned**2 / values) @ sight
    assert curve.mean_risk(end) == pytest.approx(flow, rel=0.02)


def test_the_limit_is_closed():
    curve = replacement_curve(0.5, 0.5, noise=0.5)
    kappa = 0.5 * 0.5 / 2
    end = curve.limit()
    assert end.spread == pytest.approx(0.25 * 0.5 * kappa / (1 - kappa))
    assert end.mean == pytest.approx(0.25 * 0.5 / (1 - 0.5))
    np.testing.assert_allclose(curve.expected_risk(3000).total, end.total, rtol=1e-8)
    np.testing.assert_allclose(curve.training_loss(3000), curve.training_loss(math.inf), rtol=1e-8)


def test_overparameterized_runs_end_without_spread():
    curve = replacement_curve(2.0, 0.4, noise=0.5)
    assert curve.limit().spread == 0.0
    assert curve.limit().total == pytest.approx(0.5 + 0.25 / (2.0 - 1.0))
    assert curve.spread(2000) < 1e-9
    assert curve.training_loss(2000) < 1e-9


def test_beyond_the_critical_alpha_it_grows():
    curve = replacement_curve(0.5, 4.2)
    assert curve.stability.critical_alpha == pytest.approx(4.0)
    assert not curve.converges
    assert curve.training_loss(math.inf) == math.inf
    assert curve.spread(math.inf) == math.inf
    losses = curve.training_loss([20, 40, 100_000])
    assert losses[0] < losses[1] < losses[2]
    assert replacement_curve(0.5, 3.8).converges


def test_gradient_flow_is_its_mean():
    curve = replacement_curve(0.25, 1.0, noise=0.5)
    small = [rs.asymptotics.learning_curve(0.25, 1 / k, 1, noise=0.5).risk(2 * k).total for k in (200, 400)]
    assert curve.mean_risk(2) == pytest.approx(2 * small[1] - small[0], rel=1e-5)
