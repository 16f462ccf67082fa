"""Every law: transforms, density, quantiles, moments and samples agree with each other and the literature."""

import itertools

import numpy as np
import pytest

from reshuffle import free
from tests.looped import for_all


def semicircular(z):
    """G of the semicircle of variance one."""
    return 2 / (z + np.sqrt(z - 2) * np.sqrt(z + 2))


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
    free.FromCauchy(semicircular, [(-2.0, 2.0)]),
    free.FromDensity(lambda t: 0.75 * (1 - t**2), [(-1.0, 1.0)]),
    free.FromDensity(lambda t: 0.25 * (1 - t**2), [(-1.0, 1.0)], atoms=[(2.0, 2 / 3)]),
]


@for_all("law", LAWS)
def test_transforms_density_moments_quantiles_and_samples_agree(law):
    measure, scale = law.measure, law.scale
    assert measure.mass == pytest.approx(1, abs=1e-11)
    z = scale * np.array([0.3 + 1j, -2.0 + 0.8j, 3.0 + 0.7j, -1 - 1.1j])
    expected = [measure.expectation(lambda x, w=w: 1 / (w - x)) for w in z]
    np.testing.assert_allclose(law.cauchy(z), expected, rtol=1e-11)
    # The branch is right everywhere, down to the axis and far away.
    x, y = np.meshgrid(np.linspace(-4, 4, 41), 10.0 ** np.linspace(-8, 8, 33))
    g = law.cauchy(scale * (x + 1j * y))
    assert (g.imag <= 0).all()
    np.testing.assert_allclose(law.cauchy(scale * (x - 1j * y)), g.conj(), rtol=1e-12)
    far = scale * 1e7 * np.exp(1j * np.linspace(0.01, 3.13, 20))
    np.testing.assert_allclose(law.cauchy(far) * far, 1, atol=1e-6)
    t = np.linspace(-1.3, 1.31, 87) * scale
    np.testing.assert_allclose(-law.cauchy(t).imag / np.pi, law.density(t), rtol=1e-9, atol=1e-11)
    step, near = 1e-4 * scale, scale * np.array([0.4 + 0.5j, -0.7 + 0.3j])
    a, b, c, d = (law.cauchy(near + k * step) for k in (-2, -1, 1, 2))
    np.testing.assert_allclose(law._cauchy_derivative(near), (a - 8 * b + 8 * c - d) / (12 * step), rtol=1e-6)
    direct = [measure.expectation(lambda x, k=k: x**k) for k in range(1, 9)]
    np.testing.assert_allclose(law.moments(8), direct, rtol=1e-10, atol=1e-11 * scale**8)
    kappa = law.cumulants(8)
    assert kappa[:2] == pytest.approx([direct[0], direct[1] - direct[0] ** 2])
    g = np.array([0.01, -0.02, 0.01j + 0.005]) / scale
    if type(law).r_transform is free.Law.r_transform:
        with pytest.raises(NotImplementedError, match="cumulants"):
            law.r_transform(g)
    else:
        np.testing.assert_allclose(law.cauchy(law.r_transform(g) + 1 / g), g, rtol=1e-11)
        np.testing.assert_allclose(
            law.r_transform(g), sum(each * g**k for k, each in enumerate(kappa)), rtol=1e-10
        )
    q = np.linspace(0.001, 0.999, 37).reshape(37, 1)
    x = law.quantile(q)
    assert x.shape == q.shape
    assert (law.cdf(x) >= q - 1e-9).all()
    assert (law.cdf(x - 1e-9 * scale) <= q + 1e-6).all()
    assert law.sample(4000, seed=1).mean() == pytest.approx(direct[0], abs=6 * scale / np.sqrt(4000))
    matrix = law.matrix(60, seed=2)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12 * scale)
    assert np.trace(matrix) / 60 == pytest.approx(direct[0], abs=0.05 * scale)


def test_known_values():
    assert free.MarchenkoPastur(4.0).atoms == ((0.0, 0.75),)
    np.testing.assert_allclose(free.Semicircle().moments(8), [0, 1, 0, 2, 0, 5, 0, 14])
    np.testing.assert_allclose(free.FreePoisson(1.5, 2.0).cumulants(5), [1.5 * 2.0**n for n in range(1, 6)])
    np.testing.assert_allclose(free.KestenMcKay(3).moments(6), [0, 3, 0, 15, 0, 87])
    assert free.MarchenkoPastur(1.0).support[0][0] == 0.0
    law = free.Discrete.of_matrix(np.diag([1.0, 2.0, 2.0]))
    assert law.atoms == ((1.0, 1 / 3), (2.0, 2 / 3))
    assert law.atoms == tuple(zip(law.points.tolist(), law.weights.tolist(), strict=True))


@for_all("scale", [1e-8, 1.0, 1e8])
def test_scales_keep_relative_accuracy(scale):
    base = free.MarchenkoPastur(0.7)
    law = free.MarchenkoPastur(0.7, scale)
    t = np.linspace(0.1, 3.0, 11)
    np.testing.assert_allclose(law.density(scale * t) * scale, base.density(t), rtol=1e-12)
    np.testing.assert_allclose((base * scale).quantile(0.3), scale * base.quantile(0.3), rtol=1e-12)


@for_all(
    "make, word",
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
        (lambda: free.Discrete([[1.0, 2.0], [3.0, 4.0]]), "points must be a vector .* of_matrix"),
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
        (lambda: free.Wachter(0.3, 0.3), r"first \+ second"),
        (lambda: free.Semicircle() * 0.0, "scale"),
        (lambda: free.Semicircle().density(np.inf), "finite"),
        (lambda: free.Semicircle().quantile(1.5), "1.5"),
        (lambda: free.FromDensity(lambda t: 1 + 0 * t, [(-1.0, 1.0)]), "2.0"),
        (lambda: free.FromDensity(lambda t: -1 + 0 * t, [(-1.0, 1.0)]), "negative value -1 at"),
        (lambda: free.FromDensity(lambda t: t, [(1.0, -1.0)]), "low < high"),
        (lambda: free.MarchenkoPastur(1e300), r"ratio must be a finite real number in \[1e-15, 1e\+15\]"),
        (lambda: free.FromCauchy(lambda z: -semicircular(z), [(-2.0, 2.0)]), "half-plane"),
        (lambda: free.FromCauchy(lambda z: 2 * semicircular(z), [(-2.0, 2.0)]), "decay"),
        (lambda: free.FromCauchy(semicircular, [(-2.0, 1.0)]), "mass"),
        (
            lambda: free.FromDensity(lambda t: t, (-1.0, 1.0)),
            r"support must be a list of pairs \(low, high\)",
        ),
        (lambda: free.FromDensity(lambda t: t, -1.0), "support must be a list of pairs"),
        (lambda: free.FromDensity(lambda t: t, [(-1.0, 1.0)], (0.0, 1.0)), "atoms must be a list of pairs"),
    ],
)
def test_bad_input_names_the_argument(make, word):
    with pytest.raises((ValueError, TypeError), match=word):
        make()


SIZES = [1e-320, 1e-300, 1e-160, 1e-50, 1e-15, 1e-6, 1e6, 1e15, 1e50, 1e160, 1e300]
SIZED = {
    "MarchenkoPastur ratio": lambda s: free.MarchenkoPastur(s),
    "MarchenkoPastur variance": lambda s: free.MarchenkoPastur(0.5, s),
    "FreePoisson rate": lambda s: free.FreePoisson(s),
    "FreePoisson jump": lambda s: free.FreePoisson(0.5, -s),
    "Semicircle variance": lambda s: free.Semicircle(s),
    "Semicircle mean": lambda s: free.Semicircle(1.0, s),
    "KestenMcKay": lambda s: free.KestenMcKay(s),
    "Arcsine": lambda s: free.Arcsine(-s, s),
    "Arcsine far away": lambda s: free.Arcsine(s, s * (1 + 1e-3)),
    "Uniform": lambda s: free.Uniform(0.0, s),
    "Bernoulli": lambda s: free.Bernoulli(0.3, -s, s),
    "Discrete": lambda s: free.Discrete([0.0, s, 2 * s]),
    "Wachter first": lambda s: free.Wachter(s, 1.0),
    "Wachter second": lambda s: free.Wachter(1.0, s),
    "multiple": lambda s: free.Semicircle() * s,
    "quotient": lambda s: free.MarchenkoPastur(0.5) / s,
    "shift": lambda s: free.Uniform() + s,
}


@for_all("name, size", itertools.product(SIZED, SIZES))
def test_a_law_is_right_or_refused(name, size):
    ordinary = 1e-6 <= size <= 1e6 and name not in {"KestenMcKay", "Wachter first", "Wachter second"}
    try:
        law = SIZED[name](size)
    except ValueError:
        if ordinary:
            raise
        with pytest.raises(ValueError, match=r"check its (sign|units)|narrower|must be > 1"):
            SIZED[name](size)
        return
    assert law.measure.mass == pytest.approx(1.0, abs=1e-7)
    # Far from the support z G(z) is the series of moments, which come from elsewhere.
    ends = [end for piece in law.support for end in piece] + [place for place, _ in law.atoms]
    z = 100j * max(map(abs, ends))
    series = 1 + sum(moment / z**k for k, moment in enumerate(law.moments(5), 1))
    assert abs(z * law.cauchy(z) - series) < 1e-9
    reached = law.cdf(law.quantile([0.1, 0.9])) - [0.1, 0.9]
    assert (reached > -1e-6).all()
    assert law.atoms or (reached < 1e-6).all()
