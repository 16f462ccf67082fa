"""The mean over all orders of blocks against enumeration, and critical steps that rest on drawn ones."""

from functools import reduce
from itertools import permutations

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.epoch.averaging.sampling import over_orders
from reshuffle.run import critical_polynomials, critical_steps


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_the_mean_over_the_orders_of_blocks_is_that_of_all_products(blocks):
    rng = np.random.default_rng(blocks)
    kernels, grades = rng.standard_normal((blocks, 2, 3, 3)), rng.random(3)
    maps = np.eye(3) - kernels * grades
    products = [reduce(np.matmul, order) for order in permutations(maps)]
    found = np.eye(3) - over_orders(kernels, grades) * grades
    np.testing.assert_allclose(found, np.mean(products, axis=0), atol=1e-13)


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
