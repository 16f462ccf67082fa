"""Frontiers and critical batch sizes: against brute force and closed forms."""

import math

import numpy as np
import pytest

from reshuffle.asymptotics import PowerLaw, compute_frontier, critical_batch_size, one_pass


@pytest.mark.slow
@pytest.mark.parametrize(("a", "b"), [(1.5, 0.3), (2.0, 0.0)])
def test_its_exponents_are_those_of_theory(a, b):
    found = compute_frontier(PowerLaw(a), PowerLaw(b), 1, 0.2, np.geomspace(1e6, 1e9, 5))
    assert found.risk_exponent == pytest.approx(found.theory[0], abs=0.01)
    assert found.size_exponent == pytest.approx(found.theory[1], abs=0.02)
    np.testing.assert_allclose(found.size * found.steps, found.compute)


@pytest.mark.slow
def test_the_critical_batch_reaches_its_target_and_no_other_step_is_faster():
    spectrum, source = PowerLaw(1.5, 300), PowerLaw(0.5, 300)
    found = critical_batch_size(spectrum, source, 0.2, batch_size=[4, 64])
    for size, steps, step in zip((4, 64), found.steps, found.step, strict=True):
        around = one_pass(spectrum, source, size, step, [math.floor(0.99 * steps), math.ceil(1.01 * steps)])
        assert around.risk[0] > 0.2 * 0.999
        assert around.risk[1] < 0.2 * 1.001
        for factor in (0.5, 0.8, 1.25):
            other = one_pass(spectrum, source, size, factor * step, math.floor(0.97 * steps))
            assert other.risk > 0.2
    assert found.critical == found.fewest_samples / found.fewest_steps
    at = critical_batch_size(spectrum, source, 0.2, batch_size=[round(found.critical)])
    assert 1.7 < at.steps[0] / at.fewest_steps < 2.3
    assert 1.7 < at.samples[0] / at.fewest_samples < 2.3
