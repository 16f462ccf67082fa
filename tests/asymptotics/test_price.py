"""The price of batches for any Sigma, against the limit itself at small steps."""

import numpy as np
import pytest

from reshuffle.asymptotics import PowerLaw, critical_alpha, learning_curve, toeplitz
from tests.looped import for_all


@for_all(
    "aspect, batches, eigenvalues",
    [
        (0.25, 2, PowerLaw(1.0, 12).values()),
        (0.5, 3, np.array([0.5, 1.0, 2.0])),
        (0.4, 4, toeplitz(0.5, 8)),
        (0.5, 2, np.array([5.0, *5 * [1.0]])),
    ],
)
def test_the_price_for_any_sigma(aspect, batches, eigenvalues):
    prices = []
    square = float((eigenvalues**2).mean())
    for alpha in np.array([0.04, 0.02]) / eigenvalues.max():
        end = float(learning_curve(aspect, alpha, batches, covariance=eigenvalues).limit().total)
        leading = (batches - 1) / (4 * batches**2) * (aspect * alpha) ** 2 * square
        prices.append((end - aspect / (1 - aspect)) / leading)
    # Twice the price at half the step, less that at the step, has lost its next order.
    assert 2 * prices[1] - prices[0] == pytest.approx(1.0, abs=2e-3)


@pytest.mark.parametrize(("aspect", "batches"), [(0.5, 1), (1.5, 2)])
def test_the_critical_alpha_has_the_unit_of_the_covariance(aspect, batches):
    assert critical_alpha(aspect, batches, covariance=4.0) == pytest.approx(
        critical_alpha(aspect, batches) / 4
    )
