"""Frontiers: against brute force and theory."""

import math

import numpy as np
import pytest

from reshuffle.asymptotics import PowerLaw, compute_frontier
from tests.asymptotics.streaming import simulated_passes


def test_the_frontier_is_the_best_of_all_sizes():
    """Every size up to 60 by the plain recursion, with the left-out features as noise."""
    a, b, step = 1.5, 0.5, 0.3
    budgets = np.array([500.0, 2000.0])
    found = compute_frontier(PowerLaw(a), PowerLaw(b), 2, step, budgets)
    for budget, risk, error in zip(budgets, found.risk, found.error, strict=True):
        risks = []
        for size in range(1, 61):
            values, source = PowerLaw(a, size).values(), PowerLaw(b, size).values()
            left = PowerLaw(a + b).total() - PowerLaw(a + b, size).total()
            steps = int(budget // (2 * size))
            risks.append(
                simulated_passes.recursion(values, source, 2, step, steps, math.sqrt(left))[-1] + left
            )
        assert abs(min(risks) - risk) <= error + 0.01 * risk


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(1.5, 0.3), (2.0, 0.0)])
def test_its_exponents_are_those_of_theory(a, b):
    found = compute_frontier(PowerLaw(a), PowerLaw(b), 1, 0.2, np.geomspace(1e6, 1e9, 5))
    assert found.risk_exponent == pytest.approx(found.theory[0], abs=0.01)
    assert found.size_exponent == pytest.approx(found.theory[1], abs=0.02)
    np.testing.assert_allclose(found.size * found.steps, found.compute)
