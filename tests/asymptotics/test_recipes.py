"""The best recipe in the limit, against a brute grid of exact curves, closed forms and problems of finite size."""

import math

import numpy as np
import pytest
import scipy.optimize

import reshuffle as rs
from reshuffle.asymptotics import best_recipe, learning_curve
from tests.asymptotics.oracles import marchenko_pastur
from tests.looped import for_all

LAMBDA = np.arange(1.0, 41.0) ** -1.2


def flow_risk(aspect, noise, time):
    x, weights = marchenko_pastur(aspect)
    decay = np.exp(-time * x)
    return weights @ decay**2 + noise**2 * aspect * (weights @ ((1 - decay) ** 2 / x))


@pytest.mark.slow
def test_the_known_best_risks_after_one_epoch():
    found = best_recipe(0.5, noise=0.5, batches=[1, 2, 4], epochs=1)
    assert found.risk == pytest.approx([0.385, 0.297, 0.2435], abs=5e-4)
    assert found[0].flow.risk == pytest.approx(0.182, abs=5e-4)
    assert found[0].ridge.risk == pytest.approx(0.175, abs=5e-4)
    assert (found.epochs == 1).all()
    assert len(repr(found).splitlines()) == 6


def test_one_full_batch_epoch_has_a_closed_form():
    # R = 1 - 2a + a^2 (1 + gamma) + noise^2 gamma a^2, smallest at a = 1/(1 + gamma + noise^2 gamma).
    aspect, noise = 0.7, 0.6
    expected = 1 / (1 + aspect + noise**2 * aspect)
    found = best_recipe(aspect, noise=noise, epochs=1)
    assert found.alpha == pytest.approx(expected, rel=3e-3)
    assert found.risk == pytest.approx(1 - expected, abs=found.error)
    assert found.error < 1e-5


def test_flow_and_ridge_are_those_of_the_marchenko_pastur_law():
    aspect, noise = 0.5, 0.5
    best = scipy.optimize.minimize_scalar(
        lambda t: flow_risk(aspect, noise, t), bounds=(0.1, 50), method="bounded"
    )
    found = best_recipe(aspect, noise=noise)
    assert found.flow.risk == pytest.approx(best.fun, rel=1e-9)
    assert found.flow.time == pytest.approx(best.x, rel=1e-4)
    x, weights = marchenko_pastur(aspect)
    penalty = noise**2 * aspect
    ridge = weights @ (penalty / (x + penalty)) ** 2 + noise**2 * aspect * (
        weights @ (x / (x + penalty) ** 2)
    )
    assert found.ridge.penalty == pytest.approx(penalty)
    assert found.ridge.risk == found.bayes == pytest.approx(ridge, rel=1e-9)

    def averaged(time):
        decay = (1 - np.exp(-time * x)) / (time * x)
        return weights @ decay**2 + noise**2 * aspect * (weights @ ((1 - decay) ** 2 / x))

    mean = scipy.optimize.minimize_scalar(averaged, bounds=(0.1, 100), method="bounded")
    assert found.averaged_flow.risk == pytest.approx(mean.fun, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("aspect", "batches", "budget"), [(0.5, 1, 3), (1.5, 2, 3), (0.5, 3, 2)])
def test_the_best_recipe_is_that_of_a_brute_grid_of_exact_curves(aspect, batches, budget):
    found = best_recipe(aspect, noise=0.7, batches=batches, epochs=budget)
    alphas = found.alpha * np.linspace(0.5, 1.5, 21)
    risks = [learning_curve(aspect, a, batches, noise=0.7).risk(np.arange(budget + 1)).total for a in alphas]
    assert found.risk <= np.min(risks) + found.error
    assert found.epochs == np.unravel_index(np.argmin(risks), np.shape(risks))[1]
    exact = learning_curve(aspect, found.alpha, batches, noise=0.7).risk(found.epochs).total
    assert found.risk == pytest.approx(exact, rel=1e-9)


@for_all("aspect, noise", [(0.5, 0.5), (0.8, 1.0), (2.0, 0.4)])
def test_small_steps_cost_alpha_over_batches_times_the_same_slope(aspect, noise):
    recipe = best_recipe(aspect, noise=noise)
    assert recipe.slope > 0
    time, slopes = recipe.flow.time, []
    for batches in (1, 2):
        # The best epoch need not be whole here: a polynomial through its neighbours has its minimum.
        excess = []
        for alpha in (time / 400, time / 800):
            k = round(time / alpha)
            at = np.arange(k - 30, k + 31)
            risks = learning_curve(aspect, alpha, batches, noise=noise).risk(at).total
            smooth = np.polyfit((at - k) / 30, risks, 6)
            fine = np.polyval(smooth, np.linspace(-1, 1, 20_001))
            excess.append(fine.min() - recipe.flow.risk)
        slopes.append(2 * excess[1] / (time / 400) * 2 - excess[0] / (time / 400))
    assert slopes[0] == pytest.approx(recipe.slope, rel=2e-3)
    assert slopes[1] / slopes[0] == pytest.approx(0.5, abs=1e-3)


def test_the_slope_is_the_integral_of_the_theorem():
    aspect, noise = 0.5, 0.5
    found = best_recipe(aspect, noise=noise, batches=3)
    x, weights = marchenko_pastur(aspect)
    time = found.flow.time
    decay = np.exp(-time * x)
    slope = time * (aspect * noise**2 * (weights @ (x * decay * (1 - decay))) - weights @ (x**2 * decay**2))
    assert found.slope == pytest.approx(slope / 3, rel=1e-6)


@pytest.mark.slow
def test_without_a_budget_the_infimum_is_that_of_flow_for_every_number_of_batches():
    found = best_recipe(0.5, noise=0.5, batches=(1, 2))
    assert (found.risk == found[0].flow.risk).all()
    for recipe in found:
        assert not recipe.is_attained
        assert (recipe.alpha, recipe.epochs) == (0.0, math.inf)
        assert recipe.time == recipe.flow.time
    assert found[1].slope == pytest.approx(found[0].slope / 2)
    assert "alpha -> 0" in repr(found[0])


@pytest.mark.slow
def test_a_signal_along_the_large_eigenvalues_has_a_better_recipe_than_flow():
    source = LAMBDA**2 / (LAMBDA**2).sum()
    found = best_recipe(0.5, noise=0.3, covariance=LAMBDA, source=source)
    assert found.slope < 0
    assert found.is_attained
    assert found.bayes < found.risk < found.flow.risk
    exact = learning_curve(0.5, found.alpha, 1, noise=0.3, covariance=LAMBDA, source=source)
    assert exact.risk(found.epochs).total == pytest.approx(found.risk, rel=1e-8)


@pytest.mark.slow
def test_the_bayes_optimum_of_a_source_is_that_of_generalised_ridge():
    n, p, noise = 400, 200, 0.3
    diagonal = np.repeat(LAMBDA, p // len(LAMBDA))
    source = diagonal**1.5 / (diagonal**1.5).sum()
    coarse = source.reshape(len(LAMBDA), -1).sum(axis=1)
    found = best_recipe(0.5, noise=noise, covariance=LAMBDA, source=coarse)
    risks = []
    for seed in range(4):
        X = rs.gaussian(n, p, covariance=diagonal, seed=seed).X
        posterior = np.linalg.inv(X.T @ X / noise**2 + np.diag(1 / source))
        risks.append(np.trace(posterior * diagonal))
    assert found.bayes == pytest.approx(np.mean(risks), rel=0.02)
    assert found.bayes < min(found.ridge.risk, found.flow.risk, found.averaged_flow.risk)


@pytest.mark.slow
def test_nothing_to_learn_and_nothing_in_the_way():
    assert best_recipe(0.5, signal=0.0, epochs=3).risk == 0
    quiet = best_recipe(2.0, noise=0.0)
    assert quiet.risk == quiet.bayes == pytest.approx(0.5)
    assert math.isinf(quiet.flow.time)
    loud = best_recipe(0.5, noise=1e3, epochs=2)
    assert loud.risk == pytest.approx(1.0, abs=1e-5)
