"""Spectra against closed forms, exact moments and sampled matrices; random expressions, too."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reshuffle import free
from tests.free import oracles
from tests.looped import for_all


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ratio", "variance", "edges", "atom"),
    [(0.5, 0.2, (0.09987126, 0.72195051), 0.0), (3.0, 0.1, (0.01079049, 0.82682557), 1 / 3)],
)
def test_two_batch_law_against_its_curve(ratio, variance, edges, atom):
    s = oracles.two_batches(ratio, variance)
    t = np.linspace(edges[0] + 1e-3, edges[1] - 1e-3, 120)
    np.testing.assert_allclose(s.density(t), oracles.TwoBatchCurve(ratio, variance).density(t), atol=1e-9)
    np.testing.assert_allclose(s.support[0], edges, atol=1e-8)
    assert sum(mass for _, mass in s.atoms) == pytest.approx(atom, abs=1e-8)
    assert s.measure.mass == pytest.approx(1, abs=1e-7)
    z = np.array([[0.3 + 0.2j, 0.5 + 1e-4j]])
    np.testing.assert_allclose(s.cauchy(z), oracles.TwoBatchCurve(ratio, variance).cauchy(z), rtol=1e-10)
    np.testing.assert_allclose(
        s.moments(8), [s.expectation(lambda x, k=k: x**k) for k in range(1, 9)], rtol=1e-9
    )


def test_anticommutator_of_semicirculars_against_its_cubic():
    x, y = free.variables(free.Semicircle(), free.Semicircle())
    s = free.spectrum(x * y + y * x)
    t = np.linspace(-3.29, 3.3, 150)
    np.testing.assert_allclose(s.density(t), oracles.anticommutator_density(t), atol=1e-10)
    assert s.support[0][1] == pytest.approx(np.sqrt((11 + 5 * np.sqrt(5)) / 2), abs=1e-10)


@for_all(
    "laws, sum_law",
    [
        ((free.Semicircle(1.0), free.Semicircle(2.0, 0.5)), free.Semicircle(3.0, 0.5)),
        ((free.FreePoisson(0.5, 2.0), free.FreePoisson(1.2, 2.0)), free.FreePoisson(1.7, 2.0)),
        ((free.Bernoulli(), free.Bernoulli()), free.Arcsine(-2.0, 2.0)),
        ((free.Arcsine(), free.Arcsine()), free.KestenMcKay(4)),
        ((free.Projection(0.5), free.Projection(0.5)), free.Arcsine(0.0, 2.0)),
    ],
)
def test_free_sums_with_closed_forms(laws, sum_law):
    s = free.spectrum(sum(free.variables(*laws)))
    low, high = sum_law.support[0]
    t = np.linspace(low, high, 34)[1:-1]
    np.testing.assert_allclose(s.density(t), sum_law.density(t), atol=1e-12, rtol=1e-12)
    np.testing.assert_allclose(s.support[0], (low, high), atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("laws", "make", "atoms"),
    [
        ((free.Projection(0.3), free.Projection(0.4)), lambda x, y: x + y, {0.0: 0.3, 1.0: 0.1}),
        ((free.Projection(0.3), free.Projection(0.4)), lambda x, y: x * y + y * x, {0.0: 0.4}),
        (
            (free.Bernoulli(0.7, 0.0, 1.0), free.Discrete([0.0, 1.0, 5.0], [0.6, 0.3, 0.1])),
            lambda x, y: x + y,
            {1.0: 0.3},
        ),
        ((free.Projection(0.5), free.Semicircle()), lambda x, y: x * y * x, {0.0: 0.5}),
        ((free.MarchenkoPastur(4.0), free.MarchenkoPastur(5.0)), lambda x, y: x + y, {0.0: 0.55}),
        ((free.Projection(0.8), free.Projection(0.9)), lambda x, y: x * y * x, {0.0: 0.2, 1.0: 0.7}),
    ],
)
def test_atoms_of_combined_laws(laws, make, atoms):
    s = free.spectrum(make(*free.variables(*laws)))
    assert {round(place, 9): pytest.approx(mass, abs=1e-8) for place, mass in s.atoms} == atoms
    assert s.measure.mass == pytest.approx(1, abs=1e-7)


def test_several_intervals():
    x, y = free.variables(free.Semicircle(), free.Discrete([-5.0, 0.0, 5.0], [0.3, 0.3, 0.4]))
    s = free.spectrum(x + y)
    assert len(s.support) == 3
    inside = [float(s.cdf(high) - s.cdf(low)) for low, high in s.support]
    np.testing.assert_allclose(inside, [0.3, 0.3, 0.4], atol=1e-9)
    gap = (s.support[0][1] + s.support[1][0]) / 2
    assert s.density(gap) == 0.0


def test_shapes_flags_errors_and_representations():
    s = oracles.two_batches(3.0, 0.1)
    answer = s.resolve([0.3, 0.0, 5.0])
    assert answer.converged.tolist() == [True, False, True]
    assert np.isnan(answer.value[1])
    assert answer.error[0] < 1e-11
    assert answer.value[2] == 0.0
    with pytest.raises(ValueError, match="finite"):
        s.density([0.3, np.nan])
    assert s.cauchy(0.3 - 0.1j) == pytest.approx(np.conj(s.cauchy(0.3 + 0.1j)))
    for shape in ((), (2, 3), (2, 1)):
        t = np.full(shape, 0.3)
        assert s.density(t).shape == s.cauchy(t + 1j).shape == s.cdf(t).shape == s.quantile(t).shape == shape
    found = s.resolve([[0.2, 0.4, 5.0]])
    assert found.error.shape == found.value.shape == (1, 3)
    assert repr(found).startswith("Resolved(3 points, 3 of them converged, +- ")
    assert repr(s) == "Spectrum of x1 + x2 - 0.5 x1 x2 - 0.5 x2 x1, pencil 3 x 3"
    assert repr(s.resolve(0.2)).startswith(f"Resolved({float(s.density(0.2)):.6g} +- ")


def test_scales_keep_relative_accuracy():
    def of(scale):
        x, y = free.variables(free.MarchenkoPastur(0.5, scale), free.Semicircle(scale**2))
        return free.spectrum(x * y / scale + y * x / scale + x)

    t, plain = np.linspace(-2.0, 3.0, 7), of(1.0)
    for scale in (1e-8, 1e8):
        scaled = of(scale)
        np.testing.assert_allclose(scaled.density(scale * t) * scale, plain.density(t), rtol=1e-10)
        np.testing.assert_allclose(np.array(scaled.support) / scale, plain.support, rtol=1e-9)


def test_a_users_own_law_gives_the_same_spectrum():
    own = free.FromCauchy(lambda z: 2 / (z + np.sqrt(z - 2) * np.sqrt(z + 2)), [(-2.0, 2.0)])
    t = np.linspace(-3, 3, 9)
    densities = []
    for law in (own, free.Semicircle()):
        x, y = free.variables(law, free.Semicircle())
        densities.append(free.spectrum(x * y + y * x).density(t))
    np.testing.assert_allclose(densities[0], densities[1], atol=1e-10)


@for_all(
    "make",
    [
        lambda x, y, p: 1j * (x * y - y * x),
        lambda x, y, p: p * (x + y) * p,
        lambda x, y, p: x * p * x + y * p * y,
        lambda x, y, p: 1 / (4 + x * p + p * x),
        lambda x, y, p: free.block([[x, p], [p, -1]]),
    ],
)
def test_laws_agree_with_sampled_matrices(make):
    s = free.spectrum(
        make(*free.variables(free.Semicircle(), free.MarchenkoPastur(0.5), free.Projection(0.6)))
    )
    comparison = s.compare(400, seed=1)
    assert comparison.distance < 0.02
    assert (comparison.heights * np.diff(comparison.edges)).sum() == pytest.approx(1)


def test_constants_are_points():
    (x,) = free.variables(free.Semicircle())
    s = free.spectrum(0 * x + 0.25)
    assert s.cauchy(1j) == pytest.approx(1 / (1j - 0.25), abs=1e-15)
    assert (s.support, s.atoms, s.measure.mass) == ((), ((0.25, 1.0),), 1.0)
    assert s.density(0.1) == 0.0
    assert np.isnan(s.density(0.25))
    assert s.moments(2).tolist() == [0.25, 0.0625]
    matrix = free.spectrum(np.diag([0.25, 1.0]) * (0 * x + 1))
    assert matrix.atoms == ((0.25, 0.5), (1.0, 0.5))


LAWS = [
    free.Semicircle(),
    free.MarchenkoPastur(0.5),
    free.MarchenkoPastur(2.0, 0.5),
    free.Arcsine(-1.0, 1.0),
    free.Uniform(0.0, 1.0),
    free.Bernoulli(0.3, 0.0, 1.0),
]

coefficients = st.integers(-3, 3).filter(bool).map(lambda k: k / 2)


@st.composite
def polynomials(draw):
    """Draw a self-adjoint polynomial of degree at most three in up to three variables."""
    laws = draw(st.lists(st.sampled_from(LAWS), min_size=1, max_size=3))
    variables = free.variables(*laws)
    total = sum((i + 1) * 0.5 * x for i, x in enumerate(variables))
    for _ in range(draw(st.integers(1, 2))):
        word = draw(st.lists(st.sampled_from(range(len(laws))), min_size=1, max_size=3))
        term = draw(coefficients)
        for index in word:
            term = term * variables[index]
        total = total + (term + term.adjoint()) / 2
    return total


quick = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
@quick
@given(polynomials())
def test_pencils_samples_and_moments_agree(expression):
    rng = np.random.default_rng(0)
    matrices = [m + m.T for m in rng.standard_normal((len(expression.family.laws), 4, 4))]
    expected = expression.evaluate(matrices)
    error = np.abs(free.linearize(expression).schur(matrices) - expected).max()
    assert error <= 1e-12 * max(np.abs(expected).max(), 1)
    s = free.spectrum(expression)
    eigenvalues = np.linalg.eigvalsh(s.matrix(250, seed=5))
    scale = np.abs(eigenvalues).max()
    z = scale * np.array([0.3 + 0.3j, -0.5 + 0.4j, 0.9 + 0.3j])
    sampled = np.mean(1 / (z[:, None] - eigenvalues), axis=1)
    np.testing.assert_allclose(s.cauchy(z), sampled, atol=0.05 / scale)
    points = 3 * scale * np.exp(1j * np.pi * (np.arange(40) + 0.5) / 40)
    values = s.cauchy(points)
    for k, moment in enumerate(s.moments(4), start=1):
        assert abs((values * points ** (k + 1)).real.mean() - moment) <= 1e-9 * scale**k
