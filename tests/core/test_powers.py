"""Powers and sums of 1 - x against exact rational arithmetic."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshuffle._linalg import power_and_sum
from tests.looped import for_all


@given(st.floats(-3, 3), st.integers(0, 60))
def test_powers_and_sums_equal_exact_arithmetic(x, count):
    power, total = power_and_sum(np.array([x]), np.array(float(count)))
    base = 1 - Fraction(x)
    exact_total = Fraction(count) if x == 0 else sum((base**j for j in range(count)), Fraction(0))
    assert power[0] == pytest.approx(float(base**count), rel=1e-13, abs=1e-300)
    assert total[0] == pytest.approx(float(exact_total), rel=1e-13, abs=1e-13)


@for_all("x", [1e-300, 1e-17, 1e-9, 0.3, 2 - 1e-9])
def test_a_billion_terms_lose_no_digits(x):
    mpmath.mp.dps = 400
    count = 10**9
    power, total = power_and_sum(np.array([x]), np.array(float(count)))
    base = 1 - mpmath.mpf(x)
    exact = base**count
    assert total[0] == pytest.approx(float((1 - exact) / mpmath.mpf(x)), rel=1e-13)
    # The logarithm of the power is known to eps, the power itself to eps times that logarithm.
    assert power[0] == pytest.approx(float(exact), rel=1e-13 * max(1, count * min(x, 2 - x)), abs=1e-300)


def test_infinitely_many_terms():
    x = np.array([-0.1, 0.0, 1e-12, 0.5, 1.0, 1.9, 2.0, 2.1])
    power, total = power_and_sum(x, np.array(np.inf))
    np.testing.assert_array_equal(power, [np.inf, 1, 0, 0, 0, 0, np.inf, np.inf])
    np.testing.assert_allclose(total, [np.inf, np.inf, 1e12, 2, 1, 1 / 1.9, np.inf, np.inf])


def test_growth_beyond_the_range_is_infinite_with_its_sign():
    power, total = power_and_sum(np.array([-1.0, 5.0]), np.array([2000.0, 2001.0]))
    np.testing.assert_array_equal(power, [[np.inf, np.inf], [np.inf, -np.inf]])
    np.testing.assert_array_equal(total, [[np.inf, -np.inf], [np.inf, np.inf]])
