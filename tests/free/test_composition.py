"""A spectrum is a law: laws compose, and the order in which they are put together does not matter."""

import numpy as np
import pytest

from reshuffle import free


def of_sum(*laws):
    return free.spectrum(sum(free.variables(*laws)))


def test_a_spectrum_is_a_law():
    s = of_sum(free.Semicircle(), free.Semicircle())
    assert isinstance(s, free.Law)
    np.testing.assert_allclose(s.cumulants(4), [0, 2, 0, 0], atol=1e-12)
    assert s.scale == pytest.approx(8**0.5, abs=1e-9)
    assert (2 * s - 1).support[0] == pytest.approx((-1 - 2 * 8**0.5, -1 + 2 * 8**0.5), abs=1e-8)
    assert s.sample(5).shape == (5,)


def test_semicircles_add_their_variances_however_they_are_composed():
    once = of_sum(free.Semicircle(1.0), free.Semicircle(2.0))
    twice = of_sum(once, once)
    t = np.linspace(-4.8, 4.8, 41)
    np.testing.assert_allclose(twice.density(t), free.Semicircle(6.0).density(t), atol=1e-12)
    z = np.array([1 + 0.1j, 5.0, -3 - 2j])
    np.testing.assert_allclose(twice.cauchy(z), free.Semicircle(6.0).cauchy(z), atol=1e-12)


def test_the_support_of_a_composed_sum_is_found():
    s = of_sum(of_sum(free.Semicircle(), free.Semicircle()), free.Semicircle())
    assert s.support[0] == pytest.approx((-(12**0.5), 12**0.5), abs=1e-8)
    np.testing.assert_allclose(s.moments(4), [0, 3, 0, 18], atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "laws",
    [
        (free.Uniform(), free.MarchenkoPastur(2.0), free.Arcsine()),
        (free.Projection(0.7), free.Projection(0.8), free.Semicircle(0.5)),
        (free.Bernoulli(), free.Bernoulli(), free.FreePoisson(0.5)),
    ],
)
def test_a_sum_of_three_at_once_is_that_of_two_and_then_the_third(laws):
    at_once, composed = of_sum(*laws), of_sum(of_sum(*laws[:2]), laws[2])
    t = np.linspace(-2.1, 3.9, 31)
    np.testing.assert_allclose(composed.density(t), at_once.density(t), atol=1e-10)


@pytest.mark.slow
def test_atoms_are_carried_through_compositions():
    pair = of_sum(free.Projection(0.7), free.Projection(0.8))
    assert [mass for _, mass in pair.atoms] == pytest.approx([0.1, 0.5], abs=1e-12)
    # An atom of a free sum is the sum of two whose masses exceed 1 together, by the excess (Bercovici, Voiculescu).
    composed = of_sum(pair, free.Projection(0.95))
    np.testing.assert_allclose(composed.atoms, [(2.0, 0.05), (3.0, 0.45)], atol=1e-9)


@pytest.mark.slow
def test_a_compression_of_a_compression_is_that_of_a_product():
    p, q, r = free.variables(free.Projection(0.7), free.Projection(0.8), free.Projection(0.9))
    at_once = free.spectrum(r * p * q * p * r)
    p, q = free.variables(free.Projection(0.7), free.Projection(0.8))
    inner, r = free.variables(free.spectrum(p * q * p), free.Projection(0.9))
    composed = free.spectrum(r * inner * r)
    t = np.linspace(0.05, 0.85, 31)
    np.testing.assert_allclose(composed.density(t), at_once.density(t), atol=1e-9)
    np.testing.assert_allclose(composed.atoms, [(0.0, 0.3), (1.0, 0.4)], atol=1e-9)


def test_a_spectrum_of_points_alone_composes_like_a_discrete_law():
    (p,) = free.variables(free.Projection(0.5))
    symmetry = free.spectrum(2 * p - 1)
    assert symmetry.support == ()
    s = of_sum(symmetry, free.Bernoulli())
    t = np.linspace(-1.9, 1.9, 21)
    np.testing.assert_allclose(s.density(t), free.Arcsine().density(t), atol=1e-12)


def test_the_law_of_a_matrix_of_expressions_composes_and_is_sampled_at_the_size_asked_for():
    x, y = free.variables(free.Semicircle(), free.Semicircle())
    inner = free.spectrum(free.block([[x, y], [y, -x]]))
    u, z = free.variables(inner, free.Semicircle())
    s = free.spectrum(u + z)
    assert s.matrix(40).shape == (40, 40)
    assert s.compare(300).distance < 0.02
