"""Answers of the limits that are not exact: their errors, against finer searches."""

import numpy as np
import pytest
from benchmarks.scaling_laws import exact_risk, least_risk

from reshuffle.asymptotics import PowerLaw, compute_frontier, critical_batch_size, one_pass


@pytest.mark.parametrize(
    ("laws", "step", "batch_size", "largest"),
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


@pytest.mark.slow
def test_the_critical_batch_is_within_its_error_of_a_finer_search():
    spectrum, source = PowerLaw(1.5, 200), PowerLaw(0.5, 200)
    found = critical_batch_size(spectrum, source, 0.3, batch_size=[4])
    assert found.error_kind == "estimate"
    assert 0 < found.error < 0.05 * found.critical

    def risk(step, steps):
        return float(one_pass(spectrum, source, 4, step, steps, cells=256).risk)

    # With its own step: the exact number of steps to the target lies within the error.
    steps, error = float(found.steps[0]), float(found.steps_error[0])
    assert 0 < error < 0.05 * steps
    assert risk(found.step[0], int(np.ceil(steps + error))) <= 0.3
    assert risk(found.step[0], int(np.floor(steps - error))) >= 0.3
