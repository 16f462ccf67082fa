"""The largest step in the limit, against the ends of the spectrum and finite problems."""

from functools import lru_cache

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import asymptotics
from reshuffle.asymptotics import BatchLaw, TwoBatchLaw, learning_curve
from reshuffle.errors import BudgetError
from tests.looped import for_all

# A search through the laws of many steps: several tests ask for the same.
critical_alpha = lru_cache(asymptotics.critical_alpha)


@for_all("aspect", [0.1, 1.0, 1.5, 20.0])
def test_one_batch_is_the_known_threshold(aspect):
    assert critical_alpha(aspect, 1) == pytest.approx(2 / (1 + aspect**0.5) ** 2, rel=1e-14)


@for_all("aspect", [0.05, 0.25, 0.5, 1.0, 1.5, 8.0])
def test_two_batches_leave_where_the_closed_form_says(aspect):
    alpha = critical_alpha(aspect, 2)
    (low, _), (_, high) = TwoBatchLaw(aspect, alpha).support[0], TwoBatchLaw(aspect, alpha).support[-1]
    assert min(abs(low) if aspect < 1 else np.inf, abs(high - 2)) < 1e-10
    assert learning_curve(aspect, 0.999 * alpha, 2).converges
    assert not learning_curve(aspect, 1.001 * alpha, 2).converges


@pytest.mark.slow
@pytest.mark.parametrize(("aspect", "batches"), [(0.25, 3), (0.25, 4), (1.5, 4), (3.0, 3)])
def test_many_batches_leave_where_their_spectrum_does(aspect, batches):
    alpha = critical_alpha(aspect, batches)
    inside, outside = (BatchLaw(aspect, factor * alpha, batches) for factor in (1 - 1e-6, 1 + 1e-6))
    ends = np.array([2.0] if aspect >= 1 else [0.0, 2.0])
    assert inside.densities(ends)[0].max() < 1e-9
    assert outside.densities(ends)[0].max() > 1e-5


def test_more_batches_than_can_be_searched_are_refused_at_once():
    with pytest.raises(
        BudgetError, match=r"at most 20 .* but it is 21: .*learning_curve\(aspect, alpha, 21\)"
    ):
        critical_alpha(0.5, 21)


@pytest.mark.slow
@pytest.mark.parametrize("batches", [4, 6])
def test_few_parameters_leave_near_fixed_dimension(batches):
    """At alpha near 2B the mean of 1 - w_b is near -1, and what w_b has beside it is a semicircle.

    To first order in aspect^(1/2) the product of all is that of the means, and the sum of B semicircles: its
    largest value is 1 at alpha = 2B (1 - 2 aspect^(1/2)).
    """
    aspect = 1e-6
    assert 1 - critical_alpha(aspect, batches) / (2 * batches) == pytest.approx(2 * aspect**0.5, rel=0.01)


@pytest.mark.parametrize(("aspect", "batches", "p"), [(0.01, 4, 200), (0.03, 5, 300)])
def test_ends_of_a_spectrum_that_is_narrow(aspect, batches, p):
    """At alpha = B every 1 - w_b is small, and their product far smaller: a sample has its ends."""
    problem = rs.gaussian(round(p / aspect), p, seed=0)
    run = rs.descend(problem, rs.RandomReshuffling(batches=batches), alpha=float(batches))
    sampled = np.linalg.eigvalsh(np.asarray(run.epoch.Z)) * batches
    low, high = BatchLaw(aspect, float(batches), batches).ends
    assert high - low < 0.01
    np.testing.assert_allclose([sampled[0], sampled[-1]], [low, high], rtol=0, atol=0.1 * (high - low))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aspect", "batches", "covariance"),
    [(0.5, 3, [1.0] * 199 + [50.0]), (0.2, 4, [1.0, 2.0, 5.0]), (0.5, 3, [0.0, 1.0, 3.0])],
)
def test_few_large_eigenvalues_of_sigma_are_not_passed_over(aspect, batches, covariance):
    """The part of a single eigenvalue in 200 is narrow; one that is zero takes no part."""
    ends = BatchLaw(aspect, critical_alpha.__wrapped__(aspect, batches, covariance), batches, covariance).ends
    assert ends[0] > -1e-11
    assert ends[1] < 2 + 1e-9
    assert min(abs(ends[0]), abs(ends[1] - 2)) < 1e-9
