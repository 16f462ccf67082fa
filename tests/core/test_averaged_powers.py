"""Averages of powers and geometric sums, against 60 digits."""

import mpmath
import numpy as np
import pytest

from reshuffle._linalg import moving_mean, moving_power, tail_mean
from tests.looped import for_all

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
