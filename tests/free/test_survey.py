"""Random expressions with atoms among their laws: the mass is 1, and the measure has the exact moments."""

import numpy as np
import pytest
from benchmarks.free_survey import expression

from reshuffle import free


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 5, 7, 8])
def test_support_atoms_and_mass_of_a_random_expression(seed):
    s = free.spectrum(expression(np.random.default_rng(seed)))
    assert s.measure.mass == pytest.approx(1, abs=1e-7)
    scale = max([abs(end) for pair in s.support for end in pair] + [abs(place) for place, _ in s.atoms])
    exact = s.moments(4) / scale ** np.arange(1, 5)
    found = [s.expectation(lambda t, k=k: (t / scale) ** k) for k in range(1, 5)]
    np.testing.assert_allclose(found, exact, atol=1e-7)
