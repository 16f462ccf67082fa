"""The spectrum of any number of batches and its series on one interval, against the engine and matrices."""

import numpy as np
import pytest

from reshuffle import free
from reshuffle.asymptotics import BatchLaw, FullBatchLaw, batch_spectrum
from reshuffle.asymptotics.batch_system import BatchSystem
from reshuffle.asymptotics.spectra import population
from tests.asymptotics.oracles import expression
from tests.looped import for_all


@for_all("aspect, alpha", [(0.25, 0.4), (1.5, 0.2), (1.0, 1.2)])
@for_all("batches", [1, 2, 3, 4])
def test_it_is_the_law_that_the_engine_finds_for_the_expanded_polynomial(batches, aspect, alpha):
    z = np.array([0.1 + 0.05j, 0.4 + 0.01j, 0.7 - 0.2j, 2.5])
    engine, law = free.spectrum(expression(aspect, alpha, batches)[0]), BatchLaw(aspect, alpha, batches)
    assert law.cauchy(z) == pytest.approx(engine.cauchy(z), abs=1e-11)
    if (aspect, batches) == (0.25, 3):
        t = np.linspace(*law.support[0], 30)[1:-1]
        assert law.density(t) == pytest.approx(engine.density(t), abs=1e-9)


def test_the_noise_of_three_batches_is_the_engines():
    p, m, _ = expression(0.5, 0.6, 3)
    z = np.array([0.2 + 0.1j, 0.5 + 0.3j])
    weighted = free.spectrum(p).weighted(m).cauchy(z) / 0.6
    assert BatchLaw(0.5, 0.6, 3).transforms(z)[2] == pytest.approx(weighted, rel=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("aspect", [0.5, 1.5])
def test_a_covariance_is_one_more_free_variable(batches, aspect):
    eigenvalues = [0.5, 0.5, 2.0]
    p, m, sigma = expression(aspect, 0.3, batches, eigenvalues)
    z = np.array([0.1 + 0.05j, 0.4 + 0.02j])
    law = BatchLaw(aspect, 0.3, batches, eigenvalues)
    spectrum = free.spectrum(p)
    found = law.transforms(z)
    assert found[0] == pytest.approx(spectrum.cauchy(z), rel=1e-9)
    assert found[1] == pytest.approx(spectrum.weighted(sigma).cauchy(z), rel=1e-9)
    assert found[2] == pytest.approx(spectrum.weighted(m).cauchy(z) / 0.3, rel=1e-9)


def test_one_batch_is_marchenko_pastur_through_either_door():
    exact, general = batch_spectrum(1.5, 0.2, 1), BatchLaw(1.5, 0.2, 1)
    assert isinstance(batch_spectrum(1.5, 0.2, 1), FullBatchLaw)
    x = np.linspace(0.02, 0.97, 20)
    assert general.densities(x) == pytest.approx(exact.densities(x), abs=1e-12)
    reference = free.MarchenkoPastur(1.5, 0.2)
    assert exact.density(x) == pytest.approx(reference.density(x))
    assert exact.moments(4) == pytest.approx(reference.moments(4))


@for_all("batches, eigenvalues", [(1, 1), (2, 3), (3, 2), (5, 2), (8, 1)])
def test_the_jacobian_is_the_tangent_along_every_unknown(batches, eigenvalues):
    spectrum = np.linspace(0.5, 2.0, eigenvalues)
    system = BatchSystem(0.5, 0.3, batches, population(spectrum))
    unknowns = 0.1 * np.random.default_rng(0).standard_normal((2, system.unknowns)) - 0.1j
    base = system.base(np.array([0.3 + 0.1j, 0.7 + 0.02j]), np.full(2, 0.1))
    state = system.evaluate(base, unknowns)
    along = system.tangent(state, np.eye(system.unknowns, dtype=complex)[np.newaxis]).transpose(0, 2, 1)
    assert system.jacobian(state) == pytest.approx(along, abs=1e-12)
    step = 1e-6 * np.random.default_rng(1).standard_normal(unknowns.shape)
    there, back = (system.evaluate(base, unknowns + sign * step).image for sign in (1, -1))
    change = np.einsum("nij,nj->ni", system.jacobian(state), step)
    assert (there - back) / 2 == pytest.approx(change, abs=1e-14, rel=1e-6)


@for_all(
    "aspect, alpha, batches, covariance",
    [
        (0.5, 0.02, 4, [1.0, 100.0]),
        (0.2, 0.001, 2, [1.0, 1000.0]),
        (0.3, 0.001, 3, [1e-3, 1.0, 1e3]),
        # An atom at zero lies on the way to the lower end.
        (3.0, 0.001, 1, [1.0] + 49 * [1e3]),
    ],
)
def test_the_ends_are_those_of_sampled_matrices(aspect, alpha, batches, covariance):
    # Seen from afar, the interval of the smallest eigenvalues of Sigma hides before the gap behind it.
    law = BatchLaw(aspect, alpha, batches, covariance)
    sampled = law._sampled_eigenvalues
    low, high = law.ends
    assert [low, high] == pytest.approx([sampled[0], sampled[-1]], rel=0.15)


def test_the_ends_have_all_digits():
    low, high = BatchLaw(1.5, 0.4, 1).ends
    assert [low, high] == pytest.approx(FullBatchLaw(1.5, 0.4).ends, rel=3e-15)
    # Folds of the system, found in another way.
    law = BatchLaw(0.3, 0.1, 3, [1.0, 5.0])
    assert law.ends == pytest.approx((law.support[0][0], law.support[-1][1]), rel=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("batches", "covariance", "count"),
    [(8, [1.0, 10.0, 100.0], 3), (10, [1.0, 100.0], 2), (14, [1.0, 100.0], 2)],
)
def test_many_batches_and_gaps(batches, covariance, count):
    law = BatchLaw(0.5, 0.005, batches, covariance)
    assert len(law.support) == count
    assert law.measure.mass == pytest.approx(1, abs=1e-10)
    # tau of a product of distinct free variables with Sigma^(1/2) between them: the mean of 1 - (1 - a s/B)^B.
    scaled = 0.005 * np.array(covariance)
    expected = 1 - np.mean((1 - scaled / batches) ** batches)
    assert law.moments(1)[0] == pytest.approx(expected, rel=1e-10)


@for_all("row_scales", [None, [0.8, 1.16619]])
def test_both_sides_of_a_gap_are_known_as_well_as_the_whole(row_scales):
    law = BatchLaw(0.1, 0.01, 5, [1.0, 10.0], row_scales=row_scales)
    (low, first), (second, high) = law.support
    assert law.cdf([first, second]) == pytest.approx([0.5, 0.5], abs=1e-9)
    # The ends are folds of the solution, on either side of which it is real and complex.
    beside = np.array([low, first, second, high]) * (1 + 1e-9 * np.array([-1, 1, -1, 1]))
    inside = np.array([low, first, second, high]) * (1 + 1e-9 * np.array([1, -1, 1, -1]))
    assert law.density(beside).max() < 1e-5
    assert law.density(inside).min() > 1e-4
    # In the gap, on the axis and above it, the transform is that of both sides together.
    x, weights = law.measure.quadrature
    z = np.array([(first + second) / 2 + 0j, first + 1e-3j, 3.0j])
    assert law.cauchy(z) == pytest.approx((weights / (z[:, np.newaxis] - x)).sum(axis=1), rel=1e-8)
