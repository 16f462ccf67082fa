"""Settings that were slow, warned or were wrong: small steps, hard edges, many eigenvalues, divergence, budgets."""

import itertools
import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from reshuffle.asymptotics import (
    BatchLaw,
    FullBatchLaw,
    TwoBatchLaw,
    batch_spectrum,
    learning_curve,
)
from reshuffle.errors import BudgetError
from reshuffle.free import ConvergenceError
from tests.looped import for_all


@for_all("alpha", [0.3, 3e-6, 3e-9])
def test_the_system_has_the_digits_of_the_closed_form(alpha):
    z = alpha * np.array([0.02, 0.3, 1.0, 2.0, 4.0 + 1.0j])
    closed, system = TwoBatchLaw(0.5, alpha).transforms(z), BatchLaw(0.5, alpha, 2).transforms(z)
    np.testing.assert_allclose(system, closed, rtol=1e-11, atol=1e-13 / alpha)


@for_all("batches", [2, 3, 4])
def test_the_system_keeps_its_digits_however_small_the_step(batches):
    points = np.array([0.02, 0.3, 1.0, 2.0, 4.0 + 1.0j])
    # As alpha -> 0 alpha Z / alpha becomes W, whose law is Marchenko-Pastur.
    law = FullBatchLaw(0.5, 1.0).transforms(points)[0]
    found = 1e-40 * batch_spectrum(0.5, 1e-40, batches).transforms(1e-40 * points)[0]
    np.testing.assert_allclose(found, law, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize(("aspect", "alpha"), [(1.5, 1.0), (2.5, 0.7), (0.5, 2.0)])
def test_the_closed_form_takes_the_right_root_at_large_steps(aspect, alpha):
    closed, system = TwoBatchLaw(aspect, alpha), BatchLaw(aspect, alpha, 2)
    np.testing.assert_allclose(closed.support, system.support, atol=1e-9)
    x = np.concatenate([low + (high - low) * np.linspace(0.05, 0.95, 9) for low, high in closed.support])
    np.testing.assert_allclose(closed.density(x), system.density(x), rtol=1e-9)
    assert closed.measure.mass == pytest.approx(1.0, abs=1e-9)


@pytest.mark.slow
def test_a_soft_edge_beside_a_hard_one_is_found():
    aspect = 0.9999
    closed, system = TwoBatchLaw(aspect, 0.05), BatchLaw(aspect, 0.05, 2)
    low, high = system.support[0]
    assert low == pytest.approx(closed.support[0][0], rel=1e-3)
    assert high == pytest.approx(closed.support[0][1], rel=1e-10)
    assert system.measure.mass == pytest.approx(1.0, abs=1e-9)


def test_a_spectrum_that_is_narrower_than_rounding_is_refused():
    # Few parameters, and every visit takes all of the way: it was a division by zero.
    with pytest.raises(ConvergenceError, match=r"narrower than rounding, .* try another alpha"):
        learning_curve(1e-3, 16.0, 16).risk(1)


def test_a_diverging_variance_is_infinite_and_not_a_warning():
    curve = learning_curve(30, 0.3, 2, noise=0.5, covariance=[1.0, 2.0])
    risk = curve.risk([0, 1, 3, 1000])
    assert np.isfinite(risk.variance[:3]).all()
    assert risk.variance[3] == math.inf
    faint = replace(curve, noise=1e-200).risk([1000])
    assert faint.variance[0] == math.inf


@pytest.mark.slow
def test_a_law_that_costs_too_much_is_refused_beforehand():
    with pytest.raises(
        BudgetError, match=r"costs about .* s of one core, more than the budget of 60 s; allow it"
    ):
        # Far beyond convergence: ten orders of size, of both signs.
        BatchLaw(0.5, 1.0, 8, [1.0, 100.0]).support  # noqa: B018
    with pytest.raises(
        BudgetError, match=r"a question about .* costs about .* more than the budget of 0.001 s"
    ):
        learning_curve(0.5, 0.1, 4, budget=0.001).risk(1)


QUESTIONS = (lambda law: law.ends, lambda law: law.density(0.3), lambda law: law.outside(np.array([1j])))


@for_all("batches, question", itertools.product([128, 1_000, 10**6], QUESTIONS))
def test_spectra_of_too_many_batches_are_refused_before_anything_of_their_size_is_made(batches, question):
    tracemalloc.start()
    try:
        with pytest.raises(
            BudgetError, match=rf"batches={batches}\) costs about .* the budget of 60 s; allow it"
        ):
            question(BatchLaw(0.5, 0.5, batches))
        assert tracemalloc.get_traced_memory()[1] < 5e7
    finally:
        tracemalloc.stop()


def test_many_batches_need_little_memory():
    """As full matrices the maps between the types of subsets would hold 2 GB for 40 batches."""
    tracemalloc.start()
    try:
        assert BatchLaw(0.5, 0.5, 40).outside(np.array([2.0 + 1.0j]))[0].imag < 0
        assert tracemalloc.get_traced_memory()[1] < 2e8
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(("aspect", "batches"), [(0.5, 2), (0.5, 3), (1.5, 2), (1.5, 3)])
def test_fifty_eigenvalues_are_no_more_than_few_with_the_same_law(aspect, batches):
    """Fifty, of which each stands five times, are ten; and fifty different ones have exact moments."""
    ten = np.linspace(0.2, 2.0, 10)
    few, many = (
        learning_curve(aspect, 0.3, batches, noise=0.5, covariance=sigma)
        for sigma in (ten, np.repeat(ten, 5))
    )
    np.testing.assert_allclose(few.risk([1, 10, 100]).total, many.risk([1, 10, 100]).total, rtol=1e-10)
    sigma, alpha, noise = np.linspace(0.1, 3.0, 50), 0.2, 0.5
    start, after = learning_curve(aspect, alpha, batches, noise=noise, covariance=sigma).risk([0, 1]).total
    assert start == pytest.approx(sigma.mean(), rel=1e-12)
    # One epoch of full batch: tau((1 - a W) Sigma (1 - a W)) and noise^2 (a^2/n) tr(Sigma W), by hand.
    mean, square, cube = (float((sigma**k).mean()) for k in (1, 2, 3))
    full = learning_curve(aspect, alpha, 1, noise=noise, covariance=sigma).risk(1).total
    by_hand = mean - 2 * alpha * square + alpha**2 * (cube + aspect * mean * square)
    assert full == pytest.approx(by_hand + noise**2 * aspect * alpha**2 * square, rel=1e-10)
    assert after < start
