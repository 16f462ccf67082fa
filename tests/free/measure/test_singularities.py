"""Laws whose density is infinite at an edge or inside the support."""

import numpy as np
import pytest
from scipy.optimize import brentq

from reshuffle import free
from tests.free import oracles


def halves():
    return free.variables(free.Projection(0.5), free.Projection(0.5))


def anticommutator_cdf(x):
    """Return P(s + s^2 <= x) for s arcsine on (-1, 1).

    The corner of two projections with cosine s has eigenvalues s^2 + s and s^2 - s, and s is symmetric.
    """
    root = np.sqrt(1 + 4 * x)
    arcsine = free.Arcsine(-1.0, 1.0)
    return arcsine.cdf((root - 1) / 2) - arcsine.cdf((-root - 1) / 2)


def fuss_catalan_density(t):
    """Return the density from ``w^3 = z (w - 1)``, ``w = z G``."""
    return np.array([np.abs(np.roots([1, 0, -z, z]).imag).max() / (np.pi * z) for z in t])


@pytest.mark.slow
def test_anticommutator_of_two_half_projections():
    p, q = halves()
    s = free.spectrum(p * q + q * p)
    np.testing.assert_allclose(s.support, [(-0.25, 2.0)], atol=1e-12)
    assert s.atoms == ()
    assert s.measure.mass == pytest.approx(1, abs=1e-10)
    x = np.concatenate(
        [-0.25 + np.geomspace(1e-6, 0.2, 9), -np.geomspace(1e-7, 0.1, 7), np.linspace(0.01, 1.99, 9)]
    )
    np.testing.assert_allclose(s.cdf(x), anticommutator_cdf(x), atol=1e-9)
    np.testing.assert_allclose(s.density(x), oracles.half_projections_density(x), rtol=1e-9)
    exact = [s.expectation(lambda t, k=k: t**k) for k in range(1, 7)]
    np.testing.assert_allclose(exact, s.moments(6), atol=1e-9)


def test_commutator_of_two_half_projections_is_arcsine():
    p, q = halves()
    s = free.spectrum(1j * (p * q - q * p))
    # Its eigenvalues are +- sqrt(t (1 - t)) with t arcsine, and sin(a) cos(a) = sin(2 a)/2.
    exact = free.Arcsine(-0.5, 0.5)
    np.testing.assert_allclose(s.support, [(-0.5, 0.5)], atol=1e-12)
    x = np.linspace(-0.499, 0.499, 12)
    np.testing.assert_allclose(s.density(x), exact.density(x), rtol=1e-10)
    np.testing.assert_allclose(s.cdf(x), exact.cdf(x), atol=1e-9)


@pytest.mark.slow
def test_compression_of_a_half_projection_is_half_an_arcsine():
    p, q = halves()
    s = free.spectrum(p * q * p)
    assert s.atoms == ((0.0, pytest.approx(0.5, abs=1e-12)),)
    np.testing.assert_allclose(s.support, [(0.0, 1.0)], atol=1e-12)
    x = np.linspace(0.001, 0.999, 12)
    np.testing.assert_allclose(s.cdf(x), 0.5 + free.Arcsine(0.0, 1.0).cdf(x) / 2, atol=1e-9)


@pytest.mark.slow
def test_product_with_a_singularity_of_power_two_thirds():
    x, w = free.variables(free.Semicircle(), free.MarchenkoPastur(1.0))
    s = free.spectrum(x * w * x)
    np.testing.assert_allclose(s.support, [(0.0, 6.75)], atol=1e-10)
    assert s.measure.mass == pytest.approx(1, abs=1e-10)
    t = np.geomspace(1e-4, 6.7, 20)
    np.testing.assert_allclose(s.density(t), fuss_catalan_density(t), rtol=1e-9)
    exact = [s.expectation(lambda t, k=k: t**k) for k in range(1, 5)]
    np.testing.assert_allclose(exact, [1.0, 3.0, 12.0, 55.0], rtol=1e-9)


def test_a_point_where_only_the_joint_system_is_singular():
    p, q = halves()
    s = free.spectrum(p + q)
    exact = free.Arcsine(0.0, 2.0)
    t = np.array([1.0, 1 + 1e-12, 1 + 1e-9, 1 - 1e-6, 0.5, 3.0])
    answer = s.resolve(t)
    assert answer.converged.all()
    np.testing.assert_allclose(answer.value, exact.density(t), rtol=1e-11)
    assert (np.abs(answer.value - exact.density(t)) <= answer.error + 1e-15).all()
    assert s.cauchy(1.0) == pytest.approx(-1j, abs=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "places"),
    [
        (lambda p, q: p + q, [0.0, 2.0]),
        (lambda p, q: p * q + q * p, [-0.25, 0.0, 2.0]),
        (lambda p, q: p * q * p, [0.0, 1.0]),
    ],
)
def test_neighbours_do_not_hide_a_singularity_or_an_atom(make, places):
    answer = free.spectrum(make(*halves())).resolve(places)
    assert not answer.converged.any()
    assert np.isnan(answer.value).all()


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_error_estimates_are_honest_and_sharp_near_a_strong_singularity(shift):
    x, w = free.variables(free.Semicircle(), free.MarchenkoPastur(1.0))
    t = 2.0 ** -np.arange(1, 30)
    answer = free.spectrum(x * w * x + shift).resolve(shift + t)
    exact = fuss_catalan_density(t)
    assert answer.converged.all()
    assert (np.abs(answer.value - exact) <= answer.error + 1e-14 * exact).all()
    assert (answer.error < 1e-6 * exact).all()


def test_error_estimates_are_honest_at_a_hard_edge():
    (x,) = free.variables(free.MarchenkoPastur(1.0))
    t = np.geomspace(1e-9, 3.9, 60)
    answer = free.spectrum(x).resolve(t)
    exact = free.MarchenkoPastur(1.0).density(t)
    assert answer.converged.all()
    assert (np.abs(answer.value - exact) <= answer.error + 1e-14 * exact).all()


@pytest.mark.slow
def test_two_powers_that_meet_in_one_point():
    """``c^2 -+ c^(3/2)`` with c arcsine, the squared cosine of the two subspaces' angle.

    At zero the density is like ``d^(-2/3)`` on both sides, and like ``d^(-1/2)`` besides on the left.
    """
    p, q = halves()
    s = free.spectrum(p * q * p * q + q * p * q * p)
    np.testing.assert_allclose(s.support, [(-27 / 256, 2.0)], atol=1e-12)
    c = np.array([0.01, 0.1, 0.5, 0.9])
    arcsine = free.Arcsine(0.0, 1.0).cdf
    np.testing.assert_allclose(s.cdf(c**2 + c**1.5), 0.5 + arcsine(c) / 2, atol=1e-10)
    # On the left the map falls up to c = 9/16 and rises from there on.
    low, high = np.array([0.1, 0.3]), 9 / 16
    values = low**2 - low**1.5
    other = np.array([brentq(lambda t, v=v: t**2 - t**1.5 - v, high, 1.0) for v in values])
    np.testing.assert_allclose(s.cdf(values), (arcsine(other) - arcsine(low)) / 2, atol=1e-10)


def test_a_singularity_of_power_four_fifths_keeps_its_mass():
    w, v = free.variables(free.MarchenkoPastur(1.0), free.MarchenkoPastur(1.0))
    s = free.spectrum(w * v * w)
    assert s.support[0][0] == 0.0
    # A hundredth of all mass lies below 1e-9.
    assert s.measure.mass == pytest.approx(1, abs=1e-10)
    exact = [s.expectation(lambda t, k=k: t**k) for k in range(1, 5)]
    np.testing.assert_allclose(exact, s.moments(4), rtol=1e-10)
