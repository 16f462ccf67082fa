"""Functions of variables, expressions in which they meet, and mixed expectations tau(f(p) q)."""

import numpy as np
import pytest

from reshuffle import free
from reshuffle.free.moments import polynomial_moments
from tests.free import oracles


def test_the_root_of_a_square_wishart_is_a_quarter_circle():
    law = free.sqrt(free.MarchenkoPastur(1.0))
    t = np.linspace(0.1, 1.9, 7)
    np.testing.assert_allclose(law.density(t), np.sqrt(4 - t**2) / np.pi, rtol=1e-12)
    np.testing.assert_allclose(law.moments(2), [8 / (3 * np.pi), 1.0], rtol=1e-12)
    assert law.support == ((0.0, 2.0),)


def test_squares_and_absolute_values_of_a_semicircle():
    t = np.linspace(0.1, 3.9, 7)
    square = free.apply(np.square, free.Semicircle())
    np.testing.assert_allclose(square.density(t), free.MarchenkoPastur(1.0).density(t), rtol=1e-10)
    z = np.array([1 + 0.5j, -1.0])
    np.testing.assert_allclose(square._cauchy(z + 0j), free.MarchenkoPastur(1.0).cauchy(z), rtol=1e-10)
    folded = free.apply(np.abs, free.Semicircle())
    np.testing.assert_allclose(folded.density(t[t < 2]), np.sqrt(4 - t[t < 2] ** 2) / np.pi, rtol=1e-9)


def test_atoms_move_and_flat_pieces_make_new_ones():
    law = free.apply(lambda t: np.clip(t, 0.0, 1.0), free.Semicircle())
    masses = dict(law.atoms)
    assert masses[0.0] == pytest.approx(0.5, abs=1e-12)
    assert masses[1.0] == pytest.approx(1 - float(free.Semicircle().cdf(1.0)), abs=1e-12)
    assert law.measure.mass == pytest.approx(1.0, abs=1e-11)
    moved = free.apply(np.exp, free.MarchenkoPastur(2.0))
    assert moved.atoms == ((1.0, 0.5),)
    assert free.apply(np.square, free.Bernoulli()).atoms == ((1.0, 1.0),)


def test_two_humps_of_a_function_share_their_values():
    law = free.apply(lambda t: t**2 * (t**2 - 2), free.Uniform(-1.2, 1.2))
    assert law.measure.mass == pytest.approx(1.0, abs=1e-10)
    sample = np.linspace(-1.2, 1.2, 200001)
    exact = np.mean(sample**2 * (sample**2 - 2) <= -0.5)
    assert float(law.cdf(-0.5)) == pytest.approx(exact, abs=1e-4)


def test_a_root_is_the_same_element_as_its_square():
    x, y = free.variables(free.MarchenkoPastur(0.5), free.Semicircle())
    s = free.sqrt(x)
    np.testing.assert_allclose(
        free.spectrum(s * s + y).density([0.5, 2.0]), free.spectrum(x + y).density([0.5, 2.0]), rtol=1e-9
    )
    assert free.spectrum(s * s * x - x * x).moments(2) == pytest.approx([0, 0], abs=1e-12)
    law = free.spectrum(s * y * s + x)
    z = 0.7 + 0.6j
    matrix = np.linalg.inv(z * np.eye(600) - law.matrix(600))
    assert complex(law.cauchy(z)) == pytest.approx(np.trace(matrix) / 600, abs=2e-3)


def test_three_wishart_factors_can_be_written():
    law = free.MarchenkoPastur(1.0)
    w1, w2, w3 = free.variables(law, law, law)
    s, r = free.sqrt(w1), free.sqrt(w2)
    np.testing.assert_allclose(free.spectrum(s * r * w3 * r * s).moments(3), [1, 4, 22], rtol=1e-9)


def test_evaluated_at_matrices_functions_are_those_of_matrices():
    x, _ = free.variables(free.MarchenkoPastur(0.5), free.Semicircle())
    a, b = free.MarchenkoPastur(0.5).matrix(5, seed=1), free.Semicircle().matrix(5, seed=2)
    root = free.sqrt(x).evaluate([a, b])
    np.testing.assert_allclose(root @ root, a, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x, y: free.sqrt(y), "x >= 0"),
        (lambda x, y: free.sqrt(x + x * x), "one variable"),
        (lambda x, y: free.spectrum(free.apply(np.exp, x) + x), "may not meet"),
        (lambda x, y: free.apply(lambda t: np.sin(1e4 * t), free.Semicircle()).support, "oscillates"),
        (
            lambda x, y: free.apply(lambda t: 1 / t - 1 / t, free.Bernoulli(0.5, 0.0, 1.0)).atoms,
            "finite real",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(call, words):
    x, y = free.variables(free.MarchenkoPastur(0.5), free.Semicircle())
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=words):
        call(x, y)


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
