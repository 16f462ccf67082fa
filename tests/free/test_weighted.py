"""Mixed expectations tau(f(p) q) against exact moments, closed forms and samples."""

import numpy as np
import pytest

from reshuffle import free
from reshuffle.free.moments import polynomial_moments
from tests.free import oracles


@pytest.mark.slow
def test_mixed_moments_equal_those_by_freeness():
    x, y = free.variables(free.Semicircle(), free.MarchenkoPastur(0.5))
    p, q = x + y * x * y, x * x + y
    s = free.spectrum(p)
    exact = polynomial_moments(p, 4, q)
    found = [s.mixed(lambda t, k=k: t**k, q) for k in range(5)]
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-9)


def test_weights_need_not_be_self_adjoint():
    x, y = free.variables(free.MarchenkoPastur(0.5), free.Semicircle())
    p, q = x * y + y * x, x * y + 1j * x
    s = free.spectrum(p)
    exact = polynomial_moments(p, 3, q)
    found = [s.mixed(lambda t, k=k: t**k, q) for k in range(4)]
    np.testing.assert_allclose(found, exact, rtol=1e-8)


def test_atoms_carry_their_share():
    x, y = free.variables(free.MarchenkoPastur(3.0, 0.1), free.MarchenkoPastur(3.0, 0.1))
    p = x + y - (x * y + y * x) / 2
    weighted = free.spectrum(p).weighted(1 + x)
    # On the kernel of p both variables vanish.
    assert weighted.atoms[0][1] == pytest.approx(1 / 3, abs=1e-7)


def test_noise_weighted_two_batch_law_against_its_curve():
    ratio, variance = 0.5, 0.2
    x, y = free.variables(*[free.MarchenkoPastur(ratio, variance)] * 2)
    p = x + y - (x * y + y * x) / 2
    noise = ((1 - y / 2) * x * (1 - y / 2) + (1 - x / 2) * y * (1 - x / 2)) / (2 * variance)
    z = np.array([0.3 + 0.2j, 0.8 + 0.5j, 0.2 + 0.1j])
    curve = oracles.TwoBatchCurve(ratio, variance)
    expected = curve.weighted(curve.root(z))
    np.testing.assert_allclose(free.spectrum(p).weighted(noise).cauchy(z), expected, rtol=1e-9)


def test_bad_weights_are_refused():
    (x,) = free.variables(free.Semicircle())
    (y,) = free.variables(free.Semicircle())
    s = free.spectrum(x)
    with pytest.raises(ValueError, match="one call"):
        s.weighted(y)
    with pytest.raises(ValueError, match="scalar"):
        s.weighted(np.eye(2) * x)
