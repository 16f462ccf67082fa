"""Laws from laws: against closed forms, expressions that say the same, and each other, in any order."""

import numpy as np
import pytest

from reshuffle import free
from tests.looped import for_all

UNIT = free.MarchenkoPastur(1.0)


@pytest.fixture(scope="module")
def square():
    return free.multiply(UNIT, UNIT)


def test_a_product_is_the_law_of_the_expression_with_roots(square):
    w1, w2 = free.variables(UNIT, UNIT)
    direct = free.spectrum(free.sqrt(w1) * w2 * free.sqrt(w1))
    t = np.array([0.01, 0.3, 2.0, 5.0, 6.5])
    np.testing.assert_allclose(direct.density(t), square.density(t), rtol=1e-10)
    z = np.array([1 + 1j, -2.0, 3 - 0.1j])
    np.testing.assert_allclose(direct.cauchy(z), square.cauchy(z), rtol=1e-10)


def test_unequal_factors_agree_with_the_expression_and_with_their_own_order():
    sigma, noise = free.Discrete([1.0, 4.0, 10.0], [0.5, 0.3, 0.2]), free.MarchenkoPastur(0.1)
    law = free.multiply(sigma, noise)
    s, w = free.variables(free.sqrt(sigma), noise)
    t = np.array([0.8, 1.1, 4.0, 10.0, 12.0])
    np.testing.assert_allclose(law.density(t), free.spectrum(s * w * s).density(t), rtol=1e-10)
    np.testing.assert_allclose(law.density(t), free.multiply(noise, sigma).density(t), rtol=1e-10)
    # Silverstein's equation for the companion transform, in another form than the solver's.
    z = 1.5 + 0.3j
    v = 0.1 * law.cauchy(z) * -1 - 0.9 / z
    x, w = np.array(sigma.atoms).T
    assert z == pytest.approx(complex(-1 / v + 0.1 * (w * x / (1 + x * v)).sum()), abs=1e-12)


def test_products_of_projections_have_known_atoms_and_edges():
    a, b = 0.3, 0.9
    law = free.multiply(free.Projection(a), free.Projection(b))
    np.testing.assert_allclose(law.atoms, [(0.0, 0.7), (1.0, 0.2)], atol=1e-12)
    middle, reach = a + b - 2 * a * b, 2 * np.sqrt(a * b * (1 - a) * (1 - b))
    np.testing.assert_allclose(law.support, [(middle - reach, middle + reach)], atol=1e-9)
    p, q = free.variables(free.Projection(a), free.Projection(b))
    t = np.array([0.45, 0.6, 0.9])
    np.testing.assert_allclose(law.density(t), free.spectrum(p * q * p).density(t), rtol=1e-10)


@for_all("times", [1.0, 1.7, 4.0])
def test_additive_powers_of_laws_whose_parameters_they_multiply(times):
    t = np.array([-1.9, 0.3, 1.2, 2.9])
    power = free.additive_power(free.Semicircle(1.3), times)
    np.testing.assert_allclose(power.density(t), free.Semicircle(1.3 * times).density(t), atol=1e-12)
    power = free.additive_power(free.FreePoisson(0.7, 0.5), times)
    np.testing.assert_allclose(power.density(t), free.FreePoisson(0.7 * times, 0.5).density(t), atol=1e-12)
    np.testing.assert_allclose(power.moments(5), free.FreePoisson(0.7 * times, 0.5).moments(5), rtol=1e-12)


@pytest.mark.parametrize("times", [1.5, 3.0])
def test_additive_powers_of_a_symmetry_are_kesten_mckay_laws(times):
    t = np.linspace(-1.3, 1.3, 7)
    power = free.additive_power(free.Bernoulli(), 2 * times)
    np.testing.assert_allclose(power.density(t), free.KestenMcKay(2 * times).density(t), atol=1e-12)
    assert power.atoms == ()
    light = free.additive_power(free.Bernoulli(), 1.5)
    np.testing.assert_allclose(light.atoms, [(-1.5, 0.25), (1.5, 0.25)], atol=1e-12)


@pytest.mark.slow
def test_a_corner_is_what_a_projection_cuts_out():
    law, rank = free.Discrete([-2.0, 1.0, 3.0], [0.3, 0.4, 0.3]), 0.7
    x, p = free.variables(law, free.Projection(rank))
    corner = free.Corner(free.spectrum(p * x * p), rank)
    t = np.array([-1.4, -1.0, 1.5, 2.4])
    compressed = free.compress(law, rank)
    np.testing.assert_allclose(compressed.density(t), corner.density(t), atol=1e-10)
    np.testing.assert_allclose(compressed.atoms, [(1.0, 1 / 7)], atol=1e-9)
    np.testing.assert_allclose(corner.atoms, compressed.atoms, atol=1e-9)
    # Corners of a projection: (Wachter's laws), with atoms where ranks add up to more than one.
    np.testing.assert_allclose(free.compress(free.Projection(0.9), 0.5).atoms, [(1.0, 0.8)], atol=1e-12)


def test_multiplicative_powers_interpolate_products(square):
    t = np.array([0.1, 1.0, 5.0])
    np.testing.assert_allclose(free.multiplicative_power(UNIT, 2.0).density(t), square.density(t), rtol=1e-11)
    half = free.multiplicative_power(UNIT, 1.5)
    three = free.multiply(UNIT, UNIT, UNIT).density(t)
    np.testing.assert_allclose(free.multiply(half, half).density(t), three, rtol=1e-9)
    np.testing.assert_allclose(free.multiplicative_power(half, 2.0).density(t), three, rtol=1e-9)
    np.testing.assert_allclose(half.moments(4), fuss_catalan_real(1.5, 4), rtol=1e-9)


def fuss_catalan_real(power, order):
    """Return Raney numbers: products in place of factorials."""
    result = []
    for n in range(1, order + 1):
        value = 1.0 / (power * n + 1)
        for k in range(n):
            value *= ((power + 1) * n - k) / (k + 1)
        result.append(value)
    return result


@for_all(
    "call, words",
    [
        (lambda: free.multiply(free.Semicircle(), UNIT), "x >= 0"),
        (lambda: free.multiply(free.Discrete([0.0]), UNIT), "point 0"),
        (lambda: free.additive_power(UNIT, 0.5), "times must be"),
        (lambda: free.compress(UNIT, 0.0), "rank must be"),
        (lambda: free.Corner(UNIT, 0.5), "rank must be at least"),
        (lambda: free.multiply(2.0, UNIT), "needs laws"),
        (lambda: free.add(), "at least one"),
        (lambda: free.divide([], UNIT), "seen must have eigenvalues"),
        (lambda: free.divide(np.zeros(3), UNIT), "seen must have eigenvalues, not all zero"),
    ],
)
def test_what_makes_no_sense_is_refused(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call()


def test_additive_noise_is_removed_and_what_has_no_answer_says_so():
    noise = free.Semicircle(0.04)
    seen = free.add(free.Discrete([-1.0, 2.0], [0.25, 0.75]), noise)
    found = free.subtract(seen, noise)
    assert found.law.cdf([-1.2, 0.0, 1.8, 2.2]) == pytest.approx([0, 0.25, 0.25, 1], abs=0.01)
    assert found.misfit < 1e-3
    with pytest.raises(free.ConvergenceError, match="no law gives"):
        free.subtract(free.Semicircle(1.0), free.Semicircle(4.0))
    with pytest.raises(free.ConvergenceError, match="no law gives"):
        free.divide(free.Discrete([1.0]), free.MarchenkoPastur(0.5))
    with pytest.raises(TypeError, match="MarchenkoPastur"):
        free.divide(seen, free.Semicircle())


def silverstein(sigma, weights, ratio, z):
    """Return g with ``z = 1/g + ratio sum_k w_k t_k/(1 - t_k g)`` below the axis, a root of a polynomial."""
    poly = np.polynomial.Polynomial
    whole = poly([1.0])
    for t in sigma:
        whole *= poly([1.0, -t])
    rest = sum(w * t * (whole // poly([1.0, -t])) for t, w in zip(sigma, weights, strict=True))
    answers = []
    for point in z:
        curve = (1 - point * poly([0.0, 1.0])) * whole + ratio * poly([0.0, 1.0]) * rest
        roots = curve.roots()
        g = roots[np.argmin(roots.imag)]
        for _ in range(3):
            g = g - curve(g) / curve.deriv()(g)
        answers.append(g)
    return np.array(answers)


@pytest.mark.parametrize("ratio", [0.3, 2.0])
def test_gram_matrices_obey_silversteins_equation(ratio):
    sigma, weights = [1.0, 3.0, 10.0], [0.5, 0.25, 0.25]
    law = free.gram(free.Discrete(sigma, weights), ratio)
    z = np.array([0.7 + 0.1j, 3.0 + 0.02j, 20.0 + 1j, -1.0 + 0.5j])
    np.testing.assert_allclose(law.cauchy(z), silverstein(sigma, weights, ratio, z), atol=1e-10)
    assert dict(law.atoms).get(0.0, 0.0) == pytest.approx(max(1 - ratio, 0.0), abs=1e-12)
    t = np.array([np.mean(pair) for pair in law.support])
    exact = -silverstein(sigma, weights, ratio, t).imag / np.pi
    np.testing.assert_allclose(law.density(t), exact, atol=1e-10)
    assert law.moments(1)[0] == pytest.approx(ratio * 3.75, abs=1e-9)


def test_gram_refuses_what_it_cannot_take():
    with pytest.raises(ValueError, match="ratio must be"):
        free.gram(free.Projection(0.5), 0.0)
    with pytest.raises(ValueError, match="x >= 0"):
        free.gram(free.Semicircle(), 0.5)
    with pytest.raises(TypeError, match="base must be a law"):
        free.Corner(3.0, 0.5)


def test_a_density_that_no_panels_resolve_is_refused():
    with pytest.raises(free.ConvergenceError, match=r"panels resolve; use density\(t\)"):
        free.FromDensity(lambda t: np.full(t.shape, np.nan), [(-1.0, 1.0)])


def of_sum(*laws):
    return free.spectrum(sum(free.variables(*laws)))


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
