"""Spectra whose ends fall exactly on 0, 1 or 2, where (1 - x)^k is special."""

import math

import mpmath
import numpy as np
import pytest

from reshuffle.asymptotics import learning_curve

EPOCHS = [0, 1, 5, 50]


def marchenko_pastur_risk(aspect, alpha, epochs, noise):
    """Bias and variance of gradient descent by mpmath's quadrature of the density, in 25 digits."""
    with mpmath.workdps(25):
        ratio, step = mpmath.mpf(aspect), mpmath.mpf(alpha)
        low, high = step * (1 - mpmath.sqrt(ratio)) ** 2, step * (1 + mpmath.sqrt(ratio)) ** 2
        middle, half = (low + high) / 2, (high - low) / 2

        def integral(function):
            def integrand(angle):
                x = middle - half * mpmath.cos(angle)
                # half^2 sin^2 / x, which at aspect 1 is half (1 + cos) for every angle, zero included.
                mass = half * (1 + mpmath.cos(angle)) if low == 0 else (half * mpmath.sin(angle)) ** 2 / x
                return function(x) * mass / (2 * mpmath.pi * step * ratio)

            return mpmath.quad(integrand, mpmath.linspace(0, mpmath.pi, 5))

        def drift(x):
            return mpmath.fsum((1 - x) ** j for j in range(epochs))

        bias = integral(lambda x: (1 - x) ** (2 * epochs))
        variance = noise**2 * ratio * step * integral(lambda x: x * drift(x) ** 2)
        return float(bias), float(variance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aspect", "alpha"),
    [(1.0, 0.25), (1.0, 0.5), (0.5, 0.3431457505076198), (0.25, 4 / 9), (0.25, 8 / 9), (4.0, 1 / 9)],
)
def test_one_batch_whose_spectrum_ends_at_one_or_two(aspect, alpha):
    assert alpha * (1 + math.sqrt(aspect)) ** 2 == pytest.approx(
        round(alpha * (1 + math.sqrt(aspect)) ** 2), abs=1e-15
    )
    risk = learning_curve(aspect, alpha, 1, noise=0.5).risk(EPOCHS)
    expected = np.array([marchenko_pastur_risk(aspect, alpha, k, 0.5) for k in EPOCHS])
    assert risk.bias == pytest.approx(expected[:, 0], rel=1e-10, abs=1e-14)
    assert risk.variance == pytest.approx(expected[:, 1], rel=1e-10, abs=1e-14)
