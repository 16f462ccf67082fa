"""The mean over all orders of blocks against enumeration, and critical steps that rest on drawn ones."""

import pytest

import reshuffle as rs
from reshuffle.run import critical_polynomials, critical_steps


@pytest.mark.parametrize(
    "recipe", [{}, {"momentum": 0.5}, {"momentum": 0.4, "nesterov": True, "penalty": 0.1}]
)
def test_all_orders_of_few_batches_are_averaged_over(monkeypatch, recipe):
    """With no more batches than blocks every draw is the exact mean: only the search is left to be off."""
    problem, scheme = rs.gaussian(10, 3, seed=2), rs.RandomReshuffling(batches=5)
    exact = rs.critical_step(problem, scheme, **recipe, mean_square=False)
    monkeypatch.setattr(critical_steps, "_is_drawn", lambda *rest, **options: True)
    monkeypatch.setattr(critical_polynomials, "exact_step", lambda *rest: None)
    found = rs.critical_step(problem, scheme, **recipe, mean_square=False)
    assert abs(found - exact) <= found.error < 2e-3 * exact
