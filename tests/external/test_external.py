"""Against numbers that were not computed here."""

from itertools import permutations

import numpy as np
import pytest

import reshuffle as rs
from tests.external import safran_shamir
from tests.looped import for_all


@for_all("scheme", safran_shamir.SCHEMES)
def test_published_losses_of_safran_and_shamir(scheme):
    """75 means of 100 runs each: all within four standard errors, their mean ratio within three of one."""
    epochs, means = safran_shamir.published()
    assert epochs.shape == (75,)
    mean, deviation = safran_shamir.law(scheme, epochs)
    error = deviation / np.sqrt(safran_shamir.RUNS)
    assert (np.abs(means[scheme] - mean) <= 4 * error).all()
    of_ratio = np.sqrt(np.square(error / mean).sum()) / len(epochs)
    assert abs((means[scheme] / mean).mean() - 1) <= 3 * of_ratio


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheme", "every"), [("with_replacement", 5), ("shuffled_once", 37), ("reshuffled", 37)]
)
def test_the_library_has_their_law(scheme, every):
    for epochs in safran_shamir.published()[0][::every]:
        loss, error = safran_shamir.loss(scheme, epochs)
        exact, _ = safran_shamir.law(scheme, epochs)
        if scheme == "with_replacement":
            assert error == 0
        assert abs(loss - exact) <= error + 1e-10 * exact


FIVE_BATCHES = np.array([
    [[0.64, -0.41, 0.21], [-0.41, 1.25, -0.11], [0.21, -0.11, 1.59]],
    [[1.47, 0.02, -0.45], [0.02, 1.67, 0.04], [-0.45, 0.04, 0.95]],
    [[1.09, 0.68, 0.23], [0.68, 0.43, 0.17], [0.23, 0.17, 1.36]],
    [[1.58, -0.21, 0.29], [-0.21, 0.59, -0.25], [0.29, -0.25, 0.63]],
    [[1.04, 0.09, -0.32], [0.09, 1.71, 0.07], [-0.32, 0.07, 1.50]],
])  # fmt: skip
"""Rows of five batches, found by a search: see Lai and Lim (2020) and De Sa (2020)."""


def test_reshuffling_may_be_worse_than_replacement():
    """The inequality of arithmetic and geometric means fails for the means of products of five matrices."""
    problem = rs.LeastSquares(FIVE_BATCHES.reshape(15, 3), np.ones(15))
    visits = [np.eye(3) - rows.T @ rows / 3 for rows in FIVE_BATCHES]
    # Every visit contracts, so that it is not the step that is too large.
    assert max(np.linalg.norm(visit, 2) for visit in visits) <= 1 + 1e-2
    orders = [np.linalg.multi_dot([visits[batch] for batch in order]) for order in permutations(range(5))]
    by_hand = [np.mean(orders, axis=0), np.linalg.matrix_power(np.mean(visits, axis=0), 5)]
    schemes = [rs.RandomReshuffling(batches=5), rs.WithReplacement(batches=5)]
    rates = [rs.descend(problem, scheme, step=1.0).stability().rate for scheme in schemes]
    assert rates == pytest.approx([np.abs(np.linalg.eigvalsh(mean)).max() for mean in by_hand], rel=1e-9)
    assert rates[0] > 1.005 * rates[1]
