"""Random expressions agree with sampled matrices and with exact moments, also with atoms among their laws."""

import numpy as np
import pytest
from benchmarks.free_survey import expression
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reshuffle import free

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


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 5, 7, 8])
def test_support_atoms_and_mass_of_a_random_expression(seed):
    s = free.spectrum(expression(np.random.default_rng(seed)))
    assert s.measure.mass == pytest.approx(1, abs=1e-7)
    scale = max([abs(end) for pair in s.support for end in pair] + [abs(place) for place, _ in s.atoms])
    exact = s.moments(4) / scale ** np.arange(1, 5)
    found = [s.expectation(lambda t, k=k: (t / scale) ** k) for k in range(1, 5)]
    np.testing.assert_allclose(found, exact, atol=1e-7)
