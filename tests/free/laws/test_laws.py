"""Every law: transforms, density, quantiles, moments and samples agree with each other and the literature."""

import numpy as np
import pytest

from reshuffle import free
from reshuffle.free.measure import panel_cauchy

LAWS = [
    free.MarchenkoPastur(0.5, 0.2),
    free.MarchenkoPastur(1.0),
    free.MarchenkoPastur(3.0, 0.1),
    free.Semicircle(2.0, 0.3),
    free.Arcsine(-1.0, 2.0),
    free.FreePoisson(0.4, -1.5),
    free.FreePoisson(2.0, 0.5),
    free.Wachter(1.5, 2.5),
    free.Wachter(0.7, 0.8),
    free.KestenMcKay(3),
    free.Uniform(-1.0, 2.0),
    free.Bernoulli(0.3, -1.0, 2.0),
    free.Projection(0.25),
    free.Discrete([0.0, 1.0, 3.0], [0.2, 0.3, 0.5]),
    -2 * free.MarchenkoPastur(3.0, 0.1) + 1,
    free.Uniform() / 3 - 1,
    free.FromCauchy(lambda z: 2 / (z + np.sqrt(z - 2) * np.sqrt(z + 2)), [(-2.0, 2.0)]),
    free.FromDensity(lambda t: 0.75 * (1 - t**2), [(-1.0, 1.0)]),
    free.FromDensity(lambda t: 0.25 * (1 - t**2), [(-1.0, 1.0)], atoms=[(2.0, 2 / 3)]),
]
every_law = pytest.mark.parametrize("law", LAWS, ids=repr)


@every_law
def test_mass_is_one(law):
    assert law.measure.mass == pytest.approx(1, abs=1e-11)


@every_law
def test_cauchy_transform_is_the_integral_of_the_density(law):
    z = law.scale * np.array([0.3 + 1j, -2.0 + 0.8j, 3.0 + 0.7j, -1 - 1.1j])
    expected = [law.measure.expectation(lambda x, w=w: 1 / (w - x)) for w in z]
    np.testing.assert_allclose(law.cauchy(z), expected, rtol=1e-11)


@every_law
def test_branch_is_right_everywhere_in_the_upper_half_plane(law):
    x, y = np.meshgrid(np.linspace(-4, 4, 41), 10.0 ** np.linspace(-8, 8, 33))
    z = law.scale * (x + 1j * y)
    g = law.cauchy(z)
    assert (g.imag <= 0).all()
    far = law.scale * 1e7 * np.exp(1j * np.linspace(0.01, 3.13, 20))
    np.testing.assert_allclose(law.cauchy(far) * far, 1, atol=1e-6)
    np.testing.assert_allclose(law.cauchy(z.conj()), g.conj(), rtol=1e-12)


@every_law
def test_density_is_the_boundary_value_of_the_cauchy_transform(law):
    t = np.linspace(-1.3, 1.31, 87) * law.scale
    np.testing.assert_allclose(-law.cauchy(t).imag / np.pi, law.density(t), rtol=1e-9, atol=1e-11)


@every_law
def test_derivative_of_the_cauchy_transform(law):
    z = law.scale * np.array([0.4 + 0.5j, -0.7 + 0.3j])
    step = 1e-4 * law.scale
    points = [z + k * step for k in (-2, -1, 1, 2)]
    a, b, c, d = (law.cauchy(w) for w in points)
    np.testing.assert_allclose(law._cauchy_derivative(z), (a - 8 * b + 8 * c - d) / (12 * step), rtol=1e-6)


@every_law
def test_moments_agree_with_the_density_and_with_cumulants(law):
    direct = [law.measure.expectation(lambda x, k=k: x**k) for k in range(1, 9)]
    np.testing.assert_allclose(law.moments(8), direct, rtol=1e-10, atol=1e-11 * law.scale**8)
    kappa = law.cumulants(8)
    assert kappa[0] == pytest.approx(law.moments(1)[0])
    assert kappa[1] == pytest.approx(law.moments(2)[1] - law.moments(1)[0] ** 2)


@every_law
def test_r_transform_inverts_the_cauchy_transform(law):
    g = np.array([0.01, -0.02, 0.01j + 0.005]) / law.scale
    if type(law).r_transform is free.Law.r_transform:
        with pytest.raises(NotImplementedError, match="cumulants"):
            law.r_transform(g)
        return
    r = law.r_transform(g)
    np.testing.assert_allclose(law.cauchy(r + 1 / g), g, rtol=1e-11)
    series = sum(kappa * g**k for k, kappa in enumerate(law.cumulants(8)))
    np.testing.assert_allclose(r, series, rtol=1e-10)


@every_law
def test_quantile_inverts_the_cdf(law):
    q = np.linspace(0.001, 0.999, 37).reshape(37, 1)
    x = law.quantile(q)
    assert x.shape == q.shape
    below = law.cdf(x - 1e-9 * law.scale)
    assert (law.cdf(x) >= q - 1e-9).all()
    assert (below <= q + 1e-6).all()


@every_law
def test_samples_and_matrices_have_the_law(law):
    draws = law.sample(4000, seed=1)
    exact = law.measure.expectation(lambda x: x)
    assert draws.mean() == pytest.approx(exact, abs=6 * law.scale / np.sqrt(4000))
    matrix = law.matrix(60, seed=2)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12 * law.scale)
    assert np.trace(matrix) / 60 == pytest.approx(exact, abs=0.05 * law.scale)


def test_panel_cauchy_reaches_the_real_axis():
    law = free.Semicircle()
    z = np.array([0.3, 1.99, -1.2, 0.5 + 1e-9j, 3.0, 1 + 1j])
    np.testing.assert_allclose(panel_cauchy(law.measure.panels, z), law.cauchy(z), rtol=1e-8)


def test_classical_laws_have_a_closed_r_transform():
    closed = {type(law) for law in LAWS if type(law).r_transform is not free.Law.r_transform}
    assert closed >= {
        free.MarchenkoPastur, free.Semicircle, free.Arcsine, free.FreePoisson, free.Wachter, free.KestenMcKay,
        free.Uniform, free.Bernoulli, free.Projection, free.Affine,
    }  # fmt: skip


def test_known_values():
    assert free.MarchenkoPastur(4.0).atoms == ((0.0, 0.75),)
    np.testing.assert_allclose(free.Semicircle().moments(8), [0, 1, 0, 2, 0, 5, 0, 14])
    np.testing.assert_allclose(free.FreePoisson(1.5, 2.0).cumulants(5), [1.5 * 2.0**n for n in range(1, 6)])
    np.testing.assert_allclose(free.KestenMcKay(3).moments(6), [0, 3, 0, 15, 0, 87])
    assert free.MarchenkoPastur(1.0).support[0][0] == 0.0
    law = free.Discrete.of_matrix(np.diag([1.0, 2.0, 2.0]))
    assert law.atoms == ((1.0, 1 / 3), (2.0, 2 / 3))
    assert law.atoms == tuple(zip(law.points.tolist(), law.weights.tolist(), strict=True))


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_scales_keep_relative_accuracy(scale):
    base = free.MarchenkoPastur(0.7)
    law = free.MarchenkoPastur(0.7, scale)
    t = np.linspace(0.1, 3.0, 11)
    np.testing.assert_allclose(law.density(scale * t) * scale, base.density(t), rtol=1e-12)
    np.testing.assert_allclose((base * scale).quantile(0.3), scale * base.quantile(0.3), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: free.MarchenkoPastur(0.0), "ratio"),
        (lambda: free.MarchenkoPastur(-1.0), "-1.0"),
        (lambda: free.MarchenkoPastur(0.5, -0.1), "variance"),
        (lambda: free.Semicircle(-2.0), "-2.0"),
        (lambda: free.Semicircle(np.nan), "nan"),
        (lambda: free.Discrete([0.0, 1.0], [0.5, 0.6]), "sum to 1"),
        (lambda: free.Discrete([0.0, 1.0], [-0.5, 1.5]), "-0.5"),
        (lambda: free.Discrete([0.0, np.inf]), "finite"),
        (lambda: free.Discrete([0.0, 1.0], [1.0]), "one weight per point"),
        (lambda: free.Discrete([]), "at least one"),
        (lambda: free.Discrete([0.0], []), "at least one"),
        (lambda: free.Discrete(["a"]), "points must be a number"),
        (lambda: free.FromCauchy(3, [(-1.0, 1.0)]), "cauchy must be a function"),
        (lambda: free.FromDensity(3, [(-1.0, 1.0)]), "density must be a function"),
        (lambda: free.FromCauchy(lambda z: (z - np.sqrt(z * z - 4)) / 2, [(-2.0, 2.0)]), "its branch"),
        (lambda: free.Discrete.of_matrix([[0.0, 1e-9], [0.0, 0.0]]), "Hermitian"),
        (lambda: free.Discrete.of_matrix([[0.0, 1.0], [0.0, 0.0]]), "Hermitian"),
        (lambda: free.Bernoulli(1.5), "probability"),
        (lambda: free.Uniform(1.0, 0.0), "high"),
        (lambda: free.KestenMcKay(1), "degree"),
        (lambda: free.FreePoisson(1.0, 0.0), "jump"),
        (lambda: free.Wachter(0.3, 0.3), "first + second"),
        (lambda: free.Semicircle() * 0.0, "scale"),
        (lambda: free.Semicircle().density(np.inf), "finite"),
        (lambda: free.Semicircle().quantile(1.5), "1.5"),
        (lambda: free.FromDensity(lambda t: 1 + 0 * t, [(-1.0, 1.0)]), "2.0"),
        (lambda: free.FromDensity(lambda t: -1 + 0 * t, [(-1.0, 1.0)]), "negative value -1 at"),
        (lambda: free.FromDensity(lambda t: t, [(1.0, -1.0)]), "low < high"),
        (
            lambda: free.FromDensity(lambda t: t, (-1.0, 1.0)),
            r"support must be a list of pairs \(low, high\)",
        ),
        (lambda: free.FromDensity(lambda t: t, -1.0), "support must be a list of pairs"),
        (lambda: free.FromDensity(lambda t: t, [(-1.0, 1.0)], (0.0, 1.0)), "atoms must be a list of pairs"),
    ],
)
def test_bad_input_names_the_argument(make, word):
    with pytest.raises((ValueError, TypeError), match=word.replace("+", r"\+")):
        make()


def test_a_function_that_is_not_a_cauchy_transform_is_refused():
    with pytest.raises(ValueError, match="half-plane"):
        free.FromCauchy(lambda z: -2 / (z + np.sqrt(z - 2) * np.sqrt(z + 2)), [(-2.0, 2.0)])
    with pytest.raises(ValueError, match="decay"):
        free.FromCauchy(lambda z: 4 / (z + np.sqrt(z - 2) * np.sqrt(z + 2)), [(-2.0, 2.0)])
    with pytest.raises(ValueError, match="mass"):
        free.FromCauchy(lambda z: 2 / (z + np.sqrt(z - 2) * np.sqrt(z + 2)), [(-2.0, 1.0)])
