"""Frontiers: their exponents against theory."""

import numpy as np
import pytest

from reshuffle.asymptotics import PowerLaw, compute_frontier


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(1.5, 0.3), (2.0, 0.0)])
def test_its_exponents_are_those_of_theory(a, b):
    found = compute_frontier(PowerLaw(a), PowerLaw(b), 1, 0.2, np.geomspace(1e6, 1e9, 5))
    assert found.risk_exponent == pytest.approx(found.theory[0], abs=0.01)
    assert found.size_exponent == pytest.approx(found.theory[1], abs=0.02)
    np.testing.assert_allclose(found.size * found.steps, found.compute)
