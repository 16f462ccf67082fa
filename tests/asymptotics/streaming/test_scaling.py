"""Frontiers: their exponents against theory, and their stated errors against finer searches."""

import numpy as np
import pytest
from benchmarks.scaling_laws import exact_risk, least_risk

from reshuffle.asymptotics import PowerLaw, compute_frontier
from tests.looped import for_all


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(1.5, 0.3), (2.0, 0.0)])
def test_its_exponents_are_those_of_theory(a, b):
    found = compute_frontier(PowerLaw(a), PowerLaw(b), 1, 0.2, np.geomspace(1e6, 1e9, 5))
    assert found.risk_exponent == pytest.approx(found.theory[0], abs=0.01)
    assert found.size_exponent == pytest.approx(found.theory[1], abs=0.02)
    np.testing.assert_allclose(found.size * found.steps, found.compute)


@for_all(
    "laws, step, batch_size, largest",
    [((2.0, 0.0), 0.2, 1, 64), ((1.5, 0.3), 0.1, 1, 150), ((1.5, 2.5), 0.3, 4, 90)],
)
def test_the_frontier_is_within_its_error_of_the_best_of_all_sizes(laws, step, batch_size, largest):
    """`python -m benchmarks.scaling_laws` has 108 such cases."""
    budgets = batch_size * np.array([1e3, 1e4, 1e5])
    found = compute_frontier(*map(PowerLaw, laws), batch_size, step, budgets)
    for budget, size, risk, error in zip(budgets, found.size, found.risk, found.error, strict=True):
        assert abs(least_risk(laws, batch_size, step, budget, largest) - risk) <= error < 0.01 * risk
        # The size is whole, and has this risk.
        steps = int(budget // (batch_size * size))
        assert abs(exact_risk(laws, int(size), batch_size, step, steps) - risk) <= error
