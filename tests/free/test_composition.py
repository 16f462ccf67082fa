"""A spectrum is a law: laws compose, and the order in which they are put together does not matter."""

import numpy as np
import pytest

from reshuffle import free


def of_sum(*laws):
    return free.spectrum(sum(free.variables(*laws)))


def test_semicircles_add_their_variances_however_they_are_composed():
    once = of_sum(free.Semicircle(1.0), free.Semicircle(2.0))
    twice = of_sum(once, once)
    t = np.linspace(-4.8, 4.8, 41)
    np.testing.assert_allclose(twice.density(t), free.Semicircle(6.0).density(t), atol=1e-12)
    z = np.array([1 + 0.1j, 5.0, -3 - 2j])
    np.testing.assert_allclose(twice.cauchy(z), free.Semicircle(6.0).cauchy(z), atol=1e-12)


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


@pytest.mark.slow
def test_a_matrix_of_expressions_in_exchangeable_variables():
    x, y, z = free.variables(*[free.Semicircle(0.5)] * 3)
    products = x * y + y * x + y * z + z * y + x * z + z * x
    s = free.spectrum(free.block([[x + y + z, products], [products, -1]]))
    assert s.compare(300, seed=2).distance < 0.02
    # The trace of the square, from the diagonal and the corners: E (x + y + z)^2 + 2 E products^2 + 1, over two.
    assert s.moments(2)[1] == pytest.approx((1.5 + 2 * 6 * 0.5**2 + 1) / 2, rel=1e-9)
