"""Powers, geometric sums and averages of powers of 1 - x, against exact arithmetic; and one eigenvalue of many."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reshuffle._linalg import eigenvalue, moving_mean, moving_power, power_and_sum, tail_mean
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


COUNTED = np.array([0.0, 1e-300, 1e-14, 1e-8, 1e-3, 1e-2, 0.0101, 0.5, 0.999, 1.0, 1.3, 1.9, 2.3, -0.1])


def path(decay_rate, epochs):
    """Powers and geometric sums after 0, 1, ..., epochs epochs."""
    power, total = mpmath.mpf(1), mpmath.mpf(0)
    yield power, total
    for _ in range(epochs):
        total, power = total + power, power * (1 - mpmath.mpf(float(decay_rate)))
        yield power, total


def close(found, wanted):
    # Where a sign alternates the average itself may cancel.
    scale = np.maximum(np.abs(wanted), np.where(COUNTED > 1, 1e-2, 0.0))
    assert (np.abs(found - wanted) <= 1e-13 * scale).all()


@for_all("epochs", [0, 1, 2, 7, 40])
@for_all("decay", [0.0, 0.3, 0.5, 0.99, 0.999999, 1 - 1e-10])
def test_moving_means(decay, epochs):
    found = moving_mean(COUNTED, decay, np.array([float(epochs)]))
    with mpmath.workdps(60):
        d, wanted = mpmath.mpf(decay), []
        for decay_rate in COUNTED:
            (power, total), *others = path(decay_rate, epochs)
            for later_power, later_total in others:
                power, total = d * power + (1 - d) * later_power, d * total + (1 - d) * later_total
            wanted.append([float(power), float(total)])
    close(found[0][0], np.array(wanted)[:, 0])
    close(found[1][0], np.array(wanted)[:, 1])


@for_all("count", [1, 2, 7, 40])
@for_all("first", [1, 4, 30])
def test_tail_means(first, count):
    found = tail_mean(COUNTED, first, np.array([float(first + count - 1)]))
    with mpmath.workdps(60):
        wanted = []
        for decay_rate in COUNTED:
            chosen = list(path(decay_rate, first + count - 1))[first:]
            wanted.append([float(sum(part) / count) for part in zip(*chosen, strict=True)])
    close(found[0][0], np.array(wanted)[:, 0])
    close(found[1][0], np.array(wanted)[:, 1])


def test_a_trillion_epochs():
    k, decay_rates, count = 10**12, np.array([1e-13, 1e-6, 0.3]), np.array([1e12])
    with mpmath.workdps(60):
        rates = [1 - mpmath.mpf(float(decay_rate)) for decay_rate in decay_rates]
        tails = [float(rate * (1 - rate**k) / (k * (1 - rate))) for rate in rates]
        d = mpmath.mpf(1 - 1e-9)
        movings = [float(d**k + (1 - d) * rate * (rate**k - d**k) / (rate - d)) for rate in rates]
    np.testing.assert_allclose(tail_mean(decay_rates, 1, count)[0][0], tails, rtol=1e-13)
    np.testing.assert_allclose(moving_mean(decay_rates, 1 - 1e-9, count)[0][0], movings, rtol=1e-12)


def test_what_updates_leave():
    assert moving_power(0.0, 3) == (0.0, 1.0)
    assert moving_power(0.0, 0) == (1.0, 0.0)
    left, lost = moving_power(1 - 1e-12, 5)
    assert left == pytest.approx(1 - 5e-12, rel=1e-15)
    assert lost == pytest.approx(1e-11, rel=1e-4)


@for_all("p", range(3, 60))
def test_equicorrelated_features(p):
    """c I - 11'/p has the eigenvalue c, p - 1 times, and c - 1."""
    matrix = 3 * np.eye(p) - np.ones((p, p)) / p
    assert eigenvalue(matrix, -1) == pytest.approx(3.0, rel=1e-14)
    assert eigenvalue(matrix, 0) == pytest.approx(2.0, rel=1e-14)
